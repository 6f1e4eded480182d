"""Which axes may have extents that only a launch knows?

An axis of the result decides how many tiles there are and how far arrays reach; one that a walk folds or sums over, how
many iterations a walk has and where its last tile ends. Either may stand inside of other axes: strides then follow from
its extent, unless they are given, and the launch encodes them in tensor maps and passes those by which threads address.
Beside products an axis that a walk takes whole has none; without products any axis may have one. What is beyond that is
refused here, at the author's line.

Checked by: tests/synth/test_run_time_extents.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from xdsl.ir import Operation, SSAValue

from tilewright.base.error import TilewrightError
from tilewright.base.size import computed, divisor
from tilewright.base.span import Span
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import CascadeAxes, contractions, first_alike, load_number, refuse_at
from tilewright.ir.decisions import Decisions, ElementwiseDecisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import dots, gathers, grid_axes, grouping, loads, loops, parameter_name, stores, the_grid
from tilewright.ir.tile.gather import Table, read_tensor
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.rules import place_of
from tilewright.ir.tile.types import TensorType, axes_text, tensor_type

_FLOAT_BYTES = 4
"""Of elements that no product multiplies, of which threads may address parts of a batch."""
_MAP_BYTES = 16
"""Of which a tensor map's strides are multiples (CUDA driver, cuTensorMapEncodeTiled)."""
SUPPORTED = (
    "beside products, give ranges to a batch, to rows, to columns of a product, to what it sums or to what is walked"
)


def refuse_run_time(program: tile.ProgramOp) -> None:
    """Raise TilewrightError for the first use of a run-time axis that is not compiled. Asked before programs are given
    the loops of their walks, so that products as values are still seen."""
    for op, message in chain.from_iterable(_unsupported(program, axis) for axis in program.run_time):
        file, _, line = place_of(op).rpartition(":")
        raise TilewrightError(message, span=Span(file, int(line)), remedy=SUPPORTED)


def _multiplies(program: tile.ProgramOp) -> bool:
    return bool(dots(program) or contractions(program))


def _folded_axis(op: Operation) -> str:
    """The axis that an operation sums or folds over, if it does."""
    match op:
        case ContractOp() | tile.LoopOp() | ReduceOp() | ArgReduceOp():
            return op.axis.data
        case _:
            return ""


def _looked_up(program: tile.ProgramOp) -> set[str]:
    """The axes along which only tables say places, as along the pages of a pool."""
    by_table = {each.axis for op in gathers(program) for each in op.dimensions if isinstance(each.where, Table)}
    return by_table - {*grid_axes(program), *(loop.axis.data for loop in loops(program))}


def _unsupported(program: tile.ProgramOp, axis: str) -> Iterator[tuple[Operation, str]]:
    groups = grouping(program)
    if groups is not None and (groups.kind == "within" or axis not in {groups.ragged, *_looked_up(program)}):
        of_rows = "" if groups.kind == "within" else f", but for {groups.ragged}"
        yield the_grid(program), f"rows stand in groups, where the extent of {axis} must be known{of_rows}"
    listed = {each for argument in program.body.block.args for each in tensor_type(argument).axis_names}
    sizes = [block_size(each) for each in listed if base_axis(each) == axis]
    if all(program.run_time[axis].multiple_of % size for size in sizes):
        size = min(sizes, default=1)
        yield program, f"no array says the extent of {axis}, whose blocks of {size} are whole at some extents alone"
    for argument in program.body.block.args:
        names, name = tensor_type(argument).axis_names, parameter_name(program, argument)
        blocks = [each for each in names if base_axis(each) == axis and each != axis]
        if not _multiplies(program) and any(not isinstance(program.sizes[each], int) for each in blocks):
            yield (
                program,
                f"{name} over {axes_text(names)} has blocks of {axis}, whose extent only the launch knows",
            )
        # What products multiply goes along an axis that they sum over.
        along = {_folded_axis(op) for op in program.walk()}.intersection(names)
        narrow = tensor_type(argument).element_kind.bytes < _FLOAT_BYTES
        if along and narrow and _multiplies(program) and not _is_stored(argument):
            yield from ((program, words) for words in _apart_for_no_map(program, tensor_type(argument), name))


def _apart_for_no_map(program: tile.ProgramOp, tensor: TensorType, name: str) -> Iterator[str]:
    """In words, strides of an array that no tensor map has at some extent."""
    for stride in tensor.stride_sizes:
        bytes_apart = computed("*", stride, tensor.element_kind.bytes)
        if not isinstance(stride, int) and divisor(bytes_apart, program.run_time) % _MAP_BYTES:
            yield f"parts of {name} are {bytes_apart} bytes apart, at some extents no multiple of {_MAP_BYTES}"


def _is_stored(argument: SSAValue) -> bool:
    """Whether an array is a result."""
    return any(isinstance(use.operation, tile.StoreOp) for use in argument.uses)


def refuse_run_time_strides(program: tile.ProgramOp, d: CascadeDecisions) -> None:
    """Raise TilewrightError where an array that tensor maps reach lies at some extent as in none, and where strides of
    scales of a product are no numbers."""
    scales = {scale for dot in dots(program) for scale in dot.scales}
    mapped = {slot.load: slot for slot in d.slots if not slot.piece_bytes}
    for op in (*loads(program), *stores(program)):
        tensor = tensor_type(read_tensor(op.tensor))
        name = parameter_name(program, read_tensor(op.tensor))
        if isinstance(op, tile.LoadOp):
            slot = mapped.get(load_number(program, first_alike(program, op)))
            by_map = slot is not None
            of_walk = slot is None or slot.factors
            blocks = [axis for axis in tensor.axis_names if base_axis(axis) == d.streamed != axis]
            if of_walk and any(not isinstance(program.sizes[axis], int) for axis in blocks):
                words = f"{name} has blocks of {d.streamed}, along which this walk goes as far as the launch says"
                refuse_at(op, words, f"give the extent of {d.streamed}")
            sides = zip(tensor.axis_names, tensor.stride_sizes, strict=True)
            sized = any(not isinstance(stride, int) for axis, stride in sides if axis not in d.batch)
            if sized and of_walk and (blocks or op.result in scales):
                words = f"how far apart the scales in {name} are, only the launch knows"
                refuse_at(op, words, f"give the strides of {name}")
        else:
            by_map = d.boxed(name) is not None
        for words in _apart_for_no_map(program, tensor, name) if by_map else ():
            refuse_at(op, words, "promise a multiple of the extent that makes it one")


def refuse_run_time_walk(program: tile.ProgramOp, axes: CascadeAxes, *, summed: bool) -> None:
    """Raise TilewrightError where a walk has a run-time axis that neither its rows lie along nor it goes along itself.
    summed: whether it only sums, whose columns may be cut into tiles as well."""
    for axis in program.run_time.keys() - _looked_up(program):
        if axis not in (axes.row, axes.streamed, *axes.batch) and not (summed and axis == axes.column):
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
