"""The mbarrier state machine: against a list of events counted afresh, and misuse by misuse."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.machine.barrier import mbarrier
from tilewright.machine.barrier.mbarrier import Mbarrier, ProtocolFault, mbarrier_limits
from tilewright.targets import target

LIMITS = mbarrier_limits(target("sm_90a"))
COUNT_LIMIT = LIMITS.count_max


def test_a_fresh_object_has_its_preceding_phase_complete() -> None:
    barrier = mbarrier.initialize(None, 2, LIMITS)
    assert mbarrier.parity_complete(barrier, 1) and mbarrier.parity_complete(barrier, 0xFFFF_FFFF)
    assert not mbarrier.parity_complete(barrier, 0)
    assert mbarrier.complete_phase(barrier) == -1


def test_a_phase_ends_when_arrivals_and_bytes_are_all_in() -> None:
    barrier = mbarrier.initialize(None, 1, LIMITS)
    barrier = mbarrier.arrive(barrier, expect_bytes=1024)
    assert barrier == Mbarrier(LIMITS, expected=1, pending=0, transaction_bytes=1024, phase=0)
    barrier = mbarrier.complete(barrier, 512)
    assert not mbarrier.parity_complete(barrier, 0)
    barrier = mbarrier.complete(barrier, 512)
    assert barrier == Mbarrier(LIMITS, expected=1, pending=1, transaction_bytes=0, phase=1)
    assert mbarrier.parity_complete(barrier, 0)
    assert not mbarrier.parity_complete(barrier, 1) and not mbarrier.parity_complete(barrier, 0xFFFF_FFFF)
    assert mbarrier.complete_phase(barrier) == 0


def test_completions_may_run_ahead_of_the_expectation() -> None:
    barrier = mbarrier.complete(mbarrier.initialize(None, 1, LIMITS), 256)
    assert barrier.transaction_bytes == -256
    assert mbarrier.arrive(barrier, expect_bytes=256).phase == 1


@given(
    count=st.integers(1, 5),
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=8),
    phases=st.integers(1, 4),
    order=st.randoms(use_true_random=False),
)
def test_any_order_of_expected_bytes_ends_each_phase_once(
    count: int, sizes: list[int], phases: int, order: Random
) -> None:
    barrier = mbarrier.initialize(None, count, LIMITS)
    for phase in range(phases):
        operations: list[tuple[str, int]] = [("arrive", 0)] * (count - 1)
        operations += [("expect", 16 * size) for size in sizes] + [("complete", 16 * size) for size in sizes]
        order.shuffle(operations)
        arrived, balance = 0, 0
        for operation, size in operations:
            assert barrier.phase == phase
            assert (barrier.pending, barrier.transaction_bytes) == (count - arrived, balance)
            match operation:
                case "arrive":
                    barrier, arrived = mbarrier.arrive(barrier), arrived + 1
                case "expect":
                    barrier, balance = mbarrier.expect(barrier, size), balance + size
                case _:
                    barrier, balance = mbarrier.complete(barrier, size), balance - size
        barrier = mbarrier.arrive(barrier)
        assert barrier == Mbarrier(LIMITS, expected=count, pending=count, transaction_bytes=0, phase=phase + 1)


def test_drop_lowers_the_later_phases() -> None:
    barrier = mbarrier.arrive_drop(mbarrier.initialize(None, 3, LIMITS), 1)
    assert (barrier.expected, barrier.pending, barrier.phase) == (2, 2, 0)
    barrier = mbarrier.arrive(barrier, 2)
    assert (barrier.expected, barrier.pending, barrier.phase) == (2, 2, 1)


def test_states() -> None:
    barrier = mbarrier.initialize(None, 3, LIMITS)
    barrier, state = mbarrier.arrive(barrier), mbarrier.token(barrier, 8)
    assert mbarrier.token_pending(state) == 3
    assert not mbarrier.token_complete(barrier, state, 8)
    barrier = mbarrier.arrive(barrier, 2)
    assert mbarrier.token_complete(barrier, state, 8)
    with pytest.raises(ProtocolFault) as caught:
        mbarrier.token_complete(mbarrier.arrive(barrier, 3), state, 8)
    assert caught.value.code == "MB219"
    with pytest.raises(ProtocolFault) as caught:
        mbarrier.token_complete(barrier, state, 16)
    assert caught.value.code == "MB219"


READY = Mbarrier(LIMITS, expected=2, pending=1)


@pytest.mark.parametrize(
    ("code", "misuse"),
    [
        ("MB201", lambda: mbarrier.initialize(None, 0, LIMITS)),
        ("MB201", lambda: mbarrier.initialize(None, COUNT_LIMIT + 1, LIMITS)),
        ("MB201", lambda: mbarrier.arrive(READY, 0)),
        ("MB201", lambda: mbarrier.expect(mbarrier.expect(READY, COUNT_LIMIT), 1)),
        ("MB201", lambda: mbarrier.complete(mbarrier.complete(READY, COUNT_LIMIT), 1)),
        ("MB202", lambda: mbarrier.arrive(None)),
        ("MB202", lambda: mbarrier.expect(None, 16)),
        ("MB202", lambda: mbarrier.complete(None, 16)),
        ("MB202", lambda: mbarrier.parity_complete(None, 0)),
        ("MB202", lambda: mbarrier.invalidate(None)),
        ("MB203", lambda: mbarrier.initialize(READY, 1, LIMITS)),
        ("MB209", lambda: mbarrier.arrive(READY, 2)),
        ("MB209", lambda: mbarrier.arrive(Mbarrier(LIMITS, 1, 0, transaction_bytes=16))),
        ("MB210", lambda: mbarrier.arrive(READY, 1, no_complete=True)),
        ("MB212", lambda: mbarrier.parity_complete(READY, 2)),
        ("MB212", lambda: mbarrier.parity_complete(READY, 0xFFFF_FFFE)),
        ("MB217", lambda: mbarrier.arrive_drop(READY, 2)),
    ],
)
def test_misuse_names_its_rule(code: str, misuse: Callable[[], object]) -> None:
    with pytest.raises(ProtocolFault) as caught:
        misuse()
    assert caught.value.code == code


def test_limits_themselves_are_allowed() -> None:
    barrier = mbarrier.expect(mbarrier.initialize(None, COUNT_LIMIT, LIMITS), COUNT_LIMIT)
    assert mbarrier.complete(barrier, COUNT_LIMIT).transaction_bytes == 0
    assert mbarrier.arrive(mbarrier.initialize(None, COUNT_LIMIT, LIMITS), COUNT_LIMIT).phase == 1


def test_more_bytes_than_expected_hold_the_phase() -> None:
    barrier = mbarrier.complete(mbarrier.arrive(mbarrier.initialize(None, 1, LIMITS), expect_bytes=16), 32)
    assert barrier == Mbarrier(LIMITS, expected=1, pending=0, transaction_bytes=-16, phase=0)
    assert mbarrier.expect(barrier, 16).phase == 1
