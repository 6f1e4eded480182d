"""PTX from a text of `ac` kernels is that of the kernels it was written from, and there is none without a proof."""

from __future__ import annotations

import pytest
from tests.ac_samples import NAMES, TARGET, modules_of, target_of

from tilewright.base.error import TilewrightError
from tilewright.driver.compile.lower_text import lower_text
from tilewright.ir.ac.text import ac_text
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx, the_kernel


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", NAMES)
def test_text_gives_the_same_ptx_as_the_modules(name: str) -> None:
    modules = modules_of(name)
    lowered = lower_text(ac_text(modules, target_of(name)), "k.ac.mlir")
    assert lowered.ptx == lower_to_ptx(modules, target_of(name))


def test_one_kernel_of_several() -> None:
    modules = modules_of("odd M and N")
    text = ac_text(modules, TARGET)
    for module in modules:
        lowered = lower_text(text, "k.ac.mlir", entry=the_kernel(module).sym_name.data)
        assert lowered.ptx == lower_to_ptx([module], TARGET)


def test_what_is_not_proven_is_not_lowered() -> None:
    text = ac_text(modules_of("many tiles"), TARGET)
    refuted = lower_text(text.replace("ac.fence.mbarrier_init\n", "\n"), "k.ac.mlir")
    assert refuted.ptx is None and [kernel.verdict for kernel in refuted.report.kernels] == ["refuted"]
    unknown = lower_text(text.replace("ac.cta.sync", "ac.cta.sync attributes {note = 1 : i32}"), "k.ac.mlir")
    assert unknown.ptx is None and [kernel.verdict for kernel in unknown.report.kernels] == ["unknown"]
    unread = lower_text(text.replace("ac.cursor.start", "ac.cursor.begin"), "k.ac.mlir")
    assert unread.ptx is None and unread.report.error


def test_one_kernel_that_is_not_proven_is_enough() -> None:
    text = ac_text(modules_of("odd M and N"), TARGET)
    lowered = lower_text(text.replace("ac.fence.mbarrier_init\n", "\n"), "k.ac.mlir")
    assert lowered.ptx is None and sorted(each.verdict for each in lowered.report.kernels) == ["proven", "refuted"]


def test_a_plan_that_does_not_fit_is_refused() -> None:
    text = ac_text(modules_of("transposed copy"), TARGET)
    assert "elements = [[0, " in text
    with pytest.raises(TilewrightError, match="does not fit its elements"):
        lower_text(text.replace("elements = [[0, ", "elements = [[999, ", 1), "k.ac.mlir")


def test_other_languages_are_refused() -> None:
    with pytest.raises(TilewrightError, match="no text of the `ac` dialect"):
        lower_text(".version 8.1\n.target sm_90a\n", "k.ptx")
