"""Fields of matrix descriptors: places, round trips, and what a field cannot hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilewright.targets import target
from tilewright.targets.operand_bits import WGMMA_RESERVED, base_offset_of, bits_of, offsets_of

FIELD = st.integers(0, (1 << 14) - 1).map(lambda units: units * 16)


def test_a_descriptor_that_cutlass_emits() -> None:
    """K-major rows of 128 bytes at 0x400, 1024 bytes from one group of rows to the next, swizzled by 128 bytes."""
    assert offsets_of(0x4000_0040_0001_0040) == (0x400, 16, 1024)
    assert bits_of(0x400, 16, 1024, 0) | 1 << 62 == 0x4000_0040_0001_0040
    assert WGMMA_RESERVED == 0x3FF1_C000_C000_C000


@given(FIELD, FIELD, FIELD, st.integers(0, 7))
def test_fields_go_round(start: int, leading: int, stride: int, base: int) -> None:
    bits = bits_of(start, leading, stride, base)
    assert offsets_of(bits) == (start, leading, stride) and base_offset_of(bits) == base
    assert not bits & WGMMA_RESERVED


def test_the_fields_hold_what_the_targets_tables_say() -> None:
    for name, group in (("sm_90a", "matrix_descriptor"), ("sm_100a", "shared_descriptor")):
        limit = target(name).limit(f"{group}.offset_limit_bytes")
        multiple = target(name).limit(f"{group}.offset_multiple_bytes")
        assert offsets_of((1 << 64) - 1) == (limit - multiple,) * 3
        assert base_offset_of((1 << 64) - 1) == target(name).limit(f"{group}.base_offset_max")
