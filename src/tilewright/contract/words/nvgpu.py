"""What do the ops of thread-level MLIR (`nvgpu`, `nvvm`, `gpu`, `memref`, `vector`) do to the asynchronous protocol?
Handlers for `words.walk`.

An agent is a warpgroup: 128 consecutive threads that run the same function with their own thread numbers. A thread's
number is 128 w plus an unknown lane; a condition that holds for lane 0 alone makes what it guards the act of one
thread, any other condition on the lane is not followed. Shared memory is dynamic and known by byte offsets; a wgmma's
operands are decoded from its descriptors, which `footprint` turns into byte ranges. Each thread's scattered stores are
taken to go to places that no other thread of the group writes in the same op.

Not followed (doubts): clusters and multicast, inline PTX, generic reads of shared memory, wgmma of other than 16-bit
elements, blocks whose threads are no multiple of 128, tiles that warpgroups take in turn (their loops' trip counts
follow from one place in the grid: `words.proof`), waits for other grids but where `words.grid_order` says.
Register budgets are not judged.
Checked by: tests/driver/check/test_check_nvgpu.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.contract.typestate.footprint import merged, operand_ranges
from tilewright.contract.words.grid_order import GRID_ORDER
from tilewright.contract.words.integers import INTEGER_HANDLERS, compare
from tilewright.contract.words.operations import number_token, plain_uses
from tilewright.contract.words.scalar import Number, Scalar, add, scalar
from tilewright.contract.words.values import OPAQUE, Environment, InFlight, NotFollowed, Value, View, bind, lookup
from tilewright.contract.words.walk import Dialects, Handler, Program, Walk
from tilewright.contract.words.word import GROUPS_PENDING_MAX, Barrier, Region, Step, Word
from tilewright.frontends.mlir.ast import Argument, Operation
from tilewright.frontends.mlir.ast import Region as Body
from tilewright.frontends.mlir.reader import joined
from tilewright.frontends.mlir.types import shaped

GROUP_THREADS = 128
_SHARED = "shared memory"
_TENSOR = re.compile(r"tensor=(memref<[^>]*)")
_SHAPE = re.compile(r"m=(\d+),n=(\d+),k=(\d+)")
_OPERAND = re.compile(r"\b([AB])\[<(\w+)>,<(\w+)>,<(\w+)>\]")
_SWIZZLES = {0: "none", 1: "128B", 2: "64B", 3: "32B"}


def warpgroups(body: Body, arguments: tuple[Argument, ...], threads: int, program: Program) -> None:
    """Evaluate the words of a block's warpgroups."""
    for group in range(threads // GROUP_THREADS):
        name = f"warpgroup {group}"
        word = program.words[name] = Word(name, [], [])
        walk = Walk(program, word)
        given: Environment = {argument.name: OPAQUE for argument in arguments}
        given[_GROUP] = group
        given[_THREADS] = threads
        walk.body(body, given, {})


_GROUP, _THREADS = "warpgroup of the agent", "threads of the block"
"""Names that no value of a program has."""


# ---------------------------------------------------------------- thread numbers


def _lane(walk: Walk) -> Scalar:
    return walk.program.atoms.of("lane")


def _beyond_lane(walk: Walk, number: Number) -> int | None:
    """What a number is besides one thread's place in its warpgroup; None if it is no such sum."""
    whole = scalar(number)
    if whole.atoms != _lane(walk).atoms or whole.slope:
        return None
    return whole.value


def _is_first(walk: Walk) -> Scalar:
    """The condition that a thread is the first of its warpgroup."""
    return walk.program.atoms.of("first thread")


def _thread(walk: Walk, operation: Operation, environment: Environment) -> None:
    if joined(operation.tokens) != "x":
        bind(environment, operation.results[0], 0)
        return
    group = lookup(environment, _GROUP, operation.line)
    assert isinstance(group, int)
    bind(environment, operation.results[0], add(_lane(walk), group * GROUP_THREADS))


def _of_lane(handler: Handler) -> Handler:
    """Divisions of a thread's number by 128; everything else as `handler` has it."""

    def handle(walk: Walk, operation: Operation, environment: Environment) -> None:
        if len(operation.uses) == 2 and operation.types in ("index", "i32", "i64"):
            left, right = (walk.number(environment, name, operation.line) for name in operation.uses)
            beyond = _beyond_lane(walk, left)
            if right == GROUP_THREADS and beyond is not None and beyond >= 0 and beyond % GROUP_THREADS == 0:
                divided = operation.name.startswith("arith.div")
                bind(environment, operation.results[0], beyond // GROUP_THREADS if divided else _lane(walk))
                return
        handler(walk, operation, environment)

    return handle


def _compare(walk: Walk, operation: Operation, environment: Environment) -> None:
    """arith.cmpi: of a thread's number, decided by its range, or the first thread's own condition."""
    if operation.types in ("index", "i32", "i64"):
        predicate = operation.tokens[0].text
        left, right = (walk.number(environment, name, operation.line) for name in operation.uses[:2])
        beyond = _beyond_lane(walk, add(left, right, -1))
        if beyond is not None and predicate in ("eq", "slt", "ult"):
            found: Value | None = None
            if predicate == "eq":
                outside = beyond > 0 or beyond <= -GROUP_THREADS
                found = 0 if outside else _is_first(walk) if beyond == 0 else None
            elif beyond >= 0 or beyond <= -GROUP_THREADS:
                found = int(beyond < 0)
            elif beyond == -1:
                found = _is_first(walk)
            if found is not None:
                bind(environment, operation.results[0], found)
                return
    compare(walk, operation, environment)


def _condition(walk: Walk, operation: Operation, environment: Environment) -> None:
    """scf.if: what the first thread alone does is a step of one thread."""
    number = walk.number(environment, operation.uses[0], operation.line)
    if number == _is_first(walk):
        if operation.results or (len(operation.regions) > 1 and operation.regions[1].operations):
            raise NotFollowed(operation.line, "what one thread and the others do in turn is not followed")
        _alone(walk, lambda: walk.body(operation.regions[0], environment, {}))
        return
    if not isinstance(number, Scalar):
        walk.condition(operation, environment)
        return
    # Stores to global memory, say, are no steps: whether they happen does not matter.
    before = len(walk.word.steps)
    for region in operation.regions:
        walk.body(region, environment, {})
    if len(walk.word.steps) > before:
        raise NotFollowed(operation.line, "a condition that is not the same for a warpgroup's threads is not followed")
    for name in operation.results:
        bind(environment, name, walk.unknown(name))


def _alone(walk: Walk, act: Callable[[], object]) -> None:
    """Do what one thread does."""
    before, walk.single = walk.single, True
    act()
    walk.single = before


def _predicated(walk: Walk, operation: Operation, environment: Environment, step: Step) -> None:
    """A step under the op's predicate, if it has one."""
    names, _ = plain_uses(operation)
    texts = [token.text for token in operation.tokens]
    if "predicate" not in texts:
        walk.step(step)
        return
    number = walk.number(environment, names[-1], operation.line)
    if number == _is_first(walk):
        _alone(walk, lambda: walk.step(step))
    elif not isinstance(number, int):
        raise NotFollowed(operation.line, "a predicate that is not the same for a warpgroup's threads is not followed")
    elif number:
        walk.step(step)


def _together(walk: Walk, operation: Operation) -> None:
    if walk.single:
        raise NotFollowed(operation.line, f"{operation.name} by one thread of a warpgroup is not followed")


# ---------------------------------------------------------------- memory


def _same(walk: Walk, operation: Operation, environment: Environment) -> None:
    bind(environment, operation.results[0], environment.get(operation.uses[0], OPAQUE))


def _shuffle(walk: Walk, operation: Operation, environment: Environment) -> None:
    """A value that is the same for the whole warpgroup stays what it is."""
    value = lookup(environment, operation.uses[0], operation.line)
    bind(environment, operation.results[0], value if isinstance(value, int) else walk.unknown(operation.results[0]))
    for name in operation.results[1:]:
        bind(environment, name, 1)


def _base(walk: Walk, operation: Operation, environment: Environment) -> None:
    """Dynamic shared memory begins at offset 0."""
    value: Value = OPAQUE
    if operation.name == "gpu.dynamic_shared_memory":
        value = View(Region(_SHARED, ((0, 1 << 30),)), (1 << 30,), 8, (0,), "shared")
    bind(environment, operation.results[0], value)


def _pointer(walk: Walk, operation: Operation, environment: Environment) -> None:
    value = lookup(environment, operation.uses[0], operation.line)
    base = value.region.box[0][0] if isinstance(value, View) else walk.unknown(operation.results[0])
    bind(environment, operation.results[0], base)


def _view(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    source = lookup(environment, operation.uses[0], line)
    described = shaped(operation.types.rsplit("to ", 1)[-1])
    if not isinstance(source, View) or described is None:
        bind(environment, operation.results[0], OPAQUE)
        return
    offset = walk.integer(environment, operation.uses[1], line, "an offset in shared memory")
    begin = source.region.box[0][0] + offset
    region = Region(_SHARED, ((begin, begin + described.size_bytes),))
    bind(environment, operation.results[0], View(region, described.shape, described.element_bits, (), "shared"))


def _scatter(walk: Walk, operation: Operation, environment: Environment) -> None:
    place = 1 if operation.name in ("memref.store", "vector.store", "vector.transfer_write") else 0
    names, _ = plain_uses(operation)
    value = environment.get(names[place])
    for use in operation.uses:
        held = environment.get(use)
        if isinstance(held, InFlight):
            walk.use_in_flight(held, operation.line)
    if isinstance(value, View):
        walk.step(Step("write", operation.line, regions=(value.region,)))


def _gather(walk: Walk, operation: Operation, environment: Environment) -> None:
    names, _ = plain_uses(operation)
    if isinstance(environment.get(names[0]), View):
        raise NotFollowed(operation.line, "threads' reads of shared memory are not followed in thread-level MLIR")
    for name in operation.results:
        bind(environment, name, OPAQUE)


# ---------------------------------------------------------------- barriers


def _barrier(walk: Walk, environment: Environment, group: str, index: str, line: int) -> Barrier:
    view = walk.view(environment, group, line)
    place = walk.integer(environment, index, line, "which barrier of a group it is")
    begin, end = view.region.box[0]
    if not 0 <= place < (end - begin) // 8:
        raise NotFollowed(line, f"barrier {place} of a group of {(end - begin) // 8}")
    return "shared byte", begin + 8 * place


def _initialise(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, inside = plain_uses(operation)
    barrier = _barrier(walk, environment, names[0], inside[0], line)
    count = walk.integer(environment, names[1], line, "a barrier's count")
    _predicated(walk, operation, environment, Step("init", line, barrier, count))


def _wait(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, inside = plain_uses(operation)
    parity = walk.integer(environment, names[1], line, "the parity that is waited for")
    walk.step(Step("wait", line, _barrier(walk, environment, names[0], inside[0], line), parity))


def _arrive(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, inside = plain_uses(operation)
    barrier = _barrier(walk, environment, names[0], inside[0], line)
    walk.step(Step("arrive", line, barrier, 1 if walk.single else GROUP_THREADS))
    for name in operation.results:
        bind(environment, name, OPAQUE)


def _expect(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, inside = plain_uses(operation)
    barrier = _barrier(walk, environment, names[0], inside[0], line)
    size = walk.integer(environment, names[1], line, "the number of bytes expected")
    if not walk.single and "predicate" not in [token.text for token in operation.tokens]:
        raise NotFollowed(line, "an expectation by all threads of a warpgroup is not followed")
    _predicated(walk, operation, environment, Step("expect", line, barrier, size))


def _block_barrier(walk: Walk, operation: Operation, environment: Environment) -> None:
    """gpu.barrier, and nvvm.barrier of the block's threads or of the warpgroup's own."""
    line = operation.line
    _together(walk, operation)
    names, _ = plain_uses(operation)
    if not names:
        walk.step(Step("sync", line))
        return
    texts = [token.text for token in operation.tokens]
    if "id" not in texts or "number_of_threads" not in texts or len(names) != 2:
        raise NotFollowed(line, "a barrier that is not written as it is followed")
    number = walk.integer(environment, names[0], line, "a barrier's number")
    threads = walk.integer(environment, names[1], line, "a barrier's number of threads")
    if threads == GROUP_THREADS:
        walk.step(Step("group_sync", line, value=number))
    elif threads == environment.get(_THREADS):
        walk.step(Step("sync", line))
    else:
        raise NotFollowed(line, f"a barrier of {threads} threads is not followed")


def _fence(walk: Walk, operation: Operation, environment: Environment) -> None:
    if not walk.single and "async" in str(operation.attributes):
        walk.step(Step("fence", operation.line))


# ---------------------------------------------------------------- copies


def _box_bytes(operation: Operation) -> int:
    found = _TENSOR.search(operation.types)
    described = shaped(found[1] + ">") if found else None
    if described is None:
        raise NotFollowed(operation.line, "the box of a tensor map is not read")
    return described.size_bytes


def _load(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, inside = plain_uses(operation)
    texts = [token.text for token in operation.tokens]
    if "multicast_mask" in texts:
        raise NotFollowed(line, "a copy to several CTAs is not followed in MLIR")
    if not walk.single and "predicate" not in texts:
        raise NotFollowed(line, "a copy by all threads of a warpgroup is not followed")
    barrier = _barrier(walk, environment, names[1], inside[-1], line)
    begin = walk.view(environment, names[2], line).region.box[0][0]
    size = _box_bytes(operation)
    _predicated(walk, operation, environment, Step("load", line, barrier, size, (_bytes(begin, begin + size),)))


def _store(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, _ = plain_uses(operation)
    if not walk.single and "predicate" not in [token.text for token in operation.tokens]:
        raise NotFollowed(line, "a copy by all threads of a warpgroup is not followed")
    begin = walk.view(environment, names[0], line).region.box[0][0]
    region = _bytes(begin, begin + _box_bytes(operation))
    _predicated(walk, operation, environment, Step("store", line, regions=(region,)))


def _bytes(begin: int, end: int) -> Region:
    return Region(_SHARED, ((begin, end),))


def _store_commit(walk: Walk, operation: Operation, environment: Environment) -> None:
    walk.step(Step("store_commit", operation.line))


def _pending(operation: Operation) -> int:
    pending = number_token(operation)
    if pending > GROUPS_PENDING_MAX:
        raise NotFollowed(operation.line, f"a wait that leaves {pending} groups pending is not followed")
    return pending


def _store_wait(walk: Walk, operation: Operation, environment: Environment) -> None:
    kind = "store_wait_read" if "read" in operation.attributes else "store_wait"
    walk.step(Step(kind, operation.line, value=_pending(operation)))


# ---------------------------------------------------------------- wgmma


def _product(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvvm.wgmma.mma_async: its operands' bytes belong to the group that is committed next."""
    line = operation.line
    _together(walk, operation)
    text = joined(operation.tokens).replace(" ", "")
    shape = _SHAPE.search(text)
    operands = {found[1]: (found[2], found[4]) for found in _OPERAND.finditer(text)}
    if shape is None or set(operands) != {"A", "B"} or shape[3] != "16":
        raise NotFollowed(line, "a wgmma that is not written as it is followed")
    names, _ = plain_uses(operation)
    for which, name, extent in (("A", names[0], int(shape[1])), ("B", names[1], int(shape[2]))):
        element, major = operands[which]
        if element not in ("bf16", "f16"):
            raise NotFollowed(line, f"a wgmma of {element} is not followed")
        descriptor = walk.integer(environment, name, line, "a matrix descriptor")
        transposed = (major == "col") if which == "A" else (major == "row")
        walk.pieces += _operand(descriptor, "MN" if transposed else "K", extent, line)
    bind(environment, operation.results[0], InFlight(add(walk.groups, 1)))


def _operand(descriptor: int, major: str, extent: int, line: int) -> list[Region]:
    """The bytes that a matrix descriptor's operand has (PTX ISA 9.7.15.5.1.2)."""
    start = (descriptor & 0x3FFF) << 4
    leading, stride = (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
    swizzle = _SWIZZLES.get(descriptor >> 62 & 3)
    if swizzle is None:
        raise NotFollowed(line, "a matrix descriptor whose swizzle is not read")
    ranges = operand_ranges(major, swizzle, extent, leading, stride, (start,))
    return [_bytes(begin, end) for begin, end in ranges]


def _commit(walk: Walk, operation: Operation, environment: Environment) -> None:
    _together(walk, operation)
    ranges = merged(region.box[0] for region in walk.pieces)
    walk.pieces = []
    walk.step(Step("dot", operation.line, regions=tuple(_bytes(begin, end) for begin, end in ranges)))
    walk.groups = add(walk.groups, 1)


def _product_fence(walk: Walk, operation: Operation, environment: Environment) -> None:
    _together(walk, operation)
    walk.step(Step("dot_fence", operation.line))


def _wait_products(walk: Walk, operation: Operation, environment: Environment) -> None:
    _together(walk, operation)
    walk.step(Step("dot_wait", operation.line, value=_pending(operation)))


def _block(walk: Walk, operation: Operation, environment: Environment) -> None:
    axis = joined(operation.tokens)
    bind(environment, operation.results[0], walk.program.atoms.place(operation.name, axis))


_NVGPU_HANDLERS: dict[str, Handler] = {
    "nvgpu.mbarrier.init": _initialise,
    "nvgpu.mbarrier.try_wait.parity": _wait,
    "nvgpu.mbarrier.arrive": _arrive,
    "nvgpu.mbarrier.arrive.expect_tx": _expect,
    "nvgpu.tma.async.load": _load,
    "nvgpu.tma.async.store": _store,
    "nvvm.cp.async.bulk.commit.group": _store_commit,
    "nvvm.cp.async.bulk.wait_group": _store_wait,
    "nvvm.wgmma.mma_async": _product,
    "nvvm.wgmma.fence.aligned": _product_fence,
    "nvvm.wgmma.commit.group.sync.aligned": _commit,
    "nvvm.wgmma.wait.group.sync.aligned": _wait_products,
    "nvvm.barrier": _block_barrier,
    "nvvm.barrier0": _block_barrier,
    "gpu.barrier": _block_barrier,
    "nvvm.fence.proxy": _fence,
    "vector.scatter": _scatter,
    "vector.store": _scatter,
    "vector.transfer_write": _scatter,
    "memref.store": _scatter,
    "vector.gather": _gather,
    "vector.load": _gather,
    "vector.transfer_read": _gather,
    "memref.load": _gather,
}

_VALUES: dict[str, Handler] = {
    "gpu.thread_id": _thread,
    "gpu.block_id": _block,
    "gpu.grid_dim": _block,
    "gpu.shuffle": _shuffle,
    "gpu.dynamic_shared_memory": _base,
    "memref.extract_aligned_pointer_as_index": _pointer,
    "memref.view": _view,
    "builtin.unrealized_conversion_cast": _same,
    "arith.divui": _of_lane(INTEGER_HANDLERS["arith.divui"]),
    "arith.remui": _of_lane(INTEGER_HANDLERS["arith.remui"]),
    "arith.cmpi": _compare,
    "scf.if": _condition,
}

_HARMLESS_DIALECTS = ("arith.", "math.", "vector.", "llvm.mlir.", "llvm.extractvalue", "llvm.insertvalue", "ub.")
_HARMLESS = frozenset(
    {
        "nvgpu.tma.prefetch.descriptor", "nvvm.fence.mbarrier.init", "nvvm.setmaxregister",
        "memref.reinterpret_cast", "memref.cast", "gpu.block_dim", "llvm.poison",
        "llvm.bitcast", GRID_ORDER,
    }
)  # fmt: skip


def _is_harmless(operation: Operation) -> bool:
    return operation.name in _HARMLESS or operation.name.startswith(_HARMLESS_DIALECTS)


NVGPU = Dialects(
    {**INTEGER_HANDLERS, **_NVGPU_HANDLERS, **_VALUES},
    _is_harmless,
    frozenset(_NVGPU_HANDLERS),
    frozenset({"nvvm.wgmma.mma_async"}),
    {},
)
"""The ops of thread-level MLIR."""


def block_threads(operation: Operation) -> int | None:
    """The threads of a function's block, from `nvvm.reqntid`; None where it does not say, or not in whole
    warpgroups."""
    extents = re.findall(r"\d+", operation.attributes.get("nvvm.reqntid", "").partition(":")[2])
    if not extents:
        return None
    threads = 1
    for extent in extents:
        threads *= int(extent)
    return threads if threads % GROUP_THREADS == 0 and int(extents[0]) == threads else None
