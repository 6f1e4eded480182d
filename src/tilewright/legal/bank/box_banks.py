"""How many wavefronts does reading a loaded box take, where one would do?

A box in shared memory is rows at one pitch, swizzled (`loaded_tile`). Three ways to read it:

    ldmatrix         eight consecutive rows, 16 bytes of each at one place; one wavefront if they fall into the eight
                     groups of four banks
    column           32 consecutive rows, one element of each at one place, by the lanes of a warp
    wgmma, tcgen05   core matrices of 8 rows of 16 bytes, which the canonical layouts spread over all banks

The answer is the worst over all places and all aligned groups of rows of the box, divided by what the access takes at
best: 1 is free of conflicts. Theory: `banks`, which was measured; that matrix instructions read canonical layouts
without conflicts is the vendor's claim (PTX ISA, wgmma: Shared memory matrix layout) and follows for each core matrix.

Not handled: other accesses (see `banks`), boxes that `loaded_tile` does not judge.
Checked by tests/legal/bank/test_box_banks.py.
"""

from __future__ import annotations

from math import lcm
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.legal.bank.banks import load_wavefronts, matrix_wavefronts
from tilewright.legal.descriptor.shared_operand import CHUNK_BYTES, depth_step, instruction_of, major_problem
from tilewright.legal.tensor_map.im2col_map import Im2colMap
from tilewright.legal.tensor_map.loaded_tile import Tile, tile_of
from tilewright.legal.tensor_map.swizzle_code import period_bytes, swizzled
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.targets import Target

BoxConsumer = Literal["ldmatrix", "column", "wgmma", "tcgen05"]


def bank_conflict_ways(map: TensorMap | Im2colMap, consumer: BoxConsumer, target: Target) -> int:
    """Wavefronts of the worst read of one box of `map` over those of the best one; 1 where nothing conflicts.

    The destination is taken to be aligned to the swizzle's period. Raises TilewrightError for maps that are not judged,
    an unknown consumer, and a box that the matrix instruction does not read.
    """
    if consumer not in get_args(BoxConsumer):
        raise TilewrightError(f"no model of {consumer!r} reading a box", remedy=f"one of {get_args(BoxConsumer)}")
    tile = tile_of(map, target, (0,))
    if consumer in ("wgmma", "tcgen05"):
        return _matrix_instruction_ways(tile, consumer, target)
    return _ldmatrix_ways(tile, target) if consumer == "ldmatrix" else _column_ways(tile, target)


def _matrix_instruction_ways(tile: Tile, consumer: Literal["wgmma", "tcgen05"], target: Target) -> int:
    if consumer != instruction_of(target):
        raise TilewrightError(f"{target.name} has no {consumer}")
    inner_bytes = tile.inner_bytes
    problems = [major_problem(tile.swizzle, major, tile.element_bytes, target) for major in ("K", "MN")]
    if all(problems):
        raise TilewrightError(f"{consumer} does not read the box: {problems[0]}")
    whole = depth_step(1, target) if tile.swizzle != "none" else CHUNK_BYTES
    if inner_bytes % whole or (tile.swizzle == "none" and inner_bytes != whole):
        raise TilewrightError(
            f"{consumer} does not read rows of {inner_bytes} bytes with swizzle {tile.swizzle}",
            remedy=f"load multiples of {depth_step(1, target)} bytes swizzled, or chunks of {CHUNK_BYTES} bytes",
        )
    return 1


def _ldmatrix_ways(tile: Tile, target: Target) -> int:
    together = target.limit("matrix_access.rows")
    row_bytes = target.limit("matrix_access.row_bytes")
    inner_bytes = tile.inner_bytes
    if inner_bytes % row_bytes:
        raise TilewrightError(f"ldmatrix reads rows of {row_bytes} bytes; the box's have {inner_bytes}")
    worst = 1
    for starts in _groups(tile, together, target):
        for place in range(0, inner_bytes, row_bytes):
            found = _placed(starts + place, tile, target)
            found += found[:1] * (together - len(found))
            worst = max(worst, matrix_wavefronts(found, target))
    return worst


def _column_ways(tile: Tile, target: Target) -> int:
    lanes = target.limit("warp.threads")
    lane_bytes = max(target.limit("multiprocessor.shared_bank_bytes"), tile.element_bytes)
    best = lane_bytes // target.limit("multiprocessor.shared_bank_bytes")
    worst = 1
    for starts in _groups(tile, lanes, target):
        for place in range(0, tile.inner_bytes, lane_bytes):
            # Lanes of an element narrower than a bank ask for the word around it.
            found = _placed(starts + place, tile, target)
            found += found[:1] * (lanes - len(found))
            worst = max(worst, load_wavefronts(found, lane_bytes, target) // best)
    return worst


def _groups(tile: Tile, together: int, target: Target) -> list[NDArray[np.int64]]:
    """Addresses, not yet swizzled, of each aligned group of rows, until the pattern repeats or the box ends."""
    sliced = len(tile.counts) - 1 > tile.boxes
    pitch = tile.distances_bytes[0 if sliced else 1] if tile.boxes > 1 else tile.box_bytes
    assert pitch is not None, "only boxes stand at irregular places"
    rows = tile.box_bytes // pitch
    repeats = lcm(together * pitch, period_bytes(tile.swizzle, target), 128) // (together * pitch)
    starts = np.arange(min(rows, together * repeats), dtype=np.int64) * pitch
    return [starts[begin : begin + together] for begin in range(0, len(starts), together)]


def _placed(addresses: NDArray[np.int64], tile: Tile, target: Target) -> list[int]:
    return swizzled(addresses, tile.swizzle, target).tolist()
