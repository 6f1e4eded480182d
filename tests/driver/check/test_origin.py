"""Findings name the line of the program that the text was compiled from."""

from __future__ import annotations

from pathlib import Path

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.driver.check.origin import at_origin, with_origin
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
    assert with_origin(before, module, kernel).origin is None
    found = with_origin(at, module, kernel)
    assert found.origin == Span(str(source), 3, 5)
    report = FileReport("k.ptx", kernels=(KernelReport("k", "sm_90a", "refuted", findings=(found, before)),))
    moved, same = at_origin(report).kernels[0].findings
    assert moved.primary == Span(str(source), 3, 5, "    x = tl.load(p)") and "k.ptx:9" in moved.interleaving[-1]
    assert same is before
