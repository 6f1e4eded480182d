"""How elements of a global array are reached: 64-bit addresses, loads converted to float32, stores rounded from it.

Not handled: vectors of elements. Checked by: tests/lower/test_extents.py and test_values.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lower.ptx.emit import Text, float_literal
from tilewright.lower.ptx.numbers import float8, int8
from tilewright.lower.ptx.numbers.scalar import widen
from tilewright.lower.ptx.places import GlobalPlace

_NO_PLACE = -1
"""An index that is outside of every array."""
ELEMENT_BYTES = {"bf16": 2, "f16": 2, "f32": 4, "f8e4m3": 1, "f8e5m2": 1, "ue8m0": 1, "ue4m3": 1, "i8": 1, "i32": 4}


def displaced_address(text: Text, base: str, index: str, stride_bytes: int) -> str:
    """base + index * stride_bytes as a 64-bit address; index: a signed 32-bit register.

    mad.wide takes a factor of 32 bits; rows of an array of few and long ones may be further apart.
    """
    if stride_bytes < 2**31:
        return text.into("b64", "mad.wide.s32", index, stride_bytes, base)
    return text.into("b64", "mad.lo.s64", text.into("b64", "cvt.s64.s32", index), stride_bytes, base)


def element_address(text: Text, base: str, index: str, stride: int | str, element_bytes: int) -> str:
    """base + index * stride elements as a 64-bit address; index: as above; stride: a number, or a register that holds
    one of 31 bits."""
    if isinstance(stride, int):
        return displaced_address(text, base, index, stride * element_bytes)
    return text.into("b64", "mad.lo.s64", text.into("b64", "mul.wide.s32", index, stride), element_bytes, base)


def row_address(text: Text, base: str, rows: int, pitch: int | str, element_bytes: int, offset_bytes: int) -> str:
    """The operand for the address so many rows and bytes behind `base`. pitch: elements from row to row, as above."""
    if isinstance(pitch, int):
        return constant_address(text, base, rows * pitch * element_bytes + offset_bytes)
    return constant_address(text, text.into("b64", "mad.wide.s32", pitch, rows * element_bytes, base), offset_bytes)


def constant_address(text: Text, base: str, offset_bytes: int) -> str:
    """The operand for the address base + offset_bytes; an offset in an operand has 32 bits, signed."""
    if offset_bytes < 2**31:
        return f"[{base}+{offset_bytes}]"
    return f"[{text.into('b64', 'add.s64', base, offset_bytes)}]"


def load_index(
    text: Text, source: GlobalPlace, indices: Sequence[str], strides: Sequence[int | str], *, ahead: bool = False
) -> str:
    """What an array of integers holds at these indices, in a register; -1 where they lie outside of it. As unsigned
    numbers, negative indices are outside too. strides: the array's, as `element_address` takes them; ahead: the array
    may be written meanwhile."""
    address, inside = source.register, ""
    for register, extent, stride in zip(indices, source.shape, strides, strict=True):
        fits = text.into("pred", "setp.lt.u32", register, extent)
        inside = text.into("pred", "and.pred", inside, fits) if inside else fits
        address = element_address(text, address, register, stride, ELEMENT_BYTES[source.element])
    number = text.into("b32", "mov.b32", _NO_PLACE)
    load = "ld.global.L1::no_allocate" if ahead else source.load
    text.emit(f"{load}.b32", number, f"[{address}]", guard=inside)
    return number


def load_as_float(text: Text, source: GlobalPlace, address: str, guard: str, into: str = "") -> str:
    """An element of a global array as float32, an integer rounded to nearest even; 0 where the guard is false. into:
    the register that is to hold it, a fresh one if empty."""
    element = source.element
    if element == "f32":
        value = into or text.register("f32")
        text.emit("mov.f32", value, float_literal(0.0))
        text.emit(f"{source.load}.f32", value, address, guard=guard)
        return value
    if element == "i32":
        number = text.into("b32", "mov.b32", 0)
        text.emit(f"{source.load}.b32", number, address, guard=guard)
        wide = text.into("f32", "cvt.rn.f32.s32", number)
        if into:
            text.emit("mov.f32", into, wide)
        return into or wide
    narrow = text.into("b16", "mov.b16", 0)
    text.emit(f"{source.load}.{'u8' if ELEMENT_BYTES[element] == 1 else 'b16'}", narrow, address, guard=guard)
    wide = widen(text, element, narrow)
    if not into:
        return wide
    text.emit("mov.f32", into, wide)
    return into


def store_element(text: Text, element: str, address: str, value: str, guard: str) -> None:
    """Round a float32 register to the element and store it where the guard holds; of integers, a register of one."""
    if element in ("f32", "i32"):
        text.emit(f"st.global.{'f32' if element == 'f32' else 'b32'}", address, value, guard=guard)
        return
    if ELEMENT_BYTES[element] == 1:
        narrow = int8.narrow(text, value) if element == "i8" else float8.narrow(text, element, value)
        text.emit("st.global.u8", address, narrow, guard=guard)
        return
    narrow = text.into("b16", f"cvt.rn.{element}.f32", value)
    text.emit("st.global.b16", address, narrow, guard=guard)


def indices_of(text: Text, linear: str, inner: Sequence[int | str]) -> list[str]:
    """The indices of a linear number, outermost first. inner: all extents but the outermost, numbers or registers."""
    indices: list[str] = []
    rest = linear
    for extent in reversed(inner):
        indices.append(text.into("b32", "rem.u32", rest, extent))
        rest = text.into("b32", "div.u32", rest, extent)
    return [rest, *reversed(indices)]
