"""What are the two programs of one whose array no tensor map describes: a copy of it, and the program of the copy?

A tensor map wants rows that begin at multiples of 16 bytes, and an array that does. A copy into a workspace that is
dense but for that changes no number. It is contiguous along the axis that the array is contiguous along, or along
another one where the tensor core takes an operand so. The program after is the same, of an array with other strides, so
there is nothing to certify but the copy. Where an array is read displaced, and so past its ends, the copy is displaced,
zeros where the array ends, and the loads that were displaced as it is read the copy in place. What integers lead to is
laid out in the order of the axes that it is read over, by a program that loads it at the same places. A copy is over
places of the array, so that an axis of blocks is one of elements to it; elements that no arithmetic takes, as factors
of blocks, are copied as bytes.

Not handled, and None: arrays that are stored to, displaced by blocks, or gathered by them or in several ways; inner
axes whose extents only a launch knows. Of loads displaced in several ways, a copy serves one way. Checked by:
tests/synth/cut/test_laid_out.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.ir.sizes import ranges_attr
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, blocks_of
from tilewright.ir.tile.facts import SPARE, gathers, index_offset, parameter_name, the_program
from tilewright.ir.tile.gather import GatherOp
from tilewright.ir.tile.rules import violations
from tilewright.ir.tile.types import TensorType, tensor_type
from tilewright.synth.cut.handover import free_name, padded_strides, strides_on_lines
from tilewright.targets import Target


def laid_out(
    module: ModuleOp, name: str, target: Target, inner: str = "", *, misaligned: bool = False
) -> tuple[ModuleOp, ModuleOp] | None:
    """The copy of an array, and the program that takes the copy for it; None where an array is not copied so. inner:
    the axis along which the copy is contiguous, where none is said that along which the array is, or its last one.
    misaligned: whether the array may begin anywhere, so that a copy of the same layout is described where it is not."""
    program = the_program(module)
    names = [each.data for each in program.parameters]
    if name not in names:
        return None
    argument = program.body.block.args[names.index(name)]
    gathered = [use.operation for use in argument.uses]
    if len(gathered) == 1 and isinstance(gathered[0], GatherOp) and argument is gathered[0].tensor:
        return _gathered(module, gathered[0], name, target)
    kind = tensor_type(argument)
    loaded = all(isinstance(use.operation, tile.LoadOp) for use in argument.uses)
    if not loaded:
        return None
    inner = inner or _own_inner(kind, program)
    if inner not in kind.axis_names or any(axis in program.run_time for axis in (inner, *kind.axis_names[1:])):
        return None
    displaced = dict.fromkeys(_offsets(use.operation) for use in argument.uses)
    offsets = next((each for each in displaced if any(each)), (0,) * len(kind.axis_names))
    if any(offsets) and any(blocks_of(axis) is not None for axis in kind.axis_names):
        return None
    order = sorted(range(len(kind.axis_names)), key=lambda at: kind.axis_names[at] == inner)
    apart = strides_on_lines([kind.extents[at] for at in order], kind.element_kind, target)
    strides = [apart[order.index(at)] for at in range(len(order))]
    workspace = TensorType.of(kind.axis_names, kind.extents, strides, kind.element_kind)
    close = padded_strides([kind.extents[at] for at in order], kind.element_kind)
    ways = (tuple(strides), tuple(close[order.index(at)] for at in range(len(order))))
    same = not any(offsets) and kind.stride_elements in ways and kind.refinement == workspace.refinement
    if same and not misaligned:
        return None  # a copy would be described no better
    taken = free_name(f"{program.sym_name.data}_{name}", names)
    after = module.clone()
    written = the_program(after)
    block = written.body.block
    given = block.args[names.index(name)]
    copied = block.insert_arg(workspace, names.index(name))
    names.insert(names.index(name), taken)
    for load in [use.operation for use in given.uses]:
        if isinstance(load, tile.LoadOp) and _offsets(load) == offsets:
            load.operands = [copied, *map(_in_place, load.indices)]
    if not given.uses.get_length():
        block.erase_arg(given)
        names.remove(name)
    written.properties["parameters"] = ArrayAttr([StringAttr(each) for each in names])
    return _copy(program, name, taken, (_as_places(kind), _as_places(workspace)), order, offsets), after


def _as_places(kind: TensorType) -> TensorType:
    """An array's type for who copies it: over plain axes, and of bytes where its elements are no numbers by
    themselves."""
    if not any(map(blocks_of, kind.axis_names)) and kind.element_kind.copied_as is kind.element_kind:
        return kind
    names = [free_name(base_axis(axis), kind.axis_names) if blocks_of(axis) else axis for axis in kind.axis_names]
    return TensorType.of(names, kind.extents, kind.stride_elements, kind.element_kind.copied_as)


def _own_inner(kind: TensorType, program: tile.ProgramOp) -> str:
    """The axis of known extent along which an array is contiguous, its last one where there is none."""
    strides = zip(kind.axis_names, kind.extents, kind.stride_elements, strict=True)
    dense = [axis for axis, extent, stride in strides if stride == 1 and extent > 1 and axis not in program.run_time]
    return dense[-1] if dense else kind.axis_names[-1]


def _gathered(module: ModuleOp, op: GatherOp, name: str, target: Target) -> tuple[ModuleOp, ModuleOp] | None:
    """The program that puts together what integers lead to, and the one that takes that for it."""
    program, axes = the_program(module), op.result.type.axis_names
    if any(blocks_of(axis) is not None for axis in axes) or any(axis in program.run_time for axis in axes[1:]):
        return None
    shape, element = [program.extents[axis] for axis in axes], tensor_type(op.tensor).element_kind
    workspace = TensorType.of(axes, shape, strides_on_lines(shape, element, target), element)
    names = [each.data for each in program.parameters]
    taken = free_name(f"{program.sym_name.data}_{name}", names)
    after = module.clone()
    written = the_program(after)
    fresh = written.body.block.insert_arg(workspace, len(names))
    (own,) = (each for each in gathers(written) if parameter_name(written, each.tensor) == name)
    own.result.replace_all_uses_with(fresh)
    own.detach()
    own.erase()
    names.append(taken)
    # The array, and tables that say nothing else, are parameters of the program before alone.
    for number in reversed(range(len(names))):
        if not written.body.block.args[number].uses:
            written.body.block.erase_arg(written.body.block.args[number])
            del names[number]
    written.properties["parameters"] = ArrayAttr([StringAttr(each) for each in names])
    left = {base_axis(axis) for each in written.body.block.args for axis in tensor_type(each).axis_names}
    if written.ranges is not None:
        kept = {axis: values for axis, values in written.run_time.items() if axis in left}
        written.properties["ranges"] = ranges_attr(kept)
    if next(violations(written), None) is not None:
        return None
    return _gathering(program, op, taken, workspace), after


def _gathering(program: tile.ProgramOp, op: GatherOp, taken: str, workspace: TensorType) -> ModuleOp:
    place, axes, sources = program.place.data, workspace.axis_names, list(dict.fromkeys(op.operands))
    names = [*(parameter_name(program, each) for each in sources), taken]
    block = Block(arg_types=[*(each.type for each in sources), workspace])
    for argument, hint in zip(block.args, names, strict=True):
        argument.name_hint = hint
    again = dict(zip(sources, block.args, strict=False))
    gather = GatherOp(again[op.tensor], [again[each] for each in op.tables], op.place_names, axes, op.place.data)
    grid = tile.GridOp(axes, place)
    load = tile.LoadOp(gather.result, grid.indices, place)
    stored = tile.StoreOp(load.result, block.args[-1], grid.indices, place)
    block.add_ops([gather, grid, load, stored, tile.ReturnOp()])
    named = {base_axis(axis) for each in block.args for axis in tensor_type(each).axis_names}
    sizes = {axis: extent for axis, extent in program.extents.items() if axis in named}
    ranges = {axis: values for axis, values in program.run_time.items() if axis in named}
    module = ModuleOp([tile.ProgramOp(f"{taken}_gathered", names, sizes, Region(block), place, ranges)])
    assert next(violations(the_program(module)), None) is None, "what is gathered by itself is a program"
    return module


def _offsets(load: Operation) -> tuple[int, ...]:
    return tuple(map(index_offset, load.indices)) if isinstance(load, tile.LoadOp) else ()


def _in_place(index: SSAValue) -> SSAValue:
    """What an index was before it was displaced."""
    return _in_place(index.owner.index) if isinstance(index.owner, tile.ShiftOp) else index


def _copy(
    program: tile.ProgramOp,
    name: str,
    taken: str,
    kinds: tuple[TensorType, TensorType],
    order: Sequence[int],
    offsets: tuple[int, ...],
) -> ModuleOp:
    """order: of the array's axes, with that along which the copy is contiguous as the last."""
    place, axes = program.place.data, kinds[0].axis_names
    block = Block(arg_types=list(kinds))
    for argument, hint in zip(block.args, (name, taken), strict=True):
        argument.name_hint = hint
    grid = tile.GridOp([axes[at] for at in order], place)
    own = [grid.indices[order.index(at)] for at in range(len(axes))]
    shifts = {number: tile.ShiftOp(own[number], by, place) for number, by in enumerate(offsets) if by}
    indices = [shifts[number].result if number in shifts else index for number, index in enumerate(own)]
    load = tile.LoadOp(block.args[0], indices, place)
    block.add_ops([grid, *shifts.values(), load, tile.StoreOp(load.result, block.args[1], own, place), tile.ReturnOp()])
    sizes = dict(zip(axes, kinds[0].extents, strict=True))
    ranges = {axis: values for axis, values in program.run_time.items() if axis in axes}
    copy = tile.ProgramOp(f"{taken}_copy", [name, taken], sizes, Region(block), place, ranges)
    copy.attributes[SPARE] = ArrayAttr([StringAttr(taken)])
    module = ModuleOp([copy])
    assert next(violations(copy), None) is None, "a copy is a program"
    return module
