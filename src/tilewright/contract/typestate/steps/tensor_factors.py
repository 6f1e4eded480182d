"""What do copies of factors of blocks to tensor memory do, and which products may take them?

One thread copies a full slot's factors with tcgen05.cp and issues the product that takes them. The tensor core executes
these in order, so that nothing is waited for in between. What has to hold:

- The slot's bytes that are copied are filled, and fenced where threads wrote them, as of any operand (`rings`).
- Every slot of a ring has columns of its own, behind those that are slots of sums, and apart from those of any other
  ring's factors. They are overwritten when the slot is full anew, hence after its release, which takes the factors from
  the last product that had them, and is a commit that covers it. So no product reads columns that a later copy writes,
  though the tensor core does not order a copy behind a product (TC113).
- A product has the factors of all its rows and of all its columns, for all of its steps.

Not handled: pairs of CTAs (doubts). Source: PTX ISA, tcgen05: Block scaling, Scale factor layouts; tcgen05.cp.
Checked by: tests/contract/typestate/steps/test_tensor_factors.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.base.element import parse_element
from tilewright.contract.typestate.program import TensorMemory
from tilewright.contract.typestate.summary import ReadSite
from tilewright.contract.typestate.token import Slot, TensorFactors, Token, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.tensor_memory import TensorFactorsOp, TensorFillOp
from tilewright.ir.block_factors import SHARED_BY
from tilewright.targets import Target

PAIR = "f4e2m1x2"
"""Elements that no product multiplies as they are."""
_FACTORS = frozenset(factor.value for _, factor in SHARED_BY)


def copy_factors(walk: RoleWalk, op: TensorFactorsOp, memory: TensorMemory | None) -> None:
    """A slot's factors go to its columns."""
    slot, rows, facts = walk.take(op, op.phase), op.rows.data, walk.kernel.facts
    buffer = walk.buffer_of(op, op.buffer)
    if not facts.supports("block_scales"):
        walk.report("TC002", op, f"{facts.name} multiplies with no factors of blocks")
        walk.give(op, op.result, None)
        return
    unit = facts.limit("block_scales.copied_rows")
    if rows < unit or rows % unit or op.cells.data < 1:
        walk.report("TC002", op, f"copies {op.cells.data} cells of {rows} rows, and tcgen05.cp takes {unit} at a time")
        walk.give(op, op.result, None)
        return
    if memory is not None:
        _check_columns(walk, op, memory)
    slot = walk.expect(op, slot, Slot, "read")
    if buffer is None or slot is None:
        walk.give(op, op.result, None)
        return
    if slot.side == "empty":
        walk.report("MB012", op, f"reads {describe(slot)}")
    if buffer.ring != slot.ring:
        walk.report(
            "MB007", op, f"reads buffer {buffer.name} of {buffer.ring or 'no ring'} on a slot of ring {slot.ring}"
        )
    size = rows * op.cells.data * facts.limit("block_scales.column_factors")
    if size > buffer.slot_bytes:
        walk.report(
            "WG006", op, f"reads bytes 0 to {size} of a slot of {buffer.slot_bytes} in buffer {buffer.name}",
            against=buffer.op,
        )  # fmt: skip
    step = facts.limit("shared_descriptor.offset_multiple_bytes")
    if buffer.swizzle != "none" or buffer.element not in _FACTORS:
        walk.findings.doubt(f"factors of {buffer.element} under swizzle {buffer.swizzle}", op)
    elif buffer.address % step or buffer.slot_bytes % step:
        walk.report("AL002", op, f"factors begin off multiples of {step} bytes")
    if walk.recording:
        walk.summary.reads.append(ReadSite(op, slot.ring, buffer.name, ((0, size),), not slot.fenced))
    walk.give(op, op.result, TensorFactors(slot.ring, slot.position, rows, op.cells.data, buffer.element))


def _columns(walk: RoleWalk, op: TensorFactorsOp, memory: TensorMemory) -> tuple[int, int]:
    """Of all slots of the ring whose factors an operation copies."""
    ring = op.result.type.ring.data
    stages = walk.kernel.rings[ring].stages if ring in walk.kernel.rings else 1
    begin = memory.first_factor + op.column.data
    of_cell = op.rows.data // walk.kernel.facts.limit("block_scales.column_rows")
    return begin, begin + stages * op.cells.data * of_cell


def _check_columns(walk: RoleWalk, op: TensorFactorsOp, memory: TensorMemory) -> None:
    if memory.pair:
        walk.findings.doubt("copies factors in a pair of CTAs", op)
    begin, end = _columns(walk, op, memory)
    if not memory.first_factor <= begin < end <= memory.columns:
        where = f"columns {begin} to {end - 1}"
        walk.report("TC002", op, f"{where} for factors, which have {memory.first_factor} to {memory.columns - 1}")
    for other in walk.kernel.operations.of(TensorFactorsOp):
        same = other.buffer is op.buffer
        first, last = _columns(walk, other, memory)
        shown, own = ((each.column.data, each.rows.data, each.cells.data) for each in (other, op))
        if same and shown != own:
            walk.report("TC002", op, "copies the same factors to other columns than before", against=other)
        elif not same and first < end and begin < last:
            walk.report("TC002", op, f"columns {begin} to {end - 1} for factors, which others have too", against=other)


def take_factors(walk: RoleWalk, op: TensorFillOp, factors: Sequence[Token | None]) -> None:
    """A product takes those of its rows and of its columns, and hands them on."""
    if len(factors) not in (0, 2) or len(op.kept) != len(factors):
        walk.findings.doubt(f"takes factors of {len(factors)} operands", op)
        factors = ()
    facts = walk.kernel.facts
    if factors and op.m.data != facts.limit("block_scales.rows"):
        walk.report("TC002", op, f"no tcgen05.mma with factors has {op.m.data} rows")
    if factors and is_set(op.pair):
        walk.findings.doubt("takes factors in a pair of CTAs", op)
    needed = (op.m.data, op.n.data)
    for token, result, extent in zip(factors, op.kept, needed, strict=False):
        if not isinstance(token, TensorFactors):
            if token is not None:
                walk.report("LV008", op, f"{op.name} cannot take {describe(token)} for factors")
            walk.give(op, result, None)
            continue
        if token.rows < extent:
            walk.report("TC002", op, f"takes factors of {token.rows} rows for {extent}")
        taken, there = _factors_of_step(facts, op.element.data, token.element), token.cells
        there *= facts.limit("block_scales.column_factors")
        if not taken:
            walk.report("TC002", op, f"no tcgen05.mma scales {op.element.data} by {token.element}")
        elif op.steps.data * taken > there:
            walk.report("TC002", op, f"{op.steps.data} steps take {taken} factors of a row each, of {there}")
        walk.give(op, result, token)
    if not factors and op.element.data == PAIR:
        walk.report("TC002", op, f"no tcgen05.mma multiplies {PAIR} without factors of blocks")
    for result in op.kept[len(factors) :]:
        walk.give(op, result, None)


def _factors_of_step(facts: Target, element: str, factor: str) -> int:
    """How many of a row's one step takes; 0 where there are no such products."""
    operands, factors = parse_element(element), parse_element(factor)
    row = SHARED_BY.get((operands, factors)) if operands and factors else None
    if operands is None or row is None:
        return 0
    numbers = facts.limit("tcgen05.operand_row_bytes") * (2 if operands.is_pair else 1) // operands.bytes
    return numbers // facts.limit(f"block_scales.{row}")
