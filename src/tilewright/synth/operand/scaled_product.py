"""Which products that threads add to a total, slot by slot, fit a consumer's registers?

A total and a product of its size do at least; two slots' products beside the total let the tensor core multiply one
while threads add the other. Checked by: tests/synth/cascade/sums/test_scaled_sums.py.
"""

from __future__ import annotations

_MOST_REGISTERS = {1: 128, 2: 192, 3: 128}
"""Registers of a thread for the total and the partial product, by consumers."""
KEPT_REGISTERS = 24
"""Of a thread, for addresses and loop counters."""
PAIR = 2
"""Slots of a turn, where registers hold the products of both."""


def promoted_together(part: tuple[int, int], slices: int, registers: int, numbers: int = 0) -> int:
    """Slots of a turn of the loop, two only of an even number of them. part: rows and columns that a consumer computes
    of a tile; slices: slots of a tile; registers: of the consumer's threads; numbers: of a slot's scales in them."""
    accumulator = part[0] * part[1] // 128
    left = registers - KEPT_REGISTERS - 2 * accumulator
    return PAIR if slices % PAIR == 0 and accumulator + 2 * numbers <= left else 1


def fits_registers(rows: int, columns: int, consumers: int) -> bool:
    """Whether a consumer's registers hold the total and a partial product of such a tile."""
    return 2 * rows * columns // (128 * consumers) <= _MOST_REGISTERS.get(consumers, 0)
