"""What lanes of a warp tell one another: election, shuffles, votes, matches, reductions.

Each waits until every live lane of its member mask has come to the instruction. Source: PTX ISA, `elect.sync`,
`shfl.sync`, `vote.sync`, `activemask`, `match.sync`, `redux.sync`. The leader that `elect.sync` picks is the lowest
lane of the mask, which the ISA leaves open; an H200 does so (`python -m bench.probes.cluster_forms`).
Checked by: tests/machine/instruction/test_instructions.py, tests/benchmarks/test_cluster_forms.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Instruction, PairOfPredicates
from tilewright.machine.core.decoder import (
    PREDICATE,
    WORD32,
    Decoder,
    Modifiers,
    TypeName,
    expect_operands,
    unsupported,
)
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import FULL, SINK_SLOT, WARP_SIZE, Lanes, indices, merge, selector, to_bits
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, Plain, Signal
from tilewright.machine.instruction.barriers import ALL_MEMBERS, member_lanes
from tilewright.machine.numbers import arithmetic

SHUFFLES = ("up", "down", "bfly", "idx")


def _collective(
    decoder: Decoder, instruction: Instruction, members: int, targets: tuple[int, ...],
    function: Callable[[Warp, int], tuple[Lanes, ...]],
) -> Control:  # fmt: skip
    """A control step that runs `function` once all member lanes are there, and writes its results to those lanes.
    members: the slot of the member mask."""
    everybody = decoder.static_value(members) == ALL_MEMBERS

    def act(warp: Warp, mask: int) -> Signal | None:
        wanted = FULL if everybody else member_lanes(warp, members, mask, instruction)
        if wanted & warp.live & ~mask:
            return Signal.CONVERGE
        for target, value in zip(targets, function(warp, mask), strict=True):
            whole = target == SINK_SLOT or mask == FULL
            warp.r[target] = value if whole else merge(warp.r[target], value, mask)
        return None

    return Control(act)


@lru_cache(maxsize=WARP_SIZE)
def _elected(mask: int) -> tuple[Lanes, Lanes]:
    """The number of a lane, and where it is."""
    return np.full(WARP_SIZE, indices(mask)[0], np.uint32), selector(mask)


def _elect(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("sync")
    target, operand = expect_operands(instruction, 2)
    if not isinstance(target, PairOfPredicates):
        raise unsupported(instruction, "elect.sync writes d|p")
    leader = decoder.destination(instruction, target.first, WORD32)
    elected = decoder.destination(instruction, target.second, PREDICATE)
    members = decoder.source(instruction, operand, WORD32)

    return _collective(decoder, instruction, members, (leader, elected), lambda _warp, mask: _elected(mask & -mask))


def lanes_read(mode: str, b: Lanes, c: Lanes) -> tuple[Lanes, Lanes]:
    """Which lane each lane of a shuffle reads, and whether it is in range. b, c: the operands, as 64-bit integers."""
    lane, b = np.arange(WARP_SIZE, dtype=np.int64), b & 31
    clamp, segment = c & 31, (c >> 8) & 31
    lowest = lane & segment
    highest = lowest | (clamp & ~segment & 31)
    match mode:
        case "up":
            at = lane - b
            inside = at >= highest
        case "down":
            at = lane + b
            inside = at <= highest
        case "bfly":
            at = lane ^ b
            inside = at <= highest
        case _:
            at = lowest | (b & ~segment & 31)
            inside = at <= highest
    return np.where(inside, at, lane), inside


def _shfl(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("sync")
    mode = modifiers.take(*SHUFFLES)
    declared = modifiers.take_type()
    target, value, lane_operand, clamp_operand, member_operand = expect_operands(instruction, 5)
    first = target.first if isinstance(target, PairOfPredicates) else target
    to = decoder.destination(instruction, first, declared)
    valid = (
        decoder.destination(instruction, target.second, PREDICATE)
        if isinstance(target, PairOfPredicates)
        else SINK_SLOT
    )
    source = decoder.source(instruction, value, declared)
    selector_slot = decoder.source(instruction, lane_operand, WORD32)
    clamp_slot = decoder.source(instruction, clamp_operand, WORD32)
    members = decoder.source(instruction, member_operand, WORD32)
    if mode is None or declared.width_bits != 32:
        raise unsupported(instruction, "shfl.sync needs a mode and .b32")

    steady = decoder.static_value(selector_slot) is not None and decoder.static_value(clamp_slot) is not None
    places: dict[int, tuple[Lanes, Lanes]] = {}

    def shuffle(warp: Warp, mask: int) -> tuple[Lanes, ...]:
        known = places.get(mask)
        if known is None:
            known = places_of(warp, mask)
            if steady:  # which lane each reads is the same each time
                places[mask] = known
        at, inside = known
        return warp.r[source][at], inside

    def places_of(warp: Warp, mask: int) -> tuple[Lanes, Lanes]:
        """Which lane each lane reads, and whether that is one of those it may read."""
        at, inside = lanes_read(mode, warp.r[selector_slot].astype(np.int64), warp.r[clamp_slot].astype(np.int64))
        if not selector(mask)[at][indices(mask)].all():
            raise MachineFault(
                "MF005", "shuffle-from-inactive", "shfl.sync reads a lane that does not execute it", instruction.span
            )
        return at, inside

    return _collective(decoder, instruction, members, (to, valid), shuffle)


def _vote(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("sync")
    mode = modifiers.take("all", "any", "uni", "ballot")
    declared = modifiers.take_type()
    target, operand, member_operand = expect_operands(instruction, 3)
    slot, negated = decoder.predicate(instruction, operand)
    to = decoder.destination(instruction, target, declared)
    members = decoder.source(instruction, member_operand, WORD32)
    if mode is None or (declared.name == "pred") == (mode == "ballot"):
        raise unsupported(instruction, "vote.sync needs a mode and its type")

    def vote(warp: Warp, mask: int) -> tuple[Lanes, ...]:
        votes = warp.r[slot] != negated
        here = votes[indices(mask)]
        match mode:
            case "all":
                result = bool(here.all())
            case "any":
                result = bool(here.any())
            case "uni":
                result = bool(here.all() or not here.any())
            case _:
                bits = sum(1 << int(lane) for lane in indices(mask) if votes[lane])
                return (np.full(WARP_SIZE, bits, np.uint32),)
        return (np.full(WARP_SIZE, result, np.bool_),)

    return _collective(decoder, instruction, members, (to,), vote)


def _activemask(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    (target,) = expect_operands(instruction, 1)
    to = decoder.destination(instruction, target, declared)

    def masked(r: list[Any], mask: int) -> None:
        r[to] = merge(r[to], np.full(WARP_SIZE, to_bits(mask), np.uint32), mask)

    def full(r: list[Any]) -> None:
        r[to] = np.full(WARP_SIZE, 0xFFFF_FFFF, np.uint32)

    return Plain(full, masked)


def _match(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    every = instruction.row == "match.all.sync"
    declared = modifiers.take_type()
    target, operand, member_operand = expect_operands(instruction, 3)
    first = target.first if isinstance(target, PairOfPredicates) else target
    to = decoder.destination(instruction, first, WORD32)
    same = (
        decoder.destination(instruction, target.second, PREDICATE)
        if isinstance(target, PairOfPredicates)
        else SINK_SLOT
    )
    source = decoder.source(instruction, operand, declared)
    members = decoder.source(instruction, member_operand, WORD32)

    def match_lanes(warp: Warp, mask: int) -> tuple[Lanes, ...]:
        values = warp.r[source]
        lanes = [int(lane) for lane in indices(mask)]
        found = np.zeros(WARP_SIZE, np.uint32)
        for lane in lanes:
            found[lane] = sum(1 << other for other in lanes if values[other] == values[lane])
        agree = len({int(values[lane]) for lane in lanes}) == 1
        if every:
            found = np.full(WARP_SIZE, to_bits(mask) if agree else 0, np.uint32)
        return found, np.full(WARP_SIZE, agree, np.bool_)

    return _collective(decoder, instruction, members, (to, same), match_lanes)


def _redux(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("sync")
    operation = modifiers.take("add", "min", "max", "and", "or", "xor")
    magnitudes, nan = modifiers.flag("abs"), modifiers.flag("NaN")
    declared = modifiers.take_type()
    target, operand, member_operand = expect_operands(instruction, 3)
    if operation is None or declared.width_bits != 32:
        raise unsupported(instruction, "redux.sync works on 32 bits")
    if declared.is_float:
        return _redux_float(decoder, instruction, operation, magnitudes, nan)
    if magnitudes or nan:
        raise unsupported(instruction, ".abs and .NaN are for .f32")
    to = decoder.destination(instruction, target, declared)
    source = decoder.source(instruction, operand, declared)
    members = decoder.source(instruction, member_operand, WORD32)
    functions: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "min": min,
        "max": max,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }
    function = functions[operation]
    view: TypeName = declared

    def fold(warp: Warp, mask: int) -> tuple[Lanes, ...]:
        values = [int(value) for value in warp.r[source].view(view.view)[indices(mask)]]
        return (np.full(WARP_SIZE, reduce(function, values) & 0xFFFF_FFFF, np.uint32),)

    return _collective(decoder, instruction, members, (to,), fold)


def _redux_float(decoder: Decoder, instruction: Instruction, operation: str, magnitudes: bool, nan: bool) -> Control:
    """`redux.sync.min` and `.max` of f32: as the instructions `min` and `max`, which drop a NaN unless `.NaN`."""
    functions = {"min": arithmetic.minimum, "max": arithmetic.maximum}
    if operation not in functions:
        raise unsupported(instruction, "floating-point numbers have .min and .max only")
    function = functions[operation]
    target, operand, member_operand = expect_operands(instruction, 3)
    source = decoder.source(instruction, operand, WORD32)
    members = decoder.source(instruction, member_operand, WORD32)
    to = decoder.destination(instruction, target, WORD32)

    def fold(warp: Warp, mask: int) -> tuple[Lanes, ...]:
        values = warp.r[source][indices(mask)]
        if magnitudes:
            values = values & np.uint32(0x7FFF_FFFF)
        found = values[:1]
        for index in range(1, len(values)):
            found = function("f32", found, values[index : index + 1], nan=nan)
        # A lone NaN is canonical, too.
        return (np.full(WARP_SIZE, function("f32", found, found, nan=nan)[0], np.uint32),)

    return _collective(decoder, instruction, members, (to,), fold)


HANDLERS: dict[str, Callable[[Decoder, Instruction, Modifiers], Plain | Control]] = {
    "elect.sync": _elect,
    "shfl.sync": _shfl,
    "vote.sync": _vote,
    "activemask": _activemask,
    "match.any.sync": _match,
    "match.all.sync": _match,
    "redux.sync": _redux,
}
