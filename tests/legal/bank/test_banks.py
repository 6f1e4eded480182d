"""The bank model against wavefronts measured on an H200, for every kind of access, and for loads by lanes in pairs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tilewright.base.error import TilewrightError
from tilewright.legal.bank.access_kind import NUMBERED_KINDS, access_kind, lane_groups
from tilewright.legal.bank.banks import ideal_wavefronts, wavefronts
from tilewright.targets import target

HOPPER = target("sm_90a")
DATA = Path(__file__).parents[2] / "data"
TOLERANCE = 0.12
"""Measured cycles of one access are within this of its wavefronts."""


def load(lane_bytes: int) -> Callable[[list[int]], int]:
    return lambda addresses: scalar_wavefronts("ld", addresses, lane_bytes)


def store(lane_bytes: int) -> Callable[[list[int]], int]:
    return lambda addresses: scalar_wavefronts("st", addresses, lane_bytes)


def scalar_wavefronts(operation: str, addresses: list[int], lane_bytes: int) -> int:
    return int(wavefronts(f"{operation}.shared.b{8 * lane_bytes}", [addresses], HOPPER)[0])


def matrices(count: int) -> Callable[[list[int]], int]:
    return lambda addresses: matrix_wavefronts(addresses[: 8 * count])


def matrix_wavefronts(row_addresses: list[int]) -> int:
    padded = [*row_addresses, *[0] * (32 - len(row_addresses))]
    return int(wavefronts(f"ldmatrix.x{len(row_addresses) // 8}", [padded], HOPPER)[0])


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
    plain = [scalar_wavefronts("st", lanes, 4 << kind) for lanes in addresses]
    assert sum(not within(*pair) for pair in zip(cycles, plain, strict=True)) > 100


def test_a_swizzled_tile_is_read_without_conflicts_and_a_plain_one_is_not() -> None:
    rows = range(8)
    assert matrix_wavefronts([row * 128 for row in rows]) == 8
    assert matrix_wavefronts([row * 128 + (row << 4) for row in rows]) == 1


@pytest.mark.parametrize(
    ("addresses", "lane_bytes", "complaint"),
    [
        ([2] * 32, 4, "not a multiple of 4"),
        ([-4] * 32, 4, "not a multiple of 4"),
    ],
)
def test_what_is_no_access_of_a_warp_is_an_error(addresses: list[int], lane_bytes: int, complaint: str) -> None:
    for operation in ("ld", "st"):
        with pytest.raises(TilewrightError, match=complaint):
            scalar_wavefronts(operation, addresses, lane_bytes)


def test_what_is_no_matrix_access_is_an_error() -> None:
    with pytest.raises(TilewrightError, match="not a multiple of 16"):
        matrix_wavefronts([8] * 8)


def test_all_measured_rows_at_once() -> None:
    with np.load(DATA / "banks.npz") as archive:
        kinds, addresses, cycles = archive["kind"], archive["addr"], archive["cycles"]
    found = wavefronts(kinds, addresses, HOPPER)
    assert found.shape == (4000,)
    away = np.abs(cycles / found - 1)
    assert (away[found > 1] <= 0.1).all()
    assert (np.rint(cycles[found == 1]) == 1).all()
    by_name = wavefronts([NUMBERED_KINDS[int(kind)] for kind in kinds], addresses, "sm_90a")
    assert (by_name == found).all()
    assert (wavefronts(kinds, addresses, "sm_100a") == found).all()


def plain_wavefronts(addresses: list[int], lane_bytes: int, groups: tuple[tuple[int, ...], ...], banks: int) -> int:
    """The definition, word by word, without the exception for loads in pairs."""
    total = 0
    for lanes in groups:
        words = {
            word
            for lane in lanes
            if addresses[lane] >= 0
            for word in range(addresses[lane] // 4, max(addresses[lane] // 4 + 1, (addresses[lane] + lane_bytes) // 4))
        }
        total += max((sum(word % banks == bank for word in words) for bank in range(banks)), default=0)
    return total


@pytest.mark.parametrize("name", ["sm_90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_random_accesses_against_the_definition(name: str, width: int) -> None:
    facts = target(name)
    kind = access_kind(f"{'st.shared.' if name == 'sm_90a' else 'ds_read_'}b{8 * width}")
    generator = np.random.default_rng(width)
    lanes = facts.limit("warp.threads")
    addresses = generator.integers(0, 128, (200, lanes)) * width * generator.choice([1, 2, 8, 32], (200, 1))
    active = generator.random((200, lanes)) < generator.choice([0.1, 0.5, 1.1], (200, 1))
    masked = np.where(active, addresses, -1).tolist()
    groups = lane_groups(kind, facts)
    expected = [plain_wavefronts(row, width, groups, facts.limit("multiprocessor.shared_banks")) for row in masked]
    assert wavefronts(kind.name, addresses, facts, active).tolist() == expected


def spans(*ranges: tuple[int, int]) -> set[int]:
    return {lane for first, last in ranges for lane in range(first, last + 1)}


def test_groups_of_lanes_that_documents_state() -> None:
    mi300 = [((0, 3), (20, 23)), ((32, 35), (52, 55)), ((4, 7), (16, 19)), ((36, 39), (48, 51)),
             ((8, 11), (28, 31)), ((40, 43), (60, 63)), ((12, 15), (24, 27)), ((44, 47), (56, 59))]  # fmt: skip
    mi350 = [((0, 3), (12, 15), (20, 27)), ((32, 35), (44, 47), (52, 59)), ((4, 11), (16, 19), (28, 31)),
             ((36, 43), (48, 51), (60, 63))]  # fmt: skip
    for name, phases in (("gfx942", mi300), ("gfx950", mi350)):
        found = lane_groups(access_kind("ds_read_b128"), target(name))
        assert {frozenset(group) for group in found} == {frozenset(spans(*phase)) for phase in phases}
        # Every group of a wide read takes each bank once at best.
        assert ideal_wavefronts("ds_read_b128", name) == len(phases)


def test_a_row_major_tile_of_an_mfma_operand_conflicts_on_cdna_until_swizzled() -> None:
    """Lanes 0 to 15 read 16 bytes of 16 rows of 128 bytes; lanes 16 on the next 16 bytes."""
    lane = np.arange(64)
    row, chunk = lane % 16, lane // 16
    plain = row * 128 + chunk * 16
    swizzled = row * 128 + ((chunk ^ (row % 8)) * 16)
    found = wavefronts("ds_read_b128", np.stack([plain, swizzled]), "gfx942")
    assert found[0] > found[1] == 8


@pytest.mark.parametrize(
    ("kind", "shape", "name", "complaint"),
    [
        (0, (4, 31), "sm_90a", r"not \(n, 32\)"),
        (0, (32,), "sm_90a", r"not \(n, 32\)"),
        (0, (4, 32), "gfx942", r"not \(n, 64\)"),
        (10, (4, 32), "sm_90a", "0 to 9"),
        ("ldmatrix.x3", (4, 32), "sm_90a", "no model"),
        ("ld.shared.v4.b64", (4, 32), "sm_90a", "no model"),
        ("ldmatrix.x4", (4, 64), "gfx950", "has no ldmatrix"),
        ("ds_write_b128", (4, 64), "gfx950", "not known which lanes"),
        ([0, 1], (4, 32), "sm_90a", "2 kinds for 4"),
    ],
)
def test_what_is_not_modelled_is_an_error(kind: int | str, shape: tuple[int, ...], name: str, complaint: str) -> None:
    with pytest.raises(TilewrightError, match=complaint):
        wavefronts(kind, np.zeros(shape, np.int64), name)


def test_spellings_of_one_kind() -> None:
    for name in ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "ldmatrix.x4.trans", "ldmatrix.x4"):
        assert (access_kind(name).matrices, access_kind(name).lane_bytes) == (4, 16)
    for name in ("ld.shared.v4.f32", "ld.volatile.shared::cta.v2.b64", "ds_read_b128"):
        assert (access_kind(name).operation, access_kind(name).lane_bytes) == ("load", 16)
    with pytest.raises(TilewrightError) as caught:
        access_kind("ldmatix.x4")
    assert "ldmatrix.x4" in caught.value.remedy


def test_addresses_of_every_integer_type_and_of_lanes_that_are_off() -> None:
    lanes = np.arange(32)[None, :] * 4
    for dtype in (np.uint8, np.int16, np.uint32, np.int64, np.uint64):
        assert wavefronts("ld.shared.b32", lanes.astype(dtype), HOPPER).tolist() == [1]
    off = np.where(np.arange(32) < 8, lanes, 2**32 - 1).astype(np.uint32)
    assert wavefronts("ld.shared.b32", off, HOPPER, off < 2**31).tolist() == [1]
    assert wavefronts("ld.shared.b32", off, HOPPER, np.zeros((1, 32), np.bool_)).tolist() == [0]
    assert wavefronts(0, np.zeros((0, 32), np.int64), HOPPER).shape == (0,)
    for beyond in (2**31, 2**40):
        with pytest.raises(TilewrightError, match="beyond any shared memory"):
            wavefronts("ld.shared.b32", lanes + beyond, HOPPER)
    with pytest.raises(TilewrightError, match="not integers"):
        wavefronts("ld.shared.b32", lanes * 1.0, HOPPER)
