"""How deep is a slot of an operand, and by how many of its rows is more or less loaded?

How walks bring operands: `synth.cascade.slots.slot_maps`. Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.base.element import Element
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.targets import Target

SWIZZLE_SPAN_BYTES = 128
"""Rows in shared memory are as long as the span of swizzle 128B, the widest: every map here has it."""


def slice_depth(element_bytes: int) -> int:
    """Elements of the contracted axis in one slot: as many as fill a row there."""
    return SWIZZLE_SPAN_BYTES // element_bytes


def _majors(element: Element, target: Target) -> tuple[str, ...]:
    """Which axis of an operand may be contiguous in shared memory: the contracted one, of 16-bit elements either."""
    return ("K", "MN") if element.bytes == target.limit("wgmma.mn_major_element_bytes") else ("K",)


def loaded_step(value: SSAValue, contracted: str, target: Target) -> int:
    """Elements of its outer axis by which more or less of an operand is loaded: a swizzle span where that axis is the
    contiguous one, else the rows of a core matrix."""
    element = value_type(value).element_kind
    major = _preferred_major(value, contracted, _majors(element, target))
    return SWIZZLE_SPAN_BYTES // element.bytes if major == "MN" else target.limit("wgmma.core_rows")


def _preferred_major(value: SSAValue, contracted: str, majors: tuple[str, ...]) -> str:
    """The major of the first load behind a value, so that a copy reads along its source's rows, if it is one of
    `majors`."""
    if len(majors) == 1:
        return majors[0]
    pending, seen = [value], set[int]()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, tile.LoadOp):
            tensor = tensor_type(owner.tensor)
            strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
            if len(strides) > 1 and contracted in strides:
                nearest = min(strides.values())
                # Of several, which have one element but for one of them, the last, as elsewhere.
                return "K" if [axis for axis in strides if strides[axis] == nearest][-1] == contracted else "MN"
        elif isinstance(owner, Operation) and not isinstance(owner, tile.LoopOp) and id(owner) not in seen:
            seen.add(id(owner))
            pending.extend(owner.operands)
    return "K"
