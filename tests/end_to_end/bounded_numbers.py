"""A tile program's meaning in NumPy, each number with a bound of the error that its kernel may make.

The text of a program runs with `Run.namespace()` in the place of `tilewright`: tiles are arrays over named axes, in
float64. Nothing here is the compiler's, so its front end is held to these numbers too. A bound follows the operations:
float32's rounding, a function's documented error, a product's operand that is rounded to the other's element, a sum in
any order. What may round either way, or turn a condition, widens it; a number that may overflow is left open (its bound
is infinite: it may be anything, no number included), and so is what is made of it. So one element that is wrong shows,
where a norm of all of them would hide it.

Not handled: extents of more than some hundred along each axis of a product (all its terms are made).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewright.base.element import Element
from tilewright.frontends.tile.reference import DTYPES

Array = Any

_UNIT = 2.0**-23
"""Twice float32's rounding, so that a few steps more than the text has are covered."""
_TINY = 2.0**-125
"""What is smaller may be 0."""
_LARGEST = float(np.finfo(np.float32).max)
_ROUNDING = {Element.BF16: 2.0**-8, Element.F16: 2.0**-11, Element.F8E4M3: 2.0**-4, Element.F8E5M2: 2.0**-3}
"""The relative roundings of a product's operand, of a factor that is taken out too."""
_LEAST = {Element.BF16: 2.0**-125, Element.F16: 2.0**-24, Element.F8E4M3: 2.0**-9, Element.F8E5M2: 2.0**-16}


@dataclass(frozen=True, slots=True)
class Tile:
    """number and error are over `axes`, whose order means nothing; element: what all numbers are exactly."""

    run: Run
    axes: tuple[str, ...]
    number: Array
    error: Array
    element: Element = Element.F32

    def __add__(self, other: object) -> Tile:
        return _linear(self, self.run.tile(other), np.add)

    __radd__ = __add__

    def __iadd__(self, terms: Tile) -> Tile:
        """What a loop does to an accumulator: add all terms along its axis."""
        for axis in self.run.looped & set(terms.axes):
            terms = self.run.sum(terms, over=Index(self.run, axis))
        return self + terms

    def __sub__(self, other: object) -> Tile:
        return _linear(self, self.run.tile(other), np.subtract)

    def __rsub__(self, other: object) -> Tile:
        return _linear(self.run.tile(other), self, np.subtract)

    def __mul__(self, other: object) -> Tile:
        axes, a, b = _met(self, self.run.tile(other))
        number = a[0] * b[0]
        error = _times(abs(a[0]), b[1]) + _times(abs(b[0]), a[1]) + _times(a[1], b[1])
        # Infinity times what is not 0, and has its sign for certain.
        error = np.where(np.isinf(number) & (abs(a[0]) > a[1]) & (abs(b[0]) > b[1]), 0.0, error)
        return _made(self.run, axes, number, _unless_none(error + _size(number) * _UNIT, a, b))

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Tile:
        return _quotient(self, self.run.tile(other))

    def __rtruediv__(self, other: object) -> Tile:
        return _quotient(self.run.tile(other), self)

    def __neg__(self) -> Tile:
        return Tile(self.run, self.axes, -self.number, self.error)

    def __lt__(self, other: object) -> Tile:
        return _compared(self, self.run.tile(other), np.less)

    def __le__(self, other: object) -> Tile:
        return _compared(self, self.run.tile(other), np.less_equal)

    def __gt__(self, other: object) -> Tile:
        return _compared(self, self.run.tile(other), np.greater)

    def __ge__(self, other: object) -> Tile:
        return _compared(self, self.run.tile(other), np.greater_equal)

    def __and__(self, other: object) -> Tile:
        axes, a, b = _met(self, self.run.tile(other))
        return Tile(self.run, axes, np.minimum(a[0] != 0, b[0] != 0) * 1.0, np.maximum(a[1], b[1]))

    def __or__(self, other: object) -> Tile:
        axes, a, b = _met(self, self.run.tile(other))
        return Tile(self.run, axes, np.maximum(a[0] != 0, b[0] != 0) * 1.0, np.maximum(a[1], b[1]))

    def __invert__(self) -> Tile:
        return Tile(self.run, self.axes, (self.number == 0) * 1.0, self.error)

    def to(self, element: Element) -> Tile:
        if element is Element.F32:
            return self
        with np.errstate(all="ignore"):
            least, most = (rounded(self.number + sign * self.error, element) for sign in (-1, 1))
            middle = rounded(self.number, element)
            error = np.where(self.error > 0, np.maximum(most - middle, middle - least), 0.0)
            error = np.where(np.isinf(self.error), np.inf, error)
        return Tile(self.run, self.axes, middle, np.where(np.isnan(error), np.inf, error), element)

    @property
    def T(self) -> Tile:
        return self


@dataclass(frozen=True, slots=True)
class Index:
    """An axis of the program; a load at it may be displaced by `offset`, or by blocks of `block`."""

    run: Run
    axis: str
    offset: int = 0
    block: int = 0

    @property
    def tile(self) -> Tile:
        size = self.run.extents[self.axis]
        return Tile(self.run, (self.axis,), np.arange(size) + float(self.offset), np.zeros(size))

    @property
    def place(self) -> Array:
        numbers = np.arange(self.run.extents[self.axis])
        return numbers // self.block if self.block else numbers + self.offset

    def __add__(self, other: object) -> Any:
        return Index(self.run, self.axis, self.offset + other) if isinstance(other, int) else self.tile + other

    def __sub__(self, other: object) -> Any:
        return Index(self.run, self.axis, self.offset - other) if isinstance(other, int) else self.tile - other

    def __floordiv__(self, size: int) -> Index:
        return Index(self.run, self.axis, 0, size)

    def __mod__(self, size: int) -> _Rest:
        return _Rest(self.axis, self.tile.number.astype(int) % size)

    def __radd__(self, other: object) -> Any:
        return self + other

    def __rsub__(self, other: object) -> Tile:
        return self.run.tile(other) - self.tile

    def __mul__(self, other: object) -> Tile:
        return self.tile * other

    __rmul__ = __mul__

    def __lt__(self, other: object) -> Tile:
        return self.tile < other

    def __le__(self, other: object) -> Tile:
        return self.tile <= other

    def __gt__(self, other: object) -> Tile:
        return self.tile > other

    def __ge__(self, other: object) -> Tile:
        return self.tile >= other


@dataclass(frozen=True, slots=True)
class _Rest:
    axis: str
    place: Array


class Run:
    """One run of a program's text: extents by axis, arrays by parameter; looped: the axes that no result has; `results`
    is what it stored."""

    def __init__(self, extents: Mapping[str, int], arrays: Mapping[str, Array], looped: set[str]) -> None:
        self.extents = extents
        self.arrays = arrays
        self.looped = looped
        self.limits: list[Tile] = []
        self.results: dict[str, tuple[Array, Array]] = {}

    def tile(self, value: object) -> Tile:
        if isinstance(value, Tile):
            return value
        if isinstance(value, Index):
            return value.tile
        assert isinstance(value, (int, float))
        # A kernel holds a number as float32.
        return Tile(self, (), np.float64(np.float32(value)), np.float64(0.0))

    def namespace(self) -> SimpleNamespace:
        """What stands where a program has `tw`."""
        one = {name: _function(self, name) for name in _FUNCTIONS}
        return SimpleNamespace(
            **one, **{element.name.lower(): element for element in _ROUNDING}, f32=Element.F32, i8=Element.S8,
            i32=Element.S32, kernel=lambda function: function, Tensor=_Named(), axes=self.axes, grid=self.grid,
            loop=lambda axis: [Index(self, axis)], zeros=self.zeros, dot=self.dot, group=lambda *at: at,
            within=self.within, sum=self.sum, mean=self.mean, max=_extreme(np.max), min=_extreme(np.min),
            argmax=_place(np.argmax, 1), argmin=_place(np.argmin, -1), softmax=self.softmax, logsumexp=self.logsumexp,
            where=self.where, maximum=self.maximum, minimum=self.minimum, equal=self.equal,
            clamp=lambda x, least, most: self.minimum(self.maximum(x, least), most),
        )  # fmt: skip

    def axes(self, *names: str) -> Any:
        split = [name for each in names for name in each.split()]
        found = tuple(Index(self, name) for name in split)
        return found if len(found) > 1 else found[0]

    def grid(self, *names: Any) -> Any:
        found: list[Any] = []
        for each in names:
            if isinstance(each, tuple):
                groups, axis, ends = each
                del groups
                numbers = np.searchsorted(ends.array, np.arange(self.extents[axis]), side="right")
                found += [_Rest(axis, numbers), Index(self, axis)]
                self.limits.append(Tile(self, (axis,), (numbers < len(ends.array)) * 1.0, numbers * 0.0))
            else:
                found.append(Index(self, each))
        return tuple(found) if len(found) > 1 else found[0]

    def within(self, axis: str, counts: _Handle) -> str:
        (group,) = counts.axes
        axes, a, b = _met(Index(self, axis).tile, Tile(self, (group,), counts.array * 1.0, counts.array * 0.0))
        self.limits.append(Tile(self, axes, (a[0] < b[0]) * 1.0, 0.0 * (a[0] + b[0])))
        return axis

    def zeros(self, *indices: Index) -> Tile:
        del indices
        return self.tile(0.0)

    def dot(self, left: Tile, right: Tile, *, over: Index | None = None) -> Tile:
        if not over:  # the terms, which a loop may scale and adds up
            return left * right
        axis = over.axis
        sides = [_as_operand(left, right.element), _as_operand(right, left.element)]
        axes = tuple(dict.fromkeys((*left.axes, *right.axes)))
        letters = {each: chr(97 + at) for at, each in enumerate(axes)}
        kept = tuple(each for each in axes if each != axis)
        text = ",".join("".join(letters[each] for each in side.axes) for side in (left, right))
        text += "->" + "".join(letters[each] for each in kept)
        finite = [np.where(np.isfinite(side[0]), side[0], 0.0) for side in sides]
        number = np.einsum(text, *(side[0] for side in sides))
        whole = np.einsum(text, *(abs(each) for each in finite))
        error = (
            np.einsum(text, abs(finite[0]), sides[1][1])
            + np.einsum(text, sides[0][1], abs(finite[1]))
            + np.einsum(text, sides[0][1], sides[1][1])
            + whole * (self.extents[axis] * _UNIT + 2.0**-19)
        )
        error = np.where(whole > _LARGEST, np.inf, error)
        if not all(np.isfinite(side[0]).all() for side in sides):
            # A tile that a mask leaves nothing of is not visited: 0 times infinity may count or not.
            zero = [(abs(side[0]) <= side[1]) * 1.0 for side in sides]  # or rounds to 0
            odd = [(~np.isfinite(side[0])) * 1.0 for side in sides]
            open_ = np.einsum(text, zero[0], odd[1]) + np.einsum(text, odd[0], zero[1])
            error = np.where(open_ > 0, np.inf, error)
        return _made(self, kept, number, error)

    def sum(self, tile: Tile, *, over: Index) -> Tile:
        at = tile.axes.index(over.axis)
        size = self.extents[over.axis]
        spread = _size(tile.number) + tile.error
        error = tile.error.sum(axis=at) + spread.sum(axis=at) * (size * _UNIT / 2 + _UNIT)
        # Which parts are added first decides whether one of them overflows.
        error = np.where(spread.sum(axis=at) > _LARGEST, np.inf, error)
        return _made(self, _without(tile.axes, over.axis), tile.number.sum(axis=at), error)

    def mean(self, tile: Tile, *, over: Index) -> Tile:
        return self.sum(tile, over=over) / float(self.extents[over.axis])

    def softmax(self, tile: Tile, *, over: Index) -> Tile:
        weights, _ = self._weights(tile, over)
        return weights / self.sum(weights, over=over)

    def logsumexp(self, tile: Tile, *, over: Index) -> Tile:
        weights, largest = self._weights(tile, over)
        return largest + _FUNCTIONS_OF["log"](self, self.sum(weights, over=over))

    def _weights(self, tile: Tile, over: Index) -> tuple[Tile, Tile]:
        """exp(x - max): the largest is subtracted alike everywhere, so that its own error is none."""
        at = tile.axes.index(over.axis)
        if not self.extents[over.axis]:
            largest = np.full(tile.number.sum(axis=at).shape, -np.inf)
        else:
            largest = tile.number.max(axis=at)
        peak = Tile(self, _without(tile.axes, over.axis), largest, np.zeros_like(largest))
        axes, a, b = _met(tile, peak)
        # Rounding of x log2(e) counts for the size of x, not of the difference.
        difference = _made(self, axes, a[0] - b[0], a[1] + (_size(a[0]) + _size(b[0])) * _UNIT)
        return _FUNCTIONS_OF["exp"](self, difference), peak

    def where(self, condition: Tile, chosen: object, other: object) -> Tile:
        axes, c, a, b = _met(condition, self.tile(chosen), self.tile(other))
        number = np.where(c[0] != 0, a[0], b[0])
        error = np.where(c[0] != 0, a[1], b[1])
        either = abs(a[0] - b[0]) + a[1] + b[1]
        unsure = np.where(np.isnan(either), np.inf, either)
        same = (a[0] == b[0]) & (a[1] == 0) & (b[1] == 0)
        return Tile(self, axes, number, np.where((c[1] > 0) & ~same, unsure, error))

    def maximum(self, left: object, right: object) -> Tile:
        axes, a, b = _met(self.tile(left), self.tile(right))
        return Tile(self, axes, np.maximum(a[0], b[0]), np.maximum(a[1], b[1]))

    def minimum(self, left: object, right: object) -> Tile:
        axes, a, b = _met(self.tile(left), self.tile(right))
        return Tile(self, axes, np.minimum(a[0], b[0]), np.maximum(a[1], b[1]))

    def equal(self, left: object, right: object) -> Tile:
        return _compared(self.tile(left), self.tile(right), np.equal)


class _Named:
    def __getitem__(self, axes: object) -> object:
        return axes


@dataclass(frozen=True, slots=True)
class _Handle:
    run: Run
    name: str
    axes: tuple[str, ...]
    element: Element

    @property
    def array(self) -> Array:
        return self.run.arrays[self.name]

    def __getitem__(self, indices: Any) -> Tile:
        places = indices if isinstance(indices, tuple) else (indices,)
        parts: list[tuple[tuple[str, ...], Array]] = []
        for each in places:
            if isinstance(each, Tile):
                parts.append((each.axes, each.number.astype(np.int64)))
            else:
                parts.append(((each.axis,), each.place))
        axes = tuple(dict.fromkeys(axis for named, _ in parts for axis in named))
        spread = [_spread(place, named, axes) for named, place in parts]
        array = self.array.astype(np.float64)
        whole = np.broadcast_shapes(*(each.shape for each in spread))
        inside = np.ones(whole, bool)
        for place, size in zip(spread, array.shape, strict=True):
            inside &= (place >= 0) & (place < size)
        clipped = tuple(
            np.clip(np.broadcast_to(place, whole), 0, max(size - 1, 0))
            for place, size in zip(spread, array.shape, strict=True)
        )
        number = np.where(inside, array[clipped], 0.0) if array.size else np.zeros(whole)
        return Tile(
            self.run, axes, number, np.zeros(whole), Element.F32 if self.element is Element.S32 else self.element
        )

    def __setitem__(self, indices: Any, value: object) -> None:
        named = tuple(each.axis for each in (indices if isinstance(indices, tuple) else (indices,)))
        tile = self.run.tile(value)
        shape = tuple(self.run.extents[axis] for axis in named)
        number, error = (np.broadcast_to(_spread(each, tile.axes, named), shape) for each in (tile.number, tile.error))
        for limit in self.run.limits:
            if set(limit.axes) <= set(named):
                kept = np.broadcast_to(_spread(limit.number, limit.axes, named), shape) != 0
                number, error = np.where(kept, number, 0.0), np.where(kept, error, 0.0)
        self.run.results[self.name] = (number, error)


def _without(axes: Sequence[str], axis: str) -> tuple[str, ...]:
    return tuple(each for each in axes if each != axis)


def _spread(array: Array, named: Sequence[str], axes: Sequence[str]) -> Array:
    """`array` over `named` as one that broadcasts over `axes`."""
    order = [axis for axis in axes if axis in named]
    moved = np.transpose(array, [list(named).index(axis) for axis in order]) if order else np.asarray(array)
    shape = iter(moved.shape)
    return moved.reshape([next(shape) if axis in named else 1 for axis in axes])


def _met(*tiles: Tile) -> tuple[Any, ...]:
    axes = tuple(dict.fromkeys(axis for tile in tiles for axis in tile.axes))
    pairs = [tuple(_spread(each, tile.axes, axes) for each in (tile.number, tile.error)) for tile in tiles]
    whole = np.broadcast_shapes(*(each[0].shape for each in pairs))
    return axes, *(tuple(np.broadcast_to(part, whole) for part in each) for each in pairs)


def _size(number: Array) -> Array:
    """What rounding is relative to: infinities are exact."""
    return np.where(np.isfinite(number), abs(number), 0.0)


def _times(size: Array, error: Array) -> Array:
    """A size times an error: none where there is no error, open where the error is."""
    return np.where(error == 0, 0.0, np.where(np.isinf(error), np.inf, size * error))


def _unless_none(error: Array, *operands: tuple[Array, Array]) -> Array:
    """No error where an operand is certainly no number, whatever the others are."""
    none = [np.isnan(number) & (bound == 0) for number, bound in operands]
    return np.where(np.any(none, axis=0), 0.0, error)


def _made(run: Run, axes: tuple[str, ...], number: Array, error: Array, floor: float = 2.0**-148) -> Tile:
    """A result of float32: past its range it is infinite, and near its ends left open."""
    error = np.where(np.isnan(error), np.inf, error)
    error = np.where(np.isfinite(number), error + floor * (error > 0), np.where(np.isinf(error), np.inf, 0.0))
    finite = np.isfinite(number)
    error = np.where(finite & (abs(number) + error > _LARGEST), np.inf, error)
    return Tile(run, axes, np.where(finite & (abs(number) > _LARGEST), np.sign(number) * np.inf, number), error)


def _linear(left: Tile, right: Tile, function: Callable[[Array, Array], Array]) -> Tile:
    axes, a, b = _met(left, right)
    number = function(a[0], b[0])
    # A sum in float32 of two such may be exact, as of whole numbers it is: then no rounding is counted.
    with np.errstate(all="ignore"):
        exact = number.astype(np.float32).astype(np.float64) == number
    rounding = np.where(exact & (a[1] + b[1] == 0), 0.0, _size(number) * _UNIT)
    return _made(left.run, axes, number, _unless_none(a[1] + b[1] + rounding, a, b))


def _quotient(left: Tile, right: Tile) -> Tile:
    axes, a, b = _met(left, right)
    number = a[0] / b[0]
    room = abs(b[0]) - b[1]
    error = np.where(b[1] == 0, a[1] / abs(b[0]), np.where(room > 0, (a[1] + _times(abs(number), b[1])) / room, np.inf))
    certain = (a[1] == 0) & ((b[1] == 0) | np.isinf(a[0]) & (room > 0))
    error = np.where(certain, 0.0, error)
    return _made(left.run, axes, number, _unless_none(error + 2 * _size(number) * _UNIT, a, b), 2.0**-140)


def _compared(left: Tile, right: Tile, function: Callable[[Array, Array], Array]) -> Tile:
    axes, a, b = _met(left, right)
    unsure = (a[1] + b[1] > 0) & ~(abs(a[0] - b[0]) > a[1] + b[1])
    return Tile(left.run, axes, function(a[0], b[0]) * 1.0, unsure * 1.0)


def _extreme(function: Callable[..., Array]) -> Callable[..., Tile]:
    def fold(tile: Tile, *, over: Index) -> Tile:
        at = tile.axes.index(over.axis)
        kept = _without(tile.axes, over.axis)
        if not tile.run.extents[over.axis]:
            none = np.full(tile.number.sum(axis=at).shape, -np.inf if function is np.max else np.inf)
            return Tile(tile.run, kept, none, np.zeros_like(none))
        return Tile(tile.run, kept, function(tile.number, axis=at), tile.error.max(axis=at))

    return fold


def _place(function: Callable[..., Array], sign: int) -> Callable[..., Tile]:
    def fold(tile: Tile, *, over: Index) -> Tile:
        at = tile.axes.index(over.axis)
        found = function(tile.number, axis=at)
        best = np.take_along_axis(tile.number, np.expand_dims(found, at), at)
        error = np.take_along_axis(tile.error, np.expand_dims(found, at), at)
        near = sign * (best - tile.number) <= tile.error + error
        unsure = (near & (tile.error + error > 0)).sum(axis=at) > 1
        unsure |= np.isinf(tile.error).any(axis=at)
        return Tile(tile.run, _without(tile.axes, over.axis), found * 1.0, np.where(unsure, np.inf, 0.0))

    return fold


def _as_operand(tile: Tile, other: Element) -> tuple[Array, Array]:
    """Numbers and errors of a product's operand: float32 is rounded to the other's element."""
    if tile.element is not Element.F32 or other not in _ROUNDING:
        return tile.number, tile.error
    finite = _size(tile.number)
    error = tile.error + (finite + tile.error) * _ROUNDING[other] + _LEAST[other] * (tile.number != 0)
    error = np.where(finite > np.finfo(DTYPES[other]).max if other is Element.F16 else False, np.inf, error)
    return tile.number, np.where(np.isfinite(tile.number), error, tile.error)


def _monotone(function: Callable[[Array], Array], relative: float, least: float = 0.0) -> Callable[[Run, Tile], Tile]:
    def apply(run: Run, tile: Tile) -> Tile:
        number = function(tile.number)
        ends = [function(tile.number + sign * tile.error) for sign in (-1, 1)]
        away = np.maximum(abs(ends[0] - number), abs(ends[1] - number))
        error = np.where(tile.error > 0, np.where(np.isnan(away) | np.isinf(tile.error), np.inf, away), 0.0)
        return _made(run, tile.axes, number, error + _size(number) * relative + least * np.isfinite(number))

    return apply


def _steep(
    function: Callable[[Array], Array], slope: float, relative: float, least: float = _TINY
) -> Callable[[Run, Tile], Tile]:
    def apply(run: Run, tile: Tile) -> Tile:
        number = function(tile.number)
        rounding = _size(number) * relative + least * np.isfinite(number)
        return _made(run, tile.axes, number, _times(slope, tile.error) + rounding)

    return apply


def _exp(run: Run, tile: Tile) -> Tile:
    number = np.exp(tile.number)
    relative = np.expm1(tile.error + _size(tile.number) * _UNIT) + 2.0**-21
    # Of what vanishes in float64, the upper end alone says how large it may be.
    error = np.where(number == 0, np.exp(tile.number + tile.error), _times(_size(number), relative))
    error = np.where(np.isinf(number) & np.isfinite(tile.number) | np.isinf(tile.error), np.inf, error)
    return _made(run, tile.axes, number, error + _TINY * np.isfinite(tile.number))


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


_FUNCTIONS_OF: dict[str, Callable[[Run, Tile], Tile]] = {
    "exp": _exp,
    "log": _monotone(np.log, 2.0**-20, 2.0**-23),
    "tanh": _monotone(np.tanh, 2.0**-19),
    "sigmoid": _monotone(_sigmoid, 2.0**-19, _TINY),
    "sqrt": _monotone(np.sqrt, _UNIT),
    "rsqrt": _monotone(lambda x: 1 / np.sqrt(x), 2.0**-21),
    "relu": _monotone(lambda x: np.where(np.isnan(x), x, np.maximum(x, 0.0)), 0.0),
    "round": _monotone(np.rint, 0.0),
    "abs": _steep(abs, 1.0, 0.0, 0.0),
    "silu": _steep(lambda x: np.where(x == -np.inf, np.nan, x * _sigmoid(x)), 1.2, 2.0**-19),
    "gelu": _steep(lambda x: np.where(x == -np.inf, np.nan, _gelu(x)), 1.2, 2.0**-14),
}
_FUNCTIONS = tuple(_FUNCTIONS_OF)


def _function(run: Run, name: str) -> Callable[[object], Tile]:
    return lambda value: _FUNCTIONS_OF[name](run, run.tile(value))


def rounded(number: Array, element: Element) -> Array:
    """Numbers in an element, as a store rounds them."""
    with np.errstate(all="ignore"):
        if element is Element.S8:
            return np.clip(np.rint(np.where(np.isnan(number), 0.0, number)), -128, 127)
        if element is Element.S32:
            return number
        if element in (Element.F8E4M3, Element.F8E5M2):
            most = 448.0 if element is Element.F8E4M3 else 57344.0
            kept = np.isinf(number) & (element is Element.F8E5M2)
            number = np.where(kept, number, np.clip(number, -most, most))
        return np.asarray(number, np.float64).astype(np.float32).astype(DTYPES[element]).astype(np.float64)


def wrong_places(result: Array, number: Array, error: Array, element: Element) -> Array:
    """Where a result is not within its bound, rounded to its element."""
    found = result.astype(np.float64)
    with np.errstate(all="ignore"):
        least, most = (rounded(number + sign * error, element) for sign in (-1, 1))
        if element is Element.F16:
            # A halfway case of float64 is rounded twice.
            apart = [np.where(np.isfinite(end), abs(end) * 2.0**-11, 0.0) for end in (least, most)]
            least, most = least - apart[0], most + apart[1]
        within = (found >= least) & (found <= most)
    odd = rounded(number, element)
    same = np.isnan(odd) & np.isnan(found)
    return ~(within | same | np.isinf(error))


def run_program(
    text: str,
    name: str,
    parameters: Iterable[tuple[str, tuple[str, ...], Element]],
    extents: Mapping[str, int],
    arrays: Mapping[str, Array],
) -> dict[str, tuple[Array, Array]]:
    """The stored numbers and their bounds, by parameter, of the program `name` in a module's text."""
    listed = list(parameters)
    stored = {axis for each, axes, _ in listed if each not in arrays for axis in axes}
    run = Run(extents, arrays, set(extents) - stored)
    scope: dict[str, Any] = {"tw": run.namespace()}
    exec(compile(text.replace("import tilewright as tw", ""), "<drawn>", "exec"), scope)
    handles = [_Handle(run, each, axes, element) for each, axes, element in listed]
    with np.errstate(all="ignore"):
        scope[name](*handles)
    return run.results


def drawn_numbers(random: np.random.Generator, shape: Sequence[int], element: Element, *, odd: bool) -> Array:
    """Inputs: normal numbers; `odd`: and some that are no number, infinite, -0, huge or tiny."""
    array = random.standard_normal(shape)
    if element is Element.S8:
        array = random.integers(-128, 128, shape).astype(np.float64)
    elif odd:
        listed = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e30, 6e4, 1e-40, 1e-30, -3e-6]
        places = random.random(shape) < 0.02
        array = np.where(places, random.choice(listed, shape), array)
    with np.errstate(all="ignore"):
        return array.astype(DTYPES[element]) if element is not Element.S32 else array.astype(np.int32)
