"""What the units of a consumer share beside the rings of slots. Checked by: tests/lower/cascade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from tilewright.ir.placed_program import Exchange
from tilewright.ir.tile import operations as tile
from tilewright.lower.cascade.slots import Ring
from tilewright.lower.distribution.split_product import Meeting
from tilewright.lower.distribution.stream_product import PartialSums


@dataclass(frozen=True, slots=True)
class Shared:
    """rows: room for stores along rows; columns: for numbers of the
    streamed columns; staging: slots of results that leave in boxes; turns: barriers by which two units take tiles in
    turn; memory: tensor memory, where accumulators stand there; partials: arrays of partial sums of tiles that several
    CTAs walk; meeting: where the CTAs of a cluster add up what each has of a sum. None: not needed."""

    rows: SSAValue | None
    columns: SSAValue | None
    staging: SSAValue | None
    turns: SSAValue | None
    memory: SSAValue | None
    partials: PartialSums | None = None
    meeting: Meeting | None = None
    rooms: dict[tile.LoadOp, Ring] = field(default_factory=dict[tile.LoadOp, Ring])
    """Of what consumers make of a load, as if rings guarded them."""
    exchanges: Mapping[SSAValue, tuple[Exchange, ...]] = field(default_factory=dict[SSAValue, tuple[Exchange, ...]])
    """Of a walk's sums, of which several CTAs have a contribution each."""
