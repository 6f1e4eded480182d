"""A role that issues ahead of consumers which issue, too: what is lowered is proven, each edit is refuted by its rule.

The program is attention of tiles of 128 rows: one thread multiplies queries with keys into slots of tensor memory, two
units fold what it gives, and multiply that with the values from parts of their own.
"""

import re
from functools import cache

import pytest
from tests.contract.typestate.steps.tensor_memory_programs import BLACKWELL, verdict
from tests.lower import cascade_programs

from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.sequence import sequence
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac.names import name_values
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted

ATTENTION = (("B", 1), ("H", 2), ("Q", 200), ("T", 300), ("E", 64), ("F", 48))
GRADIENTS = (("M", 300), ("E", 64), ("T", 200), ("F", 64))


@cache
def lowered(kernel: Kernel, dims: tuple[tuple[str, int], ...]) -> str:
    module = trace(kernel, dict(dims), elements_of(kernel, "bf16"), None)
    (part,) = sequence(module, BLACKWELL, Wanted(issuer=True))
    (only,) = lower_program(the_program(part.module)).kernels
    name_values(only.module)
    return "\n".join(line.strip() for line in str(only.module).splitlines()) + "\n"


@pytest.mark.parametrize(
    ("kernel", "dims"), [(cascade_programs.attention, ATTENTION), (cascade_programs.two_gradients, GRADIENTS)]
)
def test_what_is_lowered_is_proven_as_it_reads_again(kernel: Kernel, dims: tuple[tuple[str, int], ...]) -> None:
    text = lowered(kernel, dims)
    assert "ring_columns" in text and "ac.tensor.fill" in text and "ac.tensor.issue_stored" in text
    found = verdict(text)
    assert isinstance(found, Proven), found


RELEASE, HAND_OVER = "ac.tensor.release %reading_1\n", "ac.tensor.hand_over %filling_1\n"
LAST = "ac.tensor.release %a_reading_1\n"
MEET, DONE = "ac.tensor.fence %unit_2 [first_barrier = 1]\n", "ac.mbarrier.arrive %held [peers = 1]\n"
READ = "phase(%phase_8) unit(%unit_2) [column = 0]"
STORED = "unit(%unit_2) [column = 48]"
INIT = "ac.tensor.init %tensor_memory\n"
RING = "@sums_ring [stages = 2, full_arrivals = 1, empty_arrivals = 2"
KEYS = "@k_ring [stages = 4, full_arrivals = 1, empty_arrivals = 1"
REFUTED: dict[str, tuple[tuple[tuple[str, str], ...], str]] = {
    "sums are never handed over": (((HAND_OVER, ""),), "LV001"),
    "sums are handed over twice": (((HAND_OVER, HAND_OVER + HAND_OVER),), "LV002"),
    "keys are never released": (((RELEASE, ""),), "LV001"),
    "queries are never released": (((LAST, ""),), "LV001"),
    "queries are released in every iteration": (
        ((RELEASE, RELEASE + "ac.tensor.release %a_reading_3\n"),), "LV002"),
    "a slot of sums is released before all have read it": (((MEET + DONE, DONE),), "TC003"),
    "a slot of sums is never released": (((DONE, ""),), "LV001"),
    "columns of the slot that nothing filled": (((READ, READ.replace("column = 0", "column = 8")),), "TC002"),
    "columns beyond the slot": (
        (("m = 128, n = 128, column = 0, accumulate = 0", "m = 128, n = 128, column = 8, accumulate = 0"),), "TC002"),
    "an operand beyond the unit's part": (((STORED, STORED.replace("48", "72")),), "TC002"),
    "an operand over the sums": (((STORED, STORED.replace("48", "40")),), "TC002"),
    "parts that are smaller than what they hold": ((("ring_columns = 256", "ring_columns = 384"),), "TC002"),
    "slots that are smaller than what they hold": ((("ring_columns = 256", "ring_columns = 240"),), "TC002"),
    "barriers of units never initialised": (((INIT, ""),), "TC001"),
    "one arrival releases a slot of two units": (((RING, RING.replace("empty_arrivals = 2", "empty_arrivals = 1")),),
                                                 "MB009"),
    "keys wait for units that do not read them": (((KEYS, KEYS.replace("empty_arrivals = 1", "empty_arrivals = 3")),),
                                                  "MB009"),
    "the rows of another unit": ((("warp_rows = 32", "warp_rows = 16"),), "TC002"),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", REFUTED)
def test_each_edit_is_refuted_by_its_rule(name: str) -> None:
    edits, code = REFUTED[name]
    found = verdict(lowered(cascade_programs.attention, ATTENTION), edits)
    assert isinstance(found, Refuted), found
    codes = [finding.code for finding in found.findings]
    assert code in codes, [f"{finding.code} {finding.message}" for finding in found.findings]
    assert all(finding.primary is not None and finding.primary.file == "edited.ac.mlir" for finding in found.findings)


def test_a_unit_whose_rows_are_spread_takes_none_out_of_a_slot() -> None:
    """Of a part of a slot that lies as its rows would not: no proof."""
    text = lowered_alone()
    role = re.search(r"count = 2, first_thread = 128>, registers = \d+", text)
    assert role is not None and isinstance(verdict(text), Proven)
    assert isinstance(verdict(text, ((role[0], f"{role[0]}, warp_rows = 32"),)), Unknown | Refuted)


@cache
def lowered_alone() -> str:
    kernel = cascade_programs.attention
    module = trace(kernel, dict(ATTENTION), elements_of(kernel, "bf16"), None)
    (part,) = sequence(module, BLACKWELL, Wanted(issuer=False, consumers=2))
    (only,) = lower_program(the_program(part.module)).kernels
    name_values(only.module)
    return "\n".join(line.strip() for line in str(only.module).splitlines()) + "\n"


@pytest.mark.parametrize("columns", [512, 12, 0])
def test_columns_of_a_ring_that_cannot_be(columns: int) -> None:
    with pytest.raises(TilewrightError, match="for slots of a ring"):
        verdict(lowered(cascade_programs.attention, ATTENTION), (("ring_columns = 256", f"ring_columns = {columns}"),))
