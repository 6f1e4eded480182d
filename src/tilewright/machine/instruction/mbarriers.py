"""mbarrier instructions. A wait that would fail parks its warp until the phase changes, at most one failure aside.

Source: PTX ISA, Parallel Synchronization and Communication Instructions: mbarrier. Not handled: objects of
`.layout::v1`. Checked by: tests/machine/barrier/test_barriers.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Instruction, Operand, PairOfPredicates, Register
from tilewright.machine.barrier import mbarrier, signals
from tilewright.machine.copy import copies
from tilewright.machine.core.decoder import (
    PREDICATE,
    WORD32,
    WORD64,
    Decoder,
    Modifiers,
    expect_operands,
    unsupported,
)
from tilewright.machine.core.event import BarrierInit, BarrierInvalidate, BarrierPeek, BarrierWait
from tilewright.machine.core.fault import Awaited, MachineFault
from tilewright.machine.core.lanes import (
    FULL,
    SINK_SLOT,
    UNINITIALISED,
    WARP_SIZE,
    indices,
    merge,
    predicate_mask,
    to_bits,
    uniform_value,
)
from tilewright.machine.core.memory import SHARED_WINDOW
from tilewright.machine.core.state import Block, Cta, Warp
from tilewright.machine.core.step import Control, Signal

_FALSE_ODDS = 0.2
_SOURCE = "PTX ISA, mbarrier"
_ORDERS = ("release", "acquire", "relaxed")
_DEFAULT_SCOPE = "cta"
"""Of an arrival's release and a wait's acquire (PTX ISA, mbarrier.arrive and mbarrier.try_wait)."""
_OUTCOMES = (np.zeros(WARP_SIZE, np.bool_), np.ones(WARP_SIZE, np.bool_))
"""A predicate in all lanes."""
_NO_TOKENS = np.zeros(0, np.uint64)
_VECTORS_KEPT = 256


class BarrierOperand:
    """An mbarrier's address operand: which slot, and which window it lies in."""

    def __init__(self, decoder: Decoder, instruction: Instruction, modifiers: Modifiers, operand: Operand) -> None:
        space = modifiers.take("shared", "shared::cta", "shared::cluster")
        self.cluster = space == "shared::cluster"
        self.generic = space is None
        self.slot, self.offset = decoder.address(instruction, operand)
        self.span = instruction.span
        # What an address names is the same in all clusters of a launch.
        self._owners: dict[tuple[int, int], tuple[int, int]] = {}

    def one(self, warp: Warp, mask: int) -> tuple[int, int] | None:
        """The (CTA rank, offset) of the object that all lanes name; None where they do not name one."""
        addresses = warp.r[self.slot]
        if mask.bit_count() == 1:
            return self._owner(warp, addresses.item(mask.bit_length() >> 3))
        same = uniform_value(addresses, mask)
        return None if same is None else self._owner(warp, same)

    def one_with(self, warp: Warp, mask: int, slot: int) -> tuple[int, int, int] | None:
        """The same, with the number that all lanes hold in `slot`; None where they do not hold one, either."""
        r = warp.r
        addresses, numbers = r[self.slot], r[slot]
        if mask.bit_count() == 1:
            lane = mask.bit_length() >> 3
            return *self._owner(warp, addresses.item(lane)), numbers.item(lane)
        same, number = uniform_value(addresses, mask), uniform_value(numbers, mask)
        return None if same is None or number is None else (*self._owner(warp, same), number)

    def of(self, warp: Warp, mask: int) -> dict[tuple[int, int], list[int]]:
        """Lanes by the (CTA rank, offset) of the object that they name."""
        addresses = warp.r[self.slot]
        if mask.bit_count() == 1:
            lane = mask.bit_length() >> 3
            return {self._owner(warp, addresses.item(lane)): [lane]}
        lanes = indices(mask)
        same = self.one(warp, mask)
        if same is not None:
            return {same: lanes.tolist()}
        found: dict[tuple[int, int], list[int]] = {}
        for address, lane in zip(addresses[lanes], lanes, strict=True):
            found.setdefault(self._owner(warp, int(address)), []).append(int(lane))
        return found

    def _owner(self, warp: Warp, address: int) -> tuple[int, int]:
        key = warp.cta.rank, address
        found = self._owners.get(key)
        if found is None:
            if len(self._owners) >= _VECTORS_KEPT:
                self._owners.clear()
            found = self._owners[key] = self._owner_of(warp, address)
        return found

    def _owner_of(self, warp: Warp, address: int) -> tuple[int, int]:
        address += self.offset
        if self.generic:
            address -= SHARED_WINDOW
            if address < 0:
                raise MachineFault("MF001", "not-shared", "an mbarrier operand is not in shared memory", self.span)
        cta, offset = signals.owner(warp.cta, address, self.span, cluster=self.cluster or self.generic)
        return cta.rank, offset


def _object(warp: Warp, key: tuple[int, int]) -> tuple[Cta, int]:
    cta = warp.cta
    return cta if key[0] == cta.rank else cta.cluster.ctas[key[0]], key[1]


def _own(warp: Warp, key: tuple[int, int], instruction: Instruction) -> tuple[Cta, int]:
    if key[0] != warp.cta.rank:
        raise MachineFault(
            "MB211", "remote-barrier", f"{instruction.opcode} on another CTA's mbarrier", instruction.span, _SOURCE
        )
    return _object(warp, key)


def _init(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    address, count_operand = expect_operands(instruction, 2)
    operand = BarrierOperand(decoder, instruction, modifiers, address)
    modifiers.flag("b64")
    count_slot = decoder.source(instruction, count_operand, WORD32)
    limits = mbarrier.mbarrier_limits(decoder.target)

    def act(warp: Warp, mask: int) -> None:
        for key, lanes in operand.of(warp, mask).items():
            cta, offset = _own(warp, key, instruction)
            for lane in lanes:
                count = int(warp.r[count_slot][lane])
                if not _initialised_alike(cta, offset, count):
                    cta.barriers[offset] = mbarrier.initialize(cta.barriers.get(offset), count, limits)
                if cta.cluster.observe is not None:
                    cta.cluster.observe(BarrierInit(warp.actor, cta.linear, offset, count, instruction.span, lane))

    return Control(act)


def _initialised_alike(cta: Cta, offset: int, count: int) -> bool:
    """Was the object initialised with the same count, and not used since? Then its bytes stay as they are, and the
    judge says what the ISA makes of it (contested point `repeated_init`)."""
    before = cta.barriers.get(offset)
    return before is not None and mbarrier.is_fresh(before, count)


def _inval(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    (address,) = expect_operands(instruction, 1)
    operand = BarrierOperand(decoder, instruction, modifiers, address)
    modifiers.flag("b64")

    def act(warp: Warp, mask: int) -> None:
        for key, lanes in operand.of(warp, mask).items():
            cta, offset = _own(warp, key, instruction)
            for lane in lanes:
                mbarrier.invalidate(cta.barriers.get(offset))
                del cta.barriers[offset]
                if cta.cluster.observe is not None:
                    cta.cluster.observe(BarrierInvalidate(warp.actor, cta.linear, offset, instruction.span, lane))

    return Control(act)


def _arrive(drop: bool) -> Callable[[Decoder, Instruction, Modifiers], Control]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
        expecting = "expect_tx" in instruction.opcode
        modifiers.flag("expect_tx")
        no_complete = modifiers.flag("noComplete")
        relaxed = modifiers.take(*_ORDERS) == "relaxed"
        scope = modifiers.take("cta", "cluster") or _DEFAULT_SCOPE
        operands = list(instruction.operands)
        if not operands:
            raise unsupported(instruction, "it has no operands")
        state = SINK_SLOT
        if isinstance(operands[0], Register):
            state = decoder.destination(instruction, operands.pop(0), WORD64)
        operand = BarrierOperand(decoder, instruction, modifiers, operands.pop(0))
        modifiers.flag("b64")
        if len(operands) > 1 or (expecting and not operands):
            raise unsupported(instruction, f"it has {len(instruction.operands)} operands")
        value = decoder.source(instruction, operands[0], WORD32) if operands else -1
        form = signals.Arrival(drop, no_complete, relaxed, scope, instruction.span)

        def act(warp: Warp, mask: int) -> None:
            if state != SINK_SLOT:
                act_apart(warp, mask)
                return
            amount = 1
            if value < 0:
                one = operand.one(warp, mask)
            else:
                counted = operand.one_with(warp, mask, value)
                one, amount = (None, 1) if counted is None else (counted[:2], counted[2])
            if one is None:
                act_apart(warp, mask)
                return
            cta, offset = _object(warp, one)
            each, expected = (1, amount) if expecting else (amount, 0)
            signals.arrive(warp, cta, offset, mask.bit_count(), each, expected, form, to_bits(mask))

        def act_apart(warp: Warp, mask: int) -> None:
            """Where lanes do not all do the same, or want to know the state that they found."""
            tokens = np.zeros(WARP_SIZE, np.uint64) if state != SINK_SLOT else _NO_TOKENS
            for key, lanes in operand.of(warp, mask).items():
                cta, offset = _object(warp, key)
                if state != SINK_SLOT and key[0] != warp.cta.rank:
                    raise MachineFault(
                        "MB211", "remote-barrier", "a remote arrive returns no state", instruction.span, _SOURCE
                    )
                amounts = [1] * len(lanes) if value < 0 else [int(warp.r[value][lane]) for lane in lanes]
                # Lanes that do the same and ask for no state arrive together; others one by one.
                together = state == SINK_SLOT and (value < 0 or len(set(amounts)) == 1)
                arrivals = (
                    [(amounts[0], lanes)] if together else [(a, [at]) for a, at in zip(amounts, lanes, strict=True)]
                )
                for amount, members in arrivals:
                    if state != SINK_SLOT:
                        tokens[members] = mbarrier.token(cta.barriers.get(offset), offset)
                    each, expected = (1, amount) if expecting else (amount, 0)
                    bits = 0
                    for lane in members:
                        bits |= 1 << lane
                    signals.arrive(warp, cta, offset, len(members), each, expected, form, bits)
            if state != SINK_SLOT:
                warp.r[state] = merge(warp.r[state], tokens, mask)

        return Control(act)

    return handler


def _bytes(
    signal: Callable[[Warp, int, Cta, int, int, Span], None],
) -> Callable[[Decoder, Instruction, Modifiers], Control]:
    """An instruction that adds to the bytes of a phase, or takes from them: by each lane, the number in a register."""

    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
        modifiers.take("relaxed")
        modifiers.take("cta", "cluster")
        address, count = expect_operands(instruction, 2)
        operand = BarrierOperand(decoder, instruction, modifiers, address)
        modifiers.flag("b64")
        slot = decoder.source(instruction, count, WORD32)

        def act(warp: Warp, mask: int) -> None:
            for key, lanes in operand.of(warp, mask).items():
                cta, offset = _object(warp, key)
                for lane in lanes:
                    signal(warp, lane, cta, offset, int(warp.r[slot][lane]), instruction.span)

        return Control(act)

    return handler


def _expect(warp: Warp, lane: int, cta: Cta, offset: int, count: int, span: Span) -> None:
    del lane
    signals.expect(warp, cta, offset, count, span)


def _complete(warp: Warp, lane: int, cta: Cta, offset: int, count: int, span: Span) -> None:
    """`mbarrier.complete_tx`: simulates a copy's completion, so it counts as a copy without bytes moved."""
    signals.complete(copies.issue(warp, lane, span).copy, cta, offset, count, span)


def _wait(blocking: bool) -> Callable[[Decoder, Instruction, Modifiers], Control]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
        by_parity = modifiers.flag("parity")
        relaxed = modifiers.take("acquire", "relaxed") == "relaxed"
        scope = modifiers.take("cta", "cluster") or _DEFAULT_SCOPE
        operands = expect_operands(instruction, 3, 4) if blocking else expect_operands(instruction, 3)
        target = operands[0]
        if isinstance(target, PairOfPredicates):
            raise unsupported(instruction, "a report predicate (PTX 9.3)")
        to = decoder.destination(instruction, target, PREDICATE)
        operand = BarrierOperand(decoder, instruction, modifiers, operands[1])
        modifiers.flag("b64")
        phase = decoder.source(instruction, operands[2], WORD32 if by_parity else WORD64)
        if len(operands) == 4:
            decoder.source(instruction, operands[3], WORD32)

        span = instruction.span
        peek = span in decoder.peeks

        def test(cta: Cta, offset: int, value: int) -> bool:
            if peek and decoder.peeks_fail:
                return False
            barrier = cta.barriers.get(offset)
            if by_parity:
                return mbarrier.parity_complete(barrier, value)
            return mbarrier.token_complete(barrier, value, offset)

        def act(warp: Warp, mask: int) -> Signal | None:
            named = operand.one_with(warp, mask, phase)
            if named is None:
                return act_apart(warp, mask)
            rank, offset, value = named
            cta = warp.cta
            if rank != cta.rank:
                _own(warp, (rank, offset), instruction)
            holds = test(cta, offset, value)
            if holds:
                warp.false_wait = None
                passes(warp, cta, offset, value, to_bits(mask))
            elif peek:
                looks(warp, cta, offset, value, to_bits(mask))
            elif blocking and not _fails_once(warp, (cta, offset, value)):
                return _park(warp, (cta, offset, value), by_parity, instruction)
            r = warp.r
            if to == SINK_SLOT or mask == FULL:
                r[to] = _OUTCOMES[holds]
            else:
                old = r[to]
                if old is UNINITIALISED or predicate_mask(old) & mask != (mask if holds else 0):
                    r[to] = merge(old, _OUTCOMES[holds], mask)
            if holds or peek:
                return None
            warp.cta.cluster.failed_polls += 1
            return Signal.YIELD

        def passes(warp: Warp, cta: Cta, offset: int, value: int, lanes: int) -> None:
            observe = cta.cluster.observe
            if observe is not None:
                complete = mbarrier.complete_phase(cta.barriers.get(offset))
                cta.cluster.waited[cta.linear, offset] = complete
                parity = value if by_parity else complete & 1
                observe(BarrierWait(warp.actor, cta.linear, offset, parity, complete, span, relaxed, scope, lanes))

        def looks(warp: Warp, cta: Cta, offset: int, value: int, lanes: int) -> None:
            asked = mbarrier.phase_asked(cta.barriers.get(offset), value, offset, by_parity=by_parity)
            if cta.cluster.observe is not None:
                parity = value if by_parity else asked & 1
                cta.cluster.observe(
                    BarrierPeek(warp.actor, cta.linear, offset, parity, asked, span, relaxed, scope, lanes)
                )

        def act_apart(warp: Warp, mask: int) -> Signal | None:
            """Where lanes do not all wait for the same."""
            result = np.zeros(WARP_SIZE, np.bool_)
            failed: tuple[Cta, int, int] | None = None
            passed: list[tuple[Cta, int, int, int]] = []
            values = warp.r[phase]
            for key, lanes in operand.of(warp, mask).items():
                cta, offset = _own(warp, key, instruction)
                same = uniform_value(values, mask)
                for value in {int(values[lane]) for lane in lanes} if same is None else (same,):
                    holds = test(cta, offset, value)
                    chosen = lanes if same is not None else [lane for lane in lanes if int(values[lane]) == value]
                    result[slice(None) if len(chosen) == WARP_SIZE else chosen] = holds
                    bits = sum(1 << lane for lane in chosen)
                    if holds:
                        passed.append((cta, offset, value, bits))
                    elif peek:
                        looks(warp, cta, offset, value, bits)
                        failed = (cta, offset, value)
                    else:
                        failed = (cta, offset, value)
            if failed is not None and blocking and not peek and not _fails_once(warp, failed):
                return _park(warp, failed, by_parity, instruction)
            if failed is None:
                warp.false_wait = None
            for cta, offset, value, waiting in passed:
                passes(warp, cta, offset, value, waiting)
            warp.r[to] = result if to == SINK_SLOT or mask == FULL else merge(warp.r[to], result, mask)
            if failed is None:
                return None
            if peek:
                return None
            warp.cta.cluster.failed_polls += 1
            return Signal.YIELD

        return Control(act)

    return handler


def _fails_once(warp: Warp, failed: tuple[Cta, int, int]) -> bool:
    """The adversary's choice: may this try_wait return false? At most once in a row for one phase of one barrier."""
    cta, offset, value = failed
    state = cta.barriers[offset]
    key = (cta.linear, offset, value, state.phase)
    if warp.false_wait == key or warp.cta.cluster.random.random() >= _FALSE_ODDS:
        return False
    warp.false_wait = key
    return True


def _park(warp: Warp, failed: tuple[Cta, int, int], by_parity: bool, instruction: Instruction) -> Signal:
    cta, offset, value = failed
    strand = warp.current
    parity = value if by_parity else None
    awaited = Awaited("mbarrier", cta.linear, offset, -1 if parity is None else parity & 1)
    strand.block = Block(lambda: signals.describe(cta, offset, parity), instruction.span, awaited)
    cta.barrier_waiters.setdefault(offset, []).append((warp, strand))
    return Signal.BLOCK


def _pending_count(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("b64")
    target, operand = expect_operands(instruction, 2)
    to = decoder.destination(instruction, target, WORD32)
    source = decoder.source(instruction, operand, WORD64)

    def act(warp: Warp, mask: int) -> None:
        counts = np.array([mbarrier.token_pending(int(state)) for state in warp.r[source]], np.uint32)
        warp.r[to] = merge(warp.r[to], counts, mask)

    return Control(act)


def _check_layout(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    """Every object has layout v0; memory without an object has none."""
    asked = modifiers.take("layout::v0", "layout::v1")
    target, address = expect_operands(instruction, 2)
    operand = BarrierOperand(decoder, instruction, modifiers, address)
    modifiers.flag("b64")
    to = decoder.destination(instruction, target, PREDICATE)

    def act(warp: Warp, mask: int) -> None:
        result = np.zeros(WARP_SIZE, np.bool_)
        for key, lanes in operand.of(warp, mask).items():
            cta, offset = _own(warp, key, instruction)
            result[lanes] = asked == "layout::v0" and cta.barriers.get(offset) is not None
        warp.r[to] = merge(warp.r[to], result, mask)

    return Control(act)


HANDLERS = {
    "mbarrier.check_layout": _check_layout,
    "mbarrier.init": _init,
    "mbarrier.inval": _inval,
    "mbarrier.arrive": _arrive(False),
    "mbarrier.arrive.expect_tx": _arrive(False),
    "mbarrier.arrive_drop": _arrive(True),
    "mbarrier.arrive_drop.expect_tx": _arrive(True),
    "mbarrier.expect_tx": _bytes(_expect),
    "mbarrier.complete_tx": _bytes(_complete),
    "mbarrier.test_wait": _wait(False),
    "mbarrier.try_wait": _wait(True),
    "mbarrier.pending_count": _pending_count,
}
