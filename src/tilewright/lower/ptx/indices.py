"""Indices of a role: sums, quotients, and what arrays of integers hold, which loops load an iteration ahead.

A loop that fills slots where tables say would wait for a table in each iteration. What is loaded at indices that follow
from the loop's own is loaded before the loop for its first iteration, and as each iteration begins for the next one:
by then it is there. Past an array's end an index gives -1 without a load (`ac.IndexLoadOp`), so that the last iteration
reads nothing outside of it. Nobody stores to such an array meanwhile (`contract.typestate.steps.index_load`), but the
launch before may still do so where a number only says for which boxes a kernel asks ahead: such a load leaves no line
in the L1 cache, where a later one could find what is no longer so.

Not handled: loops with copies of their body; indices that follow from what an iteration computes or carries.
Checked by: tests/lower/ptx/test_indices.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Block, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.lower.points.elementwise import divided
from tilewright.lower.ptx.copies.global_access import load_index
from tilewright.lower.ptx.lowering import Lowering, integers
from tilewright.lower.ptx.places import GlobalPlace, IndexPlace, Place


def lower_index_divide(lowering: Lowering, op: ac.IndexDivideOp) -> Place:
    return IndexPlace(divided(lowering.text, lowering.places, op))


def lower_index_load(lowering: Lowering, op: ac.IndexLoadOp) -> Place:
    return IndexPlace(lowering.loaded_ahead.get(op) or _loaded(lowering, op))


def lower_affine(lowering: Lowering, op: ac.AffineOp) -> Place:
    return IndexPlace(_affine(lowering, op))


def first_ahead(lowering: Lowering, block: Block, index: str) -> dict[ac.IndexLoadOp, str]:
    """Load what a loop's first iteration, `index`, loads: by load, in which register an iteration has it."""
    found = _load_at(lowering, block, _ahead(block), index)
    lowering.loaded_ahead |= found
    return found


def next_ahead(
    lowering: Lowering, block: Block, index: str, ahead: Mapping[ac.IndexLoadOp, str]
) -> dict[ac.IndexLoadOp, str]:
    """Load what the iteration after `index` loads, to registers of its own."""
    return _load_at(lowering, block, [*ahead], lowering.text.into("b32", "add.u32", index, 1)) if ahead else {}


def _ahead(block: Block) -> list[ac.IndexLoadOp]:
    """The loads of a loop's body whose indices follow from the loop's index alone."""
    own = {*block.args[1:], *(result for op in block.ops for result in op.results)}
    found: list[ac.IndexLoadOp] = []
    for op in block.ops:
        if all(operand not in own for operand in op.operands):
            if isinstance(op, ac.AffineOp | ac.IndexDivideOp):
                own -= {*op.results}
            elif isinstance(op, ac.IndexLoadOp):
                found.append(op)
    return found


def _load_at(lowering: Lowering, block: Block, loads: list[ac.IndexLoadOp], index: str) -> dict[ac.IndexLoadOp, str]:
    """Load what the iteration `index` does."""
    needed: set[ac.AffineOp | ac.IndexDivideOp] = set()
    open_: list[SSAValue] = [operand for load in loads for operand in load.indices]
    while open_:
        op = open_.pop().owner
        if isinstance(op, ac.AffineOp | ac.IndexDivideOp) and op.parent is block and op not in needed:
            needed.add(op)
            open_ += op.operands
    lowering.places[block.args[0]] = IndexPlace(index)
    for op in block.ops:
        if isinstance(op, ac.AffineOp | ac.IndexDivideOp) and op in needed:
            lowering.places[op.results[0]] = _followed(lowering, op)
    return {load: _loaded(lowering, load) for load in loads}


def _followed(lowering: Lowering, op: ac.AffineOp | ac.IndexDivideOp) -> Place:
    return lower_affine(lowering, op) if isinstance(op, ac.AffineOp) else lower_index_divide(lowering, op)


def _loaded(lowering: Lowering, op: ac.IndexLoadOp) -> str:
    source = lowering.place(op.source)
    assert isinstance(source, GlobalPlace)
    ahead = all(isinstance(use.operation, ac.BoxPrefetchOp) for use in op.result.uses)
    strides = lowering.passed.strides(lowering.text, source.apart)
    return load_index(lowering.text, source, [lowering.index(each) for each in op.indices], strides, ahead=ahead)


def _affine(lowering: Lowering, op: ac.AffineOp) -> str:
    text = lowering.text
    total = ""
    for coefficient, operand in zip(integers(op.coefficients), op.operands_, strict=True):
        register = lowering.index(operand)
        if total:
            total = text.into("b32", "mad.lo.s32", register, coefficient, total)
        else:
            total = text.into("b32", "mul.lo.s32", register, coefficient)
    if not total:
        return text.into("b32", "mov.u32", op.constant.data)
    return text.into("b32", "add.s32", total, op.constant.data) if op.constant.data else total
