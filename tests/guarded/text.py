"""A kernel's PTX from a body with readable names: parameters, registers numbered as a compiler does, declarations.

A parameter with a small name has 32 bits (`%r_n`), one with a capital name 64 bits (`%rd_N`). In one structure, they
are members of one parameter of many more bytes.
Checked by: tests/guarded/test_guarded_kernels.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

BODY_END = "$L__END"
BUFFER_BYTES = 1 << 16
_NAME = re.compile(r"%(rd|rs|r|p|f)_(\w+)")
_KINDS = {"p": ".pred", "rs": ".b16", "r": ".b32", "f": ".f32", "rd": ".b64"}
_STRUCT_BYTES = 120
_STRUCT_FIRST = 24


def wait(barrier: str, parity: str) -> str:
    """A blocking wait, as libraries write it in inline assembly."""
    return f"""\
    // begin inline asm
    {{
    .reg .pred P1;
    LAB_WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 P1, [{barrier}], {parity};
    @P1 bra DONE;
    bra LAB_WAIT;
    DONE:
    }}
    // end inline asm"""


def kernel_text(
    name: str,
    body: str,
    names: Sequence[str],
    *,
    threads: int = 64,
    shared: str,
    structured: bool = False,
    data: bool = False,
    directives: str = "",
) -> str:
    """The text. names: of the numbers; shared: declarations of shared memory; data: a third pointer, `%rd_data`."""
    pointers = ("source", "target", *(("data",) if data else ()))
    parameters = [f"\t.param .u64 {name}_param_{index}" for index in range(len(pointers))]
    loads: list[str] = []
    for index, pointer in enumerate(pointers):
        loads.append(f"ld.param.u64 %rd_{pointer}0, [{name}_param_{index}];")
        loads.append(f"cvta.to.global.u64 %rd_{pointer}, %rd_{pointer}0;")
    loads += [
        "mov.u32 %r_cta, %ctaid.x;",
        "mul.wide.u32 %rd_own, %r_cta, 4096;",
        "add.s64 %rd_target, %rd_target, %rd_own;",
    ]
    if structured and names:
        place = f"{name}_param_{len(pointers)}"
        parameters.append(f"\t.param .align 8 .b8 {place}[{_STRUCT_BYTES}]")
        for number, offset in member_offsets(names).items():
            loads.append(_load(number, f"{place}+{offset}"))
    elif names:
        for index, number in enumerate(names, len(pointers)):
            parameters.append(f"\t.param .{'u64' if number.isupper() else 'u32'} {name}_param_{index}")
            loads.append(_load(number, f"{name}_param_{index}"))
    lines = [*loads, *_lines(body), f"{BODY_END}:", "ret;"]
    numbered, declarations = _numbered("\n".join(line if line.endswith(":") else f"\t{line}" for line in lines))
    declared = "\n".join(f"\t{line}" for line in (*declarations, *shared.splitlines()))
    signature = ",\n".join(parameters)
    return (
        ".version 8.6\n.target sm_90a\n.address_size 64\n\n"
        f"\t// .globl\t{name}\n.visible .entry {name}(\n{signature}\n)\n.reqntid {threads}, 1, 1\n{directives}"
        f"{{\n{declared}\n\n{numbered}\n}}\n"
    )


def launch_json(
    names: Mapping[str, int],
    *,
    grid: int,
    threads: int = 64,
    cluster: int = 1,
    structured: bool = False,
    data: bool = False,
    null: bool = False,
    words: Sequence[int] = (),
) -> dict[str, object]:
    """A launch file for a kernel of `kernel_text`. null: the third pointer is null; words: what it
    leads to begins with them."""
    pointers = ("source", "target", *(("data",) if data and not null else ()))
    parameters: list[dict[str, object]] = [
        {"kind": "ptr", "bytes": BUFFER_BYTES * 8, "buffer": pointer} for pointer in pointers
    ]
    if words:
        parameters[-1] |= {"data": list(words), "dtype": "u32"}
    if null:
        parameters.append({"kind": "ptr", "bytes": 0})
    if structured and names:
        data_bytes = bytearray(_STRUCT_BYTES)
        for number, offset in member_offsets(tuple(names)).items():
            width = 8 if number.isupper() else 4
            data_bytes[offset : offset + width] = (names[number] % (1 << 8 * width)).to_bytes(width, "little")
        parameters.append({"kind": "bytes", "size": _STRUCT_BYTES, "data": data_bytes.hex()})
    else:
        parameters += [
            {"kind": "i64" if number.isupper() else "i32", "value": value} for number, value in names.items()
        ]
    return {"grid": [grid * cluster], "block": [threads], "cluster": [cluster], "params": parameters}


def member_offsets(names: Sequence[str]) -> dict[str, int]:
    """Where each number stands in the structure."""
    offsets: dict[str, int] = {}
    offset = _STRUCT_FIRST
    for number in names:
        width = 8 if number.isupper() else 4
        offset += -offset % width
        offsets[number] = offset
        offset += width + 8
    return offsets


def _load(number: str, place: str) -> str:
    wide = number.isupper()
    return f"ld.param.u{64 if wide else 32} %r{'d' if wide else ''}_{number}, [{place}];"


def _lines(body: str) -> list[str]:
    """One instruction a line. Braces of blocks stand alone."""
    found: list[str] = []
    for line in body.splitlines():
        rest = line.strip()
        if rest.startswith("//"):
            found.append(rest)
            continue
        found += [part.strip() for part in re.findall(r"[^;]+;|[^;]+$", rest)]
    return [line for line in found if line]


def _numbered(text: str) -> tuple[str, list[str]]:
    """Registers by number, in the order in which they appear, and labels as a compiler names them."""
    numbers: dict[str, dict[str, int]] = {}

    def number(match: re.Match[str]) -> str:
        known = numbers.setdefault(match[1], {})
        return f"%{match[1]}{known.setdefault(match[2], len(known) + 1)}"

    text = _NAME.sub(number, text)
    labels: dict[str, str] = {}
    for label in re.findall(r"\$L__[A-Z_]+", text):
        labels.setdefault(label, f"$L__BB0_{len(labels) + 1}")
    text = re.sub(r"\$L__[A-Z_]+", lambda match: labels[match[0]], text)
    declared = [f".reg {_KINDS[kind]} \t%{kind}<{len(known) + 1}>;" for kind, known in sorted(numbers.items())]
    return text, declared
