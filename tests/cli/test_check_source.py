"""`tilewright check` of a text with `.loc` lines: the program's lines, the calls, and where programs are looked for."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.checked_texts import NO_FENCE, launch_document
from tests.cli.conftest import Tilewright
from tests.contract.replay_kernels import copy_text


def _with_locations(text: str) -> str:
    """As nvcc writes where the body of a kernel is a call of `produce` that a file of another machine has."""
    lines = text.split("\n")
    begin = next(number for number, line in enumerate(lines) if "cp.async.bulk.tensor" in line and "global" in line)
    lines.insert(begin, ".loc 1 2 5, function_name $L__info_string0, inlined_at 2 7 3")
    lines.append('.file 1 "/build/elsewhere/include/load.cuh"\n.file 2 "/build/elsewhere/kernel.cu"')
    lines.append(".section .debug_str { $L__info_string0: .b8 108, 111, 97, 100, 0 }")
    return "\n".join(lines)


def test_the_programs_lines_are_found_below_a_root(folder: Path, tilewright: Tilewright) -> None:
    (folder / "k.ptx").write_text(_with_locations(copy_text(**NO_FENCE)), encoding="utf-8")
    (folder / "launch.json").write_text(json.dumps(launch_document()), encoding="utf-8")
    (folder / "tree").mkdir()
    (folder / "tree" / "kernel.cu").write_text("\n" * 6 + "    load(tile, &bar);\n", encoding="utf-8")
    arguments = ("check", str(folder / "k.ptx"), "--launch", str(folder / "launch.json"), "--no-repair")
    without = tilewright(*arguments)
    assert without.code == 1 and "compiled from /build/elsewhere/kernel.cu:7:3" in without.out
    assert "load(tile, &bar);" not in without.out
    found = tilewright(*arguments, "--source-root", str(folder / "tree"))
    assert found.code == 1 and "load(tile, &bar);" in found.out
    assert "load.cuh:2:5 (load), inlined at /build/elsewhere/kernel.cu:7:3" in found.out
