"""`tilewright lower`, and `check` of the same texts: what they print, write and end with."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Tilewright

from tilewright.ir import context

PRODUCT = Path(__file__).parents[3] / "examples" / "product.ac.mlir"


@pytest.fixture
def product(folder: Path) -> Path:
    """The example's text, in the working folder."""
    path = Path("product.ac.mlir")
    path.write_text(PRODUCT.read_text("utf-8"), encoding="utf-8")
    return path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_ptx_goes_to_standard_output_or_a_file(product: Path, tilewright: Tilewright) -> None:
    printed = tilewright("lower", "product.ac.mlir")
    assert printed.code == 0 and printed.err == "" and printed.out.startswith(".version ")
    written = tilewright("lower", "product.ac.mlir", "-o", "product.ptx")
    assert written.code == 0 and written.out.splitlines() == [
        "product (sm_90a): proven for all trip counts", "wrote product.ptx",
    ]  # fmt: skip
    assert Path("product.ptx").read_text("utf-8") == printed.out
    document = tilewright("lower", "product.ac.mlir", "--format", "json").document
    assert document["ptx"] == printed.out and document["written"] == []
    assert [(each["name"], each["target"]) for each in document["kernels"]] == [("product", "sm_90a")]


def test_standard_input_is_lowered(product: Path, tilewright: Tilewright, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tilewright("lower", "product.ac.mlir").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(product.read_bytes())))
    assert tilewright("lower", "-").out == expected


def test_what_is_refuted_is_not_lowered(product: Path, tilewright: Tilewright) -> None:
    edit(product, "[pending = 1]", "[pending = 2]")
    refused = tilewright("lower", "product.ac.mlir", "-o", "product.ptx")
    assert refused.code == 1 and refused.out == "" and not Path("product.ptx").exists()
    assert "error[WG002]" in refused.err and "--> product.ac.mlir:67:11" in refused.err
    assert "nothing is lowered" in refused.err
    document = tilewright("lower", "product.ac.mlir", "--format", "json").document
    assert document["files"][0]["kernels"][0]["verdict"] == "refuted"


def test_what_is_not_decided_is_not_lowered(product: Path, tilewright: Tilewright) -> None:
    edit(product, "ac.cta.sync", "ac.cta.sync attributes {note = 1 : i32}")
    refused = tilewright("lower", "product.ac.mlir")
    assert refused.code == 3 and refused.out == "" and "unknown" in refused.err


def test_an_allowed_finding_is_no_proof_to_lower_by(product: Path, tilewright: Tilewright) -> None:
    edit(product, "[pending = 1]", "[pending = 2]")
    edit(product, "          %done =", "          // tilewright: allow[WG002] because to see\n          %done =")
    refused = tilewright("lower", "product.ac.mlir")
    assert refused.code == 3 and refused.out == ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("stages = 4", "stage = 4", "product.ac.mlir:16:24: error: ac.ring has no attribute stage; did you"),
        ("tx(%half)", "tx(%halve)", "product.ac.mlir:35:66: error: %halve is not defined before this use; did you"),
        ('"sm_90a"', '"sm_91a"', "unknown target 'sm_91a'"),
        ('attributes {ac.target = "sm_90a"} ', "", "names no target"),
    ],
)
@pytest.mark.parametrize("command", ["check", "lower"])
def test_what_can_not_be_read_is_one_message(
    product: Path, tilewright: Tilewright, command: str, old: str, new: str, said: str
) -> None:
    edit(product, old, new)
    answer = tilewright(command, "product.ac.mlir")
    shown = answer.out if command == "check" else answer.err
    assert answer.code == 2 and said in shown and "help: " in shown and "Traceback" not in answer.out + answer.err


def test_other_texts_are_refused(folder: Path, tilewright: Tilewright) -> None:
    Path("k.ptx").write_text(".version 8.1\n.target sm_90a\n", encoding="utf-8")
    answer = tilewright("lower", "k.ptx")
    assert answer.code == 2 and "no text of the `ac` dialect" in answer.err and "help: " in answer.err
    assert tilewright("lower", "absent.ac.mlir").code == 2
    assert tilewright("check", "k.ptx", "--target", "sm_90a").code == 2


def test_check_reports_in_every_format(product: Path, tilewright: Tilewright) -> None:
    assert "product.ac.mlir: product (sm_90a): proven for all trip" in tilewright("check", "product.ac.mlir").out
    edit(product, "[pending = 1]", "[pending = 2]")
    document = tilewright("check", "product.ac.mlir", "--format", "json").document
    (kernel,) = document["files"][0]["kernels"]
    assert kernel["verdict"] == "refuted" and kernel["findings"][0]["code"] == "WG002"
    (result,) = json.loads(tilewright("check", "product.ac.mlir", "--format", "sarif").out)["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert result["ruleId"] == "WG002" and region["startLine"] == 67
    assert "line=67" in tilewright("check", "product.ac.mlir", "--format", "github").out
    html = tilewright("check", "product.ac.mlir", "--format", "html")
    assert html.code == 1 and "WG002" in html.out


def test_a_folder_of_texts_is_checked(product: Path, tilewright: Tilewright) -> None:
    Path("kernels").mkdir()
    product.rename("kernels/product.ac.mlir")
    assert "kernels/product.ac.mlir: product (sm_90a): proven" in tilewright("check", "kernels").out


def test_emitted_stages_read_again_and_give_the_same_ptx(folder: Path, tilewright: Tilewright) -> None:
    from xdsl.parser import Parser

    shape = ("--shape", "M=64,N=63,K=65")
    assert tilewright("compile", "program.py:matmul", *shape, "--emit", "tile,ac,ptx").code == 0
    checked = tilewright("check", "matmul.ac.mlir")
    assert checked.code == 0 and "2 kernels checked: 2 proven" in checked.out
    assert tilewright("lower", "matmul.ac.mlir").out == Path("matmul.ptx").read_text("utf-8")
    tile = Path("matmul.tile.mlir").read_text("utf-8")
    assert f"{Parser(context(), tile).parse_module()!s}\n" == tile
    assert "tilewright lower" in tilewright("compile", "--help").out
