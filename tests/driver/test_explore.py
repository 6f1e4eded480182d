"""Which verdict follows from the launches of an exploration. The kernels are functions of their numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.driver.explore import Judged, Values, explore

BROKEN = Refuted((Diagnostic("MB101", "name", "it breaks"),))
CLEAN = Proven("this launch")


def _kernel(verdict: Callable[[Values], Verdict], repeats: str | None = None) -> Callable[[Values], Judged]:
    """A kernel whose loop turns once for every 64 of its first number, for every number of the second."""

    def judge(values: Values) -> Judged:
        turns = -(-values[0] // 64) if values else 0
        return Judged(verdict(values), {"loop": turns}, turns, {"loop": repeats} if turns > 8 else {})

    return judge


def test_a_clean_kernel_whose_loops_repeat_is_proven_for_all_trip_counts() -> None:
    verdict = explore(("k",), _kernel(lambda _values: CLEAN), seconds=5)
    assert isinstance(verdict, Proven)
    assert verdict.scope == "all trip counts"


def test_a_clean_kernel_whose_loop_does_not_repeat_is_proven_for_what_was_tried() -> None:
    verdict = explore(("k",), _kernel(lambda _values: CLEAN, "a counter is squared"), seconds=5)
    assert isinstance(verdict, Proven)
    assert verdict.scope == "this launch"
    assert "k = 1; k = " in verdict.assumptions[-1]
    assert "a counter is squared" in verdict.assumptions[-1]


def test_a_kernel_that_fails_for_small_numbers_only_is_proven_without_them() -> None:
    verdict = explore(("k",), _kernel(lambda values: BROKEN if values[0] < 64 else CLEAN), seconds=5)
    assert isinstance(verdict, Proven)
    assert any(line.startswith("not k = 0: there MB101") for line in verdict.assumptions)


@pytest.mark.parametrize("threshold", [64, 300])
def test_a_kernel_that_fails_for_large_numbers_is_refuted(threshold: int) -> None:
    verdict = explore(("k",), _kernel(lambda values: BROKEN if values[0] > threshold else CLEAN), seconds=5)
    assert isinstance(verdict, Refuted)
    assert verdict.findings[0].interleaving[0].startswith("with k = ")


def test_a_loop_that_fails_at_five_turns_is_found() -> None:
    verdict = explore(("k",), _kernel(lambda values: BROKEN if 256 < values[0] <= 320 else CLEAN), seconds=5)
    assert isinstance(verdict, Proven | Refuted)
    assert not isinstance(verdict, Proven) or any("MB101" in line for line in verdict.assumptions)


def test_one_unknown_launch_makes_the_kernel_unknown() -> None:
    verdict = explore(("k",), _kernel(lambda values: Unknown(("why",)) if values[0] == 1 else CLEAN), seconds=5)
    assert verdict == Unknown(("why",))


def test_a_failure_outweighs_what_is_unknown() -> None:
    verdict = explore(("k", "n"), _kernel(lambda values: Unknown(("why",)) if values[0] == 0 else BROKEN), seconds=5)
    assert isinstance(verdict, Refuted)


def test_time_that_runs_out_leaves_it_unknown() -> None:
    verdict = explore(("k",), _kernel(lambda _values: CLEAN), seconds=-1)
    assert isinstance(verdict, Unknown)
    assert "time ran out" in verdict.reasons[0]


def test_a_kernel_without_numbers_is_judged_once() -> None:
    assert explore((), _kernel(lambda _values: CLEAN), seconds=5) == Proven("all trip counts")


def _outside(where: Callable[[Values], bool], **said: object) -> Callable[[Values], Judged]:
    """A clean kernel that fails at some values, in a way that `said` says."""
    plain = _kernel(lambda values: BROKEN if where(values) else CLEAN)

    def judge(values: Values) -> Judged:
        return replace(plain(values), **said) if where(values) else plain(values)  # type: ignore[arg-type]

    return judge


def test_launches_that_the_kernel_asserts_against_show_nothing_and_are_assumed_not_to_be() -> None:
    verdict = explore(("k",), _outside(lambda values: values[0] > 300, asserted=Span("k.ptx", 12)), seconds=5)
    assert isinstance(verdict, Proven)
    assert "the kernel's own assertion at k.ptx:12 holds" in verdict.assumptions


def test_a_kernel_whose_every_launch_fails_its_assertion_is_unknown() -> None:
    verdict = explore(("k",), _outside(lambda _values: True, asserted=Span("k.ptx", 12)), seconds=5)
    assert isinstance(verdict, Unknown)
    assert "k.ptx:12" in verdict.reasons[0]


def test_numbers_beyond_an_array_refute_nothing_where_smaller_ones_are_clean() -> None:
    verdict = explore(("k",), _outside(lambda values: values[0] > 300, overrun="bytes outside sizes"), seconds=5)
    assert isinstance(verdict, Unknown)
    assert "bytes outside sizes" in verdict.reasons[0] and "k = " in verdict.reasons[0]


def test_an_array_that_every_launch_leaves_refutes() -> None:
    assert isinstance(explore(("k",), _outside(lambda _: True, overrun="bytes outside sizes"), seconds=5), Refuted)
