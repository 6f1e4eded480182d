"""How the scalar ops of an elementwise region become PTX: one float32 register for each value.

Checked by: tests/lower/ptx/numbers/test_scalar.py and test_values.py.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.lower.ptx.emit import Text, float_bits
from tilewright.lower.ptx.numbers.scalar import emit_round, emit_scalar
from tilewright.lower.ptx.places import IndexPlace, Places, ScalarPlace


def scalar_register(places: Places, value: SSAValue) -> str:
    """The register that holds a scalar."""
    place = places[value]
    assert isinstance(place, ScalarPlace)
    return place.register


def lower_scalar_op(text: Text, places: Places, op: Operation) -> bool:
    """Emit `op` and note its result in `places`, if it is a scalar function, a rounding, a constant or an index's
    number."""
    match op:
        case ac.ScalarOp():
            inputs = tuple(scalar_register(places, item) for item in op.inputs)
            places[op.result] = ScalarPlace(emit_scalar(text, op.function.data, inputs))
        case ac.IndexNumberOp():
            index = places[op.operand]
            assert isinstance(index, IndexPlace)
            places[op.result] = ScalarPlace(text.into("f32", "cvt.rn.f32.s32", index.register))
        case ac.RoundOp():
            places[op.result] = ScalarPlace(emit_round(text, op.element.data, scalar_register(places, op.input)))
        case ac.ConstantOp():
            places[op.result] = ScalarPlace(text.into("f32", "mov.f32", float_bits(op.bits.data)))
        case _:
            return False
    return True
