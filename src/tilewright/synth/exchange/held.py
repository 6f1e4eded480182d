"""Where do two register layouts put the same elements? Both as matrices over one space, and who needs whose elements.

Theory: a layout of registers is a matrix of columns, one for each bit of the numbers of element, lane and warp; a
column says how the coordinate in the tile changes with that bit. Coordinates are taken in a basis of what the source
holds, so that the tile's shape and unreached places are gone. Where each warp holds all that it needs (every column of
the destination lies in the span of the source's element and lane columns, warp bits compared with themselves), copies
of different warps are told apart by adding the warp's number to the coordinate: then a warp exchanges with itself only.

Not handled: inputs other than "register", "lane" and "warp" that have more than one place, and layouts of other numbers
of warps. Who checks: tests/synth/exchange/test_search.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.linear.parts import transpose_outputs
from tilewright.layout.numbers import bit_matrix
from tilewright.layout.numbers.bit_matrix import Columns

LANE_BITS = 5


@dataclass(frozen=True, slots=True)
class Held:
    """Columns by bit of element, lane and warp."""

    register: Columns
    lane: Columns
    warp: Columns

    @property
    def columns(self) -> Columns:
        return (*self.register, *self.lane, *self.warp)


@dataclass(frozen=True, slots=True)
class Pair:
    """source, destination: in one space of `bits` bits, all of which the source reaches; in_warp: no warp needs an
    element of another one, and the space tells copies of different warps apart; forwards: of the two layouts, whose
    order does not depend on the way the tile goes, the source is the first."""

    source: Held
    destination: Held
    bits: int
    in_warp: bool
    forwards: bool = True


def pair_of(source: LinearLayout, destination: LinearLayout) -> Pair | NotExpressible:
    """Both layouts over one space.

    Raises TilewrightError for layouts without lanes of 32 places, other inputs of more than one place, or outputs of
    other names; NotExpressible where the source lacks an element or the numbers of warps differ.
    """
    first = held_of(source, "source")
    second = held_of(aligned(destination, source), "destination")
    if len(first.warp) != len(second.warp):
        return NotExpressible(f"{1 << len(first.warp)} warps hold the source, {1 << len(second.warp)} the destination")
    if not _within(second.columns, first.columns):
        return NotExpressible("the source lacks elements that the destination holds")
    in_warp = _stays_in_warp(first, second)
    forwards = first.columns <= second.columns
    if in_warp:
        above = max(each.bit_length() for each in (*first.columns, 0))
        first, second = _pinned(first, above), _pinned(second, above)
    basis = bit_matrix.image(first.columns)
    return Pair(_in_basis(first, basis), _in_basis(second, basis), len(basis), in_warp, forwards)


def independent(vectors: Columns) -> tuple[int, ...]:
    """Places of the vectors that no earlier vectors span."""
    kept: list[int] = []
    known: list[int] = []
    for place, vector in enumerate(vectors):
        if bit_matrix.solve(known, vector) is None:
            known.append(vector)
            kept.append(place)
    return tuple(kept)


def extended(begin: Columns, candidates: Columns, size: int | None = None) -> Columns:
    """`begin` and those candidates that are independent of what stands before them, at most `size` in all."""
    found = list(begin)
    for vector in candidates:
        if size is not None and len(found) >= size:
            break
        if bit_matrix.solve(found, vector) is None:
            found.append(vector)
    return tuple(found)


def spans(basis: Columns, vectors: Columns) -> bool:
    return bit_matrix.solve_all(basis, vectors) is not None


def shared_registers(pair: Pair) -> Columns:
    """A basis of what a thread's elements span in both layouts, with columns of either first, those of both before
    all: so that words keep the order that they have. It is the same for the way back, so that what one way packs at
    its end the other unpacks at its beginning, and registers that one loads together the other stores together."""
    return shared_orders(pair)[0]


def shared_orders(pair: Pair) -> tuple[Columns, ...]:
    """`shared_registers` with columns of the first layout before those of the second, and the other way round."""
    ends = (pair.source.register, pair.destination.register)
    first, second = ends if pair.forwards else ends[::-1]
    both = bit_matrix.intersection(first, second)
    orders: list[Columns] = []
    for one, other in ((first, second), (second, first)):
        wanted = (*(each for each in one if each in other), *one, *other)
        order = extended((), (*(each for each in wanted if each and spans(both, (each,))), *both), len(both))
        orders += [order] if order not in orders else []
    return tuple(orders)


def solved(basis: Columns, vector: int) -> int:
    """The weights of a vector that the basis is known to span."""
    found = bit_matrix.solve(basis, vector)
    assert found is not None, "the vector lies in the span"
    return found


def held_of(layout: LinearLayout, which: str) -> Held:
    bases: dict[str, Columns] = {}
    at = 0
    for name, bits in layout.input_bits:
        if name not in ("register", "lane", "warp") and bits:
            raise TilewrightError(
                f"{which} of an exchange: input {name!r} has {1 << bits} places",
                remedy="an exchange moves elements among the registers, lanes and warps of one CTA",
            )
        bases[name] = layout.columns[at : at + bits]
        at += bits
    lanes = bases.get("lane", ())
    if len(lanes) != LANE_BITS:
        raise TilewrightError(f"{which} of an exchange: {1 << len(lanes)} lanes, where a warp has {1 << LANE_BITS}")
    return Held(bases.get("register", ()), lanes, bases.get("warp", ()))


def aligned(layout: LinearLayout, like: LinearLayout) -> LinearLayout:
    """The outputs in the other's order, at the bits that the other gives them. Raises TilewrightError."""
    order = [name for name, _ in like.output_bits]
    if sorted(name for name, _ in layout.output_bits) != sorted(order):
        raise TilewrightError(
            f"exchange between outputs {order} and {[name for name, _ in layout.output_bits]}",
            remedy="give both layouts the same outputs",
        )
    turned = transpose_outputs(layout, order)
    if turned.output_bits != like.output_bits:
        raise TilewrightError(
            f"exchange between tiles of {dict(like.output_sizes)} and {dict(turned.output_sizes)} places",
            remedy="give both layouts the same tile",
        )
    return turned


def _within(vectors: Columns, columns: Columns) -> bool:
    return bit_matrix.solve_all(columns, vectors) is not None


def _stays_in_warp(source: Held, destination: Held) -> bool:
    own = (*source.register, *source.lane)
    between = [first ^ second for first, second in zip(source.warp, destination.warp, strict=True)]
    return _within((*destination.register, *destination.lane, *between), own)


def _pinned(held: Held, above: int) -> Held:
    return Held(held.register, held.lane, tuple(each | 1 << above + bit for bit, each in enumerate(held.warp)))


def _in_basis(held: Held, basis: Columns) -> Held:
    return Held(
        tuple(solved(basis, each) for each in held.register),
        tuple(solved(basis, each) for each in held.lane),
        tuple(solved(basis, each) for each in held.warp),
    )
