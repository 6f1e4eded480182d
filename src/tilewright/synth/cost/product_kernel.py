"""What of a decided product's kernel decides how long it takes? It is a walk that only sums.

Everything is in the accumulator's orientation. Checked by: tests/synth/cost/test_time_model.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard

from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.copy_decisions import StoreDecision
from tilewright.ir.decisions import Decisions


@dataclass(frozen=True, slots=True)
class ProductKernel:
    """rows, columns, depth: elements; rows of all matrices of a batch; products: with the rows' operand in common;
    compulsory_bytes: of every array once. tile_rows, tile_columns, tile_depth: of a tile of each product, and of a
    slot; tiles: of all products of a batch; slot_bytes: of one CTA's slot; part_columns: of a tile, that one CTA
    stores; stored_bytes: of each element of the results; in_boxes: whether all of them leave in bulk. streamed: tiles
    that are cut, of whose slices another CTA takes head_slices. computed: whether an operand is computed in
    registers."""

    rows: int
    columns: int
    depth: int
    products: int
    element_bytes: int
    stored_bytes: int
    compulsory_bytes: int
    tile_rows: int
    tile_columns: int
    tile_depth: int
    tiles: int
    slot_bytes: int
    part_columns: int
    in_boxes: bool
    stages: int
    consumers: int
    turns: bool
    split: int
    teams: int
    streamed: int
    head_slices: int
    release_distance: int
    computed: bool
    raster_group: int
    ctas: int
    smem_bytes: int
    launch_registers: int

    @property
    def shares(self) -> int:
        """CTAs that have slices of a tile."""
        return self.split * self.teams

    @property
    def multiplied(self) -> int:
        """Columns of all accumulators of a tile."""
        return self.products * self.tile_columns

    @property
    def input_bytes(self) -> int:
        """Of the operands, but for the columns' of further matrices of a batch."""
        return (self.rows + self.columns * self.products) * self.depth * self.element_bytes

    @property
    def fetched_bytes(self) -> int:
        """That all CTAs together fetch from the L2 cache for the product."""
        slices = math.ceil(self.depth / (self.tile_depth * self.shares))
        return self.tiles * self.shares * slices * self.slot_bytes


def is_summed(decisions: Decisions) -> TypeGuard[CascadeDecisions]:
    """Whether the decisions are those of a product of whole matrices with an epilogue, whose sums are in registers."""
    if not isinstance(decisions, CascadeDecisions):
        return False
    alone = any(slot.joined for slot in decisions.slots)
    return alone and not (decisions.grouping or decisions.tensor_columns)


def in_two_levels(decisions: CascadeDecisions) -> bool:
    """Whether threads add up products of slots, which takes time that no model has."""
    return bool(decisions.partials)


def product_kernel(
    d: CascadeDecisions, extents: tuple[int, int, int], stored_bytes: int | None = None
) -> ProductKernel:
    """Of a product of (rows, columns, contracted) elements as the program has them, swapped or not. stored_bytes: of
    each element of the results, where not all of them have maps."""
    rows, columns, depth = extents
    first, *others = (slot for slot in d.slots if slot.among == 1 or slot.which == 0)
    products, element_bytes = others[0].among, first.element_bytes
    batch = math.prod(first.dims[2:])
    stored = _stored_bytes(d.stores) if stored_bytes is None else stored_bytes
    cut = d.stream
    return ProductKernel(
        rows * batch, columns, depth, products, element_bytes, stored,
        batch * ((rows + products * columns) * depth * element_bytes + rows * columns * stored), d.tile_rows,
        d.tile_columns, d.tile_streamed, math.ceil(rows / d.tile_rows) * math.ceil(columns / d.tile_columns) * batch,
        sum(slot.slot_bytes for slot in d.slots), d.split_sum.part_step, _stored_bytes(d.stores) == stored,
        first.slots, d.consumers, bool(d.turns), d.split, d.teams, cut.tiles if cut else 0,
        cut.head_slices if cut else 0, d.release_distance, bool(d.computed), d.raster_group, d.ctas, d.smem_bytes,
        d.launch_registers,
    )  # fmt: skip


def _stored_bytes(stores: tuple[StoreDecision, ...]) -> int:
    return sum(store.map.tensor_map().element.bytes for store in stores)
