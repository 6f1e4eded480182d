"""How far apart the matrices of a batch may stand in the small instance, of which few rows are left.

Where an array is reached by tensor maps alone, the distance stands in no text, so that the matrices may be moved
together; else the small instance would be as large as two of the program's matrices.
Checked by: tests/driver/reproof/test_small_batch.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import first_alike, load_number
from tilewright.ir.decisions import Decisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.facts import loads, parameter_name
from tilewright.ir.tile.types import TensorType

_MULTIPLE_BYTES = 16
"""Of a tensor map's strides (CUDA driver, cuTensorMapEncodeTiled)."""


def reached_by_maps(program: tile.ProgramOp, decisions: Decisions) -> frozenset[str]:
    """The parameters that only tensor maps reach."""
    if isinstance(decisions, CascadeDecisions):
        brought = {slot.load for slot in decisions.slots}
        read = [load for load in loads(program) if load_number(program, first_alike(program, load)) not in brought]
        plain = {parameter_name(program, load.tensor) for load in read}
        plain |= {slot.buffer for slot in decisions.slots if slot.piece_bytes}
        mapped = {slot.buffer for slot in decisions.slots} | {store.parameter for store in decisions.stores}
        return frozenset(mapped - plain)
    return frozenset()


def moved_together(
    tensor: TensorType, given: tuple[int, ...], extents: Mapping[str, int], batch: str
) -> tuple[int, ...]:
    """Strides in elements with which the small instance's matrices follow one another, if they stand apart: those that
    are given, but for the batch's. Of several axes the inner ones come first: what lies further apart does not count.
    """
    strides = dict(zip(tensor.axis_names, given, strict=True))
    own = next((axis for axis in strides if base_axis(axis) == batch), None)
    if own is None:
        return given
    nearer = [axis for axis, stride in strides.items() if axis != own and stride <= strides[own]]
    span = 1 + sum((extents[axis] - 1) * strides[axis] for axis in nearer)
    multiple = max(1, _MULTIPLE_BYTES // tensor.element_kind.bytes)
    strides[own] = min(strides[own], -(-span // multiple) * multiple)
    return tuple(strides.values())
