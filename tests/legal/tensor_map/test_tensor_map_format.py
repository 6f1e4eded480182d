"""The 128 bytes of tensor maps: those that a driver made, those that nobody made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.legal.tensor_map.im2col_map import Im2colMap
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tensor_map_format import DecodedMap, decode_map, encode_map, read_map

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize("name", ["tma_11s", "tma_11e", "tma_11es", "tma_3i"])
def test_every_map_of_the_driver_decodes_to_its_arguments(name: str) -> None:
    with np.load(DATA / f"{name}.npz") as archive:
        columns, rows, maps = archive["cols"].tolist(), archive["cfg"].tolist(), archive["maps"]
        base = int(archive["base"])
    assert len(maps) >= 200
    for values, content in zip(rows, maps, strict=True):
        row = dict(zip(columns, values, strict=True))
        rank = row["rank"]
        arguments = TensorMap(
            row["dtype"],
            [row[f"d{i}"] for i in range(rank)],
            [row[f"s{i}"] for i in range(rank - 1)],
            [row[f"b{i}"] for i in range(rank)],
            [row[f"e{i}"] for i in range(rank)],
            row["interleave"],
            row["swizzle"],
            "none",
            row["oob"],
            base + row["off"],
        )
        decoded = read_map(content.tobytes())
        assert decoded.map == arguments and decoded.remarks == ()
        assert encode_map(arguments) == content.tobytes()


@pytest.fixture(scope="module")
def driver_maps() -> dict[str, Any]:
    with np.load(DATA / "tensormap_bytes.npz") as archive:
        return {name: archive[name] for name in archive.files}


def test_tiled_maps_with_every_argument_at_its_limits(driver_maps: dict[str, Any]) -> None:
    columns, rows = driver_maps["tiled_columns"].tolist(), driver_maps["tiled"].tolist()
    assert len(rows) == 4857
    for values, content in zip(rows, driver_maps["tiled_maps"], strict=True):
        row = dict(zip(columns, values, strict=True))
        rank = row["rank"]
        arguments = TensorMap(
            row["dtype"], *([row[f"{field}{i}"] for i in range(rank - (field == "s"))] for field in "dsbe"),
            row["interleave"], row["swizzle"], row["l2"], row["oob"], row["address"],
        )  # fmt: skip
        assert read_map(content.tobytes()) == DecodedMap(arguments, ())
        assert encode_map(arguments) == content.tobytes()


def test_im2col_maps_with_every_argument_at_its_limits(driver_maps: dict[str, Any]) -> None:
    columns, rows = driver_maps["im2col_columns"].tolist(), driver_maps["im2col"].tolist()
    assert len(rows) == 3805
    for values, content in zip(rows, driver_maps["im2col_maps"], strict=True):
        row = dict(zip(columns, values, strict=True))
        rank = row["rank"]
        lists = {
            field: [row[f"{field}{i}"] for i in range(count)]
            for field, count in (("d", rank), ("s", rank - 1), ("e", rank), ("lower", rank - 2), ("upper", rank - 2))
        }
        arguments = Im2colMap(
            row["dtype"], lists["d"], lists["s"], lists["lower"], lists["upper"], row["channels"], row["pixels"],
            lists["e"], row["interleave"], row["swizzle"], row["l2"], row["oob"], row["address"],
        )  # fmt: skip
        assert read_map(content.tobytes()) == DecodedMap(arguments, ())
        assert encode_map(arguments) == content.tobytes()


def test_wide_maps_are_im2col_maps_on_hopper(driver_maps: dict[str, Any]) -> None:
    columns, rows = driver_maps["wide_columns"].tolist(), driver_maps["wide"].tolist()
    assert len(rows) == 58
    for values, content in zip(rows, driver_maps["wide_maps"], strict=True):
        row = dict(zip(columns, values, strict=True))
        decoded = decode_map(content.tobytes())
        assert isinstance(decoded, Im2colMap) and encode_map(decoded) == content.tobytes()
        assert decoded.lower_corner == (row["lower0"], 0, 0)[: row["rank"] - 2]
        assert decoded.upper_corner == (row["upper0"], 0, 0)[: row["rank"] - 2]
        assert (decoded.channels_per_pixel, decoded.pixels_per_column) == (row["channels"], row["pixels"])


MAP = TensorMap("bf16", (4096, 100), (8192,), (64, 128), swizzle="128B", address=0x7F0000000400)


COLUMN = Im2colMap("f16", (64, 9, 8, 7, 2), (128, 1152, 9216, 64512), (-1, 0, -16), (1, -2, 15), 64, 128)


def test_what_is_no_map_is_one_clear_error() -> None:
    content = encode_map(MAP)
    generator = np.random.default_rng(3)
    for wrong, words in (
        (b"", "empty"),
        (content[:127], "127 bytes"),
        (content + b"\0", "129 bytes"),
        (bytes(128), "all 128 bytes are zero"),
        (b"\xff" * 128, "no tensor map"),
        (_with_bits(content, 60), "bit 60 is set"),
        (_with_bits(content, 1000, 1001), "bits 1000, 1001 are set"),
        (_with_bits(content, 320), "bit 320 is set, which no tiled map of rank 2 has"),
        (_with_bits(content, 70), "no tensor map has rank 6"),
        (_with_bits(content, 64), "no im2col map has rank 2"),
        (_with_bits(encode_map(COLUMN), 463), "bit 463 is set, which no im2col map of rank 5 has"),
        (_with_bits(encode_map(replace(MAP, interleave="16B")), 76), "interleave has code 3"),
        (_with_bits(encode_map(replace(MAP, dtype="f32")), 74), "code 15"),
        (_with_bits(content, 80), "code 10, rounded to tf32"),
        (_with_bits(encode_map(replace(MAP, dtype="u32", box=(32, 128))), 71, 74), "code 11"),
        *((generator.bytes(128), "no tensor map") for _ in range(200)),
    ):
        with pytest.raises(TilewrightError, match=words):
            decode_map(wrong)


def _with_bits(content: bytes, *bits: int) -> bytes:
    number = int.from_bytes(content, "little")
    for bit in bits:
        assert not number >> bit & 1
        number |= 1 << bit
    return number.to_bytes(128, "little")


def test_the_drivers_bug_and_a_changed_map_are_told() -> None:
    content = encode_map(MAP)
    (remark,) = read_map(_with_bits(content, 85)).remarks
    assert "bit 85" in remark and read_map(_with_bits(content, 85)).map == MAP
    patched = bytearray(content)
    patched[56] = 63  # the box's second extent, as tensormap.replace would change it
    decoded = read_map(bytes(patched))
    assert decoded.map == replace(MAP, box=(64, 64))
    assert [("16384" in remark and "8192" in remark) for remark in decoded.remarks] == [True]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dims": (4096, 0)}, "dimension 0"),
        ({"dims": (4096, 2**32 + 1)}, "dimension 4294967297"),
        ({"strides": (8200,)}, "stride 8200.*steps of 16"),
        ({"strides": (-16,)}, "stride -16"),
        ({"box": (64, 257)}, "box extent 257"),
        ({"element_strides": (1, 9)}, "element stride 9"),
        ({"address": 2**57}, "address"),
        ({"dtype": "u4x16_align8"}, "Blackwell"),
        ({"dtype": 99}, "data type 99"),
        ({"swizzle": "128B_atom_32B"}, "Blackwell"),
        ({"interleave": 3}, "interleave 3"),
        ({"oob_fill": 2}, "oob_fill 2"),
        ({"l2_promotion": 4}, "l2_promotion 4"),
        ({"strides": (1 << 40,)}, "stride 1099511627776"),
    ],
)
def test_a_number_that_no_field_holds_is_an_error(change: dict[str, Any], words: str) -> None:
    with pytest.raises(TilewrightError, match=words):
        encode_map(replace(MAP, **change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lower_corner": (0, 0, 16)}, "lower corner 16: the format holds -16 to 15"),
        ({"upper_corner": (-17, 0, 0)}, "upper corner -17"),
        ({"channels_per_pixel": 257}, "channels 257"),
        ({"pixels_per_column": 0}, "pixels 0: the format holds 1 to 1024"),
    ],
)
def test_a_number_that_no_im2col_map_holds_is_an_error(change: dict[str, Any], words: str) -> None:
    with pytest.raises(TilewrightError, match=words):
        encode_map(replace(COLUMN, **change))
    with pytest.raises(TilewrightError, match="no im2col map has rank 2"):
        encode_map(Im2colMap("f16", (64, 9), (128,), (), (), 64, 128))


@given(st.data())
def test_decode_undoes_encode(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 5))

    def drawn(low: int, high: int, count: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    made = TensorMap(
        data.draw(st.integers(0, 12)), drawn(1, 2**32, rank), [16 * each for each in drawn(0, 2**36 - 1, rank - 1)],
        drawn(1, 256, rank), drawn(1, 8, rank), data.draw(st.integers(0, 2)), data.draw(st.integers(0, 3)),
        data.draw(st.integers(0, 3)),
        data.draw(st.integers(0, 1)), data.draw(st.integers(0, 2**57 - 1)),
    )  # fmt: skip
    assert decode_map(encode_map(made)) == made
