"""What are the programs of one that widens an array's 8-bit elements wherever it loads them, if a kernel before does?

The copy has the wider element at each place, which has every number of the narrow one, so that nothing is to be
certified but the copy; its rows are dense. The program after loads it, and rounds nothing there.

Not handled, and None: arrays that are gathered, displaced or stored to, or used as they are; extents that only a launch
knows. Checked by: tests/synth/cut/test_widened_before.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Region, SSAValue

from tilewright.base.element import Element
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import index_offset, the_program
from tilewright.ir.tile.rules import violations
from tilewright.ir.tile.types import TensorType, tensor_type, value_type
from tilewright.synth.cut.handover import free_name, padded_strides


def widened_before(module: ModuleOp, name: str) -> tuple[ModuleOp, ModuleOp] | None:
    """The copy of an array, and the program that takes the copy for it; None where an array is not copied so."""
    program = the_program(module)
    names = [each.data for each in program.parameters]
    if name not in names or program.run_time:
        return None
    kind, wide = tensor_type(program.body.block.args[names.index(name)]), _widened(program, names.index(name))
    if wide is None:
        return None
    workspace = TensorType.of(kind.axis_names, kind.extents, padded_strides(kind.extents, wide), wide)
    taken = free_name(f"{program.sym_name.data}_{name}", names)
    after = module.clone()
    written = the_program(after)
    block, at = written.body.block, names.index(name)
    given = block.args[at]
    copied = block.insert_arg(workspace, at)
    for use in list(given.uses):
        load = use.operation
        assert isinstance(load, tile.LoadOp)
        again = tile.LoadOp(copied, load.indices, load.place.data)
        owner = load.parent
        assert owner is not None
        owner.insert_op_before(again, load)
        for cast in [each.operation for each in load.result.uses]:
            assert isinstance(cast, tile.CastOp)
            cast.result.replace_all_uses_with(again.result)
            cast.detach()
            cast.erase()
        load.detach()
        load.erase()
    block.erase_arg(given)
    names[at] = taken
    written.properties["parameters"] = ArrayAttr([StringAttr(each) for each in names])
    if next(violations(written), None) is not None:
        return None
    return _copy(program, name, taken, kind, workspace), after


def _widened(program: tile.ProgramOp, at: int) -> Element | None:
    """The element as which all uses of a parameter have its elements."""
    argument: SSAValue = program.body.block.args[at]
    found: set[Element] = set()
    for use in argument.uses:
        load = use.operation
        if not isinstance(load, tile.LoadOp) or any(map(index_offset, load.indices)) or not load.result.uses:
            return None
        for each in load.result.uses:
            if not isinstance(each.operation, tile.CastOp):
                return None
            found.add(value_type(each.operation.result).element_kind)
    return found.pop() if len(found) == 1 else None


def _copy(program: tile.ProgramOp, name: str, taken: str, kind: TensorType, workspace: TensorType) -> ModuleOp:
    """Over axes of its own: the array's may be blocks of the program's."""
    place, axes = program.place.data, [f"A{number}" for number in range(len(kind.axis_names))]
    types = [
        TensorType.of(axes, each.extents, each.stride_elements, each.element_kind, each.refinement)
        for each in (kind, workspace)
    ]
    block = Block(arg_types=types)
    for argument, hint in zip(block.args, (name, taken), strict=True):
        argument.name_hint = hint
    grid = tile.GridOp(axes, place)
    load = tile.LoadOp(block.args[0], grid.indices, place)
    block.add_ops([grid, load, tile.StoreOp(load.result, block.args[1], grid.indices, place), tile.ReturnOp()])
    sizes = dict(zip(axes, kind.extents, strict=True))
    copy = tile.ProgramOp(f"{taken}_widened", [name, taken], sizes, Region(block), place)
    assert next(violations(copy), None) is None, "a copy is a program"
    return ModuleOp([copy])
