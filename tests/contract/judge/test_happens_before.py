"""The judge on a pipeline with a producer, wgmma consumers and bulk stores: right in any schedule, wrong if spoiled."""

from __future__ import annotations

import importlib
import pkgutil
from functools import partial
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.event_stream import PARAMETERLESS, Simulator
from tests.contract.ring_stream import (
    LINE_EXPECT,
    LINE_INIT,
    LINE_LOAD,
    LINE_RELEASE,
    LINE_STAGE,
    LINE_STORE,
    LINE_WGMMA,
    Faults,
    programs,
)

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plan import Launch
from tilewright.contract.judge import events
from tilewright.contract.judge.happens_before import HappensBefore, Interpretations
from tilewright.contract.rules.replay_codes import REPLAY_RULES
from tilewright.machine.core.event import Event


def judge(
    faults: Faults, *, seed: int = 0, fills: int = 5, tiles: int = 2, interpretations: Interpretations | None = None
) -> tuple[tuple[Diagnostic, ...], tuple[str, ...]]:
    sim = Simulator(seed)
    events = sim.run(programs(sim, fills, tiles, faults))
    happens_before = HappensBefore(PARAMETERLESS, interpretations)
    for event in events:
        happens_before.feed(event)
    return happens_before.finish(), happens_before.doubts


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 8), st.integers(1, 3))
def test_every_legal_schedule_is_clean(seed: int, fills: int, tiles: int) -> None:
    findings, doubts = judge(Faults(), seed=seed, fills=fills, tiles=tiles)
    assert findings == ()
    assert doubts == ()


MUTANTS = {
    "no synchronization after init": (Faults(no_init_sync=True), "MB104", None, LINE_INIT),
    "no wait for an empty slot": (Faults(no_empty_wait=True), "WG105", LINE_LOAD, LINE_WGMMA),
    "no wait for a full slot": (Faults(no_full_wait=True), "MB111", LINE_WGMMA, LINE_LOAD),
    "slot released before the wgmma is done": (Faults(early_release=True), "WG105", LINE_LOAD, LINE_WGMMA),
    "slot released by one group of two": (Faults(release_by_one_group=True), "WG105", LINE_LOAD, LINE_WGMMA),
    "no wgmma.fence": (Faults(no_wgmma_fence=True), "WG101", LINE_WGMMA, None),
    "boxes of a slot overlap": (Faults(overlapping=True), "TM102", LINE_LOAD + 1, LINE_LOAD),
    "no proxy fence before the store": (Faults(no_proxy_fence=True), "PX101", LINE_STORE, LINE_STAGE),
    "no barrier before the store": (Faults(no_store_sync=True), "TM101", LINE_STORE, LINE_STAGE),
    "staging rewritten without a wait": (Faults(no_stage_wait=True), "BG103", LINE_STAGE, LINE_STORE),
    "staging rewritten without a barrier": (Faults(no_stage_sync=True), "BG103", LINE_STAGE, LINE_STORE),
    "store not committed": (Faults(no_store_commit=True), "BG101", LINE_STORE, 999),
    "store not waited for at exit": (Faults(no_drain=True), "BG102", LINE_STORE, 999),
    "one fill too many": (Faults(one_fill_more=True), "TM103", LINE_LOAD, None),
    "barrier read as data": (Faults(touch_barrier=True), "MB102", LINE_STAGE, LINE_INIT),
}


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_spoiled_pipeline_is_refuted_in_every_schedule(name: str, seed: int) -> None:
    faults, code, primary, other = MUTANTS[name]
    findings, _ = judge(faults, seed=seed)
    matching = [finding for finding in findings if finding.code == code]
    assert matching, [str((finding.code, finding.message)) for finding in findings]
    lines = {(finding.primary and finding.primary.line, finding.conflicts_with and finding.conflicts_with.line)
             for finding in matching}  # fmt: skip
    assert any(primary in (None, a) and other in (None, b) for a, b in lines), lines
    for finding in findings:
        assert finding.code in REPLAY_RULES
        if finding.level is Level.ERROR:
            assert finding.message and finding.source and finding.repair
            assert code in ("MB106",) or finding.code in ("MB106",) or 2 <= len(finding.interleaving) <= 6


def test_a_wrong_parity_is_refuted_where_it_does_not_hang() -> None:
    codes = set[str]()
    for seed in range(6):
        try:
            findings, _ = judge(Faults(wrong_full_parity=True), seed=seed, fills=2, tiles=1)
        except AssertionError as hang:
            assert "hang" in str(hang)
            continue
        codes |= {finding.code for finding in findings}
    assert "MB111" in codes


def test_an_unreleased_last_slot_is_for_review_or_a_hang() -> None:
    findings, _ = judge(Faults(no_release=True), fills=2, tiles=1)
    assert findings == ()  # nobody waits for that slot again: a kernel may leave it
    with pytest.raises(AssertionError, match="hang"):
        judge(Faults(no_release=True), fills=3, tiles=3)


def test_a_double_release_counts_in_a_phase_that_it_must_not() -> None:
    for seed in range(4):
        try:
            findings, _ = judge(Faults(double_release=True), seed=seed, fills=4, tiles=1)
        except AssertionError:
            continue
        assert {"MB107", "MB110"} & {finding.code for finding in findings}


def test_bytes_that_do_not_add_up_hang_or_are_left() -> None:
    with pytest.raises(AssertionError, match="hang"):
        judge(Faults(expect_bytes=4096))


def test_a_wgmma_left_in_flight() -> None:
    findings, _ = judge(Faults(no_last_wgmma_wait=True, no_release=True), fills=1, tiles=1)
    assert {finding.code for finding in findings} == {"WG103"}
    findings, _ = judge(Faults(no_commit=True, no_release=True), fills=1, tiles=1)
    assert "WG102" in {finding.code for finding in findings}


def test_readings_of_the_isa_are_switches() -> None:
    strict = Interpretations(fenced_init="always")
    assert {finding.code for finding in judge(Faults(no_init_fence=True), interpretations=strict)[0]} == {"MB105"}
    assert {finding.level for finding in judge(Faults(no_init_fence=True))[0]} == {Level.REVIEW}
    assert judge(Faults(), interpretations=strict)[0] == ()
    assert LINE_EXPECT < LINE_RELEASE


def test_every_kind_of_event_is_judged_by_the_module_that_it_is_looked_up_in() -> None:
    """A module is loaded for the kinds that it is said to have; one that has others would never be asked for them."""
    handlers = HappensBefore(Launch("kernel", (1, 1, 1), (32, 1, 1), (), (1, 1, 1), 0)).handlers
    seen: set[type] = set()
    for found in pkgutil.iter_modules(events.__path__):
        module = importlib.import_module(f"{events.__name__}.{found.name}")
        for kind, handler in getattr(module, "HANDLERS", {}).items():
            judged = handlers[kind]
            assert isinstance(judged, partial) and judged.func is handler, (found.name, kind)
            seen.add(kind)
    assert seen == set(handlers) == set(get_args(Event))
