"""When is a loop over products a walk that only sums, and what does it look like as one?

A loop that multiplies into accumulators which begin at 0, and does nothing else with them, is a sum of contractions
over the loop's axis for each. Written so, tile by tile, it is a walk like those that `synth.streaming` derives, and the
general generator (`synth.cascade`, `lower.cascade`) takes it: for targets on which loops have no generator of their
own. What it means is unchanged: the same values, the same axis, the same sums. Both operands may be loads, or one of
them computed of loads, element by element.

A product that is scaled in its loop is multiplied with the numbers of the block that its tile lies in
(`tile.walked_block`), before it is added.

Not handled, and None: scaled products in batches or beside others, and scales that are not over one axis of the product
besides blocks of the loop's; in the loop, transposed values but whole operands. Checked by:
tests/synth/streaming/test_loop_products.py and tests/synth/cascade/test_scaled_walks.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import dots, grouping, the_program
from tilewright.ir.tile.product import DOT_ELEMENTS
from tilewright.ir.tile.repeats import untransposed
from tilewright.ir.tile.types import value_type
from tilewright.ir.tile.walked_block import WalkedBlockOp

_IN_A_LOOP = (
    tile.LoadOp, tile.ShiftOp, tile.BlockOp, tile.TransposeOp, tile.DotOp, tile.YieldOp, tile.UnaryOp, tile.BinaryOp,
    tile.CastOp, tile.BroadcastOp, tile.ConstantOp, tile.FullOp,
)  # fmt: skip


def as_walk(module: ModuleOp, *, swapped: bool = False) -> ModuleOp | None:
    """The program with its loop over products as a walk that sums; None where it is none. swapped: what the right
    operand has are the rows of its tiles, and what the left one has their columns. Rows in groups are those of tiles
    in any case."""
    program = the_program(module)
    if not _is_sum(program):
        return None
    if (groups := grouping(program)) is not None:
        swapped = groups.ragged in value_type(dots(program)[0].right).axis_names
    found = module.clone()
    listed = dots(the_program(found))
    loop = listed[0].parent_op()
    assert isinstance(loop, tile.LoopOp)
    block = loop.body.block
    scaled = {dot: _scales(block, dot) for dot in listed}
    for dot in listed:
        left, right = untransposed(dot.left), untransposed(dot.right)
        if swapped:
            left, right = right, left
        axes, place = value_type(dot.result).axis_names, dot.place.data
        product = ContractOp(left, right, dot.contracted, axes, place)
        block.insert_op_before(product, dot)
        term = product.result
        for scale in scaled[dot]:
            times = tile.BinaryOp(Function.MUL, term, scale, place)
            block.insert_op_before(times, dot)
            term = times.result
        total = tile.BinaryOp(Function.ADD, dot.accumulator, term, place)
        block.insert_op_before(total, dot)
        dot.result.replace_all_uses_with(total.result)
        dot.detach()
        dot.erase()
    for op in reversed(list(block.ops)):
        # Transpositions, and what scales were computed of.
        if op.results and not any(result.uses for result in op.results):
            op.detach()
            op.erase()
    loop.properties["streamed"] = UnitAttr()
    found.verify()
    return found


def _is_sum(program: tile.ProgramOp) -> bool:
    products = dots(program)
    if not products or any(not _is_scaled_plainly(each, products) for each in products):
        return False
    loop = products[0].parent_op()
    if [op for op in program.body.block.ops if isinstance(op, tile.LoopOp)] != [loop]:
        return False
    if not isinstance(loop, tile.LoopOp) or loop.streamed is not None or len(loop.carried) != len(products):
        return False
    inside, arguments = list(loop.body.block.ops), loop.body.block.args[1:]
    end = inside[-1]
    if not isinstance(end, tile.YieldOp) or any(each.parent_op() is not loop for each in products):
        return False
    if not all(isinstance(op, _IN_A_LOOP) for op in inside):
        return False
    # Each accumulator is one product's, which is all that is done with it.
    pairs = {each.accumulator: each.result for each in products}
    if [pairs.get(argument) for argument in arguments] != list(end.values):
        return False
    if any(len(list(value.uses)) != 1 for pair in pairs.items() for value in pair):
        return False
    initials = [value.owner for value in loop.carried]
    if not all(isinstance(each, tile.FullOp) and each.value.value.data == 0.0 for each in initials):
        return False
    scaling = {op for each in products for scale in each.scales for op in _made(scale)}
    transposes = [op for op in inside if isinstance(op, tile.TransposeOp) and op not in scaling]
    if not all(_feeds(op.result, products) for op in transposes):
        return False
    return all(_is_taken(each) for each in products)


def _is_scaled_plainly(dot: tile.DotOp, products: Sequence[tile.DotOp]) -> bool:
    """Whether a product has no scales, or is a single one of matrices that numbers of rows or columns of blocks
    scale."""
    if not dot.scales:
        return True
    loads = [op for scale in dot.scales for op in _made(scale) if isinstance(op, tile.LoadOp)]
    alone = len(products) == 1 and len(value_type(dot.result).axis_names) == 2
    return alone and all(len(_own_axes(load, dot.contracted)) == 1 for load in loads)


def _own_axes(load: tile.LoadOp, contracted: str) -> list[str]:
    """The axes of numbers of blocks besides the contracted one's."""
    return [axis for axis in value_type(load.result).axis_names if base_axis(axis) != contracted]


def _made(value: SSAValue) -> list[Operation]:
    """What makes a scale, itself among it."""
    found: list[Operation] = []
    open_ = [value]
    while open_:
        owner = open_.pop().owner
        if isinstance(owner, Operation) and owner not in found:
            found.append(owner)
            open_ += () if isinstance(owner, tile.LoadOp) else owner.operands
    return found


def _scales(block: Block, dot: tile.DotOp) -> list[SSAValue]:
    """The scales of a product at the tile's own block, over the product's axes."""
    axes = value_type(dot.result).axis_names

    def at_block(value: SSAValue) -> SSAValue:
        owner, place = value.owner, dot.place.data
        match owner:
            case tile.BroadcastOp() | tile.TransposeOp():
                return at_block(owner.operand)
            case tile.LoadOp():
                (blocks,) = (axis for axis in value_type(value).axis_names if base_axis(axis) == dot.contracted)
                own = WalkedBlockOp(value, blocks, place)
                spread = tile.BroadcastOp(own.result, axes, place)
                block.insert_ops_before([own, spread], dot)
                return spread.result
            case tile.ConstantOp():
                number = tile.ConstantOp(owner.value.value.data, place)
                block.insert_op_before(number, dot)
                again = tile.BroadcastOp(number.result, axes, place)
            case tile.CastOp():
                again = tile.CastOp(at_block(owner.operand), value_type(value).element_kind, place)
            case tile.UnaryOp():
                again = tile.UnaryOp(owner.function.data, at_block(owner.operand), place)
            case tile.BinaryOp():
                again = tile.BinaryOp(owner.function.data, at_block(owner.left), at_block(owner.right), place)
            case _:
                raise AssertionError(f"a product is scaled by {owner}")
        block.insert_op_before(again, dot)
        return again.result

    return [at_block(scale) for scale in dot.scales]


def _feeds(value: SSAValue, products: Sequence[tile.DotOp]) -> bool:
    """Whether a transposed value is used by products alone, transposed again or not."""
    return all(
        use.operation in products
        or (isinstance(use.operation, tile.TransposeOp) and _feeds(use.operation.result, products))
        for use in value.uses
    )


def _is_taken(dot: tile.DotOp) -> bool:
    """Whether one operand is loaded, and the other one, too, or computed."""
    elements = {value_type(each).element_kind for each in (dot.left, dot.right)}
    loaded = [isinstance(untransposed(each).owner, tile.LoadOp) for each in (dot.left, dot.right)]
    return elements <= set(DOT_ELEMENTS) and any(loaded)
