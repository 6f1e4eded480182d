"""Programs on disk, and the command line called in a folder of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli.main import main

PROGRAM = """\
import tilewright as tw


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


@tw.kernel
def scale(a: tw.Tensor["M", "K"], c: tw.Tensor["M", "K"]):
    i, j = tw.grid("M", "K")
    c[i, j] = a[i, j] * 2.0


@tw.kernel
def shifted(a: tw.Tensor["M", "K"], c: tw.Tensor["M", "K"]):
    i, j = tw.grid("M", "K")
    c[i + 1, j] = a[i, j]


@tw.kernel
def divides(a: tw.Tensor["M", "K"], c: tw.Tensor["M", "K"]):
    i, j = tw.grid("M", "K")
    c[i, j] = a[i, j] * (1 // 0)


@tw.kernel
def scaled(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["K/32"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * s[k // 32]
    c[i, j] = acc


@tw.kernel
def summed(a: tw.Tensor["M", "K"], c: tw.Tensor["M"]):
    i, k = tw.axes("M K")
    c[i] = tw.sum(a[i, k], axis=1)


not_a_kernel = 3
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Tilewright = Callable[..., Answer]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder but for `program.py`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tilewright:
    """Calls the command line in this process, with a cache of its own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / ".cache"))

    def call(*arguments: str) -> Answer:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def small_bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bundle of `scale` at 32 x 32."""
    folder = tmp_path_factory.mktemp("bundle")
    program, bundle = folder / "program.py", folder / "scale.twb"
    program.write_text(PROGRAM, encoding="utf-8")
    assert main(["compile", f"{program}:scale", "--shape", "M=32,K=32", "-o", str(bundle)]) == 0
    return bundle.read_bytes()


@pytest.fixture
def bundle(folder: Path, small_bundle: bytes) -> Path:
    """That bundle in the working folder."""
    path = folder / "scale.twb"
    path.write_bytes(small_bundle)
    return path
