"""The bytes a copy transfers, from what phases expect."""

from __future__ import annotations

from itertools import product
from random import Random

from tilewright.driver.explore.unknown_maps.copied_bytes import PhaseEquation, StoreExtent, solve_boxes, store_extents

A, B, C = ("", 0), ("", 128), ("maps", 256)


def test_one_map_in_a_phase_is_decided_by_it() -> None:
    found = solve_boxes([PhaseEquation(16384, ((A, 0),))])
    assert found.solutions == ({A: 16384},) and found.decided == {A} and not found.sums


def test_several_copies_share_a_phase_equally() -> None:
    assert solve_boxes([PhaseEquation(16384, ((A, 0), (A, 8192)))]).solutions == ({A: 8192},)


def test_what_one_phase_decides_another_uses() -> None:
    found = solve_boxes([PhaseEquation(4096, ((A, 0),)), PhaseEquation(12288, ((A, 0), (B, 4096)))])
    assert found.solutions == ({A: 4096, B: 8192},) and found.decided == {A, B}


def test_phases_that_only_together_decide_are_solved_together() -> None:
    found = solve_boxes(
        [PhaseEquation(12288, ((A, 0), (B, 8192))), PhaseEquation(20480, ((A, 0), (A, 8192), (B, 16384)))]
    )
    assert found.solutions == ({A: 8192, B: 4096},) and found.decided == {A, B}


def test_packed_slots_tell_two_maps_apart_and_other_solutions_stand_behind() -> None:
    phases = [PhaseEquation(24576, ((A, stage * 16384), (B, 49152 + stage * 8192))) for stage in range(3)]
    found = solve_boxes(phases, landmarks=(73728,))
    assert found.solutions[0] == {A: 16384, B: 8192}
    assert found.packed == {A, B} and not found.decided
    assert 2 <= len(found.solutions) <= 4
    assert all(each[A] + each[B] == 24576 for each in found.solutions)


def test_slots_that_do_not_add_up_leave_a_sum_and_several_solutions() -> None:
    phases = [PhaseEquation(20480, ((A, stage * 16384), (B, 49152 + stage * 8192))) for stage in range(3)]
    found = solve_boxes(phases, landmarks=(73728,))
    assert not found.decided and not found.packed
    assert [(each.bytes, each.counts) for each in found.sums] == [(20480, ((A, 1), (B, 1)))]
    assert len(found.solutions) == 4
    assert all(each[A] + each[B] == 20480 and min(each.values()) > 0 for each in found.solutions)
    assert found.solutions[0][A] <= 16384 and found.solutions[0][B] <= 8192


def test_two_boxes_of_the_least_size_are_the_only_solution() -> None:
    found = solve_boxes([PhaseEquation(32, ((A, 0), (B, 512)))])
    assert found.solutions == ({A: 16, B: 16},) and found.decided == {A, B}


def test_phases_that_contradict_each_other_are_named_and_both_are_tried() -> None:
    found = solve_boxes([PhaseEquation(2048, ((A, 0),))] * 5 + [PhaseEquation(1024, ((A, 0),))])
    assert found.contradiction is not None
    assert [each.bytes for each in found.contradiction] == [2048, 1024]
    assert found.solutions == ({A: 2048}, {A: 1024})


def test_a_sum_that_leaves_nothing_for_a_map_is_a_contradiction() -> None:
    found = solve_boxes([PhaseEquation(4096, ((A, 0),)), PhaseEquation(4096, ((A, 0), (B, 8192)))])
    assert found.contradiction is not None


def test_bytes_that_no_box_has_are_a_contradiction() -> None:
    assert solve_boxes([PhaseEquation(100, ((A, 0),))]).contradiction is not None
    assert solve_boxes([PhaseEquation(48, ((A, 0), (A, 64)))]).contradiction is not None


def test_nothing_expected_decides_nothing() -> None:
    assert solve_boxes([PhaseEquation(0, ((A, 0),))]).solutions == ()


def test_solutions_are_solutions_and_decided_maps_have_no_others() -> None:
    """Against enumeration: small boxes, a few phases."""
    random = Random(7)
    places = (A, B, C)
    for _ in range(50):
        truth = {place: 16 * random.randint(1, 6) for place in places}
        phases: list[PhaseEquation] = []
        for _ in range(random.randint(1, 3)):
            copies = tuple((random.choice(places), 1024 * number) for number in range(random.randint(1, 4)))
            phases.append(PhaseEquation(sum(truth[place] for place, _ in copies), copies))
        used = sorted({place for phase in phases for place, _ in phase.copies})
        every = [
            dict(zip(used, boxes, strict=True))
            for boxes in product(range(16, 385, 16), repeat=len(used))
            if all(
                sum(dict(zip(used, boxes, strict=True))[place] for place, _ in phase.copies) == phase.expected_bytes
                for phase in phases
            )
        ]
        found = solve_boxes(phases)
        assert found.contradiction is None and found.solutions
        assert all(dict(each) in every for each in found.solutions)
        for place in used:
            assert (place in found.decided) <= (len({each[place] for each in every}) == 1)
        if len(every) > 1:
            assert found.decided != set(used) or found.packed
            assert len(found.solutions) > 1


def test_a_store_reads_up_to_the_next_copy_or_barrier_and_no_further_than_what_was_written() -> None:
    written = [(0, 4096), (8192, 9000)]
    next_use, staged = "before the next copy or mbarrier", "that threads write where it is stored from"
    assert store_extents([(A, 0), (A, 2048)], (4096,), written, 65536) == {A: StoreExtent(2048, next_use)}
    assert store_extents([(A, 0)], (16384,), written, 65536) == {A: StoreExtent(4096, staged)}
    assert store_extents([(B, 8192)], (), written, 65536) == {B: StoreExtent(800, staged)}
    assert store_extents([(B, 20480)], (), written, 65536) == {B: StoreExtent(45056, "before the end of shared memory")}
