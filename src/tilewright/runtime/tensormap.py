"""A tensor map against a real address: the 128 bytes that the driver makes of it.

Only the driver knows the encoding, so there is nothing to run without one. A refusal comes back from the driver as a
bare CUDA_ERROR_INVALID_VALUE; the error raised here shows every field instead. `legal` explains which rule is broken
(runtime is deployed without it).
Source: CUDA Driver API, "Tensor Map Object Management": cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col,
cuTensorMapEncodeIm2colWide.
Checked by: tests/runtime/test_gpu.py on a GPU; tests/runtime/test_launch.py and test_tensormap.py for the arguments.
"""

from __future__ import annotations

import ctypes

from tilewright.base.element import Element
from tilewright.base.plan import Im2col, TensorMap
from tilewright.runtime import device

TENSOR_MAP_BYTES = 128
_UNREAD_STRIDE_BYTES = 16

_DATA_TYPES = {
    Element.U8: "UINT8",
    Element.U16: "UINT16",
    Element.U32: "UINT32",
    Element.S32: "INT32",
    Element.U64: "UINT64",
    Element.S64: "INT64",
    Element.F16: "FLOAT16",
    Element.BF16: "BFLOAT16",
    Element.F32: "FLOAT32",
    Element.F64: "FLOAT64",
    # The driver has no names for them; a copy moves bytes either way.
    Element.F8E4M3: "UINT8",
    Element.F8E5M2: "UINT8",
    Element.UE8M0: "UINT8",
    Element.UE4M3: "UINT8",
    Element.F4E2M1X2: "UINT8",
    Element.S8: "UINT8",
}
_VARIANTS = {
    "f32_ftz": "FLOAT32_FTZ",
    "tf32": "TFLOAT32",
    "tf32_ftz": "TFLOAT32_FTZ",
    "u4x16_align8": "16U4_ALIGN8B",
    "u4x16_align16": "16U4_ALIGN16B",
    "u6x16_align16": "16U6_ALIGN16B",
}
_INTERLEAVES = {"none": "NONE", "16B": "16B", "32B": "32B"}
_WIDE_MODES = {"im2col::w": "W", "im2col::w::128": "W128"}
_PROMOTIONS = {"none": "NONE", "64B": "L2_64B", "128B": "L2_128B", "256B": "L2_256B"}
_FILLS = {"zero": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"}


def encode(tensor_map: TensorMap, address: int, purpose: str) -> bytes:
    """The 128 bytes of the tensor map for a buffer at `address` (the map's own offset is added here).

    Raises TilewrightError: no driver, or the driver refuses; the message lists every field and `purpose`.
    """
    cuda = device.driver()
    begin = address + tensor_map.offset_bytes
    strides = tensor_map.element_strides or (1,) * tensor_map.rank
    # Rank 1 has no strides, but the driver refuses a null pointer to them, which is what an empty list becomes.
    strides_bytes = tensor_map.strides_bytes or (_UNREAD_STRIDE_BYTES,)
    data_type = _VARIANTS.get(tensor_map.variant) or _DATA_TYPES[tensor_map.element]
    swizzle = tensor_map.swizzle.upper()
    tensor = (
        getattr(cuda.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{data_type}"),
        tensor_map.rank,
        begin,
        [cuda.cuuint64_t(extent) for extent in tensor_map.dims],
        [cuda.cuuint64_t(stride) for stride in strides_bytes],
    )
    steps = [cuda.cuuint32_t(stride) for stride in strides]
    interleave = getattr(cuda.CUtensorMapInterleave, f"CU_TENSOR_MAP_INTERLEAVE_{_INTERLEAVES[tensor_map.interleave]}")
    ways = (
        getattr(cuda.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        getattr(cuda.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{_PROMOTIONS[tensor_map.l2_promotion]}"),
        getattr(cuda.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{_FILLS[tensor_map.out_of_bounds]}"),
    )
    match tensor_map.im2col:
        case None:
            box = [cuda.cuuint32_t(extent) for extent in tensor_map.box]
            result = cuda.cuTensorMapEncodeTiled(*tensor, box, steps, interleave, *ways)
        case Im2col(lower, upper, channels, pixels, "im2col"):
            result = cuda.cuTensorMapEncodeIm2col(
                *tensor, list(lower), list(upper), channels, pixels, steps, interleave, *ways
            )
        case Im2col(lower, upper, channels, pixels, wide):
            mode = getattr(cuda.CUtensorMapIm2ColWideMode, f"CU_TENSOR_MAP_IM2COL_WIDE_MODE_{_WIDE_MODES[wide]}")
            result = cuda.cuTensorMapEncodeIm2colWide(
                *tensor, lower[0], upper[0], channels, pixels, steps, interleave, mode, *ways
            )
    if int(result[0]) != 0:
        device.check(
            result,
            f"encoding the tensor map for {purpose}: {describe(tensor_map, address)}",
            advice="tilewright.legal.check names the rules broken, tilewright.legal.repair the plans nearest to it",
        )
    return ctypes.string_at(int(result[1].getPtr()), TENSOR_MAP_BYTES)


def describe(tensor_map: TensorMap, address: int) -> str:
    """Every field of the map and the address, on one line."""
    element = tensor_map.element.value if tensor_map.variant == "none" else tensor_map.variant
    box = f"box {tensor_map.box}"
    if tensor_map.im2col is not None:
        im2col = tensor_map.im2col
        box = (
            f"{im2col.mode} corners {im2col.lower_corner} and {im2col.upper_corner}, "
            f"{im2col.channels_per_pixel} channels per pixel, {im2col.pixels_per_column} pixels per column"
        )
    return (
        f"element {element}, address {address:#x}+{tensor_map.offset_bytes}, "
        f"dims {tensor_map.dims}, strides_bytes {tensor_map.strides_bytes}, {box}, "
        f"element_strides {tensor_map.element_strides or (1,) * tensor_map.rank}, "
        f"interleave {tensor_map.interleave}, swizzle {tensor_map.swizzle}, "
        f"l2_promotion {tensor_map.l2_promotion}, out_of_bounds {tensor_map.out_of_bounds}"
    )
