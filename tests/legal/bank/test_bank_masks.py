"""The bank model where some lanes take no part: against cycles measured on an H200, and against its own rules.

The measured kernels predicated every access, and what an assembler makes of that takes cycles of its own: below
`RESOLVED` the rows of a kind tell only that the access takes no more than that.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tilewright.legal.bank.banks import access_cycles, wavefronts
from tilewright.targets import target

HOPPER = target("sm_90a")
DATA = Path(__file__).parents[2] / "data" / "bank_masks.npz"
OFF = 1 << 31
RESOLVED = {
    "ld.shared.b8": 1.35, "ld.shared.b16": 1.35, "ld.shared.b32": 1.7, "ld.shared.b64": 1.7, "ld.shared.b128": 2.35,
    "st.shared.b8": 2.4, "st.shared.b16": 2.4, "st.shared.b32": 2.4, "st.shared.b64": 2.9, "st.shared.b128": 4.6,
}  # fmt: skip
ADDRESSES = st.lists(st.integers(0, 255), min_size=32, max_size=32)
MASKS = st.lists(st.booleans(), min_size=32, max_size=32)
Row = tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]


def measured(kind: str) -> Row:
    with np.load(DATA) as archive:
        chosen = archive["kind"] == kind
        words, cycles = archive["addr"][chosen].astype(np.int64), archive["cycles"][chosen].astype(np.float64)
    return words % OFF, words < OFF, cycles


def misses(cycles: NDArray[np.float64], modelled: NDArray[np.int64], resolved: float) -> int:
    """Rows that contradict the model."""
    away = np.abs(cycles - modelled) > np.maximum(0.1 * modelled, 0.12)
    return int(np.where(cycles > resolved, away, modelled > resolved).sum())


@pytest.mark.parametrize("kind", RESOLVED)
def test_measured_cycles_where_lanes_are_off(kind: str) -> None:
    addresses, active, cycles = measured(kind)
    assert len(cycles) >= 150 and not active.all(axis=1).all()
    modelled = access_cycles(kind, addresses, HOPPER, active)
    assert misses(cycles, modelled, RESOLVED[kind]) == 0
    assert (modelled > RESOLVED[kind]).sum() > 5


@pytest.mark.parametrize("kind", ["ld.shared.b64", "ld.shared.b128"])
def test_each_rule_is_needed(kind: str) -> None:
    addresses, active, cycles = measured(kind)
    without_idle = wavefronts(kind, addresses, HOPPER, active)
    assert misses(cycles, without_idle, RESOLVED[kind]) > 20
    # Stores have no pairs.
    without_pairs = access_cycles(kind.replace("ld", "st"), addresses, HOPPER, active)
    assert misses(cycles, without_pairs, RESOLVED[kind]) > 50


def test_few_lanes() -> None:
    def one(kind: str, lanes: set[int], stride: int) -> tuple[int, int]:
        addresses, active = np.arange(32)[None, :] * stride, np.isin(np.arange(32), list(lanes))[None, :]
        counted = wavefronts(kind, addresses, HOPPER, active)
        return int(counted[0]), int(access_cycles(kind, addresses, HOPPER, active)[0])

    # One lane agrees with its partner, which is off; lanes 0 to 3 do not agree with one another, nor lanes n and n ^ 2.
    assert one("ld.shared.b128", {5}, 16) == (1, 2)
    assert one("ld.shared.b128", {0, 1, 2, 3}, 16) == (1, 4)
    assert one("ld.shared.b128", set(range(0, 32, 2)), 8 * 128) == (16, 16)
    assert one("ld.shared.b64", set(range(0, 32, 2)), 8) == (2, 2)
    assert one("st.shared.b128", {5}, 16) == (1, 4)
    assert one("st.shared.b32", {5}, 4) == (1, 1)
    assert one("ld.shared.b128", set(), 16) == (0, 0)


@given(ADDRESSES, MASKS, st.sampled_from(sorted(RESOLVED)))
def test_lanes_that_are_off_are_not_looked_at(units: list[int], mask: list[bool], kind: str) -> None:
    width = int(kind.rsplit("b", 1)[1]) // 8
    addresses, active = np.array([units]) * width, np.array([mask])
    other = np.where(active, addresses, -3)
    for count in (wavefronts, access_cycles):
        found = count(kind, addresses, HOPPER, active)
        assert (found == count(kind, other, HOPPER, active)).all()
        assert (count(kind, addresses, HOPPER, np.ones_like(active)) == count(kind, addresses, HOPPER)).all()
        # Fewer lanes never take longer.
        assert (found <= count(kind, addresses, HOPPER)).all()
    assert (wavefronts(kind, addresses, HOPPER, active) <= access_cycles(kind, addresses, HOPPER, active)).all()


def test_no_document_tells_of_idle_lanes_on_cdna() -> None:
    addresses, active = np.arange(64)[None, :] * 16, (np.arange(64) == 7)[None, :]
    assert wavefronts("ds_read_b128", addresses, "gfx942", active).tolist() == [1]
    assert access_cycles("ds_read_b128", addresses, "gfx942", active).tolist() == [1]
