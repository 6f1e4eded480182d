"""Long operand lists are cut, in every text and page; what is short stays."""

from __future__ import annotations

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.span import Span
from tilewright.report.findings.check_json import check_to_json
from tilewright.report.findings.check_page import check_page
from tilewright.report.findings.check_text import render_check
from tilewright.report.findings.github import workflow_commands
from tilewright.report.html import render_page
from tilewright.report.operand_lists import cut_operands

REGISTERS = ", ".join(f"%f{index}" for index in range(128))
LINE = f"    wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {{{REGISTERS}}}, %rd1, %rd2, p, 1, 1, 0, 1;"


def test_a_long_list_keeps_its_ends_and_says_how_many_are_left_out() -> None:
    cut = cut_operands(LINE)
    assert "{%f0, %f1, ... 125 more ..., %f127}, %rd1" in cut and len(cut) < 140
    assert cut_operands("{a,b,c,d,e,f,g}") == "{a,b, ... 4 more ...,g}"


def test_short_lists_and_other_text_stay() -> None:
    for text in ("", "add.u32 %r1, %r2, %r3;", "mov {%r1, %r2, %r3, %r4, %r5, %r6}, x;", "{}", "a }, b", "{" * 30):
        assert cut_operands(text) == text


def test_a_list_that_does_not_end_is_cut_too() -> None:
    assert cut_operands("wgmma {a, b, c, d, e, f, g") == "wgmma {a, b, ... 4 more ..., g"


def test_no_report_for_readers_has_the_whole_list_and_json_does() -> None:
    place = Span("k.ptx", 1, 5, LINE)
    finding = Diagnostic(
        "WG101", "operands-overwritten", f"overwrites {{{REGISTERS}}}", place, place, (f"a step with {LINE}",),
        repair=Repair("an edit", ((place, f"{LINE}\nwgmma.wait_group.sync.aligned 0;\n{LINE} // again"),)),
    )  # fmt: skip
    refuted = KernelReport("k", "sm_90a", "refuted", findings=(finding,))
    unknown = KernelReport("k", "sm_90a", "unknown", reasons=(f"k.ptx:1: {LINE}",))
    files = (FileReport("k.ptx", LINE, (refuted, unknown)),)
    page = render_page(check_page(files, ""))
    for shown in (render_check(files), page, "\n".join(workflow_commands(files))):
        assert "%f64" not in shown and "more ..." in shown
    assert "%f64" in str(check_to_json(files, tool="t"))
