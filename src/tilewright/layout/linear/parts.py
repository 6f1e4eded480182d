"""How are linear layouts put together, taken apart and renamed: products, quotients, parts, other orders of indices?

Theory: the product is the direct sum of the matrices, its inputs and outputs joined name by name; left division undoes
it. Flattening, splitting and transposing rename bits: they move columns, or rows, and change none.

Not handled: as `layout.linear.maps`. Checked by tests/layout/linear/test_maps.py, and against Triton's by
bench/peers_linear.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout, Names, by_bit, pack, same_names, starts_of, unpack

_NAMES_KEPT = 1 << 10
"""Products of layouts with the same names and bits of each put their columns at the same places."""


def product(first: LinearLayout, second: LinearLayout) -> LinearLayout:
    """The direct sum: both side by side. Of an input or output that both name, `first` has the lower bits. Names
    come in an order that keeps that of both where one does, else in that of first with the others behind."""
    names = (first.input_bits, first.output_bits, second.input_bits, second.output_bits)
    inputs, outputs, low, high, order = _side_by_side(*names)
    columns = [*_moved(first.columns, low), *_moved(second.columns, high)]
    return LinearLayout(inputs, outputs, tuple([columns[at] for at in order]))


def divide_left(layout: LinearLayout, divisor: LinearLayout) -> LinearLayout | NotExpressible:
    """The Q with product(divisor, Q) = layout, all names of layout kept (of size 1 where the divisor has all bits)."""
    misfit = _misfit(layout, divisor)
    if misfit:
        return NotExpressible(misfit)
    taken_in, taken_out = dict(divisor.input_bits), dict(divisor.output_bits)
    starts = starts_of(layout.output_bits)
    rest_bits = tuple((name, bits - taken_out.get(name, 0)) for name, bits in layout.output_bits)
    low = sum([((1 << taken_out.get(name, 0)) - 1) << starts[name] for name, _ in layout.output_bits])
    expected = _bases(divisor, dict.fromkeys(taken_out, 0), layout.output_bits, low=True)
    columns: list[int] = []
    for (name, bit), column in zip(by_bit(layout.input_bits), layout.columns, strict=True):
        if bit < taken_in.get(name, 0):
            if column != expected[name][bit]:
                return NotExpressible(f"the layout and the divisor differ at {name} = {1 << bit}")
        elif column & low:
            return NotExpressible(f"{name} = {1 << bit} moves output bits that the divisor has for itself")
        else:
            shifted = [
                value >> taken_out.get(output, 0)
                for value, (output, _) in zip(unpack(column, layout.output_bits), layout.output_bits, strict=True)
            ]
            columns.append(pack(shifted, rest_bits))
    inputs = tuple((name, bits - taken_in.get(name, 0)) for name, bits in layout.input_bits)
    return LinearLayout(inputs, rest_bits, tuple(columns))


def divide_right(layout: LinearLayout, divisor: LinearLayout) -> LinearLayout | NotExpressible:
    """The Q with product(Q, divisor) = layout, all names of layout kept: the divisor has the high bits."""
    misfit = _misfit(layout, divisor)
    if misfit:
        return NotExpressible(misfit)
    taken_in, taken_out = dict(divisor.input_bits), dict(divisor.output_bits)
    own_inputs = dict(layout.input_bits)
    rest_bits = tuple((name, bits - taken_out.get(name, 0)) for name, bits in layout.output_bits)
    expected = _bases(divisor, dict(rest_bits), layout.output_bits, low=False)
    columns: list[int] = []
    for (name, bit), column in zip(by_bit(layout.input_bits), layout.columns, strict=True):
        rest = own_inputs[name] - taken_in.get(name, 0)
        if bit >= rest:
            if column != expected[name][bit - rest]:
                return NotExpressible(f"the layout and the divisor differ at {name} = {1 << bit}")
            continue
        values = unpack(column, layout.output_bits)
        if any(value >> bits for value, (_, bits) in zip(values, rest_bits, strict=True)):
            return NotExpressible(f"{name} = {1 << bit} moves output bits that the divisor has for itself")
        columns.append(pack(values, rest_bits))
    inputs = tuple((name, bits - taken_in.get(name, 0)) for name, bits in layout.input_bits)
    return LinearLayout(inputs, rest_bits, tuple(columns))


def sublayout(layout: LinearLayout, inputs: Iterable[str], outputs: Iterable[str]) -> LinearLayout:
    """The part with only some inputs (others 0) and some outputs, in the layout's order. Raises TilewrightError."""
    some_in, some_out = set(inputs), set(outputs)
    _known(layout.input_bits, some_in, "input")
    _known(layout.output_bits, some_out, "output")
    kept = tuple(each for each in layout.output_bits if each[0] in some_out)
    columns = [
        pack([v for v, (name, _) in zip(unpack(column, layout.output_bits), layout.output_bits, strict=True)
               if name in some_out], kept)
        for (name, _), column in zip(by_bit(layout.input_bits), layout.columns, strict=True)
        if name in some_in
    ]  # fmt: skip
    return LinearLayout(tuple(each for each in layout.input_bits if each[0] in some_in), kept, tuple(columns))


def flatten_inputs(layout: LinearLayout, name: str) -> LinearLayout:
    """All inputs as one, the first in the lowest bits."""
    return LinearLayout(((name, len(layout.columns)),), layout.output_bits, layout.columns)


def flatten_outputs(layout: LinearLayout, name: str) -> LinearLayout:
    """All outputs as one, the first in the lowest bits."""
    bits = sum([each for _, each in layout.output_bits])
    return LinearLayout(layout.input_bits, ((name, bits),), layout.columns)


def split_inputs(layout: LinearLayout, bits: Names) -> LinearLayout:
    """The same bits under other input names, as `flatten_inputs` and its inverse do. Raises TilewrightError."""
    return LinearLayout(bits, layout.output_bits, layout.columns)


def split_outputs(layout: LinearLayout, bits: Names) -> LinearLayout:
    """The same bits under other output names. Raises TilewrightError where their number is another."""
    if sum([each for _, each in bits]) != sum([each for _, each in layout.output_bits]):
        raise TilewrightError(f"linear layout: outputs {layout.output_sizes} do not split into {dict(bits)} bits")
    return LinearLayout(layout.input_bits, bits, layout.columns)


def transpose_inputs(layout: LinearLayout, order: Sequence[str]) -> LinearLayout:
    """The inputs in another order. Raises TilewrightError where the names are not the layout's."""
    own = dict(layout.input_bits)
    same_names(own, order, "inputs")
    starts = starts_of(layout.input_bits)
    columns = [column for name in order for column in layout.columns[starts[name] : starts[name] + own[name]]]
    return LinearLayout(tuple((name, own[name]) for name in order), layout.output_bits, tuple(columns))


def transpose_outputs(layout: LinearLayout, order: Sequence[str]) -> LinearLayout:
    """The outputs in another order. Raises TilewrightError where the names are not the layout's."""
    own = dict(layout.output_bits)
    same_names(own, order, "outputs")
    bits = tuple((name, own[name]) for name in order)
    place = {name: at for at, (name, _) in enumerate(layout.output_bits)}
    columns: list[int] = []
    for column in layout.columns:
        values = unpack(column, layout.output_bits)
        columns.append(pack([values[place[name]] for name in order], bits))
    return LinearLayout(layout.input_bits, bits, tuple(columns))


def rename(layout: LinearLayout, names: Mapping[str, str]) -> LinearLayout:
    """Inputs and outputs under other names, those not given as they are."""
    return LinearLayout(
        tuple((names.get(name, name), bits) for name, bits in layout.input_bits),
        tuple((names.get(name, name), bits) for name, bits in layout.output_bits),
        layout.columns,
    )


def _misfit(layout: LinearLayout, divisor: LinearLayout) -> str:
    """Why the divisor has bits that the layout lacks, or nothing."""
    for has, takes, what in (
        (dict(layout.input_bits), divisor.input_bits, "input"),
        (dict(layout.output_bits), divisor.output_bits, "output"),
    ):
        for name, bits in takes:
            if bits > has.get(name, -1):
                return f"the divisor's {what} {name!r} is larger than the layout's"
    return ""


def _bases(layout: LinearLayout, shifts: Mapping[str, int], outputs: Names, *, low: bool) -> dict[str, list[int]]:
    """The columns by input, repacked for `outputs`; not low: each output moved up by its shift."""
    starts = starts_of(outputs)
    own = starts_of(layout.output_bits)
    moves = [
        (own[name], (1 << bits) - 1, starts[name] + (0 if low else shifts[name])) for name, bits in layout.output_bits
    ]
    found: dict[str, list[int]] = {}
    at = 0
    for name, bits in layout.input_bits:
        found[name] = [
            sum([(column >> start & mask) << to for start, mask, to in moves])
            for column in layout.columns[at : at + bits]
        ]
        at += bits
    return found


_Moves = tuple[tuple[int, int], ...]
"""A mask of bits where they arrive, and by how many places they have gone up."""


@lru_cache(maxsize=_NAMES_KEPT)
def _side_by_side(
    first_inputs: Names, first_outputs: Names, second_inputs: Names, second_outputs: Names
) -> tuple[Names, Names, _Moves, _Moves, tuple[int, ...]]:
    """Of a product: its inputs and outputs, where either's columns have their bits then, and the columns' order."""
    inputs, outputs = _joined(first_inputs, second_inputs), _joined(first_outputs, second_outputs)
    starts, below = starts_of(outputs), dict(first_outputs)
    low = _moves(first_outputs, starts)
    high = _moves(second_outputs, {name: start + below.get(name, 0) for name, start in starts.items()})
    own, more = dict(first_inputs), dict(second_inputs)
    first_at, second_at = starts_of(first_inputs), starts_of(second_inputs)
    count = sum([bits for _, bits in first_inputs])
    order: list[int] = []
    for name, _ in inputs:
        order += range(first_at.get(name, 0), first_at.get(name, 0) + own.get(name, 0))
        order += range(count + second_at.get(name, 0), count + second_at.get(name, 0) + more.get(name, 0))
    return inputs, outputs, low, high, tuple(order)


def _moves(outputs: Names, starts: Mapping[str, int]) -> _Moves:
    """Those that go equally far go together."""
    found: dict[int, int] = {}
    at = 0
    for name, bits in outputs:
        if bits:
            distance = starts[name] - at
            found[distance] = found.get(distance, 0) | (1 << bits) - 1 << starts[name]
        at += bits
    return tuple([(mask, distance) for distance, mask in found.items()])


def _moved(columns: tuple[int, ...], moves: _Moves) -> tuple[int, ...]:
    if len(moves) <= 1:
        distance = moves[0][1] if moves else 0
        return tuple([column << distance for column in columns]) if distance else columns
    (mask, distance), (other, further), *more = moves
    if any(up < 0 for _, up in moves):
        # Up first by as much as any goes down, so that every one goes up from there.
        down = max([-up for _, up in moves])
        shifts = [(each, up + down) for each, up in moves]
        return tuple([sum([column << up >> down & each for each, up in shifts]) for column in columns])
    if not more:
        return tuple([column << distance & mask | column << further & other for column in columns])
    return tuple([sum([column << up & each for each, up in moves]) for column in columns])


def _joined(first: Names, second: Names) -> Names:
    """The names of both with their bits together, in an order that keeps both orders where one does."""
    own, more = dict(first), dict(second)
    waiting = list(more)
    order: list[str] = []
    for name in own:
        if name in waiting:
            place = waiting.index(name)
            order += [each for each in waiting[:place] if each not in own]
            waiting = [*(each for each in waiting[:place] if each in own), *waiting[place + 1 :]]
        order.append(name)
    order += [each for each in waiting if each not in own]
    return tuple([(name, own.get(name, 0) + more.get(name, 0)) for name in order])


def _known(names: Names, some: set[str], what: str) -> None:
    missing = some - {name for name, _ in names}
    if missing:
        raise TilewrightError(f"linear layout: no {what} {sorted(missing)}; there are {[name for name, _ in names]}")
