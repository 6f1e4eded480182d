"""Which placements of a buffer can be had at all?

The space is finite, and listed whole, the simplest first:

    plain     rows one after another
    tma       the copy engine's modes, with boxes one span wide; where a matrix instruction reads the buffer, only the
              modes that its descriptor can name, and unswizzled only in chunks of 16 bytes
    swizzle   CuTe's Swizzle<B, M, S> of byte addresses that keep what a lane moves together, change bank bits, and read
              bits that vary inside the buffer
    xor       the same idea by row and vector, where rows are no power of two (AMD's libraries write it so; for rows
              that are a power of two these are swizzles); phases and repeats up to the vectors of all banks
    padding   bytes at the end of every row, up to all banks once

Through a tensor map only the first two can be had. Not handled: swizzles of negative shift, which move low bits up and
so no bank bits apart; several swizzles at once beyond the copy engine's. Checked by
tests/legal/bank/test_swizzle_choice.py.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.base.error import TilewrightError
from tilewright.layout.swizzle import Swizzle
from tilewright.legal.bank.access_kind import access_kind
from tilewright.legal.bank.placement import Buffer, Placement, RowXor
from tilewright.legal.tensor_map import swizzle_code
from tilewright.legal.tensor_map.enumerations import SWIZZLES
from tilewright.targets import Target

_LINE_BIT = 7
"""The copy engine's patterns read the number of the 128-byte line."""


def placements(buffer: Buffer, target: Target) -> tuple[Placement, ...]:
    """Every placement that the buffer's engines allow. Raises TilewrightError for engines that the target lacks."""
    for engine in buffer.engines:
        if engine != "tma" and not target.supports(engine):
            raise TilewrightError(f"{target.name} has no {engine}")
    if "tma" in buffer.engines and not target.supports("bulk_tensor_copy"):
        raise TilewrightError(f"{target.name} has no tensor copies")
    bank_bytes = target.limit("multiprocessor.shared_bank_bytes")
    atom = max([bank_bytes, *(access_kind(each.kind).lane_bytes for each in buffer.accesses)])
    plain = plain_placement(buffer)
    if buffer.engines:
        return _by_copy_engine(buffer, plain, atom, target)
    bank_row = target.limit("multiprocessor.shared_banks") * bank_bytes
    pitch, extra = plain.pitch_bytes, plain.extra_bytes
    found = [plain]
    for swizzle in _swizzles(buffer.rows * pitch, atom, bank_row):
        block = 1 << swizzle.target + swizzle.bits
        name = f"Swizzle<{swizzle.bits}, {swizzle.base}, {swizzle.shift}>"
        rounded = extra + -(buffer.rows * pitch) % block
        found.append(Placement("swizzle", name, pitch, 0, (swizzle,), None, rounded, 1 << swizzle.top))
    if pitch & (pitch - 1):
        found.extend(_row_xors(buffer, plain, atom, bank_row // atom))
    for padding in range(-pitch % atom or atom, bank_row + 1, atom):
        name = f"{pitch + padding - buffer.row_bytes} bytes after every row"
        padded = extra + padding * buffer.rows
        found.append(Placement("padding", name, pitch + padding, 0, (), None, padded, atom))
    return tuple(found)


def plain_placement(buffer: Buffer) -> Placement:
    """Rows one after another, as near as the widest vector's alignment lets them."""
    width = max([1, *(access_kind(each.kind).lane_bytes for each in buffer.accesses)])
    rest = -buffer.row_bytes % width
    return Placement("plain", "rows one after another", buffer.row_bytes + rest, 0, (), None, rest * buffer.rows, width)


def _by_copy_engine(buffer: Buffer, plain: Placement, atom: int, target: Target) -> tuple[Placement, ...]:
    chunk = target.limit("matrix_access.row_bytes")
    reader = buffer.reader
    modes = swizzle_code.swizzles(target) if reader is None else swizzle_code.operand_swizzles(reader, target)
    if buffer.row_bytes % chunk:
        raise TilewrightError(f"rows of {buffer.row_bytes} bytes are no multiple of the copy engine's {chunk}")
    found = [] if reader else [plain]
    if buffer.row_bytes > chunk or reader:
        name, panels = f"none, in panels of {chunk} bytes", buffer.row_bytes // chunk
        found.append(Placement("tma", name, chunk, chunk, alignment_bytes=1 << _LINE_BIT, panels=panels))
    for mode in modes:
        swizzles = mode_swizzles(mode, target)
        if mode == "none" or any(swizzle.target < atom.bit_length() - 1 for swizzle in swizzles):
            continue
        span = swizzle_code.row_bytes(mode, target)
        extra = (-buffer.row_bytes % span) * buffer.rows
        panels = -(-buffer.row_bytes // span)
        name = mode if panels == 1 else f"{mode}, in panels of {span} bytes"
        panel = span if panels > 1 else 0
        alignment = max(swizzle_code.period_bytes(mode, target), 1 << _LINE_BIT)
        found.append(Placement("tma", name, span, panel, swizzles, None, extra, alignment, panels))
    return tuple(found)


def mode_swizzles(mode: str, target: Target) -> tuple[Swizzle, ...]:
    """A mode of the copy engine as swizzles of byte addresses, each reading the address as it was."""
    place = [str(each) for each in SWIZZLES].index(mode)
    bits, onto = target.limits("swizzle.xor_bits")[place], target.limits("swizzle.xor_onto_bit")[place]
    flip = target.limits("swizzle.flip_bit")[place]
    found = (Swizzle(bits, onto, _LINE_BIT - onto),) if bits else ()
    return (*found, Swizzle(1, flip, _LINE_BIT - flip)) if flip >= 0 else found


@lru_cache(maxsize=256)
def _swizzles(buffer_bytes: int, atom: int, bank_row: int) -> tuple[Swizzle, ...]:
    """Those that keep atoms whole, change bits of the bank, and read bits that vary. Fewest bits and nearest first."""
    low, high, top = atom.bit_length() - 1, bank_row.bit_length() - 1, (buffer_bytes - 1).bit_length()
    return tuple(
        Swizzle(bits, base, shift)
        for bits in range(1, high - low + 1)
        for base in range(low, high - bits + 1)
        for shift in range(bits, top - base - bits + 1)
    )


def _row_xors(buffer: Buffer, plain: Placement, atom: int, most: int) -> list[Placement]:
    vectors, rest = divmod(plain.pitch_bytes, atom)
    found: list[Placement] = []
    phases = 2
    while not rest and vectors % phases == 0 and phases <= most:
        repeat = 1
        while repeat <= most and repeat * phases <= buffer.rows:
            name = f"vector ^ (row // {repeat} % {phases}), vectors of {atom} bytes"
            turn = RowXor(atom, repeat, phases)
            found.append(Placement("xor", name, plain.pitch_bytes, 0, (), turn, plain.extra_bytes, atom))
            repeat *= 2
        phases *= 2
    return found
