"""Maps of named sizes: how they are written, and what is no such map."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.base.error import TilewrightError
from tilewright.legal.symbolic.symbolic_map import Dim, SymbolicMap
from tilewright.legal.tensor_map.tensor_map import TensorMap

N, M = Dim("N", 1, 4096, multiple_of=8), Dim("M", 1, 64)


def test_sizes_among_the_numbers_need_no_listing() -> None:
    map = SymbolicMap("bfloat16", [N, M], ["2*N"], [64, 8], swizzle=3)  # pyright: ignore[reportArgumentType]
    assert map.sizes == (N, M)
    assert map.at({"N": 64, "M": 5}) == TensorMap("bf16", (64, 5), (128,), (64, 8), swizzle="128B")
    assert hash(map) == hash(SymbolicMap("bf16", (N, M), (2 * N,), (64, 8), swizzle="128B"))


def test_sizes_compute_like_integers() -> None:
    for made, exact in (
        (N + 1, 65), (1 + N, 65), (N - 1, 63), (1 - N, -63), (2 * N * M, 640), (N // 3, 21), (N % 3, 1), (N - M, 59),
        (2 * (N + M) * M, 690),
    ):  # fmt: skip
        assert made.at({"N": 64, "M": 5}) == exact


def test_texts_and_numbers_that_cancel_are_numbers() -> None:
    map = SymbolicMap("u8", (N, M), ("N - N + 64",), (64, 8))
    assert map.strides == (64,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"strides": ("2*K",)}, "nothing is declared of the size K"),
        ({"where": "K == 1"}, "nothing is declared of the size K"),
        ({"sizes": (Dim("N"),)}, "declared twice"),
        ({"strides": ("2*",)}, "column 3 of strides"),
        ({"strides": ()}, "strides has 0 entries; rank 2 needs 1"),
        ({"box": (64,)}, "box has 1 entries; rank 2 needs 2"),
        ({"element_strides": (1,)}, "element_strides has 1 entries"),
        ({"box": (64, 0.5)}, "not an integer"),
        ({"box": "64,8"}, "not a list"),
        ({"dims": 5}, "not a list"),
        ({"dtype": "bf17"}, "no value 'bf17'"),
        ({"address": float("nan")}, "not an integer"),
        ({"where": "N % 8"}, "no comparison"),
    ],
)
def test_what_is_no_map_is_one_error(change: dict[str, Any], words: str) -> None:
    values: dict[str, Any] = {"dtype": "bf16", "dims": (N, M), "strides": ("2*N",), "box": (64, 8)}
    with pytest.raises(TilewrightError) as caught:
        SymbolicMap(**(values | change))
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("2N",), "no name"),
        (("N", 9, 15, 8), "no multiple of 8 lies between 9 and 15"),
        (("N", 0, None, 0), "multiple_of is 0"),
        (("N", 0.5), "not an integer"),
    ],
)
def test_what_is_no_size_is_one_error(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(TilewrightError, match=words):
        Dim(*arguments)


def test_a_size_that_is_not_as_declared_is_refused() -> None:
    map = SymbolicMap("bf16", (N, M), ("2*N",), (64, 8))
    for sizes, words in (({"N": 64}, "M is missing"), ({"N": 9, "M": 1}, "N is 9, declared as")):
        with pytest.raises(TilewrightError, match=words):
            map.at(sizes)
    by_zero = SymbolicMap("bf16", (N, 64 // (M - 1)), ("2*N",), (64, 8), sizes=(M,))
    with pytest.raises(TilewrightError, match="divides by zero"):
        by_zero.at({"N": 8, "M": 1})
