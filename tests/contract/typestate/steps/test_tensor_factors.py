"""Factors of blocks on their way to tensor memory: what is lowered is proven, each edit is refuted by its rule, at its
line. The program as it was is the twin of every edit.
"""

from functools import cache

import pytest
from tests.contract.typestate.steps.tensor_memory_programs import BLACKWELL, verdict
from tests.end_to_end.factor_programs import gated, scaled

from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac.names import name_values
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted


@cache
def lowered(kernel: Kernel, columns: int = 48) -> str:
    wanted, dims = Wanted(tile=(128, columns)), {"M": 400, "N": 500, "K": 640}
    narrow = {each.name: "f8e4m3" for each in kernel.parameters if each.element is None}
    module = walked(trace(kernel, dims, elements_of(kernel, narrow), None), BLACKWELL, wanted)
    decide(the_program(module), BLACKWELL, wanted)
    (only,) = lower_program(the_program(module)).kernels
    name_values(only.module)
    return "\n".join(line.strip() for line in str(only.module).splitlines()) + "\n"


@pytest.mark.parametrize("kernel", [scaled, gated])
def test_what_is_lowered_is_proven_as_it_reads_again(kernel: Kernel) -> None:
    found = verdict(lowered(kernel))
    assert isinstance(found, Proven), found
    assert any("ring s_ring: 4 stages" in claim and "129 arrivals" in claim for claim in found.claims)


def operation(text: str, name: str, number: int = 0) -> str:
    """The line of the operation with a number, of those of a name."""
    return [line for line in text.splitlines() if name in line][number]


def edited(old: str, new: str, name: str, number: int = 0) -> str:
    """The text with an edit of one line."""
    text = lowered(scaled)
    line = operation(text, name, number)
    assert old in line, line
    return text.replace(line, line.replace(old, new), 1)


@pytest.mark.parametrize(
    ("old", "new", "number", "code"),
    [
        ("column = 0, rows = 128", "column = 4, rows = 128", 0, "TC002"),  # other columns than in the loop
        ("column = 16, rows = 128", "column = 8, rows = 128", 1, "TC002"),  # those of the other ring's slots
        ("column = 16, rows = 128", "column = 24, rows = 128", 1, "TC002"),  # past the end
        ("column = 0, rows = 128", "column = 0, rows = 64", 0, "TC002"),  # half of what is copied at once
        ("cells = 1", "cells = 2", 0, "WG006"),  # beyond the slot
    ],
)
def test_columns_and_rows(old: str, new: str, number: int, code: str) -> None:
    found = verdict(edited(old, new, "ac.tensor.factors", number))
    assert isinstance(found, Refuted), found
    assert code in {each.code for each in found.findings}, found


def test_factors_that_threads_wrote_are_fenced() -> None:
    text = lowered(scaled)
    fence = operation(text, "ac.async_copy.fence")
    given, result = fence.split("fence ")[1].strip(), fence.split(" =")[0].strip()
    found = verdict(text.replace(fence + "\n", "", 1).replace(f"phase({result})", f"phase({given})", 1))
    assert isinstance(found, Refuted) and {"PX002"} & {each.code for each in found.findings}, found


def test_factors_are_used_and_released_once() -> None:
    text = lowered(scaled)
    released = [line for line in text.splitlines() if "ac.tensor.release" in line and "kept" in line]
    assert len(released) == 4
    lost = verdict(text.replace(released[0] + "\n", "", 1))
    assert isinstance(lost, Refuted) and "LV001" in {each.code for each in lost.findings}, lost
    twice = verdict(text.replace(released[0], released[0] + "\n" + released[0], 1))
    assert isinstance(twice, Refuted) and "LV002" in {each.code for each in twice.findings}, twice


def test_more_columns_of_sums_than_factors_leave() -> None:
    found = verdict(lowered(scaled).replace("factor_columns = 32", "factor_columns = 48", 1))
    assert isinstance(found, Refuted) and "TC002" in {each.code for each in found.findings}, found


def test_another_target_has_no_factors() -> None:
    found = verdict(lowered(scaled), on="sm_90a")
    assert isinstance(found, Refuted)


def test_a_product_has_factors_of_all_its_columns() -> None:
    text = lowered(scaled, 192)
    assert isinstance(verdict(text), Proven)
    line = operation(text, "ac.tensor.fill")
    first, second = line.split("factors(")[1].split(")")[0].split(", ")
    swapped = line.replace(f"factors({first}, {second})", f"factors({second}, {first})")
    found = verdict(text.replace(line, swapped, 1))
    assert isinstance(found, Refuted) and "TC002" in {each.code for each in found.findings}, found
