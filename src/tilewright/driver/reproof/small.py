"""Which small instance of a program stands for the large one when the emitted text is run.

The instance keeps every decision (tile, stages, roles, paths, swizzles), every stride and the remainder of each extent
by its tile, and reduces the extents. Along the contracted axis 2 stages - 1 slices are left, so that every slot is
refilled and both the loop and the first slice of the second tile cross the ring's end; where the program has fewer
slices, as many tiles as there are stages are left instead, which takes the first slice through every slot it can reach.
So many tiles one of two CTAs (or clusters) takes, where the program has several; the other takes one less, so that what
each begins with and how far it steps on shows.

Since the lowering turns extents into immediates only, the small text is the large one but for immediates, and each
pair that differs must be a pair of the same quantity: an extent, a number of tiles, a bound. `same_but_for_extents`
checks that on the parsed texts, so a lowering that strays from the rule is caught, and so is an edited text.

Batches, groups of rows, streamed tiles and teams are reduced by `small_batch`, `small_groups`, `small_streams` and
`small_teams`; the kernel that copies operands first has an instance of its own (`small_copies`). Which tiles and slices
the run loads, multiplies and stores is held against the program (`judge_sums`). What is left to trust: that the
lowering puts an immediate where its quantity belongs in the large text, but for those that decide where tiles lie,
since the places of all tiles are worked out from the large text (`tile_places`); a large text that is not the
lowering's own is refuted (`reproof`). Checked by:
tests/driver/reproof/test_small_batch.py, test_small_ctas.py, test_small_groups.py, test_small_streams.py,
test_small_teams.py; tests/end_to_end/test_mutations_text.py.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import replace

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64

from tilewright.base.size import number_of
from tilewright.driver.reproof.small_batch import moved_together, reached_by_maps
from tilewright.driver.reproof.small_cascade import (
    cascade_decisions,
    cascade_extents,
    cascade_quantities,
)
from tilewright.driver.reproof.small_groups import CTAS, compact_strides
from tilewright.driver.reproof.small_runs import runs_instance, runs_quantities
from tilewright.frontends.ptx.ast import FloatImmediate, Immediate, Instruction, Kernel, Label, Module
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import (
    Decisions,
    ElementwiseDecisions,
    decisions_of,
    to_attribute,
)
from tilewright.ir.group_rows import GroupDecision, stands_in_line
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import derived_extent
from tilewright.ir.tile.facts import gathers, grid_axes, loops, parameter_name, run_axes, stores, the_program
from tilewright.ir.tile.gather import Remainder, Table
from tilewright.ir.tile.types import TensorType, tensor_type
from tilewright.ir.transpose import tile_counts

_POINTS_PER_AXIS = 48
_ROWS_OF_CTAS = 2
"""Along each axis but that of rows, where each has a CTA."""
_STRIPS = 3
"""Of a row that is walked by strips."""
"""Extent left of each axis of an element-by-element program."""


_GATHERED = 3
"""Places left of an axis of which only tables say places."""

_EXTENT_ROWS = frozenset({"setp", "div", "rem", "sub", "mov"})
"""Rows whose immediates may hold extents. Barrier counts, byte counts, strides, groups and addresses may not differ."""

Pairs = frozenset[tuple[int, int]]
"""(in the large text, in the small text): immediates that stand for the same quantity."""


def small_extents(program: tile.ProgramOp) -> dict[str, int]:
    """Extents of the small instance, by axis."""
    return _decided_extents(program) | gathered_extents(program)


def _decided_extents(program: tile.ProgramOp) -> dict[str, int]:
    """Those that the decisions ask for."""
    decisions = decisions_of(program.attributes["decisions"])
    extents = program.extents
    match decisions:
        case ElementwiseDecisions(rows=(row,)):
            # So many rows that some units of the last CTA have none, where a CTA has several; the last unit has as many
            # as in the program.
            most = _ROWS_OF_CTAS if row.cta_threads == decisions.threads else decisions.threads // row.threads + 1
            found = {axis: reduced_extent(extent, row.together, most) for axis, extent in extents.items()}
            length = extents[row.axis]
            return found | {row.axis: reduced_extent(length, row.strip, _STRIPS) if row.streamed else length}
        case ElementwiseDecisions() if decisions.run > 1:
            return extents | runs_instance(decisions, _results(program), extents)[0]
        case ElementwiseDecisions(transpose=turned):
            found = {axis: min(extent, _POINTS_PER_AXIS) for axis, extent in extents.items()}
            for each in turned:
                # More tiles than all warps, so that a warp's memory is used again; the other axes are kept short.
                warps = each.warps * min(decisions.ctas, CTAS)
                axes = grid_axes(program)
                found = {axis: min(extent, 2) for axis, extent in extents.items()}
                for at, tiles in ((each.stored_axis, warps // 2 + 1), (each.loaded_axis, 2)):
                    found[axes[at]] = reduced_extent(extents[axes[at]], each.side, tiles)
            return found
        case CascadeDecisions():
            return cascade_extents(decisions, extents)


def _results(program: tile.ProgramOp) -> list[tuple[str, ...]]:
    """The axes of each result of a program whose threads take runs of points."""
    return [run_axes(program, store) for store in stores(program)]


def gathered_extents(program: tile.ProgramOp) -> dict[str, int]:
    """Of axes of which tables say places: so many that places differ, and some are none; of places in blocks: all."""
    walked = {*grid_axes(program), *(loop.axis.data for loop in loops(program))}
    found: dict[str, int] = {}
    for op in gathers(program):
        for axis, each in zip(tensor_type(op.tensor).axis_names, op.dimensions, strict=True):
            if isinstance(each.where, Remainder):
                found[axis] = each.extent
            elif isinstance(each.where, Table) and axis not in walked:
                found.setdefault(axis, min(each.extent, _GATHERED))
    return found


def reduced_extent(extent: int, size: int, tiles: int) -> int:
    """At most `tiles` tiles of `size`, the last one as full as the one that `extent` ends with."""
    if extent <= size * tiles:
        return extent
    return size * (tiles - 1) + (extent % size or size)


def small_instance(module: ModuleOp, found: Mapping[str, int] | None = None) -> ModuleOp:
    """A copy of a decided program with small extents and the same decisions. found: the extents, if they are not those
    of `small_extents`."""
    copy = module.clone()
    program = the_program(copy)
    found = found or small_extents(program)
    extents = {axis: derived_extent(axis, found) for axis in found}
    program.properties["axes"] = DictionaryAttr({axis: IntegerAttr(size, i64) for axis, size in extents.items()})
    before = decisions_of(program.attributes["decisions"])
    groups, row = _groups_of(before)
    group_strides: dict[str, int] = {}
    batch = before.batch if isinstance(before, CascadeDecisions) and not groups else ()
    mapped = reached_by_maps(program, before)
    lined = {
        parameter_name(program, argument)
        for argument in program.body.block.args
        if stands_in_line(tensor_type(argument).axis_names, groups, row)
    }
    for argument in list(program.body.block.args):
        tensor = tensor_type(argument)
        strides, name = tensor.stride_elements, parameter_name(program, argument)
        for each in groups:
            # How far apart other arrays' groups are stands in the text, where they are picked.
            if name in mapped or name in lined:
                strides = compact_strides(tensor, extents, each)
            if each.axis in tensor.axis_names:
                stride = strides[tensor.axis_names.index(each.axis)]
                group_strides[name] = stride * tensor.element_kind.bytes
        for axis in reversed(batch):
            if name in mapped:
                strides = moved_together(tensor, strides, extents, axis)
            if axis in tensor.axis_names:
                stride = strides[tensor.axis_names.index(axis)]
                group_strides[name] = stride * tensor.element_kind.bytes
        shape = [derived_extent(axis, extents) for axis in tensor.axis_names]
        sized = any(not isinstance(each, int) for each in tensor.stride_sizes)
        apart = tensor.stride_sizes if sized else strides
        kind = TensorType.of(tensor.axis_names, shape, apart, tensor.element_kind)
        # The argument is replaced by one of the new type: types of values do not change in place.
        fresh = program.body.block.insert_arg(kind, argument.index)
        argument.replace_all_uses_with(fresh)
        program.body.block.erase_arg(argument)
    decisions = decisions_of(program.attributes["decisions"])
    match decisions:
        case ElementwiseDecisions(rows=(row,)):
            rows = math.prod(extents[axis] for axis in grid_axes(program) if axis != row.axis)
            ctas = number_of(row.grid(rows, decisions.threads))
            program.attributes["decisions"] = to_attribute(replace(decisions, ctas=ctas))
        case ElementwiseDecisions():
            ctas = min(decisions.ctas, CTAS)
            if decisions.run > 1:
                _, ctas = runs_instance(decisions, _results(program), the_program(module).extents)
            program.attributes["decisions"] = to_attribute(replace(decisions, ctas=ctas))
        case CascadeDecisions():
            program.attributes["decisions"] = to_attribute(
                cascade_decisions(program, decisions, CTAS, the_program(module).extents)
            )
    return copy


def _groups_of(decisions: Decisions) -> tuple[tuple[GroupDecision, ...], str]:
    """Groups of rows, and the axis of rows."""
    match decisions:
        case CascadeDecisions():
            return decisions.grouping, decisions.row
        case _:
            return (), ""


# ---------------------------------------------------------------- comparison of texts


def immediate_pairs(large: tile.ProgramOp, small: tile.ProgramOp) -> Pairs:
    """Every pair of immediates by which the texts of two decided programs of one source may differ."""
    quantities = [_quantities(program) for program in (large, small)]
    return frozenset(zip(*quantities, strict=True))


def _quantities(program: tile.ProgramOp) -> list[int]:
    """What the lowering may write as an immediate that depends on extents, in an order that depends on decisions
    alone."""
    extents = program.extents
    found = list(extents.values())
    decisions = decisions_of(program.attributes["decisions"])
    match decisions:
        case ElementwiseDecisions(transpose=turned, rows=rows):
            sizes = [extents[axis] for axis in grid_axes(program)]
            found.append(math.prod(sizes))
            found += [math.prod(sizes) // extents[row.axis] for row in rows]
            # Where runs begin before their row: the bounds of those that have any of its points, and only such.
            found += [extents[row.axis] + sign * row.most_before for row in rows for sign in (1, -1)]
            # And whether the last one lies in its array.
            arguments = program.body.block.args if any(row.shifted for row in rows) else ()
            found += [_span_bytes(tensor_type(argument)) for argument in arguments]
            if decisions.run > 1:
                found += runs_quantities(decisions, _results(program), extents)
                found += [_span_bytes(tensor_type(argument)) for argument in program.body.block.args]
                found += [extent for argument in program.body.block.args for extent in tensor_type(argument).extents]
            for each in turned:
                counts = tile_counts(each, tuple(sizes))
                found += [*counts, math.prod(counts)]
        case CascadeDecisions():
            found += cascade_quantities(program, decisions)
    return found


def _span_bytes(tensor: TensorType) -> int:
    """Bytes from a tensor's first element to behind its last."""
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.extents, tensor.stride_elements, strict=True))
    return (1 + last) * tensor.element_kind.bytes


def same_but_for_extents(large: Module, small: Module, pairs: Pairs) -> str:
    """Empty if the two texts are one but for immediates in `pairs`; else the first difference, in words."""
    if [kernel.name for kernel in large.kernels] != [kernel.name for kernel in small.kernels]:
        return "the texts have different entries"
    for one, other in zip(large.kernels, small.kernels, strict=True):
        difference = _kernel_difference(one, other, pairs)
        if difference:
            return f"{one.name}: {difference}"
    return ""


def _kernel_difference(large: Kernel, small: Kernel, pairs: Pairs) -> str:
    if large.directives != small.directives or len(large.body) != len(small.body):
        return f"{len(large.body)} statements against {len(small.body)}"
    for one, other in zip(large.body, small.body, strict=True):
        if one is other:
            continue
        match one, other:
            case Label(name), Label(same):
                if name != same:
                    return f"{one.span}: label {name} against {same}"
            case Instruction(), Instruction():
                if not _agree(one, other, pairs):
                    return f"{one.span}: {one.span.text.strip()} against {other.span.text.strip()}"
            case _:
                return f"{one.span}: a label against an instruction"
    return ""


def _agree(one: Instruction, other: Instruction, pairs: Pairs) -> bool:
    if (one.opcode, one.guard, len(one.operands)) != (other.opcode, other.guard, len(other.operands)):
        return False
    for mine, theirs in zip(one.operands, other.operands, strict=True):
        if mine == theirs:
            continue
        match mine, theirs:
            case Immediate(value), Immediate(small_value) if one.row in _EXTENT_ROWS:
                if (value, small_value) not in pairs:
                    return False
            case FloatImmediate(bits, 32), FloatImmediate(small_bits, 32) if one.row in _EXTENT_ROWS:
                # An extent that a position is compared with.
                if (_float32(bits), _float32(small_bits)) not in pairs:
                    return False
            case _:
                return False
    return True


def _float32(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]
