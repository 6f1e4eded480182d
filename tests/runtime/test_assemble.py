"""The assembler: what it reports, how its errors are placed, and where it is looked for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.runtime import assemble as assembling
from tilewright.runtime.assemble import assemble, find_ptxas, parse_resources, parse_warnings

VADD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<8>; .reg .f32 %f<4>;
    .shared .align 4 .b8 scratch[64];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n]; setp.ge.u32 %p, %r4, %r5; @%p bra DONE;
    ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c];
    mul.wide.u32 %d4, %r4, 4; add.s64 %d5, %d1, %d4; add.s64 %d6, %d2, %d4; add.s64 %d7, %d3, %d4;
    ld.global.f32 %f1, [%d5]; ld.global.f32 %f2, [%d6]; add.f32 %f3, %f1, %f2; st.global.f32 [%d7], %f3;
DONE:
    ret;
}
"""


def _has_ptxas() -> bool:
    try:
        find_ptxas()
    except TilewrightError:
        return False
    return True


needs_ptxas = pytest.mark.skipif(not _has_ptxas(), reason="no ptxas on this machine")


@needs_ptxas
def test_a_kernel_assembles_to_an_elf_with_its_resources() -> None:
    assembly = assemble(VADD, "sm_90a", name="vadd")
    assert assembly.cubin.startswith(b"\x7fELF")
    assert [(function.name, function.is_entry) for function in assembly.functions] == [("vadd", True)]
    assert 0 < assembly.registers < 64
    assert assembly.shared_bytes == 64
    assert assembly.spill_bytes == 0
    assert assembly.warnings == ()
    assert assembly.seconds > 0
    assert assembly.version.split(".")[0].isdigit()


@needs_ptxas
def test_spills_are_counted() -> None:
    live = 96
    body = "".join(f"    ld.volatile.global.u32 %r{i}, [%d1+{4 * i}];\n" for i in range(live))
    body += "".join(f"    st.volatile.global.u32 [%d1+{4 * i}], %r{i};\n" for i in reversed(range(live)))
    ptx = (
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a)\n.maxnreg 32\n{\n"
        f"    .reg .b32 %r<{live}>; .reg .b64 %d<2>;\n    ld.param.u64 %d1, [a];\n{body}    ret;\n}}\n"
    )
    assembly = assemble(ptx, "sm_90a")
    assert assembly.registers <= 32
    assert assembly.spill_bytes > 0
    assert assembly.functions[0].stack_bytes > 0


@needs_ptxas
def test_called_functions_are_reported_beside_entries() -> None:
    ptx = """.version 8.0
.target sm_90a
.address_size 64
.visible .func (.param .b32 o) twice(.param .b32 i)
{
    .reg .b32 %r<3>; ld.param.b32 %r1, [i]; add.s32 %r2, %r1, %r1; st.param.b32 [o], %r2; ret;
}
.visible .entry k(.param .u64 a)
{
    .reg .b32 %r<3>; .reg .b64 %d<2>;
    { .param .b32 p; .param .b32 q; st.param.b32 [p], 3; call (q), twice, (p); ld.param.b32 %r2, [q]; }
    ld.param.u64 %d1, [a]; st.global.u32 [%d1], %r2; ret;
}
"""
    functions = {function.name: function for function in assemble(ptx, "sm_90a").functions}
    assert functions["k"].is_entry and functions["k"].registers > 0
    assert not functions["twice"].is_entry


@needs_ptxas
def test_an_ignored_setmaxnreg_is_surfaced() -> None:
    ptx = VADD.replace("DONE:\n", "DONE:\n    setmaxnreg.dec.sync.aligned.u32 40;\n")
    warnings = assemble(ptx, "sm_90a").warnings
    assert len(warnings) == 1
    assert "setmaxnreg" in warnings[0]


@needs_ptxas
def test_a_rejected_instruction_is_placed_at_its_line() -> None:
    with pytest.raises(TilewrightError, match="foo") as caught:
        assemble(VADD.replace("add.f32", "foo.f32"), "sm_90a", name="vadd")
    span = caught.value.span
    assert span is not None
    assert span.file == "<vadd>"
    assert "foo.f32" in span.text
    assert VADD.splitlines()[span.line - 1] == span.text.replace("foo.f32", "add.f32")


@needs_ptxas
def test_what_the_assembler_does_not_know_comes_with_a_remedy() -> None:
    with pytest.raises(TilewrightError) as newer:
        assemble(VADD.replace(".version 8.0", ".version 99.0"), "sm_90a")
    assert "99.0" in newer.value.message
    assert "newer" in newer.value.remedy
    with pytest.raises(TilewrightError, match=r"\.target"):
        assemble(VADD, "sm_80")
    with pytest.raises(TilewrightError, match="does not know sm_999"):
        assemble(VADD, "sm_999")
    with pytest.raises(TilewrightError, match="is no target"):
        assemble(VADD, "sm_90a -G")
    with pytest.raises(TilewrightError, match=r"Missing \.version"):
        assemble("", "sm_90a")


def _script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


_VERSION_LINE = 'echo "Cuda compilation tools, release 12.9, V12.9.1"'


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with no assembler: no wheels, an empty PATH and an empty CUDA_HOME."""
    monkeypatch.delenv("TILEWRIGHT_PTXAS", raising=False)
    monkeypatch.setattr(assembling, "_WHEELS", ())
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(assembling, "_DEFAULT_TOOLKIT", str(tmp_path / "toolkit"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    (tmp_path / "bin").mkdir()
    return tmp_path


def test_a_missing_assembler_is_a_clear_error(bare: Path) -> None:
    with pytest.raises(TilewrightError, match="no ptxas found") as caught:
        assemble(VADD, "sm_90a")
    assert "pip install 'tilewright[compile]'" in caught.value.remedy


@pytest.mark.skipif(os.name == "nt", reason="the stand-in assemblers are shell scripts")
def test_the_order_of_search(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "home" / "bin").mkdir(parents=True)
    monkeypatch.setenv("CUDA_HOME", str(bare / "home"))
    _script(bare / "home" / "bin" / "ptxas", _VERSION_LINE)
    assert find_ptxas().source == "CUDA_HOME"
    _script(bare / "bin" / "ptxas", _VERSION_LINE)
    assert (find_ptxas().source, find_ptxas().version) == ("PATH", "12.9.1")
    own = _script(bare / "own", _VERSION_LINE)
    monkeypatch.setenv("TILEWRIGHT_PTXAS", str(own))
    assert (find_ptxas().path, find_ptxas().source) == (own, "TILEWRIGHT_PTXAS")


def test_a_chosen_assembler_that_does_not_work_is_not_replaced(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _script(bare / "bin" / "ptxas", _VERSION_LINE)
    monkeypatch.setenv("TILEWRIGHT_PTXAS", str(bare / "absent"))
    with pytest.raises(TilewrightError, match="no working ptxas"):
        find_ptxas()


@pytest.mark.skipif(os.name == "nt", reason="the stand-in assemblers are shell scripts")
def test_a_hanging_or_silent_assembler_is_an_error(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = _script(bare / "own", f'case "$1" in --version) {_VERSION_LINE};; *) exec /bin/sleep 30;; esac')
    monkeypatch.setenv("TILEWRIGHT_PTXAS", str(own))
    with pytest.raises(TilewrightError, match=r"more than 0\.2 s"):
        assemble(VADD, "sm_90a", timeout_seconds=0.2)
    own = _script(bare / "silent", f'case "$1" in --version) {_VERSION_LINE};; *) exit 3;; esac')
    monkeypatch.setenv("TILEWRIGHT_PTXAS", str(own))
    with pytest.raises(TilewrightError, match="exit status 3"):
        assemble(VADD, "sm_90a")


REPORT = """ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...
ptxas kernel.ptx, line 9; warning : Advanced modifiers ignored
ptxas info    : 0 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 168 registers, used 2 barriers, 16 bytes cumulative stack size, 1024+32 bytes smem
ptxas info    : Compile time = 0.632 ms
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...
"""


def test_a_report_is_read_without_its_routine_lines() -> None:
    assert parse_warnings(REPORT) == (
        "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...",
        "line 9: Advanced modifiers ignored",
    )
    (function,) = parse_resources(REPORT)
    assert (function.registers, function.stack_bytes, function.shared_bytes) == (168, 16, 1056)
    assert (function.spill_store_bytes, function.spill_load_bytes) == (8, 4)
