"""What a kernel author may write: grid, loop, zeros, dot, elementwise functions, and operators on tiles.

Theory: a kernel is traced. Its body runs once in plain Python on the handles of this module, and every operation on a
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

import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeAlias, TypeVarTuple, overload

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.size import Range
from tilewright.frontends.tile.kernel import Kernel, TensorAxes, at_line, kernel, tensor_axes
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


class Tracer(Protocol):
    """What turns operations on handles into IR. Operands arrive unchecked; every method may raise TilewrightError."""

    def axes(self, names: tuple[object, ...]) -> tuple[Index, ...]: ...
    def grid(self, axes: tuple[object, ...]) -> tuple[Index, ...]: ...
    def divide(self, index: Index, size: object) -> Index: ...
    def remainder(self, index: Index, size: object) -> Remainder: ...
    def scale(self, product: Product, scale: object) -> Product: ...
    def begin_loop(self, axis: object) -> Index: ...
    def end_loop(self) -> None: ...
    def shift(self, index: Index, offset: object) -> Index: ...
    def zeros(self, indices: tuple[object, ...]) -> Accumulator: ...
    def load(self, tensor: TensorHandle, indices: object) -> Tile: ...
    def store(self, tensor: TensorHandle, indices: object, value: object) -> None: ...
    def accumulate(self, accumulator: Accumulator, product: object) -> None: ...
    def dot(self, left: object, right: object) -> Product: ...
    def contract(self, left: object, right: object, over: object) -> Tile: ...
    def unary(self, function: Function, operand: object) -> Tile: ...
    def binary(self, function: Function, left: object, right: object) -> Tile: ...
    def select(self, condition: object, chosen: object, other: object) -> Tile: ...
    def reduce(self, function: Function, operand: object, over: object) -> Tile: ...
    def arg_reduce(self, function: Function, operand: object, over: object) -> Tile: ...
    def extent(self, over: object) -> int | None: ...
    def cast(self, operand: object, element: object) -> Tile: ...
    def transpose(self, operand: object) -> Tile: ...
    def refuse(self, message: str, remedy: str) -> NoReturn: ...


active_tracer: ContextVar[Tracer | None] = ContextVar("active_tracer", default=None)
"""The tracer of the kernel being traced in this context, if any."""


def _tracer(what: str) -> Tracer:
    tracer = active_tracer.get()
    if tracer is None:
        raise TilewrightError(f"{what} is used outside a kernel", remedy="use it in a function under @tw.kernel")
    return tracer


class _Compared:
    """What comparisons of tiles and of indices give: a tile of 1 and 0."""

    __slots__ = ("tracer",)
    tracer: Tracer

    def __lt__(self, other: object) -> Tile:
        return self.tracer.binary(Function.LT, self, other)

    def __le__(self, other: object) -> Tile:
        return self.tracer.binary(Function.LE, self, other)

    def __gt__(self, other: object) -> Tile:
        return self.tracer.binary(Function.LT, other, self)

    def __ge__(self, other: object) -> Tile:
        return self.tracer.binary(Function.LE, other, self)

    def __eq__(self, other: object) -> NoReturn:
        """Python's own would say whether both are one object."""
        self.tracer.refuse(
            "`==` and `!=` are no operators of tiles and indices", "write tw.equal(x, y), or ~tw.equal(x, y)"
        )

    __hash__ = object.__hash__


class Index(_Compared):
    """Which tile along an axis. `index + 1` and `index - 1` displace a load by elements; `index // 128` is the index of
    the blocks of 128 elements, along the axis `K/128` of an index along K. In a comparison, and in arithmetic with
    tiles or other indices, it is the tile of its elements' numbers, from 0."""

    __slots__ = ("axis",)
    __array_ufunc__ = None

    def __init__(self, tracer: Tracer, axis: str) -> None:
        self.tracer = tracer
        self.axis = axis

    @overload
    def __add__(self, other: int) -> Index: ...
    @overload
    def __add__(self, other: Expression | Index) -> Tile: ...
    def __add__(self, other: object) -> Index | Tile:
        if isinstance(other, Expression | Index):
            return self.tracer.binary(Function.ADD, self, other)
        return self.tracer.shift(self, other)

    def __radd__(self, offset: object) -> Index:
        return self.tracer.shift(self, offset)

    @overload
    def __sub__(self, other: int) -> Index: ...
    @overload
    def __sub__(self, other: Expression | Index) -> Tile: ...
    def __sub__(self, other: object) -> Index | Tile:
        if isinstance(other, Expression | Index):
            return self.tracer.binary(Function.SUB, self, other)
        return self.tracer.shift(self, -other if isinstance(other, int) else other)

    def __floordiv__(self, size: object) -> Index:
        return self.tracer.divide(self, size)

    def __mod__(self, size: object) -> Remainder:
        return self.tracer.remainder(self, size)

    def __mul__(self, other: object) -> Tile:
        return self.tracer.binary(Function.MUL, self, other)

    def __rmul__(self, other: object) -> Tile:
        return self.tracer.binary(Function.MUL, other, self)

    def __rsub__(self, other: object) -> Tile:
        return self.tracer.binary(Function.SUB, other, self)

    def __truediv__(self, other: object) -> Tile:
        return self.tracer.binary(Function.DIV, self, other)

    def __rtruediv__(self, other: object) -> Tile:
        return self.tracer.binary(Function.DIV, other, self)

    def __neg__(self) -> Tile:
        return self.tracer.binary(Function.SUB, 0.0, self)

    def _refuse(self, other: object) -> NoReturn:
        self.tracer.refuse(
            f"the index over {self.axis} is used as a number of Python's",
            "compare it, or use + - * / with numbers, tiles and other indices: it is the number of each element",
        )

    __rfloordiv__ = __rmod__ = _refuse

    def __iter__(self) -> Iterator[Index]:
        """Itself alone: `(i,) = tw.axes("M")` names one axis, as `i = tw.grid("M")` does."""
        yield self

    def __bool__(self) -> bool:
        self._refuse(None)

    def __int__(self) -> int:
        self._refuse(None)

    def __index__(self) -> int:
        self._refuse(None)

    def __repr__(self) -> str:
        return f"<index over {self.axis}>"


class Remainder:
    """`index % 64`: an element's place in its block of 64 elements of an axis, to load at."""

    __slots__ = ("axis", "index", "size", "tracer")

    def __init__(self, tracer: Tracer, index: Index, size: int) -> None:
        self.tracer = tracer
        self.index = index
        self.axis = index.axis
        self.size = size

    def _refuse(self, other: object) -> NoReturn:
        self.tracer.refuse(
            f"the place {self.axis} % {self.size} is used as a number",
            f"load at it as it is, as in x[..., k % {self.size}]",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = __truediv__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __repr__(self) -> str:
        return f"<{self.axis} % {self.size}>"


class Expression(_Compared):
    """Anything elementwise operators apply to. Each operator yields a new tile."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy scalars on the left of an operator defer to the tile

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def __add__(self, other: object) -> Tile:
        return self.tracer.binary(Function.ADD, self, other)

    def __radd__(self, other: object) -> Tile:
        return self.tracer.binary(Function.ADD, other, self)

    def __sub__(self, other: object) -> Tile:
        return self.tracer.binary(Function.SUB, self, other)

    def __rsub__(self, other: object) -> Tile:
        return self.tracer.binary(Function.SUB, other, self)

    def __mul__(self, other: object) -> Expression:
        if isinstance(other, Product):
            return NotImplemented  # the product's own, which scales it
        return self.tracer.binary(Function.MUL, self, other)

    def __rmul__(self, other: object) -> Expression:
        return self.tracer.binary(Function.MUL, other, self)

    def __truediv__(self, other: object) -> Tile:
        return self.tracer.binary(Function.DIV, self, other)

    def __rtruediv__(self, other: object) -> Tile:
        return self.tracer.binary(Function.DIV, other, self)

    def __neg__(self) -> Tile:
        return self.tracer.unary(Function.NEG, self)

    def __abs__(self) -> Tile:
        return self.tracer.unary(Function.ABS, self)

    def to(self, element: Element) -> Tile:
        """The tile rounded to nearest even in `element`: tw.bf16, tw.f16, tw.f32, tw.f8e4m3, tw.f8e5m2 or tw.i8.

        To 8 bits, what is past the largest finite number becomes that (an infinity stays one in f8e5m2); NaN stays
        NaN, and becomes 0 in i8.
        """
        return self.tracer.cast(self, element)

    @property
    def T(self) -> Tile:
        """The transposed tile, over the same axes in the other order."""
        return self.tracer.transpose(self)

    def __and__(self, other: object) -> Tile:
        """Both of two conditions."""
        return self.tracer.binary(Function.MIN, self, other)

    def __or__(self, other: object) -> Tile:
        """One of two conditions, or both."""
        return self.tracer.binary(Function.MAX, self, other)

    def __invert__(self) -> Tile:
        """Where a condition does not hold."""
        return self.tracer.binary(Function.EQ, self, 0.0)

    def _matmul(self, other: object) -> NoReturn:
        self.tracer.refuse("`@` is not an operator of tiles", "write tw.dot(x, y, over=k)")

    __matmul__ = __rmatmul__ = _matmul

    def _unknown(self, other: object) -> NoReturn:
        self.tracer.refuse(
            "`//` and `%` are no operators of tiles",
            "use + - * / or a function of tw; of an index, k // 128 is a block and k % 128 a place in it",
        )

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _unknown

    def _power(self, other: object) -> NoReturn:
        self.tracer.refuse("`**` is not an operator of tiles", "write x * x, or tw.exp(y * tw.log(x))")

    __pow__ = __rpow__ = _power

    def __bool__(self) -> bool:
        self.tracer.refuse(
            "a tile has no truth value while tracing",
            "choose by tw.where, tw.maximum or tw.minimum; combine conditions by & | ~",
        )

    def __float__(self) -> float:
        self.tracer.refuse("a tile is not a number while tracing", "use functions of tw on tiles")


class Tile(Expression):
    """A tile of numbers; immutable."""

    __slots__ = ()


class Accumulator(Expression):
    """A float32 tile that loops add products to, from `tw.zeros`. `acc += tw.dot(x, y)` changes it in place."""

    __slots__ = ()

    def __iadd__(self, product: object) -> Accumulator:
        self.tracer.accumulate(self, product)
        return self


class Product(Expression):
    """What `tw.dot` gives: to be scaled by tiles over blocks of the contracted axis, and added to an accumulator."""

    __slots__ = ()

    def __mul__(self, other: object) -> Product:
        return self.tracer.scale(self, other)

    def __rmul__(self, other: object) -> Product:
        return self.tracer.scale(self, other)


_Axes = TypeVarTuple("_Axes")
Where: TypeAlias = "Index | Remainder | Tile"
"""What a load may have as an index."""


class TensorHandle:
    """A tensor parameter while tracing."""

    __slots__ = ("name", "tracer")

    def __init__(self, tracer: Tracer, name: str) -> None:
        self.tracer = tracer
        self.name = name

    def __getitem__(self, indices: Where | tuple[Where, ...]) -> Tile:
        """The tile at these indices, one per axis. A tensor of integers that is loaded is one too, and says for each
        element where along the axis it lies; so is `k % 64`, an element's place in its block."""
        return self.tracer.load(self, indices)

    def __setitem__(self, indices: Index | tuple[Index, ...], value: Expression | float) -> None:
        """Store a tile, rounded to the tensor's element and broadcast by axis name."""
        self.tracer.store(self, indices, value)

    def _refuse(self, other: object) -> NoReturn:
        self.tracer.refuse(f"tensor {self.name} is used without indices", f"write {self.name}[...] to load a tile")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __matmul__ = __rmatmul__ = _refuse

    def __bool__(self) -> bool:
        self._refuse(None)


class Tensor(TensorHandle, Generic[*_Axes]):
    """A parameter in global memory. As an annotation, `Tensor["M", "K"]` names its axes, outermost first."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __class_getitem__(cls, axes: object) -> TensorAxes:
            try:
                return tensor_axes(axes)
            except TilewrightError as error:
                author = sys._getframe(1)
                raise at_line(error, author.f_code.co_filename, author.f_lineno) from None


@dataclass(frozen=True, slots=True)
class Groups:
    """Two axes of a grid: of groups, and of the elements that they are consecutive runs of. From `tw.group`."""

    group: object
    axis: object
    ends: object


@dataclass(frozen=True, slots=True)
class Within:
    """An axis of a grid of which each group has its own number of elements. From `tw.within`."""

    axis: object
    counts: object


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
