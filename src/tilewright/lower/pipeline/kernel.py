"""How a decided program with dots becomes a producer role and consumer warpgroups around a ring of slots.

The parts, in the order of a kernel's text: `pipeline.declarations` (maps, arrays, ring, shared memory), here the
barriers' start, `pipeline.producer`, `pipeline.consumer` with `pipeline.product` (one slot's wgmma group), and
`pipeline.epilogue` for what comes after the loop; both roles walk the ring by the steps of `pipeline.slots`. In a
cluster a slot is free only when the consumers of all its CTAs have released it.

What is particular to a kind of product stands beside: `async_copy` (operands that threads copy), `tile_place` (tiles of
batches), `turns`, `split_product`, `stream_product` (tiles that two CTAs share), `prefetch`. Not handled, because
nothing is decided so: several loops, dots without an operand in common.
Checked by: tests/lower/test_ptx_text.py and test_values.py, and the tests of each kind.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.size import ceil_div, computed, product, value_of
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tile import operations as tile
from tilewright.lower.build import new_kernel, wait_for_launch_before
from tilewright.lower.distribution.stream_product import stream_symbols
from tilewright.lower.distribution.turns import LEAST_SLOTS
from tilewright.lower.pipeline.consumer import add_consumer
from tilewright.lower.pipeline.declarations import declare
from tilewright.lower.pipeline.prefetch import add_prefetch
from tilewright.lower.pipeline.producer import add_producer
from tilewright.lower.program import tile_counts


def least_slices(d: PipelineDecisions) -> int:
    """Slices of a tile for which the text is right: those that are peeled, and what a turn is passed on after."""
    return max(LEAST_SLOTS, d.release_distance + 1) if d.turns else max(1, d.release_distance)


def pipeline_kernel(program: tile.ProgramOp, d: PipelineDecisions) -> ModuleOp:
    tiles_m, tiles_n, k_tiles = tile_counts(program, d)
    clusters_m, clusters_n = ceil_div(tiles_m, d.cluster_m), ceil_div(tiles_n, d.cluster_n)
    cluster_size = d.cluster_ctas
    clusters = d.ctas // cluster_size
    matrices = d.teams * math.prod(program.extents[axis] for axis in d.batch)
    in_all = product((clusters_m, clusters_n, matrices))
    all_tiles = value_of(in_all, program.extents)
    most_tiles = -(-(all_tiles - d.streamed) // clusters)
    # So many CTAs are there at most; of run-time tiles no more than one each.
    launched = clusters if isinstance(in_all, int) else computed("min", in_all, clusters)
    grid = (product((launched, d.cluster_m)), d.cluster_n, d.split)
    module, build = new_kernel(
        program.sym_name.data,
        {"K": (k_tiles // d.partials, least_slices(d)), "tiles": (most_tiles, 0)}
        | stream_symbols(d.stream, k_tiles, least_slices(d)),
        grid,
        (d.cluster_m, d.cluster_n, d.split),
        128 * (1 + d.consumers),
        d.smem_bytes,
        d.launch_registers,
        program.run_time,
    )
    pipeline, arrays = declare(build, program, d)
    counts = (product((clusters_m, d.cluster_m)), product((clusters_n, d.cluster_n)), matrices)
    add_prefetch(build, d, (pipeline.a_map, pipeline.b_map), counts)
    build.add(ac.BarrierInitOp.create(operands=[pipeline.ring]))
    if pipeline.turns is not None:
        build.add(ac.BarrierInitOp.create(operands=[pipeline.turns]))
    if pipeline.meeting is not None:
        build.add(ac.BarrierInitOp.create(operands=[pipeline.meeting.ring]))
    build.add(ac.FenceBarrierInitOp.create())
    build.add(ac.CtaSyncOp.create() if cluster_size == 1 else ac.ClusterSyncOp.create())
    if d.programmatic and not d.filler_waits:
        wait_for_launch_before(build)
    add_producer(build, program, d, pipeline, counts)
    add_consumer(build, program, d, pipeline, counts, arrays)
    if cluster_size > 1:
        build.add(ac.ClusterSyncOp.create())
    return module
