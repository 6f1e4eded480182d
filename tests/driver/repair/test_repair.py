"""Repairs: what is shown is proven, fixes what was wrong, and takes no work away."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tests.driver.repair.repaired_kernels import CORRECT, RING, checked, repair_of, work

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.driver.check.check import check_text
from tilewright.driver.check.limits.budget import BudgetSpent, bounded
from tilewright.driver.check.options import REPAIR_STEPS, CheckOptions
from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.driver.repair.candidates import candidates
from tilewright.driver.repair.edits import apply_edits
from tilewright.driver.repair.rechecks import LINE_STEPS
from tilewright.driver.repair.repair import with_repairs
from tilewright.driver.repair.text import applied, subject_of
from tilewright.frontends.ptx.reader import read

BUGS = Path(__file__).parents[3] / "docs" / "bugs"
PAIRS = tomllib.loads((BUGS / "index.toml").read_text())


def broken(old: str, new: str, count: int = 1) -> str:
    assert old in CORRECT
    return CORRECT.replace(old, new, count)


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", PAIRS)
def test_every_bug_is_mended_without_taking_work_away(name: str) -> None:
    text = (BUGS / name / "buggy.ptx").read_text()
    launch_file = BUGS / name / "launch.json"
    launch = read_launch_file(str(launch_file)) if launch_file.exists() else None
    isa = PAIRS[name].get("isa", "tolerant")
    report = check_text(text, name, launch=launch, options=CheckOptions(isa=isa, repair_steps=REPAIR_STEPS))
    repair = repair_of(report.kernels[0])
    assert repair is not None
    repaired = apply_edits(text, repair.edits)
    again = check_text(repaired, name, launch=launch, options=CheckOptions(isa=isa))
    assert [kernel.verdict for kernel in again.kernels] == ["proven"]
    assert not work(text) - work(repaired)


def test_the_ring_is_proven() -> None:
    assert [kernel.verdict for kernel in checked(CORRECT).kernels] == ["proven"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("_, [%r8], 2048;", "_, [%r8], 4096;"),
        ("_, [%r8], 2048;", "_, [%r8], 1024;"),
        ("init.shared::cta.b64 [full], 1;", "init.shared::cta.b64 [full], 2;"),
        ("[%rd1], 2048, [%r8];", "[%rd1], 2048, [%r8+8];"),
        ("[%r9], %r12;", "[%r9], %r3;"),
        ("[%r11], [%rd1]", "[%r11+8], [%rd1]"),
    ],
)
def test_what_was_right_is_restored(old: str, new: str) -> None:
    report = checked(broken(old, new))
    repair = repair_of(report.kernels[0])
    assert repair is not None
    repaired = apply_edits(report.text, repair.edits)
    changed = [(a, b) for a, b in zip(CORRECT.split("\n"), repaired.split("\n"), strict=True) if a != b]
    assert not changed or all("parity" in b for _, b in changed)


@pytest.mark.parametrize(
    "dropped",
    [
        "\tmbarrier.arrive.shared::cta.b64 _, [%r9];\n",
        "\t@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 2048;\n",
        "\t@%p0 mbarrier.init.shared::cta.b64 [full+8], 1;\n",
        "\tbar.sync 0;\n",
    ],
)
def test_what_is_missing_is_put_back(dropped: str) -> None:
    report = checked(broken(dropped, ""))
    repair = repair_of(report.kernels[0])
    assert repair is not None
    repaired = apply_edits(report.text, repair.edits)
    assert work(repaired) == work(CORRECT)
    row = dropped.split()[1 if dropped.startswith("\t@") else 0].split(".shared")[0].split(".sync")[0]
    assert repaired.count(row) == CORRECT.count(row)


@pytest.mark.parametrize(
    "line",
    [
        "\tmbarrier.arrive.shared::cta.b64 _, [%r9];\n",
        "\t@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 2048;\n",
    ],
)
def test_what_stands_twice_is_taken_away_once(line: str) -> None:
    report = checked(broken(line, line + line))
    repair = repair_of(report.kernels[0])
    assert repair is not None and apply_edits(report.text, repair.edits) == CORRECT


def test_a_guard_that_was_lost_is_found() -> None:
    report = checked(broken("\t@%p0 cp.async.bulk", "\tcp.async.bulk"))
    repair = repair_of(report.kernels[0])
    assert repair is not None and apply_edits(report.text, repair.edits) == CORRECT


def test_a_release_before_its_use_is_moved() -> None:
    use, release = "\tld.shared.b32 %r15, [%r11];\n", "\tmbarrier.arrive.shared::cta.b64 _, [%r9];\n"
    report = checked(broken(use + release, release + use))
    repair = repair_of(report.kernels[0])
    assert repair is not None and apply_edits(report.text, repair.edits) == CORRECT


def test_no_more_texts_are_checked_than_allowed_and_none_without_time() -> None:
    text = broken("[%r9], %r12;", "[%r9], %r3;")
    report = checked(text, steps=0)
    asked: list[str] = []

    def recheck(other: str, kernel: str | None) -> FileReport:
        assert kernel == "ring"
        asked.append(other)
        return check_text(other, "k.ptx")

    assert not with_repairs(report, recheck, attempts=3).notes
    assert len(asked) == 3 and len(set(asked)) == 3 and text not in asked
    asked.clear()
    assert with_repairs(report, recheck, steps=0) == report and not asked
    (note,) = with_repairs(report, recheck, seconds=0.0).notes
    assert not asked and "was stopped after 0 s" in note and "--budget" in note


def test_a_search_that_time_ends_keeps_what_it_found() -> None:
    second = RING.replace("ring(", "second(")
    text = broken("_, [%r8], 2048;", "_, [%r8], 4096;") + second.replace("_, [%r8], 2048;", "_, [%r8], 4096;")
    report = checked(text, steps=0)

    def recheck(other: str, kernel: str | None) -> FileReport:
        while kernel == "second":
            pass
        return check_text(other, "k.ptx", options=CheckOptions(entry=kernel))

    found = with_repairs(report, recheck, seconds=2.0)
    assert repair_of(found.kernels[0]) is not None and repair_of(found.kernels[1]) is None
    assert len(found.notes) == 1


def test_the_alarm_of_a_block_around_ends_the_search_as_well() -> None:
    report = checked(broken("_, [%r8], 2048;", "_, [%r8], 4096;"), steps=0)

    def endless(other: str, _kernel: str | None) -> FileReport:
        while True:
            pass

    with pytest.raises(BudgetSpent), bounded(0.2):
        with_repairs(report, endless, seconds=60.0)


def test_steps_bound_the_search_whatever_the_clock_says() -> None:
    text = broken("[%r9], %r12;", "[%r9], %r3;")
    report = checked(text, steps=0)
    asked: list[str] = []

    def recheck(other: str, kernel: str | None) -> FileReport:
        asked.append(other)
        return check_text(other, "k.ptx", options=CheckOptions(entry=kernel))

    found = with_repairs(report, recheck, steps=REPAIR_STEPS)
    most = len(asked)
    assert repair_of(found.kernels[0]) is not None and most > 1
    steps = sum(check_text(other, "k.ptx").kernels[0].steps + LINE_STEPS * other.count("\n") for other in asked[:-1])
    asked.clear()
    assert with_repairs(report, recheck, steps=steps) == report
    assert len(asked) == most - 1


def test_other_kernels_are_checked_again_where_more_than_the_kernel_changes() -> None:
    text = broken("_, [%r8], 2048;", "_, [%r8], 4096;") + RING.replace("ring(", "second(")
    report = checked(text, steps=0)
    asked: list[str | None] = []

    def recheck(other: str, kernel: str | None) -> FileReport:
        asked.append(kernel)
        return check_text(other, "k.ptx", options=CheckOptions(entry=kernel))

    assert repair_of(with_repairs(report, recheck).kernels[0]) is not None
    assert set(asked) == {"ring"}
    asked.clear()
    crowded = text.replace("\n.visible .entry second", " .visible .entry second")
    assert crowded != text
    tight = crowded.replace("\n}\n .visible", " } .visible").replace("\n} .visible", " } .visible")
    report = checked(tight, steps=0)
    assert repair_of(with_repairs(report, recheck).kernels[0]) is not None
    assert asked[-1] is None


def test_an_edit_that_only_silences_the_finding_is_not_taken() -> None:
    report = checked(broken("_, [%r8], 2048;", "_, [%r8], 4096;"), steps=0)

    def unknown(other: str, _kernel: str | None) -> FileReport:
        kernel = KernelReport("ring", "sm_90a", "unknown", reasons=("not decided",))
        return FileReport("k.ptx", other, (kernel,))

    assert with_repairs(report, unknown, attempts=20) == report


def test_another_kernel_may_not_become_worse() -> None:
    # On one line, so that an edit of the one kernel may be one of the other.
    second = RING.replace("ring(", "second(").lstrip()
    report = checked(
        f"{broken('_, [%r8], 2048;', '_, [%r8], 4096;').rstrip().removesuffix('}').rstrip()}}} {second}", steps=0
    )
    assert [kernel.verdict for kernel in report.kernels] == ["refuted", "proven"]

    def worse(other: str, _kernel: str | None) -> FileReport:
        good = KernelReport("ring", "sm_90a", "proven")
        bad = KernelReport("second", "sm_90a", "refuted", findings=report.kernels[0].findings)
        return FileReport("k.ptx", other, (good, bad))

    assert with_repairs(report, worse, attempts=20) == report


def test_each_kernel_is_mended_by_itself() -> None:
    second = RING.replace("ring(", "second(").replace("_, [%r8], 2048;", "_, [%r8], 4096;")
    report = checked(CORRECT + second)
    first, other = report.kernels
    assert first.verdict == "proven" and not first.errors
    repair = repair_of(other)
    assert repair is not None and apply_edits(report.text, repair.edits) == CORRECT + RING.replace("ring(", "second(")


def test_costs_are_told_where_they_are_known() -> None:
    text = (BUGS / "store-without-a-proxy-fence" / "buggy.ptx").read_text()
    repair = repair_of(checked(text).kernels[0])
    assert repair is not None and "fence" in repair.cost


def test_candidates_change_the_text_and_no_line_of_another_kernel() -> None:
    text = broken("_, [%r8], 2048;", "_, [%r8], 4096;") + RING.replace("ring(", "second(")
    finding = check_text(text, "k.ptx").kernels[0].errors[0]
    module = read(text, "k.ptx", tolerant=True)
    found = list(candidates(text, module, finding))
    assert len(found) > 10 and len({candidate.title for candidate in found}) > 10
    tail = text[text.index(".visible .entry second") :]
    for candidate in found:
        changed = applied(text, candidate)
        assert changed is None or (changed != text and changed.endswith(tail))


def test_what_nothing_uses_is_known() -> None:
    finding = check_text(broken("_, [%r8], 2048;", "_, [%r8], 4096;"), "k.ptx").kernels[0].errors[0]
    whole = subject_of(CORRECT, read(CORRECT, "k.ptx"), finding)
    assert whole is not None and not whole.dead
    text = broken("[%r9], %r12;", "[empty], 1;")
    subject = subject_of(text, read(text, "k.ptx"), finding)
    assert subject is not None and [place.text for place in subject.dead] == ["xor.b32 %r12, %r3, 1;"]
