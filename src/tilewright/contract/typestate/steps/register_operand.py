"""What do products with A from registers do to a unit's state, and which of their operations break a rule on the spot?

A unit reads its rows of a slot with generic loads, and the tensor core then multiplies what was computed of them. Two
obligations come with it.

The slot may be refilled only after every warp's loads are done. The copy that refills it writes through the async
proxy, so each thread fences its reads, and then the unit's threads meet, so that the one that releases the slot knows
of all: both are parts of the reading operation, as the proof of the text confirms. The slot's token passes through what
was computed into the product, and from there, as ever, through the wait for the product's group to the release. A read
after a copy needs no fence: the wait for the full barrier makes the bytes visible. Reads that no copy's bytes cover are
found as those of a wgmma are.

The registers may be written only while no wgmma reads them: the operation that moves the numbers there demands that no
group is in flight. It fences itself, after the moves.

Not handled: MN-major operands, elements of slots that are not of 16 bits, swizzles other than 128B, consumers in
turns, slots that CTAs fill together (doubts). Source: PTX ISA, wgmma: register fragments of A, wgmma.fence, ldmatrix.
Checked by: tests/contract/typestate/steps/test_register_operand.py.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.contract.typestate.places.footprint import operand_ranges
from tilewright.contract.typestate.program import SWIZZLE_PERIOD_BYTES, SWIZZLE_SPAN_BYTES, integers, type_of
from tilewright.contract.typestate.scalar_region import check_region
from tilewright.contract.typestate.steps.tensor_core import MAJORS, fence, read_operand
from tilewright.contract.typestate.steps.unit_barriers import meet
from tilewright.contract.typestate.summary import ReadSite
from tilewright.contract.typestate.token import Accumulating, Computed, Fragment, Reading, Slot, Vector, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp, FragmentReadOp
from tilewright.ir.ac.register_operand import ComputedIssueOp, ComputedType, OperandReadOp, VectorLoadOp, VectorType

ELEMENTS = ("bf16", "f16")
"""Of A in registers that is read from a slot, or computed of 16-bit elements."""
NARROW = ("f8e4m3", "f8e5m2")
"""Of A in registers besides, where it is computed of what was summed."""
_STEP_ELEMENTS = 16
_STEP_BYTES = 32
_SWIZZLE = "128B"


def register_operand_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it concerns an operand in registers."""
    match op:
        case VectorLoadOp():
            _load(walk, op)
        case OperandReadOp():
            _read(walk, op)
        case ComputedIssueOp():
            _issue(walk, op)
        case _:
            return False
    if walk.role.unit != "warpgroup128":
        walk.report("WG009", op, f"{op.name} in a role of {walk.role.unit}")
    in_known_role(walk, op, releases=True)
    return True


def in_known_role(walk: RoleWalk, op: Operation, *, releases: bool) -> None:
    """Doubt a role in which A from registers is not understood. releases: whether the slot's release has to order what
    threads do."""
    if any(isinstance(other, ac.TurnLoop) for other in walk.role.op.body.block.ops):
        walk.findings.doubt("in a role whose units take turns", op)
    if releases and any(other.peers.data > 1 for other in walk.role.operations.of(ac.ArriveOp)):
        # Such a release has the CTA's scope, enough for what a wgmma reads and not for what threads do.
        walk.findings.doubt("in a role that releases its slots to other CTAs", op)


def _load(walk: RoleWalk, op: VectorLoadOp) -> None:
    source, kind = walk.global_of(op, op.source), type_of(op.result)
    walk.indices(op, [op.slice])
    if source is not None and len(source.shape) != 1:
        walk.findings.doubt("loads a vector of an array that is none", op)
    if source is not None and walk.recording:
        walk.summary.reads_global.setdefault(source.buffer.data, op)
    if not isinstance(kind, VectorType) or kind.k.data < 1:
        walk.findings.doubt("its result is no vector", op)
        walk.give(op, op.result, None)
        return
    walk.give(op, op.result, Vector(kind.k.data))


def _read(walk: RoleWalk, op: OperandReadOp) -> None:
    slot, kind = walk.take(op, op.phase), type_of(op.result)
    walk.require_unit(op, op.unit)
    meet(walk, op, op.first_barrier.data)
    check_region(op.body.block, op, 1 + len(op.rows) + len(op.along), walk.findings)
    if not isinstance(kind, ComputedType) or kind.element.data not in ELEMENTS:
        walk.findings.doubt("its result is no operand of 16-bit elements", op)
        walk.give(op, op.result, None)
        return
    for value in op.rows:
        token = walk.look(op, value)
        if not isinstance(token, Fragment) or (token.axes, token.m) != ("m", kind.m.data):
            walk.findings.doubt("takes something that is no number of each of its rows", op)
    for value in op.along:
        token = walk.look(op, value)
        if not isinstance(token, Vector) or token.k != kind.k.data:
            walk.findings.doubt("takes something that is no number of each element along its rows", op)
    slot = walk.expect(op, slot, Slot, "read")
    if slot is None:
        walk.give(op, op.result, None)
        return
    if slot.side != "full":
        walk.report("MB012", op, f"reads {describe(slot)}")
    walk.require_all_waited(op, slot)
    footprint(walk, op, (kind.m.data, kind.k.data), slot.ring)
    walk.give(op, op.result, Computed(slot.ring, slot.position, kind.m.data, kind.k.data, kind.element.data))


def footprint(walk: RoleWalk, op: OperandReadOp | FragmentReadOp, shape: tuple[int, int], ring: str) -> None:
    """The rows that all units of the role read, and whether copies bring them. shape: a unit's rows, and columns."""
    buffer, steps, (m, k) = walk.buffer_of(op, op.a), integers(op.step_bytes), shape
    rows = walk.kernel.facts.limit("product.rows")
    if m < rows or m % rows or not steps or _STEP_ELEMENTS * len(steps) != k:
        walk.findings.doubt(f"reads {m} x {k} elements in {len(steps)} steps", op)
        return
    if buffer is None or walk.role.count < 1:
        return
    if buffer.element not in ELEMENTS or buffer.swizzle != _SWIZZLE:
        walk.findings.doubt(f"reads elements of {buffer.element} under swizzle {buffer.swizzle}", op)
        return
    if buffer.ring != ring:
        walk.report("MB007", op, f"reads buffer {buffer.name} of {buffer.ring or 'no ring'} on a slot of ring {ring}")
    span, period = SWIZZLE_SPAN_BYTES[_SWIZZLE], SWIZZLE_PERIOD_BYTES[_SWIZZLE]
    bases = [
        unit * op.instance_bytes.data + block * op.block_bytes.data
        for unit in range(walk.role.count)
        for block in range(m // rows)
    ]
    within = [step % period for step in steps]
    misplaced = any(base % period for base in (*bases, buffer.address, buffer.slot_bytes))
    if misplaced or min(steps) < 0 or any(at % _STEP_BYTES or at + _STEP_BYTES > span for at in within):
        walk.findings.doubt(f"{buffer.name}: rows or steps off the period of its swizzle", op)
        return
    starts = tuple(sorted({base + step for base in bases for step in steps}))
    ranges = operand_ranges("K", _SWIZZLE, rows, 0, period, starts)
    if ranges[0][0] < 0 or ranges[-1][1] > buffer.slot_bytes:
        walk.report(
            "WG006",
            op,
            f"reads bytes {ranges[0][0]} to {ranges[-1][1]} of a slot of {buffer.slot_bytes} in buffer {buffer.name}",
            against=buffer.op,
        )
    if walk.recording:
        walk.summary.reads.append(ReadSite(op, ring, buffer.name, ranges))


def _issue(walk: RoleWalk, op: ComputedIssueOp) -> None:
    computed, state = walk.take(op, op.computed), walk.state
    m, n, steps, group = op.m.data, op.n.data, op.steps.data, state.count("groups")
    if state.groups_in_flight != 0 or state.uncommitted:
        running = "unboundedly many" if state.groups_in_flight is None else state.groups_in_flight
        walk.report(
            "WG011",
            op,
            f"A's registers are written with {running} groups pending and {state.uncommitted} wgmma uncommitted",
            steps=(
                "a wgmma with A in registers is issued",
                "the warpgroup's threads write the same registers for the next one",
                "the tensor core, which may not have read them yet, multiplies the wrong numbers",
            ),
        )
    accumulate(walk, op)
    k = multiplied_columns(walk, op, computed if isinstance(computed, Computed) else None)
    if isinstance(computed, Computed) and k and computed.k != k:
        walk.findings.doubt(f"{steps} steps of {computed.k} elements", op)
    # The operation's own fence comes after its moves, and the threads touch nothing in between.
    fence(walk)
    state.uncommitted += 1
    state.operand_ages[0] = 0
    walk.give(op, op.inflight, Accumulating(m, n, group))
    computed = walk.expect(op, computed, Computed, "multiply")
    if computed is None:
        walk.give(op, op.reading, None)
        return
    if (computed.m, computed.element) != (m, op.element.data):
        walk.findings.doubt(f"multiplies {m} rows of {op.element.data} of {computed.m} of {computed.element}", op)
    walk.give(op, op.reading, Reading(computed.ring, computed.position, group))


def accumulate(walk: RoleWalk, op: ComputedIssueOp | FragmentIssueOp) -> None:
    """Take the accumulator that a product with A in registers goes on with, if any."""
    if op.accumulator is None:
        return
    m, n, accumulator = op.m.data, op.n.data, walk.take(op, op.accumulator)
    fits = isinstance(accumulator, Accumulating) and (accumulator.m, accumulator.n) == (m, n)
    if not fits and op.accumulator in walk.env:
        what = describe(accumulator) if accumulator is not None else "something spoiled before"
        walk.report("WG005", op, f"accumulates {m} x {n} into {what}")


def multiplied_columns(walk: RoleWalk, op: ComputedIssueOp | FragmentIssueOp, slot: Slot | Computed | None) -> int:
    """How many of A's columns a product with A in registers takes; 0 of one that is reported or doubted. What it reads
    of B's slot is checked, if that is known."""
    m, n, steps, element = op.m.data, op.n.data, op.steps.data, op.element.data
    rows = walk.kernel.facts.limit("wgmma.m")
    least, most, step = (walk.kernel.facts.limit(f"wgmma.n_{name}") for name in ("min", "max", "step"))
    advances, b = integers(op.b_step_bytes), walk.buffer_of(op, op.b)
    known = (*ELEMENTS, *NARROW) if isinstance(op, FragmentIssueOp) else ELEMENTS
    if m < rows or m % rows or not least <= n <= most or n % step or element not in known:
        walk.report("WG010", op, f"no wgmma computes {m} x {n} of {element} with A in registers")
        return 0
    if op.b_major.data not in MAJORS[element]:
        walk.findings.doubt(f"major {op.b_major.data} of {element}", op)
        return 0
    if steps < 1 or len(advances) != steps:
        walk.findings.doubt(f"{steps} steps with {len(advances)} advances", op)
        return 0
    if slot is not None and b is not None:
        shape = (op.b_major.data, n, op.b_leading_bytes.data, op.b_stride_bytes.data)
        read_operand(walk, op, slot, b, shape, [0], advances)
    return steps * (_STEP_BYTES if element in NARROW else _STEP_ELEMENTS)
