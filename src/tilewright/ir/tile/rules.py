"""Which whole-program rules a tile program breaks: rules that no single op can see.

Theory: programs of one launch run in any order and share nothing, so each may write only its own tile and may read no
tensor that any of them writes. Each rule yields the op to blame, whose `place` is the author's line, and the violation.
Checked by tests/ir/test_tile_dialect.py and tests/frontends/test_tile_errors.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from tilewright.base.element import Element
from tilewright.ir.tile.axes import base_axis, blocks_of, derived_extent
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import every, parameter_name
from tilewright.ir.tile.gather import GatherOp
from tilewright.ir.tile.operations import (
    MOST_EXACT_POSITION,
    BroadcastOp,
    CastOp,
    GridOp,
    LoadOp,
    LoopOp,
    PositionOp,
    ProgramOp,
    ReturnOp,
    StoreOp,
    TransposeOp,
)
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.types import IndexType, RuleViolation, TensorType, ValueType, axes_text, tensor_type, value_type

Violation = tuple[Operation, RuleViolation]


def violations(program: ProgramOp) -> Iterator[Violation]:
    """Every whole-program rule that `program` breaks, in the order of the program's text."""
    yield from _order(program.body.block, set())
    yield from _signature(program)
    grids = [op for op in program.body.block.ops if isinstance(op, GridOp)]
    if len(grids) != 1:
        at = grids[1] if grids else program
        message = "the program has two grids" if grids else "the program has no grid"
        yield at, RuleViolation(message, "call tw.grid once, at the start")
        return
    yield from _axes(program, grids[0])
    yield from _positions(program)
    yield from _sums(program, grids[0])
    yield from _streams(program, grids[0])
    yield from _stores(program, grids[0])
    yield from _loads(program)


def _order(block: Block, above: set[SSAValue]) -> Iterator[Violation]:
    """Values are used after they are computed and inside the loop that computes them; xDSL does not see to that."""
    known = above | set(block.args)
    for op in block.ops:
        if not known.issuperset(op.operands):
            yield op, RuleViolation(f"{op.name} uses a value that is not computed before it", "compute it first")
        for region in op.regions:
            yield from _order(region.block, known)
        known.update(op.results)


def _signature(program: ProgramOp) -> Iterator[Violation]:
    extents = program.extents
    names = [name.data for name in program.parameters]
    arguments = program.body.block.args
    if len(names) != len(arguments) or len(set(names)) != len(names):
        yield program, RuleViolation(f"{len(names)} names for {len(arguments)} tensors", "name each tensor once")
    if not isinstance(program.body.block.last_op, ReturnOp):
        yield program, RuleViolation("the program does not end in tile.return", "add it")
    for axis, extent in extents.items():
        if extent < 0:
            yield program, RuleViolation(f"axis {axis} has extent {extent}", "make it no less than 0")
        elif base_axis(axis) not in extents or derived_extent(axis, extents) != extent:
            yield (
                program,
                RuleViolation(
                    f"axis {axis} has {extent} blocks", f"give {base_axis(axis)} an extent of which they are the blocks"
                ),
            )
    for axis, values in program.run_time.items():
        if extents.get(axis) not in values.launched:
            message = f"axis {axis} has extent {extents.get(axis)}, none of {values}"
            yield program, RuleViolation(message, "give one that its range has")
    for name, argument in zip(names, arguments, strict=False):
        tensor = argument.type
        if not isinstance(tensor, TensorType):
            yield program, RuleViolation(f"parameter {name} has type {tensor}", "make it a tensor")
        elif tuple(extents.get(axis) for axis in tensor.axis_names) != tensor.extents:
            yield (
                program,
                RuleViolation(
                    f"parameter {name} over {axes_text(tensor.axis_names)} has shape {tensor.extents}",
                    "match the extents of its axes",
                ),
            )


def _axes(program: ProgramOp, grid: GridOp) -> Iterator[Violation]:
    extents = program.extents
    for axis in grid.axis_names:
        if axis not in extents:
            yield grid, RuleViolation(f"the grid's axis {axis} has no extent", "name an axis of the program")
    for op in program.body.block.ops:
        if isinstance(op, LoopOp):
            axis = op.axis.data
            if axis not in extents:
                yield op, RuleViolation(f"the loop's axis {axis} has no extent", "name an axis of the program")
            if blocks_of(axis) is not None:
                yield (
                    op,
                    RuleViolation(f"the loop runs over the blocks {axis}", "loop over the axis, and divide its index"),
                )
            if axis in grid.axis_names:
                yield (
                    op,
                    RuleViolation(f"the loop runs over {axis}, an axis of the grid", "loop over an axis to contract"),
                )


def _positions(program: ProgramOp) -> Iterator[Violation]:
    for op in program.walk():
        if isinstance(op, PositionOp) and isinstance(op.index.type, IndexType):
            axis = op.index.type.axis.data
        elif isinstance(op, CastOp) and value_type(op.operand).element_kind is Element.S32:
            axis = _place_along(op.operand)
        else:
            continue
        if program.extents.get(base_axis(axis), 0) > MOST_EXACT_POSITION:
            yield op, RuleViolation(f"numbers along {axis} past 2^24 are no float32", "use a shorter axis")


def _place_along(value: SSAValue) -> str:
    """The axis along which integers say where something stands."""
    owner = value.owner
    while isinstance(owner, BroadcastOp | TransposeOp):
        owner = owner.operand.owner
    return owner.axis.data if isinstance(owner, ArgReduceOp) else ""


def _sums(program: ProgramOp, grid: GridOp) -> Iterator[Violation]:
    """Reductions and contractions: over an axis of the grid, or of the streamed loop that they stand in."""
    for op in program.walk():
        if not isinstance(op, ReduceOp | ArgReduceOp | ContractOp):
            continue
        axis, what = op.axis.data, "a product" if isinstance(op, ContractOp) else "a reduction"
        loop = _loop_around(op)
        if loop is not None and loop.streamed is None:
            yield op, RuleViolation(f"{what} over {axis} inside a loop", "reduce before the loop or after it")
        elif axis not in grid.tile_axes and (loop is None or loop.axis.data != axis):
            yield op, RuleViolation(f"{what} over {axis}, which is no axis of the grid", "name it in tw.grid")
        if grid.ragged is not None and grid.ragged.data == axis:
            yield op, RuleViolation(f"{what} over {axis}, which groups cut", "reduce over another axis")


def _loop_around(op: Operation) -> LoopOp | None:
    parent = op.parent_op()
    return parent if isinstance(parent, LoopOp) else None


def _streams(program: ProgramOp, grid: GridOp) -> Iterator[Violation]:
    """Streamed loops carry float32, and a value over their axis stays in them."""
    loops = [op for op in program.body.block.ops if isinstance(op, LoopOp) and op.streamed is not None]
    for loop in loops:
        for value in loop.carried:
            if value_type(value).element_kind is not Element.F32:
                yield loop, RuleViolation(f"the loop over {loop.axis.data} carries {value.type}", "carry float32")
    for op in program.walk() if loops else ():
        loop = _loop_around(op)
        known = {*grid.tile_axes, *([loop.axis.data] if loop is not None else [])}
        for result in op.results:
            if isinstance(result.type, ValueType) and not known.issuperset(map(base_axis, result.type.axis_names)):
                yield (
                    op,
                    RuleViolation(
                        f"a tile over {axes_text(result.type.axis_names)} where only {axes_text(sorted(known))} are "
                        "walked",
                        "compute it in a loop over its axis",
                    ),
                )


def _stores(program: ProgramOp, grid: GridOp) -> Iterator[Violation]:
    stored: set[SSAValue] = set()
    reduced = {op.axis.data for op in program.walk() if isinstance(op, ReduceOp | ArgReduceOp | ContractOp)}
    # What is folded along an axis does not depend on the place there: all tiles along it would store the same.
    needed = {
        index for index in grid.indices if isinstance(index.type, IndexType) and index.type.axis.data not in reduced
    }
    if every(program, ContractOp) or _copies_several(program):
        # Such a program names all of its axes, so that of several results each has those it depends on.
        needed -= {index for op in every(program, StoreOp) for index in op.indices}
    for op in every(program, StoreOp):
        name, loop = parameter_name(program, op.tensor), _loop_around(op)
        own: set[SSAValue] = set(grid.indices)
        if loop is not None:
            own.add(loop.body.block.args[0])
            if loop.streamed is None or loop.body.block.args[0] not in op.indices:
                yield op, RuleViolation(f"{name} is stored in each iteration of a loop", "store it after the loop")
        if op.tensor in stored:
            yield op, RuleViolation(f"{name} is stored twice", "store each tensor once")
        stored.add(op.tensor)
        if not own.issuperset(op.indices):
            yield (
                op,
                RuleViolation(
                    f"{name} is stored outside the program's own tile",
                    "store at the grid's indices as they are; shift the loads instead",
                ),
            )
        elif not needed <= set(op.indices):
            yield (
                op,
                RuleViolation(
                    f"{name} over {axes_text(tensor_type(op.tensor).axis_names)} is stored by a grid over "
                    f"{axes_text(grid.tile_axes)}, so several programs would write the same tile",
                    "store a tensor over the grid's axes",
                ),
            )
        if not tensor_type(op.tensor).is_injective:
            yield (
                op,
                RuleViolation(
                    f"{name} is stored, but its strides {tensor_type(op.tensor).stride_elements} make elements overlap",
                    "give strides that set every element apart",
                ),
            )
    if not stored:
        yield program, RuleViolation("the program stores nothing", "assign to a tensor, as in `c[i, j] = tile`")


def _copies_several(program: ProgramOp) -> bool:
    """Whether a program stores several tensors, each of which is what it loads."""
    found = every(program, StoreOp)
    return len(found) > 1 and all(isinstance(op.value.owner, LoadOp) for op in found)


def _loads(program: ProgramOp) -> Iterator[Violation]:
    stored = {op.tensor for op in every(program, StoreOp)}
    loaded: set[SSAValue] = set()
    for op in program.walk():
        for tensor in _tensors_read(op):
            loaded.add(tensor)
            if tensor in stored:
                name = parameter_name(program, tensor)
                yield (
                    op,
                    RuleViolation(
                        f"{name} is read and stored; programs run in any order, so what is read is undefined",
                        "read from one tensor and store to another",
                    ),
                )
    for argument in program.body.block.args:
        if argument not in stored and argument not in loaded:
            name = parameter_name(program, argument)
            yield (
                program,
                RuleViolation(
                    f"parameter {name} reaches no store: it is neither stored nor read for one", "use it or remove it"
                ),
            )


def _tensors_read(op: Operation) -> tuple[SSAValue, ...]:
    match op:
        case LoadOp():
            return () if isinstance(op.tensor.owner, GatherOp) else (op.tensor,)
        case GatherOp():
            return (op.tensor, *op.tables)
        case GridOp():
            return () if op.bounds is None else (op.bounds,)
        case _:
            return ()


def place_of(op: Operation) -> str:
    """The author's "file:line" that an op of this dialect stands for, or "" where it carries none."""
    place = op.properties.get("place")
    return place.data if isinstance(place, StringAttr) else ""
