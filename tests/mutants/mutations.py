"""Mutants of a text: every mutation at some of the places it fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.mutants.broken import BROKEN
from tests.mutants.edit import Mutation, Subject
from tests.mutants.harmless import HARMLESS
from tilewright.frontends.ptx.reader import read

__all__ = ["BROKEN", "HARMLESS", "Mutant", "Mutation", "mutants"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """An edited text. line: of the edit, 1-based, the same in the subject; isa: the reading to check it under."""

    mutation: str
    text: str
    line: int
    families: tuple[str, ...]
    isa: str = "tolerant"
    shows: tuple[str, ...] = ()


def mutants(text: str, file: str, mutations: tuple[Mutation, ...], places: int = 3) -> Iterator[Mutant]:
    """Mutants of every kernel of a text: for each mutation, at most `places` of the places it fits, spread out.

    An edit that the text's own grammar does not take (an operand renamed that has other uses on its line) would be no
    mutant of the protocol: edits are made so that the text stays one, and a test reads every one.
    """
    module = read(text, file, tolerant=True)
    lines = tuple(text.split("\n"))
    for mutation in mutations:
        found = [edit for kernel in module.kernels for edit in mutation.places(Subject(kernel, lines))]
        step = max(1, len(found) // places)
        for edit in found[::step][:places]:
            edited = list(lines)
            for line, new in edit.new.items():
                edited[line - 1] = new
            yield Mutant(mutation.name, "\n".join(edited), edit.line, mutation.families, mutation.isa, mutation.shows)
