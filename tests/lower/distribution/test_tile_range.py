"""Parts of walks in registers: what the emitted instructions compute, against what `ac.range` means."""

from hypothesis import example, given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Block

from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import int_array
from tilewright.lower.build import INDEX
from tilewright.lower.distribution.tile_range import lower_range, lower_unit_range
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import IndexPlace, Places
from tilewright.targets import target

WORD = 1 << 32
LINES = st.tuples(st.integers(-300, 300), st.integers(-5000, 5000), st.integers(1, 300))


def signed(value: int) -> int:
    return value - WORD if value >= WORD // 2 else value


def values_of(text: Text) -> dict[str, int]:
    """Of each register, the instructions interpreted one by one."""
    values: dict[str, int] = {}
    for line in text.lines:
        opcode, _, rest = line.strip().rstrip(";").partition(" ")
        target, *operands = rest.split(", ")
        given_ = [values[item] if item.startswith("%") else int(item) % WORD for item in operands]
        match opcode:
            case "mov.u32":
                result = given_[0]
            case "add.u32":
                result = given_[0] + given_[1]
            case "sub.u32":
                result = given_[0] - given_[1]
            case "mad.lo.s32":
                result = given_[0] * given_[1] + given_[2]
            case "max.s32":
                result = max(map(signed, given_))
            case "max.u32":
                result = max(given_)
            case "min.u32":
                result = min(given_)
            case "div.u32":
                result = given_[0] // given_[1]
            case "sub.s32":
                result = given_[0] - given_[1]
            case "setp.lt.u32":
                result = int(given_[0] < given_[1])
            case "selp.b32":
                result = given_[0] if given_[2] else given_[1]
            case _:
                raise AssertionError(line)
        values[target] = result % WORD
    return values


@given(LINES, LINES, st.integers(1, 50), st.integers(0, 200))
@example((0, 0, 1), (1, 1, 1), 32, 31)
@example((128, -129, 64), (128, 128, 64), 8, 100)
def test_what_is_emitted_is_what_is_meant(begin, end, most, row):
    block = Block(arg_types=[INDEX])
    op = ac.RangeOp.create(
        operands=[block.args[0]],
        properties={
            "symbol": StringAttr("K"), "most": IntAttr(most), "begin": int_array(begin), "end": int_array(end),
        },
        result_types=[INDEX],
    )  # fmt: skip
    text = Text()
    places: Places = {block.args[0]: IndexPlace(text.into("b32", "mov.u32", row))}
    lowering = Lowering(text, places, {"K": most}, 1, 0, target("sm_90a"))
    first = lower_range(lowering, op)
    values = values_of(text)
    part = values[first.register], values[lowering.trips["K"]]
    assert part == op.part(row, most)
    assert part[0] >= 0 and part[1] >= 1 and sum(part) <= most


@given(
    LINES,
    LINES,
    LINES,
    st.integers(1, 50),
    st.integers(0, 200),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 2),
)
@example((0, 0, 1), (3, 4, 2), (1, 2, 2), 4, 2, 3, 0, 0)
@example((0, 0, 1), (3, 4, 2), (1, 2, 2), 4, 2, 3, 2, 0)
@example((0, 0, 1), (3, 3, 2), (1, 2, 2), 4, 0, 3, 0, 1)
def test_what_is_emitted_takes_a_units_own_iterations_apart(begin, end, own_end, most, row, units, unit, lacking):
    block = Block(arg_types=[INDEX, INDEX])
    lines = {"begin": int_array(begin), "end": int_array(end)}
    whole = ac.RangeOp.create(
        operands=[block.args[0]],
        properties={"symbol": StringAttr("K"), "most": IntAttr(most), **lines},
        result_types=[INDEX],
    )
    apart = ac.UnitRangeOp.create(
        operands=[block.args[0], whole.result, block.args[1]],
        properties={
            "symbol": StringAttr("K"), "own": StringAttr("own"), "rest": StringAttr("rest"),
            "tile_units": IntAttr(units), "units": IntAttr(8), "end": int_array(own_end), "lacking": IntAttr(lacking),
        },
    )  # fmt: skip
    text = Text()
    places: Places = {
        argument: IndexPlace(text.into("b32", "mov.u32", number))
        for argument, number in zip(block.args, (row, unit), strict=True)
    }
    lowering = Lowering(text, places, {"K": most}, 1, 0, target("sm_90a"))
    places[whole.result] = lower_range(lowering, whole)
    lower_unit_range(lowering, apart)
    values = values_of(text)
    count, own, rest = (values[lowering.trips[name]] for name in ("K", "own", "rest"))
    assert own == apart.part(whole.part(row, most), row, unit, 8)
    assert own >= 1 and rest >= 0 and own + rest == count
