"""Do warps that turn tiles of points (`ac.elementwise` with `transpose`) keep to their own shared memory, and are their
runs aligned?

A warp orders its own accesses (bar.warp.sync before it stores again, and between store and load), so that nothing else
need be shown than that no other warp touches its part: the addresses of an exchange are linear over F2 in lane, warp
and instruction, and those of different warps are apart if no combination of warps, but none, is one of the others'.
Elements of another size are exchanged in memory of their own, behind.

Not shown here: that the exchange brings every element to its place; that is `synth`'s algebra, the text's addresses are
proved to be the plan's, and values are compared on the machine. Checked by:
tests/contract/typestate/steps/test_transpose_steps.py.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilewright.base.element import parse_element
from tilewright.contract.typestate.run_time_sizes import fixed
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import transpose_of
from tilewright.ir.exchange import Access, ExchangePlan, Load, Stage, Store
from tilewright.ir.transpose import TransposeDecision
from tilewright.layout.numbers import bit_matrix

_VECTOR_BYTES = 16
_LANES = 32


def require_transposed(walk: RoleWalk, op: ac.ElementwiseOp) -> None:
    """Doubt or refute an op whose warps turn tiles, where it breaks a rule."""
    assert op.transpose is not None
    try:
        decision = transpose_of(op.transpose)
    except (KeyError, TypeError):
        walk.findings.doubt("turns tiles in a way that is not understood", op)
        return
    sizes = (decision.side, decision.stored_run, decision.loaded_run, decision.warps)
    axes = (decision.stored_axis, decision.loaded_axis)
    extents = fixed(op.extents, op, walk.findings)
    known = all(size > 0 and size & size - 1 == 0 for size in sizes) and all(0 <= at < len(extents) for at in axes)
    if (
        not known
        or axes[0] == axes[1]
        or decision.side**2 < _LANES * max(sizes[1:3])
        or decision.side < max(sizes[1:3])
    ):
        walk.findings.doubt("turns tiles in a way that is not understood", op)
        return
    if (
        walk.role.unit != "warp32"
        or walk.role.count != decision.warps
        or walk.kernel.block_threads != walk.role.threads
    ):
        walk.findings.doubt(f"tiles are dealt to {decision.warps} warps, of which the role has another number", op)
    for axis, run in ((decision.stored_axis, decision.stored_run), (decision.loaded_axis, decision.loaded_run)):
        if extents[axis] % run:
            walk.findings.doubt(f"runs of {run} points do not divide an extent of {extents[axis]}", op)
    _require_buffer(walk, op, decision)
    for plan in decision.plans:
        _require_own_parts(walk, op, plan)
    _require_alignment(walk, op, decision)


def _require_buffer(walk: RoleWalk, op: ac.ElementwiseOp, decision: TransposeDecision) -> None:
    if len(op.through) != 1:
        walk.findings.doubt("goes through something other than one buffer", op)
        return
    buffer = walk.buffer_of(op, op.through[0])
    if buffer is None:
        return
    held = [plan.shared_bytes for plan in decision.plans]
    if not all(_is(each, int) and each >= 0 and each % _VECTOR_BYTES == 0 for each in held):
        walk.findings.doubt("its plans' memory is not understood", op)
        return
    size, needed = buffer.slots * buffer.slot_bytes, sum(held)
    if buffer.ring:
        walk.report("BG004", op, f"buffer {buffer.name} belongs to ring {buffer.ring} and cannot turn tiles")
    if size < needed:
        message = f"tiles take {needed} bytes, and buffer {buffer.name} has {size}"
        walk.report("AL004", op, message, against=buffer.op)
    if buffer.address % _VECTOR_BYTES:
        walk.report("AL002", op, f"buffer {buffer.name} begins at byte {buffer.address}", against=buffer.op)
    if any(use.operation is not op for use in op.through[0].uses):
        walk.findings.doubt(f"buffer {buffer.name} is used for something else besides", op)


def _require_own_parts(walk: RoleWalk, op: ac.ElementwiseOp, plan: ExchangePlan) -> None:
    """No two warps touch one byte, and none goes past the memory that the plan asks for."""
    if sum(isinstance(step, Stage) for step in plan.steps) > 1:
        walk.findings.doubt("exchanges twice through one memory", op)
    for step in plan.steps:
        if isinstance(step, Store | Load):
            walk.findings.doubt("exchanges through memory of others", op)
        if not isinstance(step, Stage):
            continue
        if step.size_bytes > plan.shared_bytes:
            walk.findings.doubt(f"an exchange takes {step.size_bytes} bytes of {plan.shared_bytes}", op)
        own: list[int] = []
        for access in (step.store, step.load):
            own += [*access.lane_bytes, *access.constants, *_within(access, plan.element_bytes)]
        reached = [*own, *step.store.warp_bytes, *step.load.warp_bytes]
        # Attributes hold any numbers and words, and only numbers that are not negative span a space.
        if not all(_is(each, int) and each >= 0 for each in reached):
            walk.findings.doubt("its plan is not understood: it reaches places that are none", op)
            continue
        warps = [*zip(step.store.warp_bytes, step.load.warp_bytes, strict=True)]
        between = [store ^ load for store, load in warps]
        apart = bit_matrix.image([*own, *between])
        if step.scope != "warp" or bit_matrix.rank([*apart, *(store for store, _ in warps)]) != len(apart) + len(warps):
            walk.findings.doubt("warps share memory of an exchange, and are not known to wait for each other", op)
        if max(reached, default=0).bit_length() > (step.size_bytes - 1).bit_length():
            walk.report("AL004", op, f"an exchange reaches past its {step.size_bytes} bytes")


def _is(value: object, kind: type) -> bool:
    """Whether a value is what it is declared to be: a plan read from attributes may hold anything."""
    return isinstance(value, kind)


def _within(access: Access, element_bytes: int) -> list[int]:
    """The address bits inside one access."""
    size = _VECTOR_BYTES if access.form != "vector" else max(len(each) for each in access.elements) * element_bytes
    return [1 << bit for bit in range((size - 1).bit_length())]


def _require_alignment(walk: RoleWalk, op: ac.ElementwiseOp, decision: TransposeDecision) -> None:
    """Runs are taken in vectors of at most 16 bytes, which begin at multiples of their size; see `ir.transpose`."""
    arguments: list[SSAValue] = [*op.body.block.args]
    runs = {decision.stored_axis: decision.stored_run, decision.loaded_axis: decision.loaded_run}
    for inner in op.body.block.ops:
        match inner:
            case ac.ElementLoadOp():
                array, indices = walk.global_of(inner, inner.source), list(inner.indices)
                if inner.fill.data or any(index not in arguments for index in indices):
                    continue
            case ac.ElementStoreOp():
                array, indices = walk.global_of(inner, inner.destination), list(inner.indices)
            case _:
                continue
        if array is None:
            continue
        element = parse_element(array.result.type.element.data)
        strides = fixed(array.strides, inner, walk.findings)
        dense = [index for index, stride in zip(indices, strides, strict=True) if stride == 1]
        is_store = isinstance(inner, ac.ElementStoreOp)
        if is_store and (len(dense) != 1 or dense[0] is not arguments[decision.stored_axis]):
            walk.findings.doubt(f"a run does not lie together in {array.buffer.data}", inner)
            continue
        if element is None or len(dense) != 1 or arguments.index(dense[0]) not in runs:
            continue
        piece = min(_VECTOR_BYTES, runs[arguments.index(dense[0])] * element.bytes)
        if any(stride * element.bytes % piece for stride in strides if stride != 1):
            walk.findings.doubt(f"a run in {array.buffer.data} may begin inside {piece} bytes", inner)
