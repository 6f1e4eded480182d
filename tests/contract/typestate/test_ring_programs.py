"""The proof against every interleaving of small programs: what is proven never breaks, what is refuted does.

Programs are drawn by seed (`drawn_ring_programs`); the run they are compared with (`ring_programs`) counts phases and
bytes as mbarriers do and shares no code with the proof. What breaks and is not refuted is unknown, never proven.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from tests.contract.drawn_ring_programs import program, taken_apart
from tests.contract.ring_programs import (
    LONGEST,
    Begin,
    Copy,
    Counts,
    Loop,
    Program,
    Release,
    Ring,
    Role,
    Wait,
    module,
    violation,
)

from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import verify
from tilewright.targets import target

HOPPER = target("sm_90a")
QUICK = 15
SEEDS_EACH = 12


LENGTHS = ((1, 2), (2, 1), (1, 3, 2), (LONGEST, 1, 1), (1, 1, LONGEST), (2, LONGEST, 1, 3))
"""Of tiles, where each has its own."""


def counts(drawn: Program, *, further: bool = False) -> Iterator[Counts]:
    """Counts to run at, small ones first. further: ones at which a deadlock may show only."""
    if drawn.ranged:
        for tiles in range(drawn.minima["tiles"], 7 if further else 5):
            for lengths in (*(() if not further else ((5, 1, 7),)), *LENGTHS):
                for rest in ((0, 1, 3), (2, 0), *(((5, 4),) if further else ())) if drawn.apart else ((),):
                    yield {"tiles": tiles, "K": lengths} | ({"rest": rest} if rest else {})
        return
    wanted = {
        "K": (0, 1, 5, 6, 7, 9) if further else range(5),
        "tiles": range(1, 5) if further else range(4),
        "heads": range(4) if further else range(3),
    }
    options = [[value for value in wanted[name] if value >= least] for name, least in drawn.minima.items()]
    for values in sorted(product(*options), key=sum):
        yield dict(zip(drawn.minima, values, strict=True))


def breaks(drawn: Program, *, further: bool = False) -> str | None:
    return next(
        (found for at in counts(drawn, further=further) if (found := violation(drawn, at, most_states=1500, runs=4))),
        None,
    )


def compare(seed: int) -> str:
    """The verdict on a seed's program, after comparing it with its runs."""
    drawn = program(seed)
    verdict = verify(module(drawn), HOPPER)
    if isinstance(verdict, Proven):
        assert breaks(drawn) is None, f"seed {seed} is proven"
    elif isinstance(verdict, Refuted):
        shown = breaks(drawn) or breaks(drawn, further=True)
        assert shown is not None, f"seed {seed} is refuted: {verdict.findings[0].message}"
    return type(verdict).__name__


@pytest.mark.sample(2)
@pytest.mark.parametrize("block", range(QUICK))
def test_verdicts_agree_with_all_interleavings(block: int) -> None:
    found = Counter(compare(seed) for seed in range(SEEDS_EACH * block, SEEDS_EACH * (block + 1)))
    assert found["Proven"] >= 2 and found["Refuted"] >= 2, found


@pytest.mark.full
@pytest.mark.parametrize("block", range(40))
def test_verdicts_agree_with_all_interleavings_of_many(block: int) -> None:
    found = Counter(compare(seed) for seed in range(10_000 + 100 * block, 10_100 + 100 * block))
    assert found["Unknown"] <= 15, found


def ranged(seed: int) -> str:
    """The verdict on a seed's program where each tile has its own number of slices, after comparing it."""
    drawn = program(seed)
    if set(drawn.minima) != {"K", "tiles"}:
        return "none"
    drawn = replace(drawn, ranged=True)
    verdict = verify(module(drawn), HOPPER)
    if isinstance(verdict, Proven):
        assert breaks(drawn) is None, f"seed {seed} is proven"
    elif isinstance(verdict, Refuted):
        shown = breaks(drawn) or breaks(drawn, further=True) or breaks(replace(drawn, ranged=False), further=True)
        assert shown is not None, f"seed {seed} is refuted: {verdict.findings[0].message}"
    return type(verdict).__name__


def test_verdicts_agree_where_tiles_differ() -> None:
    found = Counter(ranged(seed) for seed in range(20_000, 20_050))
    assert found["Proven"] >= 5 and found["Refuted"] >= 10, found


@pytest.mark.full
def test_verdicts_agree_where_tiles_of_many_differ() -> None:
    found = Counter(ranged(seed) for seed in range(30_000, 31_500))
    # The programs are drawn by seed, 701 of them with tiles: so many are decided, and no change may leave more open.
    assert found["Proven"] >= 137 and found["Refuted"] >= 389, found


def apart(seed: int) -> str:
    """The verdict on a seed's program where units take a tile's slices apart, after comparing it."""
    drawn = taken_apart(seed)
    if drawn is None:
        return "none"
    verdict = verify(module(drawn), HOPPER)
    if isinstance(verdict, Proven):
        assert breaks(drawn) is None and breaks(drawn, further=True) is None, f"seed {seed} is proven"
    elif isinstance(verdict, Refuted):
        shown = breaks(drawn) or breaks(drawn, further=True)
        assert shown is not None, f"seed {seed} is refuted: {verdict.findings[0].message}"
    return type(verdict).__name__


def test_verdicts_agree_where_units_take_slices_apart() -> None:
    found = Counter(apart(seed) for seed in range(40_000, 40_120))
    assert found["Proven"] >= 4 and found["Refuted"] >= 8, found


@pytest.mark.full
def test_verdicts_agree_where_units_of_many_take_slices_apart() -> None:
    found = Counter(apart(seed) for seed in range(50_000, 51_500))
    assert found["Proven"] >= 5 and found["Refuted"] >= 5, found


def test_few_are_left_undecided() -> None:
    found = Counter(type(verify(module(program(seed)), HOPPER)).__name__ for seed in range(50))
    assert found["Unknown"] <= 5, found


# ---------------------------------------------------------------- the run itself

FILLER = Role("filler", (Loop("K", (Wait("r", "empty", "t"), Begin("t"), Copy("t"))),))
READER = Role("reader", (Loop("K", (Wait("r", "full", "t"), Release("t"))),))


@pytest.mark.parametrize(
    ("rings", "roles", "what"),
    [
        ((Ring("r"),), (FILLER, READER), None),
        ((Ring("r", full_arrivals=2),), (FILLER, READER), "wait forever"),
        ((Ring("r", empty_arrivals=2),), (FILLER, READER, READER), None),
        ((Ring("r", empty_arrivals=1),), (FILLER, READER, READER), "another number of times"),
        ((Ring("r", stages=1, empty_arrivals=2),), (FILLER, READER), "another number of times"),
        ((Ring("r"),), (FILLER, FILLER, READER), "wait forever|two copies into part 0"),
        ((Ring("r"),), (FILLER, Role("reader", READER.body, strides={"r": (2, 0)})), "wait forever"),
        ((Ring("r"),), (FILLER, Role("reader", ())), "within a phase|another number|wait forever"),
    ],
)
def test_the_run_finds_what_is_wrong(rings: tuple[Ring, ...], roles: tuple[Role, ...], what: str | None) -> None:
    written = Program(rings, roles, {"K": 0})
    found = breaks(written)
    if what is None:
        assert found is None
    else:
        assert found is not None and any(each in found for each in what.split("|")), found


def test_a_program_that_is_broken_at_large_counts_alone_is_refuted() -> None:
    """One tile fits the slots of the second ring, several do not."""
    rings = (Ring("a", stages=3), Ring("b", stages=3))
    body = (Wait("a", "full", "s"), Release("s"))
    written = Program(
        rings,
        (
            Role("filler", (*_filled("a"), *_filled("b"))),
            Role("reader", (Loop("K", (Wait("b", "full", "t"), Release("t"))), Loop("K", body))),
        ),
        {"K": 0},
    )
    verdict = verify(module(written), HOPPER)
    assert isinstance(verdict, Refuted) and verdict.findings[0].code == "LV005"
    assert breaks(written) is not None


def _filled(ring: str) -> tuple[Loop, ...]:
    return (Loop("K", (Wait(ring, "empty", "t"), Begin("t"), Copy("t"))),)
