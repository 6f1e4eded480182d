"""Does no sum overflow that expressions are made of, whatever inputs within given ranges a launch has?

Interval arithmetic over expressions of a run. A range is of whole numbers, with the sign that the register has as a
signed one, and exact: where a result may be too large for its register, as a signed number, nothing is known of it, nor
of what is made of it. That keeps to what all readers of a register agree on, those that read it without a sign as well
once it is not negative. Where a sum's range is not known, the answer is no.

Not handled: bits of registers, floating numbers, words of memory, values that differ by lane; of a difference of two
numbers that one bounds the other. Source: Moore, "Interval Analysis" (1966). Checked by:
tests/driver/explore/search/test_exact_ranges.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from tilewright.frontends.ptx.ast import Immediate, Register
from tilewright.machine.core.decoder import type_name
from tilewright.machine.symbolic.expression import Applied, Chosen, Input, Leaf, Node, Source, needed

Range = tuple[int, int]
"""The least and the greatest value."""
SUMS = frozenset({"add", "sub", "shl"})
"""Instructions whose results are sums of what they are made of, or multiples."""
_WIDEST_SHIFT = 64


def sums_fit(nodes: Iterable[Node], inputs: Mapping[Input, Range]) -> bool:
    """Whether all sums that expressions are made of are exact, with inputs in their ranges."""
    known: dict[int, Range | None] = {}
    for node in needed([*nodes], {}):
        known[node.number] = found = _of(node, inputs, known)
        applied = node.operation
        if found is None and isinstance(applied, Applied) and applied.instruction.row in SUMS and node.uniform:
            return False
    return True


def _of(node: Node, inputs: Mapping[Input, Range], known: Mapping[int, Range | None]) -> Range | None:
    match node.operation:
        case Leaf(given, 0, dtype, scale, addend, 0, _, 0) if given in inputs and dtype.kind == "u":
            sides = sorted(value * scale + addend for value in inputs[given])
            return _within((sides[0], sides[1]), 8 * min(dtype.itemsize, given.size_bytes))
        case Chosen():
            return _either(*(_source(each, known) for each in node.sources[1:]))
        case Applied() as applied if node.uniform and not node.opaque:
            return _result(applied, dict(zip(applied.names, node.sources, strict=True)), known)
        case _:
            return None


def _source(source: Source, known: Mapping[int, Range | None]) -> Range | None:
    if isinstance(source, Node):
        return known[source.number]
    if source.size != 1 or source.dtype.kind != "u":
        return None
    value = int(source.view(f"i{source.dtype.itemsize}")[0])
    return value, value


def _within(found: Range, width: int) -> Range | None:
    return found if -(1 << (width - 1)) <= found[0] and found[1] < 1 << (width - 1) else None


def _either(one: Range | None, other: Range | None) -> Range | None:
    return None if one is None or other is None else (min(one[0], other[0]), max(one[1], other[1]))


def _result(applied: Applied, given: Mapping[str, Source], known: Mapping[int, Range | None]) -> Range | None:
    instruction = applied.instruction
    rule = _RULES.get(instruction.row)
    types = [found for each in instruction.modifiers if (found := type_name(each)) is not None]
    words = frozenset(each for each in instruction.modifiers if type_name(each) is None)
    whole = all(each.name[0] in "usb" and each.name[1:].isdigit() for each in types)
    if rule is None or not types or not whole or words - {"lo", "wide"}:
        return None
    ranges: list[Range] = []
    for operand in instruction.operands[1:]:
        match operand:
            case Immediate(int() as value):
                width = types[0].width_bits
                signed = value if value < 1 << (width - 1) else value - (1 << width)
                ranges.append((signed, signed))
            case Register(name) if name in given and (found := _source(given[name], known)) is not None:
                ranges.append(found)
            case Register() if instruction.row == "selp" and len(ranges) == 2:
                continue  # the predicate
            case _:
                return None
    # What reads its operands without a sign sees the same numbers where they are not negative.
    without_sign = not types[-1].is_signed and (instruction.row in _BY_SIGN or "wide" in words)
    if without_sign and any(least < 0 for least, _ in ranges):
        return None
    found = rule(ranges)
    return None if found is None else _within(found, types[0].width_bits * (2 if "wide" in words else 1))


def _product(one: Range, other: Range) -> Range:
    corners = [x * y for x in one for y in other]
    return min(corners), max(corners)


def _shifted_left(ranges: list[Range]) -> Range | None:
    value, (least, greatest) = ranges
    return _product(value, (1 << least, 1 << greatest)) if least >= 0 and greatest < _WIDEST_SHIFT else None


def _shifted_right(ranges: list[Range]) -> Range | None:
    (low, high), (least, greatest) = ranges
    corners = [value >> by for value in (low, high) for by in (least, greatest)] if least >= 0 else []
    return (min(corners), max(corners)) if corners and greatest < _WIDEST_SHIFT else None


def _quotient(ranges: list[Range]) -> Range | None:
    (low, high), (least, greatest) = ranges
    corners = [
        abs(value) // by * (1 if value >= 0 else -1) for value in (low, high) for by in (least, greatest) if least > 0
    ]
    return (min(corners), max(corners)) if corners else None


def _remainder(ranges: list[Range]) -> Range | None:
    (low, high), (least, greatest) = ranges
    if least <= 0:
        return None
    return max(min(low, 0), 1 - greatest), min(max(high, 0), greatest - 1)


def _masked(ranges: list[Range]) -> Range | None:
    above = [greatest for least, greatest in ranges if least >= 0]
    return (0, min(above)) if above else None


def _joined(ranges: list[Range]) -> Range | None:
    if any(least < 0 for least, _ in ranges):
        return None
    return 0, (1 << max(greatest.bit_length() for _, greatest in ranges)) - 1


_BY_SIGN = frozenset({"min", "max", "div", "rem", "shr", "cvt"})
"""Instructions whose results depend on whether their operands are read with a sign."""
_RULES: Mapping[str, Callable[[list[Range]], Range | None]] = {
    "add": lambda of: (of[0][0] + of[1][0], of[0][1] + of[1][1]),
    "sub": lambda of: (of[0][0] - of[1][1], of[0][1] - of[1][0]),
    "mul": lambda of: _product(*of),
    "mad": lambda of: cast("Range", tuple(x + y for x, y in zip(_product(of[0], of[1]), of[2], strict=True))),
    "neg": lambda of: (-of[0][1], -of[0][0]),
    "shl": _shifted_left,
    "shr": _shifted_right,
    "div": _quotient,
    "rem": _remainder,
    "min": lambda of: (min(of[0][0], of[1][0]), min(of[0][1], of[1][1])),
    "max": lambda of: (max(of[0][0], of[1][0]), max(of[0][1], of[1][1])),
    "and": _masked,
    "or": _joined,
    "xor": _joined,
    "selp": lambda of: _either(*of),
    "mov": lambda of: of[0],
    "cvt": lambda of: of[0],
}
