"""Derivations between views that are equal: found, replayed, and none where views differ."""

from __future__ import annotations

import random

from tilewright.layout.view.derivation import common_form, derive
from tilewright.layout.view.rewrite import Choices, replay, successors
from tilewright.layout.view.tiled_view import Dimension, TiledView

CHOICES = Choices(factor=(2, 3, 4, 8, 16), pieces=(2, 4), element=(1, 2, 4, 8))


def walk(draw: random.Random, view: TiledView, length: int) -> TiledView:
    """A view `length` random steps from `view`."""
    for _ in range(length):
        found = [after for _, after in successors(view, CHOICES)]
        if not found:
            break
        view = draw.choice(found)
    return view


def random_view(draw: random.Random) -> TiledView:
    """A view without overlap: a dense or padded tensor, its dimensions in any order, cut into tiles."""
    width = draw.choice((1, 2, 4, 8))
    stride, dimensions = width, list[Dimension]()
    for _ in range(draw.randint(1, 4)):
        extent = draw.choice((2, 3, 4, 6, 8, 16, 24))
        box = draw.choice([b for b in range(1, extent + 1) if extent % b == 0])
        dimensions.append(Dimension(extent, stride, box, 1, draw.choice((box, extent))))
        stride = stride * extent + draw.choice((0, 0, 0, 16))
    draw.shuffle(dimensions)
    return TiledView(tuple(dimensions), 0, width)


def test_what_steps_lead_to_is_derived() -> None:
    draw = random.Random(3)
    for _ in range(300):
        source = random_view(draw)
        goal = walk(draw, source, draw.randint(0, 6))
        steps = derive(source, goal)
        assert steps is not None, (source, goal)
        assert replay(source, steps) == goal


def test_a_derivation_has_no_detour() -> None:
    source = TiledView((Dimension(64, 2, 64, 1, 64), Dimension(32, 128, 8, 1, 8)), 0, 2)
    assert derive(source, source) == ()
    swapped = source._replace(dimensions=source.dimensions[::-1])
    steps = derive(source, swapped)
    assert steps is not None
    views = [replay(source, steps[:count]) for count in range(len(steps) + 1)]
    assert len(set(views)) == len(views)


def test_views_that_differ_have_no_derivation() -> None:
    source = TiledView((Dimension(64, 2, 32, 1, 32), Dimension(32, 128, 8, 1, 8)), 0, 2)
    inner, outer = source.dimensions
    for other in (
        source._replace(offset_bytes=16),
        source._replace(dimensions=(inner, outer._replace(box=4, step=4))),
        source._replace(dimensions=(inner._replace(step=16), outer)),
        source._replace(dimensions=(inner, outer._replace(stride_bytes=144))),
    ):
        assert derive(source, other) is None


def test_the_common_form_is_joined_as_far_as_it_goes() -> None:
    source = TiledView((Dimension(8, 2, 8, 1, 8), Dimension(4, 16, 4, 1, 4), Dimension(1, 7, 1, 1, 1)), 0, 2)
    assert common_form(source, 2, False).dimensions == (Dimension(32, 2, 32, 1, 32),)
    assert common_form(source, 1, False).dimensions == (Dimension(64, 1, 64, 1, 64),)
