"""`tilewright roofline`: every format, and each wrong input with one message."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tilewright.cli.main import main

PROGRAMS = """
from tilewright.frontends.tile import language as tw


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    c[i, j] = acc


@tw.kernel
def activated(x: tw.Tensor["N"], y: tw.Tensor["N"]):
    i = tw.grid("N")
    y[i] = tw.exp(x[i])


@tw.kernel
def copied(x: tw.Tensor["N"], y: tw.Tensor["N"]):
    i = tw.grid("N")
    y[i] = x[i]
"""


@pytest.fixture
def programs(tmp_path: Path) -> str:
    path = tmp_path / "programs.py"
    path.write_text(PROGRAMS)
    return str(path)


def test_text_says_what_dominates_and_draws_the_roof(programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", f"{programs}:matmul", "--shape", "M=64,N=8192,K=4096"]) == 0
    shown = capsys.readouterr().out
    assert "device memory" in shown
    assert "<- dominates" in shown
    assert "pruned" in shown
    assert "X" in shown
    assert "* roof" in shown


def test_json_holds_together(programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", f"{programs}:matmul", "--shape", "M=4096,N=4096,K=4096", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    by_name = {line["name"]: line for line in document["resources"]}
    assert by_name["tensor cores"]["amount"] == 2 * 4096**3
    assert document["least_microseconds"] == max(line["microseconds"] for line in document["resources"])
    assert document["predicted_microseconds"] > document["least_microseconds"]
    for line in document["resources"]:
        assert line["microseconds"] == pytest.approx(1e6 * line["amount"] / line["per_second"])


def test_a_program_without_products(programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", f"{programs}:activated", "--shape", "N=1000000", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    by_name = {line["name"]: line for line in document["resources"]}
    assert by_name["special functions"]["amount"] == 1000000
    assert by_name["device memory"]["amount"] == 4000000
    assert document["dominant"] == "device memory"
    assert main(["roofline", f"{programs}:activated", "--shape", "N=1000000"]) == 0
    assert "* roof" in capsys.readouterr().out
    # Nothing is computed, so there is no roof to stand under.
    for form in ("text", "json", "html"):
        assert main(["roofline", f"{programs}:copied", "--shape", "N=1000000", "--format", form]) == 0
        shown = capsys.readouterr().out
        assert "* roof" not in shown
        assert "<svg" not in shown


def test_the_page_has_a_drawing(programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", f"{programs}:matmul", "--shape", "M=512,N=512,K=512", "--format", "html"]) == 0
    page = capsys.readouterr().out
    begin = page.index("<svg")
    drawing = ElementTree.fromstring(page[begin : page.index("</svg>") + 6])
    assert sum(element.get("class", "").startswith("roof") for element in drawing.iter()) >= 3
    assert any(element.tag == "circle" for element in drawing.iter())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shape", "M=64,N=64"], "K"),
        (["--shape", "M=64,N=64,K=64", "--target", "sm_100a"], "sm_90a"),
        (["--shape", "M=64,N=64,K=64", "--tile", "99x99"], "tile"),
        (["--shape", "M=64,N=64,K=64", "--dtype", "int7"], "int7"),
    ],
)
def test_wrong_inputs(programs: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", f"{programs}:matmul", *arguments]) == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert "help:" in shown
