"""What the command says of tensor maps: expressions, JSON that can be read back, logs and pages."""

from __future__ import annotations

import json
import shlex
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.cli.conftest import Tilewright

from tilewright.cli.tensormap.words import command_words, map_words
from tilewright.legal import Im2colMap, Im2colWideMap, TensorMap
from tilewright.legal.tensor_map.im2col_map import AnyMap

MAPS: list[AnyMap] = [
    TensorMap("bf16", (64,), (), (64,)),
    TensorMap("u4x16_align16", (128, 7), (64,), (128, 7), swizzle="128B_atom_32B", address=0x40),
    TensorMap("f32", (8, 8, 8), (32, 256), (8, 4, 2), (1, 2, 1), "16B", "32B", "256B", "nan", 0x80),
    TensorMap(99, (-1, 0), (-16,), (0, 2**70), interleave=7, swizzle=9, l2_promotion=8, oob_fill=3, address=-5),
    Im2colMap("f16", (64, 56, 56, 32), (128, 7168, 401408), (-1, -2), (1, 2), 64, 128, swizzle="128B"),
    Im2colWideMap("f16", (64, 56, 56, 32), (128, 7168, 401408), -1, 1, 64, 128),
    Im2colWideMap("f16", (64, 56, 56, 32), (128, 7168, 401408), -1, 1, 64, 128, mode="w128", swizzle="64B"),
]


@pytest.mark.parametrize("map", MAPS, ids=range(len(MAPS)))
def test_expressions_and_command_lines_name_the_same_map(tilewright: Tilewright, tmp_path: Path, map: AnyMap) -> None:
    names = {cls.__name__: cls for cls in (TensorMap, Im2colMap, Im2colWideMap)}
    assert eval(map_words(map), names) == map
    answer = tilewright(*shlex.split(command_words(map, "sm_100a"))[1:], "--format", "json")
    (entry,) = answer.document["maps"]
    assert entry["python"] == map_words(map) and entry["command"] == command_words(map, "sm_100a")
    path = tmp_path / "map.json"
    path.write_text(json.dumps(entry["map"]))
    again = tilewright("tensormap", "--json", str(path), "--target", "sm_100a", "--format", "json")
    assert again.document == answer.document and again.code == answer.code


def test_json_has_what_the_text_says(tilewright: Tilewright) -> None:
    options = ("--dtype", "bf16", "--dims", "4096,100", "--strides", "8192", "--box", "128,512", "--swizzle", "128B")
    answer = tilewright("tensormap", *options, "--format", "json")
    assert answer.document["version"] == 1
    (entry,) = answer.document["maps"]
    assert [each["code"] for each in entry["violations"]] == ["TM014", "TM016"]
    assert entry["minimal_sets"] == [["TM014"], ["TM016"]]
    first = entry["violations"][0]
    assert (first["field"], first["index"], first["value"], first["limit"]) == ("boxDim", 1, 512, 256)
    assert ["box[0]", "box[1]"] in entry["minimal_changes"] and ["box[1]", "swizzle"] in entry["minimal_changes"]
    assert any(each["codes"] == ["TM016"] and "swizzle" in each["fields"] for each in entry["conflicts"])
    cheapest = entry["repairs"][0]
    assert cheapest["cost"]["line"] and cheapest["changed"] and cheapest["checked"] is True
    text = tilewright("tensormap", *options).out
    assert "to fix it, change box[1], and one of these: box[0]" in text and "2 rules broken, each enough" in text


def test_the_picture_shows_rows_as_they_stand(tilewright: Tilewright) -> None:
    """32 bytes under a span of 128: rows stand 128 apart, and the buffer needs four times what the barrier counts."""
    options = ("--dtype", "bf16", "--dims", "4096,100", "--strides", "8192", "--swizzle", "128B")
    narrow = tilewright("tensormap", *options, "--box", "16,2").out
    assert "64 bytes on the barrier, 256 bytes of shared memory" in narrow
    assert "0x80 |########........................| row of 32 bytes, 96 left free" in narrow
    single = tilewright("tensormap", *options, "--box", "16,1").out
    assert "0x0 |########........................| row of 32 bytes, 96 left free" in single
    full = tilewright("tensormap", *options, "--box", "64,8").out
    assert f"|{'#' * 32}| row of 128 bytes" in full and "... 5 more, up to 0x400" in full


def test_all_repairs_on_demand(tilewright: Tilewright) -> None:
    options = ("--dtype", "bf16", "--dims", "4096,100", "--strides", "8192", "--box", "128,512", "--swizzle", "128B",
               "--address", "12")  # fmt: skip
    short, whole = (tilewright("tensormap", *options, *more).out for more in ((), ("--all",)))
    assert "more (--all)" in short and "  6. " not in short
    assert "more (--all)" not in whole and "  6. " in whole


def test_a_log_for_code_hosts(tilewright: Tilewright, tmp_path: Path) -> None:
    path = tmp_path / "maps.json"
    entry = {"dtype": "bf16", "dims": [100, 4096], "strides": [200], "box": [64, 128]}
    path.write_text(json.dumps([entry | {"strides": [208]}, entry]))
    answer = tilewright("tensormap", "--json", str(path), "--format", "sarif")
    assert answer.code == 1
    (run,) = answer.document["runs"]
    errors = [each for each in run["results"] if each["level"] == "error"]
    assert [each["ruleId"] for each in errors] == ["TM012"]
    assert errors[0]["message"]["text"].startswith("map 1: row stride 200 bytes")
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} >= {"TM012"}


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_page(tilewright: Tilewright) -> None:
    answer = tilewright(
        "tensormap", "--dtype", "bf16", "--dims", "100,4096", "--strides", "200", "--box", "64,128", "--format", "html"
    )
    assert answer.code == 1 and answer.out.startswith("<!DOCTYPE html>")
    assert "src=" not in answer.out and "<link" not in answer.out  # nothing is loaded from elsewhere
    page = _Texts()
    page.feed(answer.out)
    whole = "".join(page.texts)
    assert "illegal on sm_90a: 1 rule broken" in whole and "TM012 stride-multiple" in whole
    assert "pad the row stride from 200 to 208 bytes" in whole
