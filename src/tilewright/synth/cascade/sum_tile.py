"""Which tile does a program take whose only walk sums the products of what it brings?

Such a program is a product with an epilogue, so it is put to the models that choose tiles of products: shared by
consumers or taken in turn, of any columns (`synth.tile.shape`, `synth.distribution.turns`). So is the question how
shared memory is divided among slots and staging (`synth.store.shared_memory`).

Not handled: transposed products, sums that CTAs share, pairs of CTAs. Checked by: tests/synth/cascade/test_sum_tile.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tilewright.ir.cascade_facts import CascadeAxes, Product
from tilewright.ir.copy_decisions import StoreDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import stores
from tilewright.ir.tile.types import tensor_type
from tilewright.synth.cascade.boxed_store import boxed_results
from tilewright.synth.cost.model import raster_group, rates_of
from tilewright.synth.cost.tile_estimate import turn_row
from tilewright.synth.distribution.turns import EVERY_STAGE, LargeTile, choose_turns, unit_shape, with_turns
from tilewright.synth.operand.operands import loaded_step
from tilewright.synth.store.shared_memory import SharedMemory, divide_shared_memory
from tilewright.synth.store.store_chunks import staged_row
from tilewright.synth.tile.shape import TileQuestion, choose_tile_shape
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_ENOUGH_STAGES = 4


@dataclass(frozen=True, slots=True)
class SumTile:
    """tile: its shape, and whether consumers take whole ones in turn; stores: results that leave in boxes; group: tiles
    of rows in a band of the order of tiles."""

    tile: LargeTile
    stores: tuple[StoreDecision, ...]
    memory: SharedMemory
    group: int

    @property
    def unit_rows(self) -> int:
        """Of a consumer."""
        return unit_shape(self.tile.shape, self.tile.turns).rows // self.tile.shape.consumers


def choose_sum_tile(
    program: tile.ProgramOp, axes: CascadeAxes, product: Product, target: Target, wanted: Wanted, reasons: list[str]
) -> SumTile:
    """Raises TilewrightError for a wish that no tile grants."""
    widths = [tensor_type(store.tensor).element_kind.bytes for store in stores(program)]
    element_bytes = tensor_type(product.brought.tensor).element_kind.bytes
    rates, streamed = rates_of(target, element_bytes), axes.streamed
    question = TileQuestion(
        (program.extents[axes.row], program.extents[axes.column], program.extents[streamed]),
        element_bytes,
        sum(widths),
        (False,),
        (loaded_step(product.held, streamed, target), loaded_step(product.brought.result, streamed, target)),
        batch=math.prod(program.extents[axis] for axis in axes.batch),
    )
    asked = replace(wanted, stream_k=False)
    shape = choose_tile_shape(rates, question, target, asked, reasons)
    large = choose_turns(rates, question, shape, target, asked, reasons, {})
    shape = large.shape
    columns = -(-shape.columns // question.loaded_steps[1]) * question.loaded_steps[1]
    slot_bytes = (shape.rows + columns) * shape.depth * element_bytes
    row = turn_row(shape.columns, widths, slot_bytes, target) if large.turns else staged_row(shape.columns, widths)
    unit = unit_shape(shape, large.turns)
    leaving = boxed_results(program, axes, unit.rows // shape.consumers, row, target, wanted)
    # The second ring's barriers are counted with the slots.
    barriers = 2 * target.limit("mbarrier.bytes")
    enough = EVERY_STAGE if large.turns else _ENOUGH_STAGES
    by_threads = len(leaving) < len(widths)
    memory = divide_shared_memory(
        unit, slot_bytes + barriers, leaving, target, wanted, reasons, enough, along_rows=by_threads
    )
    memory = with_turns(memory, large.turns, target)
    tiles = math.ceil(question.extents[0] / shape.rows)
    return SumTile(large, leaving, memory, min(raster_group(rates, shape.rows, shape.columns), tiles))
