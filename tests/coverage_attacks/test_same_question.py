"""What one way shows to be impossible is not impossible on another: the same decision, behind both sides of a branch.

A number whose product has given bits is one of 64 in 2^32: no draw finds it, and a solver that is asked does. None of
them is below 4.
"""

from __future__ import annotations

import pytest

from tests.driver.hanging_kernels import hanging, judged
from tilewright.base.verdict import Proven, Refuted

RARE = (
    "mul.lo.u32 %r4, %r1, 2654435761; xor.b32 %r4, %r4, 0x5bd1e995; shr.u32 %r4, %r4, 6; "
    "setp.eq.u32 %p3, %r4, 0x123457; and.pred %p4, %p3, %p8; mov.u32 %r5, bar; selp.u32 %r4, 16, 0, %p3; "
    "add.u32 %r6, %r5, %r4;"
)
ACTS = {
    "branch": "@%p3 bra WAIT;",
    "guard": "@%p4 mbarrier.arrive.shared::cta.b64 _, [%r5+16];",
    "operand": "@%p8 mbarrier.arrive.shared::cta.b64 _, [%r6];",
}
"""What fails at such a number: nobody arrives where it waits, and there is no barrier at 16."""


def _kernel(first: str, second: str, below: str = "setp.lt.u32 %p2, %r1, 4;") -> str:
    """`first` below 4, `second` from there on."""
    body = f"""{RARE} {below}
    @!%p2 bra SECOND;
    {first}
    bra DONE;
SECOND:
    {second}
    bra DONE;
    setp.ne.u32 %p1, %r1, %r1;"""
    return hanging(body).replace("bar[16]", "bar[64]")


@pytest.mark.parametrize("act", ACTS)
def test_what_fails_on_the_second_way_alone_is_no_proof(act: str) -> None:
    verdict = judged(_kernel(ACTS[act], ACTS[act])).verdict
    assert not isinstance(verdict, Proven), verdict


@pytest.mark.parametrize("act", ACTS)
def test_the_same_the_other_way_round(act: str) -> None:
    verdict = judged(_kernel(ACTS[act], ACTS[act], "setp.ge.u32 %p2, %r1, 4;")).verdict
    assert not isinstance(verdict, Proven), verdict


@pytest.mark.parametrize("act", ACTS)
def test_what_fails_on_neither_way_is_not_refuted(act: str) -> None:
    verdict = judged(_kernel(ACTS[act], "")).verdict
    assert not isinstance(verdict, Refuted), verdict


@pytest.mark.parametrize("act", ["@%p4 bra WAIT;", "@%p4 mbarrier.arrive.shared::cta.b64 _, [%r5+16];"])
@pytest.mark.parametrize("lanes", ["lt", "ge"])
def test_what_fails_in_lanes_of_the_second_way_alone_is_no_proof(act: str, lanes: str) -> None:
    below = f"setp.eq.u32 %p5, %r3, 20; and.pred %p4, %p3, %p5; setp.{lanes}.u32 %p2, %r3, 16;"
    verdict = judged(_kernel(act, act, below)).verdict
    assert not isinstance(verdict, Proven), verdict


@pytest.mark.parametrize("act", ["@%p4 bra WAIT;", "@%p4 mbarrier.arrive.shared::cta.b64 _, [%r5+16];"])
def test_what_fails_in_lanes_that_come_in_other_launches_is_no_proof(act: str) -> None:
    come = "setp.lt.u32 %p2, %r1, 4; selp.u32 %r9, 16, 32, %p2; setp.ge.u32 %p6, %r3, %r9; @%p6 bra DONE;"
    body = f"{RARE} setp.eq.u32 %p5, %r3, 20; and.pred %p4, %p3, %p5; {come} {act} bra DONE; setp.ne.u32 %p1, %r1, %r1;"
    verdict = judged(hanging(body).replace("bar[16]", "bar[64]")).verdict
    assert not isinstance(verdict, Proven), verdict


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("below", ["lt", "ge"])
@pytest.mark.parametrize(("odd", "even"), [("@!%p6", "@%p6"), ("@%p6", "@!%p6")])
def test_what_fails_where_two_ways_meet_is_no_proof(act: str, below: str, odd: str, even: str) -> None:
    """Both ways need the same two decisions, with other outcomes."""
    body = f"""{RARE} setp.{below}.u32 %p2, %r1, 4; and.b32 %r9, %r1, 1; setp.eq.u32 %p6, %r9, 0;
    @%p2 bra OTHER;
    {odd} bra DONE;
    bra MEET;
OTHER:
    {even} bra DONE;
MEET:
    {ACTS[act]}
    bra DONE;
    setp.ne.u32 %p1, %r1, %r1;"""
    verdict = judged(hanging(body).replace("bar[16]", "bar[64]")).verdict
    assert not isinstance(verdict, Proven), verdict


_MET = f"""{RARE} and.b32 %r9, %r1, 1; setp.eq.u32 %p6, %r9, 0; setp.eq.u32 %p7, %r9, ODD; and.pred %p3, %p3, %p7;
    setp.BELOW.u32 %p2, %r1, 4;
    @!%p2 bra OTHER;
    @%p8 mbarrier.arrive.shared::cta.b64 _, [bar+16];
    and.pred %p10, %p6, %p6; setp.ne.u32 %p11, 0, 0;
    bra MEET;
OTHER:
    setp.eq.u32 %p10, 0, 0; and.pred %p11, %p6, %p6;
MEET: @!%p10 bra DONE; @%p11 bra DONE;
    @%p3 bra WAIT; bra DONE; setp.ne.u32 %p1, %r1, %r1;"""
_CONSTANT = f"""{RARE} setp.lt.u32 %p2, %r1, 4;
    @!%p2 bra OTHER;
    ARRIVES
    setp.eq.u32 %p10, 0, 0;
    bra MEET;
OTHER:
    and.pred %p10, %p3, %p3;
MEET: @%p10 bra WAIT; bra DONE; setp.ne.u32 %p1, %r1, %r1;"""
_SECOND = "mbarrier.init.shared::cta.b64 [bar], 1; @%p8 mbarrier.init.shared::cta.b64 [bar+16], 9;"
_RACE = """MAKE
    mov.u32 %r9, bar; add.u32 %r10, %r9, 40; selp.u32 %r11, 0, 48, %p3; add.u32 %r11, %r9, %r11; mov.u32 %r20, 0;
    setp.lt.u32 %p2, %r1, 1000;
    @!%p2 bra LOOP;
    @%p8 mbarrier.arrive.shared::cta.b64 _, [bar+16];
LOOP:
    setp.ge.u32 %p5, %r20, %r2; @%p5 bra DONE;
    and.b32 %r21, %r20, 1; setp.eq.u32 %p5, %r21, 0; selp.u32 %r12, %r10, %r11, %p5;
    @%p8 st.shared.u32 [%r12], %r20; @%p8 mbarrier.arrive.shared::cta.b64 _, [bar];
    add.u32 %r20, %r20, 1; bra LOOP; setp.ne.u32 %p1, %r1, %r1;"""


def _wide(body: str) -> str:
    return hanging(body).replace("bar[16]", "bar[64]").replace("mbarrier.init.shared::cta.b64 [bar], 1;", _SECOND)


@pytest.mark.parametrize(("below", "odd"), [("lt", 1), ("ge", 0)])
def test_one_expression_that_decides_at_two_places_of_the_ways_is_no_proof(below: str, odd: int) -> None:
    """One way needs it to hold at the first place, the other one to fail at the second."""
    verdict = judged(_wide(_MET.replace("BELOW", below).replace("ODD", str(odd)))).verdict
    assert not isinstance(verdict, Proven), verdict


def test_the_same_where_no_number_does_both_is_proven() -> None:
    assert isinstance(judged(_wide(_MET.replace("BELOW", "lt").replace("ODD", "0"))).verdict, Proven)


def test_what_no_input_decides_on_one_way_says_nothing_of_the_other() -> None:
    arrives = "@%p8 mbarrier.arrive.shared::cta.b64 _, [bar];"
    verdict = judged(_wide(_CONSTANT.replace("ARRIVES", arrives))).verdict
    assert not isinstance(verdict, Proven), verdict


def test_an_operand_of_later_iterations_on_the_second_way_alone_is_no_proof() -> None:
    verdict = judged(_wide(_RACE.replace("MAKE", RARE))).verdict
    assert not isinstance(verdict, Proven), verdict


def test_an_operand_of_later_iterations_that_is_harmless_is_proven() -> None:
    assert isinstance(judged(_wide(_RACE.replace("MAKE", "setp.ne.u32 %p3, %r1, %r1;"))).verdict, Proven)
