"""Piecewise-affine layouts: composition, inverse, equality and the fewest pieces that greedy joining finds.

Theory: the points of a box that an affine map sends into another box are a union of boxes, few where each output reads
at most one coordinate, or reads them as digits (`layout.numbers.boxes`). The image of a box is a box, and the inverse
affine, where the matrix is a signed permutation of the coordinates that move; otherwise the box is sliced along a
coordinate until it is. Two maps are equal where they are defined on the same points and, on each pair of pieces that
meet, the affine forms agree at one corner and along each edge.

Every answer is exact. More than `MOST_PIECES` pieces end as `NotDecided`: an image with gaps, such as the even numbers,
takes one for each value. Checked by tests/layout/pieces/test_piecewise.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotDecided, NotExpressible
from tilewright.layout.numbers import boxes
from tilewright.layout.numbers.boxes import Box
from tilewright.layout.pieces.piecewise import MOST_PIECES, Piece, Piecewise, Row

_MOST_PAIRS = 1 << 18
_TOO_MANY = NotDecided(f"the answer has more than {MOST_PIECES} pieces", "coarser blocks, or fewer pieces")


@dataclass(frozen=True, slots=True)
class PlaceDifference:
    """place: coordinates at which two maps differ; left, right: their outputs there, None where not defined."""

    place: Row
    left: Row | None
    right: Row | None

    def __str__(self) -> str:
        return f"at {self.place} the outputs are {_shown(self.left)} and {_shown(self.right)}"


def compose(outer: Piecewise, inner: Piecewise) -> Piecewise | NotDecided:
    """x to outer(inner(x)), defined where both are. Raises TilewrightError where inner's outputs are not outer's
    coordinates."""
    if inner.outputs != len(outer.extents):
        raise TilewrightError(f"piecewise: {inner.outputs} outputs are no coordinates of {outer.extents}")
    if len(inner.pieces) * len(outer.pieces) > _MOST_PAIRS:
        return _TOO_MANY
    found: list[Piece] = []
    for piece in inner.pieces:
        reach = [boxes.value_range(piece.box, row, at) for row, at in zip(piece.matrix, piece.offsets, strict=True)]
        for after in outer.pieces:
            if any(low > last or high <= first for (low, high), (first, last) in zip(after.box, reach, strict=True)):
                continue
            where = _preimage(piece, after.box)
            if where is None or len(found) + len(where) > MOST_PIECES:
                return _TOO_MANY
            matrix = tuple([_combined(row, piece.matrix, len(inner.extents)) for row in after.matrix])
            offsets = after.at(piece.offsets)
            found += [Piece(box, matrix, offsets) for box in where]
    return simplified(Piecewise(inner.extents, outer.outputs, tuple(found)))


def inverse(layout: Piecewise, extents: Sequence[int] | None = None) -> Piecewise | NotExpressible | NotDecided:
    """y to the x with layout(x) = y, defined where there is one.

    extents: of the outputs, by default one past the greatest of each. Not expressible where two places have one image,
    or an image lies outside `extents`.
    """
    ends = tuple(extents) if extents is not None else _ends(layout)
    found: list[Piece] = []
    waiting = [_settled(piece) for piece in layout.pieces]
    while waiting:
        if len(found) + len(waiting) > MOST_PIECES:
            return _TOO_MANY
        piece = waiting.pop()
        for output, (row, offset, end) in enumerate(zip(piece.matrix, piece.offsets, ends, strict=True)):
            least, greatest = boxes.value_range(piece.box, row, offset)
            if least < 0 or greatest >= end:
                return NotExpressible(f"output {output} reaches {least if least < 0 else greatest}, of 0 to {end - 1}")
        axis = _unlike_permutation(piece)
        if axis is None:
            found.append(_inverted(piece))
            continue
        low, high = piece.box[axis]
        if not any(row[axis] for row in piece.matrix):
            places = [_corner(piece.box), _corner(piece.box, axis)]
            return NotExpressible(f"{places[0]} and {places[1]} have one image: the map is not one to one")
        if high - low > MOST_PIECES:
            return _TOO_MANY
        waiting += [
            _settled(Piece((*piece.box[:axis], (at, at + 1), *piece.box[axis + 1 :]), piece.matrix, piece.offsets))
            for at in range(low, high)
        ]
    met = boxes.overlapping([piece.box for piece in found])
    if met is not None:
        one, other = found[met[0]], found[met[1]]
        shared = boxes.intersection(one.box, other.box)
        assert shared is not None
        image = _corner(shared)
        return NotExpressible(f"{one.at(image)} and {other.at(image)} have one image: the map is not one to one")
    return simplified(Piecewise(ends, len(layout.extents), tuple(found)))


def difference(left: Piecewise, right: Piecewise) -> PlaceDifference | None:
    """A place at which two maps of the same domain differ; None where they are equal.

    Raises TilewrightError where domains or outputs have other numbers.
    """
    if left.extents != right.extents or left.outputs != right.outputs:
        raise TilewrightError(
            f"piecewise: {left.extents} to {left.outputs} and {right.extents} to {right.outputs} are not comparable"
        )
    for one in left.pieces:
        missing = [one.box]
        for other in right.pieces:
            shared = boxes.intersection(one.box, other.box)
            if shared is None:
                continue
            place = _where_unlike(one, other, shared)
            if place is not None:
                return PlaceDifference(place, one.at(place), other.at(place))
            missing = [rest for box in missing for rest in boxes.without(box, shared)]
        if missing:
            place = _corner(missing[0])
            return PlaceDifference(place, one.at(place), None)
    if left.defined != right.defined:
        for other in right.pieces:
            missing = [other.box]
            for one in left.pieces:
                missing = [rest for box in missing for rest in boxes.without(box, one.box)]
            if missing:
                place = _corner(missing[0])
                return PlaceDifference(place, None, other.at(place))
    return None


def simplified(layout: Piecewise) -> Piecewise:
    """The same map with neighbouring pieces joined where one affine form says both."""
    pieces = [_settled(piece) for piece in layout.pieces]
    changed = len(pieces) > 1
    while changed:
        changed = False
        for axis in range(len(layout.extents)):
            joined = _joined_along(pieces, axis)
            changed = changed or len(joined) < len(pieces)
            pieces = joined
    pieces.sort(key=lambda piece: piece.box[::-1])
    return Piecewise(layout.extents, layout.outputs, tuple(pieces))


def as_one(layout: Piecewise) -> Piece | PlaceDifference | None:
    """The one affine form that says the whole map; where there is none a place that does not fit the form of the first
    piece, or None where the map is not defined everywhere."""
    if not layout.is_total:
        return None
    simple = simplified(layout)
    if len(simple.pieces) == 1:
        return simple.pieces[0]
    # The form is given by the origin and one step along each axis.
    origin = layout(*((0,) * len(layout.extents)))
    assert origin is not None
    columns: list[Row] = []
    for axis, extent in enumerate(layout.extents):
        step = layout(*(int(at == axis and extent > 1) for at in range(len(layout.extents))))
        assert step is not None
        columns.append(tuple([there - here for there, here in zip(step, origin, strict=True)]))
    matrix = tuple([tuple([column[output] for column in columns]) for output in range(layout.outputs)])
    whole = Piece(tuple([(0, extent) for extent in layout.extents]), matrix, origin)
    found = difference(Piecewise(layout.extents, layout.outputs, (whole,)), layout)
    return whole if found is None else found


def _preimage(piece: Piece, target: Box) -> list[Box] | None:
    """Where in the piece's box the outputs lie in `target`."""
    where = [piece.box]
    for (low, high), row, offset in zip(target, piece.matrix, piece.offsets, strict=True):
        narrowed: list[Box] = []
        for box in where:
            part = boxes.where_between(box, row, offset, low, high, MOST_PIECES)
            if part is None or len(narrowed) + len(part) > MOST_PIECES:
                return None
            narrowed += part
        where = narrowed
    return where


def _combined(row: Row, matrix: tuple[Row, ...], rank: int) -> Row:
    """row . matrix"""
    return tuple([sum([factor * inner[at] for factor, inner in zip(row, matrix, strict=True)]) for at in range(rank)])


def _settled(piece: Piece) -> Piece:
    """The same map with 0 for every coordinate that has but one value."""
    fixed = [high - low == 1 for low, high in piece.box]
    if not any(fixed):
        return piece
    matrix: list[Row] = []
    offsets: list[int] = []
    for row, offset in zip(piece.matrix, piece.offsets, strict=True):
        kept = [0 if alone else factor for factor, alone in zip(row, fixed, strict=True)]
        moved = [factor * low for factor, alone, (low, _) in zip(row, fixed, piece.box, strict=True) if alone]
        matrix.append(tuple(kept))
        offsets.append(offset + sum(moved))
    return Piece(piece.box, tuple(matrix), tuple(offsets))


def _unlike_permutation(piece: Piece) -> int | None:
    """The axis to slice so that outputs become signed coordinates; None where they are. The piece is settled."""
    moving = [at for at, (low, high) in enumerate(piece.box) if high - low > 1]
    taken: dict[int, int] = {}
    for axis in moving:
        rows = [(at, row[axis]) for at, row in enumerate(piece.matrix) if row[axis]]
        if len(rows) != 1 or abs(rows[0][1]) != 1:
            return axis
        output = rows[0][0]
        if output in taken:
            lengths = {at: piece.box[at][1] - piece.box[at][0] for at in (axis, taken[output])}
            return min(lengths, key=lambda at: lengths[at])
        taken[output] = axis
    # A coordinate that stands alone with a factor of one shares its row only with coordinates seen above.
    return None


def _inverted(piece: Piece) -> Piece:
    """The inverse of a settled piece whose outputs are signed coordinates or constants."""
    rank, count = len(piece.box), len(piece.matrix)
    box: list[tuple[int, int]] = []
    rows = [[0] * count for _ in range(rank)]
    offsets = [low for low, _ in piece.box]
    for output, (row, offset) in enumerate(zip(piece.matrix, piece.offsets, strict=True)):
        least, greatest = boxes.value_range(piece.box, row, offset)
        box.append((least, greatest + 1))
        for axis, factor in enumerate(row):
            if factor:
                rows[axis][output] = factor
                offsets[axis] = -factor * offset
    return Piece(tuple(box), tuple([tuple(row) for row in rows]), tuple(offsets))


def _where_unlike(one: Piece, other: Piece, box: Box) -> Row | None:
    """A corner of the box, or its neighbour, at which two affine forms differ."""
    origin = _corner(box)
    if one.at(origin) != other.at(origin):
        return origin
    if one.matrix == other.matrix:
        return None
    for axis, (low, high) in enumerate(box):
        if high - low > 1 and any(
            row[axis] != second[axis] for row, second in zip(one.matrix, other.matrix, strict=True)
        ):
            return _corner(box, axis)
    return None


def _joined_along(pieces: list[Piece], axis: int) -> list[Piece]:
    """Neighbours along one axis joined, where the other sides of their boxes are the same."""
    lines: dict[Box, list[Piece]] = {}
    for piece in pieces:
        lines.setdefault((*piece.box[:axis], *piece.box[axis + 1 :]), []).append(piece)
    found: list[Piece] = []
    for line in lines.values():
        line.sort(key=lambda piece: piece.box[axis])
        current = line[0]
        for following in line[1:]:
            both = _both(current, following, axis)
            if both is None:
                found.append(current)
                current = following
            else:
                current = both
        found.append(current)
    return found


def _both(one: Piece, other: Piece, axis: int) -> Piece | None:
    """One settled piece that says two that touch along `axis`; None where none does."""
    (low, middle), (begin, high) = one.box[axis], other.box[axis]
    if middle != begin:
        return None
    first, second = middle - low, high - begin
    here = _corner(one.box)
    there = tuple([begin if at == axis else each for at, each in enumerate(here)])
    matrix: list[Row] = []
    offsets: list[int] = []
    values, further = one.at(here), other.at(there)
    for row, after, value, value_after in zip(one.matrix, other.matrix, values, further, strict=True):
        if any(a != b for at, (a, b) in enumerate(zip(row, after, strict=True)) if at != axis):
            return None
        factor, rest = divmod(value_after - value, first)
        if rest or (first > 1 and row[axis] != factor) or (second > 1 and after[axis] != factor):
            return None
        joined = (*row[:axis], factor, *row[axis + 1 :])
        matrix.append(joined)
        offsets.append(value - sum([step * at for step, at in zip(joined, here, strict=True)]))
    return Piece((*one.box[:axis], (low, high), *one.box[axis + 1 :]), tuple(matrix), tuple(offsets))


def _corner(box: Box, step: int | None = None) -> Row:
    """The box's least point, or its neighbour along the axis `step`."""
    return tuple([low + int(axis == step) for axis, (low, _) in enumerate(box)])


def _ends(layout: Piecewise) -> tuple[int, ...]:
    ends = [1] * layout.outputs
    for piece in layout.pieces:
        for output, (row, offset) in enumerate(zip(piece.matrix, piece.offsets, strict=True)):
            ends[output] = max(ends[output], boxes.value_range(piece.box, row, offset)[1] + 1)
    return tuple(ends)


def _shown(outputs: Row | None) -> str:
    return "not defined" if outputs is None else str(outputs)
