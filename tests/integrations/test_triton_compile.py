"""What Triton refuses is told whole and with a remedy that fits; what it would take in silence is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.integrations import fake_triton

from tilewright.base.error import TilewrightError
from tilewright.integrations import triton as tw_triton
from tilewright.integrations.triton_compile import compile_error

TYPES = {"x": "*fp32", "n": "i32"}


class CompilationError(Exception):
    """As Triton's, which knows a node of the kernel's syntax tree."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.node = SimpleNamespace(lineno=line, col_offset=column)


class PTXASError(Exception):
    pass


def _kernel(**others: Any) -> fake_triton.Kernel:
    return fake_triton.Kernel(["x", "n", "BLOCK"], **others)


def _refused(kernel: object, **arguments: Any) -> TilewrightError:
    with pytest.raises(TilewrightError) as caught:
        tw_triton.check(kernel, signature=TYPES, constexprs={"BLOCK": 128}, **arguments)
    return caught.value


def test_options_that_triton_does_not_know_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, object]] = []

    def compile_kernel(source: object, target: object, options: dict[str, object]) -> Any:
        seen.append(options)
        raise PTXASError("no")

    fake_triton.install(monkeypatch, compile_kernel)
    error = _refused(_kernel(), num_wraps=4)
    assert (error.message, error.remedy) == ("Triton has no option num_wraps", "did you mean num_warps?")
    assert "constexprs" in _refused(_kernel(), BLOCK=4).remedy
    assert "num_stages" in _refused(_kernel(), quux=4).remedy
    assert seen == []
    assert "report it to Triton" in _refused(_kernel(), num_warps=8).remedy
    assert seen == [{"num_warps": 8}]


@pytest.mark.parametrize("target", ["sm_80", "sm_130a", "gfx942", "sm_90a_"])
def test_targets_that_are_not_checked_are_refused(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    fake_triton.install(monkeypatch, lambda *_, **__: pytest.fail("nothing is to be compiled"))
    error = _refused(_kernel(), target=target)
    assert target in error.message and error.remedy == "write sm_90a or sm_100a or sm_103a or sm_120a"


def test_an_error_of_the_kernel_is_told_whole_and_in_place(tmp_path: Path) -> None:
    lines = [
        "    @triton.jit\n",
        "    def scale(x, n):\n",
        "        at = tl.arange(0, 4)\n",
        "        tl.load(x + att)\n",
    ]
    kernel = _kernel(
        fn=SimpleNamespace(__code__=SimpleNamespace(co_filename="kernels.py")), raw_src=lines, starting_line_number=40
    )
    inner = CompilationError("at 2:7:\ndef helper(x):\n    too many indices", 2, 7)
    outer = CompilationError("at 3:16:\ndef scale(x, n):\n    tl.load(x + att)\n            ^", 3, 16)
    outer.__cause__ = inner
    error = compile_error(kernel, outer)
    assert error.span is not None and (error.span.file, error.span.line, error.span.column) == ("kernels.py", 43, 21)
    assert "tl.load(x + att)" in error.span.text
    assert error.message.startswith("Triton cannot compile scale: at 3:16:")
    assert "^" in error.message and error.message.endswith("too many indices")
    assert error.remedy == "change the kernel where Triton points"


@pytest.mark.parametrize(
    ("error", "words", "remedy"),
    [
        (
            PTXASError("PTXAS error: codegen\nfatal: unknown option\nRepro command: ptxas -x"),
            "Repro command",
            "report it",
        ),
        (RuntimeError("0 compatible backends for target (cuda) ([])."), "0 compatible", "force-reinstall"),
        (KeyError("fp99"), "KeyError('fp99')", "types in signature"),
        (AssertionError(), "AssertionError()", "types in signature"),
        (RuntimeError("PassManager::run failed"), "PassManager", "printed to standard error"),
    ],
)
def test_other_errors_do_not_blame_the_kernel(error: Exception, words: str, remedy: str) -> None:
    found = compile_error(_kernel(), error)
    assert words in found.message and remedy in found.remedy and "change the kernel" not in found.remedy
    assert found.span is None


def test_errors_of_triton_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from tests.integrations.triton_kernels import scale

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    types = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    with pytest.raises(TilewrightError, match="power of 2") as caught:
        tw_triton.check(scale, signature=types, constexprs={"BLOCK": 100})
    span = caught.value.span
    assert span is not None and "tl.arange(0, BLOCK)" in span.text and span.text[span.column - 1 :].startswith("tl.ar")
    with pytest.raises(TilewrightError, match="no option num_wraps"):
        tw_triton.check(scale, signature=types, constexprs={"BLOCK": 128}, num_wraps=4)
