"""Kernels of several rings: chains, operands read once a tile or once in all, and the mutants of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from tests.contract.ring_programs import (
    Begin,
    Copy,
    Loop,
    Program,
    Release,
    Ring,
    Role,
    Statement,
    Wait,
    module,
    violation,
)

from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.targets import target

HOPPER = target("sm_90a")


def fill(ring: str, tag: str = "") -> tuple[Statement, ...]:
    return Wait(ring, "empty", tag or ring), Begin(tag or ring), Copy(tag or ring)


def read(ring: str) -> tuple[Statement, ...]:
    return Wait(ring, "full", ring), Release(ring)


def held(ring: str, *inside: Statement) -> tuple[Statement, ...]:
    """Read a slot and keep it meanwhile."""
    return Wait(ring, "full", ring), *inside, Release(ring)


def over(symbol: str, *body: Statement) -> Loop:
    return Loop(symbol, body)


def lagging(ring: str, *others: Statement) -> tuple[Statement, ...]:
    """Read all slots, each released when the next one has come."""
    loop = Loop("K", (*others, Wait(ring, "full", "new"), Release("old")), 1, (("old", "new"),))
    return *others, Wait(ring, "full", "old"), loop, Release("old")


def program(rings: tuple[Ring, ...], *roles: Role, tiled: bool = True) -> Program:
    return Program(rings, roles, {"K": 1, **({"tiles": 0} if tiled else {})})


CHAIN = program(
    (Ring("raw", 3), Ring("converted", 2)),
    Role("load", (over("K", *fill("raw")),)),
    Role("convert", (over("K", Wait("raw", "full", "raw"), *fill("converted"), Release("raw")),)),
    Role("multiply", (over("K", *read("converted")),)),
    tiled=False,
)
TILED_CHAIN = program(
    (Ring("raw", 2), Ring("converted", 2, empty_arrivals=2)),
    Role("load", (over("tiles", over("K", *fill("raw"))),)),
    Role("convert", (over("tiles", over("K", Wait("raw", "full", "raw"), *fill("converted"), Release("raw"))),)),
    Role("multiply", (over("tiles", *lagging("converted")),), units=2),
)
RESIDENT = program(
    (Ring("q", 1), Ring("kv", 3)),
    Role("load", (over("tiles", *fill("q"), over("K", *fill("kv"))),)),
    Role("multiply", (over("tiles", *held("q", *lagging("kv"))),)),
)
PREFETCHED = program(
    (Ring("q", 2), Ring("kv", 2)),
    Role("load q", (over("tiles", *fill("q")),)),
    Role("load kv", (over("tiles", over("K", *fill("kv"))),)),
    Role("multiply", (over("tiles", *held("q", over("K", *read("kv")))),)),
)
WEIGHTS = program(
    (Ring("weights", 1), Ring("x", 2)),
    Role("load", (*fill("weights"), over("tiles", over("K", *fill("x"))))),
    Role("multiply", held("weights", over("tiles", *lagging("x")))),
)
ATTENTION = program(
    (Ring("q", 1), Ring("k", 2), Ring("v", 2)),
    Role("load", (over("tiles", *fill("q"), over("K", *fill("k"), *fill("v"))),)),
    Role(
        "attend",
        (
            over(
                "tiles",
                Wait("q", "full", "q"),
                Wait("k", "full", "k"),
                Release("k"),
                Loop("K", (Wait("k", "full", "k"), Wait("v", "full", "v"), Release("k"), Release("v")), 1),
                Wait("v", "full", "v"),
                Release("v"),
                Release("q"),
            ),
        ),
    ),
)
ONE_AFTER_THE_OTHER = program(
    (Ring("a", 2), Ring("b", 3)),
    Role("load", (over("tiles", over("K", *fill("a")), over("K", *fill("b"))),)),
    Role("multiply", (over("tiles", over("K", *read("a")), over("K", *read("b"))),)),
)
THREE_STEPS = program(
    (Ring("a", 2), Ring("b", 2), Ring("c", 2)),
    Role("load", (over("tiles", over("K", *fill("a"))),)),
    Role("first", (over("tiles", over("K", Wait("a", "full", "a"), *fill("b"), Release("a"))),)),
    Role("second", (over("tiles", over("K", Wait("b", "full", "b"), *fill("c"), Release("b"))),)),
    Role("store", (over("tiles", over("K", *read("c"))),)),
)
FEEDBACK = program(
    (Ring("there", 2), Ring("back", 2)),
    Role("ask", (over("K", *fill("there"), *read("back")),)),
    Role("answer", (over("K", *held("there", *fill("back"))),)),
    tiled=False,
)
OWN_RING = program((Ring("own", 1),), Role("alone", (over("K", *fill("own", "f"), *read("own")),)), tiled=False)
TWO_PER_SLICE = program(
    (Ring("scales", 2), Ring("halves", 3)),
    Role("load", (over("tiles", over("K", *fill("scales"), *fill("halves", "one"), *fill("halves", "two"))),)),
    Role("multiply", (over("tiles", over("K", *held("scales", *read("halves"), *read("halves")))),)),
)
NEXT_OPERAND_EARLY = replace(
    program(
        (Ring("q", 2), Ring("kv", 3)),
        Role(
            "load",
            (*fill("q", "first"), Loop("tiles", (*fill("q"), over("K", *fill("kv"))), 1), over("K", *fill("kv"))),
        ),
        Role("multiply", (over("tiles", *held("q", *lagging("kv"))),)),
    ),
    minima={"K": 1, "tiles": 1},
)
EPILOGUE = program(
    (Ring("ab", 3), Ring("residual", 1), Ring("out", 2)),
    Role("load", (over("tiles", over("K", *fill("ab")), *fill("residual")),)),
    Role("multiply", (over("tiles", *lagging("ab"), *held("residual", *fill("out"))),)),
    Role("store", (over("tiles", *read("out")),)),
)
THREE_LEVELS = program(
    (Ring("q", 1), Ring("page", 1), Ring("kv", 2)),
    Role("load", (over("tiles", *fill("q"), over("pages", *fill("page"), over("K", *fill("kv")))),)),
    Role("multiply", (over("tiles", *held("q", over("pages", *held("page", *lagging("kv"))))),)),
)
PING_PONG = program(
    (Ring("q0", 1), Ring("q1", 1), Ring("kv", 3, empty_arrivals=2)),
    Role("load", (over("tiles", *fill("q0"), over("K", *fill("kv")), *fill("q1"), over("K", *fill("kv"))),)),
    Role("one", (over("tiles", *held("q0", over("K", *read("kv"))), over("K", *read("kv"))),)),
    Role("other", (over("tiles", over("K", *read("kv")), *held("q1", over("K", *read("kv")))),)),
)
PARTS_AND_TILES = program(
    (Ring("q", 1), Ring("kv", 2)),
    Role(
        "load",
        (over("heads", *fill("q"), over("K", *fill("kv"))), over("tiles", *fill("q"), over("K", *fill("kv")))),
    ),
    Role("multiply", (over("heads", *held("q", *lagging("kv"))), over("tiles", *held("q", *lagging("kv"))))),
)
LATE_LAST_RELEASE = replace(
    program(
        (Ring("q", 1), Ring("kv", 3)),
        Role("load", (over("tiles", *fill("q"), over("K", *fill("kv"))),)),
        Role(
            "multiply",
            (
                Wait("q", "full", "q"),
                *lagging("kv")[:-1],
                Release("q"),
                Loop(
                    "tiles",
                    (
                        Wait("q", "full", "q"),
                        Loop("K", (Wait("kv", "full", "new"), Release("old")), 0, (("old", "new"),)),
                        Release("q"),
                    ),
                    1,
                    (("old", "old"),),
                ),
                Release("old"),
            ),
        ),
    ),
    minima={"K": 1, "tiles": 1},
)

CORRECT = {
    "the next tile's operand is loaded early": NEXT_OPERAND_EARLY,
    "epilogue in rings": EPILOGUE,
    "a nest of three": replace(THREE_LEVELS, minima={"K": 1, "pages": 0, "tiles": 0}),
    "two operands of one tile in turn": PING_PONG,
    "parts of tiles, then whole ones": replace(PARTS_AND_TILES, minima={"K": 1, "heads": 0, "tiles": 0}),
    "a slot is kept into the next tile": LATE_LAST_RELEASE,
    "chain": CHAIN,
    "tiled chain": TILED_CHAIN,
    "resident operand": RESIDENT,
    "resident operand of another producer": PREFETCHED,
    "resident for all tiles": WEIGHTS,
    "attention": ATTENTION,
    "one after the other": ONE_AFTER_THE_OTHER,
    "three steps": THREE_STEPS,
    "feedback": FEEDBACK,
    "fills and reads one ring": OWN_RING,
    "two slots a slice": TWO_PER_SLICE,
}


def judged(written: Program) -> Verdict:
    return verify(module(written), HOPPER)


def breaks(written: Program) -> bool:
    values = [range(least, least + 5) for least in written.minima.values()]
    counts = (dict(zip(written.minima, at, strict=True)) for at in product(*values))
    return any(violation(written, at, most_states=1500) for at in counts)


@pytest.mark.parametrize("name", CORRECT)
def test_correct_programs_are_proven_for_all_trip_counts(name: str) -> None:
    verdict = judged(CORRECT[name])
    assert isinstance(verdict, Proven), verdict
    assert verdict.scope == "all trip counts"


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["chain", "resident operand", "feedback", "two operands of one tile in turn"])
def test_correct_programs_run_to_the_end(name: str) -> None:
    assert not breaks(CORRECT[name])


# ---------------------------------------------------------------- mutants


def stages(written: Program, **counts: int) -> Program:
    rings = (replace(ring, stages=counts.get(ring.name, ring.stages)) for ring in written.rings)
    return replace(written, rings=tuple(rings))


def role(written: Program, name: str, *body: Statement) -> Program:
    roles = (replace(each, body=body) if each.name == name else each for each in written.roles)
    return replace(written, roles=tuple(roles))


def without_release(written: Program, name: str, ring: str) -> Program:
    def cut(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        kept = (replace(each, body=cut(each.body)) if isinstance(each, Loop) else each for each in body)
        return tuple(each for each in kept if each != Release(ring))

    (own,) = (each for each in written.roles if each.name == name)
    return role(written, name, *cut(own.body))


MUTANTS: dict[str, tuple[str, Callable[[], Program]]] = {
    "the chain's readers hold as many slots as there are": ("LV005", lambda: stages(TILED_CHAIN, converted=1)),
    "the second ring is waited for before the first is filled": (
        "LV005",
        lambda: role(FEEDBACK, "ask", over("K", *read("back"), *fill("there"))),
    ),
    "orders of waits are inverted between roles": (
        "LV005",
        lambda: role(ONE_AFTER_THE_OTHER, "multiply", over("tiles", over("K", *read("b")), over("K", *read("a")))),
    ),
    "the resident operand is loaded after what it is multiplied with": (
        "LV005",
        lambda: role(RESIDENT, "load", over("tiles", over("K", *fill("kv")), *fill("q"))),
    ),
    "the next tile's resident operand is waited for while this one is held": (
        "LV005",
        lambda: role(
            RESIDENT,
            "multiply",
            Wait("q", "full", "q"),
            Loop("tiles", (*lagging("kv"), Wait("q", "full", "next"), Release("q")), 1, (("q", "next"),)),
            *lagging("kv"),
            Release("q"),
        ),
    ),
    "weights are loaded behind what they are multiplied with": (
        "LV005",
        lambda: role(WEIGHTS, "load", over("tiles", over("K", *fill("x"))), *fill("weights")),
    ),
    "a converter prepares a slot ahead of the one it reads": (
        "LV005",
        lambda: role(
            stages(CHAIN, converted=1),
            "convert",
            Wait("converted", "empty", "old"),
            Loop(
                "K",
                (
                    Wait("raw", "full", "raw"),
                    Wait("converted", "empty", "new"),
                    Begin("old"),
                    Copy("old"),
                    Release("raw"),
                ),
                1,
                (("old", "new"),),
            ),
            Wait("raw", "full", "raw"),
            Begin("old"),
            Copy("old"),
            Release("raw"),
        ),
    ),
    "copies of a slot are issued after the wait for the next": (
        "LV005",
        lambda: role(
            role(
                stages(CHAIN, raw=1),
                "load",
                over(
                    "K",
                    Wait("raw", "empty", "one"),
                    Begin("one"),
                    Wait("raw", "empty", "two"),
                    Copy("one"),
                    Begin("two"),
                    Copy("two"),
                ),
            ),
            "convert",
            over("K", *held("raw", *fill("converted")), *read("raw")),
        ),
    ),
    "the next tile's operand has no slot": ("LV005", lambda: stages(NEXT_OPERAND_EARLY, q=1)),
    "the residual comes before what is multiplied": (
        "LV005",
        lambda: role(
            EPILOGUE,
            "multiply",
            over("tiles", Wait("residual", "full", "r"), *lagging("ab"), *fill("out"), Release("r")),
        ),
    ),
    "the second operand is loaded behind both loops": (
        "LV005",
        lambda: role(
            PING_PONG,
            "load",
            over("tiles", *fill("q0"), over("K", *fill("kv")), over("K", *fill("kv")), *fill("q1")),
        ),
    ),
    "a release is missing": ("LV001", lambda: without_release(CHAIN, "convert", "raw")),
    "the resident operand is never released": ("LV001", lambda: without_release(PREFETCHED, "multiply", "q")),
    "the resident operand is read once in all": (
        "LV004",
        lambda: role(RESIDENT, "multiply", *held("q", over("tiles", *lagging("kv")))),
    ),
    "one converted slice is left over": (
        "LV004",
        lambda: role(CHAIN, "convert", over("K", *held("raw", *fill("converted"))), *fill("converted")),
    ),
    "empty barriers count an arrival too many": (
        "MB009",
        lambda: replace(CHAIN, rings=(Ring("raw", 3, empty_arrivals=2), Ring("converted", 2))),
    ),
    "full barriers count an arrival too many": (
        "MB008",
        lambda: replace(CHAIN, rings=(Ring("raw", 3), Ring("converted", 2, full_arrivals=2))),
    ),
    "one of two readers is not counted": (
        "MB009",
        lambda: replace(TILED_CHAIN, rings=(Ring("raw", 2), Ring("converted", 2, empty_arrivals=1))),
    ),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_refuted(name: str) -> None:
    code, make = MUTANTS[name]
    written = make()
    if "next tile" in name:
        written = replace(written, minima={"K": 1, "tiles": 1})
    verdict = judged(written)
    assert isinstance(verdict, Refuted), verdict
    assert code in {finding.code for finding in verdict.findings}, verdict.findings
    assert breaks(written)


def test_a_deadlock_is_told_as_who_waits_for_whom() -> None:
    verdict = judged(MUTANTS["orders of waits are inverted between roles"][1]())
    assert isinstance(verdict, Refuted)
    (finding,) = verdict.findings
    assert finding.interleaving[-3:-1] == (
        "load: waits for multiply, which has yet to release a slot of ring a",
        "multiply: waits for load, which has yet to fill a slot of ring b",
    )


def test_claims_are_made_of_each_ring() -> None:
    (claims,) = protocol_claims(module(RESIDENT), HOPPER)
    at = {"K": 5, "tiles": 3}
    assert {ring.name: (ring.stages, ring.fills.at(at)) for ring in claims.rings} == {"q": (1, 3), "kv": (3, 15)}


def test_a_role_may_release_late_as_long_as_slots_are_left() -> None:
    """The converter keeps a slot of the first ring over as many of the second as it has."""
    for raw, converted, kind in [(2, 1, Proven), (1, 1, Refuted)]:
        written = stages(
            role(
                CHAIN,
                "convert",
                Wait("raw", "full", "old"),
                *fill("converted"),
                Loop("K", (Wait("raw", "full", "new"), *fill("converted"), Release("old")), 1, (("old", "new"),)),
                Release("old"),
            ),
            raw=raw,
            converted=converted,
        )
        assert isinstance(judged(written), kind), (raw, converted)
