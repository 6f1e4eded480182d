"""`mma.sync`: a matrix product of one warp, in registers.

Numbers: operands are exact in float64, products and their sums are taken in float64, and the accumulator is added and
rounded once (to nearest; f16 accumulators to f16). The ISA states neither order nor rounding of the hardware's sums, so
results agree up to rounding, and exactly where every partial sum is exact. Integer and bit products are exact.

Source: PTX ISA, `mma`. Not handled: sparse and block-scaled forms, m8n8k4 of f16.
Checked by: tests/machine/instruction/tensor_core/test_mma.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tilewright.frontends.ptx.ast import Instruction, Operand
from tilewright.machine.core.decoder import WORD32, WORD64, Decoder, Modifiers, TypeName, expect_operands, unsupported
from tilewright.machine.core.lanes import WARP_SIZE, Lanes, Registers
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control
from tilewright.machine.numbers.rounding import canonical
from tilewright.machine.tensor_core import wgmma as tensor_core
from tilewright.machine.tensor_core.mma_fragment import (
    Coordinates,
    a_coordinates,
    accumulator_coordinates,
    b_coordinates,
)

Matrix = npt.NDArray[Any]

_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "f64": 64,
}  # fmt: skip
_INTEGERS = ("s8", "u8", "s4", "u4")
_SHAPES = {
    16: ("m16n8k8", "m16n8k16"),
    32: ("m16n8k4", "m16n8k8"),
    8: ("m8n8k16", "m16n8k16", "m16n8k32"),
    4: ("m8n8k32", "m16n8k32", "m16n8k64"),
    1: ("m8n8k128", "m16n8k128", "m16n8k256"),
    64: ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
}


@dataclass(frozen=True, slots=True)
class Product:
    """What the text of one mma fixes. bits: `and` or `xor` for single-bit operands, else empty."""

    m: int
    k: int
    result: str
    a: str
    b: str
    saturate: bool
    bits: str


def _parse(instruction: Instruction, modifiers: Modifiers) -> Product:
    words, modifiers.left = modifiers.left, []
    if "aligned" not in words or "row" not in words or "col" not in words:
        raise unsupported(instruction, "it needs .aligned, .row and .col")
    saturate = "satfinite" in words
    shape = next((word for word in words if re.fullmatch(r"m\d+n\d+k\d+", word)), "")
    types = [word for word in words if word in _BITS or word in ("f32", "s32")]
    bits = next((word for word in words if word in ("and", "xor")), "")
    known = {"aligned", "row", "col", "satfinite", "rn", "and", "xor", "popc", shape, *types}
    strange = [word for word in words if word not in known]
    if strange or len(types) != 4:
        raise unsupported(instruction, f"modifier .{strange[0]}" if strange else "it needs four types")
    result, a, b, c = types
    if result != c:
        raise unsupported(instruction, "accumulator and result have different types")
    _check_types(instruction, shape, result, a, b, bits, saturate)
    m, _, k = (int(number) for number in re.findall(r"\d+", shape))
    return Product(m, k, result, a, b, saturate, bits)


def _check_types(instruction: Instruction, shape: str, result: str, a: str, b: str, bits: str, saturate: bool) -> None:
    width = _BITS.get(a, 0)
    together = a == b or {a, b} in ({"e4m3", "e5m2"}, {"s8", "u8"}, {"s4", "u4"})
    results = {
        "f16": ("f16", "f32"), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",),
        "f64": ("f64",),
    }.get(a, ("s32",))  # fmt: skip
    if not together or result not in results or shape not in _SHAPES.get(width, ()) or (a == "b1") != bool(bits):
        raise unsupported(instruction, f"shape {shape} with types .{result}, .{a} and .{b}")
    if a in ("e4m3", "e5m2") and shape.startswith("m8"):
        raise unsupported(instruction, f"shape {shape} with 8-bit floats")
    if saturate and a not in _INTEGERS:
        raise unsupported(instruction, ".satfinite is for integers")


def _operand_values(bits: Matrix, element: str) -> Matrix:
    """Elements as numbers: float64, or int64 of integers and single bits."""
    match element:
        case "f64":
            return bits.view(np.float64)
        case "s4" | "u4" | "b1":
            return bits
        case _:
            values = tensor_core.exact(bits, cast("tensor_core.OperandType", element))
            return values.astype(np.int64 if element in _INTEGERS else np.float64)


def _elements(registers: list[Lanes], element: str) -> Matrix:
    """A fragment's elements [register, lane, element]."""
    stacked = np.array(registers)
    width = _BITS[element]
    if width >= 8:
        dtype: Any = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[width]
        return np.ascontiguousarray(stacked).view(dtype).reshape(len(registers), WARP_SIZE, -1)
    shifts = np.arange(0, 32, width, dtype=np.uint32)
    fields = (stacked[:, :, None] >> shifts & np.uint32((1 << width) - 1)).astype(np.int64)
    return np.where(fields >= 8, fields - 16, fields) if element == "s4" else fields


def _gather(registers: list[Lanes], element: str, shape: tuple[int, int], at: Coordinates) -> Matrix:
    matrix = np.empty(shape, np.int64 if element in (*_INTEGERS, "b1") else np.float64)
    matrix[at] = _operand_values(_elements(registers, element), element)
    return matrix


def _multiply(product: Product, a: Matrix, b: Matrix, c: Matrix) -> Matrix:
    """D in the result's bits. c: the accumulator's bits [m, 8]."""
    with np.errstate(all="ignore"):
        match product.result:
            case "f32":
                total = (a @ b + c.view(np.float32)).astype(np.float32)
                return canonical(total.view(np.uint32), np.isnan(total), "f32")
            case "f16":
                total = (a @ b + c.view(np.float16)).astype(np.float16)
                return canonical(total.view(np.uint16), np.isnan(total), "f16")
            case "f64":
                return (a @ b + c.view(np.float64)).view(np.uint64)
            case _:
                total = _integer_product(product, a, b) + c.view(np.int32).astype(np.int64)
                if product.saturate:
                    total = np.clip(total, -(1 << 31), (1 << 31) - 1)
                return total.astype(np.int32).view(np.uint32)


def _integer_product(product: Product, a: Matrix, b: Matrix) -> Matrix:
    if product.bits == "xor":
        # The number of differing bits: those set in exactly one of the two.
        return a.sum(1)[:, None] + b.sum(0)[None, :] - 2 * (a @ b)
    return a @ b


def _mma(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    product = _parse(instruction, modifiers)
    word = WORD64 if product.a == "f64" else WORD32
    packed = 2 if product.result == "f16" else 1
    elements = word.width_bits // _BITS[product.a]
    at_a = a_coordinates(product.m, product.k, elements)
    at_b = b_coordinates(product.k, elements)
    at_c = accumulator_coordinates(product.m, packed)
    operands = expect_operands(instruction, 4)
    # Sources are looked up before destinations, which may be the same registers.
    a_slots = _slots(decoder, instruction, operands[1], at_a, word, decoder.source)
    b_slots = _slots(decoder, instruction, operands[2], at_b, word, decoder.source)
    c_slots = _slots(decoder, instruction, operands[3], at_c, word, decoder.source)
    d_slots = _slots(decoder, instruction, operands[0], at_c, word, decoder.destination)
    dtype: Any = {"f16": np.uint16, "f64": np.uint64}.get(product.result, np.uint32)
    compute = decoder.mathematics

    def act(warp: Warp, _mask: int) -> None:
        r: Registers = warp.r
        if not compute:
            for slot in d_slots:
                r[slot] = np.zeros(WARP_SIZE, word.raw)
            return
        a = _gather([r[slot] for slot in a_slots], product.a, (product.m, product.k), at_a)
        b = _gather([r[slot] for slot in b_slots], product.b, (product.k, 8), at_b)
        c = np.empty((product.m, 8), dtype)
        c[at_c] = np.array([r[slot] for slot in c_slots]).view(dtype).reshape(len(c_slots), WARP_SIZE, -1)
        found = np.ascontiguousarray(_multiply(product, a, b, c)[at_c]).view(word.raw)
        for slot, values in zip(d_slots, found.reshape(len(d_slots), WARP_SIZE), strict=True):
            r[slot] = values

    return Control(act, converged=True)


def _slots(
    decoder: Decoder, instruction: Instruction, operand: Operand, at: Coordinates, word: TypeName,
    lookup: Callable[[Instruction, Operand, TypeName], int],
) -> list[int]:  # fmt: skip
    items = decoder.vector(operand)
    if len(items) != at[0].shape[0]:
        raise unsupported(instruction, f"{len(items)} registers where {at[0].shape[0]} are needed")
    return [lookup(instruction, item, word) for item in items]


HANDLERS = {"mma.sync": _mma}
