"""Which sums does a tile program define, in terms of the arrays that its kernels load: where does an element of an
operand lie along the program's axes, and which products make an element of a result?

Read off the program; of an operand that is first computed into a workspace, which has no name there, off the decisions:
its array lies along the axes that they say. Coordinates of a tensor map become places along axes by their strides: a
dimension is the axis of the array that has its stride, and where groups of rows stand in one line, one dimension is
both the axis of groups and that of rows.

Not handled (nothing is asked then): programs without products, and walks that do more than sum products of one operand;
one array as two operands of the products.
Checked by: tests/driver/reproof/test_judge_sums.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import TensorMap
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import Product, computed_sum, shared_sums
from tilewright.ir.decisions import decisions_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import access_of, grouping, loads, parameter_name, stores
from tilewright.ir.tile.gather import GatherOp, read_tensor
from tilewright.ir.tile.types import tensor_type

Interval = tuple[int, int]
Places = dict[str, Interval]
"""By axis, the places along it that a part of an array has, [begin, end); where a box is, beyond the axis, too."""


@dataclass(frozen=True, slots=True)
class DimensionAxis:
    """A dimension of a tensor map is an axis, displaced by `offset`. span: where it is two axes, coordinates from one
    place of this one to the next, the rest being along the other; else 0."""

    dimension: int
    axis: str
    offset: int
    span: int = 0


@dataclass(frozen=True, slots=True)
class ArrayAxes:
    """An array along a program's axes: names, extents, strides in elements, and by how many elements the place along
    each axis is displaced in the array. element_bytes: of its elements."""

    names: tuple[str, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[int, ...]
    element_bytes: int

    def of_box(self, tensor_map: TensorMap, first: tuple[int, ...], extents: tuple[int, ...]) -> Places | None:
        """Places of the elements `extents` from `first` on, by dimension of a map of the array, innermost first; None
        where dimensions are no axes."""
        axes = axes_of_map(self, tensor_map)
        return None if axes is None else places_of(axes, first, extents)

    def of_ranges(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Places:
        """The places between which bytes of the array lie, which begin and end so far from its first."""
        low, high = begins // self.element_bytes, (ends - 1) // self.element_bytes
        found: Places = {}
        whole = np.zeros(low.shape, np.bool_)
        for at in sorted(range(len(self.names)), key=lambda at: -self.strides[at]):
            stride, extent, offset = self.strides[at], self.extents[at], self.offsets[at]
            if extent == 1:  # whose stride is anything, and leads nowhere
                found[self.names[at]] = -offset, 1 - offset
                continue
            first, low = np.divmod(low, stride)
            last, high = np.divmod(high, stride)
            # Bytes of one stretch that go on in the next line may have any place within lines.
            first, last = np.where(whole, 0, first), np.where(whole, extent - 1, last)
            whole = whole | (first != last)
            found[self.names[at]] = int(first.min()) - offset, int(last.max()) + 1 - offset
        return found


@lru_cache(maxsize=256)
def axes_of_map(array: ArrayAxes, tensor_map: TensorMap) -> tuple[DimensionAxis, ...] | None:
    """Axes of a map's dimensions, of two axes of one dimension the outer one first; None where dimensions are no
    axes.

    Where an axis or a dimension has one element, its stride leads nowhere, and may be any. If there is one of each,
    or as many, of boxes alike, they belong together: which to which makes no difference to where a box lies.
    """
    strides = (1, *(stride // array.element_bytes for stride in tensor_map.strides_bytes))
    single = [at for at, extent in enumerate(array.extents) if extent == 1]
    narrow = [each for each, extent in enumerate(tensor_map.dims) if extent == 1]
    if len(single) > 1 and 0 in narrow:
        return None  # nothing says which of them is the innermost dimension, whose stride no map has
    alike = len({array.offsets[at] for at in single}) == len({tensor_map.box[each] for each in narrow}) == 1
    apart = len(single) == len(narrow) and alike
    left = [stride for at, stride in enumerate(array.strides) if not (apart and at in single)]
    of_map = [stride for each, stride in enumerate(strides) if not (apart and each in narrow)]
    if len(set(left)) < len(left) or len(set(of_map)) < len(of_map):
        return None  # axes of one place, which strides do not tell apart
    found: list[DimensionAxis] = []
    taken: set[int] = set()
    in_line: list[int] = []
    axes = list(range(len(array.names)))
    for at, each in zip(reversed(single), narrow, strict=True) if apart else ():
        axes.remove(at)
        taken.add(each)
        found.append(DimensionAxis(each, array.names[at], array.offsets[at]))
    # Of several of one stride, which extents of 1 make, those of the map's own extents go together first.
    for at in sorted(axes, key=lambda at: array.extents[at] not in tensor_map.dims):
        same = [each for each, stride in enumerate(strides) if stride == array.strides[at] and each not in taken]
        same.sort(key=lambda each: tensor_map.dims[each] != array.extents[at])
        if same:
            taken.add(same[0])
            found.append(DimensionAxis(same[0], array.names[at], array.offsets[at]))
        elif array.extents[at] > 1:
            in_line.append(at)
    for at in sorted(in_line, key=lambda at: array.strides[at]):
        stride = array.strides[at]
        wide = (each for each in taken if strides[each] <= stride and not (apart and each in narrow))
        below = max(wide, key=lambda each: strides[each], default=None)
        if below is None or stride % strides[below]:
            return None
        found.insert(0, DimensionAxis(below, array.names[at], array.offsets[at], stride // strides[below]))
    return None if any(at not in taken and extent > 1 for at, extent in enumerate(tensor_map.dims)) else tuple(found)


def places_of(axes: tuple[DimensionAxis, ...], first: tuple[int, ...], extents: Sequence[int]) -> Places:
    """Places of the elements `extents` from `first` on, by dimension, innermost first."""
    found: Places = {}
    for each in axes:
        if each.span:
            at = first[each.dimension] // each.span - each.offset
            found[each.axis] = at, at + 1
            first = tuple(
                start % each.span if number == each.dimension else start for number, start in enumerate(first)
            )
        else:
            at = first[each.dimension] - each.offset
            found[each.axis] = at, at + extents[each.dimension]
    return found


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Rows of one axis in groups. bounds: of groups that follow one another, where each ends; of those apart, how many
    rows each has. together: whether they follow one another."""

    group: str
    rows: str
    bounds: tuple[int, ...]
    together: bool


@dataclass(frozen=True, slots=True)
class ProgramSums:
    """The products of a program. operands: by buffer, the number of the operand (0: the one that all products share)
    and its axes; results: by buffer. contracted: the axis that is summed over; extents: by axis; groups: where rows
    stand in groups, whose sizes are known. own: axes along which
    what is loaded together has some of the next one's places besides, and how many of them are its own."""

    operands: Mapping[str, tuple[int, ArrayAxes]]
    results: Mapping[str, ArrayAxes]
    contracted: str
    extents: Mapping[str, int]
    groups: GroupRows | None
    own: tuple[tuple[str, int], ...] = ()

    def own_of(self, places: Places) -> Places:
        """Of the places of a part of an operand, those up to where the next one begins."""
        found = dict(places)
        for axis, step in self.own:
            if axis in places:
                begin, end = places[axis]
                found[axis] = begin, min(end, (begin // step + 1) * step)
        return found

    @property
    def arrays(self) -> dict[str, ArrayAxes]:
        """All of them."""
        return {**{name: array for name, (_, array) in self.operands.items()}, **self.results}


def placed_arrays(program: tile.ProgramOp, sums: ProgramSums | None) -> dict[str, ArrayAxes]:
    """The arrays of which a tile has a part, along the program's axes. sums: what it multiplies, if that is known."""
    return _parameters(program) if sums is None else sums.arrays


def program_sums(program: tile.ProgramOp, contents: Mapping[str, NDArray[np.uint8]]) -> ProgramSums | None:
    """What a decided program multiplies; None where that is not known. contents: bytes of arrays that the run is
    given, by name: sizes of groups among them."""
    decisions = decisions_of(program.attributes["decisions"])
    return _of_walk(program, decisions, contents) if isinstance(decisions, CascadeDecisions) else None


def _of_walk(
    program: tile.ProgramOp, d: CascadeDecisions, contents: Mapping[str, NDArray[np.uint8]]
) -> ProgramSums | None:
    """Of walks that only sum products of one array with others, in registers or in slots of tensor memory."""
    # What tables lead to is no part of an array that could be followed.
    gathered = any(isinstance(load.tensor.owner, GatherOp) for load in loads(program))
    products = () if gathered or (d.tensor_columns and not d.sums_alone) else summed_products(program)
    groups, rows = grouping(program), None
    if groups is not None:
        if groups.bounds not in contents:
            return None
        bounds = tuple(int(each) for each in contents[groups.bounds].view(np.int32))
        rows = GroupRows(groups.group, groups.ragged, bounds, not any(each.pitch for each in d.grouping))
    if not products:
        return None
    listed, held = loads(program), products[0].held.owner
    # An operand that is computed in registers is one of the array behind it, element by element.
    held = listed[d.slots[0].load] if d.computed else held
    assert isinstance(held, tile.LoadOp), "both operands of a sum of slots are loaded"
    numbers = {listed[slot.load]: 1 + slot.which for slot in d.slots}
    others = sorted((each.brought for each in products), key=lambda load: numbers[load])
    arrays, names = _parameters(program), [access_of(each).tensor for each in (held, *others)]
    if len(set(names)) < len(names) or not arrays.keys() >= set(names):
        return None
    operands = {name: (number, arrays[name]) for number, name in enumerate(names)}
    steps = ((d.row, d.row_step // d.tile_units if d.steps[0] else 0), (d.column, d.part_step if d.steps[1] else 0))
    own = tuple((axis, step) for axis, step in steps if step)
    return ProgramSums(operands, result_arrays(program), d.streamed, program.extents, rows, own)


def summed_products(program: tile.ProgramOp) -> tuple[Product, ...]:
    """The products of a decided walk that only sums them; none of any other program."""
    decisions = decisions_of(program.attributes["decisions"])
    if isinstance(decisions, CascadeDecisions) and decisions.computed:
        return computed_sum(program)
    return shared_sums(program)


def result_arrays(program: tile.ProgramOp) -> dict[str, ArrayAxes]:
    """The arrays that a program stores, by name, of those that it reaches at one displacement."""
    stored = {access_of(store).tensor for store in stores(program)}
    return {name: array for name, array in _parameters(program).items() if name in stored}


def _parameters(program: tile.ProgramOp) -> dict[str, ArrayAxes]:
    """The arrays that a program loads or stores, of those that it reaches at one displacement."""
    displaced: dict[str, set[tuple[int, ...]]] = {}
    plain = (load for load in loads(program) if read_tensor(load.tensor) is load.tensor)
    for each in (*plain, *stores(program)):
        at = access_of(each)
        displaced.setdefault(at.tensor, set()).add(at.offsets)
    found: dict[str, ArrayAxes] = {}
    for argument in program.body.block.args:
        name, tensor = parameter_name(program, argument), tensor_type(argument)
        if len(displaced.get(name, ())) == 1:
            (offsets,) = displaced[name]
            found[name] = ArrayAxes(
                tensor.axis_names, tensor.extents, tensor.stride_elements, offsets, tensor.element_kind.bytes
            )
    return found
