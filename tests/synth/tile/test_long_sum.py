"""Few tiles of long sums: when the contracted axis is shared, by how many CTAs, and what is left as it was."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synth.walked_products import HOPPER, decided_product, ring_slots

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.synth.distribution.split import clusters_at_once
from tilewright.synth.tile.long_sum import long_sum_shape, parameters_of, stages_of, sum_cycles
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.synth.tile.wanted import Wanted


@pytest.mark.parametrize("kind", [Element.BF16, Element.F16])
@pytest.mark.parametrize("strides", [None, {}], ids=["columns of b", "rows of b"])
@pytest.mark.parametrize(("m", "n", "k"), [(256, 256, 16384), (192, 384, 8192), (1024, 1024, 16384), (48, 48, 28672)])
def test_long_sums_of_few_tiles_are_shared(m, n, k, strides, kind):
    """Unshared, each sum runs along the whole contracted axis; its error grows with its length."""
    plan = decided_product(m, n, k, kind=kind, strides=strides)
    assert plan.shares > 1 and plan.stream is None
    assert plan.ctas <= plan.split * clusters_at_once(plan.split, HOPPER)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(512, 512, 2048), (1024, 1024, 1024), (4096, 4096, 16384), (16, 14336, 4096)]
)
def test_short_sums_and_many_tiles_are_not(m, n, k):
    assert decided_product(m, n, k).shares == 1


def test_a_wish_is_not_overruled():
    assert decided_product(256, 256, 16384, split=1).shares == 1
    assert decided_product(256, 256, 16384, tile=(64, 8)).split == 1
    assert ring_slots(decided_product(256, 256, 16384, stages=3)) == 3
    assert decided_product(256, 256, 16384, tile=(64, 32), split=16).split == 16
    assert decided_product(256, 256, 16384, teams=3).teams == 3
    for wish in ({"teams": 0}, {"teams": 9}, {"teams": 2, "cluster": (2, 1)}, {"teams": 2, "turns": True}):
        with pytest.raises(TilewrightError) as refused:
            decided_product(256, 256, 16384, **wish)
        assert refused.value.remedy


def test_a_grid_of_teams_fits_at_once():
    """However many tiles there are: who waits for others runs beside them."""
    plan = decided_product(4096, 4096, 1024, tile=(128, 128), teams=2, split=4)
    assert plan.ctas == 4 * clusters_at_once(4, HOPPER)


def test_other_products_are_left_as_they_were():
    shape, reasons = TileShape(64, 8, 128, 1), list[str]()
    for question in (
        TileQuestion((256, 256, 16384), 2, 2, (False,), products=2),
        TileQuestion((256, 256, 16384), 2, 2, (False,), batch=3),
        TileQuestion((256, 256, 16384), 1, 2, (False,)),
        TileQuestion((256, 256, 16384), 1, 2, (False,), scaled_depth=128, scaled=True),
        TileQuestion((256, 256, 1024), 2, 2, (False,)),
        TileQuestion((1, 4096, 16384), 2, 2, (False, True)),
    ):
        assert long_sum_shape(question, shape, HOPPER, Wanted(), reasons) is shape
    assert not reasons
    assert long_sum_shape(TileQuestion((256, 256, 16384), 2, 2, (False,)), shape, HOPPER, Wanted(), reasons) != shape
    assert len(reasons) == 1 and "shared by" in reasons[0]


def test_the_model_prices_meetings_waves_and_bytes():
    p = parameters_of(HOPPER)

    def cycles(extents: tuple[int, int, int], shape: TileShape) -> float:
        question = TileQuestion(extents, 2, 2, (False,))
        return sum_cycles(p, question, shape, stages_of(shape, question, HOPPER), HOPPER)

    def tile(columns: int, split: int) -> TileShape:
        return TileShape(64, columns, 64, 1, split=split)

    # Longer sums take longer, and gain more by being shared.
    assert cycles((256, 256, 16384), tile(64, 4)) < 0.6 * cycles((256, 256, 16384), tile(64, 1))
    assert cycles((256, 256, 256), tile(64, 4)) > cycles((256, 256, 256), tile(64, 1))
    # One cluster more than run at once is a wave more.
    most = clusters_at_once(8, HOPPER)
    assert cycles((64, 64 * most, 8192), tile(64, 8)) * 1.3 < cycles((64, 64 * (most + 1), 8192), tile(64, 8))
    assert [clusters_at_once(ctas, HOPPER) * ctas <= 132 for ctas in (1, 2, 4, 8, 16)] == [True] * 5


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 1500), st.integers(1, 1500), st.integers(2048, 40000), st.booleans())
def test_any_long_sum_fits(m, n, k, rows_of_b):
    plan = decided_product(m, n, k, strides={} if rows_of_b else None)
    assert plan.smem_bytes <= HOPPER.limit("cta.shared_bytes_max") and ring_slots(plan) >= 2
    assert plan.ctas % plan.cluster_ctas == 0
