"""How does a launch file describe a tensor map that a program had encoded? Numbers of cuda.h become the file's words.

Source: CUDA Driver API, cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2colWide, and the
enumerations of cuda.h. Checked by: tests/driver/capture/test_launches.py.
"""

from __future__ import annotations

from tilewright.driver.capture.records import EncodedMap

_DATA_TYPES = (
    "u8", "u16", "u32", "i32", "u64", "i64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32", "tf32_ftz",
    "u4x16_align8", "u4x16_align16", "u6x16_align16",
)  # fmt: skip
_ELEMENT_BITS = (8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6)
_SLICE_BYTES = (0, 16, 32)
"""Of one step along the innermost dimension of an interleaved map."""
_INTERLEAVES = ("none", "16B", "32B")
_SWIZZLES = ("none", "32B", "64B", "128B", "128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B")
_PROMOTIONS = ("none", "64B", "128B", "256B")
_FILLS = ("zero", "nan")
_WIDE_MODES = ("im2col::w", "im2col::w::128")


def described(encoded: EncodedMap) -> dict[str, object]:
    """The fields of a `tensormap`, without those that say where it lies. Raises ValueError for an unknown number."""
    rank = len(encoded.dims)
    interleave, swizzle, promotion, fill = encoded.numbers[-4:]
    fields: dict[str, object] = {
        "kind": "tensormap",
        "dtype": _named(_DATA_TYPES, encoded.data_type, "data type"),
        "dims": list(encoded.dims),
        "strides": list(encoded.strides),
    }
    match encoded.kind:
        case 0:
            fields["box"] = list(encoded.numbers[:rank])
        case 1:
            channels, pixels, *corners = encoded.numbers[:-4]
            fields["im2col"] = _im2col(corners[: rank - 2], corners[rank - 2 :], channels, pixels)
        case _:
            channels, pixels, lower, upper, mode, interleave = encoded.numbers[:6]
            mode_name = _named(_WIDE_MODES, mode, "mode")
            fields["im2col"] = {**_im2col([lower], [upper], channels, pixels), "mode": mode_name}
    if set(encoded.element_strides) != {1}:
        fields["element_strides"] = list(encoded.element_strides)
    ways = {
        "swizzle": _named(_SWIZZLES, swizzle, "swizzle"),
        "interleave": _named(_INTERLEAVES, interleave, "interleave"),
        "l2_promotion": _named(_PROMOTIONS, promotion, "L2 promotion"),
        "oob": _named(_FILLS, fill, "fill"),
    }
    defaults = {"swizzle": "none", "interleave": "none", "l2_promotion": "none", "oob": "zero"}
    return {**fields, **{name: value for name, value in ways.items() if value != defaults[name]}}


def span_bytes(encoded: EncodedMap) -> int:
    """Bytes from the tensor's first to past its last. Raises ValueError for an unknown number."""
    described(encoded)
    interleave = encoded.numbers[-4]
    bits = 8 * _SLICE_BYTES[interleave] or _ELEMENT_BITS[encoded.data_type]
    outer = zip(encoded.dims[1:], encoded.strides, strict=True)
    return -(-encoded.dims[0] * bits // 8) + sum((extent - 1) * stride for extent, stride in outer)


def _im2col(lower: list[int], upper: list[int], channels: int, pixels: int) -> dict[str, object]:
    return {
        "lower_corner": lower,
        "upper_corner": upper,
        "channels_per_pixel": channels,
        "pixels_per_column": pixels,
    }


def _named(names: tuple[str, ...], number: int, what: str) -> str:
    if not 0 <= number < len(names):
        raise ValueError(f"a tensor map of {what} {number}")
    return names[number]
