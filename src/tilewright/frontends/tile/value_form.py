"""What is a loop over products without its loop?

The inverse of `loop_form`: an accumulator that a loop adds products to is the sum of a contraction over the loop's axis
and what it began as. So written, the axis stands in the grid and every value of the program may be handed over to
another kernel (`synth.cut.handover`): a computed operand, say, that no generator of loops takes.

Not handled, and None: groups, scales in the loop, extents that only a launch knows, loops that carry anything but sums.
Checked by: tests/frontends/test_tile_loop_form.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import dce

from tilewright.ir.function import Function
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import axes_of, grouping, loops, the_grid, the_program
from tilewright.ir.tile.operations import BinaryOp, DotOp, FullOp, GridOp, LoopOp, YieldOp
from tilewright.ir.tile.repeats import untransposed
from tilewright.ir.tile.rules import place_of, violations


def in_value_form(module: ModuleOp) -> ModuleOp | None:
    """The module with the products of its one loop as values; None where it has no such loop."""
    program = the_program(module)
    found = loops(program)
    if len(found) != 1 or grouping(program) is not None or program.run_time or not _only_sums(found[0]):
        return None
    copy = module.clone()
    written = the_program(copy)
    (loop,) = loops(written)
    _unroll(loop, _with_axis(the_grid(written), loop.axis.data))
    dce(copy)
    return copy if next(violations(written), None) is None else None


def _only_sums(loop: LoopOp) -> bool:
    """Whether each value that a loop carries is one product's accumulator, which nothing else uses."""
    listed = [op for op in loop.body.block.ops if isinstance(op, DotOp)]
    end = loop.body.block.last_op
    sums = {each.accumulator: each.result for each in listed}
    if loop.streamed is not None or not isinstance(end, YieldOp) or any(each.scales for each in listed):
        return False
    alone = all(value.uses.get_length() == 1 for pair in sums.items() for value in pair)
    return alone and [sums.get(each) for each in loop.body.block.args[1:]] == list(end.values)


def _with_axis(grid: GridOp, axis: str) -> SSAValue:
    """The index of an axis that becomes the grid's last."""
    wider = GridOp([*grid.axis_names, axis], place_of(grid))
    Rewriter.insert_op(wider, InsertPoint.before(grid))
    *kept, further = wider.indices
    for old, new in zip(grid.indices, kept, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    Rewriter.erase_op(grid)
    return further


def _unroll(loop: LoopOp, index: SSAValue) -> None:
    """Put what a loop does in its place, over the whole axis at once."""
    block = loop.body.block
    starts: dict[SSAValue, SSAValue] = dict(zip(block.args[1:], loop.carried, strict=True))
    totals: dict[SSAValue, SSAValue] = dict(zip(block.args[1:], loop.outputs, strict=True))
    known: dict[SSAValue, SSAValue] = {block.args[0]: index}
    for op in block.ops:
        point = InsertPoint.before(loop)
        if isinstance(op, DotOp):
            left, right = (untransposed(known[side]) for side in (op.left, op.right))
            product = ContractOp(left, right, loop.axis.data, axes_of(op.result), place_of(op))
            Rewriter.insert_op(product, point)
            start, total = starts[op.accumulator], product.result
            if not isinstance(start.owner, FullOp) or start.owner.value.value.data != 0.0:
                added = BinaryOp(Function.ADD, start, total, place_of(op))
                Rewriter.insert_op(added, point)
                total = added.result
            totals[op.accumulator].replace_all_uses_with(total)
        elif not isinstance(op, YieldOp):
            copied = op.clone(known)
            Rewriter.insert_op(copied, point)
            known |= dict(zip(op.results, copied.results, strict=True))
    Rewriter.erase_op(loop)
