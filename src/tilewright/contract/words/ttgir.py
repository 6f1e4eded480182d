"""What do TTGIR's ops do to the asynchronous protocol? Handlers for `words.walk`, after Triton 3.9's `ttg` and
`ttng`.

An agent is the CTA's warps outside of `ttg.warp_specialize`, and a partition inside. Ops act for all of an agent's
threads at once: where one thread acts (an arrival, a copy's issue), lowering synchronizes the agent's threads before;
where tensors pass through registers, it puts barriers around. Asynchronous are TMA copies, `warp_group_dot` with
isAsync, `tc_gen5_mma` (always: only its barriers, or a later `tc_gen5_commit`, say when it is done), and cp.async.
`barrier_expect` arrives once. Each `async_tma_*` from shared memory is a bulk group of its own.

Not followed (doubts): CTAs of a cluster that signal each other (num-ctas above 1), ops not listed here.
Checked by: tests/driver/check/mlir/test_check_mlir.py.
"""

from __future__ import annotations

import re
from math import prod

from tilewright.contract.words.integers import INTEGER_HANDLERS
from tilewright.contract.words.operations import attribute_number, number_token, plain_uses
from tilewright.contract.words.scalar import add
from tilewright.contract.words.values import (
    Environment,
    InFlight,
    NotFollowed,
    View,
    bind,
    indexed,
    lookup,
    part_of,
    whole_box,
)
from tilewright.contract.words.walk import Dialects, Handler, Walk
from tilewright.contract.words.word import GROUPS_PENDING_MAX, Barrier, Region, Step, Word
from tilewright.frontends.mlir.ast import Operation
from tilewright.frontends.mlir.types import shaped, split_types

_WARPS = re.compile(r"num_warps\((\d+)\)")
_HARMLESS_DIALECTS = ("arith.", "math.", "ub.", "gluon.")
_HARMLESS = frozenset(
    {
        "tt.addptr", "tt.assert", "tt.atomic_cas", "tt.atomic_rmw", "tt.bitcast", "tt.broadcast", "tt.cat", "tt.clampf",
        "tt.dot", "tt.dot_scaled", "tt.expand_dims", "tt.fp_to_fp", "tt.gather", "tt.get_num_programs",
        "tt.get_program_id", "tt.histogram", "tt.int_to_ptr", "tt.join", "tt.load", "tt.make_range", "tt.mulhiui",
        "tt.precise_divf", "tt.precise_sqrt", "tt.print", "tt.ptr_to_int", "tt.reduce", "tt.reshape", "tt.scan",
        "tt.splat", "tt.split", "tt.store", "tt.trans", "tt.unsplat", "tt.map_elementwise", "tt.reduce.return",
        "tt.scan.return", "ttg.barrier", "ttg.convert_layout", "ttg.global_scratch_alloc", "gpu.barrier",
        "ttg.warp_id", "ttng.fence_async_shared", "ttng.reinterpret_tensor_descriptor", "ttng.tensormap_create",
        "ttng.tensormap_fenceproxy_acquire", "ttg.fp4_to_fp", "ttg.mask", "ttng.fence", "tt.flatten",
    }
)  # fmt: skip


def _condition(walk: Walk, environment: Environment, names: tuple[str, ...], place: int, line: int) -> bool:
    """Does the predicate at `place` hold? True where none is given."""
    if place >= len(names):
        return True
    return walk.holds(walk.number(environment, names[place], line), line)


def barrier_of(walk: Walk, environment: Environment, name: str, line: int) -> Barrier:
    """The mbarrier that a view of one 64-bit word names."""
    view = walk.view(environment, name, line)
    if view.kind != "shared" or not view.region.exact or prod(view.shape) != 1:
        raise NotFollowed(line, f"%{name} is no single barrier")
    box = view.region.box
    return view.region.allocation, box[0][0] if len(box) > 1 else 0


def _allocate(walk: Walk, operation: Operation, environment: Environment) -> None:
    described = shaped(split_types(operation.types)[-1])
    if described is None:
        raise NotFollowed(operation.line, f"{operation.types} has no shape that is read")
    kind = "tensor" if operation.name == "ttng.tmem_alloc" else "shared"
    name = f"%{operation.results[0]} of line {operation.line}"
    view = View(
        Region(name, whole_box(described.shape), True, kind == "tensor"),
        described.shape,
        described.element_bits,
        tuple(range(len(described.shape))),
        kind,
    )
    bind(environment, operation.results[0], view)
    outside, _ = plain_uses(operation)
    if outside:
        _touched_registers(walk, environment, outside[:1], operation.line)
        walk.step(Step("write", operation.line, regions=(view.region,)))


def _touched_registers(walk: Walk, environment: Environment, names: tuple[str, ...], line: int) -> None:
    for name in names:
        value = environment.get(name)
        if isinstance(value, InFlight):
            walk.use_in_flight(value, line)


def _index(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    view = walk.view(environment, operation.uses[0], line)
    if len(operation.uses) < 2:
        raise NotFollowed(line, "an index that is no value is not followed")
    index = walk.integer(environment, operation.uses[1], line, "the index of a slot")
    bind(environment, operation.results[0], indexed(view, line, index))


def _subslice(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    view = walk.view(environment, operation.uses[0], line)
    described = shaped(split_types(operation.types)[-1])
    if described is None:
        raise NotFollowed(line, f"{operation.types} has no shape that is read")
    if operation.name == "ttng.tmem_subslice":
        word = "offset" if "offset" in operation.attributes else "N"
        offsets = (*(0,) * (len(view.shape) - 1), attribute_number(operation, word))
    else:
        found = [token for token in operation.tokens if token.kind == "number"]
        offsets = tuple(int(token.text) for token in found if token.text.isdigit())
    bind(environment, operation.results[0], part_of(view, line, offsets, described.shape))


def _transpose(walk: Walk, operation: Operation, environment: Environment) -> None:
    view = walk.view(environment, operation.uses[0], operation.line)
    text = operation.attributes.get("order", "").partition(":")[2].rstrip(">")
    order = tuple(int(part) for part in text.split(",") if part.isdigit())
    if len(order) != len(view.shape):
        raise NotFollowed(operation.line, "a transposition whose order is not read")
    axes = tuple(view.axes[place] for place in order) if view.axes else ()
    shape = tuple(view.shape[place] for place in order)
    bind(environment, operation.results[0], View(view.region, shape, view.element_bits, axes, view.kind))


def _reinterpret(walk: Walk, operation: Operation, environment: Environment) -> None:
    """The same memory in another shape: its parts are no longer told apart."""
    view = walk.view(environment, operation.uses[0], operation.line)
    described = shaped(split_types(operation.types)[-1])
    if described is None:
        raise NotFollowed(operation.line, f"{operation.types} has no shape that is read")
    whole = described.size_bytes == view.size_bytes and view.region.exact
    region = view.region._replace(exact=whole)
    bind(environment, operation.results[0], View(region, described.shape, described.element_bits, (), view.kind))


# ---------------------------------------------------------------- barriers


def _initialise(walk: Walk, operation: Operation, environment: Environment) -> None:
    barrier = barrier_of(walk, environment, operation.uses[0], operation.line)
    walk.step(Step("init", operation.line, barrier, number_token(operation)))


def _invalidate(walk: Walk, operation: Operation, environment: Environment) -> None:
    walk.step(Step("inval", operation.line, barrier_of(walk, environment, operation.uses[0], operation.line)))


def _wait(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, _ = plain_uses(operation, "deps")
    if not _condition(walk, environment, names, 2, line):
        return
    barrier = barrier_of(walk, environment, names[0], line)
    parity = walk.integer(environment, names[1], line, "the parity that is waited for")
    walk.step(Step("wait", line, barrier, parity))


def _arrive(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    if operation.attributes:
        raise NotFollowed(line, f"an arrival with {', '.join(operation.attributes)} is not followed")
    names, _ = plain_uses(operation)
    if _condition(walk, environment, names, 1, line):
        walk.step(Step("arrive", line, barrier_of(walk, environment, names[0], line), number_token(operation)))


def _expect(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, _ = plain_uses(operation)
    if _condition(walk, environment, names, 1, line):
        walk.step(Step("expect", line, barrier_of(walk, environment, names[0], line), number_token(operation)))


# ---------------------------------------------------------------- copies


def _load(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    _of_one_cta(operation)
    names, _ = plain_uses(operation)
    if not _condition(walk, environment, names, 3, line):
        return
    view = walk.view(environment, names[1], line)
    barrier = barrier_of(walk, environment, names[2], line)
    walk.step(Step("load", line, barrier, view.size_bytes, (view.region,)))


def _store(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, _ = plain_uses(operation)
    walk.step(Step("store", line, regions=(walk.view(environment, names[-1], line).region,)))
    walk.step(Step("store_commit", line))


def _pending(operation: Operation, name: str) -> int:
    """The groups that a wait leaves pending."""
    pending = attribute_number(operation, name)
    if pending > GROUPS_PENDING_MAX:
        raise NotFollowed(operation.line, f"a wait that leaves {pending} groups pending is not followed")
    return pending


def _store_wait(walk: Walk, operation: Operation, environment: Environment) -> None:
    kind = "store_wait_read" if "read_only" in operation.attributes else "store_wait"
    walk.step(Step(kind, operation.line, value=_pending(operation, "pendings")))


def _copy(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, _ = plain_uses(operation)
    walk.step(Step("copy", line, regions=(walk.view(environment, names[1], line).region,)))
    bind(environment, operation.results[0], 0)


def _copy_commit(walk: Walk, operation: Operation, environment: Environment) -> None:
    walk.step(Step("copy_commit", operation.line))
    bind(environment, operation.results[0], 0)


def _copy_wait(walk: Walk, operation: Operation, environment: Environment) -> None:
    walk.step(Step("copy_wait", operation.line, value=_pending(operation, "num")))
    bind(environment, operation.results[0], 0)


def _copy_arrive(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    if "noIncrement" not in operation.attributes:
        raise NotFollowed(line, "an arrival of cp.async that raises the count itself is not followed")
    barrier = barrier_of(walk, environment, operation.uses[0], line)
    walk.step(Step("copy_arrive", line, barrier, walk.threads))


# ---------------------------------------------------------------- threads and tensor cores


def _local_load(walk: Walk, operation: Operation, environment: Environment) -> None:
    names, _ = plain_uses(operation)
    view = walk.view(environment, names[0], operation.line)
    walk.step(Step("read", operation.line, regions=(view.region,)))
    for name in operation.results:
        bind(environment, name, walk.unknown(name))


def _local_store(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, _ = plain_uses(operation)
    if not _condition(walk, environment, names, 2, line):
        return
    _touched_registers(walk, environment, names[:1], line)
    view = walk.view(environment, names[1], line)
    walk.step(Step("write", line, regions=(view.region,)))


def _free(walk: Walk, operation: Operation, environment: Environment) -> None:
    view = walk.view(environment, operation.uses[0], operation.line)
    walk.step(Step("free", operation.line, regions=(view.region,)))


def _dot(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    names, _ = plain_uses(operation)
    regions = tuple(value.region for name in names[:2] if isinstance(value := lookup(environment, name, line), View))
    _touched_registers(walk, environment, names[:1], line)
    walk.step(Step("dot", line, regions=regions))
    walk.groups = add(walk.groups, 1)
    if operation.attributes.get("isAsync", "false").startswith("true"):
        bind(environment, operation.results[0], InFlight(walk.groups))
    else:
        walk.step(Step("dot_wait", line))
        bind(environment, operation.results[0], walk.unknown(operation.results[0]))


def _dot_wait(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    walk.step(Step("dot_wait", line, value=_pending(operation, "pendings")))
    for name, use in zip(operation.results, operation.uses, strict=False):
        bind(environment, name, lookup(environment, use, line))


def _tensor_core(walk: Walk, operation: Operation, environment: Environment) -> None:
    """tc_gen5_mma and its scaled form: A, B, D, (scales,) use D, predicate, barriers with predicates in brackets."""
    line = operation.line
    scaled = operation.name.endswith("_scaled")
    _of_one_cta(operation)
    names, _ = plain_uses(operation)
    place = 6 if scaled else 4
    if len(names) <= place:
        raise NotFollowed(line, f"{operation.name} is not written as it is followed")
    if not _condition(walk, environment, names, place, line):
        return
    views = [walk.view(environment, name, line) for name in names[: 5 if scaled else 3]]
    accumulator = views.pop(2)
    walk.step(Step("mma", line, regions=(*(view.region for view in views), accumulator.region)))
    for name, predicate in zip(names[place + 1 :], _bracketed(operation)[-len(names[place + 1 :]) :], strict=False):
        if walk.holds(walk.number(environment, predicate, line), line):
            walk.step(Step("commit", line, barrier_of(walk, environment, name, line)))
    for name in operation.results:
        bind(environment, name, 0)


def _bracketed(operation: Operation) -> list[str]:
    return list(plain_uses(operation)[1])


def _of_one_cta(operation: Operation) -> None:
    for name in ("two_ctas", "multicast"):
        if operation.attributes.get(name, "false").split(":")[0] != "false":
            raise NotFollowed(operation.line, f"{operation.name} with {name} is not followed")


def _commit(walk: Walk, operation: Operation, environment: Environment) -> None:
    line = operation.line
    _of_one_cta(operation)
    names, _ = plain_uses(operation)
    if _condition(walk, environment, names, 1, line):
        walk.step(Step("commit", line, barrier_of(walk, environment, names[0], line)))


# ---------------------------------------------------------------- agents


def _specialize(walk: Walk, operation: Operation, environment: Environment) -> None:
    """The default region goes on as this agent; every partition is an agent of its own until all come together."""
    line = operation.line
    program = walk.program
    captures, _ = _captures(operation)
    partitions = [region for region in operation.regions if region.label.startswith("partition")]
    default = [region for region in operation.regions if region.label == "default"]
    if walk.word.agent != "default" or len(default) != 1 or len(partitions) + 1 != len(operation.regions):
        raise NotFollowed(line, "warp specialization in this place is not followed")
    names: list[str] = []
    for region in partitions:
        if len(region.arguments) != len(captures):
            raise NotFollowed(line, f"{region.label} takes another number of values than it is given")
        name, again = region.label, 1
        while name in program.words:
            again += 1
            name = f"{region.label} ({again})"
        names.append(name)
        word = Word(name, [], [])
        program.words[name] = word
        given = {
            argument.name: walk.carried(environment, capture, line)
            for argument, capture in zip(region.arguments, captures, strict=True)
        }
        warps = _WARPS.search(region.header)
        inner = Walk(program, word, id(region), threads=32 * int(warps.group(1)) if warps else walk.threads)
        inner.body(region, {}, given)
    walk.step(Step("spawn", line, agents=tuple(names)))
    results = walk.body(default[0], environment, {})
    walk.step(Step("join", line, agents=tuple(names)))
    for name, value in zip(operation.results, results, strict=False):
        bind(environment, name, value)


def _captures(operation: Operation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    _, inside = plain_uses(operation)
    return inside, ()


def _program_number(walk: Walk, operation: Operation, environment: Environment) -> None:
    """The same in all agents of a CTA."""
    axis = "".join(token.text for token in operation.tokens)
    bind(environment, operation.results[0], walk.program.atoms.place(operation.name, axis))


_TTGIR_HANDLERS: dict[str, Handler] = {
    "ttg.local_alloc": _allocate,
    "ttng.tmem_alloc": _allocate,
    "ttg.memdesc_index": _index,
    "ttg.memdesc_subslice": _subslice,
    "ttng.tmem_subslice": _subslice,
    "ttg.memdesc_trans": _transpose,
    "ttg.memdesc_reinterpret": _reinterpret,
    "ttg.memdesc_reshape": _reinterpret,
    "ttng.init_barrier": _initialise,
    "ttng.inval_barrier": _invalidate,
    "ttng.wait_barrier": _wait,
    "ttng.arrive_barrier": _arrive,
    "ttng.barrier_expect": _expect,
    "ttng.async_tma_copy_global_to_local": _load,
    "ttng.async_tma_gather": _load,
    "ttng.async_tma_copy_local_to_global": _store,
    "ttng.async_tma_reduce": _store,
    "ttng.async_tma_scatter": _store,
    "ttng.async_tma_store_wait": _store_wait,
    "ttg.async_copy_global_to_local": _copy,
    "ttg.async_commit_group": _copy_commit,
    "ttg.async_wait": _copy_wait,
    "ttng.async_copy_mbarrier_arrive": _copy_arrive,
    "ttg.local_load": _local_load,
    "ttng.tmem_load": _local_load,
    "ttg.local_store": _local_store,
    "ttng.tmem_store": _local_store,
    "ttg.local_dealloc": _free,
    "ttng.warp_group_dot": _dot,
    "ttng.warp_group_dot_wait": _dot_wait,
    "ttng.tc_gen5_mma": _tensor_core,
    "ttng.tc_gen5_mma_scaled": _tensor_core,
    "ttng.tc_gen5_commit": _commit,
    "ttg.warp_specialize": _specialize,
    "tt.get_program_id": _program_number,
    "tt.get_num_programs": _program_number,
}

_WITHOUT_EFFECT = frozenset(
    {
        "ttg.memdesc_index", "ttg.memdesc_subslice", "ttng.tmem_subslice", "ttg.memdesc_trans",
        "ttg.memdesc_reinterpret", "ttg.memdesc_reshape", "tt.get_program_id", "tt.get_num_programs",
    }
)  # fmt: skip


def _is_harmless(operation: Operation) -> bool:
    """Ops that compute on registers or global memory alone, and fences and barriers that order more than the words
    do."""
    return operation.name in _HARMLESS or operation.name.startswith(_HARMLESS_DIALECTS)


TTGIR = Dialects(
    {**INTEGER_HANDLERS, **_TTGIR_HANDLERS},
    _is_harmless,
    frozenset(_TTGIR_HANDLERS) - _WITHOUT_EFFECT,
    frozenset({"ttng.warp_group_dot", "ttng.warp_group_dot_wait"}),
    {
        **{name: slice(None) for name in _TTGIR_HANDLERS if name.startswith("ttng.async_tma_")},
        "ttg.async_copy_global_to_local": slice(1, 2),
        "ttg.async_commit_group": slice(0),
        "ttg.async_wait": slice(0),
        "ttg.local_alloc": slice(0),
        "ttng.tmem_alloc": slice(0),
        "ttg.local_load": slice(1),
        "ttng.tmem_load": slice(1),
        "ttg.local_store": slice(1, None),
        "ttng.tmem_store": slice(1, None),
    },
)
"""TTGIR's ops."""
