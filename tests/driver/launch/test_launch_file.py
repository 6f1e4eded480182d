"""Launch files: what is read, what missing fields mean, and one message with the path for every mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import (
    Im2col,
    Im2colMode,
    Launch,
    NullPointerParam,
    OpaqueParam,
    PointerParam,
    ScalarParam,
    TensorMapParam,
    UnknownTensorMapParam,
)
from tilewright.driver.launch.given_launch import placed
from tilewright.driver.launch.launch_file import (
    IM2COL_FIELDS,
    PARAM_FIELDS,
    TOP_FIELDS,
    launch_from_json,
    parse_launch,
    read_launch_file,
)
from tilewright.frontends.ptx.reader import read

SCHEMA = Path(__file__).parents[3] / "docs" / "launch.schema.json"

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry first(.param .u64 a, .param .u32 n) .reqntid 128, 1, 1 { ret; }
.visible .entry second(.param .u8 flag, .param .f64 scale) .maxntid 96, 1, 1 .explicitcluster .reqnctapercluster 2
{ ret; }
"""

MAP: dict[str, Any] = {"kind": "tensormap", "dtype": "bf16", "dims": [64, 32], "strides": [128], "box": [64, 8]}


def everything() -> dict[str, Any]:
    """A document with every field."""
    return {
        "entry": "first",
        "grid": [4, 2, 1],
        "block": [128, 1, 1],
        "cluster": [2, 1, 1],
        "dynamic_smem": 65536,
        "params": [
            {"kind": "ptr", "bytes": 4096, "align": 16, "buffer": "a"},
            {"kind": "i32", "value": -3},
            {"kind": "i64", "value": 1 << 40},
            {"kind": "f32", "value": 0.5},
            {
                **MAP,
                "element_strides": [1, 2],
                "swizzle": "128B",
                "interleave": "none",
                "oob": "nan",
                "l2_promotion": "128B",
                "offset": 256,
                "buffer": "b",
            },
            {
                "kind": "bytes",
                "size": 160,
                "data": "0102",
                "fields": [{"kind": "ptr", "at": 8, "bytes": 16, "buffer": "c"}],
            },
        ],
    }


def test_every_field_is_read() -> None:
    found = parse_launch(json.dumps(everything()), "launch.json")
    assert (found.entry, found.grid, found.block, found.cluster) == ("first", (4, 2, 1), (128, 1, 1), (2, 1, 1))
    assert found.dynamic_smem_bytes == 65536
    pointer, small, large, real, mapped, structure = found.params
    assert (pointer, small, large, real) == (
        PointerParam("a"),
        ScalarParam("i32", -3),
        ScalarParam("i64", 1 << 40),
        ScalarParam("f32", 0.5),
    )
    assert isinstance(mapped, TensorMapParam)
    assert (mapped.map.element, mapped.map.dims, mapped.map.strides_bytes) == (Element.BF16, (64, 32), (128,))
    assert (mapped.map.swizzle, mapped.map.out_of_bounds, mapped.map.l2_promotion) == ("128B", "nan", "128B")
    assert (mapped.map.element_strides, mapped.map.offset_bytes, mapped.buffer) == ((1, 2), 256, "b")
    assert structure == OpaqueParam(160, b"\x01\x02", ((8, PointerParam("c")),))
    sizes = {buffer.name: (buffer.size_bytes, buffer.align_bytes) for buffer in found.buffers}
    # The map's last row begins 31 strides after its offset.
    assert sizes == {"a": (4096, 16), "b": (256 + 31 * 128 + 128, 256), "c": (16, 256)}


@pytest.mark.parametrize(("align", "shift"), [(256, 0), (16, 16), (4, 4), (128, 128), (1024, 768)])
def test_buffers_are_no_better_aligned_than_they_say(align: int, shift: int) -> None:
    document = {
        "params": [
            {"kind": "ptr", "bytes": 8, "align": align, "buffer": "x"},
            {**MAP, "buffer": "x"},
            {"kind": "bytes", "size": 16, "fields": [{"kind": "ptr", "at": 8, "buffer": "x"}]},
        ]
    }
    found = launch_from_json(document, "launch.json")
    whole = placed(Launch("k", (1, 1, 1), (1, 1, 1), found.params), found.buffers)
    pointer, mapped, structure = whole.launch.params
    assert pointer == PointerParam("x", shift) and isinstance(mapped, TensorMapParam)
    assert mapped.map.offset_bytes == shift and structure == OpaqueParam(16, b"", ((8, PointerParam("x", shift)),))
    assert whole.buffers[0].size_bytes == found.buffers[0].size_bytes + shift and whole.shifts == {"x": shift}
    # The machine places buffers at odd multiples of 256 bytes.
    assert (256 + shift) % align == 0 and (256 + shift) % (2 * align) != 0


def test_missing_fields_take_defaults() -> None:
    bare = {"kind": "tensormap", "dtype": "f32", "dims": [8, 4, 2], "box": [8, 4, 1]}
    found = parse_launch(json.dumps({"params": [{"kind": "ptr", "bytes": 8}, bare]}), "launch.json")
    assert (found.entry, found.grid, found.block, found.cluster, found.dynamic_smem_bytes) == (
        None,
        None,
        None,
        None,
        None,
    )
    pointer, mapped = found.params
    assert pointer == PointerParam("param0") and isinstance(mapped, TensorMapParam)
    assert mapped.map.strides_bytes == (32, 128) and mapped.map.element_strides == (1, 1, 1)
    assert (mapped.map.swizzle, mapped.map.interleave, mapped.map.out_of_bounds) == ("none", "none", "zero")


def test_a_pointer_of_no_bytes_is_null_and_one_without_bytes_shares_a_buffer() -> None:
    document = {"params": [{"kind": "ptr", "bytes": 0}, {**MAP, "buffer": "x"}, {"kind": "ptr", "buffer": "x"}]}
    found = launch_from_json(document, "launch.json")
    assert found.params[0] == NullPointerParam() and found.params[2] == PointerParam("x")
    assert [buffer.name for buffer in found.buffers] == ["x"]


def test_a_pointer_may_lie_inside_its_buffer() -> None:
    document = {
        "params": [
            {"kind": "ptr", "bytes": 4096, "buffer": "pool", "offset": 512, "align": 16},
            {"kind": "ptr", "buffer": "pool", "offset": 1024},
            {"kind": "bytes", "size": 8, "fields": [{"kind": "ptr", "at": 0, "buffer": "pool", "offset": 4096}]},
        ]
    }
    found = launch_from_json(document, "launch.json")
    assert found.params == (
        PointerParam("pool", 512),
        PointerParam("pool", 1024),
        OpaqueParam(8, b"", ((0, PointerParam("pool", 4096)),)),
    )
    assert [(buffer.name, buffer.size_bytes) for buffer in found.buffers] == [("pool", 4096)]
    whole = placed(Launch("k", (1, 1, 1), (1, 1, 1), found.params), found.buffers)
    assert whole.launch.params[0] == PointerParam("pool", 512 + 16)


def test_a_map_may_be_given_by_what_a_copy_moves_and_may_stand_in_a_buffer() -> None:
    document = {
        "params": [
            {"kind": "tensormap", "box_bytes": 8192},
            {
                "kind": "ptr",
                "bytes": 4096,
                "buffer": "maps",
                "maps": [{"at": 0, "kind": "tensormap", "box_bytes": 16}, {"at": 192, **MAP, "buffer": "x"}],
            },
            {"kind": "bytes", "size": 256, "fields": [{"kind": "tensormap", "at": 64, "box_bytes": 1024}]},
        ]
    }
    first, second, third = launch_from_json(document, "launch.json").params
    assert first == UnknownTensorMapParam(8192)
    assert isinstance(second, PointerParam) and second.maps[0] == (0, UnknownTensorMapParam(16))
    assert second.maps[1][0] == 192 and isinstance(second.maps[1][1], TensorMapParam)
    assert third == OpaqueParam(256, b"", ((64, UnknownTensorMapParam(1024)),))
    found = launch_from_json(document, "launch.json")
    assert {buffer.name for buffer in found.buffers} == {"maps", "x"}


@pytest.mark.parametrize(
    ("parameter", "where"),
    [
        ({"kind": "tensormap", "box_bytes": 24}, "params[0].box_bytes"),
        ({"kind": "tensormap", "box_bytes": 32, "dtype": "bf16"}, "params[0].dtype"),
        ({"kind": "ptr", "bytes": 512, "maps": [{"kind": "tensormap", "box_bytes": 32}]}, "params[0].maps[0].at"),
        ({"kind": "ptr", "bytes": 512, "maps": [{"kind": "i32", "value": 1, "at": 0}]}, "params[0].maps[0].kind"),
        ({"kind": "ptr", "bytes": 512, "maps": [{"kind": "tensormap", "box_bytes": 32, "at": 8}]}, "maps[0].at"),
        ({"kind": "ptr", "bytes": 0, "maps": [{"kind": "tensormap", "box_bytes": 32, "at": 0}]}, "params[0].maps"),
        ({"kind": "ptr", "bytes": 512, "maps": [3]}, "params[0].maps[0]"),
    ],
)
def test_mistakes_in_such_maps_are_named(parameter: dict[str, Any], where: str) -> None:
    with pytest.raises(TilewrightError, match=re.escape(where)):
        launch_from_json({"params": [parameter]}, "launch.json")


def test_the_kernel_completes_the_launch() -> None:
    module = read(TEXT, "k.ptx")
    first = launch_from_json(
        {"entry": "first", "params": [{"kind": "ptr", "bytes": 4}, {"kind": "i32", "value": 1}]}, "launch.json"
    )
    assert first.resolve(first.kernel(module, "k.ptx")).block == (128, 1, 1)
    second = launch_from_json(
        {"entry": "second", "grid": [4], "params": [{"kind": "i32", "value": 1}, {"kind": "f32", "value": 0.5}]},
        "launch.json",
    )
    whole = second.resolve(second.kernel(module, "k.ptx"))
    assert (whole.block, whole.cluster, whole.grid) == ((96, 1, 1), (2, 1, 1), (4, 1, 1))
    # A byte and a double are given by the kinds that there are.
    assert whole.params == (OpaqueParam(1, b"\x01"), OpaqueParam(8, b"\0\0\0\0\0\0\xe0\x3f"))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"entry": "third", "params": []}, "has no kernel 'third'"),
        ({"params": []}, "does not say which of the 2 kernels"),
        ({"entry": "first", "params": []}, "takes 2 parameters"),
        (
            {"entry": "first", "params": [{"kind": "i32", "value": 1}, {"kind": "i32", "value": 1}]},
            "params[0]: has 4 bytes; parameter a of first has 8",
        ),
        (
            {"entry": "first", "block": [64], "params": [{"kind": "ptr", "bytes": 4}, {"kind": "i32", "value": 1}]},
            "block: is (64, 1, 1); .reqntid",
        ),
        (
            {"entry": "second", "block": [128], "params": [{"kind": "i32", "value": 1}, {"kind": "f32", "value": 1}]},
            "block: has 128 threads; .maxntid",
        ),
        (
            {"entry": "second", "params": [{"kind": "i32", "value": 300}, {"kind": "f32", "value": 1}]},
            "params[0]: has 4 bytes",
        ),
        (
            {"entry": "second", "grid": [3], "params": [{"kind": "i32", "value": 1}, {"kind": "f32", "value": 1}]},
            "grid: is (3, 1, 1), no multiple of the cluster",
        ),
    ],
)
def test_a_launch_of_another_kernel_is_refused(document: dict[str, Any], message: str) -> None:
    found = launch_from_json(document, "launch.json")
    with pytest.raises(TilewrightError) as caught:
        found.resolve(found.kernel(read(TEXT, "k.ptx"), "k.ptx"))
    assert message in caught.value.message and caught.value.remedy


_MISTAKES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("entry",), 3, "entry"),
    (("entry",), "", "entry"),
    (("grid",), [0, 1, 1], "grid[0]"),
    (("grid",), [1, 1, 1, 1], "grid"),
    (("grid",), "1", "grid"),
    (("block",), [128.0], "block[0]"),
    (("cluster",), [], "cluster"),
    (("dynamic_smem",), -1, "dynamic_smem"),
    (("dynamic_smem",), True, "dynamic_smem"),
    (("params",), {}, "params"),
    (("params", 0), 3, "params[0]"),
    (("params", 0, "kind"), "pointer", "params[0].kind"),
    (("params", 0, "bytes"), -1, "params[0].bytes"),
    (("params", 0, "align"), 3, "params[0].align"),
    (("params", 0, "buffer"), 1, "params[0].buffer"),
    (("params", 0, "offset"), -1, "params[0].offset"),
    (("params", 0, "offset"), 4097, "params[0].offset"),
    (("params", 0, "value"), 1, "params[0].value"),
    (("params", 1, "value"), 1 << 33, "params[1].value"),
    (("params", 1, "value"), 1.5, "params[1].value"),
    (("params", 2, "value"), None, "params[2].value"),
    (("params", 3, "value"), "x", "params[3].value"),
    (("params", 3, "value"), 1e39, "params[3].value"),
    (("params", 4, "dtype"), "bf15", "params[4].dtype"),
    (("params", 4, "dims"), [], "params[4].dims"),
    (("params", 4, "dims"), [1] * 6, "params[4].dims"),
    (("params", 4, "box"), [64], "params[4].box"),
    (("params", 4, "strides"), [128, 4096], "params[4].strides"),
    (("params", 4, "element_strides"), [1], "params[4].element_strides"),
    (("params", 4, "swizzle"), "128", "params[4].swizzle"),
    (("params", 4, "interleave"), 0, "params[4].interleave"),
    (("params", 4, "oob"), "zeros", "params[4].oob"),
    (("params", 5, "size"), 0, "params[5].size"),
    (("params", 5, "data"), "0x12", "params[5].data"),
    (("params", 5, "data"), "00" * 161, "params[5].data"),
    (("params", 5, "fields", 0, "at"), 160, "params[5].fields[0].at"),
    (("params", 5, "fields", 0, "at"), 156, "params[5].fields[0].at"),
    (("params", 5, "fields", 0, "kind"), "i32", "params[5].fields[0].bytes"),
]


@pytest.mark.parametrize(("path", "value", "where"), _MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_named_by_its_path(path: tuple[Any, ...], value: object, where: str) -> None:
    document = everything()
    parent: Any = document
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    with pytest.raises(TilewrightError) as caught:
        launch_from_json(document, "launch.json")
    assert caught.value.message.startswith(f"launch.json: {where}: "), caught.value.message
    assert caught.value.remedy and "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON"),
        ('{"grid": [1, 1, 1', "no JSON"),
        ("[1]", "is a list, not an object"),
        ('{"grid": [1], "grid": [2]}', "stands twice"),
        ('{"params": [{"kind": "f32", "value": NaN}]}', "NaN is no JSON number"),
        ("[" * 100_000, "nested too deeply"),
        ('{"dynamic_smem": 1' + "0" * 5000 + "}", "launch.json"),
        ('{"blok": [1]}', "blok: is no field here"),
        ('{"params": [{"kind": "ptr"}]}', "params[0].bytes: is missing"),
        ('{"params": [{"kind": "i32"}]}', "params[0].value: is missing"),
    ],
)
def test_a_text_that_is_no_launch(text: str, message: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        parse_launch(text, "launch.json")
    assert message in str(caught.value) and caught.value.remedy


COLUMNS: dict[str, Any] = {
    "kind": "tensormap",
    "dtype": "f16",
    "dims": [64, 8, 6, 2],
    "im2col": {"lower_corner": [-1, -1], "upper_corner": [0, 1], "channels_per_pixel": 64, "pixels_per_column": 32},
}


def test_im2col_maps_and_data_types_that_no_element_names() -> None:
    columns, packed, slices = launch_from_json(
        {
            "params": [
                COLUMNS,
                {"kind": "tensormap", "dtype": "u4x16_align16", "dims": [128, 3], "box": [128, 1]},
                {"kind": "tensormap", "dtype": "tf32", "dims": [4, 5, 2], "box": [4, 1, 1], "interleave": "16B"},
            ]
        },
        "launch.json",
    ).params
    assert isinstance(columns, TensorMapParam)
    assert columns.map.im2col == Im2col((-1, -1), (0, 1), 64, 32) and columns.map.box == ()
    assert columns.map.strides_bytes == (128, 1024, 6144) and columns.map.span_bytes == 12288
    assert isinstance(packed, TensorMapParam)
    assert (packed.map.element, packed.map.variant) == (Element.U8, "u4x16_align16")
    assert packed.map.strides_bytes == (64,) and packed.map.span_bytes == 192
    assert isinstance(slices, TensorMapParam)
    assert slices.map.variant == "tf32" and slices.map.strides_bytes == (64, 320) and slices.map.span_bytes == 640


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"box": [8, 1, 1, 1]}, "params[0].box: is there together with im2col"),
        ({"dims": [64, 8]}, "params[0].im2col: is of a map of 2 dimensions"),
        ({"im2col": {"lower_corner": [0]}}, "params[0].im2col.lower_corner: has 1 entries, not 2"),
        ({"im2col": {}}, "params[0].im2col.lower_corner: is missing"),
        ({"im2col": {"mode": "im2col::v"}}, "params[0].im2col.mode: is the string 'im2col::v'"),
        ({"im2col": {"corner": 1}}, "params[0].im2col.corner: is no field here"),
        ({"im2col": 4}, "params[0].im2col: is the number 4, not an object"),
    ],
)
def test_mistakes_in_im2col_maps(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        launch_from_json({"params": [{**COLUMNS, **change}]}, "launch.json")
    assert message in str(caught.value) and caught.value.remedy


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    for name, message in (("none.json", "cannot read"), (".", "cannot read"), ("binary.json", "not UTF-8")):
        with pytest.raises(TilewrightError, match=message):
            read_launch_file(str(tmp_path / name))


def test_the_published_schema_has_the_readers_fields_and_values() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert set(schema["properties"]) == set(TOP_FIELDS)
    kinds: dict[str, set[str]] = {}
    for option in schema["$defs"]["param"]["oneOf"]:
        properties = schema["$defs"][option["$ref"].removeprefix("#/$defs/")]["properties"]
        for kind in properties["kind"].get("enum", [properties["kind"].get("const")]):
            kinds[kind] = set(properties)
    assert kinds == {kind: set(fields) for kind, fields in PARAM_FIELDS.items()}
    mapped = schema["$defs"]["tensormap"]["properties"]
    for field, value in (("swizzle", "32B"), ("interleave", "16B"), ("oob", "nan"), ("l2_promotion", "256B")):
        assert value in mapped[field]["enum"]
        for allowed in mapped[field]["enum"]:
            launch_from_json({"params": [{**MAP, field: allowed}]}, "launch.json")
    for dtype in mapped["dtype"]["enum"]:
        launch_from_json({"params": [{**MAP, "dtype": dtype}]}, "launch.json")
    assert set(mapped["im2col"]["properties"]) == set(IM2COL_FIELDS)
    assert set(mapped["im2col"]["properties"]["mode"]["enum"]) == set(get_args(Im2colMode))
