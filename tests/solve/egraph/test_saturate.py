"""Legal forms: against exhaustive enumeration of descriptors, against plain search, and on shapes that occur."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
import pytest
from tests.layout.view.landing import FILL, landing, tile_starts

from tilewright.layout.view.descriptor_limits import DescriptorLimits, cost, faults
from tilewright.layout.view.rewrite import replay
from tilewright.layout.view.row_starts import why_impossible
from tilewright.layout.view.strided_view import StridedView
from tilewright.layout.view.tiled_view import Dimension, TiledView, tiled
from tilewright.solve.egraph.breadth_first import search_forms
from tilewright.solve.egraph.forms import Form, choices_for
from tilewright.solve.egraph.saturate import legal_forms

SMALL = DescriptorLimits(
    rank_max=3,
    extent_max=16,
    stride_multiple_bytes=4,
    stride_limit_bytes=1 << 12,
    offset_multiple_bytes=4,
    box_max=4,
    inner_multiple_bytes=4,
    element_bytes=(1, 2, 4),
    row_bytes_wanted=8,
)
"""Limits so tight that small views break them, and few enough descriptors to try them all."""


def tiles_of(view: TiledView) -> list[tuple[int, ...]]:
    """Every tile's bytes, sorted, fills last; the tiles sorted."""
    return sorted(
        tuple(sorted(landing(view, start).tolist(), key=lambda at: (at == FILL, at))) for start in tile_starts(view)
    )


def factorizations(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """Every tuple of `count` factors of `number`."""
    if count == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            for rest in factorizations(number // first, count - 1):
                yield (first, *rest)


def some_descriptor(source: TiledView) -> TiledView | None:
    """A legal descriptor of one copy a tile whose tiles are those of `source`, among all that there are; None if none.

    Tiles of `source` lie inside it and cut it up, so that extents and boxes multiply to its elements and tile.
    """
    elements = int(np.prod([d.extent for d in source.dimensions])) * source.element_bytes
    tile = source.tile_bytes
    wanted = tiles_of(source)
    reach = max(max(one) for one in wanted) - source.offset_bytes
    for width in SMALL.element_bytes:
        if elements % width or tile % width:
            continue
        for rank in range(1, SMALL.rank_max + 1):
            for extents in factorizations(elements // width, rank):
                if max(extents) > SMALL.extent_max or (rank > 1 and 1 in extents):
                    continue
                for boxes in factorizations(tile // width, rank):
                    if any(n % b for n, b in zip(extents, boxes, strict=True)) or max(boxes) > SMALL.box_max:
                        continue
                    for strides in strides_reaching(extents[1:], reach - (extents[0] * width - 1)):
                        fields = zip(extents, (width, *strides), boxes, strict=True)
                        view = TiledView(
                            tuple(Dimension(n, s, b, 1, b) for n, s, b in fields), source.offset_bytes, width
                        )
                        if not faults(view, SMALL) and tiles_of(view) == wanted:
                            return view
    return None


def strides_reaching(extents: tuple[int, ...], reach: int) -> Iterator[tuple[int, ...]]:
    """Strides, multiples of the limit's, with which the last index lies `reach` bytes on."""
    if not extents:
        if reach == 0:
            yield ()
        return
    for stride in range(0, reach // (extents[0] - 1) + 1, SMALL.stride_multiple_bytes):
        for rest in strides_reaching(extents[1:], reach - stride * (extents[0] - 1)):
            yield (stride, *rest)


def small_sources(count: int) -> list[TiledView]:
    """Views without overlap, some with gaps, dimensions in any order, cut into tiles that divide them."""
    draw = random.Random(5)
    found: list[TiledView] = []
    while len(found) < count:
        width = draw.choice((1, 2, 2, 4))
        stride, dimensions = width * draw.choice((1, 1, 1, 1, 2)), list[Dimension]()
        for _ in range(draw.choice((1, 2, 2, 3, 3, 4))):
            extent = draw.choice((1, 2, 2, 3, 4, 6))
            box = draw.choice([b for b in range(1, extent + 1) if extent % b == 0])
            dimensions.append(Dimension(extent, stride, box, 1, box))
            stride = stride * extent + draw.choice((0, 0, 0, 2, 4))
        if stride > 150:
            continue
        draw.shuffle(dimensions)
        found.append(TiledView(tuple(dimensions), draw.choice((0, 0, 0, 4, 2)), width))
    return found


@cache
def judged_sources() -> list[tuple[TiledView, TiledView | None]]:
    return [(source, some_descriptor(source)) for source in small_sources(300)]


def strided(source: TiledView) -> StridedView:
    """The view without its tiles."""
    extents, strides = zip(*((each.extent, each.stride_bytes) for each in source.dimensions), strict=True)
    return StridedView(extents, strides, source.offset_bytes, source.element_bytes)


def forms_of(source: TiledView, engine: str) -> tuple[Form, ...]:
    view = strided(source)
    answer = legal_forms(
        view,
        tuple(d.box for d in source.dimensions),
        SMALL,
        steps=tuple(d.step for d in source.dimensions),
        max_nodes=20000 if engine == "egraph" else 3000,
        engine="egraph" if engine == "egraph" else "search",
    )
    return answer.forms


@pytest.mark.full
def test_a_form_is_found_exactly_where_enumeration_finds_a_descriptor() -> None:
    legal = 0
    for source, descriptor in judged_sources():
        forms = [form for form in forms_of(source, "egraph") if form.copies == 1 and not form.widened_bytes]
        assert bool(forms) == (descriptor is not None), (source, descriptor, forms)
        legal += bool(forms)
    # Neither answer is the common one.
    assert 50 < legal < 250


def test_every_form_has_the_tiles_of_its_source() -> None:
    for source, _ in judged_sources():
        for form in forms_of(source, "egraph"):
            exact = replay(form.source, form.steps)
            assert exact is not None
            assert tiles_of(exact) == tiles_of(source)
            assert not faults(form.view, SMALL)
            if form.order == "kept":
                for start in tile_starts(source):
                    assert np.array_equal(landing(exact, form.start(start)), landing(source, start))


def test_what_is_said_to_be_impossible_is() -> None:
    reasons = 0
    for source, descriptor in judged_sources():
        if why_impossible(source, SMALL) is not None:
            reasons += 1
            assert descriptor is None, source
            choices, _ = choices_for(source, SMALL)
            assert not search_forms(source, SMALL, choices, order="any", max_nodes=400, most=1).forms
    assert reasons > 10


def test_egraph_and_plain_search_agree_on_the_cheapest_form_that_keeps_the_order() -> None:
    compared = 0
    for source, _ in judged_sources()[:60]:
        tile, steps = tuple(d.box for d in source.dimensions), tuple(d.step for d in source.dimensions)
        answers = [
            legal_forms(strided(source), tile, SMALL, steps=steps, order="kept", max_nodes=nodes, engine=engine)
            for engine, nodes in (("egraph", 20000), ("search", 2000))
        ]
        if not all(answer.complete for answer in answers):
            continue
        compared += 1
        costs = [answer.forms[0].cost if answer.forms else None for answer in answers]
        assert costs[0] == costs[1], (source, answers)
    assert compared > 30


GPU = DescriptorLimits(box_bytes_max=232448)


def cheapest(view: StridedView, tile: tuple[int, ...], limits: DescriptorLimits = GPU, **options: object) -> Form:
    answer = legal_forms(view, tile, limits, **options)  # pyright: ignore[reportArgumentType]
    assert answer.forms, answer
    form = answer.forms[0]
    assert form.cost == cost(
        form.view, limits, element_bytes=view.element_bytes, tile_bytes=tiled(view, tile).tile_bytes
    )
    return form


def test_rows_of_200_bytes_taken_whole_need_no_padding() -> None:
    # 100 bf16 a row: the stride of 200 bytes is illegal, yet 64 whole rows are one run of 12,800 bytes.
    form = cheapest(StridedView((100, 4096), (2, 200), 0, 2), (100, 64))
    assert form.copies == 1
    assert form.order == "kept"
    assert all(d.stride_bytes % 16 == 0 for d in form.view.dimensions[1:])


def test_a_contiguous_dimension_is_brought_inside() -> None:
    form = cheapest(StridedView((4096, 1024), (2048, 2), 0, 2), (64, 128))
    assert form.order == "any"
    assert form.view.dimensions[0] == Dimension(1024, 2, 128, 1, 128)
    assert form.start((64, 256)) == (256, 64)


def test_six_dimensions_fold_into_five_or_fewer() -> None:
    form = cheapest(StridedView((8, 4, 8, 16, 3, 5), (2, 16, 64, 512, 8192, 24576), 0, 2), (8, 4, 8, 1, 1, 1))
    assert form.view.rank == 1
    assert form.order == "kept"


def test_a_row_wider_than_the_swizzle_becomes_two_dimensions_of_one_copy() -> None:
    limits = DescriptorLimits(inner_bytes_max=128)
    form = cheapest(StridedView((4096, 512), (2, 8192), 0, 2), (256, 64), limits)
    assert form.copies == 1
    assert form.view.dimensions[:2] == (Dimension(64, 2, 64, 1, 64), Dimension(64, 128, 4, 1, 4))


def test_a_row_wider_than_the_swizzle_that_does_not_divide_becomes_two_copies() -> None:
    limits = DescriptorLimits(inner_bytes_max=128)
    form = cheapest(StridedView((4100, 512), (2, 8208), 0, 2), (128, 64), limits)
    assert form.copies == 2
    assert form.order == "blocked"


def test_a_box_of_512_is_one_copy_of_two_dimensions() -> None:
    assert cheapest(StridedView((4096, 4096), (2, 8192), 0, 2), (64, 512)).copies == 1


def test_an_extent_beyond_32_bits_is_split() -> None:
    form = cheapest(StridedView((1 << 36,), (1,), 0, 1), (256,))
    assert all(d.extent <= 1 << 32 for d in form.view.dimensions)


def test_elements_of_16_bytes_are_read_as_narrower_ones() -> None:
    assert cheapest(StridedView((2048, 64), (16, 32768), 0, 16), (64, 64)).view.element_bytes in (1, 2, 4, 8)


def test_a_row_that_is_no_multiple_is_widened_where_all_tiles_begin_at_its_start() -> None:
    form = cheapest(StridedView((100, 4096), (2, 256), 0, 2), (100, 64))
    assert form.view.dimensions[0].box == 104
    assert form.widened_bytes == 4 * 2 * 64


@pytest.mark.parametrize(
    ("view", "tile", "reason"),
    [
        (StridedView((4096, 100), (2, 8192), 8, 2), (64, 64), "first byte, 8,"),
        (StridedView((100, 4096), (2, 200), 0, 2), (64, 64), "200 bytes apart"),
        (StridedView((2048, 64), (4, 8192), 0, 2), (64, 64), "4 bytes apart"),
        (StridedView((4096, 100), (2, 8192), 0, 2), (4, 64), "tiles begin 8 bytes apart"),
    ],
)
def test_no_form_without_a_reason(view: StridedView, tile: tuple[int, ...], reason: str) -> None:
    answer = legal_forms(view, tile, GPU)
    assert answer.complete
    assert not answer.forms
    assert reason in answer.note


def test_a_bound_that_was_reached_is_reported() -> None:
    strides = [8]
    for extent in (4, 6, 4, 6, 4, 6, 4):
        strides.append(strides[-1] * extent * 2)
    order = (7, 3, 1, 0, 5, 2, 6, 4)
    view = StridedView((4, 6, 4, 6, 4, 6, 4, 6), tuple(strides), 0, 8).permute(order)
    answer = legal_forms(view, (2,) * 8, GPU, max_nodes=300)
    assert not answer.complete
    assert "stopped at" in answer.note
    assert answer == legal_forms(view, (2,) * 8, GPU, max_nodes=300)


def test_numbers_beyond_the_engine_are_refused() -> None:
    answer = legal_forms(StridedView((1 << 40, 1 << 30), (2, 1 << 41), 0, 2), (64, 64), GPU)
    assert not answer.complete
    assert "not searched" in answer.note


def test_every_order_of_dimensions_gets_the_same_descriptor() -> None:
    base = StridedView((64, 8, 4, 32), (2, 256, 4096, 65536), 0, 2)
    tile = (64, 8, 1, 4)
    found = set[tuple[Dimension, ...]]()
    for order in product(range(4), repeat=4):
        if len(set(order)) == 4:
            form = cheapest(base.permute(order), tuple(tile[axis] for axis in order))
            found.add(tuple(sorted(form.view.dimensions)))
    assert len(found) == 1
