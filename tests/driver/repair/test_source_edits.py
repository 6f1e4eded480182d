"""Repairs name the program's line, and say in the program's language what to write there, or that nobody can."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.span import Span
from tilewright.driver.check.sources.source_text import SourceFiles
from tilewright.driver.repair.source_edits import with_source_edits
from tilewright.driver.repair.source_terms import Language, language_of, source_term
from tilewright.frontends.ptx.reader import read

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 %r<9>;
.shared .b8 tile[128];
.loc 1 31 7
.loc 2 12 3, function_name $L__info_string0, inlined_at 1 31 7
st.shared.b32 [tile], %r1;
.loc 2 14 3, function_name $L__info_string0, inlined_at 1 31 7
st.shared.b32 [tile+4], %r1;
.loc 1 33 5
ld.shared.b32 %r2, [tile];
add.s32 %r3, %r2, %r2;
.loc 1 34 5
st.shared.b32 [tile], %r3;
st.shared.b32 [tile+8], %r3;
ret;
}
.file 1 "SOURCE"
.file 2 "load.cuh"
.section .debug_str { $L__info_string0: .b8 108, 111, 97, 100, 0 }
"""


def _words(edits: list[tuple[int, str]], source: str = "kernel.cu", language: Language | None = None) -> list[str]:
    """edits: lines of the text, and what stands there instead, the line itself as `*`."""
    text = TEXT.replace("SOURCE", source)
    lines = text.split("\n")
    made = tuple((Span("k.ptx", line, 1, lines[line - 1]), new.replace("*", lines[line - 1])) for line, new in edits)
    finding = Diagnostic("MB111", "name", "message", repair=Repair("title", made))
    report = FileReport("k.ptx", text, (KernelReport("k", "sm_90a", "refuted", findings=(finding,)),))
    (kernel,) = with_source_edits(report, read(text, "k.ptx"), SourceFiles(), language).kernels
    repair = kernel.findings[0].repair
    assert repair is not None and repair.edits == made
    return [each.words for each in repair.in_source]


def test_an_insertion_stands_between_lines_of_the_program() -> None:
    # The sum of registers is no access: a barrier before it is as good as one behind it.
    assert _words([(13, "*\nbar.sync 0;")]) == ["after kernel.cu:33: insert __syncthreads();"]
    assert _words([(13, "bar.sync 0;\n*")]) == ["before kernel.cu:33: insert __syncthreads();"]
    assert _words([(16, "*\nbar.sync 0;")]) == ["inside what kernel.cu:34 is compiled to: insert __syncthreads();"]
    assert _words([(9, "*\nfence.proxy.async.shared::cta;")]) == [
        "inside kernel.cu:31 (k), after load.cuh:12:3 (load): "
        'insert asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
    ]
    assert _words([(11, "*\n\t.reg .b64 %rd9;\nmbarrier.init.shared::cta.b64 [%r1], 1;")]) == [
        "after kernel.cu:31 (k): insert PTX `mbarrier.init.shared::cta.b64 [%r1], 1;` with the operands of that place"
    ]
    assert _words([(3, "*\nbar.sync 0;")]) == []


def test_a_change_names_the_instruction() -> None:
    assert _words([(13, "ld.volatile.shared.b32 %r2, [tile];")]) == [
        "at kernel.cu:33: `ld.shared.b32 %r2, [tile];` becomes `ld.volatile.shared.b32 %r2, [tile];`"
    ]
    assert _words([(13, "")]) == ["at kernel.cu:33: `ld.shared.b32 %r2, [tile];` falls away"]


def test_what_triton_emits_is_tritons() -> None:
    assert _words([(13, "*\nbar.sync 0;")], "k.py", "Triton") == ["after k.py:33: insert tl.debug_barrier()"]
    (words,) = _words([(13, "*\nfence.proxy.async.shared::cta;")], "k.py", "Triton")
    assert words.startswith("after k.py:33: Triton emits what stands here, and has no word for `fence.proxy.async")
    assert "report it to Triton" in words
    (words,) = _words([(13, "")], "k.py", "Triton")
    assert words.startswith("at k.py:33: ") and "the source does not say it; report it to Triton" in words
    (words,) = _words([(13, "*\nbar.sync 0;")], "k.py")
    assert "a compiler emits what stands here" in words


def test_advice_on_what_triton_emits_is_for_triton() -> None:
    text = TEXT.replace("SOURCE", "k.py")
    for level, origin, language, told in (
        (Level.ERROR, Span("k.py", 33, 5), "Triton", True),
        (Level.REVIEW, Span("k.py", 33, 5), "Triton", False),
        (Level.ERROR, Span("k.py", 33, 5), "Gluon", False),
        (Level.ERROR, None, "Triton", False),
    ):
        finding = Diagnostic("MB111", "name", "message", repair=Repair("Wait."), level=level, origin=origin)
        report = FileReport("k.ptx", text, (KernelReport("k", "sm_90a", "refuted", findings=(finding,)),))
        (kernel,) = with_source_edits(report, read(text, "k.ptx"), SourceFiles(), cast("Language", language)).kernels
        repair = kernel.findings[0].repair
        assert repair is not None and bool(repair.in_source) == told
        assert not told or "Triton emits this for k.py:33, which has no word for it" in repair.in_source[0].words


def test_gluon_has_calls() -> None:
    assert _words([(13, "*\nfence.proxy.async.shared::cta;")], "k.py", "Gluon") == [
        "after k.py:33: insert fence_async_shared()"
    ]
    (words,) = _words([(13, "mbarrier.init.shared::cta.b64 [%r1], 2;")], "k.py", "Gluon")
    assert words.endswith(
        "becomes `mbarrier.init.shared::cta.b64 [%r1], 2;`; in Gluon: mbarrier.init(barrier, count=2)"
    )
    (words,) = _words([(13, "*\nelect.sync %r1|%p1, -1;")], "k.py", "Gluon")
    assert "Gluon has no call for" in words


@pytest.mark.parametrize(
    ("statement", "language", "term"),
    [
        ("@%p1 bar.sync 0;", "C++", None),
        ("bar.warp.sync 0xffffffff;", "C++", "__syncwarp();"),
        ("barrier.sync  0;", "Triton", "tl.debug_barrier()"),
        ("bar.sync 1;", "Triton", None),
        ("@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 32768;", "Gluon", "mbarrier.expect(barrier, 32768)"),
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r8], %r32;", "Gluon", "mbarrier.expect(barrier, ...)"),
        ("@%p1 mbarrier.arrive.shared::cta.b64 _, [%r8];", "Gluon", "mbarrier.arrive(barrier)"),
        ("cp.async.bulk.wait_group.read 1;", "Gluon", "tma.store_wait(1)"),
        ("wgmma.wait_group.sync.aligned 0;", "Gluon", "warpgroup_mma_wait(num_outstanding=0, deps=[...])"),
        ("barrier.sync 0;", "Gluon", "gl.barrier()"),
        ("bar.sync 0;", "Python", None),
    ],
)
def test_terms(statement: str, language: Language, term: str | None) -> None:
    assert source_term(statement, language) == term


def test_the_language_is_read_off_the_files_beside(tmp_path: Path) -> None:
    text = str(tmp_path / "k.ptx")
    assert (language_of("k.cuh", text), language_of("k.py", text)) == ("C++", "Python")
    (tmp_path / "k.ttgir").touch()
    assert language_of("k.py", text) == "Gluon"
    (tmp_path / "k.ttir").touch()
    assert language_of("k.py", text) == "Triton"
    assert language_of("k.py", "<stdin>") == "Python"
