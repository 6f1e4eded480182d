"""Rows in groups whose sizes stand in memory: how they are decided, and how arrays lie that have them.

Groups follow one another along the axis of rows, or each has its own place in an array over (groups, rows, ...). Then
the rows of all groups are one line, in which a group begins every `pitch` rows: so arrays are reached alike in both.

Checked by: tests/synth/distribution/test_grouped.py and tests/synth/cascade/test_groups.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.base.plan import Buffer
from tilewright.ir.tile.facts import Grouping, parameter_name
from tilewright.ir.tile.gather import read_tensor
from tilewright.ir.tile.types import TensorType, axes_text, read_type, tensor_type

if TYPE_CHECKING:
    from tilewright.ir.tile.operations import LoadOp, ProgramOp


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """Rows in groups whose sizes stand in memory; see `ac.group_tiles`. axis: of the groups; limits: the parameter that
    says where they end; pitch: rows from one group's first to the next's, 0 where groups follow one another. vectors:
    results stored 16 bytes at a time, whose rows all begin at multiples of that."""

    axis: str
    limits: str
    pitch: int
    vectors: tuple[str, ...]


def group_pitches(program: ProgramOp, grouping: Grouping) -> dict[int, str]:
    """Rows from one group's first to the next's, each with an array that has them so; 0 for an array whose groups are
    no whole number of rows apart. One pitch of at least a group's rows is what makes them one line."""
    found: dict[int, str] = {}
    for argument in program.body.block.args:
        tensor = tensor_type(argument)
        if {grouping.group, grouping.ragged} <= set(tensor.axis_names):
            found.setdefault(_pitch(program, tensor, grouping), parameter_name(program, argument))
    return found


def _pitch(program: ProgramOp, tensor: TensorType, grouping: Grouping) -> int:
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    if strides[grouping.group] % strides[grouping.ragged] or not lies_in_line(tensor.axis_names, grouping):
        return 0
    if program.extents[grouping.group] == 1:
        return program.extents[grouping.ragged]
    return strides[grouping.group] // strides[grouping.ragged]


def lies_in_line(axes: Sequence[str], grouping: Grouping) -> bool:
    """Whether an array over these axes has the rows of groups that stand apart."""
    return tuple(axes[:2]) == (grouping.group, grouping.ragged)


def multiplied_alike(program: ProgramOp, load: LoadOp, grouping: Grouping) -> tuple[str, str] | None:
    """Why a product in groups that each have rows of their own does not multiply an array that has rows of no group,
    and what to give: the array would be read at the rows of all groups. None where it does."""
    axes = read_type(load.tensor).axis_names
    apart = grouping.kind == "within" and program.extents[grouping.group] > 1
    if not apart or grouping.ragged not in axes or lies_in_line(axes, grouping):
        return None
    name = parameter_name(program, read_tensor(load.tensor))
    message = f"{name} is read over {axes_text(axes)} by a product in groups, each of which has its own rows"
    return message, f"give it the axis {grouping.group} before {grouping.ragged}, with the rows of each group"


def stands_in_line(axes: Sequence[str], groups: Sequence[GroupDecision], rows: str) -> bool:
    """The same of decided groups. rows: the axis of rows."""
    return any(each.pitch and tuple(axes[:2]) == (each.axis, rows) for each in groups)


def in_line(buffer: Buffer, pitch: int) -> Buffer:
    """An array over groups, rows and further axes as one of the rows of all groups."""
    groups, rows, *further = buffer.shape
    return replace(buffer, shape=((groups - 1) * pitch + rows, *further), strides=buffer.strides[1:])
