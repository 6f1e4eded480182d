"""What is left of a program of which some axes have no elements?

An array without elements is not stored to, and a sum over no elements is the function's neutral number: 0 of sums and
products, an infinity of the largest or smallest. What is left has no empty axis, so that no later stage knows of them:
constants in the place of folds, the results that have elements, the axes and the parameters that these depend on. Often
it is nothing. Results that have no axis in common any more become programs of their own.

An axis of a range may have no elements at some launches. Where every result has the axis, nothing is launched then;
else there is a program of its own for such launches, in the place of that of all others.

Not handled, and refused at the author's line: the place of the largest or smallest of no elements, which is none; a
product with what has become a number, and groups without a product.
Checked by: tests/synth/test_empty_axes.py, by the reference evaluator on the program as it was written.
"""

from __future__ import annotations

import math
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.transforms.dead_code_elimination import dce

from tilewright.base.element import Element
from tilewright.base.size import Extent, Range, Size, chosen, computed
from tilewright.ir.cascade_facts import refuse_at
from tilewright.ir.function import Function
from tilewright.ir.sizes import ranges_attr
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, derived_extent
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import dots, grouping, parameter_name, stores, the_grid, the_program
from tilewright.ir.tile.gather import GatherOp
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.repeats import in_order
from tilewright.ir.tile.rules import place_of, violations
from tilewright.ir.tile.types import GroupType, IndexType, TensorType, ValueType, read_type, tensor_type, value_type

_REMEDY = "give it at least one element"

_NEUTRAL = {Function.ADD: 0.0, Function.MAX: -math.inf, Function.MIN: math.inf}
"""What folding no elements gives."""


def empty_words(program: tile.ProgramOp) -> str:
    """Which axes of a program have no elements."""
    axes = [axis for axis, extent in program.extents.items() if extent == 0 and base_axis(axis) == axis]
    return f"{' and '.join(axes)} {'has' if len(axes) == 1 else 'have'} no elements"


def without_empty_axes(module: ModuleOp) -> tuple[ModuleOp, ...]:
    """Programs that store what a traced one does, none of which has an empty axis: the program itself where it has
    none, nothing where nothing is stored. Raises TilewrightError for an argmax or argmin of no elements."""
    program = the_program(module)
    empty = {axis for axis, extent in program.extents.items() if extent == 0}
    if not empty:
        return (module,)
    grid = the_grid(program)
    if grid.bounds is not None and empty.intersection(tensor_type(grid.bounds).axis_names):
        return ()  # no element is in a group
    stored = [each for each in stores(program) if not empty.intersection(tensor_type(each.tensor).axis_names)]
    names = [parameter_name(program, store.tensor) for store in stored]
    if not names:
        return ()
    left = _storing(module, names, empty)
    if next(violations(the_program(left)), None) is None:
        return (left,)
    return tuple(_storing(module, [name], empty, f"_{name}") for name in names)


def cases_of_range(module: ModuleOp) -> tuple[tuple[ModuleOp, Size], ...]:
    """A traced program as several, each with a size that is 0 at the extents at which another one is launched: without
    the elements of an axis whose range begins at 0 and that some result does not have, and with some of them. The last
    is the one with elements along all axes."""
    program = the_program(module)
    for axis, values in program.run_time.items():
        if values.least == 0 and any(axis not in tensor_type(each.tensor).axis_names for each in stores(program)):
            some = Range(values.multiple_of, values.most, values.multiple_of)
            sides = ((_with_extent(module, axis, 0), (1, 0)), (with_range(module, axis, some), (0, 1)))
            return tuple(
                (each, computed("*", chosen(Extent(axis), here), there))
                for side, here in sides
                for each, there in cases_of_range(side)
            )
    return ((module, 1),)


def parts_of_range(module: ModuleOp, axis: str, most: int) -> tuple[tuple[ModuleOp, Size], ...]:
    """A traced program as two, of which the first is launched at extents of a run-time axis up to `most`, the other at
    larger ones; each with a size that is 0 at the extents at which the other one is launched."""
    values = the_program(module).run_time[axis]
    few = with_range(module, axis, Range(values.least, most, values.multiple_of))
    program = the_program(few)
    program.properties["sym_name"] = StringAttr(f"{program.sym_name.data}_{axis}_to_{most}")
    many = with_range(module, axis, Range(most + values.multiple_of, values.most, values.multiple_of))
    past = computed("ceil_div", Extent(axis), most)
    return (few, chosen(past, (1, 1, 0))), (many, chosen(past, (0, 0, 1)))


def with_range(module: ModuleOp, axis: str, values: Range) -> ModuleOp:
    """A copy of a program whose run-time axis has another range."""
    found = _with_extent(module, axis, values.most)
    program = the_program(found)
    program.properties["ranges"] = ranges_attr({**program.run_time, axis: values})
    program.properties["sym_name"] = the_program(module).sym_name
    return found


def _with_extent(module: ModuleOp, axis: str, extent: int) -> ModuleOp:
    """A copy of a program whose run-time axis has a known extent, under a name that says so."""
    found = module.clone()
    program = the_program(found)
    ranges = {**program.run_time}
    del ranges[axis]
    how = str(extent) if extent else ""
    program.properties["sym_name"] = StringAttr(f"{program.sym_name.data}_{'with' if how else 'without'}_{axis}{how}")
    extents = {**program.extents, axis: extent}
    extents = {each: derived_extent(each, extents) for each in extents}
    program.properties["axes"] = DictionaryAttr({each: IntegerAttr(size, i64) for each, size in extents.items()})
    for argument in list(program.body.block.args):
        tensor = tensor_type(argument)
        if axis in map(base_axis, tensor.axis_names):
            shape = [extents[each] for each in tensor.axis_names]
            strides: list[Size] = list(tensor.stride_sizes)
            if not extent:
                strides = [math.prod(max(1, each) for each in shape[at + 1 :]) for at in range(len(shape))]
            kind = TensorType.of(tensor.axis_names, shape, strides, tensor.element_kind, tensor.refinement)
            fresh = program.body.block.insert_arg(kind, argument.index)
            argument.replace_all_uses_with(fresh)
            program.body.block.erase_arg(argument)
    if ranges:
        program.properties["ranges"] = ranges_attr(ranges)
    else:
        program.properties.pop("ranges", None)
    return found


def _storing(module: ModuleOp, names: list[str], empty: set[str], suffix: str = "") -> ModuleOp:
    """The program that stores these results."""
    found, words = module.clone(), empty_words(the_program(module))
    program = the_program(found)
    for store in stores(program):
        if parameter_name(program, store.tensor) not in names:
            _erase(store)
    dce(found)
    for op in list(program.walk()):
        if op.parent is not None:
            _replace(op, empty)
    dce(found)
    for op in program.walk():
        if isinstance(op, ContractOp) and not all(_varies(side, op.axis.data) for side in (op.left, op.right)):
            refuse_at(op, f"{words}, so that this multiplies a number along {op.axis.data}", _REMEDY)
    if grouping(program) is not None and not dots(program):
        refuse_at(the_grid(program), f"{words}, so that these groups are multiplied by nothing", _REMEDY)
    _keep_axes(program)
    program.properties["sym_name"] = StringAttr(f"{program.sym_name.data}{suffix}")
    return found


def _replace(op: Operation, empty: set[str]) -> None:
    """Put a number in the place of what comes of no elements, and has some itself."""
    match op:
        case tile.LoopOp() if op.axis.data in empty:
            for output, initial in zip(op.outputs, op.carried, strict=True):
                output.replace_all_uses_with(initial)
            _erase(op)
        case ContractOp() if op.axis.data in empty:
            _become(op, 0.0, value_type(op.result), empty)
        case ReduceOp() if op.axis.data in empty:
            _become(op, _NEUTRAL[op.function.data], value_type(op.result), empty)
        case ArgReduceOp() if op.axis.data in empty and not empty.intersection(value_type(op.result).axis_names):
            refuse_at(op, f"{op.axis.data} has no elements, of which this would find one", _REMEDY)
        case tile.LoadOp() if isinstance(op.tensor.owner, GatherOp):
            read = read_type(op.tensor.owner.tensor).axis_names
            if empty.intersection(read):
                _become(op, 0.0, value_type(op.result), empty)
        case _:
            pass


def _varies(value: SSAValue, axis: str) -> bool:
    """Whether a value may differ from place to place along an axis."""
    leaves = (
        each for each in in_order(value, lambda each: True) if isinstance(each.owner, tile.LoadOp | tile.PositionOp)
    )
    return any(axis in map(base_axis, value_type(each).axis_names) for each in leaves)


def _become(op: Operation, value: float, kind: ValueType, empty: set[str]) -> None:
    """Put a number in the place of an operation's result, which nobody needs where it has no elements."""
    if empty.intersection(kind.axis_names):
        return
    place = place_of(op)
    names = kind.axis_names
    made: list[Operation] = [tile.ConstantOp(value, place)]
    if names:
        made.append(tile.BroadcastOp(made[-1].results[0], names, place))
    if kind.element_kind is not Element.F32:
        made.append(tile.CastOp(made[-1].results[0], kind.element_kind, place))
    block = op.parent
    assert isinstance(block, Block)
    block.insert_ops_before(made, op)
    op.results[0].replace_all_uses_with(made[-1].results[0])
    _erase(op)


def _keep_axes(program: tile.ProgramOp) -> None:
    """Leave the axes, in the grid too, and the parameters that something is still said of."""
    block, grid = program.body.block, the_grid(program)
    values = [result.type for op in program.walk() for result in op.results if isinstance(result.type, ValueType)]
    named = {base_axis(axis) for kind in values for axis in kind.axis_names}
    kept = [each for each in grid.indices if each.uses or (isinstance(each.type, IndexType) and _axis(each) in named)]
    if len(kept) < len(grid.indices):
        fresh = tile.GridOp([_axis(each) for each in kept], place_of(grid), _grouping(grid))
        block.insert_op_before(fresh, grid)
        for old, new in zip(kept, fresh.indices, strict=True):
            old.replace_all_uses_with(new)
        _erase(grid)
    names = [each.data for each in program.parameters]
    for place in reversed(range(len(names))):
        if not block.args[place].uses:
            block.erase_arg(block.args[place])
            del names[place]
    program.properties["parameters"] = ArrayAttr([StringAttr(each) for each in names])
    listed = {axis for each in block.args for axis in tensor_type(each).axis_names} | named
    listed |= set(the_grid(program).axis_names) | {op.axis.data for op in program.walk() if isinstance(op, tile.LoopOp)}
    listed |= {base_axis(axis) for axis in listed}
    for key in ("axes", "ranges"):
        given = program.properties.get(key)
        if isinstance(given, DictionaryAttr):
            left = {axis: each for axis, each in given.data.items() if axis in listed}
            program.properties[key] = DictionaryAttr(left)
    if not program.run_time:
        program.properties.pop("ranges", None)


def _axis(index: SSAValue) -> str:
    kind = index.type
    assert isinstance(kind, IndexType | GroupType), "a grid has indices"
    return kind.axis.data


def _grouping(grid: tile.GridOp) -> tuple[tile.GroupingKind, str, SSAValue] | None:
    if grid.bounds is None or grid.grouping is None or grid.ragged is None:
        return None
    return cast("tile.GroupingKind", grid.grouping.data), grid.ragged.data, grid.bounds


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
