"""The order of a shuffling exchange's instructions: what each reads stands before it, and sending is not held up."""

from __future__ import annotations

import itertools
import re

import pytest
from bench.register_layouts import register_layouts

from tilewright.ir.exchange import ExchangePlan, Shuffle
from tilewright.lower.exchange.order import streamed
from tilewright.lower.exchange.steps import emit, prepare
from tilewright.lower.ptx.emit import Text
from tilewright.synth.exchange.search import candidate_plans

LAYOUTS = register_layouts(64)


def shuffling_lines(first: str, second: str, element_bytes: int) -> list[str]:
    plans = candidate_plans(LAYOUTS[first], LAYOUTS[second], element_bytes, "sm_90a")
    assert isinstance(plans, tuple)
    plan = next(plan for plan in plans if any(isinstance(step, Shuffle) for step in plan.steps))
    assert isinstance(plan, ExchangePlan)
    text = Text()
    words = [text.register("b32") for _ in range(plan.elements_in * element_bytes // 4)]
    ready = prepare(text, plan, text.register("b32"), text.register("b32"))
    begin = len(text.lines)
    emit(ready, words)
    return text.lines[begin:]


@pytest.mark.parametrize(
    ("first", "second", "element_bytes"),
    [
        ("row1", "row2", 1),
        ("row1", "row2", 2),
        ("column1", "column2", 4),
        ("dot A, 16 bits", "ldmatrix x4 transposed", 2),
        ("row4", "slice, lanes repeat", 1),
    ],
)
def test_an_instruction_stands_after_what_it_reads(first: str, second: str, element_bytes: int) -> None:
    lines = shuffling_lines(first, second, element_bytes)
    written = {each for line in lines for each in re.findall(r"%\w+", line.split(",")[0])}
    known: set[str] = set()
    for line in lines:
        target, *read = re.findall(r"%\w+", line)
        assert all(each in known for each in read if each in written), line
        assert target not in known, line
        known.add(target)


def test_words_are_put_together_one_shuffle_after_they_were_sent() -> None:
    lines = shuffling_lines("row1", "row2", 2)
    sends = [at for at, line in enumerate(lines) if "shfl" in line]
    assert len(sends) == 16 and len(lines) == 48
    # The first word goes when it alone is made, and between sends no more than four words are packed.
    assert sends[0] == 1
    assert max(after - before for before, after in itertools.pairwise(sends)) <= 4
    # Of 16 words made afterwards, only the last two pairs wait until everything was sent.
    assert len(lines) - 1 - sends[-1] <= 4


def test_lines_keep_their_number_and_those_without_shuffles_their_order() -> None:
    lines = ["\tprmt.b32 %r1, %r0, %r0, 1;", "\tmov.b32 {%h1, %h2}, %r1;", "\tmov.b32 %r2, {%h2, %h1};"]
    assert streamed(lines) == lines
    sent = [*lines, "\tshfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;", "\tselp.b32 %r4, %r3, %r0, %p0;"]
    assert streamed(sent) == sent
    assert sorted(streamed(sent[::1])) == sorted(sent)
