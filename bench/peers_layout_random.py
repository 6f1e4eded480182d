"""Random questions about layouts to several peers, judged by enumeration.

Half of the layouts have arbitrary strides, half are running products in some order with gaps. Nothing is asked whose
values leave the first layout's domain. A peer that stops with an error gives no answer.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.peers_layout_answers import OPERATIONS, PEER_ERRORS, Refused
from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.layout import Layout
from tilewright.layout.layout_text import parse_layout

Question = tuple[str, tuple[Layout, ...]]
KINDS = ("composition", "right_inverse", "left_inverse")
_DRIVER = Path(__file__).parent / "peers_layout_cute.py"


def questions_of(count: int) -> list[Question]:
    """`count` of each kind, always the same ones."""
    generator = random.Random(5)
    asked: list[Question] = []
    for name in KINDS:
        for _ in range(count):
            left, right = _random_layout(generator, 64), _random_layout(generator, 32)
            if right.cosize > _size(left):
                right = Layout(min(_size(right), _size(left)), 1)
            asked.append((name, (left, right) if name == "composition" else (left,)))
    return asked


def table(asked: list[Question], peers: dict[str, list[Layout | None]]) -> list[str]:
    """One row for each kind and peer; peers: their answers, in the order of the questions."""
    ours = [_verdict(question, _our_answer(question)) for question in asked]
    heads = "both right", "only Tilewright right", "only the peer right", "Tilewright wrong", "peer wrong"
    lines = ["| operation | peer | " + " | ".join(heads) + " |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for name in KINDS:
        for peer, answers in peers.items():
            counts: Counter[str] = Counter()
            for question, we, answer in zip(asked, ours, answers, strict=True):
                if question[0] != name:
                    continue
                they = _verdict(question, answer)
                counts["both"] += we == they == "right"
                counts["we"] += we == "right" != they
                counts["they"] += they == "right" != we
                counts["we wrong"] += we == "wrong"
                counts["they wrong"] += they == "wrong"
            cells = (counts[key] for key in ("both", "we", "they", "we wrong", "they wrong"))
            lines.append(f"| `{name}` | {peer} | " + " | ".join(map(str, cells)) + " |")
    return lines


def by_functions(asked: list[Question], functions: dict[str, Callable[..., Any]], peer: Any) -> list[Layout | None]:
    """Answers of pycute's functions."""
    return [_by_function(question, functions, peer) for question in asked]


def _by_function(question: Question, functions: dict[str, Callable[..., Any]], peer: Any) -> Layout | None:
    name, inputs = question
    try:
        found = functions[name](*(peer.Layout(layout.shape, layout.stride) for layout in inputs))
        return Layout(found.shape, found.stride)
    except (*PEER_ERRORS, TilewrightError):
        return None


def by_cute(asked: list[Question], python: Path) -> list[Layout | None]:
    """Answers of the CuTe DSL of another Python. Raises TilewrightError where it does not run."""
    given = json.dumps([(name, [(layout.shape, layout.stride) for layout in inputs]) for name, inputs in asked])
    done = subprocess.run([python, _DRIVER], input=given, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise TilewrightError(f"the CuTe DSL of {python} stopped: {done.stderr[-300:]}")
    texts: list[str | None] = json.loads(done.stdout.splitlines()[-1])
    return [None if text is None else _read(text) for text in texts]


def _read(text: str) -> Layout | None:
    try:
        return parse_layout(text)
    except TilewrightError:
        return None


def _our_answer(question: Question) -> Layout | None:
    name, inputs = question
    try:
        return OPERATIONS[name](*inputs)
    except Refused:
        return None


def _verdict(question: Question, found: Layout | None) -> str:
    """By the definition, for every element."""
    if found is None:
        return "none"
    match question:
        case ("composition", (left, right)):
            right_one = found.size == right.size and all(
                found.at(place) == left.at(right.at(place)) for place in range(_size(right))
            )
        case ("right_inverse", (left,)):
            places = [found.at(value) for value in range(_size(found))]
            right_one = all(0 <= place < _size(left) for place in places) and all(
                left.at(place) == value for value, place in enumerate(places)
            )
        case (_, (left, *_)):
            right_one = all(found.at(left.at(place)) == place for place in range(_size(left)))
        case _:
            raise AssertionError(question)
    return "right" if right_one else "wrong"


def _size(layout: Layout) -> int:
    size = layout.size
    assert isinstance(size, int)
    return size


def _random_layout(generator: random.Random, most: int) -> Layout:
    extents = [generator.choice((1, 2, 2, 3, 4, 4, 6, 8)) for _ in range(generator.randint(1, 4))]
    while len(extents) > 1 and _size(Layout(tuple(extents))) > most:
        extents.pop()
    if generator.random() < 0.5:
        strides = [generator.choice((0, 1, 2, 3, 4, 6, 8, 12, 16)) for _ in extents]
    else:
        order = list(range(len(extents)))
        generator.shuffle(order)
        strides, running = [0] * len(extents), 1
        for place in order:
            running *= generator.choice((1, 1, 1, 2))
            strides[place] = running
            running *= extents[place]
    return Layout(nested.checked(tuple(extents), "shape"), tuple(strides))
