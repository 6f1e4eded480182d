"""The proof for all trip counts, held against runs that it did not make: of longer loops, and of programs that go wrong
only late."""

import re
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from tilewright.contract.words import proof as structured_proof
from tilewright.contract.words.proof import prove
from tilewright.contract.words.relevance import relevance
from tilewright.contract.words.run import Run
from tilewright.contract.words.scalar import Atoms
from tilewright.contract.words.ttgir import TTGIR
from tilewright.contract.words.values import OPAQUE
from tilewright.contract.words.walk import Choice, Program, Walk
from tilewright.contract.words.word import Word
from tilewright.frontends.mlir.reader import arguments_of, read_mlir

DATA = Path(__file__).parents[2] / "data" / "ttgir"


def function_of(text):
    return next(each for each in read_mlir(text, "test").walk() if each.name == "tt.func")


def begin(function, program):
    word = program.words["default"] = Word("default", [], [])
    given = {
        each.name: program.atoms.of("argument", each.name) if each.type == "i32" else OPAQUE
        for each in arguments_of(function.tokens)
    }
    Walk(program, word).body(function.regions[0], given, {})


def verdict_of(text):
    function = function_of(text)
    return prove(function.regions[0], partial(begin, function), TTGIR)


def symbols_of(function, atoms):
    choice = Choice({}, {})
    program = Program(TTGIR, atoms, choice, relevance(function.regions[0], TTGIR))
    begin(function, program)
    return tuple(choice.open_symbols)


@pytest.mark.parametrize("name", ["wgmma_ring", "specialized_copy", "tcgen05_ring", "attention_specialized"])
def test_longer_runs_agree(name):
    function, atoms = function_of((DATA / f"{name}.ttgir").read_text()), Atoms()
    symbols = symbols_of(function, atoms)
    assert symbols
    for counts in product((1, 37, 50), repeat=len(symbols)):
        choice = Choice(dict(zip(symbols, counts, strict=True)), {})
        for symbol, count in choice.counts.items():
            choice.know(symbol, count)
        program = Program(TTGIR, atoms, choice, relevance(function.regions[0], TTGIR))
        begin(function, program)
        assert not choice.open_symbols and not choice.open_conditions
        run = Run(program.words)
        run.go()
        assert not run.troubles


def late(trips):
    """The consumer stops releasing slots after `trips` trips."""
    text = (DATA / "specialized_copy.ttgir").read_text()
    release = re.search(r"\n( *)ttng\.arrive_barrier (%\w+), 1, %\w+ :", text)
    index = re.findall(r"scf\.for (%\w+) =", text[: release.start()])[-1]
    condition = f"""
{release[1]}%late = arith.constant {trips} : i32
{release[1]}%early = arith.cmpi slt, {index}, %late : i32
{release[1]}ttng.arrive_barrier {release[2]}, 1, %early :"""
    return text[: release.start()] + condition + text[release.end() :]


@pytest.mark.parametrize("trips", [2, 7, 23])
def test_what_goes_wrong_late_is_refuted(trips):
    verdict = verdict_of(late(trips))
    assert {trouble.code for trouble in verdict.troubles} & {"MB113", "MB110"}


def test_what_goes_wrong_too_late_is_unknown(monkeypatch):
    monkeypatch.setattr(structured_proof, "COUNT_MAX", 24)
    verdict = verdict_of(late(40))
    assert not verdict.troubles and verdict.doubts
    assert "not seen to repeat" in verdict.doubts[0][1]


def test_claims_say_what_repeats():
    verdict = verdict_of((DATA / "wgmma_ring.ttgir").read_text())
    assert not verdict.troubles and not verdict.doubts
    assert any("repeats with period 6" in claim for claim in verdict.claims)
