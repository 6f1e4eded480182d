"""Which engines may answer a question of legality? Each can be switched off, so that what it buys can be measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Engines:
    """memo: answers kept from earlier questions; domain: intervals and congruences that prune candidates; egraph:
    equality saturation over views that no short chain of moves makes legal; solver: integers for the fields of a map;
    sets: canonical forms by which equal questions share an answer."""

    memo: bool = True
    domain: bool = True
    egraph: bool = True
    solver: bool = True
    sets: bool = True


ALL_ENGINES = Engines()
