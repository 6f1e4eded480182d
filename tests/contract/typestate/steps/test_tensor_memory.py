"""Products in tensor memory: what the generator lowers is proven, each edit is refuted by its rule, at its line."""

from __future__ import annotations

from functools import cache

import pytest
from tests.contract.typestate.steps.tensor_memory_programs import BLACKWELL, Edit, verdict
from tests.docs.pages import ROOT
from tests.lower import cascade_programs

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac.names import name_values
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide

SCORES = (
    "%settled, %retired = ac.tensor.wait memory(%tensor_memory) unit(%unit_1) inflight(%inflight) readings(%a_reading)"
)
SETTLED = "-> settled !ac.tensor_acc<m = 64, n = 128, column = 0>, retired !ac.phase<q_ring, retired>"
COMMIT = "ac.tensor.commit memory(%tensor_memory) unit(%unit_1)\n"
FENCE = "ac.tensor.fence %unit_1 [first_barrier = 1]\n"
LOAD = "%values_9 = ac.tensor.load memory(%tensor_memory) accumulator(%settled) unit(%unit_1)\n"
RELEASE = "ac.tensor.release %reading\n"
ALLOC, RELINQUISH = "ac.tensor.alloc %tensor_memory\n", "ac.tensor.relinquish %tensor_memory\n"
INIT, FREE = "ac.tensor.init %tensor_memory\n", "ac.tensor.dealloc %tensor_memory\n"
SYNC = "ac.cta.sync\n"
MEMORY = "!ac.tensor_memory<columns = 128, units = 1>"
SCORED = "m = 64, n = 128, column = 0"
SUMS = "m = 64, n = 64, column = 0"
STORED = "[column = 64]\n"


@cache
def lowered(kernel: Kernel, dims: tuple[tuple[str, int], ...]) -> str:
    module = walked(trace(kernel, dict(dims), elements_of(kernel, "bf16"), None), BLACKWELL)
    decide(the_program(module), BLACKWELL)
    (only,) = lower_program(the_program(module)).kernels
    name_values(only.module)
    lines = str(only.module).splitlines()
    return "\n".join(line.strip() if line.strip().startswith("ac.tensor") else line for line in lines) + "\n"


def attention() -> str:
    dims = {"B": 1, "H": 1, "Q": 64, "T": 256, "E": 64, "F": 64}
    return lowered(cascade_programs.attention, tuple(dims.items()))


@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (cascade_programs.attention, {"B": 1, "H": 1, "Q": 300, "T": 256, "E": 64, "F": 64}),
        (cascade_programs.matmul_softmax, {"M": 130, "K": 200, "N": 130}),
        (cascade_programs.rms_norm_matmul, {"M": 70, "K": 192, "N": 104}),
    ],
    ids=["attention", "slices", "rows-read"],
)
def test_what_is_lowered_is_proven_as_it_reads_again(kernel: Kernel, dims: dict[str, int]) -> None:
    found = verdict(lowered(kernel, tuple(dims.items())))
    assert isinstance(found, Proven), found
    assert any("tensor memory" in claim for claim in found.claims)


REFUTED: dict[str, tuple[tuple[Edit, ...], str]] = {
    "never allocated": (((ALLOC, ""), (RELINQUISH, "")), "TC001"),
    "allocated twice": (((ALLOC, ALLOC + ALLOC),), "TC001"),
    "allocated after the permit was given up": (((ALLOC + RELINQUISH, RELINQUISH + ALLOC),), "TC001"),
    "allocated behind the synchronization": (((ALLOC, ""), (SYNC, SYNC + ALLOC)), "TC001"),
    "barriers never initialised": (((INIT, ""),), "TC001"),
    "barriers initialised after the fence": (((INIT, ""), (SYNC, INIT + SYNC)), "TC001"),
    "never freed": (((FREE, ""),), "TC001"),
    "freed twice": (((FREE, FREE + FREE),), "TC001"),
    "freed before the roles have ended": (((f"{SYNC}{FREE}", f"{FREE}{SYNC}"),), "TC001"),
    "freed before the roles begin": (((FREE, ""), (SYNC, SYNC + FREE)), "TC001"),
    "no fence before the scores": (((FENCE, ""),), "TC003"),
    "no fence after the weights are written": (((STORED + FENCE, STORED),), "TC003"),
    "no commit of the scores": (((COMMIT, ""),), "TC004"),
    "a second commit": (((COMMIT, COMMIT + COMMIT),), "TC004"),
    "a commit before the product": (((COMMIT, ""), (FENCE, FENCE + COMMIT)), "TC004"),
    "a commit that nobody waits for": (((LOAD, LOAD + FENCE + COMMIT),), "TC004"),
    "weights some columns beyond the unit's": ((("[column = 64]", "[column = 104]"),), "TC002"),
    "scores some columns beyond the unit's": (((SCORED, SCORED.replace("column = 0", "column = 136")),), "TC002"),
    "a product of a shape that there is not": (
        ((SCORED, SCORED.replace("n = 128", "n = 124")),),
        "TC002",
    ),
    "sums over the weights that they are made of": (((SUMS, SUMS.replace("column = 0", "column = 56")),), "TC002"),
    "parts for two units, of which there is one": (((MEMORY, MEMORY.replace("units = 1", "units = 2")),), "TC002"),
    "the accumulator is read a second time": (((LOAD, LOAD + LOAD.replace("%values_9", "%again")),), "LV002"),
    "a slot is never released": (((RELEASE, ""),), "LV001"),
    "a slot is released twice": (((RELEASE, RELEASE + RELEASE),), "LV002"),
    "rows of q beyond its slot": (
        (("a_step_bytes = [0, 32, 64, 96]", "a_step_bytes = [0, 32, 64, 8192]"),),
        "WG006",
    ),
    "a step off its row": ((("b_step_bytes = [0, 32, 64, 96]", "b_step_bytes = [0, 32, 64, 112]"),), "WG008"),
    "an empty slot is multiplied": (
        (("ac.mbarrier.wait full ring(%k_ring) cursor(%cursor_28) [invert_parity = 0, issuer = 1]",
          "ac.mbarrier.wait full ring(%k_ring) cursor(%cursor_28) [invert_parity = 1, issuer = 1]"),),
        "MB005",
    ),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", REFUTED)
def test_each_edit_is_refuted_by_its_rule(name: str) -> None:
    edits, code = REFUTED[name]
    found = verdict(attention(), edits)
    assert isinstance(found, Refuted), found
    codes = [finding.code for finding in found.findings]
    assert code in codes, [f"{finding.code} {finding.message}" for finding in found.findings]
    assert all(finding.primary is not None and finding.primary.file == "edited.ac.mlir" for finding in found.findings)


def test_columns_off_the_steps_of_a_product_are_not_understood() -> None:
    dims = {"B": 1, "H": 1, "Q": 64, "T": 256, "E": 64, "F": 48}
    text = lowered(cascade_programs.attention, tuple(dims.items()))
    assert isinstance(verdict(text, (("[column = 48]", "[column = 49]"),)), Unknown)


def test_threads_do_not_read_a_slot_that_one_warp_waited_for() -> None:
    """The rows that are folded are read by all threads of the unit."""
    dims = {"M": 70, "K": 192, "N": 104}
    text = lowered(cascade_programs.rms_norm_matmul, tuple(dims.items()))
    wait = next(line for line in text.splitlines() if "ac.mbarrier.wait full ring(%x_ring)" in line)
    found = verdict(text, ((wait, wait.replace("invert_parity = 0]", "invert_parity = 0, issuer = 1]")),))
    assert isinstance(found, Refuted) and "TC005" in [finding.code for finding in found.findings], found


def test_what_an_architecture_lacks_is_refuted() -> None:
    found = verdict(attention(), on="sm_90a")
    assert isinstance(found, Refuted) and {"TC001"} == {finding.code for finding in found.findings}
    warpgroups = (ROOT / "docs/rules/examples/programs/two-consumers.ac.mlir").read_text("utf-8")
    found = verdict(warpgroups)
    assert isinstance(found, Refuted) and {"WG010"} == {finding.code for finding in found.findings}
