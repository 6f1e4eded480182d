"""How many registers does each fragment of a matrix instruction take?

A fragment's elements are dealt evenly to the lanes that execute the instruction: 128 for wgmma, 32 for mma. Elements
narrower than a register are packed into 32-bit ones; a 64-bit element has a 64-bit register. Source: PTX ISA 8.8,
Matrix Fragments for mma; Register Fragments for wgmma.mma_async. `tests/targets/test_ptx_table.py` asks ptxas.
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
    "b1": 1,
}
_LANES = {"wgmma.mma_async": 128, "mma.sync": 32}


def fragment_registers(key: str, modifiers: tuple[str, ...]) -> tuple[int, ...]:
    """Registers of the vector operands of a matrix instruction, in order: d, a (if in registers), and for mma b and c.

    key: the instruction's row. Empty for any other instruction.
    """
    lanes = _LANES.get(key)
    shape = next((match for modifier in modifiers if (match := _SHAPE.fullmatch(modifier))), None)
    elements = [modifier for modifier in modifiers if modifier in _BITS]
    if lanes is None or shape is None or len(elements) < 3:
        return ()
    m, n, k = (int(group) for group in shape.groups())
    result = _registers(m * n, elements[0], lanes)
    a, b = _registers(m * k, elements[1], lanes), _registers(k * n, elements[2], lanes)
    return (result, a) if key == "wgmma.mma_async" else (result, a, b, _registers(m * n, elements[-1], lanes))


def _registers(count: int, element: str, lanes: int) -> int:
    bits = _BITS[element]
    return count * bits // lanes // max(bits, 32)
