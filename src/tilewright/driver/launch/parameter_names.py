"""What does its author call a kernel's parameters? Triton's TTGIR says it; PTX numbers them.

Triton keeps the TTGIR of a kernel beside its PTX, in its cache and where a user dumps both. The arguments of its
function are the parameters of the PTX, in order; scratch buffers follow in the PTX, and have no name. A tensor
descriptor brings its shape and strides, which are named after it: `a.shape[0]`, `a.stride[1]`.

Not handled: names of C++ parameters, which no PTX has. Checked by: tests/driver/launch/test_parameter_names.py.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_BYTES_MOST = 1 << 24
"""TTGIR texts beyond this are not read: names are not worth it."""
_SIGNATURE = r"tt\.func public @{name}\((?P<arguments>.*?)\)\s*(?:attributes\b|\{{\s*$|->)"
_ARGUMENT = re.compile(r"%(?P<name>[\w.$-]+): (?P<type>!?\w[\w.]*)(?P<rest>(?:(?!, %[\w.$-]+: ).)*)", re.DOTALL)
_LOCATION = re.compile(r'loc\("(?P<name>[^"]+)"')
_EXTENTS = re.compile(r"<(?:tensor<)?(?P<extents>(?:\d+x)+)")
_MEMBER = re.compile(r"(?P<name>.+)\.(?P<what>shape|stride)s?\.(?P<axis>\d+)")


def names_in_ttgir(text: str, kernel: str) -> tuple[str, ...]:
    """The names of the parameters of a kernel, empty where the text has no such kernel."""
    signature = re.search(_SIGNATURE.format(name=re.escape(kernel)), text, re.MULTILINE)
    if signature is None:
        return ()
    names: list[str] = []
    descriptor, rank, since = "", 0, 0
    for argument in _ARGUMENT.finditer(signature["arguments"]):
        located = _LOCATION.search(argument["rest"])
        name = located["name"] if located is not None else argument["name"]
        since += 1
        if argument["type"].startswith("!tt.tensordesc"):
            extents = _EXTENTS.search(argument["rest"])
            descriptor, since = name, 0
            rank = extents["extents"].count("x") if extents is not None else 0
        elif name == descriptor and 1 <= since <= 2 * rank:
            what, axis = divmod(since - 1, rank)
            name = f"{name}.{('shape', 'stride')[what]}[{axis}]"
        elif (member := _MEMBER.fullmatch(name)) is not None:
            name = f"{member['name']}.{member['what']}[{member['axis']}]"
        names.append(name)
    return tuple(names)


def names_beside(path: str, kernel: str) -> tuple[str, ...]:
    """The names by the TTGIR file that stands beside a PTX file, empty where there is none that has the kernel."""
    beside = Path(path).with_suffix(".ttgir")
    try:
        if Path(path).suffix != ".ptx" or os.path.getsize(beside) > _BYTES_MOST:
            return ()
        return names_in_ttgir(beside.read_text(encoding="utf-8"), kernel)
    except (OSError, ValueError):
        return ()
