"""What does a variable hold before anything stores to it? The bytes after `=`, and the addresses among them.

An address is not known before the module is loaded: its bytes stay zero and a `Relocation` says what belongs there.
Braces follow the array's dimensions; what a list leaves out is zero. Source: PTX ISA 9.1, Initializers. Not kept: the
settings in a texture's, sampler's or surface's initial value, which say how it is read and nothing of memory.
Checked by: tests/frontends/test_ptx_grammar.py, test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

import struct
from math import prod

from tilewright.frontends.ptx.ast import FloatImmediate, Immediate, Relocation
from tilewright.frontends.ptx.constant import literal_value, read_constant, read_integer
from tilewright.frontends.ptx.lexer import Cursor

_ADDRESS_TYPES = ("u32", "u64", "b32", "b64", "s32", "s64")
_BYTE_TYPES = ("u8", "b8", "s8")


def read_initializer(
    cursor: Cursor, kind: str, width: int, extents: tuple[int | None, ...]
) -> tuple[bytes, tuple[Relocation, ...]]:
    """Little-endian bytes of `= 1` or `= {1, {2, 3}}`, the cursor after `=`, and the addresses among them.

    kind, width: the elements' type and its bytes; extents: the array's dimensions, the first None if it is open, and
    after them a vector's length. Raises TilewrightError where a value does not fit the type or the dimensions.
    """
    reader = _InitializerReader(cursor, kind, width)
    if cursor.kind == "{":
        reader.read_lists(extents)
    else:
        reader.read_element()
    return bytes(reader.content), tuple(reader.relocations)


class _InitializerReader:
    def __init__(self, cursor: Cursor, kind: str, width: int) -> None:
        self.cursor = cursor
        self.kind = kind
        self.width = width
        self.content = bytearray()
        self.relocations: list[Relocation] = []

    def read_lists(self, extents: tuple[int | None, ...]) -> None:
        """Nested lists without recursion: each opened list remembers where its bytes start."""
        cursor = self.cursor
        starts: list[int] = []
        while True:
            if cursor.accept("{"):
                if len(starts) >= max(1, len(extents)):
                    cursor.fail("the initial value is nested more deeply than the array", "write it as one list")
                starts.append(len(self.content))
                if not cursor.at("}"):
                    continue
            else:
                self.read_element()
            while cursor.accept("}"):
                start = starts.pop()
                self._close(start, extents[len(starts) :], is_whole=not starts)
                if not starts:
                    return
            cursor.expect(",", "`,` or `}` in an initial value")

    def _close(self, start: int, extents: tuple[int | None, ...], *, is_whole: bool) -> None:
        """Fill a list that is shorter than its part of the array with zeros; who reads the variable fills the whole."""
        inner = self.width * prod(extent for extent in extents[1:] if extent is not None)
        if not extents or extents[0] is None or is_whole:
            return
        missing = inner * extents[0] - (len(self.content) - start)
        if missing < 0:
            self.cursor.fail("a list is longer than its dimension of the array", "make the array larger")
        self.cursor.spend(initial_bytes=missing)
        self.content += bytes(missing)

    def read_element(self) -> None:
        cursor = self.cursor
        if cursor.kind == "word":
            self._address(None)
        elif cursor.kind == "integer" and cursor.kinds[cursor.index + 1] == "(":
            self._masked()
        else:
            self.content += _element(cursor, self.kind, self.width)

    def _masked(self) -> None:
        """`0xFF00(name)`, `0xFF00(1234)`: one byte of an address or a number."""
        cursor = self.cursor
        index = cursor.index
        mask = literal_value(cursor.take())
        byte = (mask.bit_length() - 1) // 8
        if mask != 0xFF << 8 * byte or byte > 7:
            cursor.fail(f"mask {mask:#x} does not take one byte", "write 0xFF, 0xFF00, ...", index)
        cursor.expect("(")
        if cursor.kind == "word":
            self._address(mask)
        else:
            self.content += _fit(cursor, (read_integer(cursor) & mask) >> 8 * byte, self.kind, self.width, index)
        cursor.expect(")")

    def _address(self, mask: int | None) -> None:
        """`name`, `name+4`, `generic(name)+4`; mask: of the operator around it."""
        cursor = self.cursor
        index = cursor.index
        if self.kind not in (_ADDRESS_TYPES if mask is None else (*_ADDRESS_TYPES, *_BYTE_TYPES)):
            cursor.fail(f"an address does not fit .{self.kind}", "use .u64, or one byte of it: 0xFF(name)", index)
        name = cursor.take()
        generic = name == "generic" and cursor.accept("(")
        if generic:
            name = cursor.expect("word", "a variable's or a function's name")
            cursor.expect(")")
        addend = read_integer(cursor) if cursor.at("+", "-") else 0
        self.relocations.append(Relocation(len(self.content), name, addend, generic, mask))
        self.content += bytes(self.width)


def _element(cursor: Cursor, kind: str, width: int) -> bytes:
    index = cursor.index
    value = read_constant(cursor)
    is_float = kind in ("f32", "f64")
    match value:
        case Immediate(number) if not is_float:
            return _fit(cursor, number, kind, width, index)
        case FloatImmediate(bits, size) if is_float and size == 8 * width:
            return bits.to_bytes(width, "little")
        case FloatImmediate(bits, 64) if kind == "f32":
            number = struct.unpack("<d", struct.pack("<Q", bits))[0]
            try:
                return struct.pack("<f", number)
            except OverflowError:
                cursor.fail(f"{number} does not fit .f32", "use .f64", index)
        case _:
            cursor.fail(f"this constant is not of type .{kind}", "write floats with a point, integers without", index)


def _fit(cursor: Cursor, number: int, kind: str, width: int, index: int) -> bytes:
    if not -(1 << (8 * width - 1)) <= number < 1 << (8 * width):
        cursor.fail(f"{number} does not fit .{kind}", "use a wider type", index)
    return (number % (1 << (8 * width))).to_bytes(width, "little")


def pass_over_settings(cursor: Cursor) -> None:
    """`{ width = 16, filter_mode = nearest }`, a list of those, or a name: settings of a texture or sampler."""
    depth = 0
    while True:
        match cursor.kind:
            case "{":
                depth += 1
            case "}":
                depth -= 1
            case "word" | "integer" | "float" | "=" | ",":
                pass
            case _:
                cursor.refuse("a setting such as filter_mode = nearest, or `}`")
        if depth < 0:
            cursor.refuse("`{`")
        cursor.take()
        if depth == 0:
            return
