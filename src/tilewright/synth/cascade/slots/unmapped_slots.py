"""Do threads copy what no tensor map brings into a walk's slots, or does a kernel before? Which tiles are weighed?

Copied first: the array is read and written once more before the product begins. By threads: every slice of every tile
costs an instruction of a warp for each 32 pieces, which is hidden only as far as the slice takes as long to multiply
(`synth.cost.time_model`). So tiles are weighed that ask for few pieces: those that the product would have otherwise,
and the largest two, long along either side. The estimated times of all kernels decide (`driver.compile.sequence`).

What threads copy comes through the L1 cache, which is what shared memory leaves of one memory, and which bounds the
bytes on their way. So kernels that copy so take the second largest division of that memory, by fewer stages, unless few
would be left and the cache that remains holds what a slot needs. On an H200, all else alike, fewer stages were faster
with one operand so and few rows, or with both; with one of many rows the most stages were (`python -m bench unmapped`
compares numbers of stages).

Not handled: what `synth.cascade.slots.slot_pieces` cannot give threads. Checked by:
tests/synth/cascade/slots/test_slot_pieces.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile import operations as tile
from tilewright.synth.cascade.slots.slot_pieces import by_threads, has_pieces
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_LARGE_TILES = ((128, 256), (256, 128))
_LEAST_STAGES = 2
_FEW_STAGES = 4
_PASS_MICROSECONDS = 2.0
"""What a kernel before takes besides its bytes: it begins and ends, and the product waits for it."""
_PASS_SHARE = 0.75
"""Of the memory's rate, what it reads and writes at: by hand to the times of `python -m bench unmapped`, of few rows
and of small products; beside large products the pass takes up to twice as long."""


def copied_by_threads(program: tile.ProgramOp, wanted: Wanted, target: Target) -> Iterator[Wanted]:
    """Overrides for kernels whose threads copy what no tensor map brings; none where they can copy nothing."""
    if not has_pieces(program, target):
        return
    yield replace(wanted, unmapped="threads")
    if wanted.tile is None:
        for tile in _LARGE_TILES:
            yield replace(wanted, unmapped="threads", tile=tile)


def pass_microseconds(size_bytes: int, target: Target) -> float:
    """Of a kernel that copies so many bytes before a product; 0 where there is nothing to copy."""
    if not size_bytes:
        return 0.0
    rate = target.limit("device.dram_bytes_per_second") * _PASS_SHARE
    return _PASS_MICROSECONDS + 2e6 * size_bytes / rate


def with_room(d: CascadeDecisions, wanted: Wanted, target: Target) -> Wanted | None:
    """Overrides for the same kernel with so few stages that the L1 cache has room for what threads copy; None where it
    has as many stages as it should."""
    *_, second, largest = target.limits("multiprocessor.shared_divisions_bytes")
    most = second - target.limit("cta.shared_reserved_bytes")
    copied = by_threads(d.slots)
    if not copied or wanted.stages is not None or d.smem_bytes <= most:
        return None
    stages, of_stage = d.slots[0].slots, sum(slot.slot_bytes for slot in d.slots)
    too_many = -(-(d.smem_bytes - most) // of_stage)
    cache = target.limit("multiprocessor.shared_and_l1_bytes") - largest
    if stages - too_many < _FEW_STAGES and sum(slot.slot_bytes for slot in copied) <= cache:
        return None
    # With the number of stages fixed another tile might be chosen, into whose memory so many do not fit.
    return replace(
        wanted, tile=(d.tile_rows, d.tile_columns), turns=bool(d.turns), steps=d.steps,
        stages=max(_LEAST_STAGES, stages - too_many),
    )  # fmt: skip
