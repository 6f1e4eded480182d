"""Pictures of layouts: what stands in each cell is what the layout says there."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright.base.error import TilewrightError
from tilewright.driver.views.bank_picture import bank_picture
from tilewright.driver.views.layout_picture import Window, corner, picture
from tilewright.layout import parse_layout
from tilewright.layout.linear.hierarchy import hierarchy
from tilewright.layout.linear.maps import linear_layout
from tilewright.layout.pieces.piecewise import blocked
from tilewright.legal.bank.banks import wavefronts
from tilewright.legal.descriptor.instruction_layout import instruction_layout
from tilewright.report.figures.layout_grid import LayoutGrid
from tilewright.targets import target


def labels(grid: LayoutGrid) -> list[list[str | None]]:
    return [[None if cell is None else cell.label for cell in row] for row in grid.cells]


@pytest.mark.parametrize(
    "text", ["(4,8):(8,1)", "Sw<2,1,3> o 0 o (8,8):(8,1)", "(3,(2,5)):(10,(5,1))", "3 o (2,2):(-1,2)"]
)
def test_a_layout_s_cells_are_its_values(text: str) -> None:
    layout = parse_layout(text)
    for row, cells in enumerate(labels(picture(layout))):
        assert cells == [str(layout(row, column)) for column in range(len(cells))]


def test_a_layout_of_one_part_is_a_row_and_more_parts_go_across() -> None:
    assert labels(picture(parse_layout("3:2"))) == [["0", "2", "4"]]
    deep = parse_layout("(2,3,4):(1,2,6)")
    grid = picture(deep)
    assert (grid.rows, grid.columns) == (2, 12)
    assert labels(grid)[1][7] == str(deep(1, 1, 2))


def test_colours_are_sixteen_bytes_of_a_line_where_elements_have_a_size() -> None:
    grid = picture(parse_layout("(2,64):(64,1)"), element_bytes=2)
    assert [cell.kind for cell in grid.cells[1] if cell] == [column // 8 for column in range(64)]


def test_a_window_of_a_huge_layout_is_drawn_and_the_whole_refused() -> None:
    huge = parse_layout("(1048576,1048576):(1048576,1)")
    grid = picture(huge, Window((5, 7), (3, 4)))
    assert labels(grid) == [[str(5 * 1048576 + 3)], [str(6 * 1048576 + 3)]]
    assert (grid.first_row, grid.rows, grid.columns) == (5, 1 << 20, 1 << 20)
    with pytest.raises(TilewrightError, match="at most") as caught:
        picture(huge)
    assert "--rows" in caught.value.remedy
    assert len(picture(huge, corner(Window(), 8)).cells) == 8


@pytest.mark.parametrize("window", [Window((4, 9)), Window((2, 2)), Window(None, (8, 9))])
def test_a_window_outside_is_an_error(window: Window) -> None:
    with pytest.raises(TilewrightError, match="nothing lies"):
        picture(parse_layout("(4,8):(8,1)"), window)


def test_symbolic_sizes_are_no_picture() -> None:
    with pytest.raises(TilewrightError, match="symbolic"):
        picture(parse_layout("(N,8):(8,1)"))


@pytest.mark.parametrize(
    ("name", "operand"), [("wgmma.m64n16k16", "C"), ("wgmma.m64n24k16", "C"), ("mma.m16n8k16.bf16", "A")]
)
def test_a_fragment_s_cells_name_the_place_that_holds_the_element(name: str, operand: str) -> None:
    found = instruction_layout(name, operand)
    grid = picture(found)
    assert (grid.rows, grid.columns) == tuple(found.layout.output_sizes.values())
    letters = {"register": "R", "lane": "L", "warp": "W"}
    for row, cells in enumerate(labels(grid)):
        for column, label in enumerate(cells):
            assert label is not None
            numbers = {letter: int(number) for letter, number in re.findall(r"([A-Z])(\d+)", label)}
            places = {each: numbers[letters[each]] for each in found.inputs}
            assert found.layout(**places) == {"row": row, "column": column}


def test_elements_that_several_places_hold_name_two_and_count_the_rest() -> None:
    copied = hierarchy({"register": [(2, {"column": 1})], "lane": [(4, {})]}, {"row": 1, "column": 2})
    assert labels(picture(copied)) == [["L0R0 L1R0+2", "L0R1 L1R1+2"]]


def test_elements_that_no_place_holds_are_empty() -> None:
    sparse = linear_layout({"lane": [(0, 2)]}, {"row": 1, "column": 4})
    assert labels(picture(sparse)) == [["L0", None, "L1", None]]


def test_a_map_to_bytes_has_rows_down() -> None:
    found = instruction_layout("tma.swizzle.128B", "shared")
    grid = picture(found)
    assert (grid.row_name, grid.rows, grid.columns) == ("row", 8, 128)
    assert labels(grid)[1][0] == str(128 ^ 16) and labels(grid)[3][20] == str((3 * 128 + 20) ^ 48)


def test_names_that_begin_alike_are_written_out() -> None:
    both = linear_layout({"row": [(1, 0)], "register": [(0, 1)]}, {"x": 2, "y": 2})
    assert labels(picture(both))[1][1] == "register 1 row 1"


def test_pieces_leave_out_where_they_are_not_defined() -> None:
    assert labels(picture(blocked(5, 3))) == [["0", "3"], ["1", "4"], ["2", None]]


@pytest.mark.parametrize(("kind", "stride"), [("ld.shared.b32", 8), ("st.shared.b128", 64), ("ldmatrix.x2", 128)])
def test_the_most_words_of_a_row_are_the_group_s_wavefronts(kind: str, stride: int) -> None:
    addresses = np.arange(32) * stride
    grid = bank_picture(kind, addresses.tolist(), target("sm_90a"))
    most = [max(int(cell.label) for cell in row if cell is not None) for row in grid.cells]
    assert sum(most) == wavefronts(kind, addresses[None, :], "sm_90a")[0]


def test_lanes_that_take_no_part_ask_nothing() -> None:
    grid = bank_picture("ld.shared.b32", [-1] * 31 + [4], target("sm_90a"))
    assert [label for label in labels(grid)[0] if label] == ["1"]
    assert grid.cells[0][1] is not None and grid.cells[0][1].detail == "bank 1: byte 4: lane 31"


def test_loads_in_pairs_say_that_two_groups_are_one() -> None:
    alone = [lane * 8 for lane in range(32)]
    pairs = [lane // 2 * 8 for lane in range(32)]
    captions = [bank_picture("ld.shared.b64", each, target("sm_90a")).caption for each in (alone, pairs)]
    assert "served as one" not in captions[0] and "served as one" in captions[1]
