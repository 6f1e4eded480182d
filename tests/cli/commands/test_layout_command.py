"""The command that computes with layouts: what it answers in each format, how it ends, and what it refuses."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.conftest import Tilewright

from tilewright.cli.layout.input import layout_of, sizes_of, swizzle_of, tiler_of, window_of
from tilewright.cli.layout.steps import converted
from tilewright.layout.layout import Layout
from tilewright.layout.linear.hierarchy import Hierarchy
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.swizzle import Swizzle
from tilewright.legal.descriptor.instruction_layout import instruction_layout


def result(tilewright: Tilewright, *arguments: str) -> dict[str, Any]:
    answer = tilewright("layout", *arguments, "--format", "json")
    assert answer.code in (0, 1, 3), answer.err
    return answer.document


def test_a_layout_with_its_properties_and_what_compose_makes_of_it(tilewright: Tilewright) -> None:
    answer = tilewright("layout", "(8,16):(16,1)", "--compose", "(4,32):(32,1)")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "(8,16):(16,1)",
        "  128 elements, 0 to 127, each value once: a bijection",
        "--compose (4,32):(32,1)",
        "  (4,(8,4)):(4,(16,1))",
        "  128 elements, 0 to 127, each value once: a bijection",
    ]


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("(4,4):(1,8)", "16 elements, 0 to 27, no value twice, with gaps"),
        ("(4,4):(1,0)", "16 elements, 0 to 3, values come twice, no gaps, degenerate"),
        ("(2,3):(3,2)", "6 elements, 0 to 7, no value twice, with gaps, not tractable"),
        ("(N,4):(4,1)", "4*N elements, each value once: a bijection"),
        ("((2,4),N):((1,16),2)", "whether values come twice depends on the sizes"),
        ("Sw<1,0,3> o 0 o (8,2):(2,1)", "before the swizzle, each value once"),
    ],
)
def test_properties(tilewright: Tilewright, layout: str, words: str) -> None:
    line = tilewright("layout", layout).out.splitlines()[1]
    assert words.removesuffix(", degenerate") in line
    assert "undecided" not in line


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("(4,8):(8,1)", "--inverse"), "(8,4):(4,1)"),
        (("(4,8):(16,1)", "--left-inverse"), "(16,4):(4,1)"),
        (("(4,8):(16,1)", "--right-inverse"), "8:4"),
        (("(4,4):(1,8)", "--complement", "64"), "(2,2):(4,32)"),
        (("16", "--divide", "4:1"), "(4,4):(1,4)"),
        (("(16,16)", "--divide", "<4,8>"), "((4,4),(8,2)):((1,4),(16,128))"),
        (("(16,16)", "--zipped-divide", "<4,8>"), "((4,8),(4,2)):((1,16),(4,128))"),
        (("(16,16)", "--tiled-divide", "<4,8>"), "((4,8),4,2):((1,16),4,128)"),
        (("(16,16)", "--flat-divide", "<4,8>"), "(4,8,4,2):(1,16,4,128)"),
        (("(16,16)", "--divide", "<4,_>"), "((4,4),16):((1,4),16)"),
        (("4", "--product", "3"), "(4,3):(1,4)"),
        (("(2,5):(5,1)", "--blocked-product", "(3,4)"), "(6,(5,4)):(5,(1,30))"),
        (("(2,5):(5,1)", "--raked-product", "(3,4)"), "((3,2),(4,5)):((10,5),(30,1))"),
        (("((2,4),1):((1,2),9)", "--coalesce"), "8:1"),
        (("(2,(2,2)):(1,(2,4))", "--canonical"), "8:1"),
        (("(8,64):(64,1)", "--swizzle", "3,3,3"), "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        (("(N,4):(4,1)", "--sizes", "N=8", "--coalesce"), "(8,4):(4,1)"),
        (("(8,8):(8,1)", "--swizzle", "3,0,3", "--inverse", "--inverse"), "Sw<3,0,3> o 0 o (8,8):(8,1)"),
    ],
)
def test_operations(tilewright: Tilewright, arguments: tuple[str, ...], text: str) -> None:
    assert result(tilewright, *arguments)["result"]["text"] == text


def test_an_abbreviated_option_is_the_option(tilewright: Tilewright) -> None:
    assert result(tilewright, "(4,8):(8,1)", "--inv")["result"]["text"] == "(8,4):(4,1)"


def test_operations_apply_from_left_to_right(tilewright: Tilewright) -> None:
    document = result(tilewright, "(4,8):(8,1)", "--inverse", "--compose", "(4,8):(8,1)", "--coalesce")
    assert [step["operation"] for step in document["steps"]] == ["inverse", "compose", "coalesce"]
    assert document["result"]["text"] == "32:1"


def test_a_composition_past_the_domain_is_refused_unless_it_may_go_on(tilewright: Tilewright) -> None:
    refused = tilewright("layout", "(4,8):(8,1)", "--compose", "64:1")
    assert refused.code == 1 and "not expressible" in refused.out
    assert result(tilewright, "(4,8):(8,1)", "--compose", "64:1", "--extend")["result"]["text"] == "(4,16):(8,1)"


def test_values_at_coordinates(tilewright: Tilewright) -> None:
    assert result(tilewright, "(8,16):(16,1)", "--at", "3,5")["steps"][0]["answer"] == {"kind": "value", "value": 53}
    assert result(tilewright, "(8,16):(16,1)", "--at", "9")["steps"][0]["answer"]["value"] == 17
    answer = tilewright("layout", "(8,16):(16,1)", "--at", "(8,0)")
    assert answer.code == 2 and "not below 8" in answer.err


@pytest.mark.parametrize(
    ("left", "right", "options", "code", "words"),
    [
        ("(8,(4,N)):(1,(8,32))", "(32,N):(1,32)", (), 0, "equal for all sizes, by normal forms"),
        ("(8,N//8):(1,8)", "N:1", ("--where", "N % 8 == 0, N > 0"), 0, "equal"),
        ("(8,N//8):(1,8)", "N:1", ("--where", "N % 4 == 0, N > 0"), 1, "the sizes are"),
        ("(4,8):(8,1)", "(4,8):(1,4)", (), 1, "different: at 1 the values are 8 and 1"),
        ("(4,N):(N,1)", "(4,N):(1,4)", (), 1, "different: with N = "),
        ("8", "9", (), 1, "the sizes are 8 and 9"),
        ("N", "M", ("--where", "N == M"), 3, "undecided"),
        ("Sw<2,0,2> o 0 o (4,4)", "Sw<2,0,2> o 0 o 16", (), 0, "equal"),
    ],
)
def test_equality_for_all_sizes(
    tilewright: Tilewright, left: str, right: str, options: tuple[str, ...], code: int, words: str
) -> None:
    answer = tilewright("layout", "equal", left, right, *options)
    assert answer.code == code and words in answer.out
    assert tilewright("layout", left, "--equal", right, *options).out == answer.out


def test_a_counterexample_is_one(tilewright: Tilewright) -> None:
    document = result(tilewright, "equal", "((2,N),3):((1,4),2)", "(2,(N,3)):(1,(4,2))")
    assert document["steps"][0]["answer"]["kind"] == "equal"
    document = result(tilewright, "equal", "(N,3):(3,1)", "(3,N):(1,3)")
    found = document["steps"][0]["answer"]
    left, right = (layout_of(text, found["sizes"]) for text in ("(N,3):(3,1)", "(3,N):(1,3)"))
    assert (left.at(found["coordinate"]), right.at(found["coordinate"])) == (found["left"], found["right"])
    assert found["left"] != found["right"]


def test_what_has_no_answer_says_why_and_ends_the_chain(tilewright: Tilewright) -> None:
    document = result(tilewright, "(4,4):(1,8)", "--inverse", "--coalesce")
    assert [step["answer"]["kind"] for step in document["steps"]] == ["not-expressible"]
    answer = tilewright("layout", "(4,4):(1,8)", "--inverse", "--coalesce")
    assert answer.code == 1 and "not expressible: (4,4):(1,8) is no bijection" in answer.out
    answer = tilewright("layout", "(M,64):(64,1)", "--divide", "<16,8>")
    assert answer.code == 3 and "would decide it: the sizes" in answer.out


@pytest.mark.parametrize("text", ["(4,8):(8,1)", "Sw<2,1,3> o 0 o (8,8):(8,1)", "(2,4,8):(32,8,1)"])
def test_conversions_lead_back(text: str) -> None:
    layout = layout_of(text, {})
    linear = converted(layout, "linear")
    assert isinstance(linear, LinearLayout)
    affine = converted(linear, "affine")
    assert not isinstance(affine, int | str)
    for value in (linear, affine):
        again = converted(value, "linear")  # type: ignore[arg-type]
        assert isinstance(again, LinearLayout) and again.columns == linear.columns
    back = converted(linear, "cute")
    assert isinstance(back, Layout) and back.offsets().tolist() == layout.offsets().tolist()


def test_conversions_say_where_they_end(tilewright: Tilewright) -> None:
    answer = tilewright("layout", "(3,4):(4,1)", "--convert", "linear")
    assert answer.code == 1 and "not expressible: the extent 3 is no power of two" in answer.out
    answer = tilewright("layout", "(8,N):(1,16)", "--convert", "set")
    assert answer.code == 0 and "[n0] -> { [i] -> [v] : " in answer.out and "n0 is N" in answer.out
    document = result(tilewright, "(3,4):(4,1)", "--convert", "affine")
    assert document["result"]["pieces"] == [{"box": [[0, 3], [0, 4]], "matrix": [[4, 1]], "offsets": [0]}]


@pytest.mark.parametrize(
    ("name", "operand", "text"),
    [
        ("mma.m16n8k16.bf16", "A", "((4,8),(2,2,2)):((32,1),(16,8,128))"),
        ("mma.m16n8k16.bf16", "C", "((4,8),(2,2)):((32,1),(16,8))"),
        ("wgmma.m64n128k16", "C", "((4,8,4),(2,2,16)):((128,1,16),(64,8,512))"),
        ("wgmma.m64n24k16", "C", "((4,8,4),(2,2,3)):((128,1,16),(64,8,512))"),
        ("tma.swizzle.128B", "shared", "Sw<3,4,3> o 0 o 1024:1"),
    ],
)
def test_operands_as_cute_writes_them(tilewright: Tilewright, name: str, operand: str, text: str) -> None:
    document = result(tilewright, "--mma", name, "--operand", operand, "--convert", "cute")
    assert document["result"]["text"] == text and document["instruction"]["name"] == name
    layout, source = layout_of(text, {}), instruction_layout(name, operand).layout
    if isinstance(source, Hierarchy) or "lane" in source.input_sizes:
        rows = source.output_sizes["row"]
        warps, registers = source.input_sizes.get("warp", 1), source.input_sizes["register"]
        for thread in range(0, 32 * warps, 7):
            places = {"lane": thread % 32, "warp": thread // 32} if warps > 1 else {"lane": thread}
            for register in range(0, registers, 3):
                image = source(register=register, **places)
                assert layout(thread, register) == image["row"] + rows * image["column"]


def test_an_instruction_is_found_listed_and_drawn(tilewright: Tilewright) -> None:
    answer = tilewright("layout", "--mma", "wgmma.m64n16k16", "--operand", "C", "--show")
    assert answer.code == 0
    assert "source: PTX ISA" in answer.out and "W3L31R3" in answer.out
    assert "A cell says which place holds the element: W warp, L lane, R register." in answer.out
    first = tilewright("layout", "--mma", "wgmma.m64n16k16").out.splitlines()[0]
    assert first == "wgmma.m64n16k16, operand A"
    listed = tilewright("layout", "--list", "tcgen05.ld.16x256b.x1").out.splitlines()
    assert "tcgen05.ld.16x256b.x1: fragment" in listed
    answer = tilewright("layout", "--mma", "wgmma.m64n16k17")
    assert answer.code == 2 and "did you mean" in answer.err
    assert tilewright("layout", "--list", "nothing").code == 2


def test_what_it_costs_to_bring_accumulators_to_operands(tilewright: Tilewright) -> None:
    """Of 16-bit elements accumulators are the next A as they are; of 8-bit ones lanes must exchange them."""
    answer = tilewright("layout", "--mma", "wgmma.m64n16k16", "--operand", "C", "--exchange", "wgmma.m64n16k16:A")
    assert answer.code == 0 and answer.out.splitlines()[-1] == "  nothing moves: no instruction"
    arguments = (
        "--mma",
        "wgmma.m64n32k32",
        "--operand",
        "C",
        "--exchange",
        "wgmma.m64n32k32:A",
        "--element-bytes",
        "1",
    )
    plans = tilewright("layout", *arguments, "--format", "json").document["exchange"]["plans"]
    assert plans[0]["kind"] == "shuffles" and plans[0]["cost"]["shared_bytes"] == 0
    cycles = [plan["cost"]["cycles"] for plan in plans]
    assert cycles == sorted(cycles) and len({plan["kind"] for plan in plans}) == len(plans) > 1
    assert "of them shuffles" in tilewright("layout", *arguments).out


def test_pictures(tilewright: Tilewright) -> None:
    answer = tilewright("layout", "(2,4):(4,1)", "--show")
    assert answer.out.splitlines()[3:6] == ["  j", "i 0 1 2 3", "0 0 1 2 3"]
    drawn = tilewright("layout", "(2,4):(4,1)", "--format", "svg")
    assert drawn.code == 0 and ET.fromstring(drawn.out).tag.endswith("svg")
    page = tilewright("layout", "(2,4):(4,1)", "--inverse", "--format", "html").out
    assert page.startswith("<!DOCTYPE html>") and "(4,2):(2,1)" in page and "<svg" in page
    document = result(tilewright, "(2,4):(4,1)", "--show", "--columns", "1:3", "--rows", "1")
    assert document["picture"]["cells"] == [["5", "6"]] and document["picture"]["first_column"] == 1


def test_a_picture_of_what_is_not_there_is_an_error(tilewright: Tilewright) -> None:
    answer = tilewright("layout", "(4,4):(1,8)", "--inverse", "--format", "svg")
    assert answer.code == 2 and "no bijection" in answer.err
    answer = tilewright("layout", "(N,4):(1,8)", "--show")
    assert answer.code == 2 and "symbolic" in answer.err


HOSTILE = [
    "", " ", "(", ")", "(()", "((4,8):(8,1)", "(4,8):(8,1", "(4,8):(8)", "(4,(8,2)):(8,1)", "(0,4):(1,1)", "(-4,8)",
    "(4,8):(8,1)x", "4:", ":4", "(4,,8)", "Sw<3,4,3>", "Sw<3,4> o 0 o 8", "Sw<9,0,1> o 0 o 8", "S<99,99,99> o 0 o 8",
    "(" * 70 + "4" + ")" * 70, "(" * 4000, "9" * 200, ",".join(["2"] * 3000), "(4;8)", "\x1b[31m(4)", "(\uff14,8)",
    "N//0", "2**9**9", "equal", "(4,8):(1.5,2)", "(1e9,4)", "4 o", "a b",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_layout_ends_in_one_message(tilewright: Tilewright, text: str) -> None:
    answer = tilewright("layout", "--", text)
    assert answer.code == 2 and not answer.out
    assert "error: " in answer.err and len(answer.err) < 1000 and "\x1b" not in answer.err
    assert len([line for line in answer.err.splitlines() if "error: " in line]) == 1
    answer = tilewright("layout", "--format", "json", "--", text)
    assert answer.code == 2 and json.loads(answer.out)["error"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("8", "9"),
        ("equal", "8"),
        ("equal", "8", "8", "8"),
        ("8", "--mma", "wgmma.m64n16k16"),
        ("8", "--operand", "A"),
        ("--mma", "wgmma.m64n16k16", "--operand", "Z"),
        ("--mma", "wgmma.m64n16k16", "--target", "sm_00"),
        ("--mma", "wgmma.m64n16k16", "--target", "sm_100a"),
        ("--mma", "wgmma.m64n16k16", "--compose", "8"),
        ("8", "--exchange", "wgmma.m64n16k16:A"),
        ("--mma", "wgmma.m64n16k16", "--operand", "C", "--exchange", "wgmma.m64n16k16"),
        ("--mma", "wgmma.m64n16k16", "--operand", "C", "--exchange", "wgmma.m64n16k16:Z"),
        ("--mma", "wgmma.m64n16k16", "--operand", "C", "--exchange", "wgmma.m64n16k16:A.K.128B"),
        ("--mma", "wgmma.m64n16k16", "--operand", "C", "--exchange", "wgmma.m64n16k8:A"),
        ("--mma", "wgmma.m64n24k16", "--operand", "C", "--exchange", "wgmma.m64n24k16:C"),
        ("--mma", "wgmma.m64n16k16", "--operand", "C", "--exchange", "wgmma.m64n16k16:A", "--element-bytes", "8"),
        ("--mma", "wgmma.m64n16k16", "--operand", "C", "--exchange", "wgmma.m64n16k16:A", "--inverse"),
        ("8", "--swizzle", "3,4"),
        ("8", "--swizzle", "x"),
        ("8", "--divide", "<4"),
        ("8", "--divide", "<" * 40 + ">" * 40),
        ("8", "--complement", "0"),
        ("8", "--at", "1,2"),
        ("8", "--at", "(1,"),
        ("8", "--equal", "8", "--coalesce"),
        ("N", "--sizes", "N"),
        ("N", "--sizes", "N=0"),
        ("N", "--where", "N <", "--equal", "N"),
        ("N", "--where", "N < 0, N > 0", "--equal", "N"),
        ("8", "--show", "--rows", "a:b"),
        ("8", "--show", "--rows", "4:9"),
        ("8", "--show", "--element-bytes", "-1"),
        ("8", "--show", "--element-bytes", "99999999"),
    ],
)
def test_what_is_no_question_ends_in_one_message(tilewright: Tilewright, arguments: tuple[str, ...]) -> None:
    answer = tilewright("layout", *arguments)
    assert answer.code == 2 and answer.err.startswith(("error: ", "<")) and "Traceback" not in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("(1048576,1048576):(1048576,1)",),
        ("(1048576,1048576):(1048576,1)", "--inverse"),
        ("(1048576,1048576):(1048576,1)", "--show"),
        ("(1048576,1048576):(1,1)",),
        ("(1048575,1048577):(1048577,3)", "--canonical"),
        ("Sw<10,0,20> o 0 o (1048576,1048576):(1048576,1)", "--equal", "Sw<10,0,20> o 0 o 1099511627776:1"),
        ("(1048576,1048576):(1048576,1)", "--convert", "linear"),
        ("1099511627776:1", "--divide", "1024:1"),
        ("1152921504606846976:1", "--complement", "1"),
        ("((((((4,4),4),4),4),4),4)", "--coalesce"),
    ],
)
def test_layouts_of_a_million_million_elements_take_no_time(tilewright: Tilewright, arguments: tuple[str, ...]) -> None:
    answer = tilewright("layout", *arguments)
    assert answer.code in (0, 1, 3) and answer.out


def test_a_picture_too_large_names_the_remedy(tilewright: Tilewright) -> None:
    answer = tilewright("layout", "(1048576,1048576):(1048576,1)", "--format", "svg")
    assert answer.code == 2 and "at most 32768 are drawn" in answer.err and "--rows 0:64 --columns 0:64" in answer.err


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(alphabet="(),:0123456789N_oSw<>-+*/% ;", max_size=40))
def test_any_text_is_answered_or_refused(tilewright: Tilewright, text: str) -> None:
    answer = tilewright("layout", "--", text)
    assert answer.code in (0, 2), (text, answer)
    assert bool(answer.out) == (answer.code == 0)


def test_texts_of_arguments() -> None:
    assert swizzle_of("3,4,3") == swizzle_of("Sw<3,4,3>") == swizzle_of(" S< 3, 4 ,3>") == Swizzle(3, 4, 3)
    assert sizes_of(["N=4,M=8", "K = 2"]) == {"N": 4, "M": 8, "K": 2}
    assert tiler_of("<4:1,_,<2,(2,2):(4,1)>>", {}) == (
        Layout(4), None, (Layout(2), Layout((2, 2), (4, 1))),
    )  # fmt: skip
    assert window_of("2:5", "7").rows == (2, 5) and window_of("2:5", "7").columns == (7, 8)


def test_the_help_names_every_operation(tilewright: Tilewright) -> None:
    answer = tilewright("layout", "--help")
    for name in ("compose", "inverse", "raked-product", "convert", "equal", "complement", "where", "show", "mma"):
        assert f"--{name}" in answer.out
