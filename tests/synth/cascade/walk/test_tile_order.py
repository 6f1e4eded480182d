"""Orders of tiles whose walks have different lengths: no order that leaves a CTA more than the plain one does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lower.cascade_programs import attention, causal
from tests.lower.lowered_programs import lower

from tilewright.ir.cascade import RASTER_GROUP, Line, WalkRange, walked_part
from tilewright.ir.tile.order import matrix_of, place_in_order, taken
from tilewright.synth.cascade.walk.tile_order import TakenOrder, order_of_walks
from tilewright.targets import target

HOPPER = target("sm_90a")
CACHE = HOPPER.limit("device.l2_bytes")
CAUSAL = Line(0, 0, 1), Line(1, 1, 1)


def longest_share(walked, most, tiles, places, ctas, together):
    """The iterations of the CTA that has most, and one for each tile, counted tile by tile."""
    count = tiles[0] * tiles[1]
    shares = []
    for cta in range(ctas):
        own = [
            matrix_of(number, count, together or None, places)
            for number in taken(cta, ctas, count * places, together or None)
        ]
        rows = [place_in_order(tile, *tiles, RASTER_GROUP)[0] for _, tile in own]
        shares.append(sum(1 + walked_part(walked.begin, walked.end, most, row)[1] for row in rows))
    return max(shares)


def chosen(walked, most, tiles, places, ctas, place_bytes=1, handed: bool | None = False):
    lengths = [[walked_part(walked.begin, walked.end, most, row)[1]] for row in range(tiles[0])]
    return order_of_walks(lengths, tiles, RASTER_GROUP, places, place_bytes, ctas, HOPPER, handed)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(0, 2), st.integers(-3, 3), st.integers(1, 3)),
    st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(1, 3)),
    st.tuples(st.integers(1, 9), st.integers(1, 2)),
    st.integers(1, 12),
    st.one_of(st.integers(1, 12), st.integers(16, 34)),
)
def test_no_share_is_longer_than_in_the_plain_order(begin, end, tiles, places, ctas):
    walked = WalkRange(Line(*begin), Line(*end), 9)
    found = chosen(walked, 9, tiles, places, ctas)
    assert found.together <= places
    assert ctas - ctas // 16 <= found.ctas <= ctas
    shares = {
        (each, few): longest_share(walked, 9, tiles, places, few, each)
        for each in range(places + 1)
        for few in range(ctas, ctas - ctas // 16 - 1, -1)
    }
    best, full = min(shares.values()), min(share for (_, few), share in shares.items() if few == ctas)
    wanted = best if 32 * (full - best) > full else full
    assert shares[found.together, found.ctas] == wanted
    assert (found.together, found.ctas) == next(
        each for each, share in shares.items() if share == wanted and (wanted == best or each[1] == ctas)
    )


def test_heads_of_a_causal_mask_are_taken_together():
    walked = WalkRange(*CAUSAL, 32)
    order = chosen(walked, 32, (32, 1), 64, 132)
    plain, found = (longest_share(walked, 32, (32, 1), 64, *each) for each in ((132, 0), (order.ctas, order.together)))
    # 64 heads of 2 + 3 + ... + 33 tiles are 272 for each CTA.
    assert order.together > 0 and found <= 1.02 * 272 < 1.1 * 272 <= plain


def test_fewer_ctas_take_tiles_whose_rounds_would_drift():
    # 128 tiles of a place for 132 CTAs: each round begins four tiles later, and shares differ by half.
    order = chosen(WalkRange(Line(0, 0, 1), Line(1, 1, 1), 128), 128, (128, 1), 16, 132, place_bytes=CACHE // 8)
    assert order == TakenOrder(1, 128)
    walked = WalkRange(Line(0, 0, 1), Line(1, 1, 1), 128)
    assert longest_share(walked, 128, (128, 1), 16, 128, 1) == 16 * 128 * 131 // 2 // 128
    assert longest_share(walked, 128, (128, 1), 16, 132, 1) > 1.4 * 16 * 128 * 131 // 2 // 128


def test_tiles_of_one_length_and_tiles_with_ctas_of_their_own_stay_in_the_plain_order():
    assert chosen(WalkRange(Line(0, 0, 1), Line(0, 5, 1), 5), 8, (32, 1), 64, 132) == TakenOrder(0, 132)
    assert chosen(WalkRange(*CAUSAL, 32), 32, (32, 1), 4, 128) == TakenOrder(0, 128)


@pytest.mark.parametrize(("places", "ctas", "handed"), [(4, 128, False), (16, 148, True), (64, 148, False)])
def test_tiles_are_handed_out_where_that_saves_more_than_a_32nd(places, ctas, handed):
    walked = WalkRange(*CAUSAL, 64)
    order, dealt = (chosen(walked, 64, (64, 1), places, ctas, CACHE // 4, each) for each in (None, False))
    assert (order.handed, dealt.handed) == (handed, False)
    # Who is done first takes the next tile.
    free = [0] * ctas
    for number in range(64 * places):
        row = place_in_order(matrix_of(number, 64, order.together or None, places)[1], 64, 1, RASTER_GROUP)[0]
        free[free.index(min(free))] += row + 2
    share = longest_share(walked, 64, (64, 1), places, dealt.ctas, dealt.together)
    assert (32 * (share - max(free)) > share) == handed
    assert chosen(walked, 64, (64, 1), places, ctas, CACHE // 4, handed=True).handed


@pytest.mark.parametrize("share", [1, 4, 16])
def test_places_that_are_taken_together_fit_the_cache(share):
    together = chosen(WalkRange(*CAUSAL, 32), 32, (32, 1), 64, 132, place_bytes=CACHE // share).together
    assert together * (CACHE // share) <= max(CACHE // 2, CACHE // share)


def test_decisions_take_tiles_together_where_walks_differ():
    dims = {"B": 64, "Q": 4096, "T": 4096, "E": 64, "F": 64}
    decisions = lower(causal, dims).decisions
    assert decisions.together > 0
    assert any("together" in reason for reason in decisions.reasons)
    dims = {"B": 1, "H": 64, "Q": 1024, "T": 1024, "E": 64, "F": 64}
    assert lower(attention, dims).decisions.together == 0
