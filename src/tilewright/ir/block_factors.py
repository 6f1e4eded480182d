"""Which products of a walk are scaled by factors of blocks as a tensor core may take them: a factor of each row of
either operand, for each block of the walked axis?

A product has such factors where two loads scale it, and nothing else: one over the axes of its left operand, with
blocks of the contracted axis in that axis's place, one over those of the right one, both of an element that holds
nothing but factors, and of blocks of one size. Whether a target's tensor core takes them is `targets`' to say
(`synth.cascade.sums.tensor_factors`).

Not handled, and None: one operand alone that is scaled (`synth.cut.factors_before` gives the other one factors of 1);
factors that anything is computed of; displaced ones. Checked by: tests/ir/test_block_factors.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.ir.cascade_facts import Product
from tilewright.ir.scaled_terms import scales_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import index_offset
from tilewright.ir.tile.types import TensorType, tensor_type, value_type
from tilewright.ir.tile.walked_block import WalkedBlockOp

SHARED_BY = {
    (Element.F8E4M3, Element.UE8M0): "f8_block",
    (Element.F8E5M2, Element.UE8M0): "f8_block",
    (Element.F4E2M1X2, Element.UE8M0): "f4_block",
    (Element.F4E2M1X2, Element.UE4M3): "f4_fine_block",
}
"""By operands and factors, the row `block_scales.*` of a target that says how many numbers share a factor."""


@dataclass(frozen=True, slots=True)
class BlockFactors:
    """held, brought: the loads of the factors of a product's two operands (`cascade_facts.Product`); block: elements of
    the contracted axis that share one; element: of the factors."""

    held: tile.LoadOp
    brought: tile.LoadOp
    block: int
    element: Element

    @property
    def loads(self) -> tuple[tile.LoadOp, tile.LoadOp]:
        return self.held, self.brought


def block_factors(product: Product) -> BlockFactors | None:
    """The factors of a product's blocks; None where it has none, or others."""
    found = [_factors(scale) for scale in scales_of(product.op)]
    if len(found) != 2 or not isinstance(product.held.owner, tile.LoadOp):
        return None
    contracted, by_axes = product.op.axis.data, dict[frozenset[str], tile.LoadOp]()
    for load in found:
        if load is not None:
            by_axes[frozenset(map(base_axis, value_type(load.result).axis_names))] = load
    sides = [frozenset(value_type(each).axis_names) for each in (product.held, product.brought.result)]
    if set(sides) != by_axes.keys() or len(by_axes) != len(sides):
        return None
    held, brought = (by_axes[side] for side in sides)
    kinds = {(_element(each), _block(each, contracted)) for each in (held, brought)}
    element, block = kinds.pop()
    return None if kinds or block < 2 else BlockFactors(held, brought, block, element)


def _factors(scale: SSAValue) -> tile.LoadOp | None:
    """The load of factors that a scale repeats over the product's axes; None where it is anything else."""
    owner = scale.owner
    while isinstance(owner, tile.BroadcastOp | tile.TransposeOp | WalkedBlockOp):
        owner = owner.operand.owner
    if not isinstance(owner, tile.LoadOp) or not isinstance(owner.tensor.type, TensorType):
        return None
    displaced = any(map(index_offset, owner.indices))
    return None if displaced or not _element(owner).is_factor else owner


def _element(load: tile.LoadOp) -> Element:
    return tensor_type(load.tensor).element_kind


def _block(load: tile.LoadOp, axis: str) -> int:
    """Elements in the blocks of an axis that a load has a number for; every other axis it has by elements, or 0."""
    sizes = {base_axis(each): block_size(each) for each in tensor_type(load.tensor).axis_names}
    return sizes.pop(axis, 0) if all(size == 1 for each, size in sizes.items() if each != axis) else 0
