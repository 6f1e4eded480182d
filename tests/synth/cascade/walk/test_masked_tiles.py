"""Tiles that masks leave nothing of, against each element's mask."""

import numpy as np
import pytest
from tests.synth.cascade.masked_programs import LEFT, UNMASKED

from tilewright.base.element import Element
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade_facts import cascade_axes
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cascade.walk.masked_tiles import empty_tiles
from tilewright.targets import target


def empty(kernel, rows, columns, tile_rows=128, tile_columns=64):
    elements = {each.name: Element.BF16 for each in kernel.parameters}
    module = trace(kernel, {"Q": rows, "T": columns, "E": 64, "F": 64}, elements)
    program = the_program(walked(module, target("sm_90a")))
    return empty_tiles(program, cascade_axes(program), tile_rows, tile_columns)


def by_tiles(mask, tile_rows=128, tile_columns=64):
    """Whether anything is left, tile by tile."""
    rows, columns = (
        -(-extent // size) * size for extent, size in zip(mask.shape, (tile_rows, tile_columns), strict=True)
    )
    whole = np.zeros((rows, columns), bool)
    whole[: mask.shape[0], : mask.shape[1]] = mask
    return whole.reshape(rows // tile_rows, tile_rows, columns // tile_columns, tile_columns).any(axis=(1, 3))


@pytest.mark.sample(7)
@pytest.mark.parametrize("extents", [(512, 512), (300, 700), (129, 65), (1000, 130)])
@pytest.mark.parametrize("kernel", LEFT, ids=lambda kernel: kernel.name)
def test_tiles_without_an_element_are_empty_and_others_are_not(kernel, extents):
    rows, columns = extents
    mask = np.asarray(LEFT[kernel](np.arange(rows)[:, None], np.arange(columns)[None, :])) & np.ones(extents, bool)
    found = empty(kernel, rows, columns)
    wanted = ~by_tiles(mask)
    assert np.array_equal(found, wanted) if found is not None else not wanted.any()


@pytest.mark.parametrize("kernel", UNMASKED, ids=lambda kernel: kernel.name)
def test_nothing_is_left_out_where_masked_elements_count(kernel):
    assert empty(kernel, 512, 512) is None
