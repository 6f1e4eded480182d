"""Layouts of any size with flips, slices and ragged tails: affine maps on disjoint boxes, without padding.

Theory: the domain is a box of integer coordinates, the first fastest; on each of some disjoint boxes in it the map is
affine, matrix times coordinate plus offset; elsewhere it is not defined, which is what a mask says. Extents are any
numbers: a tail of 100 = 3 * 32 + 4 is a box of its own. Such maps are closed under composition and restriction, and
under inversion where an image is again made of boxes (`layout.pieces.algebra`).

Bounds: at most 4,096 pieces of at most 64 coordinates; answers that would need more are `NotDecided`. Not handled:
symbolic extents (`layout.layout`, `solve.layout_relation`), domains that are no union of few boxes, such as triangles.
Checked by tests/layout/pieces/test_piecewise.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers import boxes
from tilewright.layout.numbers.boxes import Box

MOST_PIECES = 4096
_MOST_RANK = 64
Row = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Where `box` holds x, the outputs are matrix . x + offsets. matrix: one row for each output, one number for each
    coordinate; offsets: one for each output."""

    box: Box
    matrix: tuple[Row, ...]
    offsets: Row

    def at(self, place: Sequence[int]) -> Row:
        """The outputs of a coordinate, which is not checked to lie in the box."""
        return tuple(
            [
                offset + sum([factor * each for factor, each in zip(row, place, strict=True)])
                for row, offset in zip(self.matrix, self.offsets, strict=True)
            ]
        )


@dataclass(frozen=True, slots=True)
class Piecewise:
    """extents: of the domain's coordinates, the first fastest; outputs: how many numbers an image has; pieces: where
    it is defined, disjoint boxes within the domain.

    Raises TilewrightError for extents below 1, pieces outside, empty or overlapping, and numbers that do not fit.
    """

    extents: tuple[int, ...]
    outputs: int
    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        if len(self.extents) > _MOST_RANK or self.outputs > _MOST_RANK:
            raise TilewrightError(f"piecewise: more than {_MOST_RANK} coordinates or outputs")
        for extent in self.extents:
            if type(extent) is not int or extent < 1:
                raise TilewrightError(f"piecewise: the extent {extent} is no positive integer")
        if len(self.pieces) > MOST_PIECES:
            raise TilewrightError(f"piecewise: {len(self.pieces)} pieces; at most {MOST_PIECES} are handled")
        for piece in self.pieces:
            fits = len(piece.box) == len(self.extents) and len(piece.matrix) == len(piece.offsets) == self.outputs
            if not fits or any(len(row) != len(self.extents) for row in piece.matrix):
                raise TilewrightError(
                    f"piecewise: a piece has other coordinates than {len(self.extents)} to {self.outputs}"
                )
            for (low, high), extent in zip(piece.box, self.extents, strict=True):
                if not 0 <= low < high <= extent:
                    raise TilewrightError(f"piecewise: a piece takes {low} to {high - 1} of 0 to {extent - 1}")
        met = boxes.overlapping([piece.box for piece in self.pieces])
        if met is not None:
            raise TilewrightError(
                f"piecewise: the pieces {self.pieces[met[0]].box} and {self.pieces[met[1]].box} overlap"
            )

    @property
    def size(self) -> int:
        """Coordinates of the domain, defined or not."""
        return prod(self.extents)

    @property
    def defined(self) -> int:
        """Coordinates at which the map is defined."""
        return sum(boxes.volume(piece.box) for piece in self.pieces)

    @property
    def is_total(self) -> bool:
        return self.defined == self.size

    def place(self, index: int) -> Row:
        """The coordinates of a number below the size. Raises TilewrightError for others."""
        if not 0 <= index < self.size:
            raise TilewrightError(f"piecewise: {index} is not below {self.size}")
        found: list[int] = []
        for extent in self.extents:
            index, digit = divmod(index, extent)
            found.append(digit)
        return tuple(found)

    def __call__(self, *place: int) -> Row | None:
        """The outputs at a coordinate, or at its number; None where the map is not defined. Raises TilewrightError."""
        if len(place) == 1 and len(self.extents) != 1:
            place = self.place(place[0])
        if len(place) != len(self.extents) or any(
            not 0 <= each < extent for each, extent in zip(place, self.extents, strict=True)
        ):
            raise TilewrightError(f"piecewise: {place} is not within {self.extents}")
        for piece in self.pieces:
            if all(low <= each < high for each, (low, high) in zip(place, piece.box, strict=True)):
                return piece.at(place)
        return None

    def __str__(self) -> str:
        lines = [f"{self.extents} to {self.outputs} outputs"]
        for piece in self.pieces:
            where = " x ".join(f"[{low}, {high})" for low, high in piece.box) or "the point"
            images = [_form(row, offset) for row, offset in zip(piece.matrix, piece.offsets, strict=True)]
            lines.append(f"  {where}: ({', '.join(images)})")
        return "\n".join(lines)


def affine(extents: Sequence[int], matrix: Sequence[Sequence[int]], offsets: Sequence[int] = ()) -> Piecewise:
    """One affine map on a whole box. matrix: a row for each output; offsets: 0 by default. Raises TilewrightError."""
    rows = tuple([tuple(row) for row in matrix])
    start = tuple(offsets) if offsets else (0,) * len(rows)
    box = tuple([(0, extent) for extent in extents])
    return Piecewise(tuple(extents), len(rows), (Piece(box, rows, start),))


def identity(extents: Sequence[int]) -> Piecewise:
    """Every coordinate to itself."""
    return affine(extents, unit_rows(len(extents)))


def permuted(extents: Sequence[int], order: Sequence[int]) -> Piecewise:
    """Output k is coordinate order[k]. Raises TilewrightError where `order` is no permutation."""
    if sorted(order) != list(range(len(extents))):
        raise TilewrightError(f"piecewise: {tuple(order)} is no order of {len(extents)} coordinates")
    rows = unit_rows(len(extents))
    return affine(extents, [rows[axis] for axis in order])


def window(starts: Sequence[int], lengths: Sequence[int], steps: Sequence[int] = ()) -> Piecewise:
    """The slice `starts[k] + steps[k] x_k` of a larger box, as a map from the box of `lengths`; steps: 1 by default."""
    rank = len(lengths)
    factors = tuple(steps) if steps else (1,) * rank
    if len(starts) != rank or len(factors) != rank:
        raise TilewrightError(f"piecewise: {len(starts)} starts and {len(factors)} steps for {rank} lengths")
    return affine(lengths, [[factors[at] if at == axis else 0 for at in range(rank)] for axis in range(rank)], starts)


def digits(extents: Sequence[int]) -> Piecewise:
    """Every coordinate to its number, the first coordinate fastest."""
    row: list[int] = []
    step = 1
    for extent in extents:
        row.append(step)
        step *= extent
    return affine(extents, [row])


def blocked(extent: int, block: int) -> Piecewise:
    """(place in the block, block) to the element of an axis: defined where there is one, so that the last block of an
    extent that is no multiple is ragged. Two pieces at most. Raises TilewrightError for a block below 1."""
    if block < 1 or extent < 1:
        raise TilewrightError(f"piecewise: blocks of {block} of {extent} elements")
    whole, tail = divmod(extent, block)
    matrix = ((1, block),)
    pieces: list[Piece] = []
    if whole:
        pieces.append(Piece(((0, block), (0, whole)), matrix, (0,)))
    if tail:
        pieces.append(Piece(((0, tail), (whole, whole + 1)), matrix, (0,)))
    return Piecewise((block, whole + bool(tail)), 1, tuple(pieces))


def product(first: Piecewise, second: Piecewise) -> Piecewise:
    """Both side by side: coordinates and outputs of the first, then of the second; defined where both are."""
    left, right = (0,) * len(first.extents), (0,) * len(second.extents)
    pieces = [
        Piece(
            one.box + other.box,
            tuple([row + right for row in one.matrix] + [left + row for row in other.matrix]),
            one.offsets + other.offsets,
        )
        for other in second.pieces
        for one in first.pieces
    ]
    return Piecewise(first.extents + second.extents, first.outputs + second.outputs, tuple(pieces))


def restricted(layout: Piecewise, box: Box) -> Piecewise:
    """The same map, defined in `box` only."""
    kept: list[Piece] = []
    for piece in layout.pieces:
        shared = boxes.intersection(piece.box, box)
        if shared is not None:
            kept.append(Piece(shared, piece.matrix, piece.offsets))
    return Piecewise(layout.extents, layout.outputs, tuple(kept))


def unit_rows(rank: int) -> tuple[Row, ...]:
    """The rows of the identity."""
    return tuple([tuple([int(at == axis) for at in range(rank)]) for axis in range(rank)])


def _form(row: Row, offset: int) -> str:
    parts = [f"{factor:+d}*x{axis}" for axis, factor in enumerate(row) if factor]
    return "".join([*parts, f"{offset:+d}" if offset or not parts else ""]).removeprefix("+")
