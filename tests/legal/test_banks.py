"""The bank model against wavefronts measured on an H200, for every kind of access, and for loads by lanes in pairs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tilewright.base.error import TilewrightError
from tilewright.legal.banks import load_wavefronts, matrix_wavefronts, store_wavefronts
from tilewright.targets import target

HOPPER = target("sm_90a")
DATA = Path(__file__).parents[1] / "data"
TOLERANCE = 0.12
"""Measured cycles of one access are within this of its wavefronts."""


def load(lane_bytes: int) -> Callable[[list[int]], int]:
    return lambda addresses: load_wavefronts(addresses, lane_bytes, HOPPER)


def store(lane_bytes: int) -> Callable[[list[int]], int]:
    return lambda addresses: store_wavefronts(addresses, lane_bytes, HOPPER)


def matrices(count: int) -> Callable[[list[int]], int]:
    return lambda addresses: matrix_wavefronts(addresses[: 8 * count], HOPPER)


MODELS = {
    0: load(4),
    1: load(8),
    2: load(16),
    3: store(4),
    4: store(8),
    5: store(16),
    6: matrices(4),
    7: matrices(1),
    8: matrices(4),
    9: matrices(4),
}


def within(measured: float, modelled: int) -> bool:
    # A broadcast load of one wavefront is limited by issue, not by banks: it measures up to a fifth slower.
    return abs(measured / modelled - 1) <= (TOLERANCE if modelled > 1 else 0.2)


@pytest.mark.parametrize("kind", MODELS)
def test_measured_wavefronts(kind: int) -> None:
    with np.load(DATA / "banks.npz") as archive:
        chosen = archive["kind"] == kind
        addresses, cycles = archive["addr"][chosen].tolist(), archive["cycles"][chosen].tolist()
    assert len(addresses) > 300
    modelled = [MODELS[kind](lanes) for lanes in addresses]
    wrong = [pair for pair in zip(cycles, modelled, strict=True) if not within(*pair)]
    assert wrong == []
    assert len(set(modelled)) > 3


@pytest.mark.parametrize("kind", [1, 2])
def test_loads_by_lanes_in_pairs(kind: int) -> None:
    with np.load(DATA / "bank_pairs.npz") as archive:
        chosen = archive["kind"] == kind
        addresses, cycles = archive["addr"][chosen].tolist(), archive["wavefronts"][chosen].tolist()
    assert len(addresses) > 500
    wrong = [
        pair
        for lanes, measured in zip(addresses, cycles, strict=True)
        if not within(*(pair := (measured, MODELS[kind](lanes))))
    ]
    assert wrong == []
    # The exception matters here: without it, which stores do not have, many of these loads would be modelled wrong.
    plain = [store_wavefronts(lanes, 4 << kind, HOPPER) for lanes in addresses]
    assert sum(not within(*pair) for pair in zip(cycles, plain, strict=True)) > 100


def test_a_swizzled_tile_is_read_without_conflicts_and_a_plain_one_is_not() -> None:
    rows = range(8)
    assert matrix_wavefronts([row * 128 for row in rows], HOPPER) == 8
    assert matrix_wavefronts([row * 128 + (row << 4) for row in rows], HOPPER) == 1


@pytest.mark.parametrize(
    ("addresses", "lane_bytes", "complaint"),
    [
        ([0] * 31, 4, "31 addresses"),
        ([0] * 32, 2, "2 bytes a lane"),
        ([2] * 32, 4, "not a multiple of 4"),
        ([-4] * 32, 4, "not a multiple of 4"),
    ],
)
def test_what_is_no_access_of_a_warp_is_an_error(addresses: list[int], lane_bytes: int, complaint: str) -> None:
    for wavefronts in (load_wavefronts, store_wavefronts):
        with pytest.raises(TilewrightError, match=complaint):
            wavefronts(addresses, lane_bytes, HOPPER)


def test_what_is_no_matrix_access_is_an_error() -> None:
    with pytest.raises(TilewrightError, match="9 row addresses"):
        matrix_wavefronts([0] * 9, HOPPER)
    with pytest.raises(TilewrightError, match="not a multiple of 16"):
        matrix_wavefronts([8] * 8, HOPPER)
