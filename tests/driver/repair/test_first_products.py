"""The first product of a sum is made to overwrite, and no later one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import REPAIR_STEPS, CheckOptions
from tilewright.driver.repair.candidates import candidates
from tilewright.driver.repair.edits import apply_edits
from tilewright.driver.repair.first_products import first_products
from tilewright.driver.repair.text import applied, subject_of
from tilewright.frontends.ptx.reader import read

_BUGGY = (Path(__file__).parents[3] / "docs" / "bugs" / "first-product-accumulates" / "buggy.ptx").read_text("utf-8")
_COMPARED = "setp.ge.u32 %p5, %r5, 0;"
_PRODUCT = "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r30], %rd5, %rd5, 0x8080490, %p5; // here"
_LOOP = "add.u32 %r5, %r5, 1;\n\tsetp.lt.u32 %p6, %r5, 4;\n\t@%p6 bra $step;"


def _with(*changes: tuple[str, str]) -> str:
    text = _BUGGY
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def _check(text: str) -> KernelReport:
    (report,) = check_text(text, "k.ptx", options=CheckOptions(repair_steps=REPAIR_STEPS)).kernels
    return report


def _repaired(text: str) -> str:
    report = _check(text)
    assert report.verdict == "refuted" and [each.code for each in report.errors] == ["TC122"]
    repair = report.errors[0].repair
    assert repair is not None and repair.rechecked
    return apply_edits(text, repair.edits)


def _proposed(text: str) -> list[str]:
    report = _check(text)
    subject = subject_of(text, read(text, "k.ptx", tolerant=True), report.errors[0])
    assert subject is not None
    return [changed for each in first_products(subject) if (changed := applied(text, each)) is not None]


def test_a_comparison_that_holds_at_its_bound_leaves_it_out() -> None:
    assert _repaired(_BUGGY) == _with((_COMPARED, "setp.gt.u32 %p5, %r5, 0;"))


@pytest.mark.parametrize("always", ["mov.pred %p5, -1;", "setp.eq.u32 %p5, %r0, %r0;"])
def test_in_a_loop_products_add_from_the_second_on(always: str) -> None:
    repaired = _repaired(_with((_COMPARED, always)))
    assert _check(repaired).verdict == "proven"
    assert always in repaired and repaired.count("tcgen05.mma") == 1
    before, after = repaired.split("tcgen05.mma")
    assert before.index("mov.pred tilewright_adds, 0;") < before.index("$step:")
    assert after.index("@%p0 mov.pred tilewright_adds, 1;") < after.index("bra $step;")


def test_a_negated_flag_stays_negated() -> None:
    text = _with((_COMPARED, "mov.pred %p5, 0;"), (_PRODUCT, _PRODUCT.replace("%p5", "!%p5")))
    repaired = _repaired(text)
    assert "not.pred tilewright_adds_now, %p5;" in repaired and "0x8080490, tilewright_adds_now; // here" in repaired
    assert _check(repaired).verdict == "proven"


def test_without_a_loop_the_first_product_alone_overwrites() -> None:
    text = _with((_COMPARED, "mov.pred %p5, -1;"), (_LOOP, _PRODUCT))
    repaired = _repaired(text)
    first, second = (line for line in repaired.split("\n") if "tcgen05.mma" in line)
    assert "tilewright_adds; }" in first and second.strip() == _PRODUCT
    assert _check(repaired).verdict == "proven"


def test_a_step_of_several_products_keeps_its_bound() -> None:
    """`i > 0` would let every product of the first step overwrite the one before it."""
    text = _with((_PRODUCT, f"{_PRODUCT}\n\t{_PRODUCT}"))
    assert not any("setp.gt" in each for each in _proposed(text))
    assert _repaired(text).count("0x8080490, tilewright_adds_now;") == 1


def test_of_several_loops_none_is_guessed() -> None:
    around = (
        "mov.u32 %r5, 0;",
        "mov.u32 %r6, 0;\n\t$tile:\n\tmov.u32 %r5, 0;",
    )
    again = "@%p6 bra $step;\n\tadd.u32 %r6, %r6, 1;\n\tsetp.lt.u32 %p7, %r6, 2;\n\t@%p7 bra $tile;"
    text = _with(around, ("@%p6 bra $step;", again), (_COMPARED, "mov.pred %p5, -1;"))
    assert _proposed(text) == []


def test_other_findings_get_no_such_edit() -> None:
    text = _with((_COMPARED, "setp.ne.u32 %p5, %r5, 0;"), ("fence.proxy.async.shared::cta;", ""))
    report = _check(text)
    assert report.errors and report.errors[0].code != "TC122"
    module = read(text, "k.ptx", tolerant=True)
    assert not any("product" in each.title for each in candidates(text, module, report.errors[0]))
