"""Operands that threads make anew: what the generator lowers is proven, each edit is refuted by its rule or doubted."""

from __future__ import annotations

from functools import cache

import pytest
from tests.lower.narrow_programs import attention, sizes

import tilewright.frontends.tile.language as tw
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.ac.reader import read_ac
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac.names import name_values
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.targets import target

Edit = tuple[str, str]

REMAKE = "[kind = turned, rows = 128, chunks = 4, first_barrier = 1]"
START = "%phase_3 = ac.room.start room(%v_room) unit(%unit_1) -> !ac.phase<v_room, retired>\n"
END, RELEASE = "ac.room.end %phase_6\n", "ac.mbarrier.arrive %held [peers = 1]\n"
WAIT = "%retired_2, %settled_1 = ac.wgmma.wait reading(%reading_1) accumulator(%inflight_1) [pending = 0]"
YIELD = "%retired_1, %retired_2, %values_11"
ISSUED = "issue_fragment a(%values_15) phase(%made) b(%v_room)"
ROOM = "instances = 1] -> !tier.mem<SMEM, f8e4m3, slots = 1, slot_bytes = 8192"


@cache
def lowered(widened: bool, on: str) -> str:
    kernel = attention(tw.bf16, widened=tw.bf16) if widened else attention()
    module = walked(trace(kernel, sizes(64, 256), elements_of(kernel, "bf16"), None), target(on))
    decide(the_program(module), target(on))
    (only,) = lower_program(the_program(module)).kernels
    name_values(only.module)
    return str(only.module)


def verdict(edits: tuple[Edit, ...] = (), *, widened: bool = False, on: str = "sm_90a") -> Verdict:
    text = lowered(widened, on)
    for old, new in edits:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    (only,) = read_ac(text, "narrow.ac.mlir").kernels
    return verify(only.module, target(on))


@pytest.mark.parametrize(("widened", "on"), [(False, "sm_90a"), (True, "sm_90a"), (True, "sm_100a")])
def test_what_is_lowered_is_proven(widened: bool, on: str) -> None:
    found = verdict(widened=widened, on=on)
    assert isinstance(found, Proven), found


REFUTED: dict[str, tuple[tuple[Edit, ...], str]] = {
    "a slot read and never released": (((RELEASE, ""),), "LV001"),
    "a room given up twice": (((END, END + END),), "LV002"),
    "a room never given up": (((END, ""),), "LV001"),
    "a room started twice in a tile": (((START, START + START.replace("%phase_3", "%again")),), "LV001"),
    "a room made while its product runs": (
        (
            (YIELD, "%retired_1, %reading_1, %values_11"),
            (
                f"{WAIT} -> retired !ac.phase<v_room, retired>, settled",
                "%settled_1 = ac.wgmma.wait accumulator(%inflight_1) [pending = 0] -> settled",
            ),
        ),
        "LV008",
    ),
    "a product of its room not waited for": (((WAIT, WAIT.replace("= 0]", "= 1]")),), "WG002"),
    "the slot multiplied, as the room": (((ISSUED, ISSUED.replace("%v_room", "%v_slots")),), "MB007"),
    "the room multiplied, as the slot": (((ISSUED, ISSUED.replace("%made", "%held")),), "LV002"),
    "a room released as a slot": (((RELEASE, f"{RELEASE}ac.mbarrier.arrive %phase_9 [peers = 1]\n"),), "LV002"),
    "a room smaller than what is made": (((ROOM, ROOM.replace("8192", "4096")),), "WG006"),
    "a slot smaller than what is read": (((REMAKE, REMAKE.replace("rows = 128", "rows = 256")),), "WG006"),
    "fewer keys made than are multiplied": (((REMAKE, REMAKE.replace("rows = 128", "rows = 96")),), "WG007"),
    "no named barrier": (((REMAKE, REMAKE.replace("first_barrier = 1", "first_barrier = 16")),), "NB001"),
    "made of keys": ((("source(%v_slots)", "source(%k_slots)"),), "MB007"),
}


@pytest.mark.parametrize("name", REFUTED)
def test_each_slip_is_refuted_by_its_rule(name: str) -> None:
    edits, code = REFUTED[name]
    found = verdict(edits)
    assert isinstance(found, Refuted), found
    assert code in {each.code for each in found.findings}, [each.code for each in found.findings]


UNKNOWN: dict[str, tuple[tuple[Edit, ...], str]] = {
    "another kind": (((REMAKE, REMAKE.replace("turned", "mirrored")),), "mirrored"),
    "rows that no warp takes": (((REMAKE, REMAKE.replace("rows = 128", "rows = 120")),), "120 x 4 chunks"),
    "a room of other elements": (((ROOM, ROOM.replace("f8e4m3", "f8e5m2")),), "f8e5m2"),
    "a room for more units": (((ROOM, ROOM.replace("slots = 1,", "slots = 2,")),), "room"),
    "a room that a ring guards": (((ROOM, ROOM.replace("instances = 1]", "instances = 1, ring = v_ring]")),), "room"),
    "numbers packed for a product, computed on": (
        (("inputs(%values_12, %values_6)", "inputs(%values_15, %values_6)"),),
        "'mk'",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_understood_is_no_proof(name: str) -> None:
    edits, words = UNKNOWN[name]
    found = verdict(edits)
    assert not isinstance(found, Proven), found
    if isinstance(found, Unknown):
        assert any(words in reason for reason in found.reasons), found.reasons


def test_all_threads_wait_for_a_slot_that_they_read() -> None:
    """Where one warp issues for a unit, it may wait for a slot alone, but not for one that is made anew."""
    text = lowered(True, "sm_100a")
    line = next(line.strip() for line in text.splitlines() if "wait full ring(%k_ring)" in line)
    found = verdict(
        ((line, line.replace("[invert_parity = 0", "[invert_parity = 0, issuer = 1")),), widened=True, on="sm_100a"
    )
    assert isinstance(found, Refuted) and "TC005" in {each.code for each in found.findings}, found
