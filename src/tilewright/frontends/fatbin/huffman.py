"""Literals of Zstandard: codes of up to 11 bits, whose lengths are written as weights.

Source: RFC 8878, 4.2. Checked by: tests/frontends/test_fatbin.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.frontends.fatbin.bits import BackwardBits, read_distribution, states_of

_MAX_BITS = 11


@dataclass(frozen=True, slots=True)
class Huffman:
    """A table by the next `log` bits: the symbol, and how many of the bits it takes."""

    log: int
    symbols: bytes
    bits: bytes

    def decode(self, stream: bytes, count: int) -> bytes:
        """`count` symbols. Raises ValueError where the stream has another number of bits."""
        bits = BackwardBits(stream)
        data, place = bits.data, bits.left + 128 - self.log
        symbols, taken, mask = self.symbols, self.bits, (1 << self.log) - 1
        out = bytearray(count)
        for index in range(count):
            if place < 0:
                raise ValueError("literals are cut off")
            byte = place >> 3
            code = (data[byte] | data[byte + 1] << 8 | data[byte + 2] << 16) >> (place & 7) & mask
            out[index] = symbols[code]
            place -= taken[code]
        if place != 128 - self.log:
            raise ValueError("literals do not end with their stream")
        return bytes(out)


def read_huffman(data: bytes, at: int, end: int) -> tuple[Huffman, int]:
    """4.2.1: the table at `at`, and where it ends."""
    header = data[at]
    at += 1
    if header >= 128:
        count = header - 127
        stop = at + (count + 1) // 2
        weights = [data[at + index // 2] >> (4 if index % 2 == 0 else 0) & 15 for index in range(count)]
    else:
        stop = at + header
        if stop > end:
            raise ValueError("a table of literals is cut off")
        weights = _packed_weights(data[at:stop])
    return _table_of(weights), stop


def _packed_weights(data: bytes) -> list[int]:
    """4.2.1.2: weights by a table of finite states, two states in alternation until the bits end."""
    distribution, log, at = read_distribution(data, 0, 6, 12)
    table = states_of(distribution, log)
    bits = BackwardBits(data[at:])
    states = [bits.read(log), bits.read(log)]
    weights: list[int] = []
    current = 0
    while len(weights) < 255:
        state = states[current]
        weights.append(table.symbols[state])
        states[current] = table.base[state] + bits.read(table.bits[state])
        current ^= 1
        if bits.left < 0:
            weights.append(table.symbols[states[current]])
            break
    return weights


def _table_of(weights: Sequence[int]) -> Huffman:
    total = sum(1 << weight - 1 for weight in weights if weight)
    log = total.bit_length()
    left = (1 << log) - total
    if not total or log > _MAX_BITS or left & left - 1 or len(weights) > 255:
        raise ValueError("a table of literals does not add up")
    complete = [*weights, left.bit_length()]
    symbols, bits = bytearray(), bytearray()
    for weight in range(1, log + 1):
        for symbol, own in enumerate(complete):
            if own == weight:
                symbols += bytes([symbol]) * (1 << weight - 1)
                bits += bytes([log + 1 - weight]) * (1 << weight - 1)
    return Huffman(log, bytes(symbols), bytes(bits))
