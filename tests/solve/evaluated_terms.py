"""What is a solver's term for given values of its variables? Python's own integers say, operation by operation.

Checked by: tests/solve/test_bit_vectors.py, against z3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.solve.bit_vectors import Applied, Number, Term, Variable


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) & 1 else value


def _quotient(one: int, other: int) -> int:
    magnitude = abs(one) // abs(other)
    return magnitude if (one < 0) == (other < 0) else -magnitude


_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << min(b, 256),
    "lshr": lambda a, b: a >> min(b, 256),
    "udiv": lambda a, b: a // b,
    "urem": lambda a, b: a % b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "ult": lambda a, b: a < b,
    "ule": lambda a, b: a <= b,
}
_SIGNED: dict[str, Callable[[int, int], int]] = {
    "sdiv": _quotient,
    "srem": lambda a, b: a - b * _quotient(a, b),
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
}
BINARY = (*_UNSIGNED, *_SIGNED, "ashr")
COMPARISONS = ("eq", "ne", "ult", "ule", "slt", "sle")
DIVISIONS = ("udiv", "urem", "sdiv", "srem")


def value_of(term: Term, variables: Mapping[int, int], known: dict[int, int] | None = None) -> int:
    """The bits of a term. variables: by index."""
    known = {} if known is None else known
    if id(term) not in known:
        known[id(term)] = _value(term, variables, known)
    return known[id(term)]


def _value(term: Term, variables: Mapping[int, int], known: dict[int, int]) -> int:
    match term:
        case Variable(index):
            return variables[index]
        case Number(value):
            return value
        case Applied(operation, terms, width, numbers):
            parts = [value_of(each, variables, known) for each in terms]
            widths = [each.width for each in terms]
            if operation in BINARY:
                assert widths[0] == widths[1], operation
                assert width == (1 if operation in COMPARISONS else widths[0]), operation
            return _applied(operation, parts, widths, numbers) & ((1 << width) - 1)


def _applied(operation: str, parts: list[int], widths: list[int], numbers: tuple[int, ...]) -> int:
    if operation in _UNSIGNED:
        return int(_UNSIGNED[operation](parts[0], parts[1]))
    if operation in _SIGNED:
        return int(_SIGNED[operation](signed(parts[0], widths[0]), signed(parts[1], widths[1])))
    match operation:
        case "ashr":
            return signed(parts[0], widths[0]) >> min(parts[1], 256)
        case "not":
            return ~parts[0]
        case "if":
            assert widths[0] == 1 and widths[1] == widths[2]
            return parts[1] if parts[0] else parts[2]
        case "extract":
            high, low = numbers
            assert widths[0] > high >= low
            return parts[0] >> low & ((1 << (high - low + 1)) - 1)
        case "zero_extend":
            return parts[0]
        case "sign_extend":
            return signed(parts[0], widths[0])
        case "concat":
            found = 0
            for part, width in zip(parts, widths, strict=True):
                found = found << width | part
            return found
        case _:
            raise AssertionError(operation)
