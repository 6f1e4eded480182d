"""Tiles that the hardware hands out: what the generator lowers is proven, each edit is refuted, or doubted.

Every edit has the program as it was for its fixed twin.
"""

from functools import cache

import pytest
from tests.contract.typestate.steps.tensor_memory_programs import BLACKWELL, verdict
from tests.lower.cascade_programs import causal

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac.names import name_values
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted


@cache
def lowered() -> str:
    wanted, dims = Wanted(issuer=True, handed=True), {"B": 3, "Q": 300, "T": 300, "E": 24, "F": 24}
    module = walked(trace(causal, dims, elements_of(causal, "bf16"), None), BLACKWELL, wanted)
    decide(the_program(module), BLACKWELL, wanted)
    (only,) = lower_program(the_program(module)).kernels
    name_values(only.module)
    return "\n".join(line.strip() for line in str(only.module).splitlines()) + "\n"


def test_what_is_lowered_is_proven_as_it_reads_again() -> None:
    found = verdict(lowered())
    assert isinstance(found, Proven), found
    assert any("ring work_ring: 3 stages, tiles fills per CTA, 16 bytes" in claim for claim in found.claims), found


RING = "@work_ring [stages = 3, full_arrivals = 1, empty_arrivals = 4"
SLOTS = "slots = 3, slot_bytes = 128, none>"
ASK = "ac.work.ask buffer(%work_slots) tx(%tx)\n"
ANNOUNCE = "[bytes = 16] -> !ac.tx<work_ring, bytes = 16>"
TAKE = "ac.work.take buffer(%work_slots) phase(%phase_4) unit(%unit)\n"
ISSUER_WAITS = "%phase_10 = ac.mbarrier.wait full ring(%work_ring) cursor(%cursor_35) [invert_parity = 0]\n"
ISSUER_TAKES = "ac.work.take buffer(%work_slots) phase(%phase_10) unit(%unit_1)\n"
CONSUMER_TAKES = "ac.work.take buffer(%work_slots) phase(%phase_13) unit(%unit_2) [first_barrier = 1]\n"
MEMORY = "-> !tier.mem<SMEM, u8, "

Edits = tuple[tuple[str, str], ...]
REFUTED: dict[str, tuple[Edits, str]] = {
    "an answer is never taken": (((TAKE, ""),), "LV001"),
    "an answer is taken twice": (((TAKE, TAKE + TAKE),), "LV002"),
    "nobody asks": (((ASK, ""),), "LV001"),
    "work is asked for twice with one slot": (((ASK, ASK + ASK),), "LV002"),
    "another number of bytes": (((ANNOUNCE, ANNOUNCE.replace("16", "32")),), "TX001"),
    "one reader too few is counted": (((RING, RING.replace("empty_arrivals = 4", "empty_arrivals = 3")),), "MB009"),
    "one reader too many is counted": (((RING, RING.replace("empty_arrivals = 4", "empty_arrivals = 5")),), "MB009"),
    "two arrivals are counted": (((RING, RING.replace("full_arrivals = 1", "full_arrivals = 2")),), "MB008"),
    "slots that an answer does not fit": (((SLOTS, SLOTS.replace("128", "8")),), "AL002"),
    "answers in a buffer of another ring": (((ASK, ASK.replace("work_slots", "k_slots")),), "MB007"),
    "answers from a buffer of another ring": (((TAKE, TAKE.replace("work_slots", "k_slots")),), "MB007"),
    "a role does not take answers": (((ISSUER_WAITS + ISSUER_TAKES, ""),), "MB009"),
    "a unit does not meet": (((CONSUMER_TAKES, CONSUMER_TAKES.replace(" [first_barrier = 1]", "")),), "NB001"),
    "a unit meets on the barrier of the CTA": (((CONSUMER_TAKES, CONSUMER_TAKES.replace("= 1]", "= 0]")),), "NB001"),
    "one thread meets": (((TAKE, TAKE.replace("\n", " [first_barrier = 1]\n")),), "NB001"),
    "an answer is awaited in the wrong phase": (
        ((ISSUER_WAITS, ISSUER_WAITS.replace("invert_parity = 0", "invert_parity = 1")),), "MB005"
    ),
    "a role reads the slot that it fills": (((TAKE, TAKE.replace("phase_4", "phase")), (ASK, "")), "LV002"),
}  # fmt: skip
DOUBTED: dict[str, Edits] = {
    "the other roles go through tiles as they are numbered": (("handed = 1, ", ""),),
    "a grid of fewer CTAs": (("grid = [9, 1, 1]", "grid = [8, 1, 1]"),),
    "a grid of more CTAs": (("grid = [9, 1, 1]", "grid = [10, 1, 1]"),),
    "a role goes through fewer tiles": (("handed = 1, tiles_m = 3", "handed = 1, tiles_m = 2"),),
}


@pytest.mark.parametrize("name", REFUTED)
def test_each_edit_is_refuted_by_its_rule(name: str) -> None:
    edits, code = REFUTED[name]
    found = verdict(lowered(), edits)
    assert isinstance(found, Refuted), found
    assert code in {finding.code for finding in found.findings}, found


@pytest.mark.parametrize("name", DOUBTED)
def test_what_roles_may_not_agree_on_is_not_proven(name: str) -> None:
    found = verdict(lowered(), DOUBTED[name])
    assert isinstance(found, Unknown | Refuted), found
