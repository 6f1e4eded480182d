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

from xdsl.ir import SSAValue

from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import dots, loops

Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class SharedProducts:
    """products: in program order; shared: the side of the operand that all of them have in common. Of a single product
    either side is; it is called the left one."""

    products: tuple[tile.DotOp, ...]
    shared: Side

    def operand(self, side: Side, number: int = 0) -> SSAValue:
        """The operand of product `number` on a side."""
        return self.products[number].left if side == "left" else self.products[number].right


def shared_products(program: tile.ProgramOp) -> SharedProducts | None:
    """The program's products, where there are any and one pipeline can compute them; else None."""
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


def product_of(program: tile.ProgramOp, output: SSAValue) -> int:
    """Which product, by its place in program order, a loop's output is the sum of.

    Raises ValueError for a value that is no such output.
    """
    for loop in loops(program):
        last = loop.body.block.last_op
        assert isinstance(last, tile.YieldOp)
        for value, result in zip(last.values, loop.outputs, strict=True):
            if result is output:
                return dots(program).index(value.owner)  # pyright: ignore[reportArgumentType]
    raise ValueError(f"{output} is no sum of products")
