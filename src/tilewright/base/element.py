"""What is one array element: its name, width and kind.

Names follow the field (`bf16`, `f16`, `f32`, `u8`, ...). Widths are in bytes. `f8e4m3` is the format with no infinities
and one NaN (OCP 8-bit floating point, E4M3; `float8_e4m3fn` in PyTorch and ml_dtypes), `f8e5m2` the one with IEEE's
infinities and NaNs (E5M2), `ue8m0` a power of two, 2^-127 to 2^127, or NaN (OCP Microscaling Formats, E8M0;
`float8_e8m0fnu`), by which blocks are scaled, and `ue4m3` an E4M3 without its sign, for the same. `f4e2m1x2` is a byte
of two numbers of 4 bits (E2M1), the first in its low half (`float4_e2m1fn_x2` in PyTorch): an axis of it counts bytes.
Other types of fewer bits are not handled.
"""

from __future__ import annotations

from enum import Enum


class Element(Enum):
    """An element type. `value` is the name used in text, JSON and dialects."""

    U8 = "u8"
    S8 = "i8"
    U16 = "u16"
    U32 = "u32"
    S32 = "i32"
    U64 = "u64"
    S64 = "i64"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    F8E4M3 = "f8e4m3"
    F8E5M2 = "f8e5m2"
    UE8M0 = "ue8m0"
    UE4M3 = "ue4m3"
    F4E2M1X2 = "f4e2m1x2"

    @property
    def bytes(self) -> int:
        """Width of one element in bytes."""
        return _BYTES[self]

    @property
    def is_float(self) -> bool:
        return self in (Element.F16, Element.BF16, Element.F32, Element.F64) or self.is_float8

    @property
    def is_float8(self) -> bool:
        """Whether it is a float of 8 bits, which conversions saturate and the copy engine moves as bytes."""
        return self in (Element.F8E4M3, Element.F8E5M2)

    @property
    def is_factor(self) -> bool:
        """Whether it holds factors of blocks alone: loads of it are float32, and nothing is rounded to it."""
        return self in (Element.UE8M0, Element.UE4M3)

    @property
    def is_pair(self) -> bool:
        """Whether it holds two numbers, which products alone take apart."""
        return self is Element.F4E2M1X2

    @property
    def copied_as(self) -> Element:
        """What a program that copies it moves: integers of its bits, where no arithmetic takes it; else itself."""
        return Element.S8 if self.is_factor or self.is_pair else self


_BYTES: dict[Element, int] = {
    Element.U8: 1,
    Element.S8: 1,
    Element.U16: 2,
    Element.U32: 4,
    Element.S32: 4,
    Element.U64: 8,
    Element.S64: 8,
    Element.F16: 2,
    Element.BF16: 2,
    Element.F32: 4,
    Element.F64: 8,
    Element.F8E4M3: 1,
    Element.F8E5M2: 1,
    Element.UE8M0: 1,
    Element.UE4M3: 1,
    Element.F4E2M1X2: 1,
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
    "float8_e4m3fn": Element.F8E4M3,
    "float8_e5m2": Element.F8E5M2,
    "float8_e8m0fnu": Element.UE8M0,
    "float4_e2m1fn_x2": Element.F4E2M1X2,
    "fp64": Element.F64,
    "uint8": Element.U8,
    "int8": Element.S8,
    "uint16": Element.U16,
    "uint32": Element.U32,
    "int32": Element.S32,
    "uint64": Element.U64,
    "int64": Element.S64,
}


def element_of(dtype: object) -> Element | None:
    """The element that a name or a type of NumPy, ml_dtypes or PyTorch stands for, or None where there is none."""
    if isinstance(dtype, Element):
        return dtype
    text = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", str(dtype))
    return parse_element(str(text).rpartition(".")[2])


def parse_element(name: str) -> Element | None:
    """The element called `name` (short or NumPy-style), or None where there is none."""
    try:
        return Element(name)
    except ValueError:
        return _ALIASES.get(name)
