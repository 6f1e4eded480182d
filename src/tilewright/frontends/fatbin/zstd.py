"""Zstandard frames, decompressed.

Source: RFC 8878, the section of each function is named there. Blocks are decoded one after another: literals (raw, one
byte repeated, or Huffman), then sequences (a number of literals, and a match) whose codes are read from three
finite-state tables, backwards.

Not handled: dictionaries. The checksum is not compared: the size is, and what comes out is text that a reader judges.
Checked by: tests/frontends/test_fatbin.py, against what `zstd` and nvcc write.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.frontends.fatbin.bits import BackwardBits, FiniteStates, read_distribution, states_of
from tilewright.frontends.fatbin.huffman import Huffman, read_huffman
from tilewright.frontends.fatbin.lz4 import copy_match

_MAGIC = 0xFD2FB528
_SKIPPED = 0x184D2A5

# RFC 8878, 3.1.1.3.2.1.1: what a code stands for, and how many bits are added to it.
_LITERALS_BASE = (*range(16), 16, 18, 20, 22, 24, 28, 32, 40, 48, 64, 128, 256, 512, *(1 << n for n in range(10, 17)))
_LITERALS_BITS = (*(0,) * 16, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, *range(10, 17))
_MATCH_BASE = (
    *range(3, 35), 35, 37, 39, 41, 43, 47, 51, 59, 67, 83, 99, 131, 259, 515, *((1 << n) + 3 for n in range(10, 17)),
)  # fmt: skip
_MATCH_BITS = (*(0,) * 32, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, *range(10, 17))

# RFC 8878, 3.1.1.3.2.2: the tables that need not be written down, as distributions and the logarithm of their size.
_DEFAULT_LITERALS = (
    6,
    (4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1),
)
_DEFAULT_OFFSETS = (5, (1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1))
_DEFAULT_MATCHES = (
    6, (1, 4, 3, *(2,) * 6, *(1,) * 37, *(-1,) * 7),
)  # fmt: skip
_DEFAULTS = (_DEFAULT_LITERALS, _DEFAULT_OFFSETS, _DEFAULT_MATCHES)
_MAX_LOGS = (9, 8, 9)
_MAX_CODES = (36, 32, 53)


@dataclass(slots=True)
class _Frame:
    """What one block leaves to the next."""

    out: bytearray = field(default_factory=bytearray)
    huffman: Huffman | None = None
    tables: list[FiniteStates | None] = field(default_factory=lambda: [None, None, None])
    recent: list[int] = field(default_factory=lambda: [1, 4, 8])


def decompress(data: bytes, size: int) -> bytes:
    """The `size` bytes that the frames in `data` stand for. Raises ValueError where they are damaged."""
    out = bytearray()
    at = 0
    try:
        while at < len(data):
            magic = int.from_bytes(data[at : at + 4], "little")
            if magic >> 4 == _SKIPPED:
                at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            elif magic == _MAGIC:
                content, at = _frame(data, at + 4, size)
                out += content
            else:
                raise ValueError(f"no Zstandard frame at {at}")
    except IndexError:
        raise ValueError("the Zstandard frame is cut off") from None
    if len(out) != size:
        raise ValueError(f"the Zstandard frame has {len(out)} bytes, not {size}")
    return bytes(out)


def _frame(data: bytes, at: int, limit: int) -> tuple[bytearray, int]:
    """3.1.1: the header and the blocks."""
    descriptor = data[at]
    single = descriptor >> 5 & 1
    if descriptor & 3:
        raise ValueError("a Zstandard frame with a dictionary")
    size_bytes = (single, 2, 4, 8)[descriptor >> 6]
    at += 1 + (0 if single else 1) + size_bytes
    frame = _Frame()
    last = False
    while not last:
        header = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        at += 3
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        taken = 1 if kind == 1 else size
        block = data[at : at + taken]
        if len(block) < taken:
            raise ValueError("the Zstandard block is cut off")
        at += taken
        if kind != 2 and len(frame.out) + size > limit:
            raise ValueError("the Zstandard frame is longer than it says")
        match kind:
            case 0:
                frame.out += block
            case 1:
                frame.out += block * size
            case 2:
                _compressed_block(frame, block, limit)
            case _:
                raise ValueError("a Zstandard block of a kind that there is not")
    return frame.out, at + (4 if descriptor >> 2 & 1 else 0)


def _compressed_block(frame: _Frame, block: bytes, limit: int) -> None:
    literals, at = _literals(frame, block)
    count = block[at]
    at += 1
    if count >= 128:
        if count < 255:
            count = (count - 128 << 8) + block[at]
            at += 1
        else:
            count = block[at] + (block[at + 1] << 8) + 0x7F00
            at += 2
    if count == 0:
        frame.out += literals
        return
    modes = block[at]
    at += 1
    for index in range(3):
        frame.tables[index], at = _table(frame, block, at, index, modes >> (6 - 2 * index) & 3)
    _sequences(frame, BackwardBits(block[at:]), count, literals, limit)
    if len(frame.out) > limit:
        raise ValueError("the Zstandard frame is longer than it says")


def _literals(frame: _Frame, block: bytes) -> tuple[bytes, int]:
    """3.1.1.3.1: the literals of a block, and where its sequences begin."""
    kind, form = block[0] & 3, block[0] >> 2 & 3
    if kind < 2:
        header_bytes = (1, 2, 1, 3)[form]
        size = int.from_bytes(block[:header_bytes], "little") >> (3 if header_bytes == 1 else 4)
        if kind == 0:
            return block[header_bytes : header_bytes + size], header_bytes + size
        return bytes([block[header_bytes]]) * size, header_bytes + 1
    header_bytes, bits = ((3, 10), (3, 10), (4, 14), (5, 18))[form]
    header = int.from_bytes(block[:header_bytes], "little")
    size, packed = header >> 4 & (1 << bits) - 1, header >> 4 + bits & (1 << bits) - 1
    end = header_bytes + packed
    if end > len(block):
        raise ValueError("the literals are cut off")
    at = header_bytes
    if kind == 2:
        frame.huffman, at = read_huffman(block, at, end)
    if frame.huffman is None:
        raise ValueError("literals without a table")
    if form == 0:
        return frame.huffman.decode(block[at:end], size), end
    quarter = (size + 3) // 4
    lengths = [block[at + 2 * index] | block[at + 2 * index + 1] << 8 for index in range(3)]
    at += 6
    literals = bytearray()
    for index in range(4):
        stop = end if index == 3 else at + lengths[index]
        wanted = size - 3 * quarter if index == 3 else quarter
        if stop > end or wanted < 0:
            raise ValueError("the literals are cut off")
        literals += frame.huffman.decode(block[at:stop], wanted)
        at = stop
    return bytes(literals), end


def _table(frame: _Frame, block: bytes, at: int, index: int, mode: int) -> tuple[FiniteStates, int]:
    """3.1.1.3.2.1: which table reads the codes of literals, offsets or matches."""
    match mode:
        case 0:
            log, distribution = _DEFAULTS[index]
            return states_of(distribution, log), at
        case 1:
            return FiniteStates(0, (block[at],), (0,), (0,)), at + 1
        case 2:
            distribution, log, at = read_distribution(block, at, _MAX_LOGS[index], _MAX_CODES[index])
            return states_of(distribution, log), at
        case _:
            found = frame.tables[index]
            if found is None:
                raise ValueError("a table is repeated that was not there")
            return found, at


def _sequences(frame: _Frame, bits: BackwardBits, count: int, literals: bytes, limit: int) -> None:
    """3.1.1.3.2.1.2, 3.1.1.4 and 3.1.1.5: read the codes, copy literals and matches."""
    of_literals, of_offsets, of_matches = frame.tables
    assert of_literals is not None and of_offsets is not None and of_matches is not None
    literal_state = bits.read(of_literals.log)
    offset_state = bits.read(of_offsets.log)
    match_state = bits.read(of_matches.log)
    out, recent, taken = frame.out, frame.recent, 0
    for number in range(count):
        offset_code = of_offsets.symbols[offset_state]
        match_code = of_matches.symbols[match_state]
        literal_code = of_literals.symbols[literal_state]
        offset = (1 << offset_code) + bits.read(offset_code)
        length = _MATCH_BASE[match_code] + bits.read(_MATCH_BITS[match_code])
        run = _LITERALS_BASE[literal_code] + bits.read(_LITERALS_BITS[literal_code])
        if number + 1 < count:
            literal_state = of_literals.base[literal_state] + bits.read(of_literals.bits[literal_state])
            match_state = of_matches.base[match_state] + bits.read(of_matches.bits[match_state])
            offset_state = of_offsets.base[offset_state] + bits.read(of_offsets.bits[offset_state])
        offset = _actual_offset(recent, offset, run)
        out += literals[taken : taken + run]
        taken += run
        if taken > len(literals) or not 0 < offset <= len(out) or len(out) + length > limit:
            raise ValueError("a match of a Zstandard block leads nowhere")
        copy_match(out, offset, length)
    out += literals[taken:]


def _actual_offset(recent: list[int], value: int, run: int) -> int:
    """3.1.1.5: values 1 to 3 stand for one of the last offsets."""
    if value > 3:
        recent[:] = [value - 3, recent[0], recent[1]]
        return value - 3
    index = value - 1 + (run == 0)
    offset = recent[0] - 1 if index == 3 else recent[index]
    if index:
        recent[:] = [offset, recent[0], recent[2] if index == 1 else recent[1]]
    return offset
