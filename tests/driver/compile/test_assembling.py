"""Does a text that spills stay out, and does an error reach whom it concerns, where ptxas runs beside the proof?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.driver.compile import assembling as module
from tilewright.driver.compile import compile as compiling
from tilewright.driver.compile.assembling import assembling, is_known_to_spill
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.runtime.assemble import Assembly, FunctionResources, Ptxas

_FITS = Assembly(
    b"", "sm_90a", (FunctionResources("f", True, 32, 0, 0, 0, 0),), (), 0.1, Ptxas(Path("ptxas"), "12.9", "PATH")
)
_SPILLS = replace(_FITS, functions=(replace(_FITS.functions[0], spill_store_bytes=8),))


def _answer(monkeypatch: pytest.MonkeyPatch, answer: Assembly | TilewrightError) -> None:
    def assemble(ptx: str, target: str, *, name: str) -> Assembly:
        if isinstance(answer, TilewrightError):
            raise answer
        return answer

    monkeypatch.setattr(module, "assemble", assemble)


def _compile() -> compiling.Compilation:
    return compiling.compile_kernel(matmul_kernel, dims={"M": 64, "N": 64, "K": 64})


def test_answers_are_what_the_assembler_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for answer in (_FITS, _SPILLS):
        _answer(monkeypatch, answer)
        with assembling("", "sm_90a", "f") as pending:
            assert pending is not None and pending.result() is answer
            assert is_known_to_spill(pending) == (answer is _SPILLS)
    with assembling("", "sm_90a", "f", wanted=False) as pending:
        assert pending is None and not is_known_to_spill(pending)


def test_a_refusal_is_raised_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(monkeypatch, TilewrightError("ptxas rejects f"))
    with assembling("", "sm_90a", "f") as pending:
        assert pending is not None and not is_known_to_spill(pending)
        with pytest.raises(TilewrightError, match="rejects"):
            pending.result()
    with pytest.raises(TilewrightError, match="rejects"):
        _compile()


def _refuse(*_: object, **__: object) -> None:
    raise TilewrightError("the text is refuted")


def test_a_proof_that_fails_is_told_unless_the_text_spills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "reprove", _refuse)
    _answer(monkeypatch, _FITS)
    with pytest.raises(TilewrightError, match="refuted"):
        _compile()
    _answer(monkeypatch, _SPILLS)
    with pytest.raises(TilewrightError, match="spill"):
        _compile()
