"""Tiles as layouts: how lanes walk over them, the same wavefronts by layout and by placement, and the way back."""

import numpy as np
import pytest

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible, expect
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import Swizzle
from tilewright.legal.bank.bank_linear import layout_wavefronts
from tilewright.legal.bank.placement import Digit, positions
from tilewright.legal.bank.swizzle_choice import choose_placement, judge_placements
from tilewright.legal.bank.tile_access import AccessOrder, TileAccess, access_layout, placement_layout, tile_buffer


def counted(layout: Layout, access: TileAccess, element_bytes: int, target: str = "sm_90a") -> int:
    return layout_wavefronts(access.kind, expect(access_layout(layout, access, element_bytes)), target, element_bytes)


ROW_MAJOR = Layout((64, 64), (64, 1))
SWIZZLED = Layout((64, 64), (64, 1), 0, Swizzle(3, 3, 3))


def test_a_tile_of_bf16_read_by_ldmatrix_and_written_by_rows() -> None:
    for access, plain, best in (
        (TileAccess("ldmatrix.x4"), 64 * 8, 64),
        (TileAccess("st.shared.b128", "rows"), 64, 64),
        (TileAccess("ld.shared.b128", "columns"), 64 * 8, 64),
        (TileAccess("ld.shared.b16", "columns"), 32 * 128, 4 * 128),
    ):
        assert (counted(ROW_MAJOR, access, 2), counted(SWIZZLED, access, 2)) == (plain, best)


def test_the_layout_s_own_order_is_its_leftmost_mode_first() -> None:
    by_columns = expect(access_layout(ROW_MAJOR, TileAccess("ld.shared.b128"), 2))
    assert [by_columns(lane) for lane in (0, 1, 63, 64)] == [0, 64, 63 * 64, 8]
    by_rows = expect(access_layout(ROW_MAJOR, TileAccess("ld.shared.b128", "rows"), 2))
    assert [by_rows(lane) for lane in (0, 1, 7, 8)] == [0, 8, 56, 64]


@pytest.mark.parametrize("order", ["layout", "rows", "columns"])
@pytest.mark.parametrize(
    ("layout", "kind", "element_bytes", "target"),
    [
        (Layout((64, 64), (64, 1)), "ldmatrix.x2", 2, "sm_90a"),
        (Layout((32, 16), (1, 32)), "ld.shared.b64", 4, "sm_90a"),
        (Layout(((8, 4), (16, 2)), ((16, 128), (1, 512))), "st.shared.b128", 4, "sm_90a"),
        (Layout((96, 32), (32, 1)), "ld.shared.b64", 2, "sm_90a"),
        (Layout((64, 32), (32, 1)), "ds_read_b128", 2, "gfx942"),
    ],
)
def test_every_placement_costs_what_its_layout_takes(
    layout: Layout, kind: str, element_bytes: int, target: str, order: AccessOrder
) -> None:
    access = TileAccess(kind, order)
    buffer = expect(tile_buffer(layout, (access,), element_bytes, target))
    assert buffer.bytes == layout.size * element_bytes
    walked = expect(access_layout(layout, access, element_bytes))
    seen = 0
    for judged in judge_placements(buffer, target)[::4]:
        placed = placement_layout(judged.placement, buffer, element_bytes)
        if isinstance(placed, NotExpressible):
            continue
        # The same walk over the tile, by what the placement makes of each element's row and column.
        rows, columns = positions((*buffer.accesses[0].lanes, *buffer.accesses[0].loops))
        assert len(rows) == walked.size
        addresses = judged.placement.addresses(rows, columns, buffer)
        through = [
            placed(row, column) for row, column in zip(rows.tolist(), (columns // element_bytes).tolist(), strict=True)
        ]
        assert (addresses == np.array(through) * element_bytes).all()
        seen += 1
    assert seen > 4


def test_the_tile_of_a_transpose_from_its_layout_to_its_swizzle() -> None:
    layout = Layout((32, 32), (32, 1))
    accesses = (TileAccess("st.shared.b32", "rows"), TileAccess("ld.shared.b32", "columns"))
    buffer = expect(tile_buffer(layout, accesses, 4, "sm_90a"))
    choice = choose_placement(buffer, "sm_90a")
    best = expect(placement_layout(choice.best.placement, buffer, 4))
    assert str(best) == "Sw<5,0,5> o 0 o (32,32):(32,1)"
    assert [counted(best, access, 4) for access in accesses] == list(choice.best.by_access) == [32, 32]
    assert [counted(layout, access, 4) for access in accesses] == list(choice.plain.by_access) == [32, 1024]


def test_panels_of_the_copy_engine_as_a_layout() -> None:
    buffer = expect(tile_buffer(Layout((64, 128), (128, 1)), (TileAccess("ldmatrix.x4"),), 2, "sm_90a", ("tma",)))
    best = choose_placement(buffer, "sm_90a").best.placement
    assert str(expect(placement_layout(best, buffer, 2))) == "Sw<3,3,3> o 0 o (64,(64,2)):(64,(1,4096))"


def test_rows_by_the_strides_of_the_other_leaves() -> None:
    """A tile stored column by column has columns for rows."""
    buffer = expect(tile_buffer(Layout((16, 8), (1, 16)), (TileAccess("ld.shared.b32"),), 4, "sm_90a"))
    assert (buffer.rows, buffer.row_bytes) == (8, 64)
    assert buffer.accesses[0].lanes == (Digit(16, 0, 4), Digit(2, 1))
    assert buffer.accesses[0].loops == (Digit(4, 2),)


@pytest.mark.parametrize(
    ("layout", "kind", "reason"),
    [
        (Layout((8, 8), (16, 2)), "ld.shared.b128", "0 leaves of stride 1"),
        (Layout((32, 12), (12, 1)), "ld.shared.b128", "no whole vectors"),
        (Layout((24, 4), (4, 1)), "ld.shared.b64", "do not part"),
        (Layout((32, 4), (0, 1)), "ld.shared.b64", "stride 0"),
    ],
)
def test_what_has_no_such_tile_says_why(layout: Layout, kind: str, reason: str) -> None:
    found = tile_buffer(layout, (TileAccess(kind),), 2, "sm_90a")
    assert isinstance(found, NotExpressible) and reason in found.reason


def test_lanes_that_move_no_whole_element_are_an_error() -> None:
    with pytest.raises(TilewrightError, match="no whole elements of 8"):
        access_layout(ROW_MAJOR, TileAccess("ld.shared.b32"), 8)
    with pytest.raises(TilewrightError, match="no order of lanes"):
        access_layout(ROW_MAJOR, TileAccess("ld.shared.b32", "diagonal"), 2)  # pyright: ignore[reportArgumentType]
