"""What of a tensor map reaches the driver: each function's arguments, and every field in an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import ElementVariant, Im2col, Swizzle, TensorMap
from tilewright.runtime.tensormap import encode

COLUMNS = TensorMap(
    Element.F16, (64, 8, 6, 2), (128, 1024, 6144), (), (1, 2, 1, 1), "64B", offset_bytes=64,
    im2col=Im2col((-1, -2), (0, 3), 32, 128),
)  # fmt: skip


@pytest.fixture
def fake(record: Callable[..., Any]) -> Any:
    return record({})


def said(fake: Any, function: str) -> tuple[Any, ...]:
    ((_, arguments),) = [call for call in fake.calls if call[0] == function]
    return arguments


def test_im2col_maps_reach_the_driver_field_by_field(fake: Any) -> None:
    assert len(encode(COLUMNS, 0x1000, "x")) == 128
    kind, rank, address, dims, strides, lower, upper, channels, pixels, steps, interleave, swizzle, *_ = said(
        fake, "cuTensorMapEncodeIm2col"
    )
    assert (rank, address, lower, upper, channels, pixels) == (4, 0x1040, [-1, -2], [0, 3], 32, 128)
    assert [[int(each) for each in values] for values in (dims, strides, steps)] == [
        [64, 8, 6, 2],
        [128, 1024, 6144],
        [1, 2, 1, 1],
    ]
    assert [value.name.removeprefix("CU_TENSOR_MAP_") for value in (kind, interleave, swizzle)] == [
        "DATA_TYPE_FLOAT16",
        "INTERLEAVE_NONE",
        "SWIZZLE_64B",
    ]


def test_wide_im2col_maps_name_their_mode(fake: Any) -> None:
    wide = TensorMap(Element.F16, (64, 8, 6), (128, 1024), (), im2col=Im2col((-1,), (2,), 32, 0, "im2col::w::128"))
    encode(wide, 0x1000, "x")
    arguments = said(fake, "cuTensorMapEncodeIm2colWide")
    assert arguments[5:9] == (-1, 2, 32, 0)
    assert arguments[11].name == "CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128"


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        ("f32_ftz", "FLOAT32_FTZ"),
        ("tf32", "TFLOAT32"),
        ("tf32_ftz", "TFLOAT32_FTZ"),
        ("u4x16_align8", "16U4_ALIGN8B"),
        ("u4x16_align16", "16U4_ALIGN16B"),
        ("u6x16_align16", "16U6_ALIGN16B"),
    ],
)
def test_data_types_that_no_element_names(fake: Any, variant: ElementVariant, name: str) -> None:
    element = Element.F32 if "32" in variant else Element.U8
    encode(TensorMap(element, (128, 8), (512,), (128, 1), variant=variant), 0, "x")
    assert said(fake, "cuTensorMapEncodeTiled")[0].name == f"CU_TENSOR_MAP_DATA_TYPE_{name}"


@pytest.mark.parametrize("swizzle", ["128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B"])
def test_swizzles_of_newer_hardware(fake: Any, swizzle: Swizzle) -> None:
    encode(TensorMap(Element.U8, (128, 8), (128,), (128, 1), swizzle=swizzle), 0, "x")
    assert said(fake, "cuTensorMapEncodeTiled")[8].name == f"CU_TENSOR_MAP_SWIZZLE_{swizzle.upper()}"


def test_a_refused_im2col_map_shows_every_field(fake: Any) -> None:
    fake.fail["cuTensorMapEncodeIm2col"] = fake.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(TilewrightError) as caught:
        encode(COLUMNS, 0x1000, "the images")
    for field in ("the images", "corners (-1, -2) and (0, 3)", "32 channels per pixel", "128 pixels per column", "64B"):
        assert field in caught.value.message
