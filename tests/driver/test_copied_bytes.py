"""The bytes a copy transfers, from what phases expect."""

from __future__ import annotations

from tilewright.driver.copied_bytes import PhaseEquation, copied_bytes, proportional

A, B, C = (0, 0), (1, 0), (2, 0)


def test_one_map_in_a_phase_is_decided_by_it() -> None:
    assert copied_bytes([PhaseEquation(16384, ((A, 0),))]) == {A: 16384}


def test_several_copies_share_a_phase_equally() -> None:
    assert copied_bytes([PhaseEquation(16384, ((A, 0), (A, 8192)))]) == {A: 8192}


def test_what_one_phase_decides_another_uses() -> None:
    found = copied_bytes([PhaseEquation(4096, ((A, 0),)), PhaseEquation(12288, ((A, 0), (B, 4096)))])
    assert found == {A: 4096, B: 8192}


def test_packed_slots_tell_two_maps_apart() -> None:
    phases = [PhaseEquation(24576, ((A, stage * 16384), (B, 49152 + stage * 8192))) for stage in range(3)]
    assert copied_bytes(phases, landmarks=(73728,)) == {A: 16384, B: 8192}


def test_slots_that_do_not_add_up_decide_nothing() -> None:
    phases = [PhaseEquation(20000, ((A, stage * 16384), (B, 49152 + stage * 8192))) for stage in range(3)]
    assert copied_bytes(phases, landmarks=(73728,)) == {}


def test_the_most_common_phase_wins_over_one_that_contradicts_it() -> None:
    phases = [PhaseEquation(4096, ((A, 0),))] * 5 + [PhaseEquation(4080, ((A, 0),))]
    assert copied_bytes(phases) == {A: 4096}


def test_open_maps_get_shares_that_add_up() -> None:
    equations = [PhaseEquation(20000, ((A, 0), (B, 49152), (C, 60000)))]
    found = proportional(equations, {C: 4000})
    assert found[C] == 4000
    assert sum(found.values()) == 20000
