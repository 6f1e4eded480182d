"""Storages: the fewest padded bytes against all pitches of small tensors, and shapes that occur."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from tilewright.layout.view.descriptor_limits import DescriptorLimits, faults
from tilewright.layout.view.rewrite import replay
from tilewright.layout.view.strided_view import StridedView
from tilewright.layout.view.term import Buffer, PadExtent, Rewritten, Term, Tiled, denote
from tilewright.layout.view.tiled_view import tiled
from tilewright.solve.saturate import legal_forms
from tilewright.solve.stored_forms import stored_forms

SMALL = DescriptorLimits(
    rank_max=3,
    extent_max=64,
    stride_multiple_bytes=4,
    stride_limit_bytes=1 << 12,
    offset_multiple_bytes=4,
    box_max=4,
    inner_multiple_bytes=4,
    element_bytes=(1, 2, 4),
    row_bytes_wanted=4,
)
GPU = DescriptorLimits(box_bytes_max=232448)


def dense(extents: tuple[int, ...], width: int, pitches: tuple[int, ...] = ()) -> StridedView:
    """Dimension 0 innermost; pitches: bytes added to the stride of each dimension around it."""
    strides = [width]
    for axis, extent in enumerate(extents[:-1]):
        strides.append(strides[-1] * extent + (pitches[axis] if pitches else 0))
    return StridedView(extents, tuple(strides), 0, width)


def fewest_padded_bytes(extents: tuple[int, ...], width: int, tile: tuple[int, ...]) -> int | None:
    """Over every pitch up to 7 bytes longer, in whole elements: the fewest bytes with which some form is legal."""
    plain = dense(extents, width)
    found: list[int] = []
    for pitches in product(range(0, 8, width), repeat=len(extents) - 1):
        view = dense(extents, width, pitches)
        added = view.end_byte - plain.end_byte
        if found and added >= min(found):
            continue
        if legal_forms(view, tile, SMALL, max_nodes=6000).forms:
            found.append(added)
    return min(found, default=None)


def small_tensors() -> Iterator[tuple[tuple[int, ...], int, tuple[int, ...]]]:
    for extents, width in product(
        ((3, 4), (6, 4), (2, 3, 4), (3, 2, 4), (5, 3), (4, 3, 2), (6, 6), (3, 6), (5, 2, 4)), (1, 2)
    ):
        for tile in product(*({1, extent} | {d for d in (2, 4) if extent % d == 0} for extent in extents)):
            yield extents, width, tile


def test_no_pitches_pad_less() -> None:
    compared = 0
    for extents, width, tile in small_tensors():
        found = stored_forms(dense(extents, width), tile, SMALL, copied=False, max_nodes=6000)
        fewest = fewest_padded_bytes(extents, width, tile)
        if fewest is None:
            continue
        compared += fewest > 0
        assert found.forms, (extents, width, tile, fewest)
        # A longer outermost dimension may cost less than any pitch.
        assert found.forms[0].padded_bytes <= fewest, (extents, width, tile, found)
    assert compared >= 20


def pieces_of(storage: Term) -> list[str]:
    """The names of what is done to the buffer, outermost first."""
    return [] if isinstance(storage, Buffer) else [type(storage).__name__, *pieces_of(storage.of)]


@pytest.mark.parametrize(
    ("view", "tile", "pieces", "padded_bytes"),
    [
        (StridedView((4096, 100), (2, 8192), 0, 2), (64, 64), [], 0),
        (StridedView((100, 4096), (2, 200), 0, 2), (100, 64), [], 0),
        (StridedView((100, 4096), (2, 200), 0, 2), (64, 64), ["PadPitch"], 4095 * 8),
        (StridedView((50257, 768), (2, 100514), 0, 2), (64, 128), ["PadPitch"], 767 * 14),
        (StridedView((7, 7, 512), (2, 14, 98), 0, 2), (7, 7, 64), [], 0),
        (StridedView((768, 50257), (100514, 2), 0, 2), (128, 64), ["PadPitch"], 767 * 14),
        (StridedView((2048, 64), (4, 8192), 0, 2), (64, 64), ["Copied"], 0),
        (StridedView((4096, 100), (2, 8192), 8, 2), (64, 64), ["Copied"], 0),
    ],
)
def test_storages_of_real_shapes(
    view: StridedView, tile: tuple[int, ...], pieces: list[str], padded_bytes: int
) -> None:
    found = stored_forms(view, tile, GPU)
    assert found.complete
    best = found.forms[0]
    assert pieces_of(best.storage) == pieces
    assert best.padded_bytes == padded_bytes
    # What is answered is what the term means, rewritten by the form's steps, evaluated afresh.
    meaning = denote(best.storage)
    assert meaning is not None
    assert best.form.source == tiled(meaning.view, tile)
    term: Term = Tiled(best.storage, tile)
    for step in best.form.steps:
        term = Rewritten(term, step)
    rewritten = denote(term)
    assert rewritten is not None
    assert rewritten.tiles == replay(best.form.source, best.form.steps)
    assert not faults(best.form.view, GPU)


def test_a_longer_dimension_is_offered_beside_many_copies() -> None:
    # 4097 rows of 100: no run of 16 bytes divides them all, so the tile takes 32 copies as it stands. One row more, and
    # they are runs of two rows, of which the tile is 32.
    found = stored_forms(StridedView((100, 4097), (2, 200), 0, 2), (100, 64), GPU)
    assert [type(one.storage) for one in found.forms] == [Buffer, PadExtent]
    assert found.forms[0].form.copies > found.forms[1].form.copies == 1
    assert found.forms[1].padded_bytes == 200


def test_no_copy_where_none_is_allowed() -> None:
    found = stored_forms(StridedView((2048, 64), (4, 8192), 0, 2), (64, 64), GPU, copied=False)
    assert not found.forms
    assert found.complete
