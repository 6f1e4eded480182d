"""Which verdict gives which exit code."""

from __future__ import annotations

import pytest

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.cli import main as command_line
from tilewright.driver.compile import compile as compiler

PROGRAM = """import tilewright as tw

@tw.kernel
def negate(x: tw.Tensor["N"], y: tw.Tensor["N"]):
    i = tw.grid("N")
    y[i] = -x[i]
"""


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Proven("all trip counts"), 0),
        (Refuted((Diagnostic("LV001", "made-up", "made up for this test"),)), 1),
        (Unknown(("made up for this test",)), 3),
    ],
)
def test_a_verdict_decides_the_exit_code(verdict, code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    judge = compiler.judge
    monkeypatch.setattr(compiler, "judge", lambda module, facts: (verdict, judge(module, facts)[1]))
    assert command_line.main(["compile", "program.py:negate", "--shape", "N=100"]) == code
    assert (tmp_path / "negate.twb").exists() == (code == 0)


def test_undecided_is_an_error_of_its_own():
    with pytest.raises(TilewrightError, match="is not proved: no idea"):
        compiler.accept(Unknown(("no idea",)), "it")
