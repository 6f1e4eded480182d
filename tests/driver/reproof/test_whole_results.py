"""Each element of a result is written: a text that leaves one out is refuted, however well its accesses are ordered."""

from __future__ import annotations

import re

import pytest
from tests.lower.lowered_programs import Lowered, lower, lower_decided, matmul

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.compile.kernels import grouped_kernel, masked_kernel
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_groups import limits_of
from tilewright.driver.reproof.whole_results import results_in_groups, whole_results
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted

ELEMENTS: dict[str, Element] = dict.fromkeys("abc", Element.BF16)


def product(n: int = 136) -> Lowered:
    strides = {"b": (1, 128)}
    return lower(matmul, {"M": 130, "N": n, "K": 128}, ELEMENTS, strides, Wanted(tile=(64, 64)))


def judged(lowered: Lowered, text: str) -> object:
    return replay_plan(read(text), lowered.plan, {}, (0,), None, whole_results(the_program(lowered.module)))


def test_what_a_program_defines() -> None:
    assert whole_results(the_program(product().module)) == {"c"}
    kernel = grouped_kernel("none", False)
    kinds = {each.name: Element.S32 if each.name == "ends" else Element.BF16 for each in kernel.parameters}
    grouped = trace(kernel, {"T": 128, "G": 2, "K": 64, "N": 64}, kinds, None)
    assert whole_results(the_program(grouped)) == frozenset()


@pytest.mark.parametrize("n", [136, 131], ids=["in bulk", "along rows"])
def test_each_element_is_written(n: int) -> None:
    lowered = product(n)
    assert isinstance(judged(lowered, lowered.ptx), Proven)
    stores = [
        line for line in lowered.ptx.splitlines()
        if re.search(r"cp\.async\.bulk\.tensor\.2d\.global|st\.global", line)
    ]  # fmt: skip
    assert stores
    for line in stores[:1] + stores[-1:]:
        verdict = judged(lowered, lowered.ptx.replace(line, "", 1))
        assert isinstance(verdict, Refuted), line
        assert {finding.code for finding in verdict.findings} == {"UM103"}, verdict


def test_every_cta_takes_tiles_of_its_own() -> None:
    """Where all take the first one's, each writes the same bytes: no race by luck, and the other tiles are missing."""
    lowered = product()
    text = re.sub(r"mov\.u32 (%r\d+), %ctaid\.x;", r"mov.u32 \1, 0;", lowered.ptx)
    assert text != lowered.ptx
    assert isinstance(judged(lowered, text), Refuted)


@pytest.mark.parametrize("kernel", [grouped_kernel("none", False), masked_kernel("none")], ids=["in a row", "apart"])
def test_each_row_of_the_groups_is_written(kernel: Kernel) -> None:
    extents = {"T": 160, "M": 160, "G": 3, "K": 64, "N": 64}
    dims = {axis: size for axis, size in extents.items() if axis in kernel.axes}
    kinds = {each.name: Element.S32 if each.element is Element.S32 else Element.BF16 for each in kernel.parameters}
    decided = lower(kernel, dims, kinds, None, Wanted(tile=(64, 64)))
    instance = small_instance(decided.module)
    small, limits = lower_decided(instance, decided.decisions), limits_of(instance)
    kept = results_in_groups(the_program(instance), limits)
    assert kept.keys() == {"y"} and not kept["y"].all()
    assert isinstance(replay_plan(read(small.ptx), small.plan, {}, (0,), limits, frozenset(), kept), Proven)
    store = next(line for line in small.ptx.splitlines() if "st.global" in line or "2d.global.shared" in line)
    verdict = replay_plan(read(small.ptx.replace(store, "", 1)), small.plan, {}, (0,), limits, frozenset(), kept)
    assert isinstance(verdict, Refuted) and {finding.code for finding in verdict.findings} == {"UM103"}
