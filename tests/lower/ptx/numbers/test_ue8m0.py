"""Factors of 8 bits as float32 on the CPU machine: every code, alone and four at a time."""

import ml_dtypes
import numpy as np
from tests.lower.ptx.computed_scalars import computed

from tilewright.lower.ptx.numbers import ue8m0

CODES = np.arange(256, dtype=np.uint8)
NUMBERS = CODES.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)


def test_every_code() -> None:
    found = computed(
        lambda text, loaded: ue8m0.widen(text, text.into("b16", "cvt.rni.u16.f32", loaded[0])),
        CODES.astype(np.float32),
    )
    np.testing.assert_array_equal(found, NUMBERS)
    assert np.isnan(found[255]) and found[0] == np.float32(2.0**-127)


def test_four_codes_of_a_word() -> None:
    def code(text, loaded, place):
        word = text.into("b32", "cvt.rni.u32.f32", loaded[0])
        others = text.into("b32", "mul.lo.u32", text.into("b32", "xor.b32", word, 255), 0x0101_0101)
        word = text.into("b32", "shl.b32", word, 8 * place)
        mask = text.into("b32", "and.b32", others, ~(0xFF << 8 * place) & 0xFFFF_FFFF)
        return ue8m0.widen_bytes(text, text.into("b32", "or.b32", word, mask))[place]

    for place in range(4):
        found = computed(lambda text, loaded, place=place: code(text, loaded, place), CODES.astype(np.float32))
        np.testing.assert_array_equal(found, NUMBERS)
