"""Which axes may have extents that only a launch knows?

One axis of the result: the outermost of every array that has it, so that all strides are known, and neither summed
over nor one of a batch or of groups. It then decides how many tiles there are, how far arrays reach, and nothing else:
of a walk that folds or multiplies again, its rows. What is beyond that is refused here, at the author's line.

Checked by: tests/synth/test_run_time_extents.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.ir.cascade_facts import CascadeAxes, refuse_at
from tilewright.ir.decisions import Decisions, ElementwiseDecisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import dots, grid_axes, grouping, parameter_name, stores, the_grid
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.rules import place_of
from tilewright.ir.tile.types import axes_text, tensor_type

SUPPORTED = "a run-time extent is that of one axis, the outermost of each array that has it, which nothing sums over"


def refuse_run_time(program: tile.ProgramOp) -> None:
    """Raise TilewrightError for the first use of a run-time axis that is not compiled. Asked before programs are given
    the loops of their walks, so that products as values are still seen."""
    for op, message in _unsupported(program):
        file, _, line = place_of(op).rpartition(":")
        raise TilewrightError(message, span=Span(file, int(line)), remedy=SUPPORTED)


def _unsupported(program: tile.ProgramOp) -> Iterator[tuple[Operation, str]]:
    axis, grid = next(iter(program.run_time), ""), grid_axes(program)
    if not axis:
        return
    if len(program.run_time) > 1:
        yield program, f"extents of {' and '.join(program.run_time)} are both to be known at run time"
    for op in program.walk():
        match op:
            case ContractOp() if op.axis.data == axis:
                yield op, f"this product sums over {axis}, whose extent only the launch knows"
            case tile.LoopOp() if op.axis.data == axis:
                yield op, f"the loop sums over {axis}, whose extent only the launch knows"
            case ReduceOp() | ArgReduceOp() if op.axis.data == axis:
                yield op, f"this folds along {axis}, whose extent only the launch knows"
            case _:
                pass
    if grouping(program) is not None:
        yield the_grid(program), f"rows stand in groups, where the extent of {axis} must be known"
    if dots(program) and axis not in grid[-2:]:
        yield the_grid(program), f"{axis} is the axis of a batch, whose extent must be known"
    for argument in program.body.block.args:
        names, name = tensor_type(argument).axis_names, parameter_name(program, argument)
        blocks = [each for each in names if base_axis(each) == axis and each != axis]
        if any(not isinstance(program.sizes[each], int) for each in blocks):
            yield (
                program,
                f"{name} over {axes_text(names)} has blocks of {axis}, whose extent only the launch knows",
            )
        if axis in names[1:]:
            yield (
                program,
                f"{axis}, whose extent only the launch knows, is an inner axis of {name} over {axes_text(names)}",
            )
    if not dots(program) and axis != grid[0]:
        yield the_grid(program), f"{axis}, whose extent only the launch knows, is not the first axis of the grid"


def refuse_empty_launches(program: tile.ProgramOp) -> None:
    """Raise TilewrightError where a run-time extent may be 0, at which nothing is launched, and a result has elements
    even then."""
    for axis, values in program.run_time.items():
        for store in stores(program):
            if values.least == 0 and axis not in tensor_type(store.tensor).axis_names:
                name = parameter_name(program, store.tensor)
                refuse_at(
                    store,
                    f"{axis} may be 0, where nothing is launched, and {name} does not have it",
                    f"begin the range of {axis} at {values.multiple_of}, or compute {name} in a kernel of its own",
                )


def refuse_run_time_walk(program: tile.ProgramOp, axes: CascadeAxes, *, summed: bool) -> None:
    """Raise TilewrightError where a walk has a run-time axis that its rows do not lie along. summed: whether it only
    sums, whose columns may be cut into tiles as well."""
    for axis in program.run_time:
        if axis != axes.row and not (summed and axis == axes.column):
            message = f"{axis}, whose extent only the launch knows, is not that of this walk's rows"
            refuse_at(program, message, SUPPORTED)


def refuse_run_time_detours(program: tile.ProgramOp, decisions: Decisions) -> None:
    """Raise TilewrightError where warps would transpose tiles of a program that has a run-time axis."""
    if isinstance(decisions, ElementwiseDecisions) and decisions.transpose and program.run_time:
        file, _, line = program.place.data.rpartition(":")
        raise TilewrightError(
            f"arrays that lie along different axes, where the extent of {next(iter(program.run_time))} must be known",
            span=Span(file, int(line)),
            remedy="give arrays that are contiguous along one axis",
        )
