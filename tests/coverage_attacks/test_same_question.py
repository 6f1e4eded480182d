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
