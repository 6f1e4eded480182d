"""What does a `launch.json` say? One launch of one kernel, and the buffers that its parameters name.

The schema is `docs/launch.schema.json`. Parts of the launch that are missing are not known (`given_launch` says what
that means); fields of a tensor map that are missing take what the driver takes: element strides of one, no swizzle, no
interleave, zeros out of bounds. Reading is strict: an unknown field, a value of the wrong
type, lists whose lengths contradict each other end with one message that names the file, the path in it and what to
write instead. Whether a tensor map is legal is not judged here (`legal` does).

Not handled: several launches in one file. Checked by: tests/driver/launch/test_launch_file.py, which also holds the
documented schema against the reader.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast, get_args

from tilewright.base.element import Element, parse_element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import (
    ElementVariant,
    Im2col,
    Im2colMode,
    Interleave,
    L2Promotion,
    NullPointerParam,
    OpaqueParam,
    OutOfBounds,
    Param,
    PointerParam,
    ScalarParam,
    Swizzle,
    TensorMap,
    TensorMapParam,
    UnknownTensorMapParam,
)
from tilewright.base.plan_json import MAX_PARAMETER_BYTES
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.driver.launch.given_launch import (
    DEFAULT_ALIGNMENT_BYTES,
    BufferSize,
    LaunchFile,
    extents_of,
    param_bytes,
    plain_bytes,
)
from tilewright.driver.launch.launch_buffers import CONTENT_BYTES_MOST, BufferContents, Ranges

if TYPE_CHECKING:
    from tilewright.driver.launch.launch_buffers import Bytes

Member = TensorMapParam | UnknownTensorMapParam | PointerParam | ScalarParam | NullPointerParam
TOP_FIELDS = ("entry", "grid", "block", "cluster", "dynamic_smem", "params", "names", "note")
PARAM_FIELDS: dict[str, tuple[str, ...]] = {
    "ptr": ("kind", "bytes", "align", "buffer", "offset", "maps", "data", "dtype", "pointers", "note"),
    "i32": ("kind", "value", "note"),
    "i64": ("kind", "value", "note"),
    "f32": ("kind", "value", "note"),
    "tensormap": (
        "kind", "dtype", "dims", "strides", "box", "element_strides", "swizzle", "interleave", "oob", "l2_promotion",
        "offset", "buffer", "im2col", "box_bytes", "note",
    ),
    "bytes": ("kind", "size", "data", "fields", "note"),
}  # fmt: skip
"""Fields of each kind of parameter. A `note` is for whoever reads the file."""
IM2COL_FIELDS = ("lower_corner", "upper_corner", "channels_per_pixel", "pixels_per_column", "mode")
_VARIANTS: dict[str, tuple[Element, ElementVariant]] = {
    "f32_ftz": (Element.F32, "f32_ftz"),
    "tf32": (Element.F32, "tf32"),
    "tf32_ftz": (Element.F32, "tf32_ftz"),
    "u4x16_align8": (Element.U8, "u4x16_align8"),
    "u4x16_align16": (Element.U8, "u4x16_align16"),
    "u6x16_align16": (Element.U8, "u6x16_align16"),
}
"""Data types of the driver that no element names."""
_BY_WIDTH = {
    "e4m3": Element.U8,
    "e5m2": Element.U8,
    "s8": Element.U8,
    "i8": Element.U8,
    "s16": Element.U16,
    "i16": Element.U16,
    "s32": Element.S32,
    "s64": Element.S64,
}
"""Names of elements that the driver has another name for, of the same width."""
_MAX_BYTES = 1 << 48
_MAX_DIMS = 5
_POINTER_BYTES = 8
_MAP_BYTES = 128
_MAP_ALIGNMENT_BYTES = 64
_FILE_BYTES_MAX = 64 << 20


def read_launch_file(path: str) -> LaunchFile:
    """The launch in the JSON file at `path`. Raises TilewrightError, naming file and place, for any mistake in it."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(_FILE_BYTES_MAX + 1)
        if len(data) > _FILE_BYTES_MAX:
            raise TilewrightError(f"{path} has more than {_FILE_BYTES_MAX >> 20} MiB", remedy="a launch is short JSON")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TilewrightError(f"cannot read {path}: {reason}", remedy="check the path after --launch") from error
    return parse_launch(data, path)


def parse_launch(data: bytes | str, file: str) -> LaunchFile:
    """The launch in a JSON text. `file` begins every message. Raises as `read_launch_file` does."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        document: object = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise TilewrightError(f"{file} is no text: byte {error.start} is not UTF-8", remedy="write JSON") from error
    except json.JSONDecodeError as error:
        span = Span(file, error.lineno, error.colno)
        raise TilewrightError(f"no JSON: {error.msg}", span=span, remedy="fix the file") from error
    except RecursionError as error:
        raise TilewrightError(f"{file} is nested too deeply", remedy="a launch has a few levels only") from error
    except ValueError as error:
        raise TilewrightError(f"{file}: {error}", remedy="fix the file") from error
    return launch_from_json(document, file)


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"field {name!r} stands twice")
        found[name] = value
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f'{text} is no JSON number; write "nan", "inf" or "-inf" as a string')


def launch_from_json(document: object, file: str) -> LaunchFile:
    """The launch that a JSON document describes. Raises TilewrightError, naming `file` and the path in it."""
    reader = _Reader(file, Path(file).parent)
    top = reader.object(document, "", TOP_FIELDS)
    entry = top.get("entry")
    params: tuple[Param | None, ...] | None = None
    if top.get("params") is not None:
        params = tuple(
            reader.param_or_none(value, f"params[{index}]", index)
            for index, value in enumerate(reader.list(top["params"], "params"))
        )
    dynamic = top.get("dynamic_smem")
    if not isinstance(top.get("note", ""), str):
        reader.refuse("note", f"is {_kind(top['note'])}", "write text")
    return LaunchFile(
        file,
        None if entry is None else reader.text(entry, "entry"),
        reader.extent_or_none(top.get("grid"), "grid"),
        reader.extent_or_none(top.get("block"), "block"),
        reader.extent_or_none(top.get("cluster"), "cluster"),
        None if dynamic is None else reader.integer(dynamic, "dynamic_smem", 0, 1 << 24),
        params,
        reader.buffers(),
        tuple(reader.contents()),
        tuple(
            reader.text(name, f"names[{index}]")
            for index, name in enumerate(reader.list(top.get("names", []), "names"))
        ),
    )


@dataclass(slots=True)
class _Reader:
    """Values by their paths, and the buffers met so far."""

    file: str
    folder: Path
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    alignments: dict[str, int] = field(default_factory=dict[str, int])
    unsized: dict[str, str] = field(default_factory=dict[str, str])
    data: dict[str, Bytes] = field(default_factory=dict[str, "Bytes"])
    known: dict[str, Ranges] = field(default_factory=dict[str, "Ranges"])

    def refuse(self, where: str, problem: str, remedy: str) -> NoReturn:
        place = f"{self.file}: {where}: " if where else f"{self.file}: "
        raise TilewrightError(f"{place}{problem}", remedy=remedy)

    def object(self, value: object, where: str, known: tuple[str, ...]) -> Mapping[str, object]:
        if not isinstance(value, dict):
            self.refuse(where, f"is {_kind(value)}, not an object", f"write an object with {', '.join(known)}")
        fields = cast("dict[str, object]", value)
        for name in fields:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                remedy = f"did you mean {near[0]}?" if near else f"the fields are {', '.join(known)}"
                self.refuse(f"{where}.{name}" if where else name, "is no field here", remedy)
        return fields

    def list(self, value: object, where: str) -> Sequence[object]:
        if not isinstance(value, list):
            self.refuse(where, f"is {_kind(value)}, not a list", "write a list in brackets")
        return cast("list[object]", value)

    def integer(self, value: object, where: str, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(where, f"is {_kind(value)}, not an integer", f"write an integer from {low} to {high}")
        if not low <= value <= high:
            self.refuse(where, f"is {_number(value)}, outside {low} to {high}", "write an integer in that range")
        return value

    def integers(self, value: object, where: str, low: int, high: int) -> tuple[int, ...]:
        return tuple(
            self.integer(item, f"{where}[{index}]", low, high) for index, item in enumerate(self.list(value, where))
        )

    def extent(self, value: object, where: str) -> tuple[int, int, int]:
        extents = self.integers(value, where, 1, 2**31 - 1)
        if not 1 <= len(extents) <= 3:
            self.refuse(where, f"has {len(extents)} entries", "write [x, y, z]")
        return extents_of(extents)

    def extent_or_none(self, value: object, where: str) -> tuple[int, int, int] | None:
        return None if value is None else self.extent(value, where)

    def text(self, value: object, where: str) -> str:
        if not isinstance(value, str) or not value:
            self.refuse(where, f"is {_kind(value)}, not a name", "write a string that is not empty")
        return value

    def choice(self, value: object, where: str, options: tuple[str, ...]) -> str:
        if not isinstance(value, str) or value not in options:
            near = get_close_matches(value, options, n=1) if isinstance(value, str) else []
            remedy = f"did you mean {near[0]}?" if near else f"choose from {', '.join(options)}"
            self.refuse(where, f"is {_kind(value)}, not one of {', '.join(options)}", remedy)
        return value

    def required(self, fields: Mapping[str, object], name: str, where: str, remedy: str) -> object:
        if name not in fields:
            self.refuse(f"{where}.{name}", "is missing", remedy)
        return fields[name]

    def param_or_none(self, value: object, where: str, index: int) -> Param | None:
        """A parameter, None where the file says that it is not known."""
        if value is None:
            return None
        fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        if fields.get("kind") == "unknown":
            self.object(fields, where, ("kind", "note"))
            return None
        return self.param(cast("object", value), where, index)

    def param(self, value: object, where: str, index: int) -> Param:
        kinds = tuple(PARAM_FIELDS)
        found = self.object(
            value, where, tuple(dict.fromkeys(name for names in PARAM_FIELDS.values() for name in names))
        )
        kind = self.choice(
            self.required(found, "kind", where, f"choose from {', '.join(kinds)}"), f"{where}.kind", kinds
        )
        fields = dict(self.object(value, where, PARAM_FIELDS[kind]))
        if fields.pop("note", "") and not isinstance(found["note"], str):
            self.refuse(f"{where}.note", f"is {_kind(found['note'])}", "write text")
        match kind:
            case "ptr":
                return self.pointer(fields, where, index)
            case "i32" | "i64" | "f32":
                return self.scalar(kind, self.required(fields, "value", where, "write its number"), f"{where}.value")
            case "tensormap":
                return self.tensor_map(fields, where, index)
            case _:
                return self.opaque(fields, where, index)

    def pointer(self, fields: Mapping[str, object], where: str, index: int) -> Param:
        name = self.text(fields["buffer"], f"{where}.buffer") if "buffer" in fields else f"param{index}"
        if "align" in fields:
            align = self.integer(fields["align"], f"{where}.align", 1, 1 << 20)
            if align & (align - 1):
                self.refuse(f"{where}.align", f"is {align}, no power of two", "write 1, 2, 4, ... bytes")
            self.alignments[name] = max(align, self.alignments.get(name, 1))
        offset = self.integer(fields.get("offset", 0), f"{where}.offset", 0, _MAX_BYTES)
        maps = self.maps(fields, where, name, index)
        pointers = self.held(fields, where, name, index)
        if "bytes" not in fields:
            # Another parameter may say how large the buffer is.
            self.unsized.setdefault(name, where)
            return PointerParam(name, offset, maps, pointers)
        size = self.integer(fields["bytes"], f"{where}.bytes", 0, _MAX_BYTES)
        if offset > size:
            problem = f"is {offset}, beyond the buffer's {size} bytes"
            self.refuse(f"{where}.offset", problem, "place the pointer inside the buffer")
        if size == 0 and maps:
            self.refuse(f"{where}.maps", "stand behind a null pointer", "write how many bytes the buffer has")
        needed = self.sizes.get(name, 0)
        if size < needed and (maps or pointers or "data" in fields):
            problem = f"is {size}; what the buffer holds takes {needed}"
            self.refuse(f"{where}.bytes", problem, "write how many bytes the buffer has")
        if size == 0:
            return NullPointerParam()
        self.grow(name, size)
        return PointerParam(name, offset, maps, pointers)

    def held(
        self, fields: Mapping[str, object], where: str, name: str, index: int
    ) -> tuple[tuple[int, PointerParam], ...]:
        """Take note of a buffer's data; the pointers that it holds, each with "at", its offset, or 8 bytes after the
        one before."""
        if "data" in fields:
            if name in self.data:
                self.refuse(f"{where}.data", f"is the second of buffer {name}", "write a buffer's data once")
            dtype = self.text(fields["dtype"], f"{where}.dtype") if "dtype" in fields else None
            from tilewright.driver.launch.launch_data import read_data  # few launches give any

            self.data[name] = read_data(fields["data"], dtype, where, self.folder, self.refuse)
            self.known[name] = ((0, self.data[name].size), *self.known.get(name, ()))
            self.grow(name, self.data[name].size)
        elif "dtype" in fields:
            self.refuse(f"{where}.dtype", "stands without data", "write data, or leave dtype out")
        found: list[tuple[int, PointerParam]] = []
        after = 0
        for number, value in enumerate(self.list(fields.get("pointers", []), f"{where}.pointers")):
            place = f"{where}.pointers[{number}]"
            if not isinstance(value, dict):
                self.refuse(place, f"is {_kind(value)}, not an object", "write a ptr")
            inner = {"kind": "ptr", **cast("dict[str, object]", value)}
            at = self.integer(inner.pop("at", after), f"{place}.at", 0, _MAX_BYTES)
            if at % _POINTER_BYTES:
                self.refuse(f"{place}.at", f"is {at}, no multiple of {_POINTER_BYTES}", "align the pointer")
            after = at + _POINTER_BYTES
            if "buffer" not in inner and inner.get("bytes") != 0:
                self.refuse(f"{place}.buffer", "is missing", "name the buffer that the pointer leads to")
            held = self.param(inner, place, index)
            if isinstance(held, PointerParam):
                found.append((at, held))
            elif not isinstance(held, NullPointerParam):
                self.refuse(f"{place}.kind", "is no ptr", "write other contents into data, or into maps")
            self.known[name] = (*self.known.get(name, ()), (at, after))
            self.grow(name, after)
        return tuple(found)

    def contents(self) -> Iterator[BufferContents]:
        """What buffers hold, of those of which it is said."""
        for name, known in self.known.items():
            import numpy as np

            if self.sizes[name] > CONTENT_BYTES_MOST:
                problem = f"buffer {name} has {self.sizes[name]} bytes, some of which are given"
                self.refuse("params", problem, f"give contents of buffers of at most {CONTENT_BYTES_MOST} bytes")
            yield BufferContents(name, self.data.get(name, np.zeros(0, np.uint8)), known)

    def maps(
        self, fields: Mapping[str, object], where: str, name: str, index: int
    ) -> tuple[tuple[int, TensorMapParam | UnknownTensorMapParam], ...]:
        """The tensor maps that a buffer holds, each with "at", its offset."""
        found: list[tuple[int, TensorMapParam | UnknownTensorMapParam]] = []
        for number, value in enumerate(self.list(fields.get("maps", []), f"{where}.maps")):
            place = f"{where}.maps[{number}]"
            if not isinstance(value, dict):
                self.refuse(place, f"is {_kind(value)}, not an object", 'write a tensormap with "at"')
            inner = dict(cast("dict[str, object]", value))
            at = self.required(inner, "at", place, "write its offset in the buffer, in bytes")
            offset = self.integer(at, f"{place}.at", 0, _MAX_BYTES)
            if offset % _MAP_ALIGNMENT_BYTES:
                self.refuse(f"{place}.at", f"is {offset}, no multiple of {_MAP_ALIGNMENT_BYTES}", "align the map")
            del inner["at"]
            held = self.param(inner, place, index)
            if not isinstance(held, TensorMapParam | UnknownTensorMapParam):
                self.refuse(f"{place}.kind", "is no tensormap", "write a tensormap; other bytes are not given")
            self.grow(name, offset + _MAP_BYTES)
            found.append((offset, held))
        return tuple(found)

    def scalar(self, kind: str, value: object, where: str) -> ScalarParam:
        if kind == "i32":
            return ScalarParam("i32", self.integer(value, where, -(2**31), 2**32 - 1))
        if kind == "i64":
            return ScalarParam("i64", self.integer(value, where, -(2**63), 2**64 - 1))
        if isinstance(value, str) and value in ("nan", "inf", "-inf"):
            return ScalarParam("f32", float(value))
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(where, f"is {_kind(value)}, not a number", 'write a number, or "nan", "inf", "-inf"')
        if not abs(value) <= (2 - 2**-23) * 2.0**127:
            self.refuse(where, "is outside the range of f32", "write a smaller number")
        return ScalarParam("f32", float(value))

    def tensor_map(
        self, fields: Mapping[str, object], where: str, index: int
    ) -> TensorMapParam | UnknownTensorMapParam:
        if "box_bytes" in fields:
            for other in fields:
                if other not in ("kind", "box_bytes"):
                    self.refuse(f"{where}.{other}", "is there together with box_bytes", "write one of them")
            size = self.integer(fields["box_bytes"], f"{where}.box_bytes", 16, 1 << 20)
            if size % 16:
                self.refuse(f"{where}.box_bytes", f"is {size}, no multiple of 16", "write what one copy moves")
            return UnknownTensorMapParam(size)
        element, variant = self.data_type(
            self.required(fields, "dtype", where, "write bf16, f16, f32, u8, ..."), f"{where}.dtype"
        )
        remedy = "list the innermost dimension first"
        dims = self.integers(self.required(fields, "dims", where, remedy), f"{where}.dims", 1, 2**32)
        rank = len(dims)
        if not 1 <= rank <= _MAX_DIMS:
            self.refuse(f"{where}.dims", f"has {rank} entries", f"a tensor map has 1 to {_MAX_DIMS} dimensions")
        im2col = self.im2col(fields["im2col"], rank, f"{where}.im2col") if "im2col" in fields else None
        if im2col is None:
            box = self.integers(self.required(fields, "box", where, remedy), f"{where}.box", 1, 2**16)
            self.length(box, rank, f"{where}.box")
        else:
            box = ()
            if "box" in fields:
                self.refuse(f"{where}.box", "is there together with im2col", "write one of them")
        interleave = cast(
            "Interleave", self.choice(fields.get("interleave", "none"), f"{where}.interleave", get_args(Interleave))
        )
        inner = TensorMap(element, dims[:1], (), (), interleave=interleave, variant=variant).inner_bytes
        packed = tuple(math.prod(dims[1:count]) * inner for count in range(1, rank))
        strides = self.integers(fields.get("strides", list(packed)), f"{where}.strides", 0, 2**40)
        self.length(strides, rank - 1, f"{where}.strides")
        steps = self.integers(fields.get("element_strides", [1] * rank), f"{where}.element_strides", 1, 2**16)
        self.length(steps, rank, f"{where}.element_strides")
        offset = self.integer(fields.get("offset", 0), f"{where}.offset", 0, _MAX_BYTES)
        name = self.text(fields["buffer"], f"{where}.buffer") if "buffer" in fields else f"param{index}"
        described = TensorMap(
            element,
            dims,
            strides,
            box,
            steps,
            cast("Swizzle", self.choice(fields.get("swizzle", "none"), f"{where}.swizzle", get_args(Swizzle))),
            interleave,
            cast(
                "L2Promotion",
                self.choice(fields.get("l2_promotion", "none"), f"{where}.l2_promotion", get_args(L2Promotion)),
            ),
            cast("OutOfBounds", self.choice(fields.get("oob", "zero"), f"{where}.oob", get_args(OutOfBounds))),
            offset,
            variant,
            im2col,
        )
        size = offset + described.span_bytes
        if size > _MAX_BYTES:
            self.refuse(f"{where}.dims", f"reach {size} bytes", "describe a tensor that fits in memory")
        self.grow(name, size)
        return TensorMapParam(name, described)

    def im2col(self, value: object, rank: int, where: str) -> Im2col:
        fields = self.object(value, where, IM2COL_FIELDS)
        mode = cast("Im2colMode", self.choice(fields.get("mode", "im2col"), f"{where}.mode", get_args(Im2colMode)))
        spatial = rank - 2 if mode == "im2col" else 1
        if spatial < 1:
            self.refuse(where, f"is of a map of {rank} dimensions", "an im2col map has 3 to 5 dimensions")
        corners: list[tuple[int, ...]] = []
        for name in ("lower_corner", "upper_corner"):
            remedy = f"write {spatial} offset{'s' if spatial > 1 else ''} in pixels, W first"
            corner = self.required(fields, name, where, remedy)
            corners.append(self.integers(corner, f"{where}.{name}", -(2**15), 2**15 - 1))
            if len(corners[-1]) != spatial:
                self.refuse(f"{where}.{name}", f"has {len(corners[-1])} entries, not {spatial}", remedy)
        counts = [
            self.integer(self.required(fields, name, where, "write how many"), f"{where}.{name}", low, 2**16 - 1)
            for name, low in (("channels_per_pixel", 1), ("pixels_per_column", 0))
        ]
        return Im2col(corners[0], corners[1], counts[0], counts[1], mode)

    def data_type(self, value: object, where: str) -> tuple[Element, ElementVariant]:
        if isinstance(value, str):
            found = _BY_WIDTH.get(value) or parse_element(value)
            if found is not None:
                return found, "none"
            if value in _VARIANTS:
                return _VARIANTS[value]
        names = [*(element.value for element in Element), *_VARIANTS]
        near = get_close_matches(value, names, n=1) if isinstance(value, str) else []
        remedy = f"did you mean {near[0]}?" if near else f"choose from {', '.join(names)}"
        self.refuse(where, f"is {_kind(value)}, no element type", remedy)

    def length(self, values: tuple[int, ...], expected: int, where: str) -> None:
        if len(values) != expected:
            count = f"{len(values)} entr{'y' if len(values) == 1 else 'ies'}"
            self.refuse(where, f"has {count}, not {expected}", "write as many as the dimensions in dims ask for")

    def opaque(self, fields: Mapping[str, object], where: str, index: int) -> OpaqueParam:
        remedy = "write the structure's size in bytes"
        size = self.integer(self.required(fields, "size", where, remedy), f"{where}.size", 1, MAX_PARAMETER_BYTES)
        text = fields.get("data", "")
        try:
            data = bytes.fromhex(text) if isinstance(text, str) else None
        except ValueError:
            data = None
        if data is None:
            self.refuse(f"{where}.data", f"is {_kind(text)}", "write its first bytes as hexadecimal digits")
        if len(data) > size:
            self.refuse(f"{where}.data", f"has {len(data)} bytes; the structure has {size}", "write no more than that")
        members: list[tuple[int, TensorMapParam | UnknownTensorMapParam | PointerParam]] = []
        given = [(0, len(data))]
        whole = bytearray(data)
        for number, value in enumerate(self.list(fields.get("fields", []), f"{where}.fields")):
            at, member = self.member(value, f"{where}.fields[{number}]", index, size)
            if isinstance(member, TensorMapParam | UnknownTensorMapParam | PointerParam):
                members.append((at, member))
                continue
            plain = plain_bytes(member)
            whole.extend(bytes(max(0, at + len(plain) - len(whole))))
            whole[at : at + len(plain)] = plain
            given.append((at, at + len(plain)))
        return OpaqueParam(size, bytes(whole), tuple(members), tuple(given) if len(given) > 1 else None)

    def member(self, value: object, where: str, index: int, size: int) -> tuple[int, Member]:
        """A member of a structure: a parameter of any kind but a structure, with "at", its offset in bytes."""
        if not isinstance(value, dict):
            self.refuse(where, f"is {_kind(value)}, not an object", 'write a ptr, number or tensormap with "at"')
        fields = dict(cast("dict[str, object]", value))
        at = self.integer(self.required(fields, "at", where, "write its offset in bytes"), f"{where}.at", 0, size - 1)
        del fields["at"]
        member = self.param(fields, where, index)
        if isinstance(member, OpaqueParam):
            self.refuse(f"{where}.kind", "is a structure in a structure", "write its members with their own offsets")
        if at + param_bytes(member) > size:
            self.refuse(f"{where}.at", f"leaves no room in {size} bytes", "place the member inside the structure")
        return at, member

    def grow(self, name: str, size: int) -> None:
        self.sizes[name] = max(size, self.sizes.get(name, 0))

    def buffers(self) -> tuple[BufferSize, ...]:
        for name, where in self.unsized.items():
            if name not in self.sizes:
                remedy = f"write how many bytes {name} has, or 0 for a null pointer"
                self.refuse(f"{where}.bytes", "is missing, and no other parameter says how large the buffer is", remedy)
        return tuple(
            BufferSize(name, size, self.alignments.get(name, DEFAULT_ALIGNMENT_BYTES))
            for name, size in self.sizes.items()
        )


def data_type_name(described: TensorMap) -> str:
    """The data type of a tensor map, as a launch file names it."""
    named = (described.element, described.variant)
    return next((name for name, each in _VARIANTS.items() if each == named), described.element.value)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return f"the number {_number(value)}"
        case str():
            return f"the string {value[:40]!r}"
        case list():
            return "a list"
        case _:
            return "an object"


def _number(value: int | float) -> str:
    """A number in few digits: Python refuses to print integers of thousands of digits."""
    return f"an integer of {value.bit_length()} bits" if isinstance(value, int) and abs(value) > 2**70 else f"{value}"
