"""Bits of a thread's columns: what the emitted instructions compute, against the forms at each place."""

from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from tilewright.lower.fragment.epilogue import column_of
from tilewright.lower.fragment.selected_columns import are_ranges, selected_columns
from tilewright.lower.fragment.tile_bounds import Linear
from tilewright.lower.ptx.emit import Text

WORD = 1 << 32
NUMBERS = st.one_of(st.integers(-300, 300), st.integers(-(1 << 24), 1 << 24))
FORMS = st.lists(st.tuples(st.integers(-3, 3), st.sampled_from((-1, 0, 1)), NUMBERS), min_size=1, max_size=3)


def signed(value: int) -> int:
    return value - WORD if value >= WORD // 2 else value


def values_of(text: Text) -> dict[str, int]:
    """Of each register, the instructions interpreted one by one."""
    values: dict[str, int] = {}
    for line in text.lines:
        opcode, _, rest = line.strip().rstrip(";").partition(" ")
        target, *operands = rest.split(", ")
        one, *others = [values[item] if item.startswith("%") else int(item) % WORD for item in operands]
        match opcode, others:
            case "mov.u32", []:
                result = one
            case "not.b32", []:
                result = ~one
            case "add.s32", [other]:
                result = one + other
            case "sub.u32" | "sub.s32", [other]:
                result = one - other
            case "and.b32", [other]:
                result = one & other
            case "shr.s32", [other]:
                result = signed(one) >> min(other, 31)
            case "shl.b32", [other]:
                result = one << min(other, 32)
            case "mad.lo.s32", [factor, added]:
                result = one * factor + added
            case "max.s32", [other]:
                result = max(signed(one), signed(other))
            case "min.u32", [other]:
                result = min(one, other)
            case _:
                raise AssertionError(line)
        values[target] = result % WORD
    return values


@given(FORMS, st.sampled_from((0, 8, 64, 72)), st.sampled_from((2, 4, 20, 32, 40, 64)))
@example([(0, -1, -1)], 0, 32)
@example([(1, -1, 119), (0, 1, -8)], 8, 32)
@example([(0, -1, 121)], 0, 32)
@example([(0, -1, 248)], 0, 64)
def test_bits_are_where_all_forms_are_at_least_0(forms: list[tuple[int, int, int]], row: int, count: int) -> None:
    linear = [Linear(down, along, Fraction(constant)) for down, along, constant in forms]
    assert are_ranges(linear)
    text = Text()
    totals = [text.into("b32", "mov.u32", constant % WORD) for _, _, constant in forms]
    words = selected_columns(text, linear, totals, row, count)
    values = values_of(text)
    columns = [column_of(2 * (at // 2 * 2) + at % 2) for at in range(count)]
    for at, column in enumerate(columns):
        holds = all(down * row + along * column + constant >= 0 for down, along, constant in forms)
        assert values[words[at // 32]] >> at % 32 & 1 == holds, (at, column)


def test_every_second_column_is_no_range() -> None:
    assert not are_ranges([Linear(1, -2, Fraction(0))])
