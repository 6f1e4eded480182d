"""`bfe` of a position and a length that the text fixes, against the definition, lane by lane."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tilewright.machine.core.decoder import type_name
from tilewright.machine.instruction.arithmetic.bits import bit_field


def _expected(bits: int, at: int, size: int, width: int, signed: bool) -> int:
    """PTX ISA, bfe: a sign that lies beyond the register is its highest bit; bits beyond it are the sign."""
    sign = bits >> min(at + size - 1, width - 1) & 1 if signed and size else 0
    padded = [bits >> at + index & 1 if at + index < width else sign for index in range(size)]
    filled = [padded[index] if index < size else sign for index in range(width)]
    return sum(bit << index for index, bit in enumerate(filled[:width]))


@pytest.mark.parametrize("name", ["u32", "s32", "u64", "s64"])
def test_a_field_is_what_the_isa_says(name: str) -> None:
    declared = type_name(name)
    assert declared is not None
    random = Random(name)
    whole = (1 << declared.width_bits) - 1
    for at in (0, 1, 5, 31, 32, 33, 63, 64, 200, 255):
        for size in (0, 1, 4, 31, 32, 33, 63, 64, 65, 255):
            values = [0, whole, 1 << declared.width_bits - 1, *(random.randint(0, whole) for _ in range(29))]
            found = bit_field(declared, at, size)(np.array(values, declared.raw))
            assert found.dtype == declared.raw
            assert found.tolist() == [
                _expected(value, at, size, declared.width_bits, declared.is_signed) for value in values
            ]
