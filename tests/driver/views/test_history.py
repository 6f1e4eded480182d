"""What a run's events say of slots and roles: states in their order, every slice once."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.views.demo import Specimen
from tilewright.driver.views.history import History
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.decide import Wanted


@pytest.fixture(scope="module")
def compilation() -> Compilation:
    # So deep that the small instance crosses the ring's end within a tile, which one CTA sums alone.
    dims = {"M": 256, "N": 1024, "K": 4096}
    return compile_kernel(matmul_kernel, dims=dims, wanted=Wanted(split=1, teams=1), assembled=False, rerun=False)


@pytest.fixture(scope="module")
def history(compilation: Compilation) -> History:
    found = Specimen.of(compilation).history()
    assert found is not None
    return found


def test_a_slot_is_filled_then_full_then_read(history: History) -> None:
    for slot in history.slots:
        states = [interval.state for interval in slot]
        assert states == ["filling", "full", "read"] * (len(states) // 3)
        assert all(one.end <= other.begin for one, other in pairwise(slot))
        assert all(0 < interval.begin < interval.end <= history.events for interval in slot)


def test_every_slice_is_filled_once_in_its_slot(compilation: Compilation, history: History) -> None:
    decisions = compilation.decisions
    assert isinstance(decisions, CascadeDecisions)
    stages = len(history.slots)
    assert {stages} == {slot.slots for slot in decisions.slots}
    # The small instance has 2 stages - 1 slices for each of its two tiles.
    fills_in_all = 2 * (2 * stages - 1)
    for stage, slot in enumerate(history.slots):
        fills = [interval.number for interval in slot if interval.state == "filling"]
        assert fills == list(range(stage, fills_in_all, stages))
    assert [interval.number for interval in history.producer] == list(range(fills_in_all))


def test_the_producer_runs_ahead(history: History) -> None:
    """As many slices as there are slots are issued before the first is released."""
    released = next(interval.end for interval in history.slots[0] if interval.state == "read")
    assert sum(interval.begin < released for interval in history.producer) == len(history.slots)


def test_consumers_multiply_and_store_each_tile(history: History) -> None:
    assert history.consumers
    for role in history.consumers:
        assert [(interval.state, interval.number) for interval in role] == [
            ("multiplying", 0), ("storing", 0), ("multiplying", 1), ("storing", 1),
        ]  # fmt: skip
        assert all(one.end <= other.begin for one, other in pairwise(role))


@pytest.mark.parametrize("turns", [True, False], ids=["in turn", "together"])
def test_tiles_are_numbered_among_those_of_the_cta(turns: bool) -> None:
    """Consumers in turn have every second tile each; those that go together have all."""
    compilation = compile_kernel(
        matmul_kernel,
        dims={"M": 512, "N": 1024, "K": 1024},
        wanted=Wanted(tile=(128, 128), consumers=2, turns=turns),
        assembled=False,
        rerun=False,
    )
    history = Specimen.of(compilation).history()
    assert history is not None
    found = [[interval.number for interval in role if interval.state == "multiplying"] for role in history.consumers]
    stored = [[interval.number for interval in role if interval.state == "storing"] for role in history.consumers]
    assert found == stored
    assert found == ([[0, 2], [1]] if turns else [[0, 1], [0, 1]])
    slices = 2 * len(history.slots) - 1
    assert [interval.number for interval in history.producer] == list(range((3 if turns else 2) * slices))
