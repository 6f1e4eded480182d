"""How is a launch written as a launch file? The JSON document that `driver.launch_file` reads as the same launch.

A tensor map of which only the box is known is written as such; one that no copy of the launch uses gets the least box.
What a launch file cannot say (a launch that is programmatic or resident) is left out: the check does not ask for it.
Source: docs/launch-file.md. Checked by: tests/driver/test_written_launch.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.base.plan import (
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
from tilewright.driver.launch_file import data_type_name

_LEAST_BOX_BYTES = 16


def launch_document(launch: Launch, buffers: Mapping[str, int]) -> dict[str, object]:
    """The launch as a JSON document. buffers: bytes of each, by name."""
    return {
        "entry": launch.entry,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "cluster": list(launch.cluster),
        "dynamic_smem": launch.dynamic_smem_bytes,
        "params": [_written(param, buffers) for param in launch.params],
    }


def _written(param: Param, buffers: Mapping[str, int]) -> dict[str, object]:
    match param:
        case NullPointerParam():
            return {"kind": "ptr", "bytes": 0}
        case PointerParam(buffer, offset, maps):
            document: dict[str, object] = {"kind": "ptr", "buffer": buffer}
            if buffer in buffers:
                document["bytes"] = buffers[buffer]
            if offset:
                document["offset"] = offset
            if maps:
                document["maps"] = [{"at": at, **_written(held, buffers)} for at, held in maps]
            return document
        case ScalarParam(kind, value):
            return {"kind": kind, "value": value if isinstance(value, int) or math.isfinite(value) else str(value)}
        case UnknownTensorMapParam(box_bytes):
            return {"kind": "tensormap", "box_bytes": box_bytes or _LEAST_BOX_BYTES}
        case TensorMapParam(buffer, described):
            return {"kind": "tensormap", **_map(described), "buffer": buffer}
        case OpaqueParam(size_bytes, data, fields):
            document = {"kind": "bytes", "size": size_bytes, "data": data.hex()}
            if fields:
                document["fields"] = [{"at": at, **_written(member, buffers)} for at, member in fields]
            return document


def _map(described: TensorMap) -> dict[str, object]:
    document: dict[str, object] = {
        "dtype": data_type_name(described),
        "dims": list(described.dims),
        "strides": list(described.strides_bytes),
        "swizzle": described.swizzle,
        "interleave": described.interleave,
        "oob": described.out_of_bounds,
        "l2_promotion": described.l2_promotion,
        "offset": described.offset_bytes,
    }
    if described.element_strides:
        document["element_strides"] = list(described.element_strides)
    if described.im2col is None:
        document["box"] = list(described.box)
    else:
        document["im2col"] = {
            "lower_corner": list(described.im2col.lower_corner),
            "upper_corner": list(described.im2col.upper_corner),
            "channels_per_pixel": described.im2col.channels_per_pixel,
            "pixels_per_column": described.im2col.pixels_per_column,
            "mode": described.im2col.mode,
        }
    return document
