"""Which release distances go on at all, and is another one a clear error?"""

from __future__ import annotations

import pytest

from tilewright.base.error import TilewrightError
from tilewright.synth.schedule.release_distance import possible_distances, require_distance


def test_a_ring_has_a_slot_more_than_are_held_back() -> None:
    assert [possible_distances(stages, 64, turns=False, plain=True) for stages in (1, 2, 3, 9)] == [
        (0,), (0, 1), (0, 1, 2), (0, 1, 2),
    ]  # fmt: skip


def test_a_tile_has_a_slice_for_each_product_that_is_held_back_and_one_more_before_a_turn_is_passed_on() -> None:
    assert [possible_distances(9, slices, turns=False, plain=True)[-1] for slices in (1, 2, 3)] == [1, 2, 2]
    assert [possible_distances(9, slices, turns=True, plain=True)[-1] for slices in (1, 2, 3)] == [0, 1, 2]


def test_where_the_loop_does_more_than_multiply_the_distance_is_one() -> None:
    assert possible_distances(9, 64, turns=False, plain=False) == (1,)


@pytest.mark.parametrize("distance", [-1, 3, 2, "1"])
def test_another_distance_is_one_clear_error(distance: object) -> None:
    with pytest.raises(TilewrightError, match="products late") as caught:
        require_distance(distance, (0, 1))  # type: ignore[arg-type]
    assert caught.value.remedy.startswith("use 0 or 1")
    assert type(require_distance(True, (0, 1))) is int
