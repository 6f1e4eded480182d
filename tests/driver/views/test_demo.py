"""The demo's steps: what is broken is refuted by the rule that it breaks, and what is not broken is not refuted."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.listing import listing
from tilewright.driver.views import demo
from tilewright.driver.views.demo import VARIANTS, Comparison, Specimen, Variant, break_it, changes
from tilewright.frontends.ptx.reader import read
from tilewright.runtime.bundle import Bundle
from tilewright.targets import target

HOPPER = target("sm_90a")


@pytest.fixture(scope="module")
def specimen() -> Specimen:
    dims = dict.fromkeys("MNK", 4096)
    return Specimen.of(compile_kernel(matmul_kernel, dims=dims, assembled=False, rerun=False))


def codes(verdict: Verdict) -> set[str]:
    assert isinstance(verdict, Refuted)
    return {finding.code for finding in verdict.findings}


def test_the_original_is_proven_both_ways(specimen: Specimen) -> None:
    assert isinstance(verify(specimen.module, HOPPER), Proven)
    assert isinstance(specimen.judge(specimen.ptx), Proven)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("variant", "of_program", "of_text"),
    list(zip(VARIANTS, ({"PX001"}, {"TX001"}, {"WG002"}), ("PX101", "TX102", "WG105"), strict=True)),
    ids=lambda value: value.title if isinstance(value, Variant) else "",
)
def test_a_broken_variant_is_refuted_by_its_rule(
    specimen: Specimen, variant: Variant, of_program: set[str], of_text: str
) -> None:
    broken = break_it(specimen, variant, lambda _: None)
    assert broken.refuted
    assert codes(broken.program.verdict) == of_program
    assert of_text in codes(broken.ptx.verdict)
    # One line differs, and every place named is a line of the text that was judged.
    for judged in (broken.program, broken.ptx):
        assert len(judged.edits) == 1
        lines = judged.text.splitlines()
        assert isinstance(judged.verdict, Refuted)
        for finding in judged.verdict.findings:
            for span in (finding.primary, finding.conflicts_with):
                assert span is None or lines[span.line - 1] == span.text


def test_a_harmless_edit_is_not_refuted(specimen: Specimen) -> None:
    def nothing(module: ModuleOp) -> None:
        del module

    added = Variant("a second fence", "", nothing, r"(\tfence\.proxy\.async\.shared::cta;\n)", _twice)
    broken = break_it(specimen, added, lambda _: None)
    assert not broken.refuted
    assert isinstance(broken.program.verdict, Proven) and isinstance(broken.ptx.verdict, Proven)


def _twice(match: re.Match[str]) -> str:
    return match.group(1) * 2


def test_a_pattern_that_matches_nothing_is_an_error(specimen: Specimen) -> None:
    absent = Variant("nothing", "", lambda module: None, r"no such instruction", _twice)
    with pytest.raises(AssertionError, match="nothing in the text to break"):
        break_it(specimen, absent, lambda _: None)


def test_the_listing_places_every_operation(specimen: Specimen) -> None:
    text, places = listing(specimen.module, "k.mlir")
    lines = text.splitlines()
    seen: list[int] = []
    for operation in specimen.module.walk():
        span = places(operation)
        assert lines[span.line - 1] == span.text and operation.name in span.text
        assert span.text[span.column - 1] not in " \t"
        seen.append(span.line)
    assert seen == sorted(set(seen))
    assert " : (" not in text


def test_changes_look_past_the_numbers_of_values() -> None:
    (edit,) = changes('%1 = "a"()\n%2 = "b"(%1)\n%3 = "c"(%2)\n', '%1 = "a"()\n%2 = "c"(%1)\n')
    assert (edit.line, edit.before, edit.after) == (2, '%2 = "b"(%1)', "")
    assert changes("%1 = x %4, %5\n", "%7 = x %8\n") == ()


@pytest.mark.parametrize(("error", "close"), [(1.7e-3, True), (5e-3, False), (float("nan"), False)])
def test_an_error_that_is_no_number_is_not_close(error: float, close: bool) -> None:
    assert Comparison("CPU machine", (1, 1, 1), 0.0, error, 0.0, 1.0).close is close


def test_a_gpu_that_can_is_used_at_the_compiled_size(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[str] = []

    class OnGpu:
        """Stands for the runtime: the product as NumPy has it, in the arrays' own type."""

        def __init__(self, bundle: Bundle) -> None:
            self.extent = bundle.plan.buffer("c").shape[0]

        def __call__(self, a: np.ndarray, b: np.ndarray, *, on: str) -> np.ndarray:
            places.append(on)
            assert a.shape == (self.extent, self.extent)
            return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)

    monkeypatch.setattr(demo, "gpu_runs", lambda target: target == "sm_90a")
    monkeypatch.setattr(demo, "CompiledKernel", OnGpu)
    monkeypatch.setattr(demo, "COMPILED_EXTENT", 128)
    compilation = compile_kernel(matmul_kernel, dims=dict.fromkeys("MNK", 128), assembled=False, rerun=False)
    comparison = demo.compare(compilation, lambda _: None)
    assert places == ["gpu"] and comparison.where == "GPU" and comparison.extents == (128, 128, 128)
    assert comparison.close and comparison.rounded_share > 0.99


def test_the_emitted_text_is_read_back(specimen: Specimen) -> None:
    assert [kernel.name for kernel in read(specimen.ptx, "k.ptx").kernels] == ["matmul_kernel"]
