"""How are 32 lanes represented, and what does an instruction do to some of them?

A register is one NumPy vector of 32 raw bit patterns (`bool` for predicates), and is never changed in place: a write
replaces the vector, so a move is free and a snapshot is a reference. A set of lanes is a Python integer of 256 bits,
one byte a lane (0 or 1), which is what a predicate vector's bytes are: reading a guard costs one conversion.

A register file is a plain list. Slot 0 holds the warp itself, slot 1 is the sink `_`, then come the declared
registers, then constants and special registers, so that every operand is a slot.

Partially written registers: lanes that were never written while others were hold 0xCC bytes; only a register none of
whose lanes was written counts as uninitialised. Checked by: tests/machine/instruction/test_instructions.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Never

import numpy as np
import numpy.typing as npt

Lanes = npt.NDArray[Any]
Registers = list[Any]

WARP_SIZE = 32
FULL = int.from_bytes(b"\x01" * WARP_SIZE, "little")
SINK_SLOT = 1


class Uninitialised:
    """What a register holds before its first write: any use but a move fails."""

    __slots__ = ()
    __array_ufunc__ = None

    def __array__(self, *_args: object, **_kwargs: object) -> Never:
        raise TypeError("uninitialised register")

    def __repr__(self) -> str:
        return "uninitialised"


UNINITIALISED = Uninitialised()


@lru_cache(maxsize=4096)
def selector(mask: int) -> Lanes:
    """The lanes of `mask` as a read-only boolean vector."""
    return np.frombuffer(mask.to_bytes(WARP_SIZE, "little"), dtype=np.bool_)


@lru_cache(maxsize=4096)
def indices(mask: int) -> Lanes:
    """The lane numbers in `mask`, ascending."""
    return np.flatnonzero(selector(mask))


@lru_cache(maxsize=4096)
def from_bits(bits: int) -> int:
    """A 32-bit member mask (bit i = lane i) as a set of lanes."""
    return sum(1 << (8 * lane) for lane in range(WARP_SIZE) if bits >> lane & 1)


@lru_cache(maxsize=4096)
def to_bits(mask: int) -> int:
    """A set of lanes as a 32-bit member mask."""
    return sum(1 << lane for lane in range(WARP_SIZE) if mask >> (8 * lane) & 1)


def of_lanes(lanes: Lanes, within: int = 0) -> int:
    """The set of the lane numbers `lanes`. within: a set that contains them, returned as it is if they fill it."""
    if len(lanes) == within.bit_count():
        return within
    return sum(1 << (8 * lane) for lane in lanes.tolist())


def predicate_mask(predicate: Lanes) -> int:
    """The lanes where `predicate` holds."""
    return int.from_bytes(predicate.tobytes(), "little")


@lru_cache(maxsize=64)
def poison(dtype: np.dtype[Any]) -> Lanes:
    """What unwritten lanes hold: 0xCC bytes; False for predicates."""
    if dtype == np.bool_:
        return np.zeros(WARP_SIZE, np.bool_)
    return np.full(WARP_SIZE * dtype.itemsize, 0xCC, np.uint8).view(dtype)


@lru_cache(maxsize=64)
def zeros_of(dtype: np.dtype[Any]) -> Lanes:
    """A vector of zeros, one for all who ask."""
    return np.zeros(WARP_SIZE, dtype)


def uniform_value(values: Lanes, mask: int) -> int | None:
    """The bits that all lanes of `mask` hold, as a number; None if they differ. Integer registers only."""
    if mask == FULL:
        image, width = values.tobytes(), values.itemsize
        first = image[:width]
        return int.from_bytes(first, "little") if image == first * WARP_SIZE else None
    if mask.bit_count() == 1:
        return int(values[mask.bit_length() >> 3])
    chosen = values[indices(mask)]
    return int(chosen[0]) if (chosen == chosen[0]).all() else None


def merge(old: Any, new: Any, mask: int) -> Lanes:
    """`new` in the lanes of `mask`, `old` elsewhere."""
    if new is UNINITIALISED:
        raise TypeError("uninitialised register")
    written: Lanes = new
    kept: Lanes = poison(written.dtype) if old is UNINITIALISED else old
    return np.where(selector(mask), written, kept)
