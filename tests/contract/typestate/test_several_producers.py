"""Rings that several roles fill, or read alternately: those that are right are proven, and their mutants refuted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.contract.gemm_program import Shape, gemm
from tests.contract.ring_programs import (
    Begin,
    Copy,
    Loop,
    Program,
    Release,
    Ring,
    Role,
    Statement,
    Wait,
    module,
    violation,
)
from tests.contract.typestate.typestate_edits import copy_after, every, first, put, remove
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.ir.ac import operations as ac
from tilewright.targets import target

HOPPER = target("sm_90a")
TWO = Shape(producers=2)


# ---------------------------------------------------------------- a matrix product: one fills A, another B


@pytest.mark.parametrize(
    "shape", [TWO, Shape(producers=2, consumers=1, stages=2), Shape(producers=2, cluster=2)], ids=str
)
def test_two_producers_of_one_slot_are_proven(shape: Shape) -> None:
    verdict = verify(gemm(shape), HOPPER)
    assert isinstance(verdict, Proven), verdict


def test_claims_are_those_of_one_producer_but_for_arrivals() -> None:
    (one,), (two,) = protocol_claims(gemm(), HOPPER), protocol_claims(gemm(TWO), HOPPER)
    assert replace(one.rings[0], full_arrivals=2) == two.rings[0]


def one_arrival(module: ModuleOp) -> None:
    put(first(module, ac.RingOp), full_arrivals=1)


def three_arrivals(module: ModuleOp) -> None:
    put(first(module, ac.RingOp), full_arrivals=3)


def b_is_not_copied(module: ModuleOp) -> None:
    """Nothing is announced of it either."""
    copy = every(module, ac.CopyIssueOp)[1]
    announced = every(module, ac.ArriveExpectOp)[1]
    put(announced, bytes=0)
    copy.result.replace_all_uses_with(announced.result)
    remove(copy)


def both_copy_a(module: ModuleOp) -> None:
    """The second producer copies the first half of A's rows instead of B."""
    copy, other = every(module, ac.CopyIssueOp)
    other.operands[0], other.operands[1] = copy.operands[0], copy.operands[1]


def a_role_waits_for_less(module: ModuleOp) -> None:
    """B's producer begins with the second slice."""
    loop = [op for op in every(module, ac.LoopOp) if op.begin.data == 0][1]
    put(loop, begin=1)


def a_second_announcement(module: ModuleOp) -> None:
    close = every(module, ac.TransactionCloseOp)[1]
    copy_after(close)


def fewer_bytes(module: ModuleOp) -> None:
    put(every(module, ac.ArriveExpectOp)[1], bytes=1024)


@pytest.mark.parametrize(
    ("code", "mutate"),
    [
        ("MB008", one_arrival),
        ("MB008", three_arrivals),
        ("WG007", b_is_not_copied),
        ("TX005", both_copy_a),
        ("LV004", a_role_waits_for_less),
        ("LV002", a_second_announcement),
        ("TX001", fewer_bytes),
    ],
)
def test_mutants_of_two_producers(code: str, mutate: Callable[[ModuleOp], None]) -> None:
    written = gemm(TWO)
    mutate(written)
    verdict = verify(written, HOPPER)
    assert isinstance(verdict, Refuted), verdict
    assert code in {finding.code for finding in verdict.findings}, verdict.findings


def test_fewer_slots_than_readers_hold_deadlock_with_two_producers() -> None:
    verdict = verify(gemm(Shape(producers=2, stages=1)), HOPPER)
    assert isinstance(verdict, Refuted)
    assert [finding.code for finding in verdict.findings] == ["LV005"]


# ---------------------------------------------------------------- slots taken alternately


def over(*body: Statement) -> tuple[Statement, ...]:
    return (Loop("K", body),)


def fill(tag: str = "t") -> tuple[Statement, ...]:
    return Wait("r", "empty", tag), Begin(tag), Copy(tag)


def read(tag: str = "t") -> tuple[Statement, ...]:
    return Wait("r", "full", tag), Release(tag)


EVEN, ODD = {"r": (2, 0)}, {"r": (2, 1)}
READER = Role("reader", over(*read("one"), *read("two")))


def alternating(stages: int, *roles: Role, empty_arrivals: int = 1, full_arrivals: int = 1) -> Program:
    return Program((Ring("r", stages, full_arrivals, empty_arrivals),), roles, {"K": 0})


def breaks(written: Program) -> bool:
    return any(violation(written, {"K": count}, most_states=1500) for count in range(5))


FIRST, SECOND = Role("first", over(*fill()), strides=EVEN), Role("second", over(*fill()), strides=ODD)
FIRST_READER, SECOND_READER = Role("one", over(*read()), strides=EVEN), Role("two", over(*read()), strides=ODD)
FILLER = Role("filler", over(*fill("one"), *fill("two")))


@pytest.mark.parametrize(
    "written",
    [
        alternating(2, FIRST, SECOND, READER),
        alternating(3, FIRST, SECOND, READER),
        alternating(4, FIRST, SECOND, READER),
        alternating(2, FILLER, FIRST_READER, SECOND_READER),
        alternating(4, FIRST, SECOND, FIRST_READER, SECOND_READER),
        alternating(3, FIRST, SECOND, READER, replace(READER, name="another"), empty_arrivals=2),
    ],
)
def test_roles_that_take_slots_alternately_are_proven(written: Program) -> None:
    verdict = verify(module(written), HOPPER)
    assert isinstance(verdict, Proven), verdict
    assert not breaks(written)
    (claims,) = protocol_claims(module(written), HOPPER)
    assert claims.rings[0].fills.at({"K": 5}) == 10


@pytest.mark.parametrize(
    ("code", "written"),
    [
        ("MB008", alternating(2, FIRST, replace(SECOND, strides={"r": (3, 1)}), READER)),
        ("LV005", alternating(4, FIRST, replace(SECOND, strides={"r": (2, 2)}), READER)),
        ("MB008", alternating(2, FIRST, SECOND, READER, full_arrivals=2)),
        ("MB009", alternating(2, FILLER, FIRST_READER, SECOND_READER, empty_arrivals=2)),
        ("LV004", alternating(2, FIRST, SECOND, Role("reader", over(*read())))),
        ("LV004", alternating(2, FIRST, replace(SECOND, body=(*over(*fill()), *fill("last"))), READER)),
        ("LV001", alternating(2, FIRST, SECOND, Role("reader", over(*read("one"), Wait("r", "full", "two"))))),
    ],
)
def test_mutants_of_alternating_roles(code: str, written: Program) -> None:
    verdict = verify(module(written), HOPPER)
    assert isinstance(verdict, Refuted), verdict
    assert code in {finding.code for finding in verdict.findings}, verdict.findings
    assert breaks(written)


def test_roles_that_take_slots_in_other_patterns_are_unknown() -> None:
    """One fills the first slot, another all others: right, and not understood."""
    first = Role("first", fill())
    rest = Role("rest", over(*fill()), strides={"r": (1, 1)})
    written = alternating(2, first, rest, Role("reader", (*read(), *over(*read()))))
    verdict = verify(module(written), HOPPER)
    assert isinstance(verdict, Unknown)
    assert "is to take all slots, or every 2-th" in verdict.reasons[0]
    assert not breaks(written)


def test_two_roles_that_both_take_the_first_slot_are_refuted() -> None:
    """Both are of one pattern, so that nothing is known of the slots between."""
    written = alternating(2, FIRST, replace(FIRST, name="second"), READER)
    assert isinstance(verify(module(written), HOPPER), Refuted)
    assert breaks(written)


@pytest.mark.parametrize(
    "written",
    [
        # More roles than slots: the parity that one waits for may be that of two uses before.
        alternating(1, FIRST, SECOND, READER),
        # Copies end in any order: that slot 1 is full says nothing of slot 0's last use.
        alternating(3, FILLER, FIRST_READER, SECOND_READER),
    ],
)
def test_parities_that_may_be_those_of_other_phases_are_not_proven(written: Program) -> None:
    assert isinstance(verify(module(written), HOPPER), Unknown | Refuted)
    assert breaks(written)
