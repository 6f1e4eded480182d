"""What is the value of a PTX constant or constant expression?

Integer expressions are evaluated in unbounded integers by precedence climbing, then held to 64 bits; division truncates
towards zero, as the ISA's does. A float is its exact image: a decimal constant is a 64-bit one. Source: PTX ISA 8.8,
Constants; Constant Expressions. Not handled: float arithmetic other than a leading minus.
Checked by: tests/frontends/test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

import struct

from tilewright.frontends.ptx.ast import FloatImmediate, Immediate
from tilewright.frontends.ptx.lexer import Cursor

_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    "==": 6,
    "!=": 6,
    "<": 7,
    "<=": 7,
    ">": 7,
    ">=": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "%": 10,
}
OPERATORS = frozenset({*_PRECEDENCE, "?"})
_DEEPEST = 32
WARP_SIZE = 32
STARTS_CONSTANT = frozenset({"integer", "float", "-", "+", "~", "(", "!"})


def read_constant(cursor: Cursor) -> Immediate | FloatImmediate:
    """The constant that stands at the cursor. Raises TilewrightError if it is none, or is wider than 64 bits."""
    if cursor.kind == "float":
        return _float(cursor, negative=False)
    if cursor.kind == "-" and cursor.kinds[cursor.index + 1] == "float":
        cursor.take()
        return _float(cursor, negative=True)
    return Immediate(read_integer(cursor))


def read_integer(cursor: Cursor) -> int:
    """The integer expression at the cursor, between -2^63 and 2^64 - 1."""
    start = cursor.index
    value = _conditional(cursor, 0)
    if not -(1 << 63) <= value < 1 << 64:
        cursor.fail(f"{value} does not fit 64 bits", "PTX integer constants have 64 bits", start)
    return value


def _float(cursor: Cursor, *, negative: bool) -> FloatImmediate:
    text = cursor.expect("float", "a float constant")
    if text[:2] in ("0f", "0F"):
        bits, width = int(text[2:], 16), 32
    elif text[:2] in ("0d", "0D"):
        bits, width = int(text[2:], 16), 64
    else:
        bits, width = struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64
    return FloatImmediate(bits ^ (1 << (width - 1)) if negative else bits, width)


def _conditional(cursor: Cursor, depth: int) -> int:
    condition = _binary(cursor, 1, depth)
    if not cursor.accept("?"):
        return condition
    first = _conditional(cursor, depth + 1)
    cursor.expect(":")
    second = _conditional(cursor, depth + 1)
    return first if condition else second


def _binary(cursor: Cursor, least: int, depth: int) -> int:
    value = _unary(cursor, depth)
    while _PRECEDENCE.get(cursor.kind, 0) >= least:
        index, operator = cursor.index, cursor.take()
        right = _binary(cursor, _PRECEDENCE[operator] + 1, depth)
        value = _apply(cursor, index, operator, value, right)
    return value


def _unary(cursor: Cursor, depth: int) -> int:
    if depth > _DEEPEST:
        cursor.fail("the constant expression is nested too deeply", "write its value")
    match cursor.kind:
        case "integer":
            return literal_value(cursor.take())
        case "-":
            cursor.take()
            return -_unary(cursor, depth + 1)
        case "+":
            cursor.take()
            return _unary(cursor, depth + 1)
        case "~":
            cursor.take()
            return ~_unary(cursor, depth + 1)
        case "!":
            cursor.take()
            return int(not _unary(cursor, depth + 1))
        case "word" if cursor.text == "WARP_SZ":
            cursor.take()
            return WARP_SIZE
        case "(" if cursor.kinds[cursor.index + 1] == "directive":
            cursor.take()
            return _cast(cursor, depth)
        case "(":
            cursor.take()
            value = _conditional(cursor, depth + 1)
            cursor.expect(")")
            return value
        case _:
            cursor.refuse("a constant")


def _cast(cursor: Cursor, depth: int) -> int:
    """`(.s64) x`, the cursor after the parenthesis."""
    index, kind = cursor.index, cursor.take()
    if kind not in (".s64", ".u64"):
        cursor.fail(f"{kind} is not a type that a constant can be cast to", "cast to .s64 or .u64", index)
    cursor.expect(")")
    value = _unary(cursor, depth + 1) % (1 << 64)
    return value - (1 << 64) if kind == ".s64" and value >> 63 else value


def literal_value(text: str) -> int:
    """The value of one integer token."""
    digits = text.removesuffix("U")
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    if digits[:2] in ("0b", "0B"):
        return int(digits, 2)
    # 400 digits are far past 64 bits, and are refused as such; Python itself refuses to read some thousands.
    return int(digits[:400], 8 if digits.startswith("0") else 10)


def _apply(cursor: Cursor, index: int, operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if right == 0:
            cursor.fail("a constant is divided by zero", "write its value", index)
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - right * quotient
    if operator in ("<<", ">>") and not 0 <= right < 64:
        cursor.fail(f"a constant is shifted by {right}", "a shift takes 0 to 63", index)
    if max(abs(left), abs(right)) >> 64:
        cursor.fail("a constant expression leaves 64 bits", "write its value", index)
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "<<":
            return left << right
        case ">>":
            return left >> right
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "&&":
            return int(bool(left and right))
        case "||":
            return int(bool(left or right))
        case "==":
            return int(left == right)
        case "!=":
            return int(left != right)
        case "<":
            return int(left < right)
        case "<=":
            return int(left <= right)
        case ">":
            return int(left > right)
        case _:
            return int(left >= right)
