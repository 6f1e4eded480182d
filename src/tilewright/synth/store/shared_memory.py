"""How shared memory is divided among the ring's slots, the staging of results, and barriers.

Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.ir.ac.split import sum_parts
from tilewright.ir.decisions import ROWS_BYTES, StoreDecision
from tilewright.synth.distribution.split import meeting_bytes
from tilewright.synth.operand.async_plan import stores_under_way
from tilewright.synth.store.spill_slots import spill_bytes
from tilewright.synth.tile.shape import TileShape
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_MOST_STAGES = 32
_ENOUGH_STAGES = 4
"""A second staging slot is given up rather than run with fewer, where no schedule says how many are needed."""
_MOST_SLOTS = 4
_RESERVED_BYTES = 16
"""For the barriers of turns."""
_LEAST_STAGES = 2
"""A slot is released one slice late, so with a single slot the producer would wait forever."""


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """How shared memory is divided. staging_slots, rows_bytes: of each consumer; bytes: of everything, barriers
    included."""

    stages: int
    staging_slots: int
    staging_slot_bytes: int
    rows_bytes: int
    bytes: int


def divide_shared_memory(
    shape: TileShape,
    slot_bytes: int,
    stores: tuple[StoreDecision, ...],
    target: Target,
    wanted: Wanted,
    reasons: list[str],
    enough_stages: int = _ENOUGH_STAGES,
    most_stages: int = _MOST_STAGES,
    *,
    along_rows: bool = False,
) -> SharedMemory:
    """As many stages as fit beside the staging slots, at most `most_stages`, which are all that a schedule has a use
    for; a second staging slot gives way to stages up to `enough_stages`.

    slot_bytes: of one slot of both operands. along_rows: whether threads store a result besides those of `stores`.
    """
    tile_n, consumers = shape.columns // sum_parts(shape.columns, shape.split), shape.consumers
    meeting = meeting_bytes(shape, target) + spill_bytes(consumers, target, wanted, reasons)
    share = target.limit("multiprocessor.shared_bytes") // shape.resident - target.limit("cta.shared_reserved_bytes")
    limit = min(target.limit("cta.shared_bytes_max"), share) - meeting
    barrier_bytes = 2 * target.limit("mbarrier.bytes")
    staging_bytes_each = max((store.staged_bytes for store in stores), default=0)
    # Slots are used in turn, and the turn must come out even at the end of a tile: otherwise the next tile begins with
    # a slot whose store is the newest, which a wait for all but the newest does not cover.
    chunks = sum(len(store.boxes(shape.rows // consumers, tile_n)) for store in stores)
    choices = [count for count in (2, 1) if chunks % count == 0] if stores else [0]
    rows_bytes = ROWS_BYTES if along_rows else 0
    slots, stages = 0, 0
    for slots in choices:
        left = limit - (slots * staging_bytes_each + rows_bytes) * consumers
        stages = min(_MOST_STAGES, left // (slot_bytes + barrier_bytes))
        if stages >= enough_stages:
            break
    fitting = stages
    if wanted.stages is None:
        stages = min(stages, most_stages)
    if stores and enough_stages > _MOST_STAGES:
        # What is left over beside the stages holds further slots: an epilogue that waits for each of its stores to be
        # read before it writes on takes longer than a short product that should hide it.
        left = limit - _RESERVED_BYTES - rows_bytes * consumers - stages * (slot_bytes + barrier_bytes)
        most = min(_MOST_SLOTS, chunks, left // (staging_bytes_each * consumers))
        slots = max(range(1, most + 1), key=lambda count: (stores_under_way(chunks, count), -count), default=slots)
    if wanted.stages is not None:
        if not _LEAST_STAGES <= wanted.stages <= fitting:
            raise TilewrightError(
                f"{wanted.stages} stages of {slot_bytes} bytes do not make a pipeline",
                remedy=f"use {_LEAST_STAGES} to {fitting} stages",
            )
        stages = wanted.stages
    if stages < _LEAST_STAGES:
        raise TilewrightError(
            f"tiles of {shape.rows}x{shape.columns} in slices of {shape.depth} leave room for {max(0, stages)} stages",
            remedy=f"a pipeline has {_LEAST_STAGES} at the least: use a smaller tile, thinner slices, or one CTA on a "
            "multiprocessor",
        )
    staging_bytes = (slots * staging_bytes_each + rows_bytes) * consumers
    few = (
        f" (of {fitting} that fit: the schedule has no use for more)"
        if wanted.stages is None and stages < fitting
        else ""
    )
    reasons.append(
        f"{stages} stages of {slot_bytes} bytes and {staging_bytes} bytes of staging in {limit} bytes of shared memory"
        f"{few}"
    )
    return SharedMemory(
        stages, slots, staging_bytes_each, rows_bytes, (slot_bytes + barrier_bytes) * stages + staging_bytes + meeting
    )
