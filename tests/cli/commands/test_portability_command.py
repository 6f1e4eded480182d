"""`tilewright portability`: targets side by side, or the line that keeps a program from one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.cli.main import main
from tilewright.targets import COMPILED_TARGET_NAMES

SOURCE = """import tilewright as tw


@tw.kernel
def linear(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[i, k], w[j, k], over=k)


@tw.kernel
def scaled(
    x: tw.Tensor["B", "M", "K"], w: tw.Tensor["B", "N", "K"], s: tw.Tensor["B", "K/32"], y: tw.Tensor["B", "M", "N"]
):
    b, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(b, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[b, i, k], w[b, j, k].T) * s[b, k // 32]
    y[b, i, j] = acc
"""
SHAPE = ("--shape", "M=192,N=128,K=128")


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(SOURCE, "utf-8")
    return f"{path}:linear"


def test_targets_side_by_side(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["portability", program, *SHAPE, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["targets"]
    assert [row["target"] for row in rows] == list(COMPILED_TARGET_NAMES)
    assert all(row["compiles"] and row["decisions"] and row["microseconds"] > 0 for row in rows)
    measured, *estimated = (row["grounds"] for row in rows)
    assert "measured" in measured and not measured.startswith("estimate")
    assert estimated and all(each.startswith("estimate") and "sm_90a" in each for each in estimated)
    assert main(["portability", program, *SHAPE]) == 0
    text = capsys.readouterr().out
    assert "sm_100a: compiles" in text and "(estimate" in text


def test_what_blocks_a_target_is_said_with_its_line(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["portability", program.replace("linear", "scaled"), "--shape", "B=2,M=64,N=64,K=64"]) == 1
    text = capsys.readouterr().out
    assert "sm_90a: compiles" in text and "sm_100a: does not compile" in text
    assert "program.py:17" in text and "help: use blocks of a multiple of 64 elements" in text


def test_a_file_has_a_line_for_each_program(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = program.removesuffix(":linear")
    assert main(["portability", file, "--shape", "M=64,N=64,K=64"]) == 0
    head, linear, *rest = capsys.readouterr().out.splitlines()
    assert head.split() == ["program", *COMPILED_TARGET_NAMES]
    assert linear.startswith("linear (M=64, N=64, K=64)")
    assert linear.count("1 kernel, about") == len(COMPILED_TARGET_NAMES)
    assert rest[-1] == "scaled: --shape has no B"
    assert main(["portability", file, "--shape", "B=2,M=64,N=64,K=64", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [each["kernel"] for each in found["programs"]] == ["linear", "scaled"] and found["left_out"] == []
    assert main(["portability", file, "--shape", "B=2,M=64,N=64,K=64"]) == 1
    assert "scaled on sm_100a: " in capsys.readouterr().out


def test_extents_that_only_a_launch_knows(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["portability", program, "--shape", "M=1..300,N=64,K=64"]) == 0
    assert "refused" not in capsys.readouterr().out


def test_wrong_inputs(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["portability", program, "--shape", "M=64,N=64"]) == 2
    assert "K" in capsys.readouterr().err
