"""A driver and programs for tests of capturing, compiled from tests/data/capture by the system's C compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tilewright.runtime.shim.build import built_shim, compiler

SOURCES = Path(__file__).parents[1] / "data" / "capture"

SCALE = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 x, .param .f32 factor, .param .u32 n) .maxntid 128
{
    .reg .b32 %r<5>; .reg .b64 %rd<4>; .reg .f32 %f<3>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [x];
    ld.param.f32 %f1, [factor];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r2, %r3, 128, %r2;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 ret;
    mad.wide.u32 %rd2, %r2, 4, %rd1;
    ld.global.f32 %f2, [%rd2];
    mul.f32 %f2, %f2, %f1;
    st.global.f32 [%rd2], %f2;
    ret;
}
.visible .entry mapped(.param .align 64 .b8 map[128], .param .u64 x, .param .u32 n) { ret; }
.visible .entry packed(.param .align 64 .b8 p[208]) .reqnctapercluster 2 { ret; }
.visible .entry refused() { ret; }
"""


@dataclass(frozen=True, slots=True)
class FakeDriver:
    """folder: libcuda.so.1, the programs, `scale.ptx`, and the shim's cache."""

    folder: Path

    @property
    def shim(self) -> Path:
        return built_shim(self.folder / "cache")

    def command(self, how: str, *steps: str) -> list[str]:
        """A program that finds the driver's functions as `how` says, and does the steps."""
        name = "linked" if how == "linked" else "program"
        return [str(self.folder / name), how, *steps]

    def environment(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self.folder),
            "TILEWRIGHT_CACHE": str(self.folder / "cache"),
            **more,
        }


def compiled_driver(folder: Path) -> FakeDriver:
    """Compile all of it into `folder`. Skips the test where that can't be."""
    found = compiler()
    if found is None or sys.platform != "linux":
        pytest.skip("there is no C compiler")
    library = folder / "libcuda.so.1"

    def compile_it(*arguments: str) -> None:
        subprocess.run([found, "-O1", "-w", *arguments], check=True)

    compile_it("-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", "-o", str(library), str(SOURCES / "libcuda.c"))
    libraries = ("-ldl", "-lpthread")
    program = str(SOURCES / "program.c")
    compile_it("-o", str(folder / "program"), program, *libraries)
    compile_it("-DLINKED", "-o", str(folder / "linked"), program, str(library), *libraries)
    (folder / "scale.ptx").write_text(SCALE, encoding="utf-8")
    return FakeDriver(folder)
