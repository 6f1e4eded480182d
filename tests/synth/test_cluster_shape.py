"""How clusters that share loads take their tiles."""

import pytest
from tests.synth.test_decide import decided, matmul

from tilewright.ir.decisions import PipelineDecisions
from tilewright.synth.cluster_shape import taken_by_clusters
from tilewright.synth.model import rates_of
from tilewright.synth.wanted import Wanted
from tilewright.targets import target

RATES = rates_of(target("sm_90a"))


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
    assert isinstance(plan, PipelineDecisions)
    rows = plan.raster_group * plan.cluster_m * plan.tile_m
    columns = plan.ctas * plan.tile_m * plan.tile_n / rows
    assert 0.85 < rows / columns < 1.18
