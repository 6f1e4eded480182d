"""When is a loop over products a walk that only sums, and what does it look like as one?

A loop whose body multiplies two loads into an accumulator that begins at 0, and does nothing else, is the sum of a
contraction over the loop's axis. Written so, tile by tile, it is a walk like those that `synth.streaming` derives, and
the general generator (`synth.cascade`, `lower.cascade`) takes it: for targets on which loops have no generator of their
own. What it means is unchanged: the same loads, the same axis, the same sum.

Not handled, and None: several products in a loop, scales, operands that are computed, transposed values elsewhere,
groups, run-time extents. Checked by: tests/synth/streaming/test_loop_products.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import SSAValue

from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import dots, grouping, the_program
from tilewright.ir.tile.product import DOT_ELEMENTS
from tilewright.ir.tile.types import tensor_type, value_type

_IN_A_LOOP = (tile.LoadOp, tile.ShiftOp, tile.BlockOp, tile.TransposeOp, tile.DotOp, tile.YieldOp)


def as_walk(module: ModuleOp) -> ModuleOp | None:
    """The program with its loop over products as a walk that sums; None where it is none."""
    if not _is_sum(the_program(module)):
        return None
    found = module.clone()
    (dot,) = dots(the_program(found))
    loop = dot.parent_op()
    assert isinstance(loop, tile.LoopOp)
    left, right = _loaded(dot.left), _loaded(dot.right)
    axes, place = value_type(dot.result).axis_names, dot.place.data
    product = ContractOp(left, right, dot.contracted, axes, place)
    total = tile.BinaryOp(Function.ADD, dot.accumulator, product.result, place)
    block = loop.body.block
    block.insert_ops_before([product, total], dot)
    dot.result.replace_all_uses_with(total.result)
    dot.detach()
    dot.erase()
    for op in [op for op in block.ops if isinstance(op, tile.TransposeOp)]:
        op.detach()
        op.erase()
    loop.properties["streamed"] = UnitAttr()
    found.verify()
    return found


def _is_sum(program: tile.ProgramOp) -> bool:
    products = dots(program)
    if len(products) != 1 or products[0].scales or grouping(program) is not None or program.run_time:
        return False
    (dot,) = products
    loop = dot.parent_op()
    loops = [op for op in program.body.block.ops if isinstance(op, tile.LoopOp)]
    if loops != [loop] or not isinstance(loop, tile.LoopOp) or loop.streamed is not None or len(loop.carried) != 1:
        return False
    inside = list(loop.body.block.ops)
    if not all(isinstance(op, _IN_A_LOOP) for op in inside) or dot.accumulator is not loop.body.block.args[1]:
        return False
    initial, end = loop.carried[0].owner, inside[-1]
    if not isinstance(initial, tile.FullOp) or initial.value.value.data != 0.0:
        return False
    if not isinstance(end, tile.YieldOp) or list(end.values) != [dot.result]:
        return False
    transposes = [op for op in program.walk() if isinstance(op, tile.TransposeOp)]
    if any(op.parent_op() is not loop or not _feeds(op.result, dot) for op in transposes):
        return False
    return all(_is_loaded(each) for each in (dot.left, dot.right))


def _feeds(value: SSAValue, dot: tile.DotOp) -> bool:
    """Whether a transposed value is used by the product alone, transposed again or not."""
    return all(
        use.operation is dot or (isinstance(use.operation, tile.TransposeOp) and _feeds(use.operation.result, dot))
        for use in value.uses
    )


def _is_loaded(value: SSAValue) -> bool:
    owner = _loaded(value).owner
    return isinstance(owner, tile.LoadOp) and tensor_type(owner.tensor).element_kind in DOT_ELEMENTS


def _loaded(value: SSAValue) -> SSAValue:
    """A value without the transpositions around it: the axes of a contraction are identified by name."""
    while isinstance(value.owner, tile.TransposeOp):
        value = value.owner.operand
    return value
