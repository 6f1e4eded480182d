"""Which products of a traced program are those of a loop, written without one?

Theory: the sum of products over an axis is what `tile.loop` with `tile.dot` computes, tile by tile. The pipeline of
loops takes products of matrices, perhaps batched, of operands that are computed element by element from loads, with
nothing but elementwise arithmetic behind. So a program all of whose contractions are such, over one axis, is rewritten
to that loop, as its author would have written it: the axis leaves the grid, what depends on it goes into the loop, an
operand whose contracted axis lies on the wrong side is transposed, and one in float32 is cast to the other's element,
as the contraction itself would round it. Every other program keeps its contractions.

Not handled: scales that the product would have to be multiplied by inside the loop; products of several axes.
Checked by: tests/frontends/test_tile_loop_form.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import dce

from tilewright.base.element import Element
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import axes_of, grouping, stores, the_grid, the_program
from tilewright.ir.tile.operations import (
    BinaryOp,
    BlockOp,
    BroadcastOp,
    CastOp,
    ConstantOp,
    DotOp,
    FullOp,
    GridOp,
    LoadOp,
    LoopOp,
    PositionOp,
    ProgramOp,
    SelectOp,
    ShiftOp,
    TransposeOp,
    UnaryOp,
    YieldOp,
)
from tilewright.ir.tile.products import shared_products
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.rules import place_of, violations
from tilewright.ir.tile.types import IndexType, value_type

_ELEMENTWISE = (LoadOp, ShiftOp, BlockOp, ConstantOp, BroadcastOp, TransposeOp, CastOp, UnaryOp, BinaryOp)
"""What an operand may be computed by."""
_OTHERS = (LoopOp, ReduceOp, ArgReduceOp, PositionOp, SelectOp)
"""What no program of this form has."""


def in_loop_form(module: ModuleOp) -> ModuleOp:
    """The module with its contractions as products of one loop, where all of them can be; else the module itself."""
    program = the_program(module)
    found = [op for op in program.walk() if isinstance(op, ContractOp)]
    if not found or any(isinstance(op, _OTHERS) for op in program.walk()):
        return module
    axis = found[0].axis.data
    orders = [_matrices(op) for op in found]
    if any(op.axis.data != axis or order is None for op, order in zip(found, orders, strict=True)):
        return module
    if any(not _is_elementwise(side) for op in found for side in op.operands):
        return module
    copy = module.clone()
    _rewrite(the_program(copy), axis)
    dce(copy)
    fits = next(violations(the_program(copy)), None) is None and _is_pipelined(the_program(copy))
    return copy if fits else module


def _matrices(op: ContractOp) -> tuple[SSAValue, SSAValue] | None:
    """The operands in the order of the result's last two axes, where the contraction is a product of two matrices, or
    of batches of them; else None."""
    axis, wanted = op.axis.data, axes_of(op.result)
    if len(wanted) not in (2, 3):
        return None
    *batch, outer, inner = wanted
    for first, second in ((op.left, op.right), (op.right, op.left)):
        sides = ((first, outer), (second, inner))
        if all(_is_matrix(axes_of(side), {own, axis}, batch) for side, own in sides):
            lies = any(len(axes_of(side)) == len(wanted) for side, _ in sides)
            return (first, second) if lies else None
    return None


def _is_matrix(axes: tuple[str, ...], own: set[str], batch: Sequence[str]) -> bool:
    return set(axes[-2:]) == own and axes[:-2] in ((), tuple(batch))


def _is_elementwise(value: SSAValue) -> bool:
    """Whether a value is computed element by element from what is loaded."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        held = pending.pop()
        owner = held.owner
        if held in seen or isinstance(owner, GridOp | Block):
            continue
        seen.add(held)
        if not isinstance(owner, _ELEMENTWISE):
            return False
        pending += owner.operands
    return True


def _rewrite(program: ProgramOp, axis: str) -> None:
    grid = the_grid(program)
    found = [op for op in program.walk() if isinstance(op, ContractOp)]
    place = place_of(found[0])
    body = Block(arg_types=[IndexType.of(axis)])
    body.args[0].name_hint = axis
    summed = grid.indices[grid.axis_names.index(axis)]
    moved: dict[SSAValue, SSAValue] = {summed: body.args[0]}
    starts: list[SSAValue] = []
    finals: list[SSAValue] = []
    for op in found:
        sides = _matrices(op)
        assert sides is not None
        elements = {value_type(side).element_kind for side in sides}
        narrow = next((element for element in elements if element is not Element.F32), Element.F32)
        *_, outer, inner = axes_of(op.result)
        own = place_of(op)
        left = _operand(body, moved, sides[0], narrow, (outer, axis), own)
        right = _operand(body, moved, sides[1], narrow, (axis, inner), own)
        start = FullOp(0.0, axes_of(op.result), own)
        Rewriter.insert_op(start, InsertPoint.before(found[0]))
        starts.append(start.result)
        argument = body.insert_arg(start.result.type, len(body.args))
        argument.name_hint = "acc"
        dot = DotOp(left, right, argument, own)
        body.add_op(dot)
        finals.append(dot.result)
    body.add_op(YieldOp(finals))
    loop = LoopOp(axis, starts, Region(body), place)
    Rewriter.insert_op(loop, InsertPoint.before(found[0]))
    for op, output in zip(found, loop.outputs, strict=True):
        output.name_hint = "acc"
        op.result.replace_all_uses_with(output)
        Rewriter.erase_op(op)
    _drop_unused(program)
    _drop_axis(program, grid, axis)


def _operand(
    body: Block,
    moved: dict[SSAValue, SSAValue],
    value: SSAValue,
    element: Element,
    last: tuple[str, str],
    place: str,
) -> SSAValue:
    """An operand computed in the loop's body, of an element, with these as its last two axes."""
    result = _moved(body, moved, value)
    if value_type(result).element_kind is not element:
        result = _made(body, CastOp(result, element, place))
    if axes_of(result)[-2:] == last:
        return result
    if isinstance(result.owner, TransposeOp):
        return result.owner.operand
    return _made(body, TransposeOp(result, place))


def _made(body: Block, op: CastOp | TransposeOp) -> SSAValue:
    """The op's result in the body, which has each once, so that products can have it in common."""
    for use in op.operand.uses:
        same = use.operation
        if same is not op and isinstance(same, type(op)) and same.result.type == op.result.type:
            op.erase()
            return same.result
    body.add_op(op)
    return op.result


def _moved(body: Block, moved: dict[SSAValue, SSAValue], value: SSAValue) -> SSAValue:
    """A value as it is in the loop's body: computed there, in program order, from indices of the grid and tensors."""
    needed, pending = set[Operation](), [value]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, _ELEMENTWISE) and owner not in needed:
            needed.add(owner)
            pending += owner.operands
    for op in [] if value in moved else _above(value):
        if op in needed and op.results[0] not in moved:
            copy = op.clone(moved)
            body.add_op(copy)
            moved[op.results[0]] = copy.results[0]
    return moved[value]


def _above(value: SSAValue) -> list[Operation]:
    """The ops of the block that computes a value."""
    owner = value.owner
    block = owner.parent if isinstance(owner, Operation) else owner
    return [] if block is None else list(block.ops)


def _drop_unused(program: ProgramOp) -> None:
    """Drop what nothing uses any more, operands of the contractions among it."""
    for op in reversed(list(program.body.block.ops)):
        if isinstance(op, _ELEMENTWISE) and not any(True for result in op.results for _ in result.uses):
            Rewriter.erase_op(op)


def _drop_axis(program: ProgramOp, grid: GridOp, axis: str) -> None:
    """Take an axis out of the grid, where nothing uses its index any more."""
    if any(True for _ in grid.indices[grid.axis_names.index(axis)].uses):
        return
    kept = [index for name, index in zip(grid.axis_names, grid.indices, strict=True) if name != axis]
    cut = grouping(program)
    bounds = None if cut is None or grid.bounds is None else (cut.kind, cut.ragged, grid.bounds)
    narrower = GridOp([name for name in grid.axis_names if name != axis], place_of(grid), bounds)
    Rewriter.insert_op(narrower, InsertPoint.before(grid))
    for old, new in zip(kept, narrower.indices, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    Rewriter.erase_op(grid)


def _is_pipelined(program: ProgramOp) -> bool:
    """Whether one pipeline computes all products, which then are over the whole grid, and so is what is stored."""
    shared = shared_products(program)
    grid = set(the_grid(program).tile_axes)
    if shared is None or any(set(axes_of(store.value)) < grid for store in stores(program)):
        return False
    return grouping(program) is not None or all(set(axes_of(dot.result)) == grid for dot in shared.products)
