"""Elements that a wgmma reads are found exactly: against what the copy engine's model puts where a descriptor reads."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.base.element import Element
from tilewright.base.plan import Swizzle, TensorMap
from tilewright.base.span import Span
from tilewright.contract.sums.operand_elements import LoadedBoxes, MatrixPart, NoMatrix
from tilewright.contract.sums.product_trace import ProductTrace
from tilewright.driver.reproof.judge_sums import judge_sums
from tilewright.driver.reproof.program_sums import ArrayAxes, GroupRows, ProgramSums
from tilewright.machine.copy.copy_engine import load_box
from tilewright.machine.core import event as ev
from tilewright.machine.core.memory import GLOBAL_START
from tilewright.machine.tensor_core.wgmma import operand_addresses
from tilewright.targets import target

HOPPER = target("sm_90a")

_CODES: dict[Swizzle, int] = {"none": 0, "128B": 1, "64B": 2, "32B": 3}


def descriptor(start: int, leading: int, stride: int, swizzle: Swizzle) -> int:
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | _CODES[swizzle] << 62


def a_map(rows: int, columns: int, box: tuple[int, int], swizzle: Swizzle) -> TensorMap:
    return TensorMap(Element.BF16, (columns, rows), (2 * columns,), box, swizzle=swizzle)


def elements_read(
    matrix: ev.SharedMatrix, boxes: list[ev.BoxPlace], array: NDArray[np.uint16]
) -> NDArray[np.uint16]:  # fmt: skip
    """What stands where the operand reads, if every element of the array is its own number."""
    shared = np.full(1 << 16, 0xFF, np.uint8)
    for box in boxes:
        brought = load_box(box.tensor_map, box.coordinates, array.reshape(-1).view(np.uint8), box.address, HOPPER)
        shared[brought.shared_offsets] = brought.values
    at = operand_addresses(matrix.descriptor, matrix.rows, matrix.depth, matrix.element_bytes, matrix.major)
    return shared.view(np.uint16)[at // 2]


def elements_told(parts: tuple[MatrixPart, ...], rows: int, depth: int, columns: int) -> NDArray[np.int64]:
    found = np.full((rows, depth), -1, np.int64)
    for part in parts:
        for row, at in product(range(part.begin, part.end), range(depth)):
            place = list(part.first)
            place[part.outer] += row - part.begin
            place[part.inner] += at
            found[row, at] = place[1] * columns + place[0]
    return found


@pytest.mark.parametrize(
    ("swizzle", "major", "inner"),
    [("128B", "k", 64), ("64B", "k", 32), ("32B", "k", 16), ("128B", "mn", 64), ("64B", "mn", 32)],
)
def test_elements_are_those_that_are_read(swizzle: Swizzle, major: str, inner: int) -> None:
    rows, columns = 192, 192
    array = np.arange(rows * columns, dtype=np.uint16).reshape(rows, columns)
    boxes = LoadedBoxes(HOPPER)
    span = 2 * inner
    if major == "k":
        # Two boxes of 64 rows, one behind the other, whose 128 rows are one operand; its second step along K.
        tensor_map = a_map(rows, columns, (inner, 64), swizzle)
        brought = [ev.BoxPlace(tensor_map, "a", (inner, 64 * at), 4096 + 64 * span * at) for at in range(2)]
        step = 32 if inner > 16 else 0
        start, read = descriptor(4096 + step, 16, 8 * span, swizzle), 128
    else:
        # Boxes of one span of columns and 32 rows along K, side by side.
        tensor_map = a_map(rows, columns, (inner, 32), swizzle)
        brought = [ev.BoxPlace(tensor_map, "a", (inner * at, 32), 4096 + 32 * span * at) for at in range(2)]
        start, read = descriptor(4096 + 16 * span, 32 * span, 8 * span, swizzle), 2 * inner
    for box in brought:
        boxes.load(box)
    matrix = ev.SharedMatrix(start, read, 16, 2, "k" if major == "k" else "mn")
    parts = boxes.parts(matrix)
    assert isinstance(parts, tuple) and len(parts) == 1
    told = elements_told(parts, read, 16, columns)
    assert (told == elements_read(matrix, brought, array)).all()
    moved = LoadedBoxes(HOPPER)
    for box in brought:
        moved.load(ev.BoxPlace(tensor_map, "a", box.coordinates, box.address + 2048))
    same = moved.parts(ev.SharedMatrix(start + (2048 >> 4), read, 16, 2, matrix.major))
    assert isinstance(same, tuple) and [part.first for part in same] == [part.first for part in parts]


def test_what_is_no_matrix_is_told() -> None:
    tensor_map = a_map(128, 64, (64, 64), "128B")
    boxes = LoadedBoxes(HOPPER)
    boxes.load(ev.BoxPlace(tensor_map, "a", (0, 0), 1024))
    right = descriptor(1024, 16, 1024, "128B")
    assert isinstance(boxes.parts(ev.SharedMatrix(right, 64, 16, 2, "k")), tuple)
    # Groups of eight rows in another order, another swizzle, columns as if they were rows.
    for wrong in (descriptor(1024, 16, 2048, "128B"), descriptor(1024, 16, 1024, "64B")):
        assert isinstance(boxes.parts(ev.SharedMatrix(wrong, 32, 16, 2, "k")), NoMatrix)
    assert isinstance(boxes.parts(ev.SharedMatrix(right + 2, 32, 64, 2, "k")), NoMatrix)
    # Rows that no box has brought: nothing is known.
    assert boxes.parts(ev.SharedMatrix(right, 128, 16, 2, "k")) == ()
    boxes.forget(((2048, 2064),))
    assert boxes.parts(ev.SharedMatrix(right, 64, 16, 2, "k")) == ()


def test_boxes_are_there_until_something_else_comes() -> None:
    random, boxes = Random(0), LoadedBoxes(HOPPER)
    maps = [a_map(256, 64, (64, rows), "128B") for rows in (8, 16, 24)]
    there: dict[int, tuple[int, ev.BoxPlace]] = {}
    for _ in range(400):
        tensor_map, begin = random.choice(maps), 1024 * random.randrange(12)
        end = begin + (128 * tensor_map.box[1] if random.random() < 0.7 else random.choice((16, 1040, 4096)))
        there = {at: other for at, other in there.items() if other[0] <= begin or end <= at}
        if end - begin == 128 * tensor_map.box[1]:
            box = ev.BoxPlace(tensor_map, "a", (0, 0), begin)
            boxes.load(box)
            there[begin] = end, box
        else:
            boxes.forget(((begin, end),))
        assert list(boxes.boxes.items()) == sorted(there.items())


# ---------------------------------------------------------------- rules

M, N, K = 128, 64, 64
LEFT = TensorMap(Element.BF16, (K, M), (2 * K,), (32, 64), swizzle="64B")
RIGHT = TensorMap(Element.BF16, (K, N), (2 * K,), (32, 64), swizzle="64B")
SUMS = ProgramSums(
    {
        "a": (0, ArrayAxes(("M", "K"), (M, K), (K, 1), (0, 0), 2)),
        "b": (1, ArrayAxes(("N", "K"), (N, K), (K, 1), (0, 0), 2)),
    },
    {"c": ArrayAxes(("M", "N"), (M, N), (N, 1), (0, 0), 2)},
    "K", {"M": M, "N": N, "K": K}, None,
)  # fmt: skip
SIZES = {"c": 2 * M * N}
Slice = tuple[tuple[int, int], tuple[int, int]]


def feed(trace: ProductTrace, event: ev.Event) -> None:
    trace.handlers[type(event)](event)


def whole_run(
    tiles: dict[int, list[Slice]], stored: dict[int, tuple[int, int]] | None = None, *, read_between: bool = False
) -> ProductTrace:
    """Two CTAs, each of which sums products of boxes of a and b (coordinates: K and rows) and stores 64 rows of c, each
    warp its 16, from the row on, columns from the second number on. read_between: the last warp reads the sum between
    the two of a slice."""
    trace = ProductTrace(HOPPER)
    matrices = [
        tuple(ev.SharedMatrix(descriptor(begin + 32 * step, 16, 512, "64B"), 64, 16, 2, "k") for begin in (0, 4096))
        for step in range(2)
    ]
    trace.begin()
    span, number = Span("text", 1), 0
    for cta, slices in tiles.items():
        for at, (left, right) in enumerate(slices):
            for tensor_map, name, place, address in ((LEFT, "a", left, 0), (RIGHT, "b", right, 4096)):
                feed(
                    trace,
                    ev.CopyIssue(
                        ev.WarpActor(cta, 4), 0, ev.CopyActor(0), "load", (cta,), ((address, address + 4096),), 4096, 0,
                        span, box=ev.BoxPlace(tensor_map, name, place, address),
                    )
                )  # fmt: skip
            number += 2
            for warp in range(4):
                for step, pair in enumerate(matrices):
                    feed(
                        trace,
                        ev.WgmmaIssue(
                            ev.WarpActor(cta, warp), ev.TensorCoreActor(number - 2 + step), ("%f0",), (), (), span,
                            matrices=pair, accumulates=at + step > 0, taken=step == 1 and read_between and warp == 3,
                        )
                    )  # fmt: skip
        row, column = (stored or {cta: (64 * cta, 0)}).get(cta, (64 * cta, 0))
        for warp in range(4):
            begins = [GLOBAL_START + 2 * (N * (row + 16 * warp + line) + column) for line in range(16)]
            ranges = tuple((begin, begin + 2 * (N - column)) for begin in begins)
            feed(trace, ev.Access(ev.WarpActor(cta, warp), "global", -1, ranges, True, "generic", span))
    return trace


def found(tiles: dict[int, list[Slice]], stored: dict[int, tuple[int, int]] | None = None) -> set[str]:
    return {finding.code for finding in judge_sums(whole_run(tiles, stored), SUMS, SIZES)}


def slices(row: int, begins: tuple[int, ...] = (0, 32)) -> list[Slice]:
    return [((begin, row), (begin, 0)) for begin in begins]


def test_sums_of_a_program() -> None:
    assert found({0: slices(0), 1: slices(64)}) == set()
    # In any order, and by any CTA.
    assert found({0: slices(64, (32, 0)), 1: slices(0)}, {0: (64, 0), 1: (0, 0)}) == set()


def test_a_sum_that_is_read_before_it_is_whole() -> None:
    said = judge_sums(whole_run({0: slices(0), 1: slices(64)}, read_between=True), SUMS, SIZES)
    assert {finding.code for finding in said} == {"UM108"}


def test_operands_that_do_not_belong_together() -> None:
    assert found({0: [((0, 0), (32, 0)), ((32, 0), (0, 0))], 1: slices(64)}) == {"UM104"}


def test_sums_that_lack_something() -> None:
    assert found({0: slices(0), 1: slices(64, (0,))}) == {"UM105"}
    assert found({0: slices(0), 1: slices(64, (0, 0))}) == {"UM105"}
    assert found({0: slices(0), 1: slices(0)}, {1: (0, 0)}) == {"UM105"}


def test_sums_that_are_stored_elsewhere() -> None:
    assert found({0: slices(0), 1: slices(64)}, {0: (64, 0), 1: (0, 0)}) == {"UM106"}
    mixed = [slices(0)[0], slices(64)[1]], [slices(64)[0], slices(0)[1]]
    assert found(dict(enumerate(mixed))) == {"UM106"}


def test_a_dimension_that_is_two_axes() -> None:
    """Rows of groups in one line: the map's second dimension is the groups and their rows."""
    array = ArrayAxes(("G", "M", "K"), (3, 40, 64), (40 * 64, 64, 1), (0, 0, 0), 2)
    in_line = TensorMap(Element.BF16, (64, 120), (128,), (64, 16))
    assert array.of_box(in_line, (32, 83), (16, 8)) == {"G": (2, 3), "M": (3, 11), "K": (32, 48)}
    apart = TensorMap(Element.BF16, (64, 40, 3), (128, 40 * 128), (64, 16, 1))
    assert array.of_box(apart, (32, 3, 2), (16, 8, 1)) == {"G": (2, 3), "M": (3, 11), "K": (32, 48)}
    assert array.of_box(TensorMap(Element.BF16, (60, 40), (120,), (64, 16)), (0, 0), (1, 1)) is None


def test_bytes_of_an_array_with_an_axis_of_one_element() -> None:
    """Its stride parts no bytes, be it longer than those of other axes, equal to one or shorter."""
    for stride in (1, 3, 64, 1000):
        row = ArrayAxes(("M", "N"), (1, 65), (stride, 1), (0, 0), 2)
        assert row.of_ranges(np.array([0, 8]), np.array([4, 24])) == {"M": (0, 1), "N": (0, 12)}
        column = ArrayAxes(("M", "N"), (65, 1), (2, stride), (0, 1), 2)
        assert column.of_ranges(np.array([12]), np.array([14])) == {"M": (3, 4), "N": (-1, 0)}
    matrix = ArrayAxes(("M", "N"), (4, 8), (8, 1), (0, 0), 2)
    assert matrix.of_ranges(np.array([20]), np.array([26])) == {"M": (1, 2), "N": (2, 5)}


def test_an_axis_of_one_element_is_the_dimension_of_one_element() -> None:
    """Whatever their strides; of two such axes nothing says which is the innermost dimension."""
    in_rows = TensorMap(Element.BF16, (1, 40), (128,), (64, 16))
    for strides in ((64, 1), (64, 7), (64, 64)):
        column = ArrayAxes(("M", "K"), (40, 1), strides, (0, 0), 2)
        assert column.of_box(in_rows, (0, 8), (64, 16)) == {"K": (0, 64), "M": (8, 24)}
    for strides in ((1, 1), (1, 40), (1, 9)):
        column = ArrayAxes(("M", "K"), (40, 1), strides, (0, 0), 2)
        assert column.of_box(TensorMap(Element.BF16, (40, 1), (16,), (64, 16)), (8, 0), (64, 16)) == {
            "M": (8, 72),
            "K": (0, 16),
        }
    assert ArrayAxes(("M", "K"), (1, 1), (8, 1), (0, 0), 2).of_box(in_rows, (0, 0), (1, 1)) is None
    one = TensorMap(Element.BF16, (1, 1), (16,), (64, 16))
    assert ArrayAxes(("M", "K"), (1, 1), (8, 1), (0, 0), 2).of_box(one, (0, 0), (1, 1)) is None
    # Of several beside others, boxes of one element are the same to all.
    heads = ArrayAxes(("B", "H", "M", "K"), (1, 1, 40, 64), (2560, 2560, 64, 1), (0, 0, 0, 0), 2)
    of_heads = TensorMap(Element.BF16, (64, 40, 1, 1), (128, 5120, 5120), (64, 16, 1, 1))
    assert heads.of_box(of_heads, (0, 8, 0, 0), (64, 16, 1, 1)) == {
        "B": (0, 1),
        "H": (0, 1),
        "M": (8, 24),
        "K": (0, 64),
    }
    assert heads.of_box(replace(of_heads, box=(64, 16, 2, 1)), (0, 8, 0, 0), (64, 16, 2, 1)) is None
    # A stride that no dimension has is still no axis.
    assert ArrayAxes(("M", "K"), (40, 1), (63, 1), (0, 0), 2).of_box(in_rows, (0, 0), (1, 1)) is None


def test_rows_of_other_groups_count_for_nothing() -> None:
    """Of groups that follow one another a tile may reach into the next; what it sums there is nobody's."""

    weights = ArrayAxes(("G", "N", "K"), (2, N, K), (N * K, K, 1), (0, 0, 0), 2)
    groups = GroupRows("G", "M", (64, 128), together=True)
    sums = replace(SUMS, operands={**SUMS.operands, "b": (1, weights)}, groups=groups, extents={**SUMS.extents, "G": 2})
    right = TensorMap(Element.BF16, (K, N, 2), (2 * K, 2 * K * N), (32, 64, 1), swizzle="64B")
    trace = whole_run({0: slices(0), 1: slices(64)})

    def of_group(number: int, group: int) -> None:
        steps = trace.groups[0, number, 0]
        steps.products = [
            replace(
                each,
                right=tuple(
                    replace(part, first=(*part.first, group), box=replace(part.box, tensor_map=right))
                    for part in each.right
                ),
            )
            for each in steps.products
            if isinstance(each.right, tuple)
        ]

    of_group(0, 0)
    of_group(1, 1)
    assert judge_sums(trace, sums, SIZES) == ()
    trace = whole_run({0: slices(0), 1: slices(64)})
    of_group(0, 0)
    of_group(1, 0)
    assert {finding.code for finding in judge_sums(trace, sums, SIZES)} == {"UM105", "UM106"}
