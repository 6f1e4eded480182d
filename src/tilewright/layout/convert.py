"""How is a layout of one family written in another: shape and strides, bits, pieces?

Theory: three families of functions of an integer i below a size. A `Layout` adds digits times strides and may swizzle;
a `LinearLayout` is a matrix over F2 on i's bits; a `Piecewise` is affine on boxes of digits. A sum of digits is the
exclusive or of its bits' images exactly where no two images share a bit: there, and for powers of two, the first two
meet. A swizzle, or any exclusive or, is a choice of flips: one affine piece for each value of the bits that choose.

Every conversion states its domain. Outside it `NotExpressible` says why, and `NotDecided` that a bound was met; what
is answered is the same function, proved by `layout.pieces.algebra` or by construction. Relations of integers:
`solve.layout_relation`. Not handled: symbolic sizes (`layout.equality`, `solve.layout_relation` compare those).
Checked by tests/layout/test_convert.py against enumeration.
"""

from __future__ import annotations

from tilewright.layout.answer import NotDecided, NotExpressible
from tilewright.layout.coalescing import canonical, coalesce
from tilewright.layout.layout import Layout, of_flat
from tilewright.layout.linear.maps import MOST_BITS, LinearLayout
from tilewright.layout.pieces.algebra import PlaceDifference, as_one, compose, difference, inverse, simplified
from tilewright.layout.pieces.piecewise import MOST_PIECES, Piece, Piecewise, affine, digits
from tilewright.layout.swizzle import Swizzle

_MOST_CHOOSING_BITS = 10
"""Bits whose values each need a piece of their own."""


def linear_of_layout(layout: Layout) -> LinearLayout | NotExpressible:
    """The layout as a matrix over F2, from the bits of its integer to those of its value.

    Domain: known sizes, extents powers of two, offset 0, and digits' values that share no bit (so no stride below 0);
    any swizzle. Outside it the function is not linear, except for sizes that are not known.
    """
    if layout.is_symbolic:
        return NotExpressible("a size or stride is symbolic")
    if layout.offset != 0:
        return NotExpressible(f"0 goes to {layout.offset} before a swizzle, and a linear map sends 0 to 0")
    columns: list[int] = []
    taken = 0
    for extent, stride in canonical(layout.plain).constant_flat():
        if extent & extent - 1:
            return NotExpressible(f"the extent {extent} is no power of two")
        for bit in range(extent.bit_length() - 1):
            move = stride << bit
            if move < 0:
                return NotExpressible(f"the stride {stride} leads below 0, where there are no bits to flip")
            if move & taken:
                return NotExpressible(f"steps of {move} carry into smaller ones: + is not exclusive or")
            taken |= move
            columns.append(move if layout.swizzle is None else layout.swizzle(move))
    rows = max([column.bit_length() for column in columns], default=0)
    if max(rows, len(columns)) > MOST_BITS:
        return NotExpressible(f"more than {MOST_BITS} bits")
    return LinearLayout((("index", len(columns)),), (("offset", rows),), tuple(columns))


def layout_of_linear(layout: LinearLayout) -> Layout | NotExpressible:
    """The linear map as shape and strides, perhaps swizzled: all inputs packed to one integer, and all outputs to one.

    Domain: maps whose columns share no bit, and those that one swizzle makes so. The swizzle with the fewest bits is
    taken, of these the one that reads the lowest.
    """
    columns = layout.columns
    shared = _shared_bits(columns)
    if not shared:
        return coalesce(of_flat([(2, column) for column in columns]))
    low, high = (shared & -shared).bit_length() - 1, shared.bit_length()
    width = max(column.bit_length() for column in columns)
    for bits in range(high - low, width + 1):
        for target in range(max(0, high - bits), low + 1):
            for source in range(width):
                if abs(source - target) < bits or max(source, target) + bits > MOST_BITS:
                    continue
                swizzle = Swizzle(bits, min(source, target), source - target)
                # A swizzle is its own inverse.
                plain = [swizzle(column) for column in columns]
                if not _shared_bits(plain):
                    return coalesce(of_flat([(2, column) for column in plain])).with_values(0, swizzle)
    return NotExpressible(f"images share bits {shared:#x}, and no one swizzle parts them")


def piecewise_of_layout(layout: Layout) -> Piecewise | NotExpressible | NotDecided:
    """The layout on its digits: the domain's extents multiply to its size, the first fastest; one output.

    Domain: known sizes; with a swizzle also digits that share no bit (any offset that shares none with them), whose
    source bits, at most 10, choose the piece.
    """
    if layout.is_symbolic:
        return NotExpressible("a size or stride is symbolic")
    simple = canonical(layout)
    offset = simple.offset
    assert isinstance(offset, int)
    flat = simple.constant_flat()
    if simple.swizzle is None:
        return affine([extent for extent, _ in flat], [[stride for _, stride in flat]], [offset])
    columns: list[int] = []
    used = offset
    for extent, stride in flat:
        for bit in range(extent.bit_length() - 1):
            columns.append(stride << bit)
        if extent & extent - 1 or stride < 0 or offset < 0:
            return NotExpressible("a swizzle over extents that are no powers of two, or values below 0")
    for column in columns:
        if column & used:
            return NotExpressible("a swizzle of digits that carry into each other")
        used |= column
    return _of_columns([simple.swizzle(column) for column in columns], simple.swizzle(offset))


def piecewise_of_linear(layout: LinearLayout) -> Piecewise | NotDecided:
    """The linear map on its bits: a domain of (2, 2, ...), first input's lowest bit first; one output, all packed.

    Domain: at most 10 bits that must be known before the others add up.
    """
    return _of_columns(layout.columns, 0)


def layout_of_piecewise(layout: Piecewise) -> Layout | NotExpressible:
    """The pieces as one shape with strides.

    Domain: one output, defined everywhere, and one affine form for the whole domain (however many pieces say it). A
    piecewise map that is a swizzle goes through `linear_of_piecewise`.
    """
    if layout.outputs != 1:
        return NotExpressible(f"{layout.outputs} outputs, and a layout has one")
    match as_one(layout):
        case None:
            return NotExpressible(f"defined at {layout.defined} of {layout.size} places")
        case PlaceDifference(place, left, right):
            return NotExpressible(f"no one form: by the steps from 0, {place} goes to {left}, and it goes to {right}")
        case Piece(_, (row,), (offset,)):
            return of_flat(list(zip(layout.extents, row, strict=True))).with_values(offset, None)
        case _:
            raise AssertionError("one output has one row")


def linear_of_piecewise(layout: Piecewise) -> LinearLayout | NotExpressible | NotDecided:
    """The pieces as a matrix over F2, from the bits of the place's number to those of the one output.

    Domain: extents powers of two, one output, defined everywhere, 0 to 0, and values that are the exclusive or of
    those of the powers of two; at most 10 bits that choose.
    """
    if layout.outputs != 1:
        return NotExpressible(f"{layout.outputs} outputs; join them first")
    if not layout.is_total:
        return NotExpressible(f"defined at {layout.defined} of {layout.size} places")
    for extent in layout.extents:
        if extent & extent - 1:
            return NotExpressible(f"the extent {extent} is no power of two")
    origin = _value(layout, 0)
    if origin != 0:
        return NotExpressible(f"0 goes to {origin}, and a linear map sends 0 to 0")
    count = layout.size.bit_length() - 1
    columns = [_value(layout, 1 << bit) for bit in range(count)]
    if min(columns, default=0) < 0:
        return NotExpressible("a value is negative")
    if max([count, *(column.bit_length() for column in columns)]) > MOST_BITS:
        return NotExpressible(f"more than {MOST_BITS} bits")
    wanted = _of_columns(columns, 0)
    if isinstance(wanted, NotDecided):
        return wanted
    given = refined(layout, (2,) * count)
    if not isinstance(given, Piecewise):
        return given
    found = difference(wanted, given)
    if found is not None:
        return NotExpressible(
            f"at the bits {found.place} the exclusive or is {found.left}, and the value {found.right}"
        )
    rows = max([column.bit_length() for column in columns], default=0)
    return LinearLayout((("index", count),), (("offset", rows),), tuple(columns))


def refined(layout: Piecewise, extents: tuple[int, ...]) -> Piecewise | NotExpressible | NotDecided:
    """The same function of the place's number on other coordinates.

    Domain: the same size. Where each old coordinate is made of whole new ones the pieces stay few; otherwise there is
    about one for each value of the slower coordinates, up to `MOST_PIECES`.
    """
    if layout.extents == extents:
        return layout
    split = _digits_within(layout.extents, extents)
    if split is not None:
        return compose(layout, affine(extents, split))
    numbers, own = digits(extents), digits(layout.extents)
    if numbers.size != own.size:
        return NotExpressible(f"{layout.extents} has {own.size} places, {extents} {numbers.size}")
    back = inverse(own)
    if not isinstance(back, Piecewise):
        return back
    place = compose(back, numbers)
    return place if isinstance(place, NotDecided) else compose(layout, place)


def _digits_within(extents: tuple[int, ...], finer: tuple[int, ...]) -> list[list[int]] | None:
    """For each of `extents` the row that puts it together from digits of `finer`; None where it is not made of whole
    ones."""
    rows: list[list[int]] = []
    at = 0
    for extent in extents:
        row = [0] * len(finer)
        step = 1
        while step < extent and at < len(finer):
            row[at] = step
            step *= finer[at]
            at += 1
        if step != extent:
            return None
        rows.append(row)
    return rows if all(extent == 1 for extent in finer[at:]) else None


def _shared_bits(columns: tuple[int, ...] | list[int]) -> int:
    """The bits that two columns have."""
    seen = shared = 0
    for column in columns:
        shared |= seen & column
        seen |= column
    return shared


def _of_columns(columns: tuple[int, ...] | list[int], offset: int) -> Piecewise | NotDecided:
    """offset ^ (exclusive or of the columns of the digits that are 1), digits of extent 2.

    Once the values of some digits are known, the others add or subtract their columns: they must share no bit among
    themselves. The digits that share most are chosen first.
    """
    rank = len(columns)
    choosing: list[int] = []
    free = list(range(rank))
    while shared := _shared_bits([columns[at] for at in free]):
        worst = max(free, key=lambda at: ((columns[at] & shared).bit_count(), at))
        free.remove(worst)
        choosing.append(worst)
        if len(choosing) > _MOST_CHOOSING_BITS:
            return NotDecided(
                f"exclusive ors that need more than {1 << _MOST_CHOOSING_BITS} pieces", "the bits' own algebra"
            )
    assert 1 << len(choosing) <= MOST_PIECES
    pieces: list[Piece] = []
    for chosen in range(1 << len(choosing)):
        start = offset
        box = [(0, 2)] * rank
        for number, at in enumerate(choosing):
            value = chosen >> number & 1
            box[at] = (value, value + 1)
            start ^= columns[at] if value else 0
        row = [0] * rank
        for at in free:
            # Bits that are 1 in the start go down, the others up.
            row[at] = columns[at] - 2 * (columns[at] & start)
        pieces.append(Piece(tuple(box), (tuple(row),), (start,)))
    return simplified(Piecewise((2,) * rank, 1, tuple(pieces)))


def _value(layout: Piecewise, index: int) -> int:
    image = layout(*layout.place(index))
    assert image is not None
    return image[0]
