"""How is a launch written as a launch file? The JSON document that `driver.launch.launch_file` reads as the same
launch.

A tensor map of which only the box is known is written as such; one that no copy of the launch uses gets the least box.
What a launch file cannot say (a launch that is programmatic or resident) is left out: the check does not ask for it.
Source: docs/launch-file.md. Checked by: tests/driver/launch/test_written_launch.py.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence

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
from tilewright.driver.launch.launch_buffers import BufferContents
from tilewright.driver.launch.launch_file import data_type_name

_LEAST_BOX_BYTES = 16


def launch_document(
    launch: Launch, buffers: Mapping[str, int], contents: Sequence[BufferContents] = ()
) -> dict[str, object]:
    """The launch as a JSON document. buffers: bytes of each, by name; contents: of those whose bytes are given."""
    data = {each.name: base64.b64encode(each.data.tobytes()).decode() for each in contents if each.data.size}
    return {
        "entry": launch.entry,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "cluster": list(launch.cluster),
        "dynamic_smem": launch.dynamic_smem_bytes,
        "params": [_written(param, buffers, data) for param in launch.params],
    }


def _written(param: Param, buffers: Mapping[str, int], data: dict[str, str]) -> dict[str, object]:
    """A parameter. data: of buffers, in base64, that were not written so far."""
    match param:
        case NullPointerParam():
            return {"kind": "ptr", "bytes": 0}
        case PointerParam(buffer, offset, maps, pointers):
            document: dict[str, object] = {"kind": "ptr", "buffer": buffer}
            if buffer in buffers:
                document["bytes"] = buffers[buffer]
            if offset:
                document["offset"] = offset
            if buffer in data:
                document["data"] = f"base64:{data.pop(buffer)}"
            if pointers:
                document["pointers"] = [{"at": at, **_written(held, buffers, data)} for at, held in pointers]
            if maps:
                document["maps"] = [{"at": at, **_written(held, buffers, data)} for at, held in maps]
            return document
        case ScalarParam(kind, value):
            return {"kind": kind, "value": value if isinstance(value, int) or math.isfinite(value) else str(value)}
        case UnknownTensorMapParam(box_bytes):
            return {"kind": "tensormap", "box_bytes": box_bytes or _LEAST_BOX_BYTES}
        case TensorMapParam(buffer, described):
            return {"kind": "tensormap", **_map(described), "buffer": buffer}
        case OpaqueParam(size_bytes, content, fields):
            document = {"kind": "bytes", "size": size_bytes, "data": content.hex()}
            if fields:
                document["fields"] = [{"at": at, **_written(member, buffers, data)} for at, member in fields]
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
