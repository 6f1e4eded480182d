"""Which factors of blocks does a target's tensor core take, and how do they come to tensor memory?

A tensor core that scales blocks takes a factor of each row of either operand for each block of the contracted axis, out
of columns of tensor memory beside the sums (PTX ISA, tcgen05: Block scaling). Threads copy a tile's factors into a ring
of slots of shared memory, four neighbouring ones of a row at a time, in the order in which one tcgen05.cp takes them to
all lanes; each slot has columns of its own (`ir.cascade.SlotDecision.factors`).

Which elements, blocks and factors: `[block_scales.*]` of the target. Factors that are not contiguous along the blocks,
or of whose rows one begins at no multiple of four, are laid out by a program before (`synth.cut.laid_out`); past the
end of a row zeros are copied, which scale zeros. Not handled, and refused at the author's line: such factors of extents
that only a launch knows. Checked by:
tests/synth/cascade/sums/test_tensor_factors.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.base.element import Element
from tilewright.ir.block_factors import SHARED_BY, BlockFactors, block_factors
from tilewright.ir.cascade import SlotDecision
from tilewright.ir.cascade_facts import (
    CascadeAxes,
    Product,
    axis_of,
    first_alike,
    load_number,
    map_dimensions,
    refuse_at,
    refuse_map,
)
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import parameter_name
from tilewright.ir.tile.operations import DotOp
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


def tensor_factors(product: Product, target: Target) -> BlockFactors | None:
    """The factors of a product that the target's tensor core takes; None where there are none."""
    if not target.supports("block_scales"):
        return None
    found = block_factors(product)
    if found is None or product.widened:
        return None
    row = SHARED_BY.get((product.element, found.element))
    return found if row and found.block * _numbers(product.element) == target.limit(f"block_scales.{row}") else None


def _numbers(element: Element) -> int:
    """In an element."""
    return 2 if element.is_pair else 1


def refuse_pairs(program: tile.ProgramOp, target: Target, products: Sequence[Product] = ()) -> None:
    """Raise TilewrightError at the author's line for a product of 4-bit numbers that no tensor core takes: of any on a
    target that has no factors, else of the walk's products."""
    what = f"a product of {Element.F4E2M1X2.value}"
    if not target.supports("block_scales"):
        for op in program.walk():
            if isinstance(op, DotOp | ContractOp) and value_type(op.left).element_kind.is_pair:
                remedy = "give operands of f8e4m3, which has all of these numbers"
                refuse_at(op, f"{what}, which {target.name} does not multiply", remedy)
        return
    for each in products:
        if each.element.is_pair and tensor_factors(each, target) is None:
            numbers = _numbers(Element.F4E2M1X2)
            coarse, fine = (target.limit(f"block_scales.{row}") // numbers for row in ("f4_block", "f4_fine_block"))
            axis = each.op.axis.data
            remedy = f"scale both operands by ue8m0 factors of {coarse} bytes along {axis}, or ue4m3 ones of {fine}"
            refuse_at(each.op, f"{what} without factors of blocks that the tensor core takes", remedy)


def loads_of_factors(program: tile.ProgramOp, products: Sequence[Product], target: Target) -> tuple[tile.LoadOp, ...]:
    """The loads behind factors that the tensor core takes, of those that are alike the first."""
    found = (tensor_factors(each, target) for each in products)
    return tuple(dict.fromkeys(first_alike(program, load) for each in found if each is not None for load in each.loads))


def scaling_remedy(step: int, target: Target) -> str:
    """What a program should do of which blocks scale a product otherwise. step: elements that a block must have a
    multiple of for threads to scale sums."""
    remedy = f"use blocks of a multiple of {step} elements"
    if not target.supports("block_scales"):
        return remedy
    return (
        f"{remedy}, or scale both 8-bit operands by ue8m0 factors of {target.limit('block_scales.f8_block')} elements"
    )


def factor_slot(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    load: tile.LoadOp,
    extents: tuple[int, int],
    count: int,
    wanted: Wanted,
    target: Target,
) -> SlotDecision:
    """The slot of a load of factors. extents: rows or columns of a tile, and blocks in a slot."""
    name, found = parameter_name(program, load.tensor), map_dimensions(load, axes)
    inner = "" if found is None else axis_of(found.inner.where)
    blocks = next(axis for axis in tensor_type(load.tensor).axis_names if base_axis(axis) == axes.streamed)
    if found is None or inner != blocks:
        refuse_map(
            load, name, f"factors of {name} are not contiguous along {blocks}", f"make {blocks} the array's last axis",
            blocks,
        )  # fmt: skip
    if axes.pitch:
        refuse_at(
            load, f"factors of {name}, whose groups stand apart", "let groups of rows follow one another, by tw.group"
        )
    rows, together = extents
    apart = [each.stride for each in (found.outer, *found.further)]
    piece = target.limit("block_scales.column_factors")
    if name in wanted.misaligned or any(each % piece for each in apart):
        crooked = "begins" if name in wanted.misaligned else f"has rows of {found.inner.extent} factors, which begin"
        refuse_map(
            load, name, f"{name} {crooked} at no multiple of {piece} bytes, of which threads copy each {piece}",
            f"give it rows that begin at multiples of {piece} factors, as padded ones do, or an axis of a multiple of "
            f"{piece * block_size(blocks)} elements",
            blocks,
        )  # fmt: skip
    unit = target.limit("block_scales.copied_rows")
    whole = -(-rows // unit) * unit
    return SlotDecision(
        load_number(program, load), name, tensor_type(load.tensor).element_kind.value, 1, inner,
        axis_of(found.outer.where), tuple(axis_of(each.where) for each in found.further), together, whole, count, 0,
        (found.inner.extent, found.outer.extent, *(each.extent for each in found.further)),
        tuple(each.stride for each in (found.outer, *found.further)),
        (together, whole, *([1] * len(found.further))), swizzle="none", l2_promotion="none", piece_bytes=piece,
        factors=1,
    )  # fmt: skip


def factor_words(slots: Sequence[SlotDecision], columns: int) -> tuple[str, ...]:
    """Of factors that the tensor core takes, as a reason of a decision. columns: of tensor memory, for all of them."""
    taken = [each for each in slots if each.factors]
    if not taken:
        return ()
    *others, last = (each.buffer for each in taken)
    sizes = " and ".join(dict.fromkeys(str(block_size(each.inner)) for each in taken))
    words = f"the tensor core takes {', '.join(others)} and {last}, factors of {sizes} elements"
    return (f"{words}, out of {columns} columns of tensor memory",)
