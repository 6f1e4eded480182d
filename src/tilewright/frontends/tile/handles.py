"""The handles that a kernel's body works on while it is traced, and what stands behind them.

An operation on a handle goes to the tracer that made it. Operators that tiles do not have are refused at the author's
line. Checked by tests/frontends/test_tile_language.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeAlias, TypeVarTuple, overload

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.kernel import TensorAxes, at_line, tensor_axes
from tilewright.ir.function import Function


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


class _Operand:
    """What tiles and numbers of elements have in common: arithmetic, and comparisons, which give a tile of 1 and 0."""

    __slots__ = ("tracer",)
    __array_ufunc__ = None  # NumPy scalars on the left of an operator defer to the handle
    tracer: Tracer

    def __mul__(self, other: object) -> Expression:
        return self.tracer.binary(Function.MUL, self, other)

    def __rmul__(self, other: object) -> Expression:
        return self.tracer.binary(Function.MUL, other, self)

    def __neg__(self) -> Tile:
        return self.tracer.unary(Function.NEG, self)

    def __rsub__(self, other: object) -> Tile:
        return self.tracer.binary(Function.SUB, other, self)

    def __truediv__(self, other: object) -> Tile:
        return self.tracer.binary(Function.DIV, self, other)

    def __rtruediv__(self, other: object) -> Tile:
        return self.tracer.binary(Function.DIV, other, self)

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


class _Number(_Operand):
    """An operand whose sum with a whole number is a tile, too."""

    __slots__ = ()

    def __add__(self, other: object) -> Tile:
        return self.tracer.binary(Function.ADD, self, other)

    def __radd__(self, other: object) -> Tile:
        return self.tracer.binary(Function.ADD, other, self)

    def __sub__(self, other: object) -> Tile:
        return self.tracer.binary(Function.SUB, self, other)


class Index(_Operand):
    """Which tile along an axis. `index + 1` and `index - 1` displace a load by elements; `index // 128` is the index of
    the blocks of 128 elements, along the axis `K/128` of an index along K. In a comparison, and in other arithmetic, it
    is the tile of its elements' numbers, from 0, or of its blocks'."""

    __slots__ = ("axis",)

    def __init__(self, tracer: Tracer, axis: str) -> None:
        self.tracer = tracer
        self.axis = axis

    @overload
    def __add__(self, other: int) -> Index: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def __add__(self, other: Expression | Index | Remainder | float) -> Tile: ...
    def __add__(self, other: object) -> Index | Tile:
        if isinstance(other, _Operand) or (isinstance(other, Real) and not isinstance(other, Integral)):
            return self.tracer.binary(Function.ADD, self, other)
        return self.tracer.shift(self, other)

    __radd__ = __add__

    @overload
    def __sub__(self, other: int) -> Index: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def __sub__(self, other: Expression | Index | Remainder | float) -> Tile: ...
    def __sub__(self, other: object) -> Index | Tile:
        if isinstance(other, _Operand) or (isinstance(other, Real) and not isinstance(other, Integral)):
            return self.tracer.binary(Function.SUB, self, other)
        return self.tracer.shift(self, -int(other) if isinstance(other, Integral) else other)

    def __floordiv__(self, size: object) -> Index:
        return self.tracer.divide(self, size)

    def __mod__(self, size: object) -> Remainder:
        return self.tracer.remainder(self, size)

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


class Remainder(_Number):
    """`index % 64`: an element's place in its block of 64 elements of an axis, to load at, or as a number from 0."""

    __slots__ = ("axis", "index", "size")

    def __init__(self, tracer: Tracer, index: Index, size: int) -> None:
        self.tracer = tracer
        self.index = index
        self.axis = index.axis
        self.size = size

    def _refuse(self, other: object = None) -> NoReturn:
        self.tracer.refuse(
            f"the place {self.axis} % {self.size} is used as a number of Python's",
            f"compare it, use + - * /, or load at it as it is, as in x[..., k % {self.size}]",
        )

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse

    def __bool__(self) -> bool:
        self._refuse()

    def __int__(self) -> int:
        self._refuse()

    def __index__(self) -> int:
        self._refuse()

    def __repr__(self) -> str:
        return f"<{self.axis} % {self.size}>"


class Expression(_Number):
    """Anything elementwise operators apply to. Each operator yields a new tile."""

    __slots__ = ()

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def __mul__(self, other: object) -> Expression:
        if isinstance(other, Product):
            return NotImplemented  # the product's own, which scales it
        return self.tracer.binary(Function.MUL, self, other)

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

    __rand__, __ror__ = __and__, __or__

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
