"""Ranges of parameters in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.driver.check.check import check_file, check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.explore.explored_ranges import explored_ranges, number_words
from tilewright.driver.explore.search.path_search import Dimension
from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.machine.symbolic.expression import Input

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (77, "77"), (65535, "65,535"), (65536, "2^16"), ((1 << 32) - 1, "2^32 - 1"), (100_000, "100,000"),
     (1 << 31, "2^31"), ((1 << 31) + 1, "2,147,483,649")],
)  # fmt: skip
def test_numbers_next_to_powers_of_two_are_written_so(value: int, words: str) -> None:
    assert number_words(value) == words


def test_equal_ranges_are_one_and_pointers_have_none() -> None:
    largest = (1 << 32) - 1
    found = explored_ranges(
        (
            Dimension(Input("number", 8, 4), "parameter 1", largest),
            Dimension(Input("number", 12, 4), "parameter 2", largest),
            Dimension(Input("number", 16, 4), "n", largest, smallest=4, multiple=4),
            Dimension(Input("pointer", 0, 8), "parameter 0", 1),
            Dimension(Input("grid", 0, 4), "the grid's clusters along x", 65535, smallest=1),
        )
    )
    assert found == (
        "parameters 1, 2 from 0 to 2^32 - 1",
        "n from 4 to 2^32 - 1, multiples of 4",
        "the grid's clusters along x from 1 to 65,535",
    )


def test_a_proof_without_a_launch_says_for_which_values_it_holds() -> None:
    path = ROOT / "docs" / "bugs" / "zero-trips-are-waited-for" / "buggy.ptx"
    (kernel,) = check_file(str(path)).kernels
    assert kernel.verdict == "proven" and kernel.launches > 1
    assert kernel.ranges == ("parameter 2 from 1 to 2^32 - 1",)
    assert "parameter 2 is not 0 (at 0 the kernel fails with MB113)" in kernel.assumptions


def test_a_given_launch_is_not_explored_and_no_other_proof_is_of_a_launch() -> None:
    path = ROOT / "examples" / "ring.ptx"
    launch = launch_from_json(
        {"params": [{"kind": "tensormap", "dtype": "u32", "dims": [32, 80], "box": [32, 8]},
                    {"kind": "ptr", "bytes": 128}, {"kind": "i32", "value": 10}]}, "launch"
    )  # fmt: skip
    (given,) = check_file(str(path), launch=launch).kernels
    assert (given.scope, given.launches, given.ranges) == ("this launch", 0, ())
    (explored,) = check_file(str(path)).kernels
    assert (explored.scope, explored.launches > 1) == ("all trip counts", True)


def test_parameters_have_the_names_that_are_given() -> None:
    text = (ROOT / "examples" / "ring.ptx").read_text(encoding="utf-8")
    by_file = check_text(text, "r.ptx", launch=launch_from_json({"names": ["tiles", "sums", "n"]}, "launch"))
    by_option = check_text(text, "r.ptx", options=CheckOptions(parameter_names=("tiles", "sums", "n")))
    for report in (by_file, by_option):
        (kernel,) = report.kernels
        assert kernel.verdict == "proven" and kernel.scope == "all trip counts"
        assert kernel.ranges == ("n from 0 to 2^32 - 1",) and "tiles's box is 1,024 bytes" in kernel.assumptions
        assert not any("parameter" in each for each in (*kernel.assumptions, *kernel.claims))
    wrong = check_text(text, "r.ptx", launch=launch_from_json({"names": ["a"] * 4}, "launch"))
    assert "names: has 4 entries; ring takes 3 parameters" in wrong.error
