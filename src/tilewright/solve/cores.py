"""Which of the named constraints conflict: all smallest sets, not the first one found?

A core is a set of constraints that no values satisfy together, though they satisfy any of its proper subsets; a
correction is a set whose removal leaves the rest satisfiable, and none of whose proper subsets does. MARCO's scheme:
take a set not yet explored (no superset of a core, no subset of a satisfiable set), shrink it to a core or grow it to a
largest satisfiable set, until no set is left; then the lists are complete. Constraints that no open field connects are
explored apart. Fields that a user fixed are constraints too (`fixed`), so that a core can name them.

Sound whatever the limits: each core was proved unsatisfiable and each subset of it with one constraint less has a
witness, evaluated in plain Python. Where an engine gave no answer, or the calls ran out, `complete` is False. Checked
by tests/solve/test_cores.py against all subsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice, product
from math import prod

from tilewright.base.extra import MissingExtra
from tilewright.solve.bounded import DEFAULT_EFFORT, Effort
from tilewright.solve.expression import Operand
from tilewright.solve.fields import Chosen, Constraint, Engine, Infeasible, Problem, holds_at, state, witness
from tilewright.solve.narrowing import size

_HITTING_SETS_TRIED = 20_000
"""Sets looked at when the next unexplored one is sought."""

_CORRECTIONS_LISTED = 4_096
"""Corrections listed: of independent conflicts every combination is one, and those may be many."""


@dataclass(frozen=True, slots=True)
class Cores:
    """cores: the minimal conflicting sets; corrections: the minimal sets to give up; each by constraint names in the
    given order, small sets first. complete: whether these are all. No core and complete: satisfiable.
    """

    cores: tuple[tuple[str, ...], ...]
    corrections: tuple[tuple[str, ...], ...]
    complete: bool
    oracle_calls: int


@lru_cache(maxsize=1024)
def fixed(name: str, field: str, value: int) -> Constraint:
    """The constraint, called `name`, that `field` has `value`."""

    def equals(given: Operand) -> Operand:
        return given == value

    return Constraint(name, (field,), equals)


def minimal_cores(
    fields: Mapping[str, Sequence[int]],
    constraints: Sequence[Constraint],
    *,
    given: Sequence[Constraint] = (),
    engine: Engine = "auto",
    effort: Effort = DEFAULT_EFFORT,
) -> Cores:
    """All minimal cores of `constraints` over the domains `fields`, the constraints `given` always holding.

    Where `given` and the domains alone have no solution, the one core is empty. Raises TilewrightError as `choose`.
    """
    whole = state(fields, (*given, *constraints), ())
    if any(not domain for domain in whole.domains):
        return Cores(((),), (), True, 0)
    hard, soft = range(len(given)), range(len(given), len(given) + len(constraints))
    found = [
        _of_component(
            replace(whole, constraints=tuple(whole.constraints[i] for i in (*held, *asked))),
            len(held),
            tuple(i - len(given) for i in asked),
            engine,
            effort,
        )
        for held, asked in _components(whole, hard, soft)
    ]
    complete = all(part.complete for part in found) and prod(len(p.corrections) for p in found) <= _CORRECTIONS_LISTED
    calls = sum(part.oracle_calls for part in found)
    cores = [core for part in found for core in part.cores]
    if () in cores:
        return Cores(((),), (), complete, calls)
    if not all(part.corrections for part in found):
        # Nothing is known to satisfy one component: its hard constraints may be the whole conflict.
        return Cores((), (), False, calls)
    # One correction of each component, together: every component has at least one, the empty one where it is satisfied.
    corrections: list[tuple[int, ...]] = []
    for choice in islice(product(*(part.corrections for part in found)), _CORRECTIONS_LISTED):
        corrections.append(tuple(sorted(chain.from_iterable(choice))))
    names = tuple(constraint.name for constraint in constraints)
    return Cores(_named(cores, names), _named(corrections, names), complete, calls)


@dataclass(frozen=True, slots=True)
class _Found:
    """Of one component, by positions of the constraints asked about."""

    cores: tuple[tuple[int, ...], ...]
    corrections: tuple[tuple[int, ...], ...]
    complete: bool
    oracle_calls: int


def _components(whole: Problem, hard: range, soft: range) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Constraints that no undecided field connects, apart: each component's hard and soft ones, by position.

    A core lies within one component, and a correction is one of each; so no set is explored across them.
    """
    root = list(range(len(whole.names) + len(whole.constraints)))

    def find(node: int) -> int:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for i, constraint in enumerate(whole.constraints):
        for field in whole.positions(constraint):
            if size(whole.domains[field]) > 1:
                root[find(field)] = find(len(whole.names) + i)
    groups: dict[int, tuple[list[int], list[int]]] = {}
    for kind, positions in enumerate((hard, soft)):
        for i in positions:
            groups.setdefault(find(len(whole.names) + i), ([], []))[kind].append(i)
    return [(tuple(held), tuple(asked)) for held, asked in groups.values()]


def _of_component(whole: Problem, given: int, asked: tuple[int, ...], engine: Engine, effort: Effort) -> _Found:
    """All cores and corrections of one component, by MARCO's scheme. asked: positions that stand for its bits."""
    oracle = _Oracle(whole, given, engine, effort)
    everything = (1 << len(asked)) - 1
    cores: list[int] = []
    conflicting: list[int] = []
    largest: list[int] = []
    corrections: list[int] = []
    complete = True
    while oracle.calls < effort.oracle_calls:
        seed, searched = _unexplored(everything, (*cores, *conflicting), largest)
        if seed is None:
            complete = complete and searched
            break
        answer = oracle.ask(seed)
        if answer is False:
            core, proved = _shrink(seed, oracle.ask)
            (cores if proved else conflicting).append(core)
        else:
            reached, proved = _grow(seed, everything, oracle.ask) if answer else (seed, False)
            largest.append(reached)
            if proved:
                corrections.append(everything & ~reached)
        complete = complete and proved
    else:
        complete = False

    def positions(sets: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(asked[i] for i in range(len(asked)) if bits >> i & 1) for bits in sets)

    return _Found(positions(cores), positions(corrections), complete, oracle.calls)


class _Oracle:
    """Answers, for a set of constraints as bits, whether values satisfy it: True, False, or None for no answer."""

    def __init__(self, whole: Problem, given: int, engine: Engine, effort: Effort) -> None:
        self.whole = whole
        self.given = given
        self.engine: Engine = engine
        self.effort = effort
        self.calls = 0
        self.known: dict[int, bool | None] = {}
        self.satisfied: list[int] = []
        self.z3: Callable[[int], tuple[int, ...] | bool] | None = None

    def ask(self, bits: int) -> bool | None:
        if any(bits & ~reached == 0 for reached in self.satisfied):
            return True
        if bits not in self.known:
            self.calls += 1
            self.known[bits] = self.solve(bits)
        return self.known[bits]

    def solve(self, bits: int) -> bool | None:
        constraints = self.whole.constraints
        chosen = [c for i, c in enumerate(constraints) if i < self.given or bits >> (i - self.given) & 1]
        problem = replace(self.whole, constraints=tuple(chosen))
        if self.engine != "z3":
            from tilewright.solve.field_search import search

            found = search(problem, self.effort)
            if isinstance(found, Chosen):
                return self.record(tuple(found.values[name] for name in problem.names))
            if isinstance(found, Infeasible):
                return False
            if self.engine == "search":
                return None
        if self.z3 is None:
            from tilewright.solve.z3_engine import subsets

            try:
                self.z3 = subsets(self.whole, self.effort)
            except MissingExtra:
                if self.engine == "z3":
                    raise
                return None  # `Cores.complete` is then False
        given = (1 << self.given) - 1
        answer = self.z3(bits << self.given | given)
        if isinstance(answer, tuple):
            return self.record(answer) if witness(problem, answer) is not None else None
        return None if answer else False

    def record(self, values: tuple[int, ...]) -> bool:
        """Keep which constraints the witness satisfies: it often satisfies more than it was asked to."""
        reached = 0
        for i, constraint in enumerate(self.whole.constraints[self.given :]):
            if holds_at(constraint, [values[j] for j in self.whole.positions(constraint)]):
                reached |= 1 << i
        self.satisfied.append(reached)
        return True


def _shrink(core: int, ask: Callable[[int], bool | None]) -> tuple[int, bool]:
    """A minimal subset of `core` with no solution, and whether each smaller one is known to have one."""
    proved = True
    for bit in _bits(core):
        answer = ask(core & ~bit)
        if answer is False:
            core &= ~bit
    for bit in _bits(core):
        proved = proved and ask(core & ~bit) is True
    return core, proved


def _grow(reached: int, everything: int, ask: Callable[[int], bool | None]) -> tuple[int, bool]:
    """A largest satisfiable superset of `reached`, and whether each larger one is known to have no solution."""
    for bit in _bits(everything & ~reached):
        if ask(reached | bit):
            reached |= bit
    return reached, all(ask(reached | bit) is False for bit in _bits(everything & ~reached))


def _unexplored(everything: int, cores: Sequence[int], largest: Sequence[int]) -> tuple[int | None, bool]:
    """A set that contains no core and is in no set of `largest`; None where there is none, True where that is sure."""
    stack, seen = [everything], {everything}
    while stack:
        if len(seen) > _HITTING_SETS_TRIED:
            return None, False
        bits = stack.pop()
        if any(bits & ~reached == 0 for reached in largest):
            continue
        core = next((core for core in cores if core & ~bits == 0), None)
        if core is None:
            return bits, True
        for bit in _bits(core):
            if bits & ~bit not in seen:
                seen.add(bits & ~bit)
                stack.append(bits & ~bit)
    return None, True


def _bits(bits: int) -> list[int]:
    return [1 << i for i in range(bits.bit_length()) if bits >> i & 1]


def _named(sets: Iterable[tuple[int, ...]], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    ordered = sorted(set(sets), key=lambda positions: (len(positions), positions))
    return tuple(tuple(names[i] for i in positions) for positions in ordered)
