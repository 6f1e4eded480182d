"""Loops whose registers come back, move on, or do neither: what is found, and what is objected to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read
from tilewright.machine.barrier.mbarrier import TOKEN_PHASE
from tilewright.machine.core.memory import SHARED_WINDOW
from tilewright.machine.protocol.loops.induction import Repetition, Snapshot, objections, repetition

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k()
{
    .reg .b32 %r<40>;
    .reg .b64 %d<4>;
    .reg .pred %p<10>;
LOOP:
"""
_TAIL = """
    @%p1 bra LOOP;
    ret;
}
"""


def _body(text: str) -> tuple[Instruction, ...]:
    (kernel,) = read(_HEAD + text + _TAIL, "loop.ptx").kernels
    return tuple(item for item in kernel.body if isinstance(item, Instruction) and item.row not in ("ret", "bra"))


def _snapshots(**columns: Sequence[int]) -> list[Snapshot]:
    count = len(next(iter(columns.values())))
    return [
        {
            f"%{name}": np.full(32, values[index], np.bool_ if name.startswith("p") else np.uint32)
            for name, values in columns.items()
        }
        for index in range(count)
    ]


def _found(snapshots: list[Snapshot]) -> Repetition:
    found = repetition(snapshots, tuple(snapshots[0]))
    assert found is not None
    return found


def test_a_ring_of_three_with_a_parity_has_period_six() -> None:
    stages = [index % 3 for index in range(40)]
    parities = [index // 3 % 2 for index in range(40)]
    found = _found(_snapshots(r1=stages, r2=parities, r3=list(range(40))))
    assert (found.period, found.steps) == (6, {"%r3": 6})
    assert found.first == 0


def test_a_prologue_is_not_part_of_the_repetition() -> None:
    values = [7, 9, 4] + [index % 2 for index in range(20)]
    found = _found(_snapshots(r1=values))
    assert (found.period, found.first) == (2, 3)


def test_nothing_repeats_in_squares() -> None:
    assert repetition(_snapshots(r1=[index * index for index in range(30)]), ("%r1",)) is None


def test_two_periods_after_the_first_are_needed() -> None:
    assert repetition(_snapshots(r1=[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]), ("%r1",)) is None


def test_a_register_of_128_bits_repeats_where_both_halves_stay() -> None:
    def snapshots(step: int) -> list[Snapshot]:
        count = _snapshots(r1=list(range(40)))
        wide = [np.full((32, 2), (7, 5 + step * index), np.uint64).view("V16")[:, 0] for index in range(40)]
        return [{**each, "%q1": value} for each, value in zip(count, wide, strict=True)]

    assert _found(snapshots(0)).steps == {"%r1": 1}
    assert repetition(snapshots(1), ("%r1", "%q1")) is None


def test_lanes_must_move_together() -> None:
    rows: list[Snapshot] = [{"%r1": np.arange(32, dtype=np.uint32) * index} for index in range(12)]
    assert repetition(rows, ("%r1",)) is None


COUNTS = list(range(1, 41))
OUTCOMES = [index < 40 for index in COUNTS]
ENDS = frozenset({"%p1"})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("and.b32 %r2, %r1, 3;", [index & 3 for index in COUNTS]),
        ("rem.u32 %r2, %r1, 3;", [index % 3 for index in COUNTS]),
        ("shr.u32 %r3, %r1, 2; and.b32 %r2, %r3, 1;", [index >> 2 & 1 for index in COUNTS]),
        ("mad.lo.s32 %r3, %r1, 64, 5; and.b32 %r2, %r3, 127;", [(64 * index + 5) & 127 for index in COUNTS]),
        (
            "mul.hi.s32 %r3, %r1, 1431655766; shr.u32 %r4, %r3, 31; add.s32 %r5, %r3, %r4; and.b32 %r2, %r5, 1;",
            [index // 3 & 1 for index in COUNTS],
        ),
        (
            "mul.hi.u32 %r3, %r1, -858993459; shr.u32 %r4, %r3, 2; and.b32 %r2, %r4, 1;",
            [index // 5 & 1 for index in COUNTS],
        ),
        (
            "cvt.u64.u32 %d1, %r1; mul.hi.u64 %d2, %d1, 6148914691236517206; "
            "cvt.u32.u64 %r3, %d2; and.b32 %r2, %r3, 1;",
            [index // 3 & 1 for index in COUNTS],
        ),
        ("shl.b32 %r2, %r1, 30;", [index << 30 & 0xFFFFFFFF for index in COUNTS]),
        ("mul.lo.s32 %r2, %r1, 536870912;", [index << 29 & 0xFFFFFFFF for index in COUNTS]),
        ("div.u32 %r3, %r1, 2; and.b32 %r2, %r3, 1;", [index // 2 & 1 for index in COUNTS]),
        ("shr.s32 %r3, %r1, 31; add.s32 %r4, %r1, %r3; and.b32 %r2, %r4, 3;", [index & 3 for index in COUNTS]),
        ("bfe.u32 %r2, %r1, 1, 1;", [index >> 1 & 1 for index in COUNTS]),
        ("bfe.s32 %r2, %r1, 1, 2;", [(index >> 1 & 3 ^ 2) - 2 & 0xFFFFFFFF for index in COUNTS]),
    ],
)
def test_exact_arithmetic_of_counters_is_accepted(text: str, values: list[int]) -> None:
    quotient = {"r3": [index // 3 for index in COUNTS]} if text.startswith("mul.hi.s32") else {}
    snapshots = _snapshots(r1=COUNTS, r2=values, p1=OUTCOMES, **quotient)
    body = _body(f"add.s32 %r1, %r1, 1; {text} setp.lt.s32 %p1, %r1, 40;")
    assert objections(body, _found(snapshots), snapshots, ENDS, ENDS) == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mul.lo.s32 %r2, %r1, %r1;", "product of two counters"),
        ("xor.b32 %r2, %r1, 4;", "set or turned over"),
        ("shl.b32 %r2, %r1, 30; cvt.u64.u32 %d1, %r1; shl.b64 %d1, %d1, 32; max.u64 %d2, %d1, 1;", "no rule"),
        ("and.b32 %r2, %r1, 1023;", "masked by 0x3ff"),
        ("div.u32 %r2, %r1, 1000;", "divided by 1000"),
        ("bfe.u32 %r2, %r1, 6, 2;", "bits below 8"),
        ("setp.eq.s32 %p2, %r1, 1000;", "before they met"),
        ("setp.gt.s32 %p2, %r1, %r9;", "was not seen"),
        ("setp.eq.s32 %p2, %r1, 40;", "before they met"),
        ("setp.eq.s32 %p2, %r1, 1000; setp.eq.s32 %p2, %r5, 0;", "before they met"),
        ("cvt.u32.u8 %r2, %r1;", "masked by 0xff"),
        ("shl.b32 %r2, %r1, 24; shr.u32 %r4, %r2, 24;", "shifted out"),
        ("mul.hi.u32 %r2, %r1, 0x55595556; shr.u32 %r4, %r2, 1;", "divided by 2"),
        ("mul.wide.u16 %r2, %r1, 3;", "reads 16 bits"),
        ("mov.b32 {%r2, %r4}, %r1;", "no rule"),
    ],
)
def test_a_trace_of_a_counter_that_the_run_did_not_show_is_objected_to(text: str, reason: str) -> None:
    snapshots = _snapshots(r1=COUNTS, r5=[0] * 40, p1=OUTCOMES, p2=[False] * 40)
    body = _body(f"add.s32 %r1, %r1, 1; {text} setp.lt.s32 %p1, %r1, 40;")
    found = objections(body, _found(snapshots), snapshots, ENDS, ENDS)
    assert found and reason in found[0].reason


def _states(gained: int, text: str, first: int = 0) -> tuple[str, ...]:
    """What is objected to where the state of an arrival gains so much an iteration."""
    states = [first + gained * index & 0xFFFF_FFFF_FFFF_FFFF for index in range(40)]
    snapshots: list[Snapshot] = [
        {**each, "%d1": np.full(32, state, np.uint64)}
        for each, state in zip(_snapshots(r1=COUNTS, p1=OUTCOMES, p2=[True] * 40), states, strict=True)
    ]
    body = _body(f"add.s32 %r1, %r1, 1; {text} setp.lt.s32 %p1, %r1, 40;")
    return tuple(each.reason for each in objections(body, _found(snapshots), snapshots, ENDS, ENDS))


@pytest.mark.parametrize(
    ("text", "objected"),
    [
        ("setp.ge.s32 %p2, %r1, %r9;", False),
        ("setp.lt.s32 %p2, %r1, %r9;", False),
        ("setp.gt.s32 %p2, %r1, %r9;", True),
        ("setp.ge.u32 %p2, %r1, %r9;", True),
        ("setp.ge.s32 %p2, %r1, %r9; add.s32 %r1, %r1, 0;", True),
    ],
)
def test_what_turns_over_as_the_loop_ends_is_accepted(text: str, objected: bool) -> None:
    same = text.startswith("setp.lt")
    snapshots = _snapshots(r1=COUNTS[:-1], r9=[40] * 39, p1=[True] * 39, p2=[same] * 39)
    body = _body(f"add.s32 %r1, %r1, 1; {text} setp.lt.s32 %p1, %r1, %r9;")
    exits = frozenset({"%p1"})
    assert objections(body, _found(snapshots), snapshots, exits)[:1] if not same else True
    assert bool(objections(body, _found(snapshots), snapshots, exits, exits)) == objected


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ("st.shared.u32 [%r1], %r7;", True),
        ("ld.shared.u32 %r7, [%r1];", True),
        ("mbarrier.arrive.shared::cta.b64 _, [%r1];", True),
        ("bar.sync 1, %r1;", True),
        ("and.b32 %r2, %r1, 3; st.shared.u32 [%r2], %r7;", False),
        ("st.shared.u32 [%r7], %r1;", False),
        ("st.global.u32 [%d2], %r1;", False),
    ],
)
def test_a_counter_that_addresses_shared_memory_is_objected_to(text: str, moves: bool) -> None:
    values = {"r2": [index & 3 for index in COUNTS]} if "%r2" in text else {}
    snapshots = _snapshots(r1=COUNTS, p1=OUTCOMES, **values)
    body = _body(f"add.s32 %r1, %r1, 1; {text} setp.lt.s32 %p1, %r1, 40;")
    found = objections(body, _found(snapshots), snapshots, ENDS, ENDS)
    assert any("gains" in each.reason for each in found) == moves, found


def test_a_counter_that_addresses_memory_generically_is_objected_to_where_that_is_shared() -> None:
    for base, moves in ((SHARED_WINDOW, True), (1 << 40, False)):
        snapshots: list[Snapshot] = [
            {**each, "%d1": np.full(32, base + 8 * index, np.uint64)}
            for index, each in enumerate(_snapshots(r1=COUNTS, p1=OUTCOMES))
        ]
        body = _body("add.s32 %r1, %r1, 1; st.u32 [%d1], %r7; add.s64 %d1, %d1, 8; setp.lt.s32 %p1, %r1, 40;")
        assert bool(objections(body, _found(snapshots), snapshots, ENDS, ENDS)) == moves


def test_the_state_of_an_arrival_moves_by_phases() -> None:
    arrive = "mbarrier.arrive.shared::cta.b64 %d1, [%r7];"
    expect = "mbarrier.arrive.expect_tx.shared::cta.b64 %d1, [%r7], 1024;"
    wait = "mbarrier.try_wait.shared::cta.b64 %p2, [%r7], %d1;"
    assert _states(TOKEN_PHASE, f"{arrive} {wait}", first=5) == ()
    assert _states(2 * TOKEN_PHASE, f"{expect} {wait}") == ()
    assert any("more than phases" in each for each in _states(1, f"{arrive} {wait}"))
    counted = "mbarrier.arrive.shared::cta.b64 %d1, [%r7], %r1;"
    assert any("is a counter" in each for each in _states(TOKEN_PHASE, f"{counted} {wait}"))
    elsewhere = "mbarrier.try_wait.shared::cta.b64 %p2, [%r1], %d1;"
    assert any("its barrier, gains 1 " in each for each in _states(TOKEN_PHASE, f"{arrive} {elsewhere}"))
    parity = "cvt.u32.u64 %r8, %d1; mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r8;"
    assert any("no rule" in each for each in _states(TOKEN_PHASE, f"{arrive} {parity}"))
    pending = "mbarrier.pending_count.b64 %r8, %d1;"
    assert any("no rule" in each for each in _states(TOKEN_PHASE, f"{arrive} {pending}"))


def test_a_threshold_that_was_crossed_is_accepted_and_one_left_behind_too() -> None:
    crossed = [index < 36 for index in COUNTS]
    snapshots = _snapshots(r1=COUNTS, p1=OUTCOMES, p2=crossed, p3=[True] * 40)
    body = _body("add.s32 %r1, %r1, 1; setp.lt.s32 %p2, %r1, 36; setp.gt.s32 %p3, %r1, 0; setp.lt.s32 %p1, %r1, 40;")
    assert objections(body, _found(snapshots), snapshots, ENDS, ENDS) == ()


def test_an_update_that_is_skipped_at_times_is_objected_to() -> None:
    snapshots = _snapshots(r1=COUNTS, p1=OUTCOMES, p2=[True] * 40)
    body = _body("@%p2 add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 40;")
    assert objections(body, _found(snapshots), snapshots, ENDS, ENDS) == ()
    doubled = _body("@%p2 mul.lo.s32 %r1, %r1, 2; setp.lt.s32 %p1, %r1, 40;")
    assert objections(doubled, _found(snapshots), snapshots, ENDS, ENDS)


@pytest.mark.parametrize(
    ("text", "offset", "objected"),
    [
        ("add.s32 %r2, %r1, 0x7FFFFF00; setp.lt.s32 %p2, %r2, 0;", 0x7FFF_FF00, True),
        ("add.s32 %r2, %r1, 0x7FFFFF00; shr.u32 %r3, %r2, 31;", 0x7FFF_FF00, True),
        ("add.s32 %r2, %r1, 256; setp.lt.s32 %p2, %r2, 0;", 256, False),
        ("add.s32 %r2, %r1, 256; shr.u32 %r3, %r2, 31;", 256, False),
    ],
)
def test_a_counter_that_overflows_soon_is_objected_to(text: str, offset: int, objected: bool) -> None:
    snapshots = _snapshots(
        r1=COUNTS, r2=[index + offset for index in COUNTS], r3=[0] * 40, p1=OUTCOMES, p2=[False] * 40
    )
    body = _body(f"add.s32 %r1, %r1, 1; {text} setp.lt.s32 %p1, %r1, 40;")
    found = objections(body, _found(snapshots), snapshots, ENDS, ENDS)
    assert any("overflows soon" in each.reason for each in found) == objected, found


def test_each_lane_and_each_iteration_of_a_period_must_have_passed_a_threshold() -> None:
    def objected(thresholds: list[list[int]]) -> bool:
        snapshots: list[Snapshot] = [
            {**each, "%r2": np.array(thresholds[index % len(thresholds)], np.uint32)}
            for index, each in enumerate(_snapshots(r1=COUNTS, p1=OUTCOMES, p2=[True, False] * 20))
        ]
        body = _body("add.s32 %r1, %r1, 1; setp.gt.s32 %p2, %r1, %r2; setp.lt.s32 %p1, %r1, 40;")
        found = objections(body, _found(snapshots), snapshots, ENDS, ENDS)
        return any("before they met" in each.reason for each in found)

    passed = [5] * 32
    assert not objected([passed])
    assert objected([[*passed[:-1], 1000]])
    assert objected([passed, [1000] * 32])


def test_what_blocks_leave_in_a_register_must_gain_the_same() -> None:
    snapshots = _snapshots(r1=COUNTS, r2=[0] * 40, p1=OUTCOMES)
    body = _body("add.s32 %r1, %r1, 1; mov.b32 %r2, %r1; mov.b32 %r2, 0; setp.lt.s32 %p1, %r1, 40;")
    assert not objections(body, _found(snapshots), snapshots, ENDS, ENDS)
    found = objections(body, _found(snapshots), snapshots, ENDS, ENDS, blocks=(0, 0, 1, 2))
    assert any("and 1 elsewhere" in each.reason for each in found)


def test_a_number_that_a_launch_chooses_must_have_been_met_in_the_run() -> None:
    snapshots = _snapshots(r1=COUNTS[:-1], r9=[40] * 39, r8=[39] * 39, p1=[True] * 39, p2=[False] * 39)
    body = _body("setp.ge.s32 %p2, %r1, %r8; add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r9;")
    chosen = frozenset({"%r8", "%r9"})
    assert objections(body, _found(snapshots), snapshots, ENDS, ENDS, chosen)
    assert not objections(body, _found(snapshots), snapshots, ENDS, ENDS, chosen, whole=range(3))


def test_a_counter_may_be_stepped_before_it_is_compared_for_the_last_time() -> None:
    snapshots = _snapshots(r1=COUNTS[:-1], r9=[40] * 39, r8=[40] * 39, p1=[True] * 39, p2=[False] * 39)
    body = _body("add.s32 %r1, %r1, 1; setp.ge.s32 %p2, %r1, %r8; setp.lt.s32 %p1, %r1, %r9;")
    known = snapshots, ENDS, ENDS, frozenset({"%r8", "%r9"})
    blocks, found = (0, 0, 0), _found(snapshots)
    assert not objections(body, found, *known, blocks=blocks, whole=range(3), passed=(0,))
    assert objections(body, found, *known, blocks=blocks, whole=range(3))  # it may be stepped afterwards
    assert objections(body, found, *known, blocks=(1, 0, 0), whole=range(3), passed=(0,))  # or not in all iterations
    earlier = _body("setp.ge.s32 %p2, %r1, %r8; add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r9;")
    assert objections(earlier, found, *known, blocks=blocks, whole=range(3), passed=(0,))


_QUOTIENT = """
    div.s32 %r3, %r1, %r2;
    mul.lo.u32 %r4, %r3, 8;
    add.s32 %r1, %r1, 148;
    setp.lt.s32 %p1, %r1, %r2;
"""


def _quotient(first: int, step: int, below: frozenset[int]) -> tuple[str, ...]:
    """Why a loop does not repeat itself that divides a counter by a number that it does not write."""
    text = _QUOTIENT.replace("148", str(step))
    counters = [first + step * (index + 1) & 0xFFFFFFFF for index in range(20)]
    snapshots = _snapshots(r1=counters, r2=[5000] * 20, r3=[0] * 20, r4=[0] * 20)
    exits = frozenset({"%p1"})
    return tuple(
        each.reason for each in objections(_body(text), _found(snapshots), snapshots, exits, exits, below=below)
    )


def test_a_quotient_by_a_bound_that_the_counter_is_below_is_nothing() -> None:
    assert _quotient(0, 148, frozenset({0})) == ()
    # Of any other divisor, of a counter that may be negative, or that becomes so, nothing is known.
    assert _quotient(0, 148, frozenset()) == ("a divisor that is no constant",)
    assert _quotient(-1000, 148, frozenset({0})) == ("a quotient of what may be negative",)
    assert "a quotient of what may be negative" in _quotient(5000, -148, frozenset({0}))
