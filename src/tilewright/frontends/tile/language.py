"""What a kernel author may write: grid, loop, zeros, dot, elementwise functions, and operators on tiles.

Theory: a kernel is traced. Its body runs once in plain Python on handles (`handles`), and every operation on a
handle tells the tracer of the moment, which builds IR. Loop bodies run once too: `for k in tw.loop("K")` yields one
index that stands for them all. So Python `if` and `for` on numbers happen while tracing, and tiles have no truth value.

Rules of the language (each is checked, with an error at the author's line):
- `i, j, k = tw.axes("M N K")` once; the program names its axes and says what is computed over them: no loops.
- `i, j = tw.grid("M", "N")` instead, once; the program computes one tile over these axes, and loops over others.
- `i + 1` displaces a load by one element; elements outside a tensor read as zero.
- `tw.group` and `tw.within` in a grid cut an axis into groups by a tensor of integers; tiles straddle no two groups.
- `k // 128` is the index of blocks of an axis, along `K/128`; such tiles scale products and broadcast along K.
- a tensor of integers that is loaded, and `k % 128`, may stand where a load has an index: `x[rows[i], j]`.
- `acc = tw.zeros(i, j)` before a loop, `acc += tw.dot(x, y)` inside it, read `acc` after it. Nothing else leaves one.
- `tw.dot(x, y, over=k)` is a value, of tiles over any axes, as reductions are.
- `tw.sum(x, over=j)`, and `max`, `min`, `mean`, `logsumexp`, `softmax`, fold all of an axis of the grid; the result is
  a tile without it (but for `softmax`), and may be stored without it. How the axis is walked is the compiler's affair.
  `tw.argmax` and `tw.argmin` say where along it an element stands: integers, for a tensor of integers or as numbers.
- comparisons give tiles of 1 and 0, for `tw.where`; an index in one, or in arithmetic, is its elements' numbers. So is
  a tensor of integers that is loaded.
- arithmetic is float32 whatever the tensors hold; `.to(tw.bf16)` rounds; a store rounds to the tensor's element.
- tiles broadcast by axis name: a tile over ("N",) meets one over ("M", "N") along N.

This module imports no xDSL: `trace` implements `Tracer`. Checked by tests/frontends/test_tile_language.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import overload

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.size import Range
from tilewright.frontends.tile.handles import (
    Accumulator,
    Expression,
    Groups,
    Index,
    Product,
    Tensor,
    TensorHandle,
    Tile,
    Tracer,
    Within,
)
from tilewright.frontends.tile.kernel import Kernel, kernel
from tilewright.ir.function import Function

__all__ = [
    "Accumulator",
    "Groups",
    "Index",
    "Kernel",
    "Product",
    "Tensor",
    "Tile",
    "Within",
    "abs",
    "argmax",
    "argmin",
    "axes",
    "bf16",
    "clamp",
    "dot",
    "dynamic",
    "equal",
    "exp",
    "f4e2m1x2",
    "f8e4m3",
    "f8e5m2",
    "f16",
    "f32",
    "gelu",
    "grid",
    "group",
    "i8",
    "i32",
    "kernel",
    "log",
    "logsumexp",
    "loop",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "silu",
    "softmax",
    "sqrt",
    "sum",
    "tanh",
    "ue4m3",
    "ue8m0",
    "where",
    "within",
    "zeros",
]

bf16 = Element.BF16
f16 = Element.F16
f32 = Element.F32
i8 = Element.S8
i32 = Element.S32
f8e4m3 = Element.F8E4M3
f8e5m2 = Element.F8E5M2
ue8m0 = Element.UE8M0
ue4m3 = Element.UE4M3
f4e2m1x2 = Element.F4E2M1X2


def dynamic(lo: int, hi: int, *, multiple_of: int = 1) -> Range:
    """An extent that only a launch knows, in place of a number: `tw.compile(kernel, M=tw.dynamic(1, 8192), ...)`.

    One compiled kernel, and one proof, then serve every extent of the range; others are refused at the call.

    Args:
        lo: The smallest extent; 0 if a call may have nothing to do.
        hi: The largest extent, for which tiles are chosen.
        multiple_of: What every extent is a multiple of, `lo` and `hi` too.

    Raises:
        TilewrightError: No extents are in this range, or its ends are none of them.
    """
    return Range(lo, hi, multiple_of)


active_tracer: ContextVar[Tracer | None] = ContextVar("active_tracer", default=None)
"""The tracer of the kernel being traced in this context, if any."""


def _tracer(what: str) -> Tracer:
    tracer = active_tracer.get()
    if tracer is None:
        raise TilewrightError(f"{what} is used outside a kernel", remedy="use it in a function under @tw.kernel")
    return tracer


def group(groups: str, axis: str, ends: TensorHandle) -> Groups:
    """For `tw.grid`: `axis` cut into consecutive groups.

    Group g ends before element `ends[g]` and starts where the one before ends. A tile lies in one group. Elements at
    the last end and beyond are in none.

    Args:
        groups: The axis that numbers the groups.
        axis: The axis that is cut.
        ends: A tensor of i32 over the axis `groups`, not decreasing, from 0 to the extent of `axis`.
    """
    return Groups(groups, axis, ends)


def within(axis: str, counts: TensorHandle) -> Within:
    """For `tw.grid`: of group g, only elements 0 to `counts[g]` - 1 of `axis` are computed and stored.

    Args:
        axis: The axis of the elements.
        counts: A tensor of i32 over another axis of the grid, from 0 to the extent of `axis`.
    """
    return Within(axis, counts)


@overload
def grid(axis: str, /) -> Index: ...
@overload
def grid(groups: Groups, /) -> tuple[Index, Index]: ...
@overload
def grid(first: str, second: str | Within, /) -> tuple[Index, Index]: ...
@overload
def grid(groups: Groups, axis: str, /) -> tuple[Index, Index, Index]: ...
@overload
def grid(axis: str, groups: Groups, /) -> tuple[Index, Index, Index]: ...
@overload
def grid(first: str, second: str | Within, third: str | Within, /) -> tuple[Index, Index, Index]: ...
@overload
def grid(
    first: str | Groups, second: str | Groups | Within, third: str | Groups | Within, /, *more: str | Groups | Within
) -> tuple[Index, ...]: ...
def grid(*axes: str | Groups | Within) -> Index | tuple[Index, ...]:
    """The indices of this program's tile: one program per tile over these axes, of which there are one to eight. One
    index for one axis."""
    indices = _tracer("tw.grid").grid(axes)
    return indices[0] if len(indices) == 1 else indices


def axes(*names: str) -> tuple[Index, ...]:
    """Indices over a program's axes, those included that products and reductions sum over: `tw.axes("M N K")`, or
    `tw.axes("M", "N", "K")`. One to eight, in the order that joined tiles have them. One index for one axis."""
    indices = _tracer("tw.axes").axes(names)
    return indices[0] if len(indices) == 1 else indices  # pyright: ignore[reportReturnType]


class _Loop(Iterator[Index]):
    """Yields one index, inside the loop; the second `next` closes the loop. An object, to notice a loop left early."""

    def __init__(self, tracer: Tracer, axis: object) -> None:
        self._tracer = tracer
        self._axis = axis
        self._entered = False

    def __next__(self) -> Index:
        if self._entered:
            self._tracer.end_loop()
            raise StopIteration
        self._entered = True
        return self._tracer.begin_loop(self._axis)


def loop(axis: str) -> Iterator[Index]:
    """`for k in tw.loop("K")`: visit every tile along an axis."""
    return _Loop(_tracer("tw.loop"), axis)


def zeros(*indices: Index) -> Accumulator:
    """A fresh float32 accumulator over the axes of these grid indices."""
    return _tracer("tw.zeros").zeros(indices)


@overload
def dot(left: Expression, right: Expression) -> Product: ...
@overload
def dot(left: Expression, right: Expression, *, over: Index) -> Tile: ...
def dot(left: Expression, right: Expression, *, over: Index | None = None) -> Product | Tile:
    """The product of two tiles, summed over an axis of the grid that both have: a tile over their other axes.

    Axes that only one has, and axes that both have, stay; blocks of an axis (`h // 4`) meet the axis. Operands are of
    one element: bf16, f16, f8e4m3 or f8e5m2. One of them may be a float32 tile: it is rounded to the other's element as
    it is multiplied. Sums are float32; of 8-bit operands, tensor cores keep fewer bits of them.

    Without `over`, in a loop: a tile over (P, Q) times one over (Q, R), of one element, contracted over the loop's axis
    Q, for an accumulator.
    """
    tracer = _tracer("tw.dot")
    return tracer.dot(left, right) if over is None else tracer.contract(left, right, over)


def maximum(left: Expression | float, right: Expression | float) -> Tile:
    """The larger, elementwise; NaN where either is."""
    return _tracer("tw.maximum").binary(Function.MAX, left, right)


def minimum(left: Expression | float, right: Expression | float) -> Tile:
    """The smaller, elementwise; NaN where either is."""
    return _tracer("tw.minimum").binary(Function.MIN, left, right)


def clamp(tile: Expression, least: Expression | float, most: Expression | float) -> Tile:
    """`least` where the tile is below it, `most` where it is above that, elementwise; NaN where one is."""
    _tracer("tw.clamp")
    return minimum(maximum(tile, least), most)


def round(tile: Expression) -> Tile:
    """The nearest whole number, of two the even one, elementwise; NaN and infinities stay."""
    return _tracer("tw.round").unary(Function.ROUND, tile)


def abs(tile: Expression) -> Tile:
    """The absolute value, elementwise."""
    return _tracer("tw.abs").unary(Function.ABS, tile)


def exp(tile: Expression) -> Tile:
    """e to the power x, elementwise, to a relative error of 2^-22; what is below 2^-125 may become 0."""
    return _tracer("tw.exp").unary(Function.EXP, tile)


def tanh(tile: Expression) -> Tile:
    """The hyperbolic tangent, elementwise, to a relative error of 2^-20."""
    return _tracer("tw.tanh").unary(Function.TANH, tile)


def sigmoid(tile: Expression) -> Tile:
    """1 / (1 + exp(-x)), elementwise, to a relative error of 2^-20 for x >= -87."""
    return _tracer("tw.sigmoid").unary(Function.SIGMOID, tile)


def relu(tile: Expression) -> Tile:
    """max(x, 0), elementwise; NaN stays."""
    return _tracer("tw.relu").unary(Function.RELU, tile)


def gelu(tile: Expression) -> Tile:
    """The tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), to a relative error of 2^-15 for x >= -10."""
    return _tracer("tw.gelu").unary(Function.GELU, tile)


def silu(tile: Expression) -> Tile:
    """x / (1 + exp(-x)), elementwise, to a relative error of 2^-20 for x >= -87."""
    return _tracer("tw.silu").unary(Function.SILU, tile)


def sqrt(tile: Expression) -> Tile:
    """The square root, elementwise, correctly rounded; NaN of what is negative."""
    return _tracer("tw.sqrt").unary(Function.SQRT, tile)


def rsqrt(tile: Expression) -> Tile:
    """1 / sqrt(x), elementwise, to a relative error of 2^-22; NaN of what is negative."""
    return _tracer("tw.rsqrt").unary(Function.RSQRT, tile)


def log(tile: Expression) -> Tile:
    """The natural logarithm, elementwise, to a relative error of 2^-21; -inf of zero, NaN of what is negative."""
    return _tracer("tw.log").unary(Function.LOG, tile)


def sum(tile: Expression, *, over: Index) -> Tile:
    """The sum of all elements along an axis of the grid, in float32 and in an order that the compiler chooses."""
    return _tracer("tw.sum").reduce(Function.ADD, tile, over)


def max(tile: Expression, *, over: Index) -> Tile:
    """The largest element along an axis of the grid; NaN where one is."""
    return _tracer("tw.max").reduce(Function.MAX, tile, over)


def min(tile: Expression, *, over: Index) -> Tile:
    """The smallest element along an axis of the grid; NaN where one is."""
    return _tracer("tw.min").reduce(Function.MIN, tile, over)


def argmax(tile: Expression, *, over: Index) -> Tile:
    """The number, from 0, of the largest element along an axis of the grid: an integer, for a tensor of `tw.i32` or in
    arithmetic. Of equal elements, the first; of NaNs, which count as the largest, too."""
    return _tracer("tw.argmax").arg_reduce(Function.MAX, tile, over)


def argmin(tile: Expression, *, over: Index) -> Tile:
    """The number, from 0, of the smallest element along an axis of the grid, as in `argmax`; NaN counts as the
    smallest."""
    return _tracer("tw.argmin").arg_reduce(Function.MIN, tile, over)


def mean(tile: Expression, *, over: Index) -> Tile:
    """The mean of all elements along an axis of the grid: their sum over their number."""
    extent = _tracer("tw.mean").extent(over)
    if extent is not None:
        return sum(tile, over=over) / float(extent)
    # Only a launch knows how many there are: they are counted where they are summed.
    return sum(tile, over=over) / sum(where(over >= 0, 1.0, tile), over=over)


def logsumexp(tile: Expression, *, over: Index) -> Tile:
    """log(sum(exp(x))) along an axis of the grid, without overflow; NaN where all elements are -inf or one is +inf."""
    _tracer("tw.logsumexp")
    largest = max(tile, over=over)
    return largest + log(sum(exp(tile - largest), over=over))


def softmax(tile: Expression, *, over: Index) -> Tile:
    """exp(x) / sum(exp(x)) along an axis of the grid, without overflow, as exp(x - max) times the sum's reciprocal.

    NaN along a line whose elements are all -inf, or of which one is +inf or NaN.
    """
    tracer = _tracer("tw.softmax")
    weights = exp(tile - max(tile, over=over))
    return tracer.binary(Function.MUL, weights, 1.0 / sum(weights, over=over))


def equal(left: Expression | Index | float, right: Expression | Index | float) -> Tile:
    """1 where two tiles, or numbers, are equal, else 0. Indices are their elements' numbers."""
    return _tracer("tw.equal").binary(Function.EQ, left, right)


def where(condition: Expression, chosen: Expression | Index | float, other: Expression | Index | float) -> Tile:
    """`chosen` where the condition holds (is not 0), else `other`, elementwise. What is not taken counts for nothing,
    NaN included.

    Conditions come from comparisons, such as `j <= i` of indices or `x < 0` of tiles, and from `&`, `|` and `~` of
    conditions.
    """
    return _tracer("tw.where").select(condition, chosen, other)
