"""What do the ops of thread-level MLIR (`nvgpu`, `nvvm`, `gpu`, `memref`, `vector`) do to the asynchronous protocol?
Handlers for `words.walk`.

An agent is a warpgroup: 128 consecutive threads of a block that run the same function with their own thread numbers; in
a block of no whole warpgroups, a warp; in one of no whole warps, the block. `threads` has which of them an op concerns,
`thread_memory` what they touch, `warpgroup_products` what wgmma reads. Each thread's scattered stores are taken to go
to places that no other thread of the group writes in the same op.

An mbarrier is initialised once by whoever comes to it; where several threads initialise it alike, that is a contested
point, and what follows must be ordered after all of them.

Not followed (doubts): multicast and signals to other CTAs, inline PTX, wgmma of other than 16-bit elements, tiles that
warpgroups take in turn (their loops' trip counts follow from one place in the grid: `words.proof`), waits for other
grids but where `words.grid_order` says, `nvgpu.mbarrier.test.wait` where something depends on its outcome, arrivals
that must not complete a phase. Register budgets are not judged.
Checked by: tests/driver/check/test_check_nvgpu.py, test_check_upstream_nvgpu.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.contract.words import thread_memory, threads, warpgroup_products
from tilewright.contract.words.grid_order import GRID_ORDER
from tilewright.contract.words.integers import INTEGER_HANDLERS
from tilewright.contract.words.operations import plain_uses
from tilewright.contract.words.thread_memory import SHARED, span
from tilewright.contract.words.values import OPAQUE, Environment, NotFollowed, View, bind
from tilewright.contract.words.walk import Dialects, Handler, Program, Walk
from tilewright.contract.words.warpgroup_products import GROUP_THREADS, pending, together
from tilewright.contract.words.word import Barrier, Part, Step, Word
from tilewright.frontends.mlir.ast import Operation
from tilewright.frontends.mlir.ast import Region as Body
from tilewright.frontends.mlir.types import shaped

_TENSOR = re.compile(r"tensor=(memref<[^>]*)")
_BARRIERS = re.compile(r"num_barriers=(\d+)")
_BARRIER_BYTES = 8
_BOX_ALIGNMENT = 128
"""Of a box in shared memory (PTX ISA 9.7.9.25.5.2, cp.async.bulk.tensor)."""


def begin_threads(
    body: Body,
    given: Environment,
    block: tuple[int, int, int],
    program: Program,
    bound: Callable[[Walk, Environment], None] | None = None,
) -> None:
    """Evaluate the words of a block's agents. given: the values that the body begins with; bound: adds those that
    differ from agent to agent."""
    total = block[0] * block[1] * block[2]
    size = next((each for each in (GROUP_THREADS, threads.WARP_THREADS) if total % each == 0), total)
    kind = {GROUP_THREADS: "warpgroup", threads.WARP_THREADS: "warp"}.get(size, "block")
    for group in range(total // size):
        name = f"{kind} {group}"
        word = program.words[name] = Word(name, [], [])
        walk = Walk(program, word, threads=size, first=group * size, block=block)
        environment = dict(given)
        if bound is not None:
            bound(walk, environment)
        walk.body(body, environment, {})


def _predicated(walk: Walk, operation: Operation, environment: Environment, act: Callable[[], object]) -> None:
    """Do what an op does under its predicate, if it has one."""
    names, _ = plain_uses(operation)
    part: bool | Part = True
    if "predicate" in [token.text for token in operation.tokens]:
        part = threads.chosen(walk, walk.number(environment, names[-1], operation.line), operation.line)
    if isinstance(part, Part):
        threads.acts(walk, part, act)
    elif part:
        act()


def _by_one(walk: Walk, operation: Operation) -> None:
    if not threads.is_one(walk):
        raise NotFollowed(operation.line, f"{operation.name} by {threads.count(walk)} threads is not followed")


# ---------------------------------------------------------------- barriers


def _barrier(walk: Walk, environment: Environment, names: tuple[str, ...], inside: tuple[str, ...], line: int,
             place: int = 0) -> Barrier:  # fmt: skip
    """The barrier of a group, which may be written without its place in it."""
    view = walk.view(environment, names[place], line)
    index = walk.integer(environment, inside[-1], line, "which barrier of a group it is") if inside else 0
    begin, end = view.region.box[0]
    if not 0 <= index < (end - begin) // _BARRIER_BYTES:
        raise NotFollowed(line, f"barrier {index} of a group of {(end - begin) // _BARRIER_BYTES}")
    allocation = "shared byte" if view.region.allocation == SHARED else view.region.allocation
    return allocation, begin + _BARRIER_BYTES * index


def _create(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvgpu.mbarrier.create: a group of barriers in memory of its own."""
    found = _BARRIERS.search(operation.types or "".join(token.text for token in operation.tokens))
    size = _BARRIER_BYTES * (int(found[1]) if found is not None else 1)
    name = f"%{operation.results[0]}"
    bind(environment, operation.results[0], View(span(0, size, name), (size,), 8, (), "shared"))


def _initialise(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, inside = plain_uses(operation)
    barrier = _barrier(walk, environment, names, inside, line)
    count = walk.integer(environment, names[1], line, "a barrier's count")
    _predicated(walk, operation, environment, lambda: walk.step(Step("init", line, barrier, count)))


def _wait(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, inside = plain_uses(operation)
    parity = walk.integer(environment, names[1], line, "the parity that is waited for")
    walk.step(Step("wait", line, _barrier(walk, environment, names, inside, line), parity))


def _arrive(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, inside = plain_uses(operation)
    walk.step(Step("arrive", line, _barrier(walk, environment, names, inside, line), threads.count(walk)))
    for name in operation.results:
        bind(environment, name, OPAQUE)


def _expect(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, inside = plain_uses(operation)
    barrier = _barrier(walk, environment, names, inside, line)
    size = walk.integer(environment, names[1], line, "the number of bytes expected")

    def act() -> None:
        count = threads.count(walk)
        if count == 1:
            walk.step(Step("expect", line, barrier, size))
        else:
            # Each thread expects its bytes before it arrives.
            walk.step(Step("expect_only", line, barrier, size * count))
            walk.step(Step("arrive", line, barrier, count))

    _predicated(walk, operation, environment, act)


def _tested(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvgpu.mbarrier.test.wait: it waits for nothing, and what it reports is not known."""
    for name in operation.results:
        bind(environment, name, walk.unknown(name))


def _arrived_within(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvgpu.mbarrier.arrive.nocomplete."""
    raise NotFollowed(operation.line, "an arrival that must not complete a phase is not followed")


def _block_barrier(walk: Walk, operation: Operation, environment: Environment) -> None:
    """gpu.barrier, and nvvm.barrier of the block's threads or of the warpgroup's own."""
    line = operation.line
    together(walk, operation)
    names, _ = plain_uses(operation)
    if not names:
        walk.step(Step("sync", line))
        return
    texts = [token.text for token in operation.tokens]
    if "id" not in texts or "number_of_threads" not in texts or len(names) != 2:
        raise NotFollowed(line, "a barrier that is not written as it is followed")
    number = walk.integer(environment, names[0], line, "a barrier's number")
    size = walk.integer(environment, names[1], line, "a barrier's number of threads")
    if size == walk.block[0] * walk.block[1] * walk.block[2]:
        walk.step(Step("sync", line))
    elif size == walk.threads:
        walk.step(Step("group_sync", line, value=number))
    else:
        raise NotFollowed(line, f"a barrier of {size} threads is not followed")


def _warp_barrier(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvvm.bar.warp.sync: what a warp's threads learn of each other is left out where they are not an agent."""
    if walk.threads <= threads.WARP_THREADS and walk.part is None:
        walk.step(Step("group_sync", operation.line, value=-1))


def _fence(walk: Walk, operation: Operation, environment: Environment) -> None:
    if "async" in str(operation.attributes):
        walk.step(Step("fence", operation.line))


# ---------------------------------------------------------------- copies


def _box_bytes(operation: Operation) -> int:
    found = _TENSOR.search(operation.types)
    described = shaped(found[1] + ">") if found else None
    if described is None:
        raise NotFollowed(operation.line, "the box of a tensor map is not read")
    return described.size_bytes


def _box_place(walk: Walk, environment: Environment, name: str, line: int) -> int:
    """The byte where a copy's box begins in its allocation."""
    region = walk.view(environment, name, line).region
    if not region.exact:
        raise NotFollowed(line, f"%{name} is memory whose place is not known")
    if region.box[0][0] % _BOX_ALIGNMENT:
        raise NotFollowed(line, f"a copy at byte {region.box[0][0]}, which is no multiple of {_BOX_ALIGNMENT}")
    return region.box[0][0]


def _load(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, inside = plain_uses(operation)
    texts = [token.text for token in operation.tokens]
    if "multicast_mask" in texts:
        raise NotFollowed(line, "a copy to several CTAs is not followed in MLIR")

    def act() -> None:
        _by_one(walk, operation)
        # A group of one barrier may be written without its place: then all in brackets are coordinates.
        own = inside[-1:] if texts[texts.index(names[1]) + 1] == "[" else ()
        barrier = _barrier(walk, environment, names, own, line, 1)
        begin, size = _box_place(walk, environment, names[2], line), _box_bytes(operation)
        view = walk.view(environment, names[2], line)
        walk.step(Step("load", line, barrier, size, (span(begin, begin + size, view.region.allocation),)))

    _predicated(walk, operation, environment, act)


def _store(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, _ = plain_uses(operation)

    def act() -> None:
        _by_one(walk, operation)
        begin, view = _box_place(walk, environment, names[0], line), walk.view(environment, names[0], line)
        region = span(begin, begin + _box_bytes(operation), view.region.allocation)
        walk.step(Step("store", line, regions=(region,)))

    _predicated(walk, operation, environment, act)


def _store_commit(walk: Walk, operation: Operation, environment: Environment) -> None:
    walk.step(Step("store_commit", operation.line))


def _store_wait(walk: Walk, operation: Operation, environment: Environment) -> None:
    kind = "store_wait_read" if "read" in operation.attributes else "store_wait"
    walk.step(Step(kind, operation.line, value=pending(operation)))


def _place(walk: Walk, operation: Operation, environment: Environment) -> None:
    """Where in the grid or the cluster a block is, and how large these are: the same for all its threads."""
    axis = operation.tokens[0].text if operation.tokens else ""
    bind(environment, operation.results[0], walk.program.atoms.place(operation.name, axis))


_EFFECTS: dict[str, Handler] = {
    "nvgpu.mbarrier.init": _initialise,
    "nvgpu.mbarrier.try_wait.parity": _wait,
    "nvgpu.mbarrier.test.wait": _tested,
    "nvgpu.mbarrier.arrive": _arrive,
    "nvgpu.mbarrier.arrive.nocomplete": _arrived_within,
    "nvgpu.mbarrier.arrive.expect_tx": _expect,
    "nvgpu.tma.async.load": _load,
    "nvgpu.tma.async.store": _store,
    "nvgpu.device_async_copy": thread_memory.copy,
    "nvgpu.device_async_create_group": thread_memory.copy_commit,
    "nvgpu.device_async_wait": thread_memory.copy_wait,
    "nvgpu.ldmatrix": thread_memory.read_somewhere,
    "nvgpu.warpgroup.mma": warpgroup_products.whole_product,
    "nvgpu.warpgroup.mma.store": warpgroup_products.store,
    "nvvm.cp.async.bulk.commit.group": _store_commit,
    "nvvm.cp.async.bulk.wait_group": _store_wait,
    "nvvm.wgmma.mma_async": warpgroup_products.product,
    "nvvm.wgmma.fence.aligned": warpgroup_products.product_fence,
    "nvvm.wgmma.commit.group.sync.aligned": warpgroup_products.commit,
    "nvvm.wgmma.wait.group.sync.aligned": warpgroup_products.wait_products,
    "nvvm.barrier": _block_barrier,
    "nvvm.barrier0": _block_barrier,
    "gpu.barrier": _block_barrier,
    "nvvm.bar.warp.sync": _warp_barrier,
    "nvvm.fence.proxy": _fence,
    "vector.scatter": thread_memory.write_somewhere,
    "vector.transfer_write": thread_memory.write_somewhere,
    "vector.store": thread_memory.write,
    "memref.store": thread_memory.write,
    "vector.gather": thread_memory.read_somewhere,
    "vector.transfer_read": thread_memory.read_somewhere,
    "vector.load": thread_memory.read,
    "memref.load": thread_memory.read,
}

_MEMORY: dict[str, Handler] = {
    "gpu.dynamic_shared_memory": thread_memory.base,
    "memref.get_global": thread_memory.global_memory,
    "memref.alloc": thread_memory.global_memory,
    "memref.alloca": thread_memory.global_memory,
    "memref.view": thread_memory.view,
    "memref.subview": thread_memory.part,
    "memref.reinterpret_cast": thread_memory.recast,
    "memref.cast": thread_memory.same,
    "memref.assume_alignment": thread_memory.same,
    "nvgpu.mbarrier.create": _create,
    "nvgpu.warpgroup.generate.descriptor": warpgroup_products.descriptor,
    "builtin.unrealized_conversion_cast": thread_memory.same,
}
"""Ops whose results may be shared memory: what uses these is looked at."""

_VALUES: dict[str, Handler] = {
    "gpu.thread_id": threads.thread_number,
    "gpu.lane_id": threads.lane_number,
    "gpu.subgroup_id": threads.lane_number,
    "gpu.block_dim": threads.block_extent,
    **dict.fromkeys(
        ("gpu.block_id", "gpu.grid_dim", "gpu.cluster_id", "gpu.cluster_dim", "gpu.cluster_block_id",
         "gpu.cluster_dim_blocks"), _place,
    ),
    "gpu.shuffle": threads.shuffle,
    "nvvm.shfl.sync": threads.shuffle,
    "nvvm.elect.sync": threads.elect,
    "nvgpu.warpgroup.mma.init.accumulator": warpgroup_products.begin,
    "memref.extract_aligned_pointer_as_index": thread_memory.pointer,
    "scf.if": threads.condition,
    "scf.for": threads.loop,
}  # fmt: skip

_INTEGERS = {
    name: handler if name.startswith("scf.") or name == "arith.constant" else threads.of_each_thread(handler)
    for name, handler in INTEGER_HANDLERS.items()
}
_INDEX = {"index.casts": _INTEGERS["arith.index_cast"], "index.castu": _INTEGERS["arith.index_castui"]}

_HARMLESS_DIALECTS = ("arith.", "math.", "vector.", "llvm.mlir.", "llvm.extractvalue", "llvm.insertvalue", "ub.",
                      "index.")  # fmt: skip
_HARMLESS = frozenset(
    {
        "nvgpu.tma.prefetch.descriptor", "nvgpu.mma.sync", "nvgpu.mma.sp.sync", "nvgpu.rcp",
        "nvvm.fence.mbarrier.init", "nvvm.setmaxregister", "gpu.printf", "gpu.global_id", "gpu.num_subgroups",
        "gpu.subgroup_size", "llvm.poison", "llvm.bitcast", "memref.dim", "memref.dealloc", GRID_ORDER,
    }
)  # fmt: skip


def _is_harmless(operation: Operation) -> bool:
    return operation.name in _HARMLESS or operation.name.startswith(_HARMLESS_DIALECTS)


NVGPU = Dialects(
    {**_INTEGERS, **_INDEX, **_EFFECTS, **_MEMORY, **_VALUES},
    _is_harmless,
    frozenset(_EFFECTS),
    frozenset({"nvvm.wgmma.mma_async", "nvgpu.warpgroup.mma", *_MEMORY}),
    {},
    follows_memory=frozenset({"memref.dim", "memref.dealloc"}),
)
"""The ops of thread-level MLIR."""


def block_extents(operation: Operation) -> tuple[int, int, int] | None:
    """The extents of a function's block, from `nvvm.reqntid` or `known_block_size`; None where it does not say."""
    for name in ("nvvm.reqntid", "gpu.known_block_size", "known_block_size"):
        extents = re.findall(r"\d+", operation.attributes.get(name, "").partition(":")[2])
        if 0 < len(extents) <= 3:
            x, y, z = (*map(int, extents), 1, 1)[:3]
            return x, y, z
    return None
