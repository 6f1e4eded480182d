"""What exchanges of partial sums through memory have for themselves: arrays that nothing else sees.

`steps.stream` and `steps.team` say how many slots there are, and why each is written and read once.
Source: PTX ISA, bar. Checked by: tests/contract/typestate/steps/test_stream_steps.py, test_team_steps.py.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.base.element import Element
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import sizes_of


def check_exchange_array(
    walk: RoleWalk,
    op: Operation,
    value: SSAValue,
    element: Element,
    shape: tuple[int, ...],
    exchanges: tuple[type[Operation], ...],
) -> None:
    """Doubt an array that has not just these slots, or that anything but `exchanges` uses. shape: slots, and the values
    of each if it has several."""
    array = walk.global_of(op, value)
    if array is None:
        return
    name, strides = array.buffer.data, (shape[1], 1) if len(shape) == 2 else (1,)
    if (sizes_of(array.shape), sizes_of(array.strides)) != (shape, strides) or (
        array.result.type.element.data != element.value
    ):
        walk.findings.doubt(f"{name} is no array of {element.value} of shape {shape}", op)
    for use in value.uses:
        if not isinstance(use.operation, exchanges):
            walk.findings.doubt(f"uses {name}, by which CTAs exchange partial sums", use.operation)
    for other in (*walk.kernel.operations.of(ac.GlobalOp), *walk.kernel.operations.of(ac.TensorMapOp)):
        if other is not array and other.buffer == array.buffer:
            walk.findings.doubt(f"sees {name}, by which CTAs exchange partial sums", other)
