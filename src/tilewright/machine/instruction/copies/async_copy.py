"""`cp.async`: binds `async_copies` to instructions.

Source: PTX ISA, `cp.async`, `cp.async.commit_group`, `cp.async.wait_group`, `cp.async.wait_all`,
`cp.async.mbarrier.arrive`. A source size above the copy's size is refused (the ISA leaves it undefined).
Checked by: tests/machine/copy/test_async_copy.py.
"""

from __future__ import annotations

import numpy as np

from tilewright.frontends.ptx.ast import Immediate, Instruction, Negated, Operand, Register
from tilewright.machine.copy import async_copies
from tilewright.machine.copy.async_copies import LanePiece
from tilewright.machine.core.decoder import WORD32, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.event import AsyncCopyCommit, AsyncCopyWait
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import Lanes, indices, of_lanes, to_bits
from tilewright.machine.core.memory import locate
from tilewright.machine.core.state import Block, Warp
from tilewright.machine.core.step import Control, Signal
from tilewright.machine.instruction.mbarriers import BarrierOperand


def _is_predicate(decoder: Decoder, instruction: Instruction, operand: Operand) -> bool:
    if isinstance(operand, Negated):
        return True
    if isinstance(operand, Register):
        return decoder.type_of(decoder.register(instruction, operand.name)).name == "pred"
    return False


def _copy(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.take("ca", "cg")
    modifiers.take("shared", "shared::cta")
    modifiers.flag("global")
    hint = modifiers.flag("L2::cache_hint")
    modifiers.take("L2::64B", "L2::128B", "L2::256B")
    operands = list(instruction.operands)
    if hint:
        operands.pop()
    if not 3 <= len(operands) <= 4 or not isinstance(operands[2], Immediate) or operands[2].value not in (4, 8, 16):
        raise unsupported(instruction, "it copies 4, 8 or 16 bytes")
    size_bytes = operands[2].value
    to_slot, to_offset = decoder.address(instruction, operands[0])
    from_slot, from_offset = decoder.address(instruction, operands[1])
    size_slot, ignore_slot, negated = -1, -1, False
    if len(operands) == 4:
        if _is_predicate(decoder, instruction, operands[3]):
            ignore_slot, negated = decoder.predicate(instruction, operands[3])
        else:
            size_slot = decoder.source(instruction, operands[3], WORD32)

    def bytes_read(warp: Warp, lanes: Lanes) -> Lanes:
        """How many bytes each of `lanes` reads; the rest of its copy is zeros."""
        read = np.full(lanes.size, size_bytes, np.int64)
        if size_slot >= 0:
            read = warp.r[size_slot][lanes].astype(np.int64)
            if (read > size_bytes).any():
                raise MachineFault(
                    "MF007", "source-size", f"cp.async reads {int(read.max())} bytes, but copies {size_bytes}",
                    instruction.span, "PTX ISA, cp.async",
                )  # fmt: skip
        if ignore_slot >= 0:
            read = np.where(warp.r[ignore_slot][lanes] != negated, 0, read)
        return read

    def partial_pieces(warp: Warp, mask: int, source: Lanes, shared_offsets: Lanes, read: Lanes) -> list[LanePiece]:
        lanes = indices(mask)
        pieces: list[LanePiece] = []
        same = bool((read == read[0]).all())
        for amount in (int(read[0]),) if same else sorted(set(read.tolist())):
            chosen = np.arange(read.size) if same else np.flatnonzero(read == amount)
            if amount == 0:
                # Nothing is read, so the source address may be anything.
                empty = np.zeros(0, np.int64)
                pieces.append(LanePiece(None, empty, shared_offsets[chosen], 0, of_lanes(lanes[chosen], mask)))
                continue
            if not warp.cta.cluster.memory.forgiving:
                _check_alignment(source[chosen], size_bytes, instruction)
            found = locate(warp.cta, "global", source if same else source[chosen], 1, instruction.span)
            for part in found:
                if int(part.offsets.max()) + amount > part.region.size_bytes:
                    _check_end(warp, source[chosen][part.chosen], amount, instruction)
                if same and len(found) == 1:
                    return [LanePiece(part.region, part.offsets, shared_offsets, amount, mask)]
                at = chosen[part.chosen]
                members = of_lanes(lanes[at], mask)
                pieces.append(LanePiece(part.region, part.offsets, shared_offsets[at], amount, members))
        return pieces

    def act(warp: Warp, mask: int) -> None:
        lanes = indices(mask)
        shared = warp.r[to_slot][lanes].astype(np.uint64) + np.uint64(to_offset & 0xFFFF_FFFF_FFFF_FFFF)
        source = warp.r[from_slot][lanes].astype(np.uint64) + np.uint64(from_offset & 0xFFFF_FFFF_FFFF_FFFF)
        read = None if size_slot < 0 and ignore_slot < 0 else bytes_read(warp, lanes)
        parts = locate(warp.cta, "shared::cta", shared, size_bytes, instruction.span)
        shared_offsets = parts[0].offsets
        if len(parts) > 1:
            shared_offsets = np.empty(lanes.size, np.int64)
            for part in parts:
                shared_offsets[part.chosen] = part.offsets
        if read is None:
            pieces = [
                LanePiece(part.region, part.offsets, shared_offsets[part.chosen], size_bytes,
                          of_lanes(lanes[part.chosen], mask))
                for part in locate(warp.cta, "global", source, size_bytes, instruction.span)
            ]  # fmt: skip
        else:
            pieces = partial_pieces(warp, mask, source, shared_offsets, read)
        async_copies.issue(warp, mask, pieces, size_bytes, instruction.span)

    return Control(act)


def _check_alignment(addresses: Lanes, size_bytes: int, instruction: Instruction) -> None:
    if int(np.bitwise_or.reduce(addresses)) & (size_bytes - 1):
        crooked = addresses[addresses & np.uint64(size_bytes - 1) != 0]
        raise MachineFault(
            "MF002", "misaligned-address",
            f"address {int(crooked[0]):#x} is not a multiple of the access size, {size_bytes} bytes",
            instruction.span, "PTX ISA, cp.async: naturally aligned",
        )  # fmt: skip


def _check_end(warp: Warp, addresses: Lanes, amount: int, instruction: Instruction) -> None:
    """The last byte read must lie in a buffer, too."""
    locate(warp.cta, "global", addresses + np.uint64(amount - 1), 1, instruction.span)


def _commit(_decoder: Decoder, instruction: Instruction, _modifiers: Modifiers) -> Control:
    expect_operands(instruction, 0)

    def act(warp: Warp, mask: int) -> None:
        async_copies.commit(warp, mask)
        observe = warp.cta.cluster.observe
        if observe is not None:
            observe(AsyncCopyCommit(warp.actor, to_bits(mask), instruction.span))

    return Control(act)


def _wait(decoder: Decoder, instruction: Instruction, _modifiers: Modifiers) -> Control:
    everything = instruction.row == "cp.async.wait_all"
    pending = 0
    if everything:
        expect_operands(instruction, 0)
    else:
        (operand,) = expect_operands(instruction, 1)
        value = decoder.static_value(decoder.source(instruction, operand, WORD32))
        if value is None:
            raise unsupported(instruction, "the number of groups is a constant")
        pending = value

    def act(warp: Warp, mask: int) -> Signal | None:
        done = async_copies.all_landed(warp, mask) if everything else async_copies.waited(warp, mask, pending)
        if not done:
            state, strand = async_copies.state_of(warp), warp.current
            strand.block = Block(lambda: async_copies.describe(state), instruction.span)
            state.waiters.append((warp, strand))
            return Signal.BLOCK
        observe = warp.cta.cluster.observe
        if observe is not None:
            observe(AsyncCopyWait(warp.actor, to_bits(mask), pending, everything, instruction.span))
        return None

    return Control(act)


def _arrive(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    no_increment = modifiers.flag("noinc")
    (address,) = expect_operands(instruction, 1)
    operand = BarrierOperand(decoder, instruction, modifiers, address)
    modifiers.flag("b64")

    def act(warp: Warp, mask: int) -> None:
        for (rank, offset), lanes in operand.of(warp, mask).items():
            if rank != warp.cta.rank:
                raise MachineFault(
                    "MB211", "remote-barrier", f"{instruction.opcode} on another CTA's mbarrier", instruction.span,
                    "PTX ISA, cp.async.mbarrier.arrive",
                )  # fmt: skip
            members = of_lanes(np.array(lanes), mask)
            async_copies.arrive_when_landed(warp, members, warp.cta, offset, len(lanes), no_increment, instruction.span)

    return Control(act)


HANDLERS = {
    "cp.async": _copy,
    "cp.async.commit_group": _commit,
    "cp.async.wait_group": _wait,
    "cp.async.wait_all": _wait,
    "cp.async.mbarrier.arrive": _arrive,
}
