"""Swizzle modes: involutions that keep their atoms whole, repeat after their period, and spread lines over banks."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from tilewright.base.plan import Swizzle
from tilewright.machine.copy.swizzle import SPAN_BYTES, period_bytes, swizzled
from tilewright.targets import target

ATOMS: dict[Swizzle, int] = {
    "none": 16, "32B": 16, "64B": 16, "128B": 16, "128B_atom_32B": 32, "128B_atom_32B_flip_8B": 8, "128B_atom_64B": 64,
}  # fmt: skip
MODES: tuple[Swizzle, ...] = get_args(Swizzle)


@pytest.mark.parametrize("mode", MODES)
def test_involution_atom_and_period(mode: Swizzle) -> None:
    addresses = np.arange(4096, dtype=np.int64)
    there = swizzled(addresses, mode)
    assert np.array_equal(swizzled(there, mode), addresses)
    assert np.array_equal(there >> 7, addresses >> 7)
    atom, period = ATOMS[mode], period_bytes(mode)
    assert np.array_equal(there % atom, addresses % atom)
    assert np.array_equal(swizzled(addresses + period, mode), there + period)
    if mode != "none":
        assert not np.array_equal(swizzled(addresses + period // 2, mode), there + period // 2)


@pytest.mark.parametrize("mode", MODES)
def test_spans_and_periods_are_the_targets(mode: Swizzle) -> None:
    blackwell, index = target("sm_100a"), MODES.index(mode)
    assert blackwell.limits("tensor_map.swizzle_span_bytes")[index] == SPAN_BYTES[mode]
    assert blackwell.limits("tensor_map.swizzle_period_bytes")[index] == period_bytes(mode)


def test_the_flip_swaps_halves_of_every_other_line() -> None:
    addresses = np.arange(512, dtype=np.int64)
    plain, flipped = swizzled(addresses, "128B_atom_32B"), swizzled(addresses, "128B_atom_32B_flip_8B")
    odd = addresses // 128 % 2 == 1
    assert np.array_equal(flipped[~odd], plain[~odd])
    assert np.array_equal(flipped[odd], plain[odd] ^ 8)
