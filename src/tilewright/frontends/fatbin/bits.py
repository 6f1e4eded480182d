"""Bits that are read backwards, and the tables of finite states that Zstandard reads its codes with.

Source: RFC 8878, 4.1 (finite-state entropy). Checked by: tests/frontends/test_fatbin.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_PADDING = bytes(16)


class BackwardBits:
    """Bits of a stream from its last one on, which a 1 marks. Beyond the first there are zeros."""

    __slots__ = ("data", "left")

    def __init__(self, stream: bytes) -> None:
        if not stream or not stream[-1]:
            raise ValueError("a stream of bits without its end")
        self.data = _PADDING + stream + _PADDING
        self.left = 8 * len(stream) + stream[-1].bit_length() - 9
        """Bits that are not read; negative where more were read than there are."""

    def read(self, count: int) -> int:
        """The next bits, the first of them the highest. Raises ValueError far beyond the first bit."""
        if not count:
            return 0
        self.left -= count
        begin = self.left + 8 * len(_PADDING)
        if begin < 0:
            raise ValueError("a stream of bits is cut off")
        byte = begin >> 3
        return int.from_bytes(self.data[byte : byte + 8], "little") >> (begin & 7) & (1 << count) - 1


@dataclass(frozen=True, slots=True)
class FiniteStates:
    """A decoding table: of each state its symbol, and the next state as `base` plus that many `bits`."""

    log: int
    symbols: Sequence[int]
    bits: Sequence[int]
    base: Sequence[int]


def read_distribution(data: bytes, at: int, max_log: int, max_symbols: int) -> tuple[list[int], int, int]:
    """4.1.1: probabilities by symbol (-1: less than one), the logarithm of their sum, and where they end."""
    begin = 8 * at

    def peek(place: int, count: int) -> int:
        if place + count > 8 * len(data) + 16:
            raise ValueError("a distribution is cut off")
        return int.from_bytes(data[place >> 3 : (place >> 3) + 4], "little") >> (place & 7) & (1 << count) - 1

    log = peek(begin, 4) + 5
    if log > max_log:
        raise ValueError(f"a table of 2^{log} states")
    place = begin + 4
    left = (1 << log) + 1
    found: list[int] = []
    while left > 1:
        bits = left.bit_length()
        value = peek(place, bits)
        low = (1 << bits) - 1 - left
        if value & (1 << bits - 1) - 1 < low:
            value &= (1 << bits - 1) - 1
            place += bits - 1
        else:
            if value >= 1 << bits - 1:
                value -= low
            place += bits
        probability = value - 1
        left -= abs(probability)
        found.append(probability)
        if probability == 0:
            while True:
                repeated = peek(place, 2)
                place += 2
                found += [0] * repeated
                if repeated != 3:
                    break
        if len(found) > max_symbols:
            raise ValueError("a distribution of too many symbols")
    if left != 1:
        raise ValueError("a distribution does not add up")
    return found, log, -(-place // 8)


def states_of(distribution: Sequence[int], log: int) -> FiniteStates:
    """4.1.1: the decoding table of a distribution."""
    size = 1 << log
    symbols = [0] * size
    high = size
    for symbol, probability in enumerate(distribution):
        if probability == -1:
            high -= 1
            symbols[high] = symbol
    place, step = 0, (size >> 1) + (size >> 3) + 3
    for symbol, probability in enumerate(distribution):
        for _ in range(probability):
            symbols[place] = symbol
            place = place + step & size - 1
            while place >= high:
                place = place + step & size - 1
    counts = [abs(probability) for probability in distribution]
    bits: list[int] = []
    base: list[int] = []
    for symbol in symbols:
        state = counts[symbol]
        counts[symbol] += 1
        bits.append(log - state.bit_length() + 1)
        base.append((state << bits[-1]) - size)
    return FiniteStates(log, symbols, bits, base)
