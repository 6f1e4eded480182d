"""Rows judged in columns: as one by one, on random rows near the limits; hostile columns; a million a second."""

import numpy as np
import pytest
from bench.probes.tensormap_rows import im2col_rows, tiled_rows
from hypothesis import example, given
from hypothesis import strategies as st

from tilewright import legal
from tilewright.base.error import TilewrightError
from tilewright.legal.tensor_map.im2col_rules import im2col_rules
from tilewright.legal.tensor_map.legality import judge
from tilewright.legal.tensor_map.rows import COLUMNS
from tilewright.legal.tensor_map.rule import Fields
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.targets import TARGET_NAMES, target

NEAR = st.sampled_from(
    [value + step for value in (0, 1, 8, 16, 32, 64, 128, 256, 2**16, 2**31, 2**32, 2**40, 2**57, 2**63, 2**64)
     for step in (-16, -1, 0, 1, 16)]
)  # fmt: skip


def signed(value: int) -> int:
    """A word of 64 bits as a signed number. A number that fits no word is what it is, out of every range."""
    return value - 2**64 if 2**63 <= value < 2**64 else value


def fields_of(columns: dict[str, np.ndarray], row: int) -> Fields:
    value = {name: int(column[row]) for name, column in columns.items()}

    def entries(letter: str, count: int) -> tuple[int, ...]:
        return tuple(value[f"{letter}{index}"] for index in range(count) if f"{letter}{index}" in value)

    return Fields(
        dtype=signed(value["dtype"]), rank=signed(value["rank"]), address=value["addr"], dims=entries("d", 5),
        strides=entries("s", 4), box=entries("b", 5), element_strides=entries("e", 5),
        interleave=signed(value["interleave"]), swizzle=signed(value["swizzle"]), l2_promotion=signed(value["l2"]),
        oob_fill=signed(value["oob"]), lower_corner=tuple(map(signed, entries("lo", 3))),
        upper_corner=tuple(map(signed, entries("up", 3))), channels_per_pixel=value.get("channels", 0),
        pixels_per_column=value.get("pixels", 0),
    )  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", TARGET_NAMES)
@pytest.mark.parametrize("kind", ["tiled", "im2col"])
def test_columns_agree_with_one_row_at_a_time(kind: str, name: str) -> None:
    generator = np.random.default_rng(5)
    draw, judge_rows, rules = (
        (tiled_rows, legal.check_rows, tiled_rules)
        if kind == "tiled"
        else (im2col_rows, legal.check_im2col_rows, im2col_rules)
    )
    columns = draw(generator, 4000)
    found = judge_rows(columns, name)
    facts = target(name)
    expected = [not judge(fields_of(columns, row), rules, facts) for row in range(4000)]
    assert 0.2 < np.mean(expected) < 0.8
    assert found.tolist() == expected


@given(st.dictionaries(st.sampled_from(COLUMNS), NEAR, max_size=4))
@example({"dtype": 2**64})
@example({"rank": 2**64 + 3, "swizzle": 2**64})
def test_any_numbers_in_any_column_agree(numbers: dict[str, int]) -> None:
    base = {name: np.array([1], object) for name in COLUMNS}
    base |= {"dtype": np.array([9], object), "rank": np.array([3], object), "b0": np.array([64], object)}
    base |= {name: np.array([0], object) for name in ("addr", "interleave", "swizzle", "l2", "oob", "s0", "s1")}
    base |= {name: np.array([number], object) for name, number in numbers.items()}
    fields = fields_of(base, 0)
    # As Python integers nothing wraps: only enumerations and the rank are read as the driver's signed words.
    expected = not judge(fields, tiled_rules, target("sm_90a"))
    assert legal.check_rows(base, "sm_90a").tolist() == [expected]


@pytest.mark.parametrize("number", [-(2**64), -1, 15, 16, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 9, 2**128])
@pytest.mark.parametrize("name", ["dtype", "interleave", "swizzle", "l2", "oob", "addr", "d0", "s0", "b0", "e0"])
def test_numbers_beyond_64_bits_are_judged_as_the_map_is(name: str, number: int) -> None:
    row = {"dtype": 9, "addr": 0, "interleave": 0, "swizzle": 0, "l2": 0, "oob": 0, "d0": 64, "d1": 64, "s0": 128}
    row = {column: 1 for column in COLUMNS} | row | {"rank": 2, "b0": 64, name: number}
    one = legal.TensorMap(
        row["dtype"], (row["d0"], row["d1"]), (row["s0"],), (row["b0"], row["b1"]), (row["e0"], row["e1"]),
        row["interleave"], row["swizzle"], row["l2"], row["oob"], row["addr"],
    )  # fmt: skip
    expected = legal.check(one, "sm_90a").legal
    assert legal.check_rows({column: [value] for column, value in row.items()}, "sm_90a").tolist() == [expected]


def test_words_of_64_bits_signed_and_unsigned_are_the_same() -> None:
    columns = tiled_rows(np.random.default_rng(9), 5000)
    assert all(column.dtype == np.uint64 for column in columns.values())
    found = legal.check_rows(columns, "sm_90a")
    assert (
        found == legal.check_rows({name: column.view(np.int64) for name, column in columns.items()}, "sm_90a")
    ).all()
    assert (
        found == legal.check_rows({name: column.astype(object) for name, column in columns.items()}, "sm_90a")
    ).all()


def test_no_rows_and_other_columns() -> None:
    columns = tiled_rows(np.random.default_rng(9), 10)
    assert legal.check_rows({name: column[:0] for name, column in columns.items()}, "sm_90a").tolist() == []
    assert legal.check_rows(columns | {"cuResult": np.zeros(10)}, "sm_90a").size == 10


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rank": None}, "no column 'rank'"),
        ({"d3": np.zeros(3, np.int64)}, "'d3' has 3 rows; 'rank' has 10"),
        ({"d3": np.zeros((10, 1), np.int64)}, "2 dimensions"),
        ({"s1": np.full(10, np.nan)}, "not of integers"),
        ({"s1": np.array([None] * 10, object)}, "not of integers"),
        ({"l2": np.array(["1"] * 10)}, "not of integers"),
        ({"oob": np.zeros(10, bool)}, "not of integers"),
    ],
)
def test_what_is_no_column_is_one_clear_error(change: dict[str, np.ndarray | None], complaint: str) -> None:
    columns = {name: column for name, column in (tiled_rows(np.random.default_rng(9), 10) | change).items()}
    with pytest.raises(TilewrightError, match=complaint):
        legal.check_rows({name: column for name, column in columns.items() if column is not None}, "sm_90a")


def test_columns_as_lists() -> None:
    columns = tiled_rows(np.random.default_rng(9), 200)
    assert legal.check_rows({name: column.tolist() for name, column in columns.items()}, "sm_90a").tolist() == (
        legal.check_rows(columns, "sm_90a").tolist()
    )
    assert legal.check_rows({name: [] for name in COLUMNS}, "sm_90a").tolist() == []
    with pytest.raises(TilewrightError, match=r"column 's1' is not of integers: row 1 is 1\.5"):
        legal.check_rows(
            {name: column.tolist() for name, column in columns.items()} | {"s1": [16, 1.5] + [16] * 198}, "sm_90a"
        )
    with pytest.raises(TilewrightError, match="columns are 3"):
        legal.check_rows(3, "sm_90a")  # pyright: ignore[reportArgumentType]


def test_negative_corners_of_any_make_are_the_same() -> None:
    columns = im2col_rows(np.random.default_rng(9), 3000)
    signed_columns = {name: column.view(np.int64) for name, column in columns.items()}
    assert min(signed_columns["lo0"].min(), signed_columns["up0"].min()) < -1
    found = legal.check_im2col_rows(signed_columns, "sm_90a")
    as_objects = {name: column.astype(object) for name, column in signed_columns.items()}
    assert found.any() and (found == legal.check_im2col_rows(as_objects, "sm_90a")).all()
    assert (
        found == legal.check_im2col_rows({n: column.tolist() for n, column in signed_columns.items()}, "sm_90a")
    ).all()
