"""What is a tensor map of sizes that are not known yet? Its numbers are expressions of named sizes.

A size (`Dim`) has bounds and a divisor. Texts such as `"2*N"` are expressions too. Enumerations and the rank are known
numbers. Not handled: im2col maps. Checked by tests/legal/symbolic/test_symbolic_map.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.condition import Condition, names_of
from tilewright.layout.numbers.condition_parser import parse_expression, parse_where
from tilewright.layout.numbers.integer_expression import IntegerExpression, as_expression, variable
from tilewright.layout.numbers.integer_fact import IntegerFact
from tilewright.legal.argument import integer, shown
from tilewright.legal.symbolic.symbolic_term import FactTerm, Term
from tilewright.legal.tensor_map.rule import Fields
from tilewright.legal.tensor_map.tensor_map import TensorMap


@dataclass(frozen=True, slots=True)
class Dim:
    """A size that is known by name: an integer from `low` to `high` (None: unbounded) that `multiple_of` divides.

    It computes like an integer: `2 * Dim("N") + 16` is an expression. Raises TilewrightError for a name that is no
    identifier, a divisor below 1, and bounds between which no multiple lies.
    """

    name: str
    low: int | None = 0
    high: int | None = None
    multiple_of: int = 1
    fact: IntegerFact = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (self.name.isidentifier() and self.name.isascii()):
            raise TilewrightError(f"{self.name!r} is no name of a size", remedy="use letters, digits and _")
        if integer("multiple_of", self.multiple_of) < 1:
            raise TilewrightError(f"size {self.name}: multiple_of is {self.multiple_of}", remedy="make it at least 1")
        low = None if self.low is None else integer("low", self.low)
        high = None if self.high is None else integer("high", self.high)
        try:
            object.__setattr__(self, "fact", IntegerFact(low, high, self.multiple_of))
        except ValueError:
            raise TilewrightError(
                f"size {self.name}: no multiple of {self.multiple_of} lies between {low} and {high}",
                remedy="widen the bounds",
            ) from None

    @property
    def expression(self) -> IntegerExpression:
        return variable(self.name)

    def __add__(self, other: Symbolic) -> IntegerExpression:
        return self.expression + _symbolic(other)

    def __sub__(self, other: Symbolic) -> IntegerExpression:
        return self.expression - _symbolic(other)

    def __rsub__(self, other: Symbolic) -> IntegerExpression:
        return _symbolic(other) - self.expression

    def __mul__(self, other: Symbolic) -> IntegerExpression:
        return self.expression * _symbolic(other)

    def __floordiv__(self, other: Symbolic) -> IntegerExpression:
        return self.expression // _symbolic(other)

    def __mod__(self, other: Symbolic) -> IntegerExpression:
        return self.expression % _symbolic(other)

    __radd__ = __add__
    __rmul__ = __mul__


Symbolic = int | str | Dim | IntegerExpression
"""A number of a symbolic map: known, or an expression (as text, such as `"2*N"`) of sizes."""


@dataclass(frozen=True)
class SymbolicMap:
    """One tiled tensor map of sizes that vary: the arguments of `cuTensorMapEncodeTiled`, innermost dimension first.

    dims, box: elements; strides, address: bytes; numbers may be `Symbolic`, enumerations and the rank are known.
    sizes: the sizes that expressions name (a `Dim` among the numbers themselves need not be listed); where: conditions
    that hold of them, such as `"N % 8 == 0, 1 <= M"`. Raises TilewrightError for what `legal.TensorMap` refuses, for
    a text that is no expression, and for a name that is declared twice or not at all.
    """

    dtype: str | int
    dims: tuple[Symbolic, ...]
    strides: tuple[Symbolic, ...]
    box: tuple[Symbolic, ...]
    element_strides: tuple[Symbolic, ...] | None = None
    interleave: str | int = "none"
    swizzle: str | int = "none"
    l2_promotion: str | int = "none"
    oob_fill: str | int = "zero"
    address: Symbolic = 0
    sizes: tuple[Dim, ...] = ()
    where: Condition | str = True

    def __post_init__(self) -> None:
        values = self.__dict__
        declared: dict[str, Dim] = {}
        _declare(declared, cast("Iterable[Dim]", values["sizes"]))
        for name in ("dims", "strides", "box", "element_strides"):
            entries = values[name]
            if entries is None:
                values[name] = (1,) * len(self.dims)
                continue
            if isinstance(entries, str | bytes) or not hasattr(entries, "__iter__"):
                raise TilewrightError(f"tensor map: {name} is {shown(entries)}, not a list of sizes")
            entries = tuple(cast("Iterable[Symbolic]", entries))
            _declare(declared, (entry for entry in entries if isinstance(entry, Dim)))
            values[name] = tuple(_number(f"{name}[{index}]", entry) for index, entry in enumerate(entries))
        if isinstance(self.address, Dim):
            _declare(declared, (self.address,))
        values["address"] = _number("address", self.address)
        if isinstance(self.where, str):
            values["where"] = parse_where(self.where)
        unknown = sorted((_names(self) | names_of(self.condition)) - declared.keys())
        if unknown:
            raise TilewrightError(
                f"tensor map: nothing is declared of the size {unknown[0]}", remedy=f"add Dim({unknown[0]!r}) to sizes"
            )
        values["sizes"] = tuple(declared.values())
        # Lengths and enumerations are judged by the concrete map.
        sample = _sample(self)
        for name in ("dtype", "interleave", "swizzle", "l2_promotion", "oob_fill"):
            values[name] = getattr(sample, name)

    @property
    def facts(self) -> dict[str, IntegerFact]:
        """What is declared of each size."""
        return {size.name: size.fact for size in self.sizes}

    @property
    def condition(self) -> Condition:
        """What holds of the sizes besides."""
        return cast("Condition", self.where)

    @cached_property
    def _hash(self) -> int:
        return hash((self.dtype, self.dims, self.strides, self.box, self.swizzle, self.address, self.sizes))

    def __hash__(self) -> int:
        return self._hash

    def at(self, sizes: Mapping[str, int]) -> TensorMap:
        """The map for these sizes. Raises TilewrightError for a size that is missing or not as declared, and where an
        expression divides by zero."""
        for size in self.sizes:
            if size.name not in sizes:
                raise TilewrightError(f"tensor map: the size {size.name} is missing")
            if sizes[size.name] not in size.fact:
                raise TilewrightError(f"tensor map: {size.name} is {sizes[size.name]}, declared as {size.fact}")

        def known(value: Symbolic) -> int:
            try:
                return value if isinstance(value, int) else _symbolic(value).at(sizes)
            except ZeroDivisionError:
                raise TilewrightError(f"tensor map: {value} divides by zero") from None

        return TensorMap(
            self.dtype,
            tuple(known(value) for value in self.dims),
            tuple(known(value) for value in self.strides),
            tuple(known(value) for value in self.box),
            tuple(known(value) for value in self.element_strides or ()),
            self.interleave,
            self.swizzle,
            self.l2_promotion,
            self.oob_fill,
            known(self.address),
        )


def fields_of(map: SymbolicMap, facts: Mapping[str, IntegerFact] | None = None) -> Fields:
    """What the rules read: known numbers as they are, the others as terms; given facts of the sizes, as facts."""

    def term(value: Symbolic) -> object:
        if isinstance(value, int):
            return value
        expression = _symbolic(value)
        return Term(expression) if facts is None else FactTerm(expression.fact(facts))

    return replace(
        _sample(map).fields,
        address=term(map.address),
        dims=tuple(term(value) for value in map.dims),
        strides=tuple(term(value) for value in map.strides),
        box=tuple(term(value) for value in map.box),
        element_strides=tuple(term(value) for value in map.element_strides or ()),
    )


def _sample(map: SymbolicMap) -> TensorMap:
    """A map of the same enumerations and lengths."""
    return TensorMap(
        map.dtype,
        (1,) * len(map.dims),
        (0,) * len(map.strides),
        (1,) * len(map.box),
        (1,) * len(map.element_strides or ()),
        map.interleave,
        map.swizzle,
        map.l2_promotion,
        map.oob_fill,
    )


def _number(name: str, value: Symbolic) -> Symbolic:
    match value:
        case str():
            made = parse_expression(value, what=name)
        case Dim() | IntegerExpression():
            made = _symbolic(value)
        case _:
            return integer(name, value)
    known = made.constant
    return made if known is None else known


def _symbolic(value: Symbolic) -> IntegerExpression:
    match value:
        case Dim():
            return value.expression
        case str():
            return parse_expression(value)
        case _:
            return as_expression(value)


def _declare(declared: dict[str, Dim], sizes: Iterable[Dim]) -> None:
    if isinstance(sizes, str) or not isinstance(cast("object", sizes), Sequence | Set | Iterator):
        raise TilewrightError(f"tensor map: sizes are {shown(sizes)}, not a list of Dim")
    for size in sizes:
        if not isinstance(cast("object", size), Dim):
            raise TilewrightError(f"tensor map: {shown(size)} is no Dim", remedy='declare a size as Dim("N")')
        if declared.setdefault(size.name, size) != size:
            raise TilewrightError(f"tensor map: the size {size.name} is declared twice, differently")


def _names(map: SymbolicMap) -> set[str]:
    values = (*map.dims, *map.strides, *map.box, *(map.element_strides or ()), map.address)
    return {name for value in values if isinstance(value, IntegerExpression) for name in value.names}
