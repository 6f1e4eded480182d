"""Does a walk that only sums a product compute one operand of it in registers, slot by slot?

So it does where that takes less time than a workspace (`synth.operand.register_operand`, whose models these are) and
where the tile allows it: whole slots along the walked axis, registers enough, and a tensor map that brings the rows
that the operand is computed of. Otherwise a program before stores the operand, as `ComputedBefore` says; where none
can, the walk computes it as any other value (`lower.cascade.consumer`).

Not handled: products of rows in groups, and of batches. Checked by: tests/synth/cascade/sums/test_register_sum.py, and
by `contract` on the lowered kernel.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.error import TilewrightError
from tilewright.ir.cascade_facts import CascadeAxes, Product, cascade_axes, computed_sum, first_alike
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name
from tilewright.ir.tile.gather import read_tensor
from tilewright.synth.cascade.slots.slot_maps import obstacles
from tilewright.synth.cascade.sums.sum_tile import choose_sum_tile, lies_along_rows
from tilewright.synth.cost.model import rates_of
from tilewright.synth.operand.register_operand import Side, no_fit, not_after_all, raw_load, wants_registers
from tilewright.synth.store.register_budget import register_budget
from tilewright.synth.tile.accumulation import level_depth, require_promotable
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


class ComputedBefore(TilewrightError):
    """An operand is better computed by a program of its own; `programs` are that one, and the one that loads it."""

    def __init__(self, programs: tuple[ModuleOp, ModuleOp], reason: str) -> None:
        super().__init__(
            f"an operand is computed by a kernel before: {reason}", remedy="compile it as a sequence of kernels"
        )
        self.programs = programs
        self.reason = reason


def sum_in_registers(
    program: tile.ProgramOp, target: Target, wanted: Wanted, reasons: list[str]
) -> tuple[Product, ...]:
    """The product of a walk that only sums it, an operand of which is to be computed in registers; none of any other
    walk. Raises TilewrightError where registers are wished for and cannot be had."""
    found = () if target.supports("tensor_memory") else computed_sum(program)
    axes = cascade_axes(program)
    if not found or axes.group:
        return ()
    (product,) = found
    promoted = level_depth(product.element_bytes, program.extents[axes.streamed], wanted)
    require_promotable(promoted, wanted)
    if promoted:
        return ()
    side, batch, rates = _side(program, axes, product), ", ".join(axes.batch), rates_of(target, product.element_bytes)
    if not wants_registers(program, (side,), axes.streamed, batch, rates, target, wanted, reasons):
        return ()
    chosen = choose_sum_tile(program, axes, found, target, wanted, [])
    shape, raw = chosen.tile.shape, first_alike(program, raw_load(product.held))
    _, _, registers = register_budget(shape.consumers, target, shape.resident)
    why = no_fit(program, product.held, axes.streamed, shape, registers)
    why = why or "; ".join(obstacles(program, axes, raw, chosen.of_slots, target))
    name = parameter_name(program, read_tensor(raw.tensor))
    if not why and name in wanted.misaligned:
        why = f"{name} begins at no multiple of 16 bytes"
    if why:
        reasons.append(not_after_all(side.name, why, wanted))
        return ()
    return found


def _side(program: tile.ProgramOp, axes: CascadeAxes, product: Product) -> Side:
    """The operand that is computed, which has the rows of the walk's tiles."""
    name = "left" if product.op.left is product.held else "right"
    return Side(name, product.held, axes.row, axes.column, lies_along_rows(program, axes))
