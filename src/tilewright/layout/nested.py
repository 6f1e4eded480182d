"""How are hierarchical shapes, strides and coordinates written, compared and taken apart?

Theory: a nested tuple is an integer or a tuple of nested tuples; its leaves, left to right, are its flattening, and the
parentheses alone its profile. Two are congruent where their profiles are equal; one is weakly congruent to another
where it has a leaf wherever the other has not the same tuple, so that it describes the other coarsely. Integers may be
symbolic (`layout.numbers.integer_expression`); what is constant is kept as Python's int.

Bounds: 64 levels, 1,024 leaves, numbers of 256 bits, products of 4,096 bits or 1,024 terms; beyond, TilewrightError,
so that no input exhausts the stack or the machine. Not handled: texts (`layout.layout_text`).
Checked by tests/layout/test_nested.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod
from operator import index
from typing import TypeAlias, cast

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.integer_expression import IntegerExpression, as_expression

Integer: TypeAlias = int | IntegerExpression
Nested: TypeAlias = "int | IntegerExpression | tuple[Nested, ...]"

MOST_LEVELS = 64
_MOST_LEAVES = 1024
_MOST_LEAF_BITS = 256
_MOST_PRODUCT_BITS = 4096
_MOST_TERMS = 1024


def checked(value: object, what: str) -> Nested:
    """The nested tuple that `value` is, constants as Python's int.

    what: names it in errors. Raises TilewrightError for anything that is none, or too large.
    """
    if type(value) is int and -(1 << 63) < value < 1 << 63:
        return value
    return _checked(value, what, MOST_LEVELS, [_MOST_LEAVES])


def _checked(value: object, what: str, levels: int, leaves: list[int]) -> Nested:
    if isinstance(value, tuple):
        if levels == 0:
            raise TilewrightError(f"{what}: nested deeper than {MOST_LEVELS} levels", remedy="flatten it")
        listed = cast("tuple[object, ...]", value)
        return tuple(_checked(part, what, levels - 1, leaves) for part in listed)
    leaves[0] -= 1
    if leaves[0] < 0:
        raise TilewrightError(f"{what}: more than {_MOST_LEAVES} integers", remedy="coalesce it")
    return leaf(value, what)


def leaf(value: object, what: str) -> Integer:
    """The integer or expression that `value` is. Raises TilewrightError for anything else."""
    if type(value) is not int:
        if isinstance(value, IntegerExpression):
            known = value.constant
            if known is None:
                if len(value.terms) > _MOST_TERMS:
                    raise TilewrightError(f"{what}: a sum of more than {_MOST_TERMS} terms", remedy="name a part of it")
                return value
            value = known
        elif isinstance(value, bool):
            raise TilewrightError(f"{what}: {value} is no integer")
        else:
            named = getattr(value, "expression", None)
            if isinstance(named, IntegerExpression):
                return leaf(named, what)
            try:
                value = index(value)  # type: ignore[arg-type]
            except TypeError:
                shown = repr(value)
                shown = shown if len(shown) <= 60 else shown[:60] + "..."
                raise TilewrightError(
                    f"{what}: {shown} is no integer", remedy="use integers, sizes with names, and tuples of them"
                ) from None
    if value.bit_length() > _MOST_LEAF_BITS:
        raise TilewrightError(f"{what}: a number of more than {_MOST_LEAF_BITS} bits")
    return value


def leaves(value: Nested) -> Iterator[Integer]:
    """The integers, left to right."""
    if isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def flatten(value: Nested) -> tuple[Integer, ...]:
    """The integers, left to right, as one tuple."""
    if not isinstance(value, tuple):
        return (value,)
    gathered: list[Integer] = []
    _gather(value, gathered)
    return tuple(gathered)


def _gather(value: tuple[Nested, ...], gathered: list[Integer]) -> None:
    for part in value:
        if isinstance(part, tuple):
            _gather(part, gathered)
        else:
            gathered.append(part)


def rank(value: Nested) -> int:
    """Parts of the outermost tuple; 1 for an integer."""
    return len(value) if isinstance(value, tuple) else 1


def depth(value: Nested) -> int:
    """Levels of parentheses; 0 for an integer."""
    return 1 + max((depth(part) for part in value), default=0) if isinstance(value, tuple) else 0


def parts(value: Nested) -> tuple[Nested, ...]:
    """What the outermost tuple lists; the integer itself for an integer."""
    return value if isinstance(value, tuple) else (value,)


def times(left: Integer, right: Integer) -> Integer:
    """The product. Raises TilewrightError where it has too many terms."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if len(as_expression(left).terms) * len(as_expression(right).terms) > _MOST_TERMS:
        raise TilewrightError(
            f"a product of symbolic sizes has more than {_MOST_TERMS} terms", remedy="give the product a name"
        )
    return settled(left * right)


def settled(value: Integer) -> Integer:
    """As Python's int where it depends on no name."""
    if isinstance(value, int):
        return value
    known = value.constant
    return value if known is None else known


def product(value: Nested) -> Integer:
    """Of all leaves; 1 for none. Raises TilewrightError where it is too large."""
    flat = flatten(value)
    constant = prod(part for part in flat if isinstance(part, int))
    if constant.bit_length() > _MOST_PRODUCT_BITS:
        raise TilewrightError(f"a size of more than {_MOST_PRODUCT_BITS} bits")
    total: Integer = constant
    for part in flat:
        if not isinstance(part, int):
            total = times(total, part)
    return total


def congruent(left: Nested, right: Nested) -> bool:
    """Whether the parentheses are the same."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(congruent, left, right))
    return not isinstance(left, tuple) and not isinstance(right, tuple)


def unflatten(values: Iterable[Nested], profile: Nested) -> Nested:
    """The values in the place of the leaves of `profile`, which has as many. Raises TilewrightError otherwise."""
    given = iter(values)
    try:
        result = _filled(given, profile)
    except StopIteration:
        raise TilewrightError("fewer values than the profile has leaves") from None
    if next(given, None) is not None:
        raise TilewrightError("more values than the profile has leaves")
    return result


def _filled(values: Iterator[Nested], profile: Nested) -> Nested:
    if not isinstance(profile, tuple):
        return next(values)
    filled: list[Nested] = []
    for part in profile:
        filled.append(_filled(values, part))
    return tuple(filled)


def mapped(function: Callable[[Integer], Nested], value: Nested) -> Nested:
    """With every leaf replaced."""
    return tuple(mapped(function, part) for part in value) if isinstance(value, tuple) else function(value)


def compact_strides(shape: Nested) -> Nested:
    """The strides of the dense layout whose leftmost leaf varies fastest; congruent to `shape`."""
    if isinstance(shape, int):
        return 1
    strides: list[Integer] = []
    running: Integer = 1
    for extent in leaves(shape):
        strides.append(running)
        running = times(running, extent)
    return unflatten(strides, shape)


def nested_text(value: Nested) -> str:
    """As it is parsed: `(2,(N,4))`; a tuple of one part has a comma, as in Python."""
    if not isinstance(value, tuple):
        return str(value)
    return f"({','.join(map(nested_text, value))}{',' if len(value) == 1 else ''})"
