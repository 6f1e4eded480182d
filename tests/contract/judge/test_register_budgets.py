"""setmaxnreg: whether every increase ends, in every order."""

from __future__ import annotations

from tests.contract.event_stream import at
from tests.contract.judged_stream import codes, doubts, ends, sync

from tilewright.machine.core import event as ev

WARPS = tuple(ev.WarpActor(0, index) for index in range(8))
FIRST, SECOND = WARPS[:4], WARPS[4:]


def budget(w: ev.WarpActor, registers: int, before: int, line: int = 10) -> ev.RegisterBudget:
    return ev.RegisterBudget(w, registers, registers > before, at(line), before)


def test_warps_of_a_warpgroup_execute_the_same() -> None:
    assert codes([*(budget(w, 40, 168) for w in FIRST), *ends(*FIRST)]) == set()
    assert codes([*(budget(w, 40, 168) for w in FIRST[:3]), budget(FIRST[3], 48, 168), *ends(*FIRST)]) == {"SR101"}


def test_what_is_given_back_in_time_suffices() -> None:
    give = [budget(w, 40, 168) for w in SECOND]
    take = [budget(w, 232, 168) for w in FIRST]
    assert doubts([*give, *take, *ends(*WARPS)]) == ()
    assert doubts([*give, *sync(WARPS), *take, *ends(*WARPS)]) == ()


def test_what_is_given_back_only_after_the_increase_is_doubted() -> None:
    give = [budget(w, 40, 168) for w in SECOND]
    take = [budget(w, 232, 168) for w in FIRST]
    assert doubts([*take, *sync(WARPS), *give, *ends(*WARPS)])
    # Not ordered after it: the other warps go on while the increase waits.
    assert doubts([*take, *give, *ends(*WARPS)]) == ()


def test_more_than_the_launch_has_is_doubted() -> None:
    assert doubts([*(budget(w, 232, 168) for w in FIRST), *ends(*WARPS)])
    both = [*(budget(w, 160, 168) for w in SECOND), *(budget(w, 232, 168) for w in FIRST)]
    assert doubts([*both, *ends(*WARPS)])


def test_increases_that_wait_for_each_other_are_doubted() -> None:
    """Each warpgroup gives back and then asks for more than the other's gift leaves."""
    down = [budget(w, 100, 168, 10) for w in WARPS]
    up = [budget(w, 240, 100, 11) for w in WARPS]
    assert doubts([*down, *up, *ends(*WARPS)])
    back = [budget(w, 168, 100, 11) for w in WARPS]
    assert doubts([*down, *back, *ends(*WARPS)]) == ()


def test_a_pool_is_used_in_turns() -> None:
    """Warps that give back before they rest and take again when called: increases follow the others' gifts."""
    turn: list[ev.Event] = []
    for line in (20, 30):
        turn += [budget(w, 24, 168, line) for w in SECOND]
        turn += [budget(w, 240, 168, line + 1) for w in FIRST]
        turn += [*sync(WARPS)]
        turn += [budget(w, 168, 240, line + 2) for w in FIRST]
        turn += [*sync(WARPS)]
        turn += [budget(w, 168, 24, line + 3) for w in SECOND]
    assert doubts([*turn, *ends(*WARPS)]) == ()
