"""What is a repair: which maps, which copies of which boxes, and where does each element of the tensor go?

A repair is its own recipe. `copies` says, for one box that a kernel wants, which boxes of which maps to copy; `locate`
says where an element of the tensor stands in those maps. Both follow from the moves (`reading`) that led to the maps,
so a plan can be checked one element at a time: the element's place lies in one of the copied boxes, at the same address
(or at its address in the workspace), and what lies past the tensor's end lies past the map's.

Checked by tests/legal/plan/test_repairs.py, element by element.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from tilewright.legal.plan.costs import Cost
from tilewright.legal.plan.moves import Move, Select, Unroll
from tilewright.legal.plan.reading import Index, Reading
from tilewright.legal.tensor_map.im2col_map import Im2colMap, Im2colWideMap
from tilewright.legal.tensor_map.tensor_map import TensorMap

Kind = Literal[
    "legal",
    "fields",
    "box",
    "swizzle",
    "pad",
    "split",
    "merge",
    "rotate",
    "reinterpret",
    "shift",
    "take-in",
    "element-stride",
    "several-maps",
    "copy",
    "im2col",
    "bulk",
    "cp.async",
    "loads",
]
"""What a repair mainly does. The last three take no tensor map: a bulk copy of each run of bytes, asynchronous copies
by threads, plain loads."""


@dataclass(frozen=True, slots=True)
class Change:
    """One field of the map that a repair changes: its name, and its value before and after."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class MapCopy:
    """One bulk tensor copy: the box of `maps[map_index]` that begins at `coords`, innermost first."""

    map_index: int
    coords: Index


@dataclass(frozen=True, slots=True)
class Part:
    """One map of a repair. moves: from the tensor's reading to the map's; box, counts: elements of one copy and copies
    along each of the map's dimensions."""

    map: TensorMap
    moves: tuple[Move, ...]
    box: Index
    counts: Index

    def copies(self, coords: Index, box: Index) -> list[Index]:
        """Where the copies of this map begin, for the box of extents `box` at `coords` of the tensor."""
        starts = [coords]
        for move in self.moves:
            match move:
                case Unroll(dimension, count):
                    starts = [_advanced(start, dimension, step) for start in starts for step in range(count)]
                case Select(dimension, modulus, remainder):
                    # A box of one index needs only the map that has it.
                    if box[dimension] == 1 and coords[dimension] % modulus != remainder:
                        return []
                    starts = [move.start(start) for start in starts]
                case _:
                    starts = [move.start(start) for start in starts]
        steps = list(product(*(range(count) for count in self.counts)))
        return [
            tuple(at + step * part for at, step, part in zip(start, stepped, self.box, strict=True))
            for start in starts
            for stepped in steps
        ]

    def locate(self, index: Index) -> Index | None:
        """The index in the map of the tensor's element `index` (of its first byte where the map's elements differ in
        width); None where another map has it."""
        for move in self.moves:
            if isinstance(move, Select) and index[move.dimension] % move.modulus != move.remainder:
                return None
            index = move.index(index)
        return index


@dataclass(frozen=True, slots=True)
class Repair:
    """A way to copy the boxes that an illegal map was for.

    kind: what it mainly does; title: one line with the numbers; maps: usually one, none where the copy needs no tiled
    map; im2col: the im2col map, where one is repaired or serves better;
    changes: fields of the map that differ; cost: in numbers, `cost.line` in words; checked: every map was judged legal
    afterwards; stored: the tensor as it must stand (its strides, where the repair pads or copies it; `address` is
    counted from the workspace's beginning where it is copied); boxes: extents of the box delivered, and the multiples
    at which it may begin (0: at 0 alone).
    """

    kind: Kind
    title: str
    maps: tuple[TensorMap, ...]
    cost: Cost
    changes: tuple[Change, ...]
    stored: Reading = field(repr=False)
    parts: tuple[Part, ...] = field(default=(), repr=False)
    im2col: Im2colMap | Im2colWideMap | None = None
    checked: bool = True

    @property
    def map(self) -> TensorMap | None:
        """The first tiled map; None for a copy that takes none."""
        return self.maps[0] if self.maps else None

    @property
    def box(self) -> Index:
        """Extents, in elements of the tensor, of the box that is delivered."""
        return self.stored.box

    @property
    def starts(self) -> Index:
        """Boxes may begin at multiples of these; 0 where only coordinate 0 is meant."""
        return self.stored.starts

    @property
    def workspace_bytes(self) -> int:
        """Bytes to which the tensor is copied beforehand; 0 where it is read where it stands."""
        return self.stored.span_bytes if self.kind == "copy" else 0

    def copies(self, coords: Index) -> tuple[MapCopy, ...]:
        """The bulk tensor copies that deliver the box at `coords`, in order. None for a repair without maps."""
        return tuple(
            MapCopy(at, start)
            for at, part in enumerate(self.parts)
            for start in part.copies(tuple(coords), self.stored.box)
        )

    def locate(self, index: Index) -> MapCopy | None:
        """Which map has the tensor's element `index`, and at which coordinates. None for a repair without maps."""
        for at, part in enumerate(self.parts):
            found = part.locate(tuple(index))
            if found is not None:
                return MapCopy(at, found)
        return None


def _advanced(start: Index, dimension: int, step: int) -> Index:
    return (*start[:dimension], start[dimension] + step, *start[dimension + 1 :])
