"""What do MLIR's printed types say of shapes and sizes? The text of a type, without blanks, to a value.

`!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>` is 3 slots of 128 rows of 64 elements; `!tt.tensordesc` has the
box of its copies. Checked by: tests/frontends/test_mlir_reader.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

_SHAPED = re.compile(r"^!?(?:[\w.]*)<(?:tensor<)?((?:\d+x)*)([A-Za-z]\w*)")
_MEMREF = re.compile(r"memref<((?:(?:\d+|\?)x)*)([a-z]\w*)(,.*)?>", re.DOTALL)
_BITS = re.compile(r"^[a-z]+?(\d+)")


@dataclass(frozen=True, slots=True)
class Shaped:
    """shape: outermost first; element_bits: of one element; space: the text after the shape."""

    shape: tuple[int, ...]
    element: str
    element_bits: int
    space: str

    @property
    def size_bytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * self.element_bits // 8


def shaped(text: str) -> Shaped | None:
    """A memory descriptor, tensor descriptor, memref, vector or tensor type; None for what has no shape of known
    element size."""
    match = _SHAPED.match(text)
    if match is None:
        return None
    element = match.group(2)
    bits = 8 if element == "i1" else _element_bits(element)
    if bits is None:
        return None
    shape = tuple(int(extent) for extent in match.group(1).split("x") if extent)
    return Shaped(shape, element, bits, text[match.end() :])


@dataclass(frozen=True, slots=True)
class MemRef:
    """A memref's type. shape: -1 where an extent is left open; strides, offset: in elements, None where they are left
    open; shared: is it in a block's shared memory?"""

    shape: tuple[int, ...]
    element_bits: int
    strides: tuple[int, ...] | None
    offset: int | None
    shared: bool


def memref(text: str) -> MemRef | None:
    """A ranked memref's type, its text without blanks; None for anything else, and for layouts that are maps."""
    match = _MEMREF.fullmatch(text)
    bits = _element_bits(match[2]) if match is not None else None
    if match is None or (bits is None and match[2] not in ("index", "i1")):
        return None
    shape = tuple(-1 if extent == "?" else int(extent) for extent in match[1].split("x") if extent)
    rest = match[3] or ""
    shared = bool(re.search(r",(3|#gpu\.address_space<workgroup>)$", rest))
    strided = re.match(r",strided<\[([\d?,-]*)\](?:,offset:(\?|\d+))?>", rest)
    if strided is not None:
        parts = strided[1].split(",") if strided[1] else []
        strides = None if "?" in parts else tuple(map(int, parts))
        offset = None if strided[2] == "?" else int(strided[2] or 0)
    elif rest.startswith((",affine_map", ",strided")):
        return None
    else:
        strides, offset = row_major(shape), 0
    return MemRef(shape, 64 if bits is None and match[2] == "index" else bits or 8, strides, offset, shared)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of a shape whose elements lie one after the other; None where an inner extent is left open."""
    if -1 in shape[1:]:
        return None
    return tuple(prod(shape[place + 1 :]) for place in range(len(shape)))


def split_types(text: str) -> tuple[str, ...]:
    """A list of types at its commas, `*`s and arrows outside of brackets."""
    parts, depth, begin = list[str](), 0, 0
    for index, sign in enumerate(text):
        if sign in "<([{":
            depth += 1
        elif sign in ")]}" or (sign == ">" and text[index - 1 : index] != "-"):
            depth -= 1
        separates = sign in ",*" or text[index : index + 2] == "->"
        if separates and depth == 0:
            parts.append(text[begin:index])
            begin = index + (2 if sign == "-" else 1)
    return tuple(part for part in (*parts, text[begin:]) if part)


def _element_bits(element: str) -> int | None:
    match = _BITS.match(element)
    if match is None:
        return None
    return int(match.group(1))
