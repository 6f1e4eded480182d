"""The TTGIR beside a PTX text is checked where the PTX is unknown, and changes no verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.base.check_report import exit_code
from tilewright.driver.check.check import check_file
from tilewright.driver.check.options import CheckOptions
from tilewright.report.findings.check_text import render_check

DATA = Path(__file__).parents[3] / "data" / "ttgir"
HEAD = ".version 8.6\n.target {target}\n.address_size 64\n.visible .entry {name}()\n{{\n{body}ret;\n}}\n"
BOGUS = "newest.instruction.sync;\n"
"""Makes a verdict unknown."""


def _folder(tmp_path: Path, *, target: str = "sm_90a", name: str = "wgmma_ring", body: str = BOGUS) -> str:
    text = (DATA / "wgmma_ring.ttgir").read_text(encoding="utf-8")
    assert "tt.func public @wgmma_ring(" in text
    (tmp_path / "k.ttgir").write_text(text, encoding="utf-8")
    (tmp_path / "k.ptx").write_text(HEAD.format(target=target, name=name, body=body), encoding="utf-8")
    return str(tmp_path / "k.ptx")


def test_a_proof_of_the_ttgir_is_offered_and_decides_nothing(tmp_path: Path) -> None:
    path = _folder(tmp_path)
    report = check_file(path)
    (kernel,) = report.kernels
    assert kernel.verdict == "unknown" and exit_code((report,)) == 3
    assert kernel.beside is not None and kernel.beside.path == str(tmp_path / "k.ttgir")
    assert kernel.beside.kernel.verdict == "proven" and "not what lowering made of them" in kernel.beside.covers
    assert "k.ttgir) is proven for all trip counts: this covers" in render_check((report,))


def test_a_refuted_ttgir_names_its_line(tmp_path: Path) -> None:
    path = _folder(tmp_path)
    beside = tmp_path / "k.ttgir"
    lines = beside.read_text(encoding="utf-8").splitlines()
    at = next(number for number, line in enumerate(lines) if "ttng.barrier_expect" in line)
    beside.write_text("\n".join(lines[:at] + lines[at + 1 :]), encoding="utf-8")
    report = check_file(path)
    (kernel,) = report.kernels
    assert kernel.verdict == "unknown" and exit_code((report,)) == 3
    assert kernel.beside is not None and kernel.beside.kernel.verdict == "refuted"
    words = render_check((report,))
    assert "k.ttgir) is refuted, before it is lowered: " in words and "k.ttgir:" in words


@pytest.mark.parametrize("others", [{"body": ""}, {"name": "other"}, {"target": "sm_100a"}])
def test_a_text_that_is_decided_or_another_kernels_has_nothing_beside(tmp_path: Path, others: dict[str, str]) -> None:
    (kernel,) = check_file(_folder(tmp_path, **others)).kernels
    assert kernel.beside is None


def test_a_file_that_is_no_ttgir_is_nobodys_error(tmp_path: Path) -> None:
    path = _folder(tmp_path)
    (tmp_path / "k.ttgir").write_bytes(b"\xff\xfe no text")
    assert check_file(path).kernels[0].beside is None
    (tmp_path / "k.ttgir").write_text("no MLIR {{{", encoding="utf-8")
    report = check_file(path, options=CheckOptions(block=(128, 1, 1)))
    assert report.error == "" and report.kernels[0].beside is None
