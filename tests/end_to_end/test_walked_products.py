"""Plain products by the general generator: proved twice, and the CPU machine's numbers are NumPy's."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.end_to_end.walked_programs import batched, check_numbers, finished, walked

from tilewright.driver.compile.kernels import matmul_kernel


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("dims", "options", "boxed"),
    [
        # Tiles in turn, of which each CTA has several and the last ones reach past the ends; two lengths of boxes.
        ({"M": 300, "N": 272, "K": 200}, {"tile": (128, 136), "turns": True}, True),
        ({"M": 260, "N": 392, "K": 136}, {"tile": (128, 128), "strides": {"b": (1, 136)}}, True),
        # Consumers of two blocks of rows; rows of 70 elements, which no box ends at.
        ({"M": 300, "N": 70, "K": 72}, {"tile": (256, 64), "strides": {"b": (1, 72)}}, False),
        ({"M": 64, "N": 64, "K": 64}, {}, True),
        # Transposed: the result lies along the tile's rows; in turn, by boxes of two lengths.
        ({"M": 260, "N": 264, "K": 200}, {"tile": (128, 72), "turns": True, "swapped": True}, True),
        ({"M": 20, "N": 392, "K": 136}, {"strides": {"b": (1, 136)}}, True),
    ],
)
def test_products(dims: Mapping[str, int], options: dict[str, Any], boxed: bool) -> None:
    compilation, decisions = walked(matmul_kernel, dims, **options)
    assert bool(decisions.stores) is boxed
    assert decisions.turns == int(options.get("turns", False))
    check_numbers(compilation)


def test_an_epilogue_leaves_in_boxes_of_its_own_element() -> None:
    compilation, decisions = walked(finished, {"M": 130, "N": 72, "K": 100 + 4})
    assert [each.map.element for each in decisions.stores] == ["f32"]
    assert decisions.programmatic  # what threads load, they load behind slots, of which they know of the launch before
    check_numbers(compilation)


def test_matrices_of_a_batch_have_a_coordinate_of_their_own() -> None:
    compilation, decisions = walked(batched, {"B": 3, "M": 70, "N": 72, "K": 64}, tile=(64, 72))
    assert decisions.batch == ("B",)
    assert [len(each.map.dims) for each in decisions.stores] == [3]
    check_numbers(compilation)


def test_a_result_that_begins_anywhere_is_stored_by_threads() -> None:
    _, decisions = walked(matmul_kernel, {"M": 64, "N": 64, "K": 64}, misaligned=("c",))
    assert not decisions.stores
    assert decisions.rows_bytes


def test_few_rows_are_the_columns_of_a_tile() -> None:
    """As many blocks of 64 rows as `wgmma` takes would be empty otherwise."""
    _, few = walked(matmul_kernel, {"M": 12, "N": 4096, "K": 256}, strides={"b": (1, 256)})
    _, many = walked(matmul_kernel, {"M": 2048, "N": 4096, "K": 256}, strides={"b": (1, 256)}, swapped=False)
    assert (few.row, few.column, [each.turned for each in few.stores]) == ("N", "M", [1])
    assert (many.row, many.column, [each.turned for each in many.stores]) == ("M", "N", [0])


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "options", [{}, {"strides": {"b": (1, 512)}}, {"swapped": True, "cluster": (1, 2)}, {"tile": (64, 64)}]
)
def test_the_first_slices_are_asked_for_before_the_launch_before_has_ended(options: dict[str, Any]) -> None:
    compilation, decisions = walked(matmul_kernel, {"M": 64, "N": 128, "K": 512}, prefetch=4, **options)
    assert decisions.prefetch == 4
    before, after = compilation.ptx.split("griddepcontrol.wait")
    assert "cp.async.bulk.prefetch.tensor" in before and "cp.async.bulk.prefetch.tensor" not in after
    check_numbers(compilation)


def test_nothing_is_asked_for_where_that_takes_longer_than_it_saves() -> None:
    """As the template has it: of operands alike in size, and of tiles that are cut."""
    _, alike = walked(matmul_kernel, {"M": 1024, "N": 1024, "K": 1024})
    _, thin = walked(matmul_kernel, {"M": 128, "N": 14336, "K": 512})
    _, cut = walked(matmul_kernel, {"M": 1792, "N": 1280, "K": 2048}, tile=(128, 128), stream_k=True, prefetch=4)
    assert (alike.prefetch, cut.prefetch) == (0, 0) and thin.prefetch > 0
