"""What do other implementations of layouts say to the same questions, by their own tests?

The peers are checkouts that the command line names; nothing of them is kept here. Their tests run unchanged, but the
operations that they import answer with Tilewright's algebra: pycute's functions are replaced by name, and for the
layout-categories' tests, which compare categorical constructions with CuTe, the module `cutlass.cute` is one that only
converts. So a test that passes is the peer's own postcondition on our answer. Besides, each answer is compared with the
peer's, and random questions are judged by enumeration, since tests ask only what works.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import unittest
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import peers_layout_random
from bench.peers_layout_answers import NUMBERS, OPERATIONS, Refused, composed, first_on_path, kind_of, layout_of, loaded
from bench.peers_layout_categories import categories
from tilewright.layout import equal

_MARKS = ("<!-- layout peers: begin -->", "<!-- layout peers: end -->")


@dataclass
class Tally:
    """Cases of one operation. passed: the peer's postcondition held of our answer."""

    asked: int = 0
    alike: int = 0
    other_form: int = 0
    beyond: int = 0
    differs: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    absent: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cutlass", type=Path, help="a checkout of NVIDIA/cutlass, for pycute and its tests")
    parser.add_argument("--categories", type=Path, help="a checkout of ColfaxResearch/layout-categories")
    parser.add_argument("--cute", type=Path, help="a Python that has the CuTe DSL, for the random questions too")
    parser.add_argument("--page", type=Path, default=Path("docs/layout-peers.md"), help="page whose table is rewritten")
    parser.add_argument("--random", type=int, default=500, help="random questions per operation (default 500)")


def run(arguments: argparse.Namespace) -> int:
    lines: list[str] = []
    if arguments.cutlass is not None:
        lines += _pycute(arguments.cutlass, arguments.random, arguments.cute)
    if arguments.categories is not None:
        lines += categories(arguments.categories)
    text = "\n".join(lines)
    print(text)
    if arguments.cutlass is not None and arguments.categories is not None:
        page = arguments.page.read_text()
        before, _, rest = page.partition(_MARKS[0])
        _, _, after = rest.partition(_MARKS[1])
        arguments.page.write_text(f"{before}{_MARKS[0]}\n\n{text}\n\n{_MARKS[1]}{after}")
    return 0


def _pycute(checkout: Path, questions: int, cute: Path | None) -> list[str]:
    tallies: dict[str, Tally] = {}
    with first_on_path(checkout / "python"):
        peer = importlib.import_module("pycute")
        originals = {name: getattr(peer, name) for name in (*OPERATIONS, *NUMBERS)}
        for name in OPERATIONS:
            setattr(peer, name, _replacing(name, originals[name], peer, tallies))
        for name, operation in NUMBERS.items():
            setattr(peer, name, _replacing_number(name, originals[name], operation, tallies))
        for name in ("inner_product", "shape_div", "idx2crd", "crd2crd"):
            setattr(peer, name, _counting_absent(name, getattr(peer, name), tallies))
        suite = unittest.TestSuite()
        for file in sorted((checkout / "test" / "python" / "pycute").glob("test_*.py")):
            module = loaded(file)
            suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
        result = unittest.TestResult()
        suite.run(result)
        for name, original in originals.items():
            setattr(peer, name, original)
        wrong = len(result.failures) + len(result.errors)
        asked = peers_layout_random.questions_of(questions)
        answers = {"pycute": peers_layout_random.by_functions(asked, originals, peer)}
        if cute is not None:
            answers["CuTe DSL"] = peers_layout_random.by_cute(asked, cute)
        lines = [
            f"pycute's tests: {result.testsRun - wrong} of {result.testsRun} pass on Tilewright's answers."
            + "".join(f" `{test.id()}` does not." for test, _ in (*result.failures, *result.errors)),
            "",
            *_table(tallies),
            "",
            f"{questions} random questions of each kind, judged by enumeration:",
            "",
            *peers_layout_random.table(asked, answers),
        ]
    return lines


def _replacing(name: str, original: Callable[..., Any], peer: Any, tallies: dict[str, Tally]) -> Callable[..., Any]:
    """The peer's function by name, answered by ours; the peer's answer where ours is none."""
    tally = tallies.setdefault(name, Tally())

    def answer(*arguments: Any) -> Any:
        tally.asked += 1
        theirs = original(*arguments)
        given = [layout_of(value) if peer.is_layout(value) else value for value in arguments]
        try:
            ours = OPERATIONS[name](*given)
        except Refused as refusal:
            tally.refused[kind_of(str(refusal))] += 1
            return theirs
        if name == "composition" and composed(given[0], given[1])[1]:
            tally.beyond += 1
        if str(ours) == str(layout_of(theirs)):
            tally.alike += 1
        elif equal(ours, layout_of(theirs)) is True:
            tally.other_form += 1
        else:
            tally.differs[f"`{name}{tuple(map(str, arguments))}`: {ours}, and {theirs} there"] += 1
        return peer.Layout(ours.shape, ours.stride)

    return answer


def _replacing_number(
    name: str, original: Callable[..., Any], operation: Callable[..., object], tallies: dict[str, Tally]
) -> Callable[..., Any]:
    tally = tallies.setdefault(name, Tally())

    def answer(*arguments: Any) -> Any:
        tally.asked += 1
        found = operation(*arguments)
        if found == original(*arguments):
            tally.alike += 1
        else:
            tally.differs[f"`{name}{arguments}`: {found}"] += 1
        return found

    return answer


def _counting_absent(name: str, original: Callable[..., Any], tallies: dict[str, Tally]) -> Callable[..., Any]:
    def answer(*arguments: Any) -> Any:
        tally = tallies.setdefault(name, Tally())
        tally.asked += 1
        tally.absent += 1
        return original(*arguments)

    return answer


def _table(tallies: dict[str, Tally]) -> list[str]:
    lines = ["| operation | cases | alike | same function, other form | refused | differs | not offered |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for name, tally in sorted(tallies.items()):
        if not tally.asked:
            continue
        refused = "; ".join(f"{count}: {reason}" for reason, count in tally.refused.items()) or "0"
        differs = "; ".join(tally.differs) or "0"
        alike = f"{tally.alike}" + (f" ({tally.beyond} with `extend=True`)" if tally.beyond else "")
        lines.append(
            f"| `{name}` | {tally.asked} | {alike} | {tally.other_form} | {refused} | {differs} | {tally.absent} |"
        )
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.peers_layout", description=__doc__)
    add_arguments(parser)
    sys.exit(run(parser.parse_args()))
