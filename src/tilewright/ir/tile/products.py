"""Which products does a program's loop sum, and what do they share?

Theory: products of one loop that have an operand in common are one product with wider operands: x w and x v side by
side are x [w v], of which each accumulator is a part of the columns. So a kernel multiplies them by one instruction
each slice, and its epilogue has the parts of one element in one thread.

Not handled: products in several loops, several products summed into one accumulator, products with no operand in
common; `synth.supported` refuses them. Checked by tests/ir/tile/test_products.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import dots, loops

Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class SharedProducts:
    """products: in program order; shared: the side of the operand that all of them have in common. Of a single product
    either side is; it is called the left one."""

    products: tuple[tile.DotOp, ...]
    shared: Side


def shared_products(program: tile.ProgramOp) -> SharedProducts | None:
    """The program's products, where there are any and one kernel can compute them in one loop; else None."""
    found = dots(program)
    if not found or len(loops(program)) != 1 or any(isinstance(dot.accumulator.owner, tile.DotOp) for dot in found):
        return None
    if len({(dot.left.type, dot.right.type) for dot in found}) > 1:
        return None
    if len({dot.left for dot in found}) == 1:
        return SharedProducts(found, "left")
    if len({dot.right for dot in found}) == 1:
        return SharedProducts(found, "right")
    return None
