"""Expressions: a thousand launches at once are what single runs of 32 lanes give."""

from __future__ import annotations

import numpy as np
import pytest
from tests.driver.symbolic_instructions import expressions, rows_of

from tilewright.machine.core.lanes import FULL
from tilewright.machine.symbolic.expression import (
    CannotEvaluate,
    Evaluation,
    Input,
    Leaf,
    Node,
    Pointer,
    Table,
    constant,
    constants_of,
    inputs_of,
    needed,
    rendered,
)

N, M = Input("number", 0, 4), Input("number", 4, 4)
WORD = np.dtype(np.uint32)
LOW = int.from_bytes(b"\x01" * 4 + b"\x00" * 28, "little")
"""The first four lanes."""


def leaves() -> tuple[Table, Node, Node]:
    table = Table()
    return table, table.leaf(Leaf(N, 0, WORD)), table.leaf(Leaf(M, 0, WORD))


def columns(*rows: tuple[int, int]) -> dict[Input, np.ndarray]:
    return {N: np.array([row[0] for row in rows], np.uint64), M: np.array([row[1] for row in rows], np.uint64)}


def test_many_launches_at_once_are_single_ones() -> None:
    of = expressions("mad.lo.u32 %r4, %r1, %r2, 7; shr.u32 %r5, %r4, %r2; setp.lt.s32 %p1, %r5, %r1;")
    rows = rows_of(list(of.inputs), np.random.default_rng(3), 300)
    names = list(of.inputs.values())
    every = {given: np.array([row[place] for row in rows], np.uint64) for place, given in enumerate(names)}
    whole = Evaluation(of.table, every, len(rows))
    for index in range(0, len(rows), 11):
        single = Evaluation(of.table, {given: values[index : index + 1] for given, values in every.items()}, 1)
        for target in ("%r4", "%r5", "%p1"):
            node = of.registers[target]
            assert single.of(node)[0] == whole.of(node)[index]
            assert (single.lanes(node) == whole.lanes(node)[index]).all()


def test_equal_nodes_are_one() -> None:
    table, n, m = leaves()
    assert table.leaf(Leaf(N, 0, WORD)) is n and n is not m
    assert table.merged(LOW, n, m) is table.merged(LOW, n, m)
    assert table.merged(LOW, n, m) is not table.merged(FULL, n, m)
    assert needed((table.merged(LOW, n, m),), {})[:2] == [n, m]


def test_lanes_of_a_merged_node() -> None:
    table, n, m = leaves()
    merged = table.merged(LOW, n, m)
    assert not merged.uniform
    found = Evaluation(table, columns((5, 9), (6, 8)), 2).lanes(merged)
    assert found.tolist() == [[5] * 4 + [9] * 28, [6] * 4 + [8] * 28]
    inputs = inputs_of((merged,))
    assert inputs == (N, M)


def test_a_choice_by_a_predicate() -> None:
    table, n, m = leaves()
    predicate = table.leaf(Leaf(N, 0, np.dtype(np.bool_)))
    chosen = table.chosen(predicate, m, np.array([3], np.uint32))
    assert isinstance(chosen, Node) and chosen.uniform
    assert Evaluation(table, columns((0, 9), (1, 9), (256, 4)), 3).of(chosen).tolist() == [3, 9, 4]
    assert table.chosen(predicate, n, n) is n, "either way the same"
    assert table.negated(table.negated(predicate)) is predicate
    assert Evaluation(table, columns((0, 9), (1, 9)), 2).of(table.negated(predicate)).tolist() == [True, False]


def test_what_is_opaque_is_not_evaluated_and_neither_is_what_rests_on_it() -> None:
    table, n, m = leaves()
    merged = table.merged(LOW, table.opaque("a reason", (n,)), m)
    assert merged.opaque and not m.opaque
    evaluation = Evaluation(table, columns((5, 9)), 1)
    for _ in range(2):
        with pytest.raises(CannotEvaluate):
            evaluation.of(merged)
    assert evaluation.of(m).tolist() == [9]


def test_parts_of_a_number_and_places_in_the_grid() -> None:
    table = Table()
    value = {N: np.array([0x8899_AABB], np.uint64)}
    half = table.leaf(Leaf(N, 2, np.dtype(np.uint16)))
    signed = table.leaf(Leaf(N, 1, WORD, loaded_bytes=1, signed=True))
    place = table.leaf(Leaf(N, 0, WORD, 4, 3))
    found = Evaluation(table, value, 1)
    assert [int(found.of(each)[0]) for each in (half, signed, place)] == [
        0x8899,
        0xFFFF_FFAA,
        (0x8899_AABB * 4 + 3) & 0xFFFF_FFFF,
    ]
    assert len({half.number, signed.number, place.number}) == 3


def test_a_pointer_is_its_base_or_null_and_missing_inputs_are_0() -> None:
    table = Table()
    given = Input("pointer", 8, 8)
    node = table.leaf(Pointer(given, 0x1234))
    assert Evaluation(table, {given: np.array([0, 1], np.uint64)}, 2).of(node).tolist() == [0, 0x1234]
    assert Evaluation(table, {}, 1).of(node).tolist() == [0]


def test_a_constant_is_one_element_where_the_lanes_agree() -> None:
    lanes = np.arange(32, dtype=np.uint32)
    lanes[:4] = 7
    assert constant(lanes, LOW).tolist() == [7]
    assert constant(lanes, FULL).size == 32


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        ("add.u32 %r4, %r1, 5;", "%r4", "(%r1 + 5)"),
        ("mul.hi.u32 %r4, %r1, %r2;", "%r4", "mulhi(%r1, %r2)"),
        ("mad.lo.s32 %r4, %r1, %r2, -3;", "%r4", "(%r1 * %r2 + -3)"),
        ("setp.ge.s32 %p1, %r1, 64;", "%p1", "(%r1 >= 64)"),
        ("setp.lo.and.u32 %p1, %r1, %r2, !%p2;", "%p1", "(%r1 < %r2 & !%p2)"),
        ("cvt.u64.u32 %d1, %r1; shl.b64 %d2, %d1, 2;", "%d2", "(%r1 << 2)"),
        ("selp.u32 %r4, %r1, 8, %p1;", "%r4", "(%p1 ? %r1 : 8)"),
        ("popc.b32 %r4, %r1;", "%r4", "popc(%r1)"),
    ],
)
def test_expressions_in_words(text: str, target: str, words: str) -> None:
    of = expressions(text)
    names = {given: name for name, given in of.inputs.items()}
    assert rendered(of.registers[target], names.__getitem__) == words


def test_deep_expressions_are_cut() -> None:
    of = expressions("add.u32 %r1, %r1, %r2;" * 20)
    assert "..." in rendered(of.registers["%r1"], lambda given: "x")
    assert constants_of((expressions("add.u32 %r4, %r1, 640;").registers["%r4"],)) == (640,)
