"""Numbers of tiles lead all roles of a text to the same places, each once, in all bands: other texts are refuted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import pytest
from tests.driver.reproof.decided_parts import decided_parts
from tests.driver.reproof.product_kinds import batched
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.plan import Launch
from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.reproof.program_sums import ProgramSums, program_sums
from tilewright.driver.reproof.reproof import reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.tile_places import misplaced_tiles
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.ptx.run_time import last_height, reciprocal
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted


@dataclass(frozen=True)
class Kind:
    kernel: Kernel
    dims: Mapping[str, int]
    wanted: Wanted
    counts: tuple[int, int]
    group: int = 8


DEEP = {"M": 64 * 19, "N": 64 * 5, "K": 128}
KINDS = {
    "plain": Kind(matmul_kernel, DEEP, Wanted(tile=(64, 64), stages=2, tile_group=8), (19, 5)),
    "direct store": Kind(matmul_kernel, {**DEEP, "N": 317}, Wanted(tile=(64, 64), stages=2, tile_group=8), (19, 5)),
    "hilbert": Kind(
        matmul_kernel, DEEP, Wanted(tile=(64, 64), stages=2, tile_order="hilbert", tile_group=4), (19, 5), 4
    ),
    "turns": Kind(
        matmul_kernel, {**DEEP, "M": 128 * 19}, Wanted(tile=(128, 64), stages=2, turns=True, tile_group=8), (19, 5)
    ),
    "pairs": Kind(matmul_kernel, DEEP, Wanted(tile=(64, 64), stages=2, cluster=(1, 2), tile_group=8), (19, 3)),
    "batch": Kind(batched, {"B": 3, **DEEP}, Wanted(tile=(64, 64), stages=2, tile_group=8), (19, 5)),
}


@cache
def made(name: str) -> tuple[ModuleOp, str, Launch, ProgramSums]:
    """A decided program and its text; the launch and the products of its small instance."""
    kind = KINDS[name]
    module = decided_parts(kind.kernel, dict(kind.dims), kind.wanted)[-1].module
    small = small_instance(module)
    sums = program_sums(the_program(small), {})
    assert sums is not None
    text = lower_to_ptx([item.module for item in lower_program(the_program(module)).kernels], "sm_90a")
    return module, text, launch_plan(lower_program(the_program(small))).launches[-1], sums


def found(name: str, text: str) -> set[str]:
    module, _, launch, sums = made(name)
    return {each.code for each in misplaced_tiles(read(text), the_program(module), launch, sums.arrays)}


def edited(text: str, pattern: str, by: str, number: int) -> str:
    places = list(re.finditer(pattern, text))
    at = places[number]
    return text[: at.start()] + at.expand(by) + text[at.end() :]


@pytest.mark.parametrize("name", KINDS)
def test_right_texts_pass_and_other_heights_of_bands_do_not(name: str) -> None:
    kind, text = KINDS[name], made(name)[1]
    assert found(name, text) == set()
    height = rf"(min\.u32 %r\d+, %r\d+), {kind.group};"
    roles = len(re.findall(height, text))
    assert roles > 1
    for role in (0, -1):
        assert found(name, edited(text, height, rf"\1, {kind.group - 1};", role)) == {"UM107"}, role
    # All roles alike: then places are met twice.
    assert found(name, re.sub(height, rf"\1, {kind.group - 1};", text)) == {"UM107"}


@pytest.mark.parametrize("name", ["plain", "direct store", "batch"])
def test_a_last_band_that_is_taken_for_a_whole_one(name: str) -> None:
    """The reciprocal of the last band's height, which decides in no small instance."""
    kind, text = KINDS[name], made(name)[1]
    last = reciprocal(last_height(kind.counts[0], kind.group))
    assert str(last) in text
    assert found(name, text.replace(str(last), str(reciprocal(kind.group)))) == {"UM107"}


def test_a_coordinate_that_does_not_move() -> None:
    """The small instance has one row of tiles; the large one's others would be loaded from the first."""
    text = made("plain")[1]
    register = re.findall(r"\[%rd\d+, \{(%r\d+), (%r\d+)\}\]", text)[0][1]
    assert found("plain", re.sub(rf"(mul\.lo\.s32 {register}), %r\d+, 64;", r"\1, 0, 64;", text)) == {"UM107"}


def test_a_fault_of_the_lowering_that_no_small_instance_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last band is taken to be as high as the others: right where there is one band alone."""
    module, text, *_ = made("plain")
    assert isinstance(reprove(module, text, "sm_90a", "plain"), Proven)
    monkeypatch.setattr("tilewright.lower.ptx.run_time.last_height", min)
    wrong = lower_to_ptx([item.module for item in lower_program(the_program(module)).kernels], "sm_90a")
    assert wrong != text
    verdict = reprove(module, wrong, "sm_90a", "plain")
    assert isinstance(verdict, Refuted) and {finding.code for finding in verdict.findings} == {"UM107"}
