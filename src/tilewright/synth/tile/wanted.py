"""Choices about a program that are fixed from outside; the synthesiser makes the others.

Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilewright.ir.schedule import Method
from tilewright.ir.tile.order import TileOrder


@dataclass(frozen=True, slots=True)
class Wanted:
    """Choices fixed from outside (by a user or a tuner); None leaves one to the synthesiser.

    tile: rows and columns of the accumulator's tile. consumers: warpgroups that share its rows. depth: elements of the
    contracted axis in one stage. swapped: whether the accumulator holds the transposed product. split: CTAs that share
    the contracted axis of a tile. resident: CTAs that fit a multiprocessor together. prefetch: slices that are asked
    for before the kernel before has ended. misaligned: parameters whose arrays do not begin at a multiple of 16 bytes,
    which no tensor map can describe. mapped: parameters that must be reached by tensor maps of their own. programmatic:
    whether the kernel is launched while the one before it still runs, and waits for it itself. turns: whether two
    consumers alternate whole tiles. schedule: how the loop over the contracted axis is scheduled. computed: where an
    operand that is computed elementwise is computed. release_distance: products issued after a slot's own before it is
    released. tile_order: in which order tiles are taken; tile_group: the tiles along m of a band of that order.
    spill_slots: registers of a consumer's thread that may wait in shared memory. unmapped: how an operand that no
    tensor map describes is brought. aligned: of misaligned parameters, bytes of whose multiples one is their address,
    where that is more than an element. accumulation: "precise" if sums are kept in float32, in two levels where the
    tensor core keeps fewer bits (see `synth.tile.accumulation`); "fast" if by the tensor core alone.
    teams: clusters that share the contracted axis of a tile and add up through memory.
    stream_k: whether the first slices of tiles left over after whole waves are multiplied by the CTAs that own none.
    ordered: whether consumers of walks that compute between products may issue them one after the other.
    skips_ones: whether warps pass over corrections of a walk's sums where all factors are 1; late_sums: whether the
    threads of a row add up their parts of a carried sum behind the walk.
    cut: whether the program is cut into several kernels that hand values over in a workspace.
    row_threads: of a CTA that takes a row, where programs fold rows; row_ctas: of a cluster that shares a row;
    row_kept: whether rows wait in shared memory; row_together: rows that a unit takes at once.
    steps: rows and columns from one tile to the next, where the last ones of what a tile loads are the next one's, each
    0 for as many as it has.
    issuer: whether a role of its own issues, of walks that do more than sum, products whose operands are both slots.
    handed: whether the hardware hands out tiles whose walks have different lengths, one as a CTA is done with another.
    turned_side: points along either axis of the tiles that warps turn, at most.
    asserts: whether the kernel asserts at run time what it does to tensor memory (`lower.ptx.products.tensor_asserts`).
    """

    tile: tuple[int, int] | None = None
    stages: int | None = None
    cluster: tuple[int, int] | None = None
    misaligned: tuple[str, ...] = ()
    consumers: int | None = None
    depth: int | None = None
    swapped: bool | None = None
    split: int | None = None
    resident: int | None = None
    prefetch: int | None = None
    mapped: tuple[str, ...] = ()
    programmatic: bool | None = None
    turns: bool | None = None
    schedule: Method = "heuristic"
    computed: Literal["registers", "workspace"] | None = None
    release_distance: int | None = None
    tile_order: TileOrder | None = None
    tile_group: int | None = None
    spill_slots: int = 0
    unmapped: Literal["threads", "workspace"] | None = None
    aligned: tuple[tuple[str, int], ...] = ()
    accumulation: Literal["precise", "fast"] | None = None
    stream_k: bool | None = None
    teams: int | None = None
    ordered: bool | None = None
    skips_ones: bool | None = None
    late_sums: bool | None = None
    cut: bool | None = None
    row_threads: int | None = None
    row_ctas: int | None = None
    row_kept: bool | None = None
    row_together: int | None = None
    steps: tuple[int, int] | None = None
    issuer: bool | None = None
    handed: bool | None = None
    turned_side: int | None = None
    asserts: bool = False
