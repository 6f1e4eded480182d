"""How many registers does each fragment of a matrix instruction take, or a tile of tensor memory?

A fragment's elements are dealt evenly to the lanes that execute the instruction: 128 for wgmma, 32 for mma. Elements
narrower than a register are packed into 32-bit ones; a 64-bit element has a 64-bit register. A sparse operand A has
half its elements. Source: PTX ISA 9.1, Matrix Fragments for mma; Register Fragments for wgmma.mma_async;
tcgen05.ld. `tests/targets/test_ptx_table.py` asks ptxas.
"""

from __future__ import annotations

import re

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_BITS = {
    "f64": 64,
    "f32": 32,
    "s32": 32,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "e2m3": 8,
    "e3m2": 8,
    "e2m1": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
}
_LANES = {
    "wgmma.mma_async": 128,
    "wgmma.mma_async.sp": 128,
    "mma.sync": 32,
    "mma.sp.sync": 32,
    "mma.sp::ordered_metadata.sync": 32,
}
# 32-bit registers for each repetition of a shape of tensor memory.
_TENSOR_MEMORY = {"16x64b": 1, "16x128b": 2, "16x256b": 4, "32x32b": 1, "16x32bx2": 1}


def fragment_registers(key: str, modifiers: tuple[str, ...]) -> tuple[int, ...]:
    """Registers of the vector operands of a matrix instruction, in order: d, a (if in registers), and for mma b and c.

    For a load or store of tensor memory: of its one vector. key: the instruction's row. Empty for any other
    instruction, and where the ISA lets the operands' number depend on more than the shape.
    """
    if key in ("tcgen05.ld", "tcgen05.ld.red", "tcgen05.st"):
        repeat = next((modifier for modifier in modifiers if modifier[0] == "x" and modifier[1:].isdigit()), "x1")
        shape = next((modifier for modifier in modifiers if modifier in _TENSOR_MEMORY), "32x32b")
        return (int(repeat[1:]) * _TENSOR_MEMORY[shape],)
    if key == "ldmatrix":
        repeat = next(int(modifier[1:]) for modifier in modifiers if modifier in ("x1", "x2", "x4"))
        return (2 * repeat if "m16n16" in modifiers else repeat,)
    if key.startswith("wmma."):
        return _wmma_registers(key, modifiers)
    lanes = _LANES.get(key)
    size = next((match for modifier in modifiers if (match := _SHAPE.fullmatch(modifier))), None)
    elements = [modifier for modifier in modifiers if modifier in _BITS]
    if lanes is None or size is None or len(elements) < 3:
        return ()
    m, n, k = (int(group) for group in size.groups())
    if "kind::mxf4" in modifiers or "kind::mxf4nvf4" in modifiers:
        # Here e2m1 is packed, two to a byte; everywhere else it stands alone in one.
        elements = ["s4" if element == "e2m1" else element for element in elements]
    halves = 2 if ".sp" in key else 1
    if (m, n, k) == (8, 8, 4) and elements[1] == "f16":
        # The first mma: four quads of eight lanes each compute a product.
        lanes = 8
    result = _registers(m * n, elements[0], lanes)
    a, b = _registers(m * k // halves, elements[1], lanes), _registers(k * n, elements[2], lanes)
    return (result, a) if lanes == 128 else (result, a, b, _registers(m * n, elements[3], lanes))


def _wmma_registers(key: str, modifiers: tuple[str, ...]) -> tuple[int, ...]:
    """The same for the older warp-level instructions, whose f16 operands every pair of lanes holds twice."""
    m, n, k = next(tuple(map(int, size.groups())) for name in modifiers if (size := _SHAPE.fullmatch(name)))
    elements = [modifier for modifier in modifiers if modifier in _BITS]
    match key.split(".")[1:3]:
        case ["load", "a" | "b" as operand]:
            return (_wmma_operand(m * k if operand == "a" else k * n, elements[0]),)
        case ["load" | "store", _]:
            return (_registers(m * n, elements[0], 32),)
        case _:
            # `f16.f32` names d and c alone; the operands are f16 then.
            d, a, b, c = elements if len(elements) == 4 else (elements[0], "f16", "f16", elements[1])
            sizes = (_wmma_operand(m * k, a), _wmma_operand(k * n, b))
            return (_registers(m * n, d, 32), *sizes, _registers(m * n, c, 32))


def _wmma_operand(count: int, element: str) -> int:
    return 8 if element == "f16" else _registers(count, element, 32)


def _registers(count: int, element: str, lanes: int) -> int:
    bits = _BITS[element]
    return count * bits // lanes // max(bits, 32)
