"""Ring programs drawn at random: mostly pipelines that might have been meant, in half of which something is off.

A program has one to three rings, each filled and read once a slice, once a tile, or once in all; roles visit their
rings in any order, hold slots over others' waits, keep one from an iteration to the next, peel an iteration. Tokens are
linear in all of them, so that whatever is wrong is wrong between roles.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.contract.ring_programs import Begin, Copy, Loop, Program, Release, Ring, Role, Statement, Wait, streams

SLICE, TILE, ONCE = "slice", "tile", "once"
INNER, OUTER, BEFORE = "K", "tiles", "heads"
OWN, REST = "own", "rest"


@dataclass(frozen=True)
class Use:
    """How a role uses a ring. step: of its cursor; slots: in each iteration; lag: a reader keeps a slot over."""

    ring: str
    side: str
    rate: str
    slots: int = 1
    lag: bool = False


def program(seed: int) -> Program:
    """The program of a seed."""
    draw = random.Random(seed)
    tiled = draw.random() < 0.6
    names = [f"r{number}" for number in range(draw.choice([1, 2, 2, 3]))]
    rates = {name: draw.choice([SLICE, SLICE, SLICE, TILE if tiled else SLICE, ONCE]) for name in names}
    roles = [f"role{number}" for number in range(draw.choice([2, 2, 3, 3, 4]))]
    uses: dict[str, list[Use]] = {name: [] for name in roles}
    strides: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in roles}
    parts: dict[str, dict[str, tuple[int, ...]]] = {name: {} for name in roles}
    rings: list[Ring] = []
    chained = draw.random() < 0.6
    for number, name in enumerate(names):
        kind = draw.choice(["one", "one", "one", "together", "alternate"]) if len(roles) > 2 else "one"
        at = number % len(roles)
        order = roles[at:] + roles[:at] if chained else draw.sample(roles, len(roles))
        fillers = order[: 1 if kind == "one" else 2]
        readers = order[len(fillers) : len(fillers) + draw.choice([1, 1, 2])]
        unrolled = 2 if kind == "alternate" or draw.random() < 0.15 else 1
        for place, role in enumerate(fillers):
            slots = 1 if kind == "alternate" else unrolled
            uses[role].append(Use(name, "empty", rates[name], slots))
            if kind == "alternate":
                strides[role][name] = (2, place)
            if kind == "together":
                parts[role][name] = (place,)
        for role in readers:
            uses[role].append(Use(name, "full", rates[name], unrolled, lag=draw.random() < 0.3))
        rings.append(
            Ring(
                name,
                stages=draw.choice([1, 2, 2, 3]),
                full_arrivals=2 if kind == "together" else 1,
                empty_arrivals=len(readers),
                parts=2 if kind == "together" else 1,
            )
        )
    minima = {INNER: draw.choice([0, 1])}
    if tiled:
        minima[OUTER] = draw.choice([0, 0, 1])
    if tiled and draw.random() < 0.2:
        minima[BEFORE] = 0
    outer = [name for name in (BEFORE, OUTER) if name in minima]
    bodies = {role: _body(draw, uses[role], outer, minima[INNER] > 0) for role in roles}
    drawn = Program(
        tuple(rings),
        tuple(Role(role, bodies[role], strides=strides[role], parts=parts[role]) for role in roles if uses[role]),
        minima,
    )
    return _spoiled(draw, drawn) if draw.random() < 0.4 else drawn


def taken_apart(seed: int) -> Program | None:
    """The program of a seed with tiles of different lengths, of which the units of a role that only reads slices take
    some apart, and pass the others at some place behind; None where there is no such role."""
    drawn, draw = program(seed), random.Random(seed)
    readers = [role for role in drawn.roles if set(drawn.minima) == {INNER, OUTER} and _only_reads(role)]
    if not readers:
        return None
    role, units = draw.choice(readers), draw.choice([1, 1, 2])
    (outer,) = (number for number, each in enumerate(role.body) if isinstance(each, Loop))
    loop = role.body[outer]
    assert isinstance(loop, Loop)
    inner = [number for number, each in enumerate(loop.body) if isinstance(each, Loop)]
    slices = (each for each in loop.body if isinstance(each, Loop))
    passed: dict[str, list[Statement]] = {}
    for at, each in enumerate(each for walk in slices for each in walk.body if isinstance(each, Wait)):
        # Slots of one ring one after the other: released in another order they are refuted, harmless or not.
        passed.setdefault(each.ring, []).extend([Wait(each.ring, each.side, f"p{at}"), Release(f"p{at}")])
    passing = _merged(draw, list(passed.values()))
    if draw.random() < 0.15:
        del passing[-1]
    own = [replace(each, symbol=OWN) if isinstance(each, Loop) else each for each in loop.body]
    own.insert(
        draw.choice([len(own), len(own), inner[-1] + 1, draw.randrange(len(own) + 1)]), Loop(REST, tuple(passing))
    )
    body = (*role.body[:outer], replace(loop, body=tuple(own)), *role.body[outer + 1 :])
    changed = replace(role, body=body, units=units)
    read = {ring for ring, _ in streams(role.body)}
    rings = tuple(
        replace(ring, empty_arrivals=ring.empty_arrivals + units - 1) if ring.name in read else ring
        for ring in drawn.rings
    )
    roles = tuple(changed if each is role else each for each in drawn.roles)
    minima = {**drawn.minima, OWN: 1, REST: 0}
    return replace(drawn, rings=rings, roles=roles, minima=minima, ranged=True, apart=role.name)


def _only_reads(role: Role) -> bool:
    """Whether a role waits for full slots alone, some of them slice by slice in its only loop over tiles."""
    loops = [each for each in role.body if isinstance(each, Loop)]
    sides = {side for _, side in streams(role.body)}
    inner = [each for loop in loops for each in loop.body if isinstance(each, Loop)]
    return sides == {"full"} and len(loops) == 1 and bool(inner)


def _body(draw: random.Random, uses: Sequence[Use], outer: Sequence[str], peels: bool) -> tuple[Statement, ...]:
    """The rings of each rate inside the loop of that rate, visited in any order. outer: loops around, one after the
    other."""
    tags = [f"t{number}" for number in range(1000)]
    tags.reverse()
    once = [_sequence(use, tags) for use in uses if use.rate == ONCE]
    if not outer:
        return tuple(_merged(draw, [*once, _tile(draw, uses, tags, False, peels)]))
    loops: list[Statement] = []
    for symbol in outer:
        within = _tile(draw, uses, tags, True, peels)
        if within:
            loops.append(Loop(symbol, tuple(within)))
    return tuple(_merged(draw, [*once, loops]))


def _tile(draw: random.Random, uses: Sequence[Use], tags: list[str], tiled: bool, peels: bool) -> list[Statement]:
    tile = [_sequence(use, tags) for use in uses if use.rate == TILE]
    slices = [use for use in uses if use.rate == SLICE]
    groups = [slices]
    if tiled and len(slices) > 1 and draw.random() < 0.25:
        groups = [[use] for use in slices]  # one loop after the other
        draw.shuffle(groups)
    inner = [_slices(draw, group, tags, peels) for group in groups if group]
    return _merged(draw, [*tile, *inner])


def _slices(draw: random.Random, uses: Sequence[Use], tags: list[str], peels: bool) -> list[Statement]:
    """A loop over slices, with what leads into it and out of it."""
    lagging = [use for use in uses if use.lag and use.side == "full" and use.slots == 1] if peels else []
    if not lagging:
        body = _merged(draw, [_sequence(use, tags) for use in uses])
        if peels and draw.random() < 0.2:
            first = _merged(draw, [_sequence(use, tags) for use in uses])
            return [*first, Loop(INNER, tuple(body), begin=1)]
        return [Loop(INNER, tuple(body))]
    # Lagging readers keep a slot from one iteration to the next; the first slice of everything is peeled.
    others = [use for use in uses if use not in lagging]
    before: list[list[Statement]] = [_sequence(use, tags) for use in others]
    inside: list[list[Statement]] = [_sequence(use, tags) for use in others]
    after: list[list[Statement]] = []
    carried: list[tuple[str, str]] = []
    for use in lagging:
        held, newer = tags.pop(), tags.pop()
        before.append([Wait(use.ring, use.side, held)])
        inside.append([Wait(use.ring, use.side, newer), Release(held)])
        after.append([Release(held)])
        carried.append((held, newer))
    loop = Loop(INNER, tuple(_merged(draw, inside)), begin=1, carried=tuple(carried))
    return [*_merged(draw, before), loop, *_merged(draw, after)]


def _sequence(use: Use, tags: list[str]) -> list[Statement]:
    found: list[Statement] = []
    for _ in range(use.slots):
        tag = tags.pop()
        found.append(Wait(use.ring, use.side, tag))
        found += [Begin(tag), Copy(tag)] if use.side == "empty" else [Release(tag)]
    return found


def _merged(draw: random.Random, sequences: Sequence[Sequence[Statement]]) -> list[Statement]:
    """All statements, each sequence in its order: mostly one sequence after the other."""
    left = [list(sequence) for sequence in sequences if sequence]
    draw.shuffle(left)
    found: list[Statement] = []
    stay = draw.choice([0.3, 0.8, 1.0])
    while left:
        at = 0 if draw.random() < stay else draw.randrange(len(left))
        found.append(left[at].pop(0))
        left = [sequence for sequence in left if sequence]
    return found


def _spoiled(draw: random.Random, drawn: Program) -> Program:
    """With one thing changed."""
    ring = draw.choice(drawn.rings)
    role = draw.choice(drawn.roles)
    match draw.choice(["full", "empty", "drop", "stride", "part", "longer"]):
        case "full":
            changed = replace(ring, full_arrivals=max(1, ring.full_arrivals + draw.choice([-1, 1])))
            return replace(drawn, rings=tuple(changed if each is ring else each for each in drawn.rings))
        case "empty":
            changed = replace(ring, empty_arrivals=max(1, ring.empty_arrivals + draw.choice([-1, 1])))
            return replace(drawn, rings=tuple(changed if each is ring else each for each in drawn.rings))
        case "stride":
            other = replace(role, strides={**role.strides, ring.name: draw.choice([(1, 0), (2, 0), (2, 1), (1, 1)])})
        case "part":
            options = [(0,), (ring.parts - 1,), *([(0, 1)] if ring.parts > 1 else [])]
            other = replace(role, parts={**role.parts, ring.name: draw.choice(options)})
        case "longer":
            more = _sequence(Use(ring.name, draw.choice(["empty", "full"]), ONCE), ["last"])
            other = replace(role, body=(*role.body, *more))
        case _:
            other = replace(role, body=_without_last(role.body))
    return replace(drawn, roles=tuple(other if each is role else each for each in drawn.roles))


def _without_last(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Without the last loop, if there is one, so that counts differ."""
    for number in range(len(body) - 1, -1, -1):
        statement = body[number]
        if isinstance(statement, Loop) and not statement.carried:
            return (*body[:number], *body[number + 1 :])
    return body
