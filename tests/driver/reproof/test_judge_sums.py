"""A text that loads, multiplies or stores other tiles than its program's is refuted, whichever CTA or role is wrong."""

from __future__ import annotations

import re

import pytest
from tests.driver.reproof.judged_instances import (
    LOAD,
    PLACE,
    codes,
    instance,
    moved,
)

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import batched_kernel, gated_kernel, masked_kernel, matmul_kernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.synth.tile.wanted import Wanted

STORE = re.compile(r"cp\.async\.bulk\.tensor\.\dd\.global.*\[%rd\d+, \{([^}]*)\}\]")
RANK = re.compile(r"%cluster_ctarank\b")


def replaced(text: str, form: re.Pattern[str], number: int, by: str) -> str:
    places = list(form.finditer(text))
    return text[: places[number].start()] + by + text[places[number].end() :]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name",
    [
        "batch",
        "groups",
        "apart",
        "short apart",
        "streamed",
        "split",
        "turns",
        "plain",
        "split of four",
        "teams",
        "gated",
        "two levels",
    ],
)  # fmt: skip
def test_right_texts_pass(name: str) -> None:
    made = instance(name)
    assert isinstance(made.judge(made.text), Proven)


@pytest.mark.parametrize("name", ["batch", "groups", "plain", "turns", "split of four", "gated"])
def test_a_producer_that_takes_the_first_cta_s_tiles(name: str) -> None:
    """As many tiles, and each is stored where it belongs: what is stored there is another tile's sum."""
    made = instance(name)
    assert codes(made.judge(replaced(made.text, PLACE, 0, "0"))) == {"UM105", "UM106"}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "dims", "tile"),
    [
        # Two products whose right operands lie side by side in one wgmma's, each of several boxes.
        (gated_kernel("silu"), {"M": 9, "N": 16, "K": 8}, (64, 128)),
        # One row, whose stride is no map's, times what threads copy.
        (gated_kernel("silu"), {"M": 1, "N": 190, "K": 4}, (64, 64)),
        # Axes of one place have the strides of others.
        (masked_kernel("none"), {"G": 20, "M": 1, "N": 80, "K": 8}, None),
        (batched_kernel("none"), {"B": 5, "M": 24, "N": 8, "K": 1}, None),
    ],
)
def test_products_of_few_places_pass(kernel: Kernel, dims: dict[str, int], tile: tuple[int, int] | None) -> None:
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    made = compile_kernel(kernel, dims=dims, dtype=elements, wanted=Wanted(tile=tile), assembled=False)
    assert made.text_proof is not None


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "dims", "strides"),
    [
        (matmul_kernel, {"M": 1, "N": 65, "K": 64}, {"c": (3, 1)}),
        (matmul_kernel, {"M": 65, "N": 1, "K": 65}, {"c": (1, 8)}),
        (gated_kernel("silu"), {"M": 1, "N": 129, "K": 64}, {"y": (1, 1)}),
        (batched_kernel("none"), {"B": 1, "M": 1, "N": 129, "K": 8}, {"c": (1, 8, 2)}),
    ],
)
def test_results_of_one_row_or_column_pass(
    kernel: Kernel, dims: dict[str, int], strides: dict[str, tuple[int, ...]]
) -> None:
    made = compile_kernel(kernel, dims=dims, strides=strides, assembled=False)
    assert made.text_proof is not None


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("m", "n", "strides", "misaligned"),
    [
        (129, 63, {"a": (4, 1)}, ()),
        (129, 63, {"a": (4, 1)}, ("a",)),
        (64, 2, {"a": (64, 1)}, ()),
        (2, 64, {"a": (1, 16), "b": (64, 1)}, ()),
        (63, 1, {"b": (2, 1)}, ()),
        (1000, 1, {"a": (1, 1), "b": (1000, 1)}, ("a",)),
        (1, 64, {"a": (16, 1), "b": (65, 1)}, ()),
        (1, 1, {"a": (8, 1), "b": (3, 1)}, ()),
    ],
)
def test_products_of_one_column_pass(
    m: int, n: int, strides: dict[str, tuple[int, int]], misaligned: tuple[str, ...]
) -> None:
    """Strides along axes of one element are anything, and tell nothing."""
    made = compile_kernel(
        matmul_kernel, dims={"M": m, "N": n, "K": 1}, dtype="f16", strides=strides,
        wanted=Wanted(misaligned=misaligned), assembled=False,
    )  # fmt: skip
    assert made.text_proof is not None


def test_other_tiles_of_one_column_are_refuted() -> None:
    made = instance("one deep")
    assert isinstance(made.judge(made.text), Proven)
    verdicts = [made.judge(moved(made.text, LOAD, operand, at, 64)) for operand in (0, 1) for at in (0, 1)]
    # Along the axis of one element an operand is all zeros, along the other it is another tile's.
    assert sorted("UM104" in codes(verdict) for verdict in verdicts) == [False, False, True, True]
    assert sum("UM105" in codes(verdict) for verdict in verdicts) >= 2


def test_the_matrix_of_the_next_group() -> None:
    """Blocks of rows past the end of a group, which are the next one's where groups lie in one line, hide nothing."""
    made = instance("apart")
    forms = [match[1].split(", ") for match in LOAD.finditer(made.text)]
    matrix = next(number for number, registers in enumerate(forms) if len(registers) == 3)
    verdict = made.judge(moved(made.text, LOAD, matrix, 2, 1))
    assert "UM104" in codes(verdict)
    assert isinstance(made.judge(replaced(made.text, PLACE, 0, "0")), Refuted)


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("name", ["plain", "split of four"])
def test_slices_of_one_operand_one_further(operand: int, name: str) -> None:
    made = instance(name)
    verdicts = [made.judge(moved(made.text, LOAD, operand, dimension, 64)) for dimension in (0, 1)]
    # Along K the operands part; along rows or columns the sums are of tiles beside their own.
    assert [codes(verdict) for verdict in verdicts].count({"UM104"}) == 1
    assert any("UM105" in codes(verdict) for verdict in verdicts)


def test_both_operands_one_slice_further() -> None:
    made = instance("plain")
    along_k = [
        next(at for at in (0, 1) if codes(made.judge(moved(made.text, LOAD, operand, at, 64))) == {"UM104"})
        for operand in (0, 1)
    ]
    text = moved(moved(made.text, LOAD, 0, along_k[0], 64), LOAD, 1, along_k[1], 64)
    assert codes(made.judge(text)) == {"UM105"}


def test_a_rank_s_part_is_loaded_from_another_place() -> None:
    """The rank in the coordinates of what a CTA of a pair loads."""
    made = instance("pairs")
    assert isinstance(made.judge(made.text), Proven)
    found = [made.judge(replaced(made.text, RANK, number, "0")) for number in range(len(RANK.findall(made.text)))]
    assert not any(isinstance(verdict, Proven) for verdict in found)


def test_a_tile_s_store_one_tile_further() -> None:
    made = instance("plain")
    found = codes(made.judge(moved(made.text, STORE, 0, 0, 64)))
    assert "UM106" in found or "CL101" in found


def test_a_step_along_k_that_is_read_twice() -> None:
    """A descriptor that lags one step behind, in both operands."""
    made = instance("plain")
    steps = re.findall(r"wgmma\.mma_async[^;]*?, (%rd\d+), (%rd\d+), ", made.text)
    (first_a, first_b), (second_a, second_b) = steps[:2]
    text = made.text.replace(f", {second_a}, {second_b}, ", f", {first_a}, {first_b}, ", 1)
    assert text != made.text
    assert codes(made.judge(text)) == {"UM105"}
    text = made.text.replace(f", {second_a}, {second_b}, ", f", {first_a}, {second_b}, ", 1)
    assert codes(made.judge(text)) == {"UM104"}
