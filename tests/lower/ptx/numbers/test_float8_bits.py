"""Floats of 8 bits widened by their bits: every value at every place of a register, against ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest
from tests.lower.ptx.computed_scalars import computed

from tilewright.lower.ptx.numbers.float8_bits import widened_word

NARROW = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
WIDE = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("wide", WIDE)
def test_every_value(narrow: str, wide: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    given = np.stack([codes, np.roll(codes, 1), np.roll(codes, 77), codes[::-1]], axis=1)
    words = given.copy().view(np.float32).reshape(-1)

    def half(number: int) -> np.ndarray:
        def emit(text, loaded):
            word = text.into("b32", "mov.b32", loaded[0])
            return text.into("f32", "mov.b32", widened_word(text, narrow, wide, word)[number])

        return computed(emit, words).view(np.uint16).reshape(-1, 2)

    found = np.concatenate([half(0), half(1)], axis=1).view(WIDE[wide]).astype(np.float32)
    expected = given.view(NARROW[narrow]).astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()
