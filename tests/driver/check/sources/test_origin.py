"""Findings name the line of the program that the text was compiled from."""

from __future__ import annotations

from pathlib import Path

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.driver.check.sources.origin import at_origin, mlir_origins, ptx_origins, with_origin
from tilewright.driver.check.sources.source_text import SourceFiles
from tilewright.frontends.ptx.reader import read

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 %r<4>;
mov.u32 %r1, 1;
.loc 1 3 5
mov.u32 %r2, 2;
mov.u32 %r3, 3;
ret;
}
"""


def test_the_line_in_force_is_the_origin(tmp_path: Path) -> None:
    source = tmp_path / "kernel.py"
    source.write_text("import triton\n\n    x = tl.load(p)\n", encoding="utf-8")
    module = read(f'{TEXT}.file 1 "{source}"\n', "k.ptx")
    kernel = module.kernels[0]
    before, at = (Diagnostic("TX101", "name", "message", Span("k.ptx", line, 1, "text")) for line in (6, 9))
    origins = ptx_origins(module, kernel, SourceFiles())
    assert with_origin(before, origins).origin is None
    found = with_origin(at, origins)
    assert found.origin == Span(str(source), 3, 5, "    x = tl.load(p)") and found.stack == ()
    report = FileReport("k.ptx", kernels=(KernelReport("k", "sm_90a", "refuted", findings=(found, before)),))
    moved, same = at_origin(report).kernels[0].findings
    assert moved.primary == Span(str(source), 3, 5, "    x = tl.load(p)") and "k.ptx:9" in moved.interleaving[-1]
    assert same is before


WRAPPED = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 %r<9>;
.loc 1 88 5
.loc 2 12 3, function_name $L__info_string0, inlined_at 1 88 5
mov.u32 %r1, 1;
.loc 1 90 5
mov.u32 %r2, 2;
LOOP
ret;
}
.file 1 "kernel.cu"
.file 2 "load.cuh"
"""
LOOP = "".join(
    f".loc 2 {line} 3, function_name $L__info_string1, inlined_at 1 88 5\nmov.u32 %r3, 3;\n" for line in range(20, 25)
)


def test_both_places_of_a_conflict_answer_with_the_line_that_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text("\n" * 87 + "    load(tile);\n\n    sum += tile[0];\n", encoding="utf-8")
    module = read(WRAPPED.replace("LOOP\n", LOOP), "k.ptx")
    files = SourceFiles(str(tmp_path / "k.ptx"))
    origins = ptx_origins(module, module.kernels[0], files)
    finding = Diagnostic("MB111", "name", "message", Span("k.ptx", 8), Span("k.ptx", 10))
    found = with_origin(finding, origins)
    # A wrapper of one line answers with its caller's.
    assert found.origin == Span("kernel.cu", 88, 5, "    load(tile);")
    assert [each.span.line for each in found.stack] == [12, 88]
    assert found.other_origin == Span("kernel.cu", 90, 5, "    sum += tile[0];") and found.other_stack == ()
    # A function of five lines answers itself; its file is not at hand.
    inner = with_origin(Diagnostic("MB111", "name", "message", Span("k.ptx", 12)), origins)
    assert inner.origin == Span("load.cuh", 20, 3) and [each.span.line for each in inner.stack] == [20, 88]
    (moved,) = (
        at_origin(FileReport("k.ptx", kernels=(KernelReport("k", "", "refuted", findings=(found,)),)))
        .kernels[0]
        .findings
    )
    assert (moved.primary, moved.conflicts_with) == (found.origin, found.other_origin)
    assert moved.origin is None and moved.stack == found.stack
    assert [step.startswith("in PTX: k.ptx:") for step in moved.interleaving] == [True, True]


def _chosen(inner: str, caller: str, kernel: str, inner_lines: int = 5) -> str:
    """The file that answers for code of `inner` that two functions inline, the outer one of two lines."""
    body = "".join(
        f".loc 1 {line} 3, function_name $L__info_string1, inlined_at 2 72 3\nmov.u32 %r3, 3;\n"
        for line in range(20, 20 + inner_lines)
    )
    text = f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {{
.reg .b32 %r<9>;
.loc 3 171 5
.loc 2 78 3, function_name $L__info_string0, inlined_at 3 171 5
mov.u32 %r1, 1;
.loc 2 72 3, function_name $L__info_string0, inlined_at 3 171 5
{body}.loc 3 1 1
mov.u32 %r1, 1;
.loc 3 2 1
mov.u32 %r1, 1;
ret;
}}
.file 1 "{inner}"
.file 2 "{caller}"
.file 3 "{kernel}"
"""
    module = read(text, "k.ptx")
    line = next(number for number, words in enumerate(text.split("\n"), start=1) if words == "mov.u32 %r3, 3;")
    origin, stack = ptx_origins(module, module.kernels[0], SourceFiles()).stack(Span("k.ptx", line, 1))
    assert origin is not None and [each.span.line for each in stack] == [20, 72, 171]
    return origin.file


def test_a_librarys_lines_are_not_what_the_author_looks_for() -> None:
    # A template of a library calls the author's function, which calls the library.
    assert _chosen("/lib/tma.cuh", "/home/me/gemm.cu", "/lib/kernel.cuh") == "/home/me/gemm.cu"
    # Headers beside or below what is compiled are the author's.
    assert _chosen("/home/me/parts/tma.cuh", "/home/me/gemm.cu", "/lib/kernel.cuh") == "/home/me/parts/tma.cuh"
    assert _chosen("/home/mean/tma.cuh", "/home/me/gemm.cu", "/lib/kernel.cuh") == "/home/me/gemm.cu"
    assert _chosen("tma.cuh", "/home/me/gemm.cu", "/lib/kernel.cuh") == "/home/me/gemm.cu"
    assert _chosen("tma.cuh", "gemm.cu", "/lib/kernel.cuh") == "tma.cuh"
    # Two functions of the author's: the outer one answers for a wrapper.
    assert _chosen("tma.cuh", "gemm.cu", "main.cu", inner_lines=2) == "main.cu"
    # Where nothing is compiled by itself, all headers are alike.
    assert _chosen("/lib/tma.cuh", "/lib/gemm.cuh", "/lib/kernel.cuh") == "/lib/tma.cuh"
    assert _chosen("/lib/tma.cuh", "/lib/gemm.cuh", "/lib/kernel.cuh", inner_lines=2) == "/lib/kernel.cuh"


MLIR = """#loc = loc("k.py":3:1)
module {
  tt.func public @k() {
    %a = ttng.wait_barrier loc(#loc4)
    %b = ttng.wait_barrier loc(#loc2)
  }
} loc(#loc)
#loc1 = loc("helper.py":43:12)
#loc2 = loc("k.py":9:15)
#loc3 = loc("acc"(#loc2))
#loc4 = loc(callsite(#loc1 at #loc3))
"""


def test_operations_of_mlir_have_their_lines(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("\n" * 8 + "acc = helper(x)\n", encoding="utf-8")
    origins = mlir_origins(MLIR, SourceFiles(str(tmp_path / "k.ttgir")))
    finding = Diagnostic("MB101", "name", "message", Span("k.ttgir", 4), Span("k.ttgir", 5))
    found = with_origin(finding, origins)
    line = Span("k.py", 9, 15, "acc = helper(x)")
    assert (found.origin, found.other_origin) == (line, line)
    assert [each.span.line for each in found.stack] == [43, 9] and found.other_stack == ()
    assert with_origin(Diagnostic("MB101", "name", "message", Span("k.ttgir", 3)), origins).origin is None
