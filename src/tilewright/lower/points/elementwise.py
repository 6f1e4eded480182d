"""Element-by-element kernels: every thread of the grid takes points of the index space, a grid apart, four at a time.

The four bodies have no branch between them, so that the assembler can put their loads first; what is left over goes
through a loop of one. Indices are decoded from one 32-bit linear number, so the space is limited to 2^31 points (the
frontend refuses larger arrays). Checked by: tests/lower/test_extents.py and test_values.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tilewright.base.size import product
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import sizes_of
from tilewright.lower.ptx.copies.global_access import (
    ELEMENT_BYTES,
    element_address,
    indices_of,
    load_as_float,
    load_index,
    store_element,
)
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import Lowering, integers
from tilewright.lower.ptx.numbers.scalar_region import lower_scalar_op, scalar_register
from tilewright.lower.ptx.places import GlobalPlace, IndexPlace, Places, ScalarPlace
from tilewright.lower.ptx.run_time import POINTS, PassedSizes

_UNROLL = 4


def lower_elementwise(lowering: Lowering, op: ac.ElementwiseOp) -> None:
    """Emit the loops over the op's extents."""
    text, thread = lowering.text, lowering.thread
    sizes = sizes_of(op.extents)
    total, inner = lowering.passed.operand(text, POINTS, product(sizes)), lowering.passed.extents(text, sizes[1:])
    block = text.into("b32", "mov.u32", "%ntid.x")
    first = text.into("b32", "mad.lo.u32", text.into("b32", "mov.u32", "%ctaid.x"), block, thread)
    stride = text.into("b32", "mul.lo.u32", text.into("b32", "mov.u32", "%nctaid.x"), block)
    linear = text.into("b32", "mov.u32", first)
    step = text.into("b32", "mul.lo.u32", stride, _UNROLL)
    # linear + 3 strides < total, written so that it cannot wrap
    ahead = text.into("b32", "mul.lo.u32", stride, _UNROLL - 1)
    for unroll, advance in ((_UNROLL, step), (1, stride)):
        head, end = text.label("points"), text.label("points_end")
        text.place(head)
        text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", linear, total))
        if unroll > 1:
            left = text.into("b32", "sub.u32", total, linear)
            text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", ahead, left))
        points = [linear]
        while len(points) < unroll:
            points.append(text.into("b32", "add.u32", points[-1], stride))
        for point in points:
            _emit_body(lowering, op, indices_of(text, point, inner))
        text.emit("add.u32", linear, linear, advance)
        text.emit("bra", head)
        text.place(end)


def _emit_body(lowering: Lowering, op: ac.ElementwiseOp, indices: list[str]) -> None:
    text, values = lowering.text, dict(lowering.places)
    for argument, register in zip(op.body.block.args, indices, strict=True):
        values[argument] = IndexPlace(register)
    for inner in op.body.block.ops:
        match inner:
            case ac.AffineOp():
                values[inner.result] = IndexPlace(affine_index(text, values, inner))
            case ac.IndexDivideOp():
                values[inner.result] = IndexPlace(divided(text, values, inner))
            case ac.IndexLoadOp():
                values[inner.result] = IndexPlace(index_loaded(text, lowering.passed, values, inner))
            case ac.ElementLoadOp():
                source = values[inner.source]
                assert isinstance(source, GlobalPlace)
                address, inside = _address(lowering, values, source, inner.indices, check=bool(inner.fill.data))
                values[inner.result] = ScalarPlace(load_as_float(text, source, f"[{address}]", inside))
            case ac.ElementStoreOp():
                destination = values[inner.destination]
                assert isinstance(destination, GlobalPlace)
                address, _ = _address(lowering, values, destination, inner.indices, check=False)
                value = scalar_register(values, inner.value)
                store_element(text, destination.element, f"[{address}]", value, "")
            case _:
                if not lower_scalar_op(text, values, inner):
                    raise AssertionError(f"{inner.name} cannot stand in an element-by-element body")


def divided(text: Text, values: Places, op: ac.IndexDivideOp) -> str:
    """The quotient of an index that is not negative."""
    place = values[op.operand]
    assert isinstance(place, IndexPlace)
    return text.into("b32", "div.u32", place.register, op.size.data)


def index_loaded(text: Text, passed: PassedSizes, values: Places, op: ac.IndexLoadOp) -> str:
    """What an array of integers holds at a point, -1 where it has none there."""
    source, indices = values[op.source], [values[each] for each in op.indices]
    assert isinstance(source, GlobalPlace)
    registers = [each.register for each in indices if isinstance(each, IndexPlace)]
    return load_index(text, source, registers, passed.strides(text, source.apart))


def affine_index(text: Text, values: Places, op: ac.AffineOp) -> str:
    """The sum of multiples of indices and a constant, wrapping as 32-bit integers do."""
    total = text.into("b32", "mov.u32", op.constant.data)
    for coefficient, operand in zip(integers(op.coefficients), op.operands_, strict=True):
        place = values[operand]
        assert isinstance(place, IndexPlace)
        total = text.into("b32", "mad.lo.s32", place.register, coefficient, total)
    return total


def _address(
    lowering: Lowering, values: Places, array: GlobalPlace, indices: Sequence[SSAValue], *, check: bool
) -> tuple[str, str]:
    """64-bit address of an element, and a predicate that it lies inside the array (empty when not asked for)."""
    text, position, inside = lowering.text, array.register, ""
    strides = lowering.passed.strides(text, array.apart)
    for value, extent, stride in zip(indices, array.shape, strides, strict=True):
        place = values[value]
        assert isinstance(place, IndexPlace)
        if check:
            # As unsigned, so that a negative index is outside too.
            fits = text.into("pred", "setp.lt.u32", place.register, extent)
            inside = fits if not inside else text.into("pred", "and.pred", inside, fits)
        position = element_address(text, position, place.register, stride, ELEMENT_BYTES[array.element])
    return position, inside
