"""From a judgement to a verdict, from a file to a report: what `check` adds to the judge."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.cli.checked_texts import NO_FENCE, launch_document
from tests.contract.replay_kernels import copy_text

from tilewright.base.check_report import FileReport, KernelReport, exit_code
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.error import TilewrightError
from tilewright.driver.check import check as check_module
from tilewright.driver.check.check import check_paths, check_text
from tilewright.driver.check.check_each import decide
from tilewright.driver.check.judge_kernel import Judgement
from tilewright.driver.check.options import REPAIR_STEPS, CheckOptions
from tilewright.driver.check.sources.text_file import decode_text
from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.report.findings.check_json import check_to_json

LAUNCH = launch_from_json(launch_document(), "launch.json")
ERROR = Diagnostic("TX101", "name", "message")
REVIEW = Diagnostic("TX101", "name", "message", level=Level.REVIEW)


@pytest.mark.parametrize(
    ("judgement", "kept", "verdict"),
    [
        (Judgement(), (), "proven"),
        (Judgement(), (REVIEW,), "proven"),
        (Judgement(), (ERROR,), "refuted"),
        (Judgement(doubts=("a doubt",)), (ERROR,), "refuted"),
        (Judgement(doubts=("a doubt",)), (REVIEW,), "unknown"),
        (Judgement(complete=False), (), "unknown"),
    ],
)
def test_verdicts(judgement: Judgement, kept: tuple[Diagnostic, ...], verdict: str) -> None:
    word, reasons = decide(judgement, kept, some_allowed=False)
    assert word == verdict and bool(reasons) == (verdict == "unknown")


@pytest.mark.parametrize(
    ("verdicts", "error", "code"),
    [
        (["proven"], "", 0),
        (["proven", "unknown"], "", 3),
        (["proven", "unknown", "refuted"], "", 1),
        (["refuted"], "no such file", 2),
        ([], "", 3),
    ],
)
def test_exit_codes(verdicts: list[str], error: str, code: int) -> None:
    kernels = tuple(KernelReport("k", "sm_90a", verdict) for verdict in verdicts)  # type: ignore[arg-type]
    assert exit_code((FileReport("k.ptx", kernels=kernels), FileReport("l.ptx", error=error))) == code


def test_time_that_is_not_enough_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object) -> Judgement:
        while True:
            pass

    monkeypatch.setattr(check_module, "judge_kernel", endless)
    report = check_text(copy_text(), launch=LAUNCH, options=CheckOptions(budget_seconds=2))
    assert report.kernels[0].verdict == "unknown" and "raise --budget" in report.kernels[0].reasons[0]


class Unheard(Exception):
    """What no list of exceptions has."""


def three_kernels() -> str:
    first = copy_text().replace("steps) {", "steps) .reqntid 64 {")
    body = first.partition(".visible")[2]
    return first + "".join(f".visible{body.replace('double(', f'{name}(', 1)}" for name in ("second", "third"))


@pytest.mark.parametrize("defect", [KeyError("x"), ZeroDivisionError(), AssertionError(), Unheard(), IndexError("56")])
def test_a_defect_of_ours_ends_the_report_of_its_kernel_alone(
    monkeypatch: pytest.MonkeyPatch, defect: Exception
) -> None:
    def broken(_module: Module, kernel: Kernel, *_others: object) -> Judgement:
        if kernel.name == "second":
            raise defect
        return Judgement()

    monkeypatch.delenv("TILEWRIGHT_TRACEBACK", raising=False)
    monkeypatch.setattr(check_module, "judge_kernel", broken)
    report = check_text(three_kernels())
    assert not report.error and [kernel.name for kernel in report.kernels] == ["double", "second", "third"]
    first, second, third = report.kernels
    assert first.verdict == third.verdict == "proven" and not first.defect and not third.defect
    (reason,) = second.reasons
    assert second.verdict == "unknown"
    assert re.fullmatch(rf"{type(defect).__name__} at check\.py:\d+", second.defect)
    assert "a fault of tilewright itself over second" in reason and second.defect in reason and "report it" in reason
    assert exit_code((report,)) == 3
    document = json.loads(json.dumps(check_to_json((report,), tool="tilewright")))
    assert [kernel["defect"] for kernel in document["files"][0]["kernels"]] == [None, second.defect, None]
    monkeypatch.setenv("TILEWRIGHT_TRACEBACK", "1")
    with pytest.raises(type(defect)):
        check_text(three_kernels())


def test_a_defect_beside_the_run_keeps_the_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_module: Module, kernel: Kernel) -> tuple[Diagnostic, ...]:
        if kernel.name == "third":
            raise TypeError("of ours")
        return ()

    monkeypatch.delenv("TILEWRIGHT_TRACEBACK", raising=False)
    monkeypatch.setattr(check_module, "unallocated", broken)
    report = check_text(three_kernels())
    assert [kernel.verdict for kernel in report.kernels] == ["proven", "proven", "unknown"]


def test_a_defect_of_the_reader_is_an_error_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Module:
        raise KeyError("x")

    monkeypatch.delenv("TILEWRIGHT_TRACEBACK", raising=False)
    monkeypatch.setattr(check_module, "read", broken)
    report = check_text(copy_text())
    assert "a fault of tilewright itself over the text of" in report.error and report.kernels == ()
    assert exit_code((report,)) == 2


def test_the_place_of_a_defect_is_in_our_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Judgement:
        return np.zeros(3).reshape(2, 2)  # type: ignore[return-value]

    monkeypatch.delenv("TILEWRIGHT_TRACEBACK", raising=False)
    monkeypatch.setattr(check_module, "judge_kernel", broken)
    (kernel,) = check_text(copy_text(), launch=LAUNCH).kernels
    assert kernel.defect.startswith("ValueError at check.py:")


def endless_second(_module: Module, kernel: Kernel, *_others: object) -> Judgement:
    while kernel.name == "second":
        pass
    return Judgement()


def test_kernels_that_a_file_has_no_time_for_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "judge_kernel", endless_second)
    seen: list[str] = []

    def progress(name: str, share: float) -> None:
        if share == 0.0:
            seen.append(name)

    options = CheckOptions(file_budget_seconds=1.5, budget_seconds=None, progress=progress)
    report = check_text(three_kernels(), options=options)
    assert [kernel.verdict for kernel in report.kernels] == ["proven", "unknown", "unknown"]
    assert report.kernels[1].reasons == ("stopped: the 1.5 s for the file are over; raise --file-budget",)
    (reason,) = report.kernels[2].reasons
    assert reason.startswith("not reached: the 1.5 s for the file were over after 2 of 3 kernels")
    assert seen == ["double (1 of 3)", "second (2 of 3)"]


def test_a_kernel_that_is_stopped_leaves_the_others_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "judge_kernel", endless_second)
    report = check_text(three_kernels(), options=CheckOptions(budget_seconds=0.5, file_budget_seconds=600.0))
    assert [kernel.verdict for kernel in report.kernels] == ["proven", "unknown", "proven"]
    assert report.kernels[1].reasons == ("stopped after 0.5 s; raise --budget",)


def test_steps_are_counted_and_bounded() -> None:
    whole = check_text(copy_text(), launch=LAUNCH).kernels[0]
    assert whole.steps == check_text(copy_text(), launch=LAUNCH).kernels[0].steps > 100
    options = CheckOptions(budget_steps=whole.steps)
    assert check_text(copy_text(), launch=LAUNCH, options=options).kernels[0].verdict == whole.verdict
    cut = check_text(copy_text(), launch=LAUNCH, options=CheckOptions(budget_steps=100)).kernels[0]
    assert (cut.verdict, cut.reasons) == ("unknown", ("stopped after 100 warp instructions",))


def test_what_the_machine_cannot_run_is_unknown_and_memory_that_is_not_there_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for raised, reason in (
        (TilewrightError("no such instruction"), "no such instruction"),
        (MemoryError(), "memory"),
        (RecursionError(), "nested too deeply"),
    ):

        def unable(*_: object, raised: Exception = raised) -> Judgement:
            raise raised

        monkeypatch.setattr(check_module, "judge_kernel", unable)
        (kernel,) = check_text(copy_text(), launch=LAUNCH).kernels
        assert kernel.verdict == "unknown" and reason in kernel.reasons[0]


def test_what_the_reader_passes_over_keeps_a_proof_away() -> None:
    text = copy_text().replace(".visible .entry double", ".unheard_of 3;\n.visible .entry double")
    report = check_text(text, launch=LAUNCH)
    assert report.error or report.kernels[0].verdict == "unknown"


def test_an_instruction_nobody_knows_keeps_a_proof_away() -> None:
    text = copy_text(**{"close": "DONE:\nmystery.async.b32 %r1, %r2;\nret;\n}\n"})
    report = check_text(text, launch=LAUNCH)
    assert report.error or report.kernels[0].verdict == "unknown"


def test_one_kernel_of_several_can_be_named() -> None:
    second = copy_text().partition(".visible")[2].replace("double(", "second(", 1)
    text = f"{copy_text()}.visible{second}"
    whole = launch_from_json({**launch_document(), "entry": "second"}, "launch.json")
    assert [kernel.name for kernel in check_text(text, launch=whole).kernels] == ["second"]
    named = check_text(text, launch=LAUNCH, options=CheckOptions(entry="double"))
    assert [kernel.name for kernel in named.kernels] == ["double"]
    assert "does not say which" in check_text(text, launch=LAUNCH).error
    assert "no kernel 'third'" in check_text(text, options=CheckOptions(entry="third")).error


def test_a_repair_proves_the_kernel_and_is_kept_out_where_none_is_wanted() -> None:
    text = copy_text(**NO_FENCE)
    report = check_text(text, launch=LAUNCH, options=CheckOptions(repair_steps=REPAIR_STEPS))
    repairs = [finding.repair for finding in report.kernels[0].errors if finding.repair and finding.repair.edits]
    assert repairs and repairs[0].rechecked
    report = check_text(text, launch=LAUNCH)
    assert all(not finding.repair.edits for finding in report.kernels[0].errors if finding.repair)


ASKS = "mov.u32 %r3, %cluster_nctarank;\nadd.u32 %r3, %r3, 1;"
ASKS_FOR_ONE = ".reg .pred %p1;\nmov.u32 %r3, %cluster_nctarank;\nsetp.eq.u32 %p1, %r3, 2;\n@%p1 exit;"
BARRIERS = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(){directives}
{{
.reg .b32 %r<4>;
.shared .align 4 .b8 words[512];
mov.u32 %r1, %tid.x;
shl.b32 %r1, %r1, 2;
mov.u32 %r2, words;
add.u32 %r2, %r2, %r1;
{code}
st.shared.u32 [%r2], %r1;
ld.shared.u32 %r3, [words];
ret;
}}
"""


@pytest.mark.parametrize(
    ("directives", "code", "verdict", "reason"),
    [
        (" .reqntid 64", "", "refuted", ""),
        ("", "", "unknown", "with a block of 32 threads it is proven"),
        (" .reqntid 64", "mov.u32 %r3, %cluster_ctarank;", "refuted", ""),
        (" .reqntid 64", ASKS, "refuted", ""),
        (" .reqntid 64", ASKS_FOR_ONE, "unknown", "with clusters of 2 CTAs it is proven"),
        (" .reqntid 64 .reqnctapercluster 1", "mov.u32 %r3, %cluster_ctarank;", "refuted", ""),
    ],
)
def test_a_launch_refutes_that_the_text_fixes_or_that_stands_for_all(
    directives: str, code: str, verdict: str, reason: str
) -> None:
    """All threads read what the first one stored: a race of two warps, if there are two."""
    (kernel,) = check_text(BARRIERS.format(directives=directives, code=code)).kernels
    assert kernel.verdict == verdict and reason in "".join(kernel.reasons)


def test_files_are_checked_in_order(tmp_path: Path) -> None:
    for name in ("b.ptx", "a.ptx"):
        (tmp_path / name).write_text(copy_text(), encoding="utf-8")
    reports = check_paths([str(tmp_path), str(tmp_path / "none.ptx")], launch=LAUNCH)
    assert [Path(report.path).name for report in reports] == ["a.ptx", "b.ptx", "none.ptx"]
    assert exit_code(reports) == 2


def test_texts_of_other_kinds() -> None:
    assert decode_text(b"\xef\xbb\xbf.version 8.0\n\0", "k.ptx") == ".version 8.0\n"
    for data, message in ((b"\x7fELF...", "cubin"), (b"\xff", "not UTF-8"), (b"a\0b", "NUL")):
        with pytest.raises(TilewrightError, match=message) as caught:
            decode_text(data, "k.ptx")
        assert caught.value.remedy


def test_launches_of_any_shape_end_without_a_defect() -> None:
    document = launch_document()
    for change in ({"grid": [2**31 - 1, 1, 1]}, {"block": [1]}, {"block": [1024]}, {"cluster": [2**31 - 1]}):
        launch = launch_from_json(json.loads(json.dumps({**document, **change})), "launch.json")
        report = check_text(copy_text(), launch=launch, options=CheckOptions(budget_seconds=3))
        assert "a fault of tilewright" not in report.error and not any(kernel.defect for kernel in report.kernels)


@pytest.mark.parametrize(
    ("old", "new", "said", "remedy"),
    [
        (".target sm_90a", ".target sm_80", "does not exist for sm_80", "sm_90 or later"),
        (".target sm_90a", ".target sm_80, debug", "does not exist for sm_80", "sm_90 or later"),
        ("steps) {", "steps) .reqntid 999999 {", "999,999 threads; a block has at most 1,024", "correct .reqntid"),
    ],
)
def test_what_no_assembler_takes_is_an_error_with_its_place(old: str, new: str, said: str, remedy: str) -> None:
    text = copy_text()
    assert old in text
    report = check_text(text.replace(old, new), "k.ptx")
    assert said in report.error and remedy in report.remedy and report.error_line and not report.kernels


@pytest.mark.sample(2)
@pytest.mark.parametrize("target", ["sm_90", "sm_100", "sm_100f", "sm_103a", "sm_120a", "sm_130a"])
def test_a_target_that_is_younger_than_the_tables_is_no_error(target: str) -> None:
    text = copy_text().replace(".target sm_90a", f".target {target}")
    assert not check_text(text, "k.ptx", options=CheckOptions(budget_steps=1_000)).error
