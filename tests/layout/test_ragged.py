"""The ragged plans of `bench.ragged`: every element once, few lanes masked, and right results on the machine."""

from __future__ import annotations

import numpy as np
import pytest
from bench import ragged
from tests.layout.pieces.enumeration import active, values

from tilewright.layout.pieces.piecewise import restricted


@pytest.mark.parametrize(("rows", "columns"), [(100, 257), (37, 41), (64, 96), (1, 1), (33, 31)])
def test_the_regions_take_every_element_once(rows: int, columns: int) -> None:
    for regions in (ragged.transpose_regions(rows, columns), ragged.masked_regions(rows, columns)):
        for name in ("load", "store"):
            seen = np.zeros((rows, columns), np.int64)
            for region in regions:
                layout = getattr(region, name)
                places = values(layout)[active(layout)]
                for down in range(region.tiles[0]):
                    for across in range(region.tiles[1]):
                        row, column = region.origin[0] + 32 * down, region.origin[1] + 32 * across
                        np.add.at(seen, (row + places[:, 0], column + places[:, 1]), 1)
            assert (seen == 1).all()


@pytest.mark.parametrize(("rows", "columns"), [(100, 257), (37, 41), (64, 96), (5, 3), (33, 31)])
def test_the_reduction_takes_every_element_once(rows: int, columns: int) -> None:
    seen = np.zeros((rows, columns), np.int64)
    for layout in ragged.reduction_maps(rows, columns):
        places = values(layout)[active(layout)]
        np.add.at(seen, (places[:, 0], places[:, 1]), 1)
    assert (seen == 1).all()


@pytest.mark.parametrize(("rows", "columns"), ragged.EXTENTS)
@pytest.mark.parametrize("kind", ["transpose", "reduction"])
def test_fewer_lanes_are_masked_than_with_padding(kind: str, rows: int, columns: int) -> None:
    row = ragged.row_of(kind, rows, columns)
    counts = {name: row[f"{name}_masked"] for name in ("ragged", "tiled", "padded")}
    slots = row["ragged_slots"]
    assert isinstance(slots, int)
    ours, tiled, padded = counts["ragged"], counts["tiled"], counts["padded"]
    assert isinstance(ours, int) and isinstance(tiled, int) and isinstance(padded, int)
    assert slots - ours == rows * columns * (2 if kind == "transpose" else 1)
    assert ours <= tiled <= padded
    # A corner's last line, of each access; or, in each column left over, what the last group of rows lacks.
    most = 62 * ((rows + 31) // 32 if rows < 32 or columns < 32 else 1) + 62 * 2
    assert ours <= (most if kind == "transpose" else 31 * 31)


def test_the_machine_turns_and_sums_what_is_not_padded() -> None:
    given = ragged.values(100, 257)
    assert np.array_equal(ragged.run_transpose(ragged.transpose_regions(100, 257), given), given.T)
    assert np.array_equal(
        ragged.run_transpose(ragged.masked_regions(37, 41), given[:37, :41].copy()), given[:37, :41].T
    )
    assert np.array_equal(ragged.run_reduction(given), given.sum(axis=1))
    assert np.array_equal(ragged.run_reduction(given[:, :20].copy()), given[:, :20].sum(axis=1))


def test_a_wrong_piece_is_seen() -> None:
    given = ragged.values(37, 41)
    regions = ragged.transpose_regions(37, 41)
    first = regions[0]
    regions[0] = ragged.Region(first.origin, first.tiles, first.load, restricted(first.store, ((0, 31), (0, 32))))
    assert not np.array_equal(ragged.run_transpose(regions, given), given.T)
