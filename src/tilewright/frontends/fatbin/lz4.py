"""One LZ4 block, decompressed.

Source: the LZ4 block format (lz4_Block_format.md): a token of two 4-bit lengths, literals, an offset of 2 bytes, a
match of at least 4 bytes; lengths of 15 go on in bytes of 255. Not handled: LZ4 frames.
Checked by: tests/frontends/test_fatbin.py.
"""

from __future__ import annotations


def decompress(data: bytes, size: int) -> bytes:
    """The `size` bytes that a block stands for. Raises ValueError where the block is damaged."""
    out = bytearray()
    at = 0
    try:
        while at < len(data):
            token = data[at]
            length, at = _length(data, at + 1, token >> 4)
            out += data[at : at + length]
            at += length
            if at >= len(data):
                break
            offset = data[at] | data[at + 1] << 8
            length, at = _length(data, at + 2, token & 15)
            if not 0 < offset <= len(out) or len(out) + length + 4 > size:
                raise ValueError(f"the LZ4 block is damaged at {at}")
            copy_match(out, offset, length + 4)
    except IndexError:
        raise ValueError("the LZ4 block is cut off") from None
    if len(out) != size:
        raise ValueError(f"the LZ4 block has {len(out)} bytes, not {size}")
    return bytes(out)


def _length(data: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            more = data[at]
            at += 1
            length += more
            if more != 255:
                break
    return length, at


def copy_match(out: bytearray, offset: int, length: int) -> None:
    """Append `length` bytes that stand `offset` before the end; they may overlap what is appended."""
    begin = len(out) - offset
    if offset >= length:
        out += out[begin : begin + length]
    else:
        out += (bytes(out[begin:]) * (length // offset + 1))[:length]
