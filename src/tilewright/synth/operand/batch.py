"""How operands and results that have a batch axis are reached: by maps with a third dimension for it.

A map's third dimension costs nothing: the copy engine clips rows at the end of their own matrix. Where the distance
between matrices is none that a map may have, an operand is copied as a whole into a workspace whose matrices lie
together, and a result leaves by plain stores. Tiles of one matrix follow one another, so that its operands stay in the
L2 cache. Source: PTX ISA and CUDA driver, cuTensorMapEncodeTiled.
Checked by: tests/lower/test_batch.py.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue

from tilewright.ir.decisions import MapDecision, OperandDecision, StoreDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import grouping, index_offset, parameter_name
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.synth.operand.operands import Site, workspace_operand


def batch_axis(program: tile.ProgramOp, dot: tile.DotOp) -> str:
    """The axis of a product's batch, or "" where there is none."""
    axes = value_type(dot.result).axis_names
    return axes[0] if len(axes) == 3 and grouping(program) is None else ""


def batched_operand(
    site: Site,
    side: tuple[str, SSAValue, str],
    operand: OperandDecision,
    axes: tuple[str, str],
    slot: tuple[int, int],
) -> OperandDecision:
    """An operand as decided for one matrix, for all of the batch.

    side: as for `decide_operand`; axes: the batch and the contracted axis; slot: elements of the outer and the
    contracted axis that one CTA loads into a slot.
    """
    batch, contracted = axes
    _, value, _ = side
    if batch not in value_type(value).axis_names:
        return operand
    count = site.program.extents[batch]
    source = value.owner.operand if isinstance(value.owner, tile.TransposeOp) else value
    if not operand.materialized and isinstance(source.owner, tile.LoadOp):
        load = source.owner
        tensor = tensor_type(load.tensor)
        strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
        shifts = dict(zip(tensor.axis_names, map(index_offset, load.indices), strict=True))
        deep = with_matrices(operand.map, count, strides[batch] * tensor.element_kind.bytes)
        if operand.piece_bytes:
            return replace(operand, map=deep)
        broken = [*broken_rules(site, deep), *(["it is displaced along the batch"] if shifts[batch] else [])]
        if not broken:
            return replace(operand, map=deep)
        site.reasons.append(f"{operand.side} operand: {'; '.join(broken)}; first copied into a workspace")
        operand = workspace_operand(site, side, contracted, slot)
    inner_bytes, rows = operand.map.strides_bytes[0], operand.map.dims[1]
    return replace(operand, map=with_matrices(operand.map, count, inner_bytes * rows))


def batched_store(site: Site, store: tile.StoreOp, decision: StoreDecision, batch: str) -> StoreDecision:
    """A result as decided for one matrix, for all of the batch."""
    tensor = tensor_type(store.tensor)
    if batch not in tensor.axis_names:
        return decision
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    deep = with_matrices(decision.map, site.program.extents[batch], strides[batch] * tensor.element_kind.bytes)
    if decision.path != "tma":
        return replace(decision, map=deep)
    broken = broken_rules(site, deep)
    if not broken:
        return replace(decision, map=deep, tail=tuple(replace(deep, box=(*each.box, 1)) for each in decision.tail))
    name = parameter_name(site.program, store.tensor)
    site.reasons.append(f"store of {name} by plain stores, each warp along its rows: {'; '.join(broken)}")
    rows = int(tensor.element_kind.bytes > 1)
    return replace(decision, path="direct", along_rows=rows, map=deep)


def with_matrices(one: MapDecision, count: int, stride_bytes: int) -> MapDecision:
    """A map of one matrix, as one of `count` matrices that lie `stride_bytes` apart; a box takes of one alone."""
    return replace(one, dims=(*one.dims, count), strides_bytes=(*one.strides_bytes, stride_bytes), box=(*one.box, 1))


def broken_rules(site: Site, one: MapDecision) -> list[str]:
    """The rules that a decided map breaks, in words."""
    map_ = one.tensor_map()
    return site.broken(TensorMap(map_.element.value, one.dims, one.strides_bytes, one.box, swizzle=one.swizzle))
