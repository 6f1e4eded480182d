"""A check as text: the verdict first, findings in groups, and no more lines than a reader needs."""

from __future__ import annotations

from dataclasses import replace

from tilewright.base.check_report import FileReport, KernelReport, SkippedFiles, Suppressed, exit_code
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.span import Span
from tilewright.report.findings.check_json import check_to_json
from tilewright.report.findings.check_page import check_page
from tilewright.report.findings.check_text import render_check
from tilewright.report.findings.finding_lines import View
from tilewright.report.findings.github import workflow_commands
from tilewright.report.findings.sarif import check_to_sarif
from tilewright.report.html import render_page


def found(line: int, code: str = "PX101", level: Level = Level.ERROR, contested: str = "") -> Diagnostic:
    place = Span("k.ptx", line, text="    st.shared.b32 [%r1], %r2;")
    steps = (f"warp 0 writes at line {line}", "the engine reads")
    return Diagnostic(code, "a-rule", f"bad at {line}", place, None, steps, "PTX ISA 8.6", None, level, None, contested)


def review(line: int) -> Diagnostic:
    return found(line, "MB105", Level.REVIEW, "fenced_init")


def file(*kernels: KernelReport) -> FileReport:
    return FileReport("k.ptx", "", kernels)


PROVEN = KernelReport(
    "fine", "sm_90a", "proven", "all trip counts", ("x is 16 bytes", "no clocks"), ("loops repeat",),
    findings=tuple(map(review, range(10, 26))), launches=11, ranges=("n from 1 to 2^31 - 1",),
)  # fmt: skip
REFUTED = KernelReport("bad", "sm_90a", "refuted", findings=(review(1), *map(found, range(2, 9)), found(9, "TX104")))
UNKNOWN = KernelReport("open", "sm_90a", "unknown", reasons=("k.ptx:1: data",) * 3)


def test_a_proof_is_its_verdict_its_assumptions_and_a_line_for_each_group_of_reviews() -> None:
    assert render_check((file(PROVEN),)).splitlines() == [
        "k.ptx: fine (sm_90a): proven for all trip counts; n from 1 to 2^31 - 1; 11 launches explored [0.00 s]",
        "  assuming x is 16 bytes",
        "  assuming no clocks",
        "  review[MB105] a-rule: 16 findings, the first at k.ptx:10; contested: fenced_init",
        "1 kernel checked: 1 proven",
    ]


def test_what_all_proofs_assume_is_said_once() -> None:
    other = replace(PROVEN, name="other", assumptions=("no clocks", "y is 4"), findings=())
    shown = render_check((file(PROVEN, other),)).splitlines()
    assert shown.count("all 2 proofs assume no clocks") == 1 and "  assuming y is 4" in shown
    assert "  assuming x is 16 bytes" in shown and len(shown) == 7
    everything = render_check((file(PROVEN, other),), View(everything=True))
    assert everything.count("  assuming no clocks") == 2 and everything.count("error[") == 0
    assert everything.count("review[MB105]: bad at") == 16 and "  loops repeat" in everything


def test_a_refutation_shows_the_first_of_each_group_in_full() -> None:
    shown = render_check((file(REFUTED),))
    lines = shown.splitlines()
    assert lines[0] == "k.ptx: bad (sm_90a): refuted by PX101 (7 times), TX104 [0.00 s]"
    assert lines[1].startswith("error[PX101]: bad at 2") and shown.count("error[") == 2
    assert "  and 6 more PX101 at lines 3, 4, 5, 6 and 2 more (--all shows them)" in lines
    assert "warp 0 writes at line 2" in shown and "warp 0 writes at line 3" not in shown
    assert lines[-2].startswith("  review[MB105]")
    assert render_check((file(REFUTED),), View(everything=True)).count("error[PX101]") == 7
    assert render_check((file(REFUTED),), View(reviews=True)).count("review[MB105]: bad at 1") == 1


def test_quiet_shows_what_is_not_plainly_proven_a_line_each() -> None:
    excepted = replace(PROVEN, name="but", suppressed=(Suppressed(found(3), "fine", "option"),))
    assert render_check((file(PROVEN, REFUTED, UNKNOWN, excepted),), View(quiet=True)).splitlines() == [
        "k.ptx: bad (sm_90a): refuted by PX101 (7 times), TX104",
        "  error[PX101] a-rule: 7 findings, the first at k.ptx:2",
        "  error[TX104] a-rule: at k.ptx:9",
        "k.ptx: open (sm_90a): unknown",
        "  not decided: k.ptx:1: data (3 times)",
        "k.ptx: but (sm_90a): proven for all trip counts except allowed PX101: fine; n from 1 to 2^31 - 1; "
        "11 launches explored",
    ]
    assert render_check((file(PROVEN),), View(quiet=True)) == ""


def test_statistics_count_findings_by_rule() -> None:
    assert render_check((file(PROVEN, REFUTED),), View(statistics=True)).splitlines() == [
        "17  MB105  a-rule  review  contested: fenced_init",
        " 7  PX101  a-rule  error",
        " 1  TX104  a-rule  error",
        "2 kernels checked: 1 proven, 1 refuted",
    ]


def test_kernels_that_are_open_for_the_same_reasons_say_so_once() -> None:
    shown = render_check((file(UNKNOWN, replace(UNKNOWN, name="next"), replace(UNKNOWN, name="x", reasons=("y",))),))
    assert shown.count("k.ptx:1: data (3 times)") == 1
    assert "  not decided, for the reasons of open" in shown.splitlines() and "  not decided: y" in shown


def test_a_proof_with_exceptions_says_so_in_every_format() -> None:
    aside = (*(Suppressed(found(line), "they run in step", "option") for line in (3, 4)), Suppressed(review(5), ""))
    files = (file(replace(PROVEN, scope="this launch", findings=(), suppressed=aside, launches=0, ranges=())),)
    words = "proven for this launch except allowed PX101: they run in step"
    shown = render_check(files)
    assert shown.splitlines()[0] == f"k.ptx: fine (sm_90a): {words} [0.00 s]"
    assert "  allowed PX101: they run in step (2 findings, the first at k.ptx:3)" in shown
    assert shown.endswith("1 kernel checked: 1 proven except for what is set aside")
    (kernel,) = check_to_json(files, tool="t")["files"][0]["kernels"]  # type: ignore[index]
    assert kernel["verdict"] == "proven" and kernel["exceptions"] == ["allowed PX101: they run in step"]
    assert [each["by"] for each in kernel["suppressed"]] == ["option", "option", "source"]
    assert any(words in line for line in workflow_commands(files)) and words in render_page(check_page(files, ""))
    results = check_to_sarif(files, version="1")["runs"][0]["results"]  # type: ignore[index]
    assert [each["suppressions"][0]["kind"] for each in results] == ["external", "external", "inSource"]


def test_json_has_groups_beside_every_finding() -> None:
    (kernel,) = check_to_json((file(PROVEN),), tool="t")["files"][0]["kernels"]  # type: ignore[index]
    assert len(kernel["findings"]) == 16 and kernel["launches"] == 11 and kernel["ranges"] == ["n from 1 to 2^31 - 1"]
    assert kernel["groups"] == [
        {"code": "MB105", "name": "a-rule", "level": "review", "contested": "fenced_init", "count": 16,
         "file": "k.ptx", "line": 10}
    ]  # fmt: skip


def test_a_page_shows_the_first_of_each_group_and_what_would_decide_before_reviews() -> None:
    page = render_page(check_page((file(REFUTED), file(replace(UNKNOWN, findings=(review(7),)))), ""))
    assert page.count("warp 0 writes") == 4 and "and 6 more PX101, at lines 3, 4, 5, 6, 7, 8" in page
    assert page.index("What would decide") < page.index("bad at 7")


def test_files_that_were_skipped_are_counted() -> None:
    skipped = (SkippedFiles("build", ".ptx", 1, ((".cubin", 2), (".ttgir", 1))),)
    said = "build: 1 .ptx file checked; skipped: 2 .cubin, 1 .ttgir (name a file to check it)"
    assert said in render_check((file(PROVEN),), skipped=skipped)
    assert check_to_json((), tool="t", skipped=skipped)["skipped"] == [
        {"folder": "build", "files": {".cubin": 2, ".ttgir": 1}}
    ]


def test_exit_codes_with_options() -> None:
    failed = FileReport("k.ptx", error="no such file")
    assert [exit_code((file(each),)) for each in (PROVEN, REFUTED, UNKNOWN)] == [0, 1, 3]
    assert exit_code((file(UNKNOWN),), allow_unknown=True) == 0 and exit_code((file(REFUTED),), allow_unknown=True) == 1
    assert exit_code((file(REFUTED, UNKNOWN),), exit_zero=True) == 0
    assert exit_code((file(REFUTED), failed), exit_zero=True, allow_unknown=True) == 2
    assert exit_code((), allow_unknown=True) == 3
