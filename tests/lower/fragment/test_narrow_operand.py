"""8-bit operands of threads: what each register has, packed and exchanged, against the instruction's own fragments."""

from typing import Any

import numpy as np
import pytest
from tests.lower.ptx.computed_scalars import computed

from tilewright.lower.fragment.narrow_operand import STEP_REGISTERS, exchanged, register_of
from tilewright.machine.tensor_core.fragment import accumulator_coordinates, operand_coordinates

COLUMNS, THREADS, VALUES = 32, 128, 16


def packed_columns() -> Any:
    """Rows and columns of an accumulator by thread, register and byte, as they are packed."""
    rows, columns = accumulator_coordinates(COLUMNS)
    found = np.full((2, THREADS, STEP_REGISTERS, 4), -1)
    for first in range(0, VALUES, 2):
        at, numbers = register_of(first)
        if numbers:
            assert (found[:, :, at] == -1).all(), "each register is packed once"
            found[0, :, at], found[1, :, at] = rows[:, numbers], columns[:, numbers]
    assert (found >= 0).all()
    return found


def test_packed_numbers_stand_at_places_of_another_order() -> None:
    """Place 4 t + i of sixteen has column 8 (i / 2) + 2 t + i % 2, of the row that the instruction wants there."""
    rows, columns = packed_columns()
    wanted_rows, places = (each.reshape(THREADS, STEP_REGISTERS, 4) for each in operand_coordinates(1))
    np.testing.assert_array_equal(rows, wanted_rows)
    sixteen, place = places // 16 * 16, places % 16
    np.testing.assert_array_equal(columns, sixteen + 8 * (place % 4 // 2) + 2 * (place // 4) + place % 2)


@pytest.mark.parametrize("register", range(STEP_REGISTERS))
def test_exchanged_numbers_are_in_order(register: int) -> None:
    rows, columns = packed_columns()
    # Sixteen rows of a warp: eight in each register, so that the row modulo 8 says it.
    words = (columns + COLUMNS * (rows % 8)).astype(np.uint8).view(np.float32).reshape(THREADS, STEP_REGISTERS)

    def emit(text: Any, loaded: Any) -> Any:
        thread = text.into("b32", "mov.u32", "%tid.x")
        (found,) = exchanged(text, thread, [[text.into("b32", "mov.b32", each) for each in loaded]])
        return text.into("f32", "mov.b32", found[register])

    found = computed(emit, *(words[:, each].copy() for each in range(STEP_REGISTERS)))
    wanted_rows, places = (each.reshape(THREADS, STEP_REGISTERS, 4) for each in operand_coordinates(1))
    expected = (places + COLUMNS * (wanted_rows % 8)).astype(np.uint8)[:, register]
    np.testing.assert_array_equal(found.view(np.uint8).reshape(THREADS, 4), expected)
