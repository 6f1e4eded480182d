"""What does a role that only issues do to slots of tensor memory, and what do the units that read them?

The columns of a CTA are slots of a ring, like any in shared memory (`rings`): a filler waits for an empty one, readers
for a full one, and release it. So that each is read only when it is filled, and filled only when it is free, follows
from what holds of every ring. What is particular to tensor memory:

- One thread fills: it issues products that begin or go on with accumulators of the slot, and hands it over by a commit,
  which covers all products that it has issued. What is read of a slot must be what every fill has begun there; that is
  compared as bytes of other slots are (`rings`, WG007), in columns.
- A product has the rows of all units that read. Each unit reads its own lanes.
- Factors of blocks are copied from a slot of shared memory to columns of its own (`steps.tensor_factors`).
- In a pair the first CTA fills for both (`pairs`): each CTA's slot of A has its own rows, its slot of B half of the
  columns, and the sums of its rows stand in its own lanes, in all columns (PTX ISA, tcgen05: Data path layout A).
- The unit's first thread releases, for all of them. It may only where they have met since any of them read, or waited
  (`steps.ring`): else the next product overwrites what a warp still reads, or the barrier passes the phase for which it
  waits.

Not handled: several roles that fill, units in turns (doubts). Source: PTX ISA, tcgen05.mma: Matrix shape;
tcgen05.commit; tcgen05: Memory Consistency Model. Checked by: tests/contract/typestate/steps/test_tensor_slots.py.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.contract.typestate.pairs import PAIR_CTAS
from tilewright.contract.typestate.places.footprint import merged
from tilewright.contract.typestate.program import TensorMemory, integers, type_of
from tilewright.contract.typestate.steps.tensor_core import read_operand
from tilewright.contract.typestate.steps.tensor_factors import PAIR, copy_factors, take_factors
from tilewright.contract.typestate.steps.tensor_memory import ELEMENTS, MAJORS, columns_step, memory_of, reading_of
from tilewright.contract.typestate.summary import FillSite, ReadSite
from tilewright.contract.typestate.token import Reading, Slot, TensorFilling, Token, Values, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.fragment import FragmentFoldOp, FragmentFullOp, FragmentMapOp
from tilewright.ir.ac.tensor_memory import (
    TensorFactorsOp,
    TensorFillOp,
    TensorHandOverOp,
    TensorIssueOp,
    TensorLoadOp,
    TensorReadOp,
    TensorSlotOp,
    TensorStoreOp,
)

_COLUMNS = 8
"""Of whose multiples accumulators begin."""


def tensor_slot_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it concerns slots of tensor memory."""
    if not isinstance(op, TensorSlotOp):
        return False
    unit = "warpgroup128" if isinstance(op, TensorReadOp) else "thread1"
    if walk.role.unit != unit:
        walk.report("TC002", op, f"{op.name} in a role of {walk.role.unit}")
    if any(isinstance(other, ac.TurnLoop) for other in walk.role.op.body.block.ops):
        walk.findings.doubt("in a role whose units take turns", op)
    match op:
        case TensorFactorsOp():
            copy_factors(walk, op, memory_of(walk, op, op.memory))
        case TensorFillOp():
            _fill(walk, op)
        case TensorHandOverOp():
            _hand_over(walk, op)
        case TensorReadOp():
            _read(walk, op)
    return True


def _check_ring(walk: RoleWalk, op: TensorSlotOp, ring: str) -> TensorMemory | None:
    """The memory whose slots the ring guards."""
    memory = walk.kernel.tensor_memory
    if memory is not None and memory.slot_columns % _COLUMNS:
        walk.findings.doubt(f"slots of {memory.slot_columns} columns, no multiple of {_COLUMNS}", op)
    if memory is None or memory.ring != ring:
        guarded = f"of ring {memory.ring}" if memory is not None and memory.ring else "of no ring"
        walk.report("MB007", op, f"uses a slot of ring {ring} for tensor memory {guarded}")
        return None
    return memory


# ---------------------------------------------------------------- filling


def _fill(walk: RoleWalk, op: TensorFillOp) -> None:
    into, a_slot, slot = walk.take(op, op.into), _full(walk, op, op.a_phase), _full(walk, op, op.phase)
    memory_of(walk, op, op.memory)
    factors = [walk.take(op, each) for each in op.factors]
    filling = _begun(walk, op, into)
    m, n, column = op.m.data, op.n.data, op.column.data
    # Each CTA of a pair has its own rows of A, and its part of the columns of B.
    ctas = PAIR_CTAS if is_set(op.pair) else 1
    if filling is not None:
        memory = _check_ring(walk, op, filling.ring)
        if memory is not None:
            _shape(walk, op, memory)
            if column % _COLUMNS:
                walk.findings.doubt(f"begins at column {column}, no multiple of {_COLUMNS}", op)
            if not 0 <= column < column + n <= memory.slot_columns:
                columns = f"columns {column} to {column + n - 1}"
                walk.report("TC002", op, f"{columns} of a slot of {memory.slot_columns}")
        filling = _accumulated(walk, op, filling)
    a_steps, b_steps = integers(op.a_step_bytes), integers(op.b_step_bytes)
    if not {op.a_major.data, op.b_major.data} <= set(MAJORS) or not len(a_steps) == len(b_steps) == op.steps.data >= 1:
        walk.findings.doubt(f"{op.steps.data} steps with {len(a_steps)} and {len(b_steps)} advances", op)
    elif op.element.data == PAIR and {op.a_major.data, op.b_major.data} != {"K"}:
        walk.report("TC002", op, f"no tcgen05.mma takes {PAIR} along rows")
    elif op.element.data in (*ELEMENTS, PAIR):
        a, b = walk.buffer_of(op, op.a), walk.buffer_of(op, op.b)
        if a is not None:
            shape = (op.a_major.data, m // ctas, op.a_leading_bytes.data, op.a_stride_bytes.data)
            read_operand(walk, op, a_slot, a, shape, [0], a_steps)
        if b is not None:
            shape = (op.b_major.data, n // ctas, op.b_leading_bytes.data, op.b_stride_bytes.data)
            read_operand(walk, op, slot, b, shape, [0], b_steps)
    walk.give(op, op.filling, filling)
    walk.give(op, op.a_reading, reading_of(walk, op, a_slot))
    walk.give(op, op.reading, reading_of(walk, op, slot))
    take_factors(walk, op, factors)


def _full(walk: RoleWalk, op: TensorFillOp, value: SSAValue) -> Token | None:
    """A full slot. One that products of this role read already is as full: nothing has released it."""
    token = walk.take(op, value)
    if isinstance(token, Reading):
        return Slot(token.ring, "retired", token.position, token.fenced, token.issuer)
    return token


def _begun(walk: RoleWalk, op: TensorFillOp, into: Token | None) -> TensorFilling | None:
    match into:
        case TensorFilling():
            return into
        case Slot():
            if into.side != "empty":
                walk.report("MB012", op, f"fills {describe(into)}")
            return TensorFilling(into.ring, into.position, frozenset())
        case None:
            return None
        case _:
            walk.wrong(op, into, "fill")
            return None


def _shape(walk: RoleWalk, op: TensorFillOp, memory: TensorMemory) -> None:
    facts, m, n, element = walk.kernel.facts, op.m.data, op.n.data, op.element.data
    pair = is_set(op.pair)
    rows = memory.units * facts.limit("product.rows") * (PAIR_CTAS if pair else 1)
    step = facts.limit("tcgen05.n_step_two_ctas") if pair else columns_step(facts, m, element, op.b_major.data)
    most, known = facts.limit("product.columns_max"), facts.limits(f"tcgen05.m_{'two_ctas' if pair else 'one_cta'}")
    if m not in known or not step <= n <= most or n % step or element not in (*ELEMENTS, PAIR):
        walk.report("TC002", op, f"no tcgen05.mma computes {m} x {n} of {element}")
    elif pair and memory.units * facts.limit("product.rows") != facts.limit("tensor_memory.lanes"):
        # Of fewer rows, lanes hold a part of the columns each.
        walk.findings.doubt(f"a product of two CTAs with {m} rows", op)
    elif m != rows:
        walk.report("TC002", op, f"a product of {m} rows, and the units that read have {rows}")


def _accumulated(walk: RoleWalk, op: TensorFillOp, filling: TensorFilling) -> TensorFilling:
    """The slot with the accumulator that the product begins, or goes on with."""
    column, n = op.column.data, op.n.data
    match op.accumulate.data:
        case 1:
            if (column, column + n) not in filling.started:
                what = f"columns {column} to {column + n - 1}"
                walk.report("TC002", op, f"adds to {what}, where no product of this slot has begun an accumulator")
            return filling
        case 0:
            if any(begin < column + n and column < end for begin, end in filling.started):
                walk.report("TC002", op, f"begins anew at column {column}, where an accumulator of this slot stands")
            return TensorFilling(filling.ring, filling.position, filling.started | {(column, column + n)})
        case other:
            walk.findings.doubt(f"accumulate is {other}", op)
            return filling


def _hand_over(walk: RoleWalk, op: TensorHandOverOp) -> None:
    filling = walk.take_as(op, op.filling, TensorFilling)
    if filling is None:
        return
    memory = _check_ring(walk, op, filling.ring)
    event = f"fill:{filling.ring}"
    filled = walk.state.count(event)
    if (filling.ring, "empty") in walk.shared:
        walk.findings.doubt("fills slots of tensor memory that other roles fill, too", op)
    elif filling.position != filled:
        walk.report("MB011", op, f"fills position {filling.position} of ring {filling.ring} as number {filled}")
    walk.ring_event("fill", op, Slot(filling.ring, "empty", filling.position), filled)
    walk.state.step(event)
    if walk.recording and memory is not None:
        site = FillSite(op, filling.ring, 0)
        site.ranges[memory.name] = merged(filling.started)
        walk.summary.fills[walk.name_of(op)] = site


# ---------------------------------------------------------------- reading


_OF_ROWS = (
    TensorReadOp, ac.FragmentLoadOp, FragmentFullOp, FragmentMapOp, FragmentFoldOp, ac.GlobalStoreOp, ac.RowsStoreOp,
    TensorStoreOp, TensorLoadOp, ac.LoopOp, ac.YieldOp,
)  # fmt: skip
"""What is lowered by a role's own rows of warps, or by their order alone, as what a unit writes to its own part of
tensor memory, multiplies from there, and reads again."""
_HAVE_ROWS = (ac.FragmentType, ac.AccumulatorType, ac.InflightType)


def check_warp_rows(walk: RoleWalk) -> None:
    """A role whose warps' rows do not follow one another has no operation that takes them to."""
    if walk.role.warp_rows == walk.kernel.facts.limit("product.warp_rows"):
        return
    for op in walk.role.operations.all:
        kinds = [value.type for value in (*op.operands, *op.results)]
        of_slots = isinstance(op, TensorIssueOp)
        if of_slots or (any(isinstance(kind, _HAVE_ROWS) for kind in kinds) and not isinstance(op, _OF_ROWS)):
            walk.findings.doubt("in a role whose warps' rows do not follow one another", op)


def _read(walk: RoleWalk, op: TensorReadOp) -> None:
    slot, kind, column = walk.take(op, op.phase), type_of(op.result), op.column.data
    memory_of(walk, op, op.memory)
    walk.require_unit(op, op.unit)
    rows = walk.kernel.facts.limit("product.rows")
    if not isinstance(kind, ac.FragmentType) or (kind.m.data, kind.axes.data, kind.element.data) != (rows, "mn", "f32"):
        walk.findings.doubt("its result is no float32 fragment of a unit's rows", op)
        made = None
    else:
        made = Values(rows, kind.n.data, "mn", "f32")
    if isinstance(slot, Slot):
        memory = _check_ring(walk, op, slot.ring)
        walk.expect_filled(op, slot)
        if memory is not None and made is not None:
            if memory.units != walk.role.count:
                walk.report("TC002", op, f"{walk.role.count} units read rows of {memory.units}")
            if walk.role.warp_rows != memory.units * walk.kernel.facts.limit("product.warp_rows"):
                walk.report("TC002", op, f"rows of a warp are taken to begin {walk.role.warp_rows} after one another's")
            if walk.recording:
                columns = ((column, column + made.n),)
                walk.summary.reads.append(ReadSite(op, slot.ring, memory.name, columns))
    else:
        walk.wrong(op, slot, "read")
        slot = None
    walk.state.synced = False
    walk.give(op, op.result, made)
    walk.give(op, op.held, slot)
