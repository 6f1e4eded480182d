"""What is the one program of two that copy arrays, each for itself?

A kernel that begins when another has ended takes a microsecond or two besides what it does, which is much beside small
copies. A program over the axes of both stores each copy over its own.

Not handled, and None: programs that do more than copy, one that copies what the other stores, and copies that are
taken by tiles and not by runs of points. Checked by: tests/synth/cut/test_copied_together.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Region, SSAValue

from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import SPARE, grid_axes, parameter_name, spare_rows, stores, the_program
from tilewright.ir.tile.rules import violations


def copied_together(first: ModuleOp, second: ModuleOp) -> ModuleOp | None:
    """The program that does what two do; None where they are not of that kind."""
    sides = [the_program(first), the_program(second)]
    if not all(_only_copies(side) for side in sides):
        return None
    names = [{name.data for name in side.parameters} for side in sides]
    written = [{parameter_name(side, store.tensor) for store in stores(side)} for side in sides]
    if written[0] & names[1] or written[1] & names[0]:
        return None
    extents = sides[0].extents | sides[1].extents
    if any(extents[axis] != size for side in sides for axis, size in side.extents.items()):
        return None
    place, axes = sides[0].place.data, list(dict.fromkeys([*grid_axes(sides[0]), *grid_axes(sides[1])]))
    arguments = {
        name.data: argument
        for side in sides
        for name, argument in zip(side.parameters, side.body.block.args, strict=True)
    }
    block = Block(arg_types=[argument.type for argument in arguments.values()])
    own: dict[str, SSAValue] = dict(zip(arguments, block.args, strict=True))
    for name, argument in own.items():
        argument.name_hint = name
    grid = tile.GridOp(axes, place)
    block.add_op(grid)
    of_axis = dict(zip(axes, grid.indices, strict=True))
    for side in sides:
        known: dict[SSAValue, SSAValue] = {
            argument: own[name.data] for name, argument in zip(side.parameters, side.body.block.args, strict=True)
        }
        for op in side.body.block.ops:
            if isinstance(op, tile.GridOp):
                known |= {index: of_axis[axis] for index, axis in zip(op.indices, op.tile_axes, strict=True)}
            elif not isinstance(op, tile.ReturnOp):
                block.add_op(op.clone(known))
    block.add_op(tile.ReturnOp())
    name = f"{sides[0].sym_name.data}_and_{sides[1].sym_name.data}"
    program = tile.ProgramOp(name, list(own), extents, Region(block), place)
    spare = sorted(spare_rows(sides[0]) | spare_rows(sides[1]))
    program.attributes[SPARE] = ArrayAttr([StringAttr(each) for each in spare])
    return ModuleOp([program]) if next(violations(program), None) is None else None


def _only_copies(program: tile.ProgramOp) -> bool:
    plain = (tile.GridOp, tile.ShiftOp, tile.LoadOp, tile.StoreOp, tile.ReturnOp)
    return not program.run_time and all(isinstance(op, plain) for op in program.body.block.ops)
