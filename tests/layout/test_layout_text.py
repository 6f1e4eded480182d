"""Reading is the inverse of writing, and every text is a layout or one clear error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.layout.layout_strategies import swizzled_layouts

from tilewright.base.error import TilewrightError
from tilewright.layout.layout import Layout
from tilewright.layout.layout_text import parse_layout, parse_nested
from tilewright.layout.nested import nested_text
from tilewright.layout.numbers.integer_expression import IntegerExpression, as_expression, quotient, remainder, variable


@given(swizzled_layouts())
def test_round_trip(layout: Layout) -> None:
    assert parse_layout(str(layout)) == layout


@st.composite
def expressions(draw: st.DrawFn, levels: int = 2) -> IntegerExpression:
    name = variable(draw(st.sampled_from("MNK")))
    if levels == 0:
        return name * draw(st.integers(1, 4)) + draw(st.integers(0, 3))
    left, right = draw(expressions(levels - 1)), draw(expressions(levels - 1))
    match draw(st.integers(0, 3)):
        case 0:
            return left + right
        case 1:
            return left * right
        case 2:
            return quotient(left, as_expression(draw(st.integers(1, 9))))
        case _:
            return remainder(left, as_expression(draw(st.integers(1, 9))))


@given(expressions(), expressions(), expressions())
def test_symbolic_round_trip(extent: IntegerExpression, stride: IntegerExpression, offset: IntegerExpression) -> None:
    layout = Layout((4, (extent + 1, 2)), (stride, (1, stride + 1)), offset)
    assert parse_layout(str(layout)) == layout


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(8,16):(16,1)", "(8,16):(16,1)"),
        (" ( 8 , 16 ) : ( 16 , 1 ) ", "(8,16):(16,1)"),
        ("8", "8:1"),
        ("((2,4),8):((1,16),2)", "((2,4),8):((1,16),2)"),
        ("((2,4),8)", "((2,4),8):((1,2),8)"),
        ("(_8,_16):(_16,_1)", "(8,16):(16,1)"),
        ("(4):(1)", "4:1"),
        ("(4,):(1,)", "(4,):(1,)"),
        ("():()", "():()"),
        ("8:-1", "8:-1"),
        ("7 o 8:-1", "7 o 8:-1"),
        ("Sw<3,4,3> o 0 o (8,64):(64,1)", "Sw<3,4,3> o 0 o (8,64):(64,1)"),
        ("Sw<3,4,3> o (8,64):(64,1)", "Sw<3,4,3> o 0 o (8,64):(64,1)"),
        ("S<2,4,-3> o _0 o (_8,_64):(_64,_1)", "Sw<2,4,-3> o 0 o (8,64):(64,1)"),
        ("SW_3_4_3 o 16 o 8:1", "Sw<3,4,3> o 16 o 8:1"),
        ("(M,N):(N,1)", "(M,N):(N,1)"),
        ("((M+1)*2,N//2):(N//2,1)", "(2*M + 2,N//2):(N//2,1)"),
        ("((M+1),N):(N,1)", "(M + 1,N):(N,1)"),
    ],
)
def test_known(text: str, wanted: str) -> None:
    assert str(parse_layout(text)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "(",
        ")",
        "(8,16",
        "8,16)",
        "(8,16):(16,1",
        "(8,16):(16,1):(1,1)",
        "(8,,16)",
        "(,)",
        "(8 16):(1 8)",
        "(8,16)(1,8)",
        "8:",
        ":1",
        "(8,16):(16,(1,2))",
        "0:1",
        "(-4,2):(1,4)",
        "Sw<3,4> o 0 o 8:1",
        "Sw<3,4,3>",
        "Sw<3,4,3> 8:1",
        "Sw<3,4,2> o 0 o 8:1",
        "Sw<9999,4,3> o 0 o 8:1",
        "o 8:1",
        "0 o",
        "x y:1",
        "__import__('os'):1",
        "8.5:1",
        "\u0668:1",
        "²:1",
        "\x00",
        "8:1\n8:1",
        "M//0:1",
        "(((1,2),3)*2):1",
        "9" * 5000,
        "(" * 100000,
        "(" * 1000 + "1" + ")" * 1000,
        "(" * 40 + "1+" + ")" * 40,
        "1," * 100000,
        "(" + "1," * 3000 + "1)",
        "2**999999999:1",
        "M" * 70000,
    ],
)
def test_bad_texts(text: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        parse_layout(text)
    assert len(str(caught.value)) < 500


@given(st.text(alphabet="0123456789(),: oSw<>_MN+-*/%", max_size=40))
def test_any_text_is_a_layout_or_an_error(text: str) -> None:
    try:
        layout = parse_layout(text)
    except TilewrightError:
        return
    assert parse_layout(str(layout)) == layout


def test_nested() -> None:
    assert parse_nested("(2,(N,4))") == (2, (variable("N"), 4))
    assert nested_text(parse_nested("(2,(N,4),(5,),())")) == "(2,(N,4),(5,),())"
