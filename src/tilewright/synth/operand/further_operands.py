"""How the operands of further products are loaded, which stand behind the first product's in each slot.

The tensor core reads all of a slot's B as one matrix, so they are laid out alike: the same axis contiguous, the same
boxes. Checked by: tests/lower/test_dual.py, and by `contract`, which adds up where every copy's bytes go.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.ir.decisions import OperandDecision
from tilewright.ir.tile.products import SharedProducts
from tilewright.synth.operand.operands import Site, decide_operand


def further_operands(
    site: Site,
    products: SharedProducts,
    first: OperandDecision,
    columns: str,
    contracted: str,
    part: tuple[int, int],
) -> tuple[OperandDecision, ...]:
    """The operands of all products but the first on the side that they do not share. first: the first product's.

    part: elements of the columns' axis and of the contracted one that one CTA loads into a slot. Raises TilewrightError
    for operands that lie in memory in different ways.
    """
    if len(products.products) > 1 and first.loaded_extent(part[0]) != part[0]:
        raise TilewrightError(
            f"tiles of {part[0]} columns of {first.buffer} are loaded in boxes of {first.map.box[0]}, so that others "
            "cannot stand behind them",
            remedy=f"use a tile of a multiple of {first.map.box[0]} columns",
        )
    side = "right" if products.shared == "left" else "left"
    found: list[OperandDecision] = []
    for number in range(1, len(products.products)):
        value = products.operand(side, number)
        operand = decide_operand(site, (side, value, columns), contracted, *part)
        if operand.materialized:
            operand = replace(operand, buffer=f"{operand.buffer}_{number}")
        if operand.major != first.major:
            raise TilewrightError(
                f"the operands of {len(products.products)} products lie in memory in different ways: "
                f"{contracted} is contiguous in one of {first.buffer} and {operand.buffer}, {columns} in the other",
                remedy="store them alike, or compute one product in a kernel of its own",
            )
        found.append(operand)
    return tuple(found)
