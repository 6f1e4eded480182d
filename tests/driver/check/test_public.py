"""`tilewright.check`: what it takes, what its report says, and how it shows itself."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from tests.cli.checked_texts import NO_FENCE, launch_document
from tests.contract.replay_kernels import copy_text

import tilewright as tw
from tilewright.base.error import TilewrightError


def test_text_path_and_compiled_kernel_give_the_same_verdict(tmp_path: Path) -> None:
    text, launch = copy_text(), launch_document()
    path = tmp_path / "kernel.ptx"
    path.write_text(text, encoding="utf-8")
    triton = SimpleNamespace(asm={"ptx": text}, name="copy")
    compiled = SimpleNamespace(bundle=SimpleNamespace(ptx=text, name="copy"))
    for subject in (text, path, str(path), tmp_path, triton, compiled):
        report = tw.check(subject, launch=launch)
        assert report.proven and report.verdict == "proven" and len(report.kernels) == 1


def test_a_refuted_kernel_names_its_finding_everywhere() -> None:
    report = tw.check(copy_text(**NO_FENCE), launch=launch_document(), repair=False)
    assert report.verdict == "refuted" and not report.proven
    code = next(finding.code for finding in report.findings if finding.level.value == "error")
    assert code in str(report) and code in report.to_html() and code in report._repr_html_()
    assert len(repr(report)) < 120 and "refuted" in repr(report)
    assert report.to_json()["files"]


def test_the_notebook_fragment_is_well_formed_and_escaped() -> None:
    opened: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    fragment = tw.check(copy_text(**NO_FENCE), launch=launch_document(), repair=False)._repr_html_()
    Tags().feed(fragment)
    assert not opened and "<br" not in fragment


def test_show_opens_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tw.check(copy_text(), launch=launch_document()).show()
    assert opened == [path.as_uri()] and path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("no_such_file.ptx", "cannot read"),
        (b"bytes", "builtins.bytes is nothing that can be checked"),
        (3, "nothing that can be checked"),
        ("", "found the end of the file"),
        (".version 8.0\n.target sm_90a\n", "no kernel"),
        (SimpleNamespace(asm={"amdgcn": ""}), "no PTX"),
    ],
)
def test_what_can_not_be_checked_is_one_error_with_a_remedy(subject: object, said: str) -> None:
    with pytest.raises(TilewrightError, match=said) as caught:
        tw.check(subject)
    assert caught.value.remedy


def test_wrong_options_are_errors() -> None:
    for options in ({"block": (0,)}, {"grid": (1, 1, 1, 1)}, {"isa": "lenient"}, {"launch": {"grid": [0]}}):
        with pytest.raises(TilewrightError):
            tw.check(copy_text(), **options)


def test_a_cupy_kernel_is_compiled_again_for_its_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy's documented low-level NVRTC functions, stood in for: no GPU library is at hand here."""
    seen: list[object] = []

    class NVRTCError(RuntimeError):
        pass

    def compile_program(program: object, options: tuple[str, ...]) -> None:
        seen.append(options)
        if "bad" in str(program):
            raise NVRTCError("NVRTC_ERROR_COMPILATION (6)")

    nvrtc = ModuleType("cupy.cuda.nvrtc")
    for name, value in {
        "NVRTCError": NVRTCError,
        "createProgram": lambda code, name, headers, includes: code,
        "compileProgram": compile_program,
        "getPTX": lambda program: copy_text(),
        "getProgramLog": lambda program: "kernel.cu(1): error: expected a ';'",
        "destroyProgram": lambda program: None,
    }.items():
        setattr(nvrtc, name, value)
    monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
    monkeypatch.setitem(sys.modules, "cupy.cuda", ModuleType("cupy.cuda"))
    monkeypatch.setitem(sys.modules, "cupy.cuda.nvrtc", nvrtc)
    raw = type("RawKernel", (), {"__module__": "cupy._core.raw", "code": "good", "options": ("-O3",), "name": "copy"})
    assert tw.check(raw(), launch=launch_document()).proven
    assert seen == [("-O3", "--gpu-architecture=compute_90a")]
    raw.code = "bad"
    with pytest.raises(TilewrightError, match="expected a ';'"):
        tw.check(raw())
