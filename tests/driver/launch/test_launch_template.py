"""`tilewright launch`: files that `check` accepts, with what the text says and what exploration finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.checked_texts import BAD_EXPECT
from tests.contract.replay_kernels import copy_text

from tilewright.base.error import TilewrightError
from tilewright.cli.main import main
from tilewright.driver.check.check import check_text
from tilewright.driver.explore.example_launch import example_launch
from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.driver.launch.launch_shapes import GivenShape

RING = Path(__file__).parents[3] / "examples" / "ring.ptx"
TWO = copy_text() + copy_text()[copy_text().index(".visible") :].replace("double", "other")


def test_an_explored_launch_is_complete_and_proven() -> None:
    text = RING.read_text(encoding="utf-8")
    found = example_launch(text, "ring.ptx")
    assert found.document["block"] == [64, 1, 1]
    params = found.document["params"]
    assert isinstance(params, list) and params[2]["value"] > 1, "the loop is entered"
    assert "trips" in params[2]["note"]
    report = check_text(text, "ring.ptx", launch=launch_from_json(dict(found.document), "launch"))
    assert (report.kernels[0].verdict, report.kernels[0].scope) == ("proven", "this launch")


def test_a_launch_that_refutes_is_written_as_such() -> None:
    text = copy_text(expect=BAD_EXPECT)
    found = example_launch(text, "hangs.ptx")
    assert "this launch shows" in found.said
    report = check_text(text, "hangs.ptx", launch=launch_from_json(dict(found.document), "launch"))
    assert report.kernels[0].verdict == "refuted"


def test_a_blank_file_leaves_open_what_the_text_does_not_say() -> None:
    found = example_launch(RING.read_text(encoding="utf-8"), "ring.ptx", seconds=0.0, shape=GivenShape(grid=(4, 1, 1)))
    document = dict(found.document)
    assert document["grid"] == [4, 1, 1] and document["block"] == [64, 1, 1]
    launch = launch_from_json(document, "launch")
    assert launch.params == (None, None, None) and launch.dynamic_smem_bytes is None
    notes = [param["note"] for param in document["params"]]  # type: ignore[attr-defined]
    assert [note.split(";")[0] for note in notes] == ["tiles: tensor map", "sums: pointer", "trips: integer"]


def test_a_blank_file_fixes_no_shape_that_the_text_leaves_open() -> None:
    text = RING.read_text(encoding="utf-8")
    (required,) = [line for line in text.split("\n") if ".reqntid" in line]
    document = example_launch(text.replace(required, ""), "ring.ptx", seconds=0.0).document
    assert document["block"] is None
    launch = launch_from_json(dict(document), "launch")
    assert launch.block is None


def test_the_command_writes_a_file_that_the_check_of_a_folder_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ring.ptx").write_text(RING.read_text(encoding="utf-8"), encoding="utf-8")
    assert main(["launch", "ring.ptx", "--output", "ring.launch.json"]) == 0
    assert json.loads(Path("ring.launch.json").read_text())["entry"] == "ring"
    capsys.readouterr()
    assert main(["check", ".", "--format", "json", "--no-cache"]) == 0
    assert json.loads(capsys.readouterr().out)["files"][0]["kernels"][0]["scope"] == "this launch"


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        (TWO, (), "2 kernels"),
        (TWO, ("--entry", "doubel"), "did you mean double?"),
        (copy_text(), ("--block", "0"), "at least 1"),
        (copy_text(), ("--output", "kernel.ptx"), "would be written over"),
        ("no ptx", (), ".version"),
    ],
)
def test_bad_input_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    text: str, arguments: tuple[str, ...], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("kernel.ptx").write_text(text, encoding="utf-8")
    assert main(["launch", "kernel.ptx", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and not captured.out


def test_a_shape_that_contradicts_the_kernel_is_an_error() -> None:
    with pytest.raises(TilewrightError, match="reqntid"):
        example_launch(RING.read_text(encoding="utf-8"), "ring.ptx", shape=GivenShape(block=(65, 1, 1)))
