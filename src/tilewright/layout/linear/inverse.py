"""Which place of a linear layout holds an element: inverses, one- and two-sided, and the map between two layouts.

Theory: a layout that is onto has a right inverse, one that is one to one a left inverse, each by Gauss's elimination;
any has a pseudo-inverse. Where inputs repeat elements the choice is open: free bits, those whose image lower bits
already reach, are 0.

Not handled: as `layout.linear.maps`. Checked by tests/layout/linear/test_maps.py, and against Triton's by
bench/peers_linear.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout, Names, by_bit, same_names, starts_of, unpack
from tilewright.layout.numbers import bit_matrix


def invert(layout: LinearLayout) -> LinearLayout | NotExpressible:
    """The layout from outputs to inputs, where the layout is one to one and onto."""
    rows = sum([bits for _, bits in layout.output_bits])
    columns = bit_matrix.inverse(layout.columns, rows)
    if columns is None:
        return NotExpressible(_why_no_inverse(layout))
    return LinearLayout(layout.output_bits, layout.input_bits, columns)


def right_inverse(layout: LinearLayout) -> LinearLayout | NotExpressible:
    """An R with layout(R(y)) = y, where the layout is onto: among the places of y one with 0 in each input bit that
    repeats what lower bits reach."""
    rows = sum([bits for _, bits in layout.output_bits])
    columns = bit_matrix.right_inverse(layout.columns, rows)
    if columns is None:
        return NotExpressible(f"{_reached(layout)} are reached: the layout is not onto")
    return LinearLayout(layout.output_bits, layout.input_bits, columns)


def left_inverse(layout: LinearLayout) -> LinearLayout | NotExpressible:
    """An L with L(layout(x)) = x, where the layout is one to one."""
    kernel = bit_matrix.kernel(layout.columns)
    if kernel:
        return NotExpressible(
            f"{_place(layout, kernel[0])} and the origin have one image: the layout is not one to one"
        )
    return pseudo_inverse(layout)


def pseudo_inverse(layout: LinearLayout) -> LinearLayout:
    """A P with layout(P(layout(x))) = layout(x) for every x: the right, left or two-sided inverse where there is one.
    Outputs that complete the image to a basis, the lowest first, go to 0."""
    rows = sum([bits for _, bits in layout.output_bits])
    return LinearLayout(layout.output_bits, layout.input_bits, bit_matrix.pseudo_inverse(layout.columns, rows))


def invert_and_compose(source: LinearLayout, target: LinearLayout) -> LinearLayout | NotExpressible:
    """An X, from inputs of source to inputs of target, with target(X(x)) = source(x): where target holds what source
    does. Both have the same outputs by name, in any order and size.

    Where target repeats elements, X takes the place with 0 in each repeating bit, except that an input named alike and
    of one size in both, whose bits have one image in both, stays as it is: no element leaves its place without need.
    """
    wanted = _realigned(source, target.output_bits)
    if isinstance(wanted, NotExpressible):
        return wanted
    kept = _kept(source, wanted, target)
    solvable, asked = list(target.columns), list(wanted)
    for own, theirs, bits in kept:
        solvable[theirs : theirs + bits] = asked[own : own + bits] = [0] * bits
    solution = bit_matrix.solve_all(solvable, asked)
    if solution is None and kept:
        kept = ()
        solution = bit_matrix.solve_all(target.columns, wanted)
    if solution is None:
        lost = next(each for each, column in enumerate(wanted) if bit_matrix.solve(target.columns, column) is None)
        return NotExpressible(f"no place of the target holds what the source has at {_place(source, 1 << lost)}")
    columns = list(solution)
    for own, theirs, bits in kept:
        columns[own : own + bits] = [1 << theirs + bit for bit in range(bits)]
    return LinearLayout(source.input_bits, target.input_bits, tuple(columns))


def repeats(layout: LinearLayout) -> dict[str, int]:
    """By input, a mask of the bits that change no output given the other bits' images: the free columns. Zero: none."""
    free = dict.fromkeys([name for name, _ in layout.input_bits], 0)
    marks = {each.bit_length() - 1 for each in bit_matrix.kernel(layout.columns)}
    for at, (name, bit) in enumerate(by_bit(layout.input_bits)):
        if at in marks:
            free[name] |= 1 << bit
    return free


def _realigned(layout: LinearLayout, outputs: Names) -> bit_matrix.Columns | NotExpressible:
    """The columns with outputs packed as in `outputs`. Raises TilewrightError where the names are others."""
    if layout.output_bits == outputs:
        return layout.columns
    own = dict(layout.output_bits)
    same_names(own, [name for name, _ in outputs], "outputs")
    starts, shifts = starts_of(layout.output_bits), starts_of(outputs)
    columns: list[int] = []
    for column in layout.columns:
        packed = 0
        for name, bits in outputs:
            value = column >> starts[name] & (1 << own[name]) - 1
            if value >> bits:
                return NotExpressible(f"the source reaches {name} = {value}, and the target has {1 << bits} places")
            packed |= value << shifts[name]
        columns.append(packed)
    return tuple(columns)


def _kept(source: LinearLayout, wanted: Sequence[int], target: LinearLayout) -> tuple[tuple[int, int, int], ...]:
    """Inputs of one name and size with one image in both: first bit in the source and in the target, and bits."""
    places: dict[str, tuple[int, int]] = {}
    at = 0
    for name, bits in target.input_bits:
        places[name] = (at, bits)
        at += bits
    found: list[tuple[int, int, int]] = []
    at = 0
    for name, bits in source.input_bits:
        first, theirs = places.get(name, (0, 0))
        if bits and theirs == bits and tuple(wanted[at : at + bits]) == target.columns[first : first + bits]:
            found.append((at, first, bits))
        at += bits
    return tuple(found)


def _why_no_inverse(layout: LinearLayout) -> str:
    kernel = bit_matrix.kernel(layout.columns)
    if kernel:
        return f"{_place(layout, kernel[0])} and the origin have one image: the layout is not one to one"
    return f"{_reached(layout)} are reached: the layout is not onto"


def _reached(layout: LinearLayout) -> str:
    return f"{1 << bit_matrix.rank(layout.columns)} of {layout.cosize} outputs"


def _place(layout: LinearLayout, packed: int) -> str:
    values = zip(layout.input_bits, unpack(packed, layout.input_bits), strict=True)
    return ", ".join(f"{name} = {value}" for (name, _), value in values if value) or "the origin"
