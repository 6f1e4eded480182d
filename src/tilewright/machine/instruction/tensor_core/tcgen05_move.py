"""Tensor memory: loads and stores, and their waits. Binds `tensor_operation` to instructions.

A load or store of N registers a thread moves these cells, with lane l of the warp, register r, and the address's lane
and column as origin (PTX ISA, tcgen05: Data movement shape; the same in CUTLASS, copy_traits_sm100.hpp):

| shape     | lane                          | column                        | registers of .xN |
| 32x32b    | l                             | r                             | N                |
| 16x64b    | l / 4 + 8 (l % 2)             | l / 2 % 2 + 2 r               | N                |
| 16x128b   | l / 4 + 8 (r % 2)             | l % 4 + 4 (r / 2)             | 2 N              |
| 16x256b   | l / 4 + 8 (r / 2 % 2)         | 2 (l % 4) + r % 2 + 8 (r / 4) | 4 N              |
| 16x32bx2  | l % 16                        | split (l / 16) + r            | N                |

`tcgen05.ld.red` gives besides the least or greatest of a thread's registers. With `.pack::16b` and `.unpack::16b` a
register holds the low halves of two neighbouring columns, so columns double, but for the split: CUTLASS gives .x128 one
of 256.

Source: PTX ISA, `tcgen05.ld`, `ld.red`, `st`, `wait`. Checked by: tests/machine/tensor_core/test_tcgen05.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tilewright.frontends.ptx.ast import Immediate, Instruction, Operand
from tilewright.machine.core.decoder import WORD32, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.event import TensorBlock, TensorMemoryIssue, TensorMemoryWait
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import FULL, UNINITIALISED, WARP_SIZE, indices, merge
from tilewright.machine.core.state import Block, Warp
from tilewright.machine.core.step import Control, Signal
from tilewright.machine.instruction.barriers import uniform
from tilewright.machine.tensor_core.tensor_memory import memory_of, require, split
from tilewright.machine.tensor_core.tensor_operation import hold, new_operation, release, state_of, store_later

_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
_MOST_REGISTERS = 128
_ZEROS = np.zeros(WARP_SIZE, np.uint32)


@lru_cache(maxsize=256)
def fragment(shape: str, registers: int, half_split: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Lanes and columns that a load or store moves, from its address: each [registers, 32]."""
    register, lane = np.meshgrid(
        np.arange(registers, dtype=np.int64), np.arange(WARP_SIZE, dtype=np.int64), indexing="ij"
    )
    match shape:
        case "32x32b":
            return lane, register
        case "16x64b":
            return lane // 4 + 8 * (lane % 2), lane // 2 % 2 + 2 * register
        case "16x128b":
            return lane // 4 + 8 * (register % 2), lane % 4 + 4 * (register // 2)
        case "16x256b":
            return lane // 4 + 8 * (register // 2 % 2), 2 * (lane % 4) + register % 2 + 8 * (register // 4)
        case _:
            return lane % 16, half_split * (lane // 16) + register


class _Move:
    """What the text of a tcgen05.ld or st fixes: address, fragment, and the cells from the address."""

    def __init__(
        self, decoder: Decoder, instruction: Instruction, modifiers: Modifiers, address: Operand,
        split_operand: Operand | None, halves: str,
    ) -> None:  # fmt: skip
        modifiers.flag("sync")
        modifiers.flag("aligned")
        shape = modifiers.take(*_REGISTERS)
        count = modifiers.take(*(f"x{1 << power}" for power in range(8)))
        self.halves = modifiers.flag(halves)
        modifiers.flag("b32")
        if shape is None or count is None:
            raise unsupported(instruction, "it needs a shape and a repetition")
        self.instruction = instruction
        self.shape = shape
        self.registers = _REGISTERS[shape] * int(count[1:])
        if self.registers > _MOST_REGISTERS:
            raise unsupported(instruction, f".{shape}.{count} would take {self.registers} registers")
        half_split = 0
        if shape == "16x32bx2":
            if not isinstance(split_operand, Immediate):
                raise unsupported(instruction, "16x32bx2 takes a constant offset of its second half")
            half_split = split_operand.value
        width = 1 + self.halves
        # The second half's offset is in columns, whatever a register has of them.
        self.lanes, columns = fragment(shape, self.registers, 0)
        _, apart = fragment(shape, self.registers, half_split)
        self.columns = width * columns + (apart - columns)
        self.tall = 32 if shape == "32x32b" else 16
        begins = sorted({0, half_split}) if shape == "16x32bx2" else [0]
        wide = (self.registers if shape == "16x32bx2" else int(columns.max()) + 1) * width
        self.extents = tuple((begin, begin + wide) for begin in begins)
        self.slot, self.offset = decoder.address(instruction, address)

    def at(self, warp: Warp, mask: int) -> tuple[int, int, tuple[TensorBlock, ...], bool]:
        """Lane and column, the blocks touched, and whether the address names another quarter than the warp's own.

        Raises MachineFault outside what may be touched. A lane of the first quarter stands for the same lane of the
        warp's own: the ISA wants the warp's own, but hardware adds it, and shipped kernels (DeepGEMM) rely on that.
        """
        address = uniform(warp, self.slot, mask, "the address", self.instruction) + self.offset
        lane, column = split(address)
        first = warp.index % 4 * 32
        other_quarter = 0 <= lane < 32 <= first
        if other_quarter:
            lane += first
        if lane not in ((first,) if self.tall == 32 else (first, first + 16)):
            raise MachineFault(
                "TC207", "tensor-memory-lanes",
                f"{self.instruction.opcode} of warp {warp.index} at lane {lane}; it reaches lanes {first} to "
                f"{first + 31}", self.instruction.span, "PTX ISA, tcgen05: Access restrictions",
            )  # fmt: skip
        blocks = tuple(
            TensorBlock(warp.cta.linear, lane, lane + self.tall, column + begin, column + end)
            for begin, end in self.extents
        )
        require(warp.cta, blocks, self.instruction.opcode, self.instruction.span)
        return lane, column, blocks, other_quarter


def _ld(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    operands = expect_operands(instruction, 2, 3)
    move = _Move(decoder, instruction, modifiers, operands[1], operands[2] if len(operands) == 3 else None, "pack::16b")
    return _load(decoder, instruction, move, operands[0], None, None)


def _ld_red(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    operands = expect_operands(instruction, 3, 4)
    operation = modifiers.take("min", "max")
    absolute, propagate = modifiers.flag("abs"), modifiers.flag("NaN")
    kind = modifiers.take("f32", "u32", "s32")
    if operation is None or kind is None:
        raise unsupported(instruction, "it needs .min or .max and a type")
    move = _Move(decoder, instruction, modifiers, operands[2], operands[3] if len(operands) == 4 else None, "pack::16b")
    return _load(decoder, instruction, move, operands[0], operands[1], _reduction(operation, kind, absolute, propagate))


def _reduction(operation: str, kind: str, absolute: bool, propagate: bool) -> Callable[[Any], npt.NDArray[np.uint32]]:
    """Least or greatest of each column of cells [registers, 32]; NaNs only count where they propagate."""
    dtype = {"f32": np.float32, "u32": np.uint32, "s32": np.int32}[kind]
    choose: Any = {
        ("min", True): np.min, ("max", True): np.max, ("min", False): np.fmin.reduce, ("max", False): np.fmax.reduce,
    }[operation, propagate or kind != "f32"]  # fmt: skip

    def reduce(cells: Any) -> npt.NDArray[np.uint32]:
        numbers = np.ascontiguousarray(cells).view(dtype)
        return np.ascontiguousarray(choose(np.abs(numbers) if absolute else numbers, axis=0)).view(np.uint32)

    return reduce


def _load(
    decoder: Decoder, instruction: Instruction, move: _Move, registers: Operand, reduced: Operand | None,
    reduction: Callable[[Any], npt.NDArray[np.uint32]] | None,
) -> Control:  # fmt: skip
    """A load into `registers`, and of their reduction into `reduced`."""
    slots = _registers(decoder, instruction, registers, move.registers, decoder.destination)
    targets = slots if reduced is None else (*slots, decoder.destination(instruction, reduced, WORD32))
    names = tuple(decoder.names[slot] for slot in targets)
    held = frozenset(slot for slot in targets if slot > 1)
    decoder.accumulators.update(targets)
    mathematics = decoder.mathematics

    def cells_at(warp: Warp, lane: int, column: int) -> list[Any]:
        words = memory_of(warp.cta).words
        cells = words[lane + move.lanes, column + move.columns]
        if move.halves:
            cells = cells & 0xFFFF | words[lane + move.lanes, column + move.columns + 1] << np.uint32(16)
        return list(cells) if reduction is None else [*cells, reduction(cells)]

    def act(warp: Warp, mask: int) -> None:
        lane, column, blocks, other_quarter = move.at(warp, mask)
        operation = new_operation(warp)
        observe = warp.cta.cluster.observe
        if observe is not None:
            observe(
                TensorMemoryIssue(
                    warp.actor, 0, operation, "ld", blocks, (), (), memory_of(warp.cta).group or 1, names,
                    instruction.span, other_quarter,
                )
            )  # fmt: skip
        r = warp.r
        if mathematics:
            for slot, vector in zip(targets, cells_at(warp, lane, column), strict=True):
                r[slot] = vector if mask == FULL else merge(r[slot], vector, mask)
        else:
            for slot in targets:
                r[slot] = _ZEROS
        hold(warp, operation, "ld", held, instruction.span)

    return Control(act, converged=True)


def _registers(
    decoder: Decoder, instruction: Instruction, operand: Operand, count: int, slot_of: Callable[..., int]
) -> tuple[int, ...]:
    items = decoder.vector(operand)
    if len(items) != count:
        raise unsupported(instruction, f"{len(items)} registers where {count} are needed")
    return tuple(slot_of(instruction, item, WORD32) for item in items)


def _st(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    operands = expect_operands(instruction, 2, 3)
    move = _Move(
        decoder, instruction, modifiers, operands[0], operands[1] if len(operands) == 3 else None, "unpack::16b"
    )
    slots = _registers(decoder, instruction, operands[-1], move.registers, decoder.source)
    decoder.move(slots, move.slot, loads=False)
    names = tuple(dict.fromkeys(decoder.names[slot] for slot in slots if slot < decoder.first_constant))
    held = frozenset(slot for slot in slots if 1 < slot < decoder.first_constant)
    mathematics = decoder.mathematics

    def act(warp: Warp, mask: int) -> None:
        lane, column, blocks, other_quarter = move.at(warp, mask)
        operation = new_operation(warp)
        observe = warp.cta.cluster.observe
        if observe is not None:
            observe(
                TensorMemoryIssue(
                    warp.actor, 0, operation, "st", (), blocks, (), memory_of(warp.cta).group or 1, names,
                    instruction.span, other_quarter,
                )
            )  # fmt: skip
        hold(warp, operation, "st", held, instruction.span)
        if not mathematics:
            store_later(warp, instruction.span, lambda: None)
            return
        vectors: list[Any] = [warp.r[slot] for slot in slots]
        if any(vector is UNINITIALISED for vector in vectors):
            raise MachineFault(
                "MF003", "uninitialised-register", f"{instruction.opcode} reads a register that was never written",
                instruction.span,
            )  # fmt: skip
        chosen = indices(mask)
        values = np.array(vectors)[:, chosen]
        lanes, columns = lane + move.lanes[:, chosen], column + move.columns[:, chosen]

        def write() -> None:
            words = memory_of(warp.cta).words
            if move.halves:
                words[lanes, columns] = values & np.uint32(0xFFFF)
                words[lanes, columns + 1] = values >> np.uint32(16)
            else:
                words[lanes, columns] = values

        store_later(warp, instruction.span, write)

    return Control(act, converged=True)


def _wait(kind: Literal["ld", "st"]) -> Callable[[Decoder, Instruction, Modifiers], Control]:
    def handler(_decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
        modifiers.flag("sync")
        modifiers.flag("aligned")
        expect_operands(instruction, 0)
        span = instruction.span

        def act(warp: Warp, _mask: int) -> Signal | None:
            state = state_of(warp)
            if kind == "st" and state.stores:
                strand = warp.current
                strand.block = Block(lambda: f"waits for {state.stores} tcgen05.st", span)
                state.waiters.append((warp, strand))
                return Signal.BLOCK
            release(warp, kind)
            observe = warp.cta.cluster.observe
            if observe is not None:
                observe(TensorMemoryWait(warp.actor, kind, span))
            return None

        return Control(act, converged=True)

    return handler


HANDLERS = {
    "tcgen05.ld": _ld,
    "tcgen05.ld.red": _ld_red,
    "tcgen05.st": _st,
    "tcgen05.wait::ld": _wait("ld"),
    "tcgen05.wait::st": _wait("st"),
}
