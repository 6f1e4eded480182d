"""Reduction: the result shows the same finding, is as small as said, and is still a PTX text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.driver.check.check import check_text
from tilewright.driver.reduce.pieces import normalised, tidied, unused_parameters, without_kernels
from tilewright.driver.reduce.reduce import reduce_finding
from tilewright.frontends.ptx.reader import read

BUGS = Path(__file__).parents[3] / "docs" / "bugs"


def bug(name: str) -> str:
    return (BUGS / name / "buggy.ptx").read_text()


def codes(text: str) -> set[str]:
    return {finding.code for kernel in check_text(text, "k.ptx").kernels for finding in kernel.findings}


def padded(text: str, count: int) -> str:
    """The kernel with `count` more instructions that have nothing to do with its fault, and another kernel."""
    lines: list[str] = ["\t.reg .f32 %pad<8>;", "\t.reg .b32 %more<300>;"]
    for number in range(count):
        lines.append(f"\tmov.u32 %more{number % 300}, {number}; // padding")
        lines.append(f"\t.loc 1 {number + 1} 0")
        if number % 7 == 0:
            lines.append(f"\tst.global.u32 [%rd2+{4 * number}], %more{number % 300};")
    at = text.index("ld.param.u64 %rd2, [result];") + len("ld.param.u64 %rd2, [result];")
    other = re.sub(r"\.entry kernel", ".entry another", text[text.index(".visible .entry") :])
    return text[:at] + "\n" + "\n".join(lines) + text[at:] + "\n" + other


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "code", "most"),
    [("store-never-committed", "BG101", 16), ("slots-overlap", "TM102", 32), ("accumulators-not-fenced", "WG104", 40)],
)
def test_the_same_finding_in_fewer_lines(name: str, code: str, most: int) -> None:
    text = bug(name)
    found = reduce_finding(text, "k.ptx", code, seconds=8.0)
    assert found.finding.code == code
    assert found.reduced.lines == len(found.reduced.text.splitlines()) <= most
    assert code in codes(found.reduced.text) <= codes(text)
    assert read(found.reduced.text, "k.ptx").kernels[0].name == "kernel"


def test_a_long_kernel_of_several() -> None:
    text = padded(bug("expected-bytes-are-clamped"), 500)
    assert text.count("\n") > 1000
    found = reduce_finding(text, "k.ptx", "tx104", seconds=12.0)
    reduced = found.reduced
    assert reduced.lines_before > 1000 and reduced.lines < 40 and reduced.tries > 5
    assert ".loc" not in reduced.text and "//" not in reduced.text and "another" not in reduced.text
    assert "expect_tx" in reduced.text and "st.global" not in reduced.text
    assert codes(reduced.text) == {"TX104"}


@pytest.mark.full
def test_every_name_that_is_left_is_declared_and_every_declaration_is_used() -> None:
    text = reduce_finding(bug("slot-released-before-the-wait"), "k.ptx", "WG105", seconds=8.0).reduced.text
    module = read(text, "k.ptx")
    (kernel,) = module.kernels
    declared = {name for each in kernel.registers for name in each.names}
    body = "\n".join(line for line in text.splitlines() if ".reg" not in line)
    used = {word for word in re.findall(r"%[a-z]+\d+", body)}
    assert used <= declared
    assert all(re.search(rf"\b{re.escape(variable.name)}\b", body.split("{", 1)[1]) for variable in kernel.variables)


def test_what_is_not_shown_is_an_error() -> None:
    with pytest.raises(TilewrightError, match="does not show MB013") as raised:
        reduce_finding(bug("slots-overlap"), "k.ptx", "MB013")
    assert "TM102" in raised.value.remedy
    with pytest.raises(TilewrightError):
        reduce_finding("this is no PTX", "k.ptx", "MB013")


def test_time_is_bounded_and_reported() -> None:
    shares: list[float] = []
    found = reduce_finding(bug("slots-overlap"), "k.ptx", "TM102", seconds=0.2, progress=shares.append)
    assert found.finding.code == "TM102"
    assert shares and all(0.0 <= share <= 1.0 for share in shares) and shares == sorted(shares)


SCOPES = """\
.version 8.6
.target sm_90a
.address_size 64
.global .align 4 .b8 table[4] = {1, 2, 3, 4};
.global .align 4 .b8 spare[4] = {1, 2, 3, 4};
.func helper() { ret; }
.visible .entry first(.param .u64 a, .param .align 64 .b8 b[128], .param .u32 c) .reqntid 32
{
	.reg .b32 %r<40>; .reg .pred %p<4>;
	.reg .b64 %rd<4>, %unused;
	ld.param.u64 %rd1, [a];   /* a comment
	over two lines */
	mov.u32 %r7, table; add.u32 %r8, %r7, 1; add.u32 %r9, %r8, 1;
	{ .reg .pred q; $l: setp.eq.u32 q, %r7, 0; @q bra $l; }
	{ .reg .pred never; }
	st.global.u32 [%rd1], {%r7};
	bra.uni $end;
	mov.u32 %r30, 5;
	$nobody:
	$end: ret;
}
.visible .entry second() { ret; }
	.section	.debug_str
	{
$info:
.b8 116
	}
"""


def test_pieces_stand_alone_on_their_lines() -> None:
    lines = normalised(SCOPES)
    assert "\tadd.u32 %r8, %r7, 1;" in lines and "$l:" in lines and lines.count("{") == lines.count("}") == 5
    assert not any("comment" in line or ".debug" in line or ".b8 116" in line for line in lines)
    assert [kernel.name for kernel in read("\n".join(lines), "k.ptx").kernels] == ["first", "second"]
    alone = without_kernels(lines, "first")
    assert [kernel.name for kernel in read("\n".join(alone), "k.ptx").kernels] == ["first"]


def test_what_nothing_needs_goes() -> None:
    text = "\n".join(tidied(without_kernels(normalised(SCOPES), "first")))
    assert "%r8" not in text and "%r30" not in text and "spare" not in text and "table" in text
    assert "never" not in text and "$nobody" not in text and "%unused" not in text
    assert "$l:" in text and ".reg .b32 %r<8>;" in text and ".reg .pred q;" in text
    (kernel,) = read(text, "k.ptx").kernels
    assert len(kernel.parameters) == 3
    fewer = "\n".join(unused_parameters(text.split("\n")))
    assert [parameter.name for parameter in read(fewer, "k.ptx").kernels[0].parameters] == ["a"]


def test_braces_that_do_not_match_are_an_error() -> None:
    with pytest.raises(TilewrightError, match="never closed"):
        normalised(SCOPES.replace("}", "", 9)[: SCOPES.index("ret;")] + "{")
