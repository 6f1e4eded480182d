"""May two CTAs compute tiles as a pair, and of how many columns?

A pair multiplies 256 rows at once: each CTA brings its own 128 rows, and half of the columns of the other operand,
which the tensor core of both reads. So a CTA fetches less for as many products, and has room for more slots. The price
is that rows come in twos of tiles, of which the last may lie past the end, and that columns come in larger steps. Which
is quicker, `sum_time` says: pairs are candidates beside tiles of single CTAs.

A column's half begins where the CTA's rank says, so that no table may say where it lies. Not handled: rows in groups,
tiles of 64 rows. Checked by: tests/synth/cascade/sums/test_pairs.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.cascade import SlotDecision
from tilewright.ir.cascade_facts import CascadeAxes, refuse_at
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.facts import grouping
from tilewright.synth.cascade.sums.tensor_columns import slot_sums
from tilewright.synth.cascade.sums.tensor_factors import loads_of_factors
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

CLUSTER = (2, 1)
"""CTAs along rows and columns."""
_CONSUMERS = 2
"""Of a CTA: their rows fill the lanes of tensor memory."""


def pair_columns(
    program: tile.ProgramOp, axes: CascadeAxes, consumers: int, columns: int, target: Target, wanted: Wanted
) -> tuple[int, ...]:
    """Of a pair's tile in the place of one CTA's of so many columns; none where there can be no pair."""
    if no_pairs(program, axes, target) or consumers != _CONSUMERS or wanted.cluster not in (None, CLUSTER):
        return ()
    step = target.limit("tcgen05.n_step_two_ctas")
    if wanted.tile is not None and columns % step:
        return ()
    found = -(-columns // step) * step
    return (found,) if found <= target.limit("product.columns_max") else ()


def no_pairs(program: tile.ProgramOp, axes: CascadeAxes, target: Target) -> str:
    """Why no tile of a program is computed by a pair, whatever its size, in words; "" where some may be."""
    if not target.supports("tensor_memory") or not target.supports("cta_pairs"):
        return f"{target.name} has none"
    if grouping(program) is not None:
        return "tiles of rows in groups are dealt out to single CTAs"
    if not slot_sums(program, target):
        return "consumers issue some of the products, and those of a pair are issued by one role of its first CTA"
    if loads_of_factors(program, slot_sums(program, target), target):
        return "factors of blocks are copied for the CTA that multiplies with them"
    if not axes.column:
        return "the result has no columns, of which each CTA could bring half"
    if target.limit("device.multiprocessors") < CLUSTER[0]:
        return f"{target.name} has one multiprocessor"
    step = target.limit("tcgen05.n_step_two_ctas")
    uneven = [axis for axis in axes.further if program.extents[axis] % step]
    return f"columns along {uneven[0]} are no multiple of {step}" if uneven else ""


def refuse_other_clusters(
    program: tile.ProgramOp, axes: CascadeAxes, target: Target, wanted: Wanted, *, pairs: bool
) -> None:
    """Raise TilewrightError for a cluster that is asked for and that no tile has. pairs: whether some may be pairs."""
    if (
        wanted.cluster in (None, (1, 1))
        or not target.supports("tensor_memory")
        or (wanted.cluster == CLUSTER and pairs)
    ):
        return
    rows, columns = wanted.cluster
    reason = no_pairs(program, axes, target) or "a pair has tiles of 128 rows, whose columns come in steps of 32"
    refuse_at(
        program,
        f"no cluster of {rows}x{columns} CTAs: {reason if wanted.cluster == CLUSTER else 'pairs are 2x1'}",
        "leave the cluster to the compiler",
    )


def obstacle(axes: CascadeAxes, slots: Sequence[SlotDecision]) -> str:
    """What of a pair's slots is not brought by halves, in words; "" if all is."""
    for slot in slots:
        places = {base_axis(axis) for axis in slot.batch if axis} & set(axes.columns)
        if slot.halved and (slot.lookups or slot.page or places):
            return f"columns of {slot.buffer} that lie where tables or blocks say, by halves"
    return ""
