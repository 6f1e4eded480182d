"""What is one array element: its name, width and kind.

Names follow the field (`bf16`, `f16`, `f32`, `u8`, ...). Widths are in bytes. Sub-byte types are not handled.
"""

from __future__ import annotations

from enum import Enum


class Element(Enum):
    """An element type. `value` is the name used in text, JSON and dialects."""

    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    S32 = "i32"
    U64 = "u64"
    S64 = "i64"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"

    @property
    def bytes(self) -> int:
        """Width of one element in bytes."""
        return _BYTES[self]

    @property
    def is_float(self) -> bool:
        return self in (Element.F16, Element.BF16, Element.F32, Element.F64)


_BYTES: dict[Element, int] = {
    Element.U8: 1,
    Element.U16: 2,
    Element.U32: 4,
    Element.S32: 4,
    Element.U64: 8,
    Element.S64: 8,
    Element.F16: 2,
    Element.BF16: 2,
    Element.F32: 4,
    Element.F64: 8,
}

_ALIASES: dict[str, Element] = {
    "bfloat16": Element.BF16,
    "float16": Element.F16,
    "fp16": Element.F16,
    "half": Element.F16,
    "float32": Element.F32,
    "fp32": Element.F32,
    "float": Element.F32,
    "float64": Element.F64,
    "fp64": Element.F64,
    "uint8": Element.U8,
    "uint16": Element.U16,
    "uint32": Element.U32,
    "int32": Element.S32,
    "uint64": Element.U64,
    "int64": Element.S64,
}


def parse_element(name: str) -> Element | None:
    """The element called `name` (short or NumPy-style), or None where there is none."""
    try:
        return Element(name)
    except ValueError:
        return _ALIASES.get(name)
