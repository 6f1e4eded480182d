"""Which launch file does a kernel have that nobody has written one for yet? One to fill in, complete where it can be.

What the text says (`.reqntid`, `.reqnctapercluster`, parameters and what they are used as) is written down. The rest is
a launch that exploration has found clean, or the one that refutes: numbers, buffer sizes and bytes of boxes that are
made up, which the notes say. Where exploration has found neither, what is not known stays `unknown`, with a note of
what to write. Not handled: element types, extents and strides of tensor maps, which no text says.
Checked by: tests/driver/launch/test_launch_template.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tilewright.driver.launch.launch_shapes import launch_shapes
from tilewright.driver.launch.parameter_kinds import Member, members
from tilewright.frontends.ptx.ast import Kernel, Module

_WRITE = {
    "pointer": '{"kind": "ptr", "bytes": SIZE}, 0 for a null pointer',
    "tensor map": '{"kind": "tensormap", "dtype": ..., "dims": ..., "strides": ..., "box": ..., "swizzle": ...}',
    "float": '{"kind": "f32", "value": NUMBER}',
}
_MADE_UP = "a launch that tilewright made up; write the numbers and sizes of yours"


def launch_template(module: Module, kernel: Kernel, example: Mapping[str, object] | None) -> dict[str, object]:
    """The launch file, as a JSON document. example: a launch that exploration has found, as such a document."""
    names = [parameter.name for parameter in kernel.parameters]
    uses: dict[int, list[Member]] = {}
    for member in members(kernel):
        uses.setdefault(member.parameter, []).append(member)
    if example is not None:
        given = cast("list[dict[str, Any]]", example["params"])
        params = [
            {**param, "note": _words(kernel, index, uses.get(index, []), param)} for index, param in enumerate(given)
        ]
        return {**example, "params": params, "names": names, "note": _MADE_UP}
    shapes = launch_shapes(module, kernel)
    shape = shapes.likely[0]
    return {
        "entry": kernel.name,
        "grid": None,
        "block": list(shape.block) if shapes.blocks.fixed else None,
        "cluster": list(shape.cluster) if shapes.clusters.fixed else None,
        "dynamic_smem": None,
        "params": [
            {"kind": "unknown", "note": _words(kernel, index, uses.get(index, []), None)}
            for index in range(len(kernel.parameters))
        ],
        "names": names,
        "note": "null and unknown are for you to write; what stays so is explored",
    }


def _words(kernel: Kernel, index: int, used: list[Member], param: Mapping[str, Any] | None) -> str:
    """What a parameter is, and what of it is made up or to be written."""
    parameter = kernel.parameters[index]
    if len(used) > 1 or parameter.size_bytes > 128:
        what = f"a structure of {parameter.size_bytes} bytes"
        parts = [f"{each.kind} at byte {each.offset_bytes}" for each in used[:12]]
        more = f" and {len(used) - len(parts)} more" if len(used) > len(parts) else ""
        return f"{parameter.name}: {what}: {', '.join(parts)}{more}"
    kind = used[0].kind if used else "integer"
    if param is None:
        width = "i64" if parameter.size_bytes == 8 else "i32"
        remedy = _WRITE.get(kind, f'{{"kind": "{width}", "value": NUMBER}}')
        return f"{parameter.name}: {kind}; write {remedy}"
    if "box_bytes" in param:
        needs = f"the bytes of a box are enough for check; run needs {_WRITE['tensor map']}"
        return f"{parameter.name}: {kind}; {needs}"
    return f"{parameter.name}: {kind}" + ("; the size of its buffer is made up" if "bytes" in param else "")
