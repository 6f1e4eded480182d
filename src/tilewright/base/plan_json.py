"""Launch plans as JSON documents, both ways, strictly.

The shape follows the dataclasses of `tilewright.base.plan` field by field, so that a plan read back equals the plan
written. A parameter is tagged by `"param"`: `"pointer"`, `"null_pointer"`, `"scalar"`, `"tensor_map"`,
`"unknown_tensor_map"` or `"opaque"`. Non-finite scalars are the strings `"nan"`, `"inf"` and `"-inf"`, since JSON has
no numbers for them; the bytes of an opaque structure are hexadecimal. Sizes that depend on run-time axes are strings
(`run_time_json`).

Reading refuses what it does not know: an unknown or missing field, a value of the wrong type (`true` is no integer), a
reference to a buffer that is not there, lists whose lengths contradict each other. It does not judge whether a tensor
map is legal (`legal` does) or a launch fits a device (`runtime` does).

Checked by: tests/runtime/test_plan_json.py, round trip over generated plans and mutated documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar, cast, get_args

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import (
    Buffer,
    BufferRole,
    ElementVariant,
    Im2col,
    Im2colMode,
    Interleave,
    L2Promotion,
    Launch,
    LaunchPlan,
    NullPointerParam,
    OpaqueParam,
    OutOfBounds,
    Param,
    PointerParam,
    RunTimeSizes,
    ScalarParam,
    Swizzle,
    TensorMap,
    TensorMapParam,
    UnknownTensorMapParam,
    buffers_of,
)
from tilewright.base.run_time_json import taken_apart, with_sizes

PLAN_FORMAT = 1
"""Version of the document. Raised when an older reader would misunderstand a newer document."""

MAX_PARAMETER_BYTES = 32764
"""The most that all parameters of a kernel take together (CUDA 12.1 and newer, compute capability 7.0 and newer)."""

_Item = TypeVar("_Item")
_F32_MAX = (2 - 2**-23) * 2.0**127


def plan_to_json(plan: LaunchPlan) -> dict[str, object]:
    """The plan as a JSON document (dicts, lists, strings, numbers)."""
    document = _document(plan)
    return document if plan.run_time is None else with_sizes(document, plan.run_time)


def _document(plan: LaunchPlan) -> dict[str, object]:
    return {
        "format": PLAN_FORMAT,
        "buffers": [
            {
                "name": buffer.name,
                "element": buffer.element.value,
                "shape": list(buffer.shape),
                "strides": list(buffer.strides),
                "role": buffer.role,
                **({"zeroed": True} if buffer.zeroed else {}),
            }
            for buffer in plan.buffers
        ],
        "launches": [
            {
                "entry": launch.entry,
                "grid": list(launch.grid),
                "block": list(launch.block),
                "cluster": list(launch.cluster),
                "dynamic_smem_bytes": launch.dynamic_smem_bytes,
                "params": [_param_to_json(param) for param in launch.params],
                **({"programmatic": True} if launch.programmatic else {}),
                **({"resident": True} if launch.resident else {}),
            }
            for launch in plan.launches
        ],
    }


def _param_to_json(param: Param) -> dict[str, object]:
    match param:
        case PointerParam():
            return {"param": "pointer", "buffer": param.buffer, "offset_bytes": param.offset_bytes}
        case ScalarParam():
            value = param.value
            finite = isinstance(value, int) or math.isfinite(value)
            return {"param": "scalar", "kind": param.kind, "value": value if finite else str(value)}
        case TensorMapParam():
            return {"param": "tensor_map", "buffer": param.buffer, "map": tensor_map_to_json(param.map)}
        case NullPointerParam():
            return {"param": "null_pointer"}
        case UnknownTensorMapParam():
            return {"param": "unknown_tensor_map", "box_bytes": param.box_bytes}
        case OpaqueParam():
            fields = [{"at_bytes": offset, "member": _param_to_json(member)} for offset, member in param.fields]
            return {"param": "opaque", "size_bytes": param.size_bytes, "data": param.data.hex(), "fields": fields}


def tensor_map_to_json(tensor_map: TensorMap) -> dict[str, object]:
    """One tensor map as a JSON object, fields in the order of `cuTensorMapEncodeTiled`.

    `variant` and `im2col` are written where a map has them.
    """
    document: dict[str, object] = {
        "element": tensor_map.element.value,
        "dims": list(tensor_map.dims),
        "strides_bytes": list(tensor_map.strides_bytes),
        "box": list(tensor_map.box),
        "element_strides": list(tensor_map.element_strides),
        "interleave": tensor_map.interleave,
        "swizzle": tensor_map.swizzle,
        "l2_promotion": tensor_map.l2_promotion,
        "out_of_bounds": tensor_map.out_of_bounds,
        "offset_bytes": tensor_map.offset_bytes,
    }
    if tensor_map.variant != "none":
        document["variant"] = tensor_map.variant
    if tensor_map.im2col is not None:
        document["im2col"] = {
            "lower_corner": list(tensor_map.im2col.lower_corner),
            "upper_corner": list(tensor_map.im2col.upper_corner),
            "channels_per_pixel": tensor_map.im2col.channels_per_pixel,
            "pixels_per_column": tensor_map.im2col.pixels_per_column,
            "mode": tensor_map.im2col.mode,
        }
    return document


def plan_from_json(document: object, *, where: str = "plan") -> LaunchPlan:
    """The plan that `document` describes. `where` begins every path in an error, such as `plan.launches[0].grid`.

    Raises TilewrightError, naming the path, for anything that `plan_to_json` would not have written.
    """
    fields = _record(document, where, ("format", "buffers", "launches"), optional=("axes",))
    version = _integer(fields["format"], f"{where}.format", 1)
    if version != PLAN_FORMAT:
        raise TilewrightError(
            f"{where}.format is {version}; this version of Tilewright reads {PLAN_FORMAT}",
            remedy="upgrade Tilewright, or compile the program again",
        )
    sizes: RunTimeSizes | None = None
    if "axes" in fields:
        fields, sizes = taken_apart(fields, where)
    buffers = _sequence(fields["buffers"], f"{where}.buffers", _buffer)
    names = [buffer.name for buffer in buffers]
    for index, name in enumerate(names):
        if name in names[:index]:
            _refuse(f"{where}.buffers[{index}].name", f"repeats the name {name!r}")
    launches = _sequence(fields["launches"], f"{where}.launches", _launch)
    for index, launch in enumerate(launches):
        for position, param in enumerate(launch.params):
            for buffer in buffers_of(param):
                if buffer not in names:
                    path = f"{where}.launches[{index}].params[{position}].buffer"
                    _refuse(path, f"names {buffer!r}, which is no buffer of the plan")
    return LaunchPlan(buffers, launches, sizes)


def _buffer(value: object, where: str) -> Buffer:
    fields = _record(value, where, ("name", "element", "shape", "strides", "role"), optional=("zeroed",))
    shape = _integers(fields["shape"], f"{where}.shape")
    strides = _integers(fields["strides"], f"{where}.strides")
    if len(strides) != len(shape):
        _refuse(f"{where}.strides", f"has {len(strides)} entries for {len(shape)} dimensions")
    return Buffer(
        name=_text(fields["name"], f"{where}.name"),
        element=_element(fields["element"], f"{where}.element"),
        shape=shape,
        strides=strides,
        role=cast("BufferRole", _choice(fields["role"], f"{where}.role", get_args(BufferRole))),
        zeroed=_boolean(fields.get("zeroed", False), f"{where}.zeroed"),
    )


def _launch(value: object, where: str) -> Launch:
    expected = ("entry", "grid", "block", "cluster", "dynamic_smem_bytes", "params")
    fields = _record(value, where, expected, optional=("programmatic", "resident"))
    return Launch(
        entry=_text(fields["entry"], f"{where}.entry"),
        grid=_extent(fields["grid"], f"{where}.grid"),
        block=_extent(fields["block"], f"{where}.block"),
        cluster=_extent(fields["cluster"], f"{where}.cluster"),
        dynamic_smem_bytes=_integer(fields["dynamic_smem_bytes"], f"{where}.dynamic_smem_bytes"),
        params=_sequence(fields["params"], f"{where}.params", _param),
        programmatic=_boolean(fields.get("programmatic", False), f"{where}.programmatic"),
        resident=_boolean(fields.get("resident", False), f"{where}.resident"),
    )


def _boolean(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        _refuse(where, f"is {_kind(value)}, neither true nor false")
    return value


def _param(value: object, where: str) -> Param:
    tag = _mapping(value, where).get("param")
    match tag:
        case "pointer":
            fields = _record(value, where, ("param", "buffer", "offset_bytes"))
            return PointerParam(
                _text(fields["buffer"], f"{where}.buffer"), _integer(fields["offset_bytes"], f"{where}.offset_bytes")
            )
        case "scalar":
            return _scalar(_record(value, where, ("param", "kind", "value")), where)
        case "tensor_map":
            fields = _record(value, where, ("param", "buffer", "map"))
            return TensorMapParam(
                _text(fields["buffer"], f"{where}.buffer"), tensor_map_from_json(fields["map"], where=f"{where}.map")
            )
        case "null_pointer":
            _record(value, where, ("param",))
            return NullPointerParam()
        case "unknown_tensor_map":
            box_bytes = _record(value, where, ("param", "box_bytes"))["box_bytes"]
            return UnknownTensorMapParam(None if box_bytes is None else _integer(box_bytes, f"{where}.box_bytes", 1))
        case "opaque":
            return _opaque(_record(value, where, ("param", "size_bytes", "data", "fields")), where)
        case _:
            _refuse(
                f"{where}.param",
                f"is {tag!r}, not one of pointer, null_pointer, scalar, tensor_map, unknown_tensor_map, opaque",
            )


def _opaque(fields: Mapping[str, object], where: str) -> OpaqueParam:
    size_bytes = _integer(fields["size_bytes"], f"{where}.size_bytes", 1, MAX_PARAMETER_BYTES)
    text = fields["data"]
    try:
        data = bytes.fromhex(text) if isinstance(text, str) else None
    except ValueError:
        data = None
    if data is None:
        _refuse(f"{where}.data", f"is {_kind(text)}, not a string of hexadecimal digits")
    if len(data) > size_bytes:
        _refuse(f"{where}.data", f"has {len(data)} bytes; the structure has {size_bytes}")
    return OpaqueParam(size_bytes, data, _sequence(fields["fields"], f"{where}.fields", _field))


def _field(value: object, where: str) -> tuple[int, TensorMapParam | UnknownTensorMapParam | PointerParam]:
    fields = _record(value, where, ("at_bytes", "member"))
    offset = _integer(fields["at_bytes"], f"{where}.at_bytes", 0, MAX_PARAMETER_BYTES)
    member = _param(fields["member"], f"{where}.member")
    if not isinstance(member, TensorMapParam | UnknownTensorMapParam | PointerParam):
        _refuse(f"{where}.member", "is no pointer and no tensor map")
    return offset, member


def _scalar(fields: Mapping[str, object], where: str) -> ScalarParam:
    kind, value, path = fields["kind"], fields["value"], f"{where}.value"
    if kind == "i32":
        return ScalarParam("i32", _integer(value, path, -(2**31), 2**32 - 1))
    if kind == "i64":
        return ScalarParam("i64", _integer(value, path, -(2**63), 2**64 - 1))
    if kind != "f32":
        _refuse(f"{where}.kind", f"is {kind!r}, not one of i32, i64, f32")
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return ScalarParam("f32", float(value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(path, f"is {value!r}, not a number or one of nan, inf, -inf")
    if not abs(value) <= _F32_MAX:
        _refuse(path, f"is {value!r}, outside the range of f32")
    return ScalarParam("f32", value)


def tensor_map_from_json(value: object, *, where: str = "tensor map") -> TensorMap:
    """The tensor map that `value` describes. Raises TilewrightError, naming the path, where it describes none."""
    fields = _record(
        value,
        where,
        (
            "element",
            "dims",
            "strides_bytes",
            "box",
            "element_strides",
            "interleave",
            "swizzle",
            "l2_promotion",
            "out_of_bounds",
            "offset_bytes",
        ),
        optional=("variant", "im2col"),
    )
    im2col = _im2col(fields["im2col"], f"{where}.im2col") if "im2col" in fields else None
    dims = _integers(fields["dims"], f"{where}.dims", 1)
    rank = len(dims)
    strides_bytes = _integers(fields["strides_bytes"], f"{where}.strides_bytes")
    box = _integers(fields["box"], f"{where}.box", 1)
    element_strides = _integers(fields["element_strides"], f"{where}.element_strides", 1)
    if rank == 0:
        _refuse(f"{where}.dims", "is empty")
    if len(strides_bytes) != rank - 1:
        _refuse(f"{where}.strides_bytes", f"has {len(strides_bytes)} entries; rank {rank} needs {rank - 1}")
    if len(box) != (rank if im2col is None else 0):
        _refuse(f"{where}.box", f"has {len(box)} entries; rank {rank} needs {rank}, and an im2col map none")
    if len(element_strides) not in (0, rank):
        _refuse(f"{where}.element_strides", f"has {len(element_strides)} entries; rank {rank} needs none or {rank}")

    def choose(field: str, options: tuple[str, ...]) -> str:
        return _choice(fields[field], f"{where}.{field}", options)

    return TensorMap(
        element=_element(fields["element"], f"{where}.element"),
        dims=dims,
        strides_bytes=strides_bytes,
        box=box,
        element_strides=element_strides,
        swizzle=cast("Swizzle", choose("swizzle", get_args(Swizzle))),
        interleave=cast("Interleave", choose("interleave", get_args(Interleave))),
        l2_promotion=cast("L2Promotion", choose("l2_promotion", get_args(L2Promotion))),
        out_of_bounds=cast("OutOfBounds", choose("out_of_bounds", get_args(OutOfBounds))),
        offset_bytes=_integer(fields["offset_bytes"], f"{where}.offset_bytes"),
        variant=cast("ElementVariant", choose("variant", get_args(ElementVariant)) if "variant" in fields else "none"),
        im2col=im2col,
    )


def _im2col(value: object, where: str) -> Im2col:
    fields = _record(value, where, ("lower_corner", "upper_corner", "channels_per_pixel", "pixels_per_column", "mode"))
    low, high = -(2**31), 2**31 - 1
    lower = _integers(fields["lower_corner"], f"{where}.lower_corner", low, high)
    upper = _integers(fields["upper_corner"], f"{where}.upper_corner", low, high)
    if len(lower) != len(upper):
        _refuse(f"{where}.upper_corner", f"has {len(upper)} entries; the lower corner has {len(lower)}")
    return Im2col(
        lower,
        upper,
        _integer(fields["channels_per_pixel"], f"{where}.channels_per_pixel", 1),
        _integer(fields["pixels_per_column"], f"{where}.pixels_per_column", 0),
        cast("Im2colMode", _choice(fields["mode"], f"{where}.mode", get_args(Im2colMode))),
    )


def _refuse(where: str, problem: str) -> NoReturn:
    raise TilewrightError(f"{where} {problem}", remedy="the document was not written by this version of Tilewright")


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        _refuse(where, f"is {_kind(value)}, not an object")
    return cast("Mapping[str, object]", value)


def _record(
    value: object, where: str, expected: tuple[str, ...], *, optional: tuple[str, ...] = ()
) -> Mapping[str, object]:
    fields = _mapping(value, where)
    for field in fields:
        if field not in expected and field not in optional:
            _refuse(f"{where}.{field}", f"is no field; the fields are {', '.join(expected)}")
    for field in expected:
        if field not in fields:
            _refuse(f"{where}.{field}", "is missing")
    return fields


def _sequence(value: object, where: str, read: Callable[[object, str], _Item]) -> tuple[_Item, ...]:
    if not isinstance(value, list):
        _refuse(where, f"is {_kind(value)}, not a list")
    items = cast("list[object]", value)
    return tuple(read(item, f"{where}[{index}]") for index, item in enumerate(items))


def _integers(value: object, where: str, low: int = 0, high: int = 2**64 - 1) -> tuple[int, ...]:
    return _sequence(value, where, lambda item, path: _integer(item, path, low, high))


def _extent(value: object, where: str) -> tuple[int, int, int]:
    extents = _integers(value, where, 1)
    if len(extents) != 3:
        _refuse(where, f"has {len(extents)} entries, not x, y and z")
    return (extents[0], extents[1], extents[2])


def _integer(value: object, where: str, low: int = 0, high: int = 2**64 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(where, f"is {_kind(value)}, not an integer")
    if not low <= value <= high:
        _refuse(where, f"is {value}, outside {low} to {high}")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        _refuse(where, f"is {_kind(value)}, not a non-empty string")
    return value


def _choice(value: object, where: str, options: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in options:
        _refuse(where, f"is {value!r}, not one of {', '.join(options)}")
    return value


def _element(value: object, where: str) -> Element:
    for element in Element:
        if element.value == value:
            return element
    _refuse(where, f"is {value!r}, not one of {', '.join(element.value for element in Element)}")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {value!r}"
        case list():
            return "a list"
        case _:
            return "an object"
