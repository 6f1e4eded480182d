"""Kernels are judged one after another: what ends one leaves the others their reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.driver.check.check_each import Share, Task, check_each
from tilewright.driver.check.judge_kernel import Judgement
from tilewright.driver.check.limits.budget import BudgetSpent, bounded
from tilewright.driver.check.limits.time_for_file import TimeForFile
from tilewright.driver.check.limits.work import add_steps, steps_left

ERROR = Diagnostic("TX101", "name", "message", Span("k.ptx", 3))


def task(name: str, judge: Callable[[], Judgement] = Judgement, *beside: Diagnostic) -> Task:
    def judged(_share: Share) -> Judgement:
        return judge()

    def found(judgement: Judgement) -> Iterable[Diagnostic]:
        return (*beside, *judgement.findings)

    return Task(name, "sm_90a", judged, found)


def run(steps: int) -> Judgement:
    while steps > 0:
        taken = min(steps_left(7), steps)
        add_steps(taken)
        steps -= taken
    return Judgement()


def failing(error: BaseException) -> Callable[[], Judgement]:
    def judge() -> Judgement:
        raise error

    return judge


def test_each_kernel_has_a_report_of_its_own_whatever_happens_to_the_others() -> None:
    tasks = [
        task("good", lambda: run(10)),
        task("bad", lambda: Judgement(findings=(ERROR,))),
        task("beside", Judgement, ERROR),
        task("lacking", failing(TilewrightError("no such instruction", span=Span("k.ptx", 7)))),
        task("large", failing(MemoryError())),
        task("deep", failing(RecursionError())),
        task("absent", failing(FileNotFoundError(2, "no such file", "table.toml"))),
        task("long", lambda: run(1000)),
        task("last", lambda: run(20)),
    ]
    reports = check_each(tasks, "k.ptx", (), TimeForFile(None, None), steps=100)
    verdicts = ["proven", "refuted", "refuted", *["unknown"] * 5, "proven"]
    assert [kernel.verdict for kernel in reports.kernels] == verdicts
    assert not reports.complete and not any(kernel.defect for kernel in reports.kernels)
    said = [kernel.reasons for kernel in reports.kernels]
    assert said[3] == ("k.ptx:7: no such instruction",)
    assert "memory" in said[4][0] and "nested too deeply" in said[5][0]
    assert "an error of the system: no such file: table.toml" in said[6][0]
    assert said[7] == ("stopped after 100 warp instructions",)
    assert [kernel.steps for kernel in reports.kernels] == [10, 0, 0, 0, 0, 0, 0, 100, 20]


def test_a_defect_is_named_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_TRACEBACK", raising=False)
    reports = check_each(
        [task("one", failing(IndexError("56 lanes of 32"))), task("two")], "k.ptx", (), TimeForFile(None, None)
    )
    one, two = reports.kernels
    assert one.verdict == "unknown" and one.defect.startswith("IndexError at ") and two.verdict == "proven"
    assert not one.findings and len(one.reasons) == 1


def test_the_alarm_of_a_block_around_is_not_taken_for_a_kernels_own() -> None:
    def endless() -> Judgement:
        while True:
            pass

    with pytest.raises(BudgetSpent), bounded(0.2):
        check_each([task("endless", endless)], "k.ptx", (), TimeForFile(60.0, None))
    (kernel,) = check_each([task("endless", endless)], "k.ptx", (), TimeForFile(0.2, None)).kernels
    assert kernel.reasons == ("stopped after 0.2 s; raise --budget",) and kernel.stopped


def test_what_was_open_when_time_was_over_stands_among_the_reasons() -> None:
    def stopped() -> Judgement:
        try:
            while True:
                pass
        except BudgetSpent as spent:
            spent.open = ("k.ptx:7:2: no launch tried leaves the loop",)
            raise

    (kernel,) = check_each([task("stopped", stopped)], "k.ptx", (), TimeForFile(0.2, None)).kernels
    assert kernel.reasons == ("stopped after 0.2 s; raise --budget", "k.ptx:7:2: no launch tried leaves the loop")
    assert kernel.verdict == "unknown" and kernel.stopped


def test_progress_names_the_kernel_and_its_place_among_the_others() -> None:
    seen: list[str] = []
    tasks = [task(f"kernel{number}") for number in range(57)]
    check_each(tasks, "k.ptx", (), TimeForFile(None, None), progress=lambda name, share: seen.append(name))
    assert len(seen) == 57 and (seen[0], seen[-1]) == ("kernel0 (1 of 57)", "kernel56 (57 of 57)")
    seen.clear()
    check_each(tasks[:1], "k.ptx", (), TimeForFile(None, None), progress=lambda name, share: seen.append(name))
    assert seen == ["kernel0"]


def test_kernels_after_the_time_of_the_file_are_not_reached() -> None:
    reports = check_each([task("one"), task("two")], "k.ptx", (), TimeForFile(60.0, 0.0))
    assert [kernel.verdict for kernel in reports.kernels] == ["unknown", "unknown"]
    for kernel in reports.kernels:
        assert kernel.reasons[0].startswith("not reached: the 0 s for the file were over after 0 of 2 kernels")
        assert kernel.stopped
