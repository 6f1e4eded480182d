"""Which operand of a product in a loop is computed by a program before, where no walk takes it as it is?

A walk that sums (`streaming.loop_products`) takes loads of whole tiles, one of which may be computed of 16-bit elements
by threads on the way, unless it is asked that a program before does that, too. An operand that is computed besides, or
of 8 bits, or in groups, and one that is displaced along the axis that is summed over, is stored by a program of its
own: at each place the same value, of the same element, so that nothing is rounded that the program does not round. The
program after loads it.

Not handled, and None: operands that a group picks, that more than elementwise operations make, or with an inner axis
whose extent only a launch knows. Checked by: tests/synth/cut/test_operand_before.py.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, blocks_of
from tilewright.ir.tile.facts import dots, grouping, index_offset, parameter_name, the_program
from tilewright.ir.tile.product import DOT_ELEMENTS
from tilewright.ir.tile.repeats import in_order, untransposed
from tilewright.ir.tile.rules import violations
from tilewright.ir.tile.types import GroupType, IndexType, TensorType, tensor_type, value_type
from tilewright.synth.cut.handover import free_name, padded_strides

_THREADS_COMPUTE_BYTES = 2
"""Of an element that threads compute for the tensor core."""


def operand_before(module: ModuleOp, *, alone: bool = False) -> tuple[ModuleOp, ModuleOp] | None:
    """The program that stores an operand, and the one that loads it; None where every operand is taken as it is, or
    none can be stored before. alone: whether one that is the only computed operand of its product is stored, too."""
    program = the_program(module)
    for number, dot in enumerate(dots(program)):
        for value in _not_taken(program, dot, alone=alone):
            found = _divided(module, number, value)
            if found is not None:
                return found
    return None


def _not_taken(program: tile.ProgramOp, dot: tile.DotOp, *, alone: bool) -> list[SSAValue]:
    """The operands that no walk takes, the smaller first: of two that are computed, one may be. alone: whether none
    is."""
    sides = [untransposed(dot.left), untransposed(dot.right)]
    computed = [each for each in sides if not isinstance(each.owner, tile.LoadOp)]
    computed.sort(
        key=lambda value: math.prod(program.extents[base_axis(axis)] for axis in value_type(value).axis_names)
    )
    narrow = any(value_type(each).element_kind.bytes < _THREADS_COMPUTE_BYTES for each in computed)
    refused = computed if alone or len(computed) > 1 or narrow or grouping(program) is not None else []
    return refused + [each for each in sides if each not in computed and _is_displaced(each, dot.contracted)]


def _is_displaced(value: SSAValue, axis: str) -> bool:
    """Whether a load is displaced along an axis."""
    load = value.owner
    assert isinstance(load, tile.LoadOp)
    return any(
        isinstance(index.type, IndexType) and base_axis(index.type.axis.data) == axis and index_offset(index) != 0
        for index in load.indices
    )


def _divided(module: ModuleOp, number: int, value: SSAValue) -> tuple[ModuleOp, ModuleOp] | None:
    """value: an operand of the product of that number."""
    program, kind = the_program(module), value_type(value)
    axes, element = kind.axis_names, kind.element_kind
    made = _made(value)
    if made is None or element not in DOT_ELEMENTS or any(blocks_of(axis) is not None for axis in axes):
        return None
    if any(axis in program.run_time for axis in axes[1:]):
        return None  # its strides would be known at the launch alone
    shape = [program.extents[axis] for axis in axes]
    workspace = TensorType.of(axes, shape, padded_strides(shape, element), element)
    names = [each.data for each in program.parameters]
    taken = free_name(f"{program.sym_name.data}_operand", names)
    before = _storing(program, value, made, taken, workspace)
    after = module.clone()
    written = the_program(after)
    dot = dots(written)[number]
    loop = dot.parent_op()
    assert isinstance(loop, tile.LoopOp)
    sides = [untransposed(dot.left), untransposed(dot.right)]
    original = [untransposed(each) for each in (dots(program)[number].left, dots(program)[number].right)]
    own = sides[original.index(value)]
    fresh = written.body.block.insert_arg(workspace, len(names))
    names.append(taken)
    first = next(iter(loop.body.block.ops))
    load = tile.LoadOp(fresh, [_index(written, loop, axis) for axis in axes], dot.place.data)
    loop.body.block.insert_op_before(load, first)
    own.replace_all_uses_with(load.result)
    _erase_unused(loop.body.block)
    _erase_unused(written.body.block)
    for place in reversed(range(len(names))):
        if not written.body.block.args[place].uses:
            written.body.block.erase_arg(written.body.block.args[place])
            del names[place]
    written.properties["parameters"] = ArrayAttr([StringAttr(each) for each in names])
    if before is None or next(violations(written), None) is not None:
        return None
    return before, after


def _index(program: tile.ProgramOp, loop: tile.LoopOp, axis: str) -> SSAValue:
    """The index along an axis, of the grid or of the loop."""
    if axis == loop.axis.data:
        return loop.body.block.args[0]
    grid = next(op for op in program.body.block.ops if isinstance(op, tile.GridOp))
    return next(each for each in grid.indices if isinstance(each.type, IndexType) and each.type.axis.data == axis)


def _made(value: SSAValue) -> list[Operation] | None:
    """The operations that a value is made by, in order; None where a group picks something, or a loop has a part in
    it."""
    found: dict[Operation, None] = {}

    def is_given(each: SSAValue) -> bool:
        """Of the grid, of the loop, or a parameter."""
        moved = isinstance(each.owner, tile.ShiftOp | tile.BlockOp)
        return isinstance(each.type, IndexType | TensorType) and not moved

    for each in in_order(value, lambda each: not is_given(each)):
        owner = each.owner
        if isinstance(each.type, GroupType):
            return None
        if not is_given(each):
            if not isinstance(owner, Operation) or owner.regions:
                return None
            found[owner] = None
    return list(found)


def _storing(
    program: tile.ProgramOp, value: SSAValue, made: list[Operation], taken: str, workspace: TensorType
) -> ModuleOp | None:
    """The program that computes a value and stores it."""
    place, inside = program.place.data, set(made)
    outer = list(dict.fromkeys(each for op in made for each in op.operands if each.owner not in inside))
    sources = [each for each in outer if isinstance(each.type, TensorType)]
    names = [*(parameter_name(program, each) for each in sources), taken]
    block = Block(arg_types=[*(each.type for each in sources), workspace])
    for argument, hint in zip(block.args, names, strict=True):
        argument.name_hint = hint
    grid = tile.GridOp(workspace.axis_names, place)
    block.add_op(grid)
    by_axis = dict(zip(workspace.axis_names, grid.indices, strict=True))
    mapped: dict[SSAValue, SSAValue] = dict(zip(sources, block.args, strict=False))
    for each in outer:
        if isinstance(each.type, IndexType):
            if each.type.axis.data not in by_axis:
                return None
            mapped[each] = by_axis[each.type.axis.data]
    for op in made:
        block.add_op(op.clone(mapped))
    block.add_ops([tile.StoreOp(mapped[value], block.args[-1], grid.indices, place), tile.ReturnOp()])
    named = {base_axis(axis) for each in block.args for axis in tensor_type(each).axis_names}
    sizes = {axis: extent for axis, extent in program.extents.items() if axis in named}
    ranges = {axis: values for axis, values in program.run_time.items() if axis in named}
    module = ModuleOp([tile.ProgramOp(f"{taken}_stored", names, sizes, Region(block), place, ranges)])
    return module if next(violations(the_program(module)), None) is None else None


def _erase_unused(block: Block) -> None:
    """Operations that give values nobody uses."""
    for op in reversed(list(block.ops)):
        given = list(op.results)
        if given and not op.regions and not isinstance(op, tile.GridOp) and not any(each.uses for each in given):
            op.detach()
            op.erase()
