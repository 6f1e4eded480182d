"""Launches as launch files: what is written is read as the same launch."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tilewright.base.element import Element
from tilewright.base.plan import (
    Im2col,
    Launch,
    NullPointerParam,
    OpaqueParam,
    Param,
    PointerParam,
    ScalarParam,
    TensorMap,
    TensorMapParam,
    UnknownTensorMapParam,
)
from tilewright.driver.launch.launch_buffers import BufferContents
from tilewright.driver.launch.launch_file import parse_launch
from tilewright.driver.launch.written_launch import launch_document

MAP = TensorMap(Element.BF16, (64, 32), (128,), (64, 8), (1, 1), swizzle="128B", out_of_bounds="nan", offset_bytes=256)
WIDE = TensorMap(
    Element.F32, (64, 8, 8, 2), (256, 2048, 16384), (), (1, 1, 1, 1), im2col=Im2col((-1, -1), (1, 1), 64, 8)
)
BUFFERS = {"x": 1 << 20, "maps": 4096}


def _read(launch: Launch) -> Launch:
    """The launch, written and read."""
    text = json.dumps(launch_document(launch, BUFFERS))
    found = parse_launch(text, "launch.json")
    assert found.entry == launch.entry and found.grid is not None and found.block and found.cluster
    assert isinstance(found.params, tuple)
    params = tuple(param for param in found.params if param is not None)
    read = Launch(found.entry, found.grid, found.block, params, found.cluster, found.dynamic_smem_bytes or 0)
    assert {buffer.name: buffer.size_bytes for buffer in found.buffers}.items() <= BUFFERS.items()
    return read


@pytest.mark.parametrize(
    "param",
    [
        PointerParam("x"),
        PointerParam("x", 4096),
        NullPointerParam(),
        ScalarParam("i32", -7),
        ScalarParam("i64", 1 << 60),
        ScalarParam("f32", 0.5),
        ScalarParam("f32", float("-inf")),
        UnknownTensorMapParam(8192),
        PointerParam("maps", 128, ((0, UnknownTensorMapParam(1024)), (192, UnknownTensorMapParam(16)))),
        PointerParam("maps", 0, (), ((0, PointerParam("x", 8)), (24, PointerParam("x")))),
        OpaqueParam(256, bytes(range(16)) + bytes(240), ((8, PointerParam("x", 64)), (64, UnknownTensorMapParam(32)))),
    ],
)
def test_every_parameter_comes_back(param: Param) -> None:
    launch = Launch("k", (4, 2, 1), (128, 1, 1), (param, PointerParam("x"), PointerParam("maps")), (2, 1, 1), 65536)
    read = _read(launch)
    assert read.params[0] == param or (isinstance(param, OpaqueParam) and read.params[0] == replace(param))
    assert (read.grid, read.block, read.cluster, read.dynamic_smem_bytes) == ((4, 2, 1), (128, 1, 1), (2, 1, 1), 65536)


@pytest.mark.parametrize(
    "described",
    [MAP, WIDE, replace(MAP, element=Element.F32, variant="tf32"), replace(MAP, interleave="16B", swizzle="none")],
)
def test_every_tensor_map_comes_back(described: TensorMap) -> None:
    launch = Launch("k", (1, 1, 1), (32, 1, 1), (TensorMapParam("x", described), PointerParam("x")))
    assert _read(launch).params[0] == TensorMapParam("x", described)


def test_a_map_that_nobody_copies_through_gets_the_least_box() -> None:
    launch = Launch("k", (1, 1, 1), (32, 1, 1), (UnknownTensorMapParam(),))
    assert _read(launch).params == (UnknownTensorMapParam(16),)


def test_contents_are_written_once() -> None:
    pointers = (PointerParam("x"), PointerParam("x", 8), PointerParam("maps", 0, (), ((0, PointerParam("x")),)))
    data = np.arange(6, dtype=np.uint8)
    document = launch_document(
        Launch("k", (1, 1, 1), (32, 1, 1), pointers), BUFFERS, (BufferContents("x", data, ((0, 6),)),)
    )
    found = parse_launch(json.dumps(document), "launch.json")
    contents = {each.name: (each.data.tobytes(), each.known) for each in found.contents}
    assert contents == {"x": (data.tobytes(), ((0, 6),)), "maps": (b"", ((0, 8),))}
