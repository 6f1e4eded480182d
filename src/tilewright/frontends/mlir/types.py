"""What do MLIR's printed types say of shapes and sizes? The text of a type, without blanks, to a value.

`!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>` is 3 slots of 128 rows of 64 elements; `!tt.tensordesc` has the
box of its copies. Checked by: tests/frontends/test_mlir_reader.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

_SHAPED = re.compile(r"^!?(?:[\w.]*)<(?:tensor<)?((?:\d+x)*)([A-Za-z]\w*)")
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
