"""What a tile program says, in plain values: buffers, grid, loads, stores, loops, products, displacements.

Theory: reading facts off SSA. Every function takes a verified program and changes nothing; `parameter_name` alone also
serves `tile.rules`, which verifies. Checked by tests/ir/tile/test_facts.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer
from tilewright.ir.tile.gather import GatherOp
from tilewright.ir.tile.operations import (
    DotOp,
    GridOp,
    GroupingKind,
    LoadOp,
    LoopOp,
    PositionOp,
    ProgramOp,
    ShiftOp,
    StoreOp,
)
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.types import GroupType, tensor_type, value_type
from tilewright.ir.tile.unedited import remembered

Found = TypeVar("Found", bound=Operation)


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor reached at indices. axes in the tensor's order; offsets: elements each index is displaced by; picked:
    the axis along which this program's group picks a part, or ""."""

    tensor: str
    axes: tuple[str, ...]
    offsets: tuple[int, ...]
    picked: str = ""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Groups that tiles do not straddle; see `tile.GridOp`. group: the axis of groups; ragged: the axis they limit;
    bounds: the parameter that says where they end."""

    kind: GroupingKind
    group: str
    ragged: str
    bounds: str


def the_program(module: ModuleOp) -> ProgramOp:
    """The module's one tile program. Raises TilewrightError unless there is exactly one."""
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    if len(programs) != 1:
        raise TilewrightError(f"a module with {len(programs)} tile programs", remedy="give a module with exactly one")
    return programs[0]


def grid_axes(program: ProgramOp) -> tuple[str, ...]:
    """The axes of a program's tile. The axis of consecutive groups is none of them: it follows from the ragged one."""
    return the_grid(program).tile_axes


def the_grid(program: ProgramOp) -> GridOp:
    """The program's one grid."""
    return next(op for op in program.body.block.ops if isinstance(op, GridOp))


def grouping(program: ProgramOp) -> Grouping | None:
    """The groups that the grid's tiles keep to, if any."""
    grid = the_grid(program)
    if grid.bounds is None or grid.grouping is None or grid.ragged is None:
        return None
    (group,) = tensor_type(grid.bounds).axis_names
    kind = cast("GroupingKind", grid.grouping.data)  # verified to be one
    return Grouping(kind, group, grid.ragged.data, parameter_name(program, grid.bounds))


def parameter_name(program: ProgramOp, tensor: SSAValue) -> str:
    """The name of the parameter that `tensor`, an argument of the program's region, stands for."""
    return program.parameters.data[program.body.block.args.index(tensor)].data


def buffers(program: ProgramOp) -> tuple[Buffer, ...]:
    """The parameters as launch plans describe them, in order: stored ones are outputs, the others inputs."""
    stored = {store.tensor for store in stores(program)}
    result: list[Buffer] = []
    for argument in program.body.block.args:
        tensor = tensor_type(argument)
        role = "output" if argument in stored else "input"
        name = parameter_name(program, argument)
        result.append(Buffer(name, tensor.element_kind, tensor.extents, tensor.stride_elements, role))
    return tuple(result)


def every(program: ProgramOp, kind: type[Found]) -> tuple[Found, ...]:
    """Every operation of a kind, in program order. By its class alone, of which there is no other: to ask the abstract
    classes of xDSL takes most of the time of a walk."""
    return cast("tuple[Found, ...]", tuple([op for op in program.walk() if type(op) is kind]))


@remembered
def loads(program: ProgramOp) -> tuple[LoadOp, ...]:
    """Every load, in program order, those in loops included."""
    return every(program, LoadOp)


def gathers(program: ProgramOp) -> tuple[GatherOp, ...]:
    """Every array that is gathered of a tensor, in program order."""
    return tuple(op for op in program.body.block.ops if isinstance(op, GatherOp))


@remembered
def stores(program: ProgramOp) -> tuple[StoreOp, ...]:
    """Every store, in program order; only in streamed loops does one stand in a loop."""
    return every(program, StoreOp)


@remembered
def loops(program: ProgramOp) -> tuple[LoopOp, ...]:
    """Every loop, in program order; none stands in another."""
    return tuple(op for op in program.body.block.ops if isinstance(op, LoopOp))


def dots(program: ProgramOp) -> tuple[DotOp, ...]:
    """Every product, in program order; each stands in a loop."""
    return every(program, DotOp)


def reductions(program: ProgramOp) -> tuple[ReduceOp | ArgReduceOp, ...]:
    """Every reduction, in program order."""
    return tuple(op for op in program.walk() if isinstance(op, ReduceOp | ArgReduceOp))


def positions(program: ProgramOp) -> tuple[PositionOp, ...]:
    """Every index that is used as a number, in program order."""
    return every(program, PositionOp)


def access_of(op: LoadOp | StoreOp) -> Access:
    """Where a load reads or a store writes."""
    program = op.parent_op()
    while not isinstance(program, ProgramOp):
        assert program is not None, "a load or store stands in a program"
        program = program.parent_op()
    offsets = tuple(index_offset(index) for index in op.indices)
    axes = tensor_type(op.tensor).axis_names
    picked = [axis for axis, index in zip(axes, op.indices, strict=True) if isinstance(index.type, GroupType)]
    return Access(parameter_name(program, op.tensor), axes, offsets, "".join(picked))


def run_axes(program: ProgramOp, store: StoreOp) -> tuple[str, ...]:
    """The axes of what is stored, in the grid's order, but for one along which its elements lie together: the last."""
    kind = tensor_type(store.tensor)
    strides = dict(zip(kind.axis_names, kind.stride_elements, strict=True))
    axes = [axis for axis in grid_axes(program) if axis in strides]
    return tuple(sorted(axes, key=lambda axis: (strides[axis] == 1, axis == axes[-1])))


SPARE = "spare"
"""An attribute of programs: names of results between whose rows anything may be written."""


def spare_rows(program: ProgramOp) -> frozenset[str]:
    """The results between whose rows anything may be written: workspaces, which nobody reads but element by element."""
    names = program.attributes.get(SPARE, ArrayAttr[StringAttr]([]))
    assert isinstance(names, ArrayAttr), "names stand in a list"
    return frozenset(each.data for each in cast("ArrayAttr[StringAttr]", names))


def index_offset(index: SSAValue) -> int:
    """Elements by which an index is displaced from its tile's first element."""
    return index.owner.offset.value.data + index_offset(index.owner.index) if isinstance(index.owner, ShiftOp) else 0


def axes_of(value: SSAValue) -> tuple[str, ...]:
    """The axes of a tile."""
    return value_type(value).axis_names
