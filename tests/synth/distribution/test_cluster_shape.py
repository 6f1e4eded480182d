"""How clusters that share loads take their tiles."""

import pytest
from tests.synth.decided_products import decided, matmul

from tilewright.synth.cost.model import rates_of
from tilewright.synth.distribution.cluster_shape import choose_cluster, taken_by_clusters
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")
RATES = rates_of(HOPPER)


def test_a_single_cta_takes_tiles_as_they_are():
    assert taken_by_clusters(RATES, (128, 256), (32, 16), (1, 1)) == (RATES, (128, 256), (32, 16))


def test_a_pair_takes_two_tiles_side_by_side():
    rates, tile, tiles = taken_by_clusters(RATES, (128, 256), (33, 16), (2, 1))
    assert rates.multiprocessors == 66 and tile == (256, 256) and tiles == (17, 16)
    assert taken_by_clusters(RATES, (128, 256), (33, 17), (1, 2))[1:] == ((128, 512), (33, 9))


@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("tile", [(128, 256), (256, 128), (128, 128)])
def test_a_wave_of_clusters_covers_as_square_a_part_as_one_of_single_ctas(cluster, tile):
    """Or a wave of pairs would read a quarter more from memory."""
    plan = decided(matmul, 16384, 16384, 4096, wanted=Wanted(tile=tile, cluster=cluster, stream_k=False))
    rows = plan.raster_group * plan.cluster[0] * plan.tile_rows
    columns = plan.ctas * plan.tile_rows * plan.tile_columns / rows
    assert 0.85 < rows / columns < 1.18


SQUARE, TALL = TileShape(128, 128, 128, 2), TileShape(192, 128, 128, 3)


def scaled(rows: int, columns: int, depth: int, **others) -> TileQuestion:
    return TileQuestion((rows, columns, depth), 1, 2, (False,), scaled_depth=128, scaled=True, **others)


def chosen(question: TileQuestion, shape: TileShape, wanted: Wanted | None = None) -> tuple[int, int]:
    reasons: list[str] = []
    cluster = choose_cluster(rates_of(HOPPER, 1), shape, question, HOPPER, wanted or Wanted(), reasons)
    assert len(reasons) == 1 and reasons[0].startswith(f"cluster {cluster[0]}x{cluster[1]}")
    return cluster


@pytest.mark.parametrize(
    ("shape", "depth", "pairs"),
    [
        *((SQUARE, depth, depth > 4096) for depth in (2048, 4096, 8192, 16384)),
        *((TALL, depth, depth > 5120) for depth in (512, 2048, 5120, 7168, 16384)),
    ],
)
def test_pairs_share_scaled_slices_where_they_were_measured_to_be_quicker(shape, depth, pairs):
    assert chosen(scaled(4096, 7168, depth), shape) == ((1, 2) if pairs else (1, 1))


def test_pairs_that_take_a_wave_more_are_not_made_so():
    # 264 tiles are two waves; 33 columns of them are 34 of pairs', which would take three.
    assert chosen(scaled(8 * 128, 33 * 128, 16384), SQUARE) == (2, 1)
    assert chosen(scaled(3 * 128, 87 * 128, 16384), SQUARE) == (1, 2)
    # 525 tiles are four waves; 26 columns or 22 rows would take five.
    assert chosen(scaled(21 * 128, 25 * 128, 16384), SQUARE) == (1, 1)


@pytest.mark.parametrize(
    ("question", "shape", "wanted"),
    [
        (scaled(1024, 1024, 16384), SQUARE, Wanted()),
        (scaled(4096, 7168, 16384, batch=2), SQUARE, Wanted()),
        (scaled(4096, 7168, 16384, products=2), SQUARE, Wanted()),
        (scaled(4096, 7168, 16384), TileShape(128, 128, 128, 2, split=2), Wanted()),
        (scaled(4096, 7168, 16384), SQUARE, Wanted(unmapped="threads")),
        (TileQuestion((4096, 7168, 16384), 1, 2, (False,), scaled_depth=128), SQUARE, Wanted()),
        (TileQuestion((4096, 7168, 16384), 2, 2, (False,)), TileShape(128, 256, 64, 2), Wanted()),
    ],
    ids=["one wave", "batch", "two products", "split", "copied by threads", "not scaled", "16 bits"],
)
def test_everything_else_is_left_to_single_ctas(question, shape, wanted):
    assert chosen(question, shape, wanted) == (1, 1)


def test_a_wish_is_granted_whatever_is_expected():
    assert chosen(scaled(4096, 7168, 512), SQUARE, Wanted(cluster=(2, 1))) == (2, 1)
    assert chosen(scaled(4096, 7168, 16384), SQUARE, Wanted(cluster=(1, 1))) == (1, 1)


@pytest.mark.parametrize(
    ("swapped", "cluster", "spared"),
    [(True, (1, 4), "memory"), (True, (4, 1), "L2 cache"), (False, (1, 4), "L2 cache"), (False, (4, 1), "memory")],
)
def test_it_is_said_who_is_spared_by_a_shared_load(swapped: bool, cluster: tuple[int, int], spared: str) -> None:
    question = TileQuestion((200, 8192, 4096), 2, 2, (False,), turnable=True)
    shape = TileShape(64, 64, 64, 1, swapped, cluster=cluster)
    assert choose_cluster(RATES, shape, question, HOPPER, Wanted(), reasons := []) == cluster
    assert spared in reasons[0]
