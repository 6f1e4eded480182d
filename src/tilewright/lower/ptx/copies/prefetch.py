"""How a kernel that begins while the one before still runs asks for its first operands: into the L2 cache, no nearer.

A fetch into L2 reads nothing that the program sees: L2 is where all writes of the device meet, so what the kernel
before writes to those places afterwards is what is read later. So it may be asked for before `griddepcontrol.wait`,
which the loads themselves must not pass. Of products, each of the first threads asks for one slice of the CTA's first
tile; of other walks the thread that fills slots asks for the boxes that it will fill them with. Where a table says
where these are, it asks the table early too: if the launch before writes it, other boxes are brought, to no harm.
Source: PTX ISA, cp.async.bulk.prefetch.tensor, griddepcontrol. Checked by: tests/lower/ptx/copies/test_prefetch.py.
"""

from __future__ import annotations

from tilewright.ir.ac import operations as ac
from tilewright.lower.distribution.raster import order_of, raster
from tilewright.lower.ptx.lowering import Lowering, integers
from tilewright.lower.ptx.places import ParameterPlace
from tilewright.lower.ptx.run_time import tiles_of_clusters


def lower_prefetch(lowering: Lowering, op: ac.PrefetchOp, kernel: ac.KernelOp) -> None:
    text = lowering.text
    descriptor = lowering.place(op.descriptor)
    assert isinstance(descriptor, ParameterPlace)
    cluster = integers(kernel.cluster)
    tiles = tiles_of_clusters(op, kernel)
    tile = text.into("b32", "mov.u32", "%clusterid.x" if lowering.cluster_size > 1 else "%ctaid.x")
    place = raster(text, tile, *tiles, op.raster_group.data, order_of(op), lowering.passed)[op.dimension.data]
    across = cluster[op.dimension.data]
    if across > 1:
        rank = text.into("b32", "mov.u32", "%cluster_ctaid.x" if op.dimension.data == 0 else "%cluster_ctaid.y")
        place = text.into("b32", "mad.lo.u32", place, across, rank)
    number = lowering.thread
    if cluster[2] > 1:
        share = text.into("b32", "mov.u32", "%cluster_ctaid.z")
        number = text.into("b32", "mad.lo.u32", number, cluster[2], share)
    asks = text.into("pred", "setp.lt.u32", lowering.thread, op.slices.data)
    outer = text.into("b32", "mul.lo.s32", place, op.extent.data)
    depth = text.into("b32", "mul.lo.s32", number, op.slice_depth.data)
    for outer_offset in integers(op.outer_offsets):
        row = text.into("b32", "add.s32", outer, outer_offset) if outer_offset else outer
        for depth_offset in integers(op.depth_offsets):
            column = text.into("b32", "add.s32", depth, depth_offset) if depth_offset else depth
            coordinates = f"{column}, {row}" if op.depth_inner.data else f"{row}, {column}"
            text.emit(
                "cp.async.bulk.prefetch.tensor.2d.L2.global.tile",
                f"[{descriptor.register}, {{{coordinates}}}]",
                guard=asks,
            )


def lower_box_prefetch(lowering: Lowering, op: ac.BoxPrefetchOp) -> None:
    descriptor = lowering.place(op.descriptor)
    assert isinstance(descriptor, ParameterPlace)
    coordinates = ", ".join(lowering.index(each) for each in op.coordinates)
    opcode = f"cp.async.bulk.prefetch.tensor.{len(op.coordinates)}d.L2.global.tile"
    lowering.text.emit(opcode, f"[{descriptor.register}, {{{coordinates}}}]")
