"""How do arrays that are gathered by blocks of an axis read where a part of the axis is shorter than a block?

Theory: of blocks of S elements and parts of T, where T divides S, part p lies in block p // (S / T), and there it is
the part p % (S / T). So an array over blocks is one over blocks of the parts' axis; and a dimension of places in a
block is two: which part of its block, and the place in the part. Both lie in memory as they did.

Not handled: parts that cross an end of a block without being whole blocks. Checked by:
tests/synth/cut/test_gathered.py, and each split by `certificate`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_axis, block_size
from tilewright.ir.tile.facts import gathers
from tilewright.ir.tile.gather import GatherOp, Remainder, blocks_along, remainder_place
from tilewright.ir.tile.types import TensorType, tensor_type
from tilewright.synth.cut.handover import free_name


def blocks_of_axis(program: tile.ProgramOp, axis: str) -> set[int]:
    """Sizes of the blocks of an axis by which arrays are gathered."""
    return {size for op in gathers(program) for size in blocks_along(op.dimensions, axis)}


def fit_blocks(step: int, blocks: Collection[int]) -> bool:
    """Whether parts of so many elements are whole blocks of each size, or divide them."""
    return all(step % size == 0 or size % step == 0 for size in blocks)


def gathered_in_parts(
    op: GatherOp, axis: str, along: str, step: int, taken: Sequence[str]
) -> tuple[TensorType, list[str]]:
    """The tensor of a gather, and where its dimensions are read, where the axis has parts of `step` elements along
    another one. taken: names of axes."""
    kind = tensor_type(op.tensor)
    axes, shape, strides, places = list[str](), list[int](), list[int](), list[str]()
    for name, place, each in zip(kind.axis_names, op.place_names, op.dimensions, strict=True):
        if isinstance(each.where, Remainder) and each.where.axis == axis and each.where.size > step:
            parts = each.where.size // step
            axes += [free_name(f"{name}_parts", [*taken, along]), axis]
            shape += [parts, step]
            strides += [step * each.stride, each.stride]
            places += [remainder_place(along, parts), axis]
        else:
            axes.append(in_blocks_of_parts(name, axis, along, step))
            shape.append(each.extent)
            strides.append(each.stride)
            places.append(axes[-1] if place == name else place)
    return TensorType.of(axes, shape, strides, kind.element_kind), places


def over_blocks_of_parts(kind: TensorType, axis: str, along: str, step: int) -> TensorType:
    """An array whose blocks of the axis are longer than a part, over blocks of the parts."""
    axes = [in_blocks_of_parts(each, axis, along, step) for each in kind.axis_names]
    return TensorType.of(axes, kind.extents, kind.stride_elements, kind.element_kind)


def in_blocks_of_parts(name: str, axis: str, along: str, step: int) -> str:
    """An axis, or that of blocks of the parts in the place of longer blocks of the axis that is cut."""
    longer = base_axis(name) == axis and block_size(name) > step
    return block_axis(along, block_size(name) // step) if longer else name
