"""The command that counts wavefronts: of a tile, of a kernel, and of the placements it finds."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Tilewright

from tilewright.cli.banks.judge import asked_of
from tilewright.layout import parse_layout
from tilewright.legal.bank.banks import wavefronts

TILE = ("--layout", "(64,64):(64,1)", "--element-bytes", "2", "--access", "ldmatrix.x4")
TRANSPOSE = ("--layout", "(32,32):(32,1)", "--access", "ld.shared.b32:columns", "--access", "st.shared.b32:rows")
RING = ("examples/ring.ptx", "--launch", "examples/ring.launch.json")
ROOT = Path(__file__).parents[3]

STRIDED = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry strided()
.reqntid 32
{
\t.reg .b32 %r<4>;
\t.shared .align 128 .b8 tile[4096];
\t.loc 1 7 3
\tmov.u32 %r0, %tid.x;
\tmov.u32 %r1, tile;
\tmad.lo.s32 %r2, %r0, 128, %r1;
\tst.shared.b32 [%r2], %r0;
\tmad.lo.s32 %r2, %r0, 4, %r1;
\tld.shared.b32 %r3, [%r2];
\tret;
}
.file 1 "strided.py"
"""


@pytest.fixture
def strided(tmp_path: Path) -> tuple[str, str, str]:
    (tmp_path / "strided.ptx").write_text(STRIDED, encoding="utf-8")
    launch = {"entry": "strided", "grid": [1, 1, 1], "block": [32, 1, 1], "params": []}
    (tmp_path / "launch.json").write_text(json.dumps(launch), encoding="utf-8")
    return str(tmp_path / "strided.ptx"), "--launch", str(tmp_path / "launch.json")


def test_a_tile_read_with_conflicts(tilewright: Tilewright) -> None:
    answer = tilewright("banks", *TILE)
    assert answer.code == 1
    assert answer.out.splitlines() == [
        "(64,64):(64,1), elements of 2 bytes, on sm_90a",
        "  ldmatrix.x4 in the layout's order: 16 accesses, 512 wavefronts, 64 without conflicts: 8 times",
    ]


def test_a_tile_read_without(tilewright: Tilewright) -> None:
    answer = tilewright("banks", "--layout", "Sw<3,3,3> o 0 o (64,64):(64,1)", *TILE[2:])
    assert answer.code == 0 and "16 accesses, 64 wavefronts, no conflicts" in answer.out


def test_a_placement_for_all_accesses_together(tilewright: Tilewright) -> None:
    answer = tilewright("banks", *TRANSPOSE, "--synthesize")
    assert answer.code == 0
    for words in ("1024 wavefronts, 32 without conflicts: 32 times", "Swizzle<5, 2, 5>, 64 wavefronts",
                  "  Sw<5,0,5> o 0 o (32,32):(32,1)", "no conflicts are left",
                  "padding: 4 bytes after every row, 64 wavefronts, 128 bytes more"):  # fmt: skip
        assert words in answer.out


def test_the_placement_that_is_printed_has_the_wavefronts_that_are_promised(tilewright: Tilewright) -> None:
    choice = tilewright("banks", *TRANSPOSE, "--synthesize", "--format", "json").document["choice"]
    found = choice["best"]["layout"]
    again = tilewright("banks", "--layout", found, *TRANSPOSE[2:], "--format", "json")
    assert again.code == 0
    assert [each["wavefronts"] for each in again.document["accesses"]] == choice["best"]["by_access"] == [32, 32]


def test_engines_restrict_the_placements(tilewright: Tilewright) -> None:
    free = tilewright("banks", *TILE, "--synthesize", "--format", "json").document["choice"]
    engine = tilewright("banks", *TILE, "--synthesize", "--engine", "tma", "--format", "json").document["choice"]
    assert free["best"]["family"] == "swizzle" and engine["best"]["family"] == "tma"
    assert engine["best"]["name"] == "128B" and engine["candidates"] < free["candidates"]
    alone = tilewright(
        "banks", "--layout", "(64,64):(64,1)", "--element-bytes", "2", "--engine", "wgmma", "--synthesize"
    )
    assert alone.code == 0 and "copy engine: 128B" in alone.out


@pytest.mark.parametrize(
    ("target", "kind", "count"), [("gfx942", "ds_read_b128", 128), ("sm_100a", "ld.shared.b128", 128)]
)
def test_other_targets(tilewright: Tilewright, target: str, kind: str, count: int) -> None:
    answer = tilewright("banks", "--layout", "(64,32):(32,1)", "--element-bytes", "2", "--access", kind,
                        "--target", target, "--format", "json")  # fmt: skip
    assert answer.document["accesses"][0]["wavefronts"] == count and answer.code == 1


def test_lanes_anywhere(tilewright: Tilewright) -> None:
    """With `lanes` the layout takes the number of a lane to its element."""
    for text in ("32:2", "(32,4):(17,64)", "Sw<2,0,3> o 0 o (8,4):(8,1)"):
        answer = tilewright("banks", "--layout", text, "--access", "ld.shared.b32:lanes", "--format", "json")
        addresses = parse_layout(text).offsets().reshape(-1, 32) * 4
        assert answer.document["accesses"][0]["wavefronts"] == wavefronts("ld.shared.b32", addresses, "sm_90a").sum()
        assert answer.document["accesses"][0]["first_addresses"] == addresses[0].tolist()


def test_pictures_of_the_first_access(tilewright: Tilewright) -> None:
    shown = tilewright("banks", "--layout", "32:32", "--access", "st.shared.b32:lanes", "--show").out
    assert "bank" in shown and "    0 32  .  ." in shown
    drawn = ET.fromstring(tilewright("banks", *TILE, "--format", "svg").out)
    assert drawn.tag.endswith("svg")
    page = tilewright("banks", *TILE, "--synthesize", "--format", "html").out
    assert page.startswith("<!DOCTYPE html>") and "Swizzle&lt;3, 4, 3&gt;" in page and "<svg" in page


def test_pictures_of_the_placement(tilewright: Tilewright) -> None:
    """Beside the accesses, or alone where only engines access the tile; none of what is no layout."""
    tile = ("--layout", "(8,32):(32,1)", "--access", "ld.shared.b32:columns", "--synthesize")
    shown = tilewright("banks", *tile, "--show").out
    assert "bank" in shown and "1  36  37  38  39  32  33  34  35" in shown
    assert "1  36  37  38" not in tilewright("banks", *tile).out
    engine = ("--layout", "(64,64):(64,1)", "--element-bytes", "2", "--engine", "wgmma", "--synthesize", "--show")
    alone = tilewright("banks", *engine)
    assert alone.code == 0 and "bank " not in alone.out.splitlines()[-3]
    page = tilewright("banks", *tile, "--format", "html").out
    assert page.count("<svg") == 2


def test_a_kernel_s_accesses_at_their_lines(tilewright: Tilewright, strided: tuple[str, str, str]) -> None:
    answer = tilewright("banks", *strided)
    assert answer.code == 1
    for words in ("strided: 2 lines with accesses", "33 wavefronts, 2 without conflicts: 16.5 times",
                  "strided.ptx:13", "32 wavefronts of 1 execution, 1 without conflicts; the worst takes 32",
                  "st.shared.b32 [%r2], %r0;", "compiled from strided.py:7", "1 line without conflicts"):  # fmt: skip
        assert words in answer.out
    assert "strided.ptx:15" in tilewright("banks", *strided, "--all").out
    (document,) = tilewright("banks", *strided, "--format", "json").document["kernels"]
    assert [line["line"] for line in document["lines"]] == [13, 15]
    assert document["lines"][0]["origin"]["file"] == "strided.py"
    assert np.diff(document["lines"][0]["worst_addresses"]).tolist() == [128] * 31
    page = tilewright("banks", *strided, "--format", "html").out
    assert "st.shared.b32 [%r2], %r0;" in page


def test_a_kernel_without_conflicts(tilewright: Tilewright, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    answer = tilewright("banks", *RING)
    assert answer.code == 0 and "no conflicts" in answer.out


def test_a_bundle_is_run_on_zeros(tilewright: Tilewright, small_bundle: bytes, tmp_path: Path) -> None:
    path = tmp_path / "scale.twb"
    path.write_bytes(small_bundle)
    answer = tilewright("banks", str(path))
    assert answer.code == 0 and "wavefronts, no conflicts" in answer.out
    answer = tilewright("banks", str(path), "--launch", "launch.json")
    assert answer.code == 2 and "a bundle has its launches in it" in answer.err


def test_a_part_of_the_clusters_leaves_the_rest_open(
    tilewright: Tilewright, strided: tuple[str, str, str], tmp_path: Path
) -> None:
    launch = {"entry": "strided", "grid": [4, 1, 1], "block": [32, 1, 1], "params": []}
    (tmp_path / "launch.json").write_text(json.dumps(launch), encoding="utf-8")
    answer = tilewright("banks", *strided, "--clusters", "2")
    assert answer.code == 1 and "of 2 of the launch's 4 clusters" in answer.out and "66 wavefronts" in answer.out


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("ldmatrix.x4", ("ldmatrix.x4", "layout", 1)),
        ("st.shared.b128:rows", ("st.shared.b128", "rows", 1)),
        ("ld.shared::cta.b32:columns:4", ("ld.shared::cta.b32", "columns", 4)),
        ("ld.shared::cta.b32", ("ld.shared::cta.b32", "layout", 1)),
    ],
)
def test_accesses_as_they_are_written(text: str, asked: tuple[str, str, int]) -> None:
    found = asked_of(text)
    assert (found.kind, found.order, found.weight) == asked


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--layout", "(4,8)"),
        ("--layout", "(4,8", "--access", "ldmatrix.x4"),
        ("--layout", "(0,8)", "--access", "ldmatrix.x4"),
        ("--layout", "(N,8):(8,1)", "--access", "ld.shared.b32"),
        ("--layout", "(64,64):(64,1)", "--access", "ldmatrix.x5"),
        ("--layout", "(64,64):(64,1)", "--access", "ldmatrix.x4:sideways"),
        ("--layout", "(64,64):(64,1)", "--access", "ldmatrix.x4:rows:0"),
        ("--layout", "(64,64):(64,1)", "--access", "ldmatrix.x4:rows:1:1"),
        ("--layout", "(64,64):(-64,1)", "--access", "ldmatrix.x4"),
        ("--layout", "(64,7):(7,1)", "--access", "ldmatrix.x4"),
        ("--layout", "(64,64):(64,1)", "--access", "ldmatrix.x4", "--target", "sm_99"),
        ("--layout", "(64,64):(64,1)", "--access", "ldmatrix.x4", "--target", "gfx942"),
        ("--layout", "(64,64):(64,1)", "--access", "ldmatrix.x4", "--element-bytes", "0"),
        ("--layout", "(64,64):(64,1)", "--access", "ldmatrix.x4", "--element-bytes", "3"),
        ("--layout", "(64,64):(64,1)", "--access", "ldmatrix.x4", "--engine", "tma"),
        ("--layout", "(64,64):(64,1)", "--access", "ldmatrix.x4", "--engine", "dma", "--synthesize"),
        ("--layout", "(64,64):(64,1)", "--access", "ldmatrix.x4", "--engine", "tcgen05", "--synthesize"),
        ("--layout", "32:2", "--access", "ld.shared.b32:lanes", "--synthesize"),
        ("--layout", "(1048577,1048575):(1048575,1)", "--access", "ld.shared.b32"),
        ("--layout", "(16,1024,(1000,1099511627776,7),(257,3))", "--access", "ld.shared.b32:columns"),
        ("examples/ring.ptx",),
        ("nothing.ptx", "--launch", "nothing.json"),
        ("examples/ring.ptx", "--launch", "examples/ring.launch.json", "--clusters", "0"),
        ("examples/ring.ptx", "--launch", "examples/ring.launch.json", "--format", "svg"),
        ("examples/ring.ptx", "--layout", "(4,8)"),
    ],
)
def test_what_is_no_question_ends_in_one_message(
    tilewright: Tilewright, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    answer = tilewright("banks", *arguments)
    assert answer.code == 2 and "error: " in answer.err and not answer.out, answer
    assert len(answer.err) < 1000


def test_a_tile_of_a_million_million_elements_takes_no_time(tilewright: Tilewright) -> None:
    answer = tilewright("banks", "--layout", "(1048576,1048576):(1048576,1)", "--access", "ld.shared.b32")
    assert answer.code == 1 and "34359738368 accesses" in answer.out


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
@pytest.mark.parametrize(
    ("rows", "columns", "element_bytes", "order"),
    [(32, 32, 4, "rows"), (64, 64, 2, "rows"), (128, 24, 4, "layout"), (64, 96, 2, "layout")],
)
def test_printed_layouts_cost_what_is_said_of_them(
    tilewright: Tilewright, rows: int, columns: int, element_bytes: int, order: str, target: str
) -> None:
    """Every family's best that is a layout is counted again, as a layout."""
    read, write = ("ds_read_b64", "ds_write_b64") if target == "gfx942" else ("ld.shared.b64", "st.shared.b64")
    rest = ("--element-bytes", str(element_bytes), "--access", f"{read}:columns", "--access", f"{write}:{order}",
            "--target", target, "--format", "json")  # fmt: skip
    given = tilewright("banks", "--layout", f"({rows},{columns}):({columns},1)", *rest, "--synthesize").document
    choice, seen = given["choice"], 0
    for judged in choice["families"]:
        assert judged["wavefronts"] >= choice["best"]["wavefronts"] >= choice["bound"]
        if judged["layout"] is not None:
            again = tilewright("banks", "--layout", judged["layout"], *rest).document
            assert [each["wavefronts"] for each in again["accesses"]] == judged["by_access"]
            seen += 1
    assert seen >= 2
