"""What do wgmma operations do to a unit's state, and which of them break a rule on the spot?

A wgmma reads its slot and writes its accumulator until the group it was committed to is done. Groups complete in order,
so after `wait_group n` the groups done are all but the newest n: with G groups committed, group g is done if
G - 1 - g >= n. `wgmma.fence` must stand between an access to the accumulator's registers and the next wgmma that uses
them, except between wgmmas of one shape that share it (PTX ISA 9.7.15.7.1).

Not handled: A from registers (`steps.register_operand`), elements other than bf16, f16, f8e4m3 and f8e5m2, sparsity.
Checked by: tests/contract/typestate/test_typestate_mutations.py.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.base.element import parse_element
from tilewright.contract.typestate.places.footprint import operand_ranges
from tilewright.contract.typestate.places.rooms import check_room_read, is_room
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import SWIZZLE_PERIOD_BYTES, SWIZZLE_SPAN_BYTES, Buffer, integers
from tilewright.contract.typestate.summary import ReadSite
from tilewright.contract.typestate.token import Accumulating, Computed, Reading, Settled, Slot, Token, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp
from tilewright.ir.ac.register_operand import ComputedIssueOp
from tilewright.ir.ac.tensor_memory import TensorFillOp, TensorIssueOp, TensorIssueStoredOp

MAJORS = {
    "bf16": frozenset({"K", "MN"}),
    "f16": frozenset({"K", "MN"}),
    "f8e4m3": frozenset({"K"}),
    "f8e5m2": frozenset({"K"}),
}
"""Which axis may be contiguous, by element (PTX ISA, wgmma: imm-trans is for 16-bit types)."""


_WAITED = "wgmma.wait_group of a warpgroup's thread covers the whole warpgroup's wgmma"
"""What a proof takes for granted where a role waits for products."""


def tensor_core_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it is a wgmma operation."""
    match op:
        case ac.WgmmaFenceOp():
            fence(walk)
        case ac.WgmmaIssueOp():
            _issue(walk, op)
        case ac.WgmmaCommitOp():
            walk.state.step("groups")
            walk.state.uncommitted = 0
            if walk.state.groups_in_flight is not None:
                walk.state.groups_in_flight += 1
            for bank in walk.state.operand_ages:
                walk.state.operand_ages[bank] += 1
        case ac.WgmmaWaitOp():
            _wait(walk, op)
        case _:
            return False
    if walk.role.unit != "warpgroup128":
        walk.report("WG009", op, f"{op.name} in a role of {walk.role.unit}")
    return True


def fence(walk: RoleWalk) -> None:
    """The unit's accesses to accumulators are ordered before the wgmma that follow."""
    walk.state.fenced, walk.state.started = True, False


def _issue(walk: RoleWalk, op: ac.WgmmaIssueOp) -> None:
    slot = walk.take(op, op.phase)
    a_slot = slot if op.a_phase is None else walk.take(op, op.a_phase)
    m, n, group = op.m.data, op.n.data, walk.state.count("groups")
    chained = False
    if op.accumulator is not None:
        accumulator = walk.take(op, op.accumulator)
        chained = isinstance(accumulator, Accumulating) and (accumulator.m, accumulator.n) == (m, n)
        if not chained and op.accumulator in walk.env:
            what = describe(accumulator) if accumulator is not None else "something spoiled before"
            walk.report("WG005", op, f"accumulates {m} x {n} into {what}")
    if (not chained and not walk.state.fenced) or walk.state.started:
        walk.report(
            "WG004",
            op,
            "no wgmma.fence since the accumulator's registers were last touched",
            steps=(
                "the warpgroup's threads access the accumulator's registers",
                "the tensor core, not ordered after them, writes the same registers",
            ),
        )
    walk.require_unit(op, op.unit)
    rows = walk.kernel.facts.limit("wgmma.m")
    least, most, step = (walk.kernel.facts.limit(f"wgmma.n_{name}") for name in ("min", "max", "step"))
    if m < rows or m % rows or not least <= n <= most or n % step or op.element.data not in MAJORS:
        walk.report("WG010", op, f"no wgmma computes {m} x {n} of {op.element.data}")
    elif not {op.a_major.data, op.b_major.data} <= MAJORS[op.element.data]:
        walk.findings.doubt(f"majors {op.a_major.data} and {op.b_major.data} of {op.element.data}", op)
    else:
        _operands(walk, op, slot, a_slot)
    walk.state.uncommitted += 1
    walk.give(op, op.inflight, Accumulating(m, n, group))
    walk.give(op, op.reading, read_slot(walk, op, slot, group))
    if op.a_reading is not None:
        walk.give(op, op.a_reading, None if op.a_phase is None else read_slot(walk, op, a_slot, group))
    if (op.a_phase is None) != (op.a_reading is None):
        walk.report("LV001", op, "the slot of A is not handed back" if op.a_phase else "hands back a slot of A's alone")


def read_slot(walk: RoleWalk, op: Operation, slot: Token | None, group: Polynomial) -> Reading | None:
    """The slot that a product of a group reads: full, or read before and still held."""
    slot = walk.expect(op, slot, Slot, "read")
    if slot is None:
        return None
    if slot.side == "empty":
        walk.report("MB012", op, f"reads {describe(slot)}")
    if slot.issuer:
        walk.findings.doubt("multiplies a slot for which only the unit's first warp has waited", op)
    return Reading(slot.ring, slot.position, group, slot.fenced)


_MOST_BLOCKS = 64
"""Blocks of rows of a product: each takes four registers of a thread or more, of which there are 255."""


def _operands(walk: RoleWalk, op: ac.WgmmaIssueOp, slot: Token | None, a_slot: Token | None) -> None:
    """Both operands' footprints, over all of the role's units."""
    a, b = walk.buffer_of(op, op.a), walk.buffer_of(op, op.b)
    a_steps, b_steps = integers(op.a_step_bytes), integers(op.b_step_bytes)
    if op.steps.data < 1 or not len(a_steps) == len(b_steps) == op.steps.data:
        walk.findings.doubt(f"{op.steps.data} steps with {len(a_steps)} and {len(b_steps)} advances", op)
        return
    if walk.role.count < 1:
        return  # reported among the resources
    rows = walk.kernel.facts.limit("wgmma.m")
    if op.m.data > _MOST_BLOCKS * rows:
        walk.findings.doubt(f"{op.m.data} rows are more than a warpgroup's registers hold", op)
        return
    blocks = range(op.m.data // rows)
    if a is not None:
        bases = [
            unit * op.a_instance_bytes.data + block * op.a_block_bytes.data
            for unit in range(walk.role.count)
            for block in blocks
        ]
        shape = (op.a_major.data, rows, op.a_leading_bytes.data, op.a_stride_bytes.data)
        read_operand(walk, op, a_slot, a, shape, bases, a_steps)
    if b is not None:
        shape = (op.b_major.data, op.n.data, op.b_leading_bytes.data, op.b_stride_bytes.data)
        read_operand(walk, op, slot, b, shape, [0], b_steps)


def read_operand(
    walk: RoleWalk,
    op: ac.WgmmaIssueOp | ComputedIssueOp | FragmentIssueOp | TensorIssueOp | TensorIssueStoredOp | TensorFillOp,
    slot: Token | None,
    buffer: Buffer,
    shape: tuple[str, int, int, int],
    bases: list[int],
    steps: tuple[int, ...],
) -> None:
    """What a product reads of a slot's buffer. shape: major, extent, leading and stride offsets of one matrix."""
    ring = slot.ring if isinstance(slot, Slot | Computed) else ""
    unfenced = not (isinstance(slot, Slot) and slot.fenced)
    major, extent, leading, stride = shape
    if buffer.element != op.element.data:
        walk.findings.doubt(f"multiplies {op.element.data} from a buffer of {buffer.element}", op)
    of_room = not buffer.ring and ring == buffer.name and is_room(walk, buffer)
    if ring and buffer.ring != ring and not of_room:
        walk.report("MB007", op, f"reads buffer {buffer.name} of {buffer.ring or 'no ring'} on a slot of ring {ring}")
    if major not in ("K", "MN"):
        walk.findings.doubt(f"unknown major {major!r}", op)
        return
    span, period = SWIZZLE_SPAN_BYTES[buffer.swizzle], SWIZZLE_PERIOD_BYTES[buffer.swizzle]
    in_tensor_memory = isinstance(op, TensorIssueOp | TensorIssueStoredOp | TensorFillOp)
    fields = "shared_descriptor" if in_tensor_memory else "matrix_descriptor"
    end = walk.kernel.facts.limit(f"{fields}.offset_limit_bytes")
    unit = walk.kernel.facts.limit(f"{fields}.offset_multiple_bytes")
    for name, value in (("leading", leading), ("stride", stride)):
        if not 0 <= value < end or value % unit:
            walk.report("WG008", op, f"{buffer.name}: a {name} offset of {value} bytes")
            return
    element = parse_element(buffer.element)
    element_bytes = 2 if element is None else element.bytes
    if span and (stride % period or (major == "MN" and element_bytes * extent > span and leading % period)):
        walk.report("WG008", op, f"{buffer.name}: offsets of {leading} and {stride} bytes leave the swizzle's period")
        return
    if span and any(base % period for base in bases):
        walk.report("WG008", op, f"{buffer.name}: a matrix begins off the {period}-byte period of its swizzle")
        return
    for step in steps:
        # Inside a pattern a K-major operand advances along the row; any other advance must be by whole patterns.
        within = step % period if span else 0
        if step < 0 or step % 16 or (within and (major == "MN" or within + 32 > span)):
            walk.report("WG008", op, f"{buffer.name}: an advance of {step} bytes leaves its rows")
            return
    starts = tuple(sorted({base + step for base in bases for step in steps}))
    ranges = operand_ranges(major, buffer.swizzle, extent, leading, stride, starts, element_bytes)
    if not ranges:
        walk.findings.doubt(f"reads no bytes of buffer {buffer.name}", op)
        return
    if ranges[0][0] < 0 or ranges[-1][1] > buffer.slot_bytes:
        walk.report(
            "WG006",
            op,
            f"reads bytes {ranges[0][0]} to {ranges[-1][1]} of a slot of {buffer.slot_bytes} in buffer {buffer.name}",
            against=buffer.op,
        )
    if of_room:
        check_room_read(walk, op, slot, buffer, ranges)
    elif walk.recording and ring:
        walk.summary.reads.append(ReadSite(op, ring, buffer.name, ranges, unfenced))


def _wait(walk: RoleWalk, op: ac.WgmmaWaitOp) -> None:
    walk.findings.assume(_WAITED)
    pending = op.pending.data
    state = walk.state
    if pending < 0:
        walk.findings.doubt(f"waits for {pending} pending groups", op)
    state.groups_in_flight = pending if state.groups_in_flight is None else min(state.groups_in_flight, pending)
    state.operand_ages = {bank: age for bank, age in state.operand_ages.items() if age <= max(pending, 0)}
    if op.reading is not None:
        reading = walk.take_as(op, op.reading, Reading, "wait for")
        retired = None
        if reading is not None:
            _require_done(walk, op, reading.group, "WG002", f"a slot of ring {reading.ring}")
            retired = Slot(reading.ring, "retired", reading.position, reading.fenced)
        if op.retired is None:
            walk.report("LV001", op, "the slot that was read is not handed back, so nothing releases it")
        else:
            walk.give(op, op.retired, retired)
    elif op.retired is not None:
        walk.report("LV008", op, "hands back a slot that it was not given")
        walk.give(op, op.retired, None)
    if op.accumulator is not None:
        accumulator = walk.take_as(op, op.accumulator, Accumulating, "wait for")
        settled = None
        if accumulator is not None:
            if not accumulator.idle:
                _require_done(walk, op, accumulator.group, "WG003", "an accumulator")
            settled = Settled(accumulator.m, accumulator.n)
        state.fenced = False
        if op.settled is None:
            walk.report("LV001", op, "the accumulator is not handed back")
        else:
            walk.give(op, op.settled, settled)
    elif op.settled is not None:
        walk.report("WG005", op, "hands back an accumulator that it was not given")
        walk.give(op, op.settled, None)


def _require_done(walk: RoleWalk, op: ac.WgmmaWaitOp, group: Polynomial, code: str, what: str) -> None:
    """Group `group` must be done once at most `groups_in_flight` of the committed groups are not."""
    committed, in_flight = walk.state.count("groups"), walk.state.groups_in_flight
    assert in_flight is not None
    newer = committed - 1 - group
    if newer.constant is not None and newer.constant >= in_flight:
        return
    if newer.constant is None:
        if (newer - in_flight).is_never_negative(walk.kernel.minima):
            return
        walk.findings.doubt(f"the group of {what} is at a distance that depends on a trip count", op)
        return
    if newer.constant < 0 or walk.state.uncommitted:
        walk.report(
            "WG001",
            op,
            f"{what} belongs to a wgmma that is not committed",
            steps=("a wgmma is issued and belongs to no group", "wait_group returns while it runs"),
        )
        return
    use = "released and refilled" if code == "WG002" else "read by the threads"
    walk.report(
        code,
        op,
        f"{in_flight} groups may be pending after the wait; {what} needs at most {newer.constant}",
        steps=(
            f"the group of {what} is the newest but {newer.constant}",
            f"wait_group returns with the newest {in_flight} groups running, that one among them",
            f"{what} is {use} while the tensor core still uses it",
        ),
    )
