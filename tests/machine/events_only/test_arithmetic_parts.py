"""Arithmetic in parts: what comes again is apart from what is new, nothing is done before what it needs, and parts that
are alike are told from those that are not."""

from __future__ import annotations

from random import Random

import pytest
from small_kernels import module

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.events_only.arithmetic_parts import Arithmetic, flow, likeness, parts_of


def step(target: int, *reads: int, few: bool = False, partly: bool = False) -> Arithmetic:
    return Arithmetic(tuple(sorted(reads)), (target,), partly, few)


def parts(steps: list[Arithmetic], wide: tuple[int, ...] = ()) -> list[list[int]]:
    return parts_of(range(len(steps)), dict(enumerate(steps)), wide)


def test_what_few_values_tell_is_apart_from_what_they_are_computed_from() -> None:
    # 1 is new each time, 2 comes again; 12 is one of few values.
    steps = [step(11, 1), step(12, 11, few=True), step(13, 12), step(14, 13), step(15, 12), step(16, 2, 15)]
    assert parts(steps) == [[0, 1], [2, 3, 4], [5]]


def test_few_steps_are_done_with_those_that_alone_need_them() -> None:
    assert parts([step(11, 1), step(12, 11, 2), step(13, 12)]) == [[0, 1, 2]]
    assert parts([step(11, 1), step(12, 11, 2), step(13, 11, 3)]) == [[0], [1], [2]]


def test_registers_of_64_bits_are_apart_where_registers_are_written_twice() -> None:
    steps = [step(11, 1), step(11, 11, 2), step(64, 11, 60), step(11, 11, 3)]
    assert parts(steps[:3], (60,)) == [[0, 1], [2]]
    assert parts(steps, (60,)) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("seed", range(60))
def test_done_part_by_part_every_register_gets_what_it_would(seed: int) -> None:
    random = Random(seed)
    twice = seed % 3 == 0
    steps: list[Arithmetic] = []
    for place in range(random.randrange(2, 40)):
        reads = {random.choice([*range(6), *range(100, 100 + place)]) for _ in range(random.randrange(4))}
        target = random.choice([*range(6), *range(100, 140)]) if twice and random.random() < 0.2 else 100 + place
        steps.append(step(target, *reads, few=random.random() < 0.3, partly=random.random() < 0.1))
    found = parts(steps, tuple(random.sample(range(6), 2)))
    assert sorted(place for part in found for place in part) == list(range(len(steps)))

    def run(order: list[int]) -> dict[int, object]:
        values: dict[int, object] = {}
        for place in order:
            each = steps[place]
            read = (*each.reads, *each.writes) if each.partly else each.reads
            values[each.writes[0]] = (place, tuple(values.get(slot, slot) for slot in read))
        return values

    assert run([place for part in found for place in part]) == run(list(range(len(steps))))


def test_what_steps_read_is_what_they_have_not_written() -> None:
    assert flow([step(11, 1), step(12, 11, 2), step(2, 12)]) == ([1, 2], [11, 12, 2])
    assert flow([step(11, 1, partly=True), step(12, 11)]) == ([1, 11], [11, 12])


def instructions(body: str) -> list[Instruction]:
    return [each for each in module(body).kernels[0].body if isinstance(each, Instruction)]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("add.u32 %r1, %r2, 4; xor.b32 %r3, %r1, %r2;", "add.u32 %r7, %r1, 4; xor.b32 %r2, %r7, %r1;", True),
        ("add.u32 %r1, %r2, 4; xor.b32 %r3, %r1, %r2;", "add.u32 %r7, %r1, 4; xor.b32 %r2, %r1, %r7;", False),
        ("add.u32 %r1, %r2, 4;", "add.u32 %r1, %r2, 8;", False),
        ("add.u32 %r1, %r2, 4;", "sub.u32 %r1, %r2, 4;", False),
        ("@%p1 add.u32 %r1, %r2, 4;", "@!%p1 add.u32 %r1, %r2, 4;", False),
        ("@%p1 add.u32 %r1, %r2, 4;", "@%p2 add.u32 %r1, %r2, 4;", True),
        # It is noted for each where both operands have a bit.
        ("or.b32 %r1, %r2, 4;", "or.b32 %r1, %r2, 4;", False),
    ],
)
def test_alike_is_what_differs_in_the_names_of_registers_alone(one: str, other: str, alike: bool) -> None:
    both = instructions(f"{one} {other} ret;")[:-1]
    half = len(both) // 2
    forms = [likeness(each, [False] * half)[0] for each in (both[:half], both[half:])]
    assert (forms[0] == forms[1]) == alike
    assert likeness(both[:half], [True] + [False] * (half - 1))[0] != forms[0]


def test_registers_are_named_in_the_order_of_the_text() -> None:
    assert likeness(instructions("@%p1 add.u32 %r1, %r2, 4; ret;")[:1], [False])[1] == ("%p1", "%r1", "%r2")
