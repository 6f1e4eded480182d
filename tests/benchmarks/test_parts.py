"""A list in parts: nothing is lost, nothing is taken twice, and the whole stands in the list's order."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from bench.parts import joined, part, part_name, share
from hypothesis import given
from hypothesis import strategies as st

VERSIONS = {"torch": "2.0", "gpu": "NVIDIA H200"}


def write_parts(folder: Path, cases: list[dict[str, Any]], count: int, versions: dict[str, str] = VERSIONS) -> None:
    for number in range(1, count + 1):
        rows = [{"cases": 0}, *share(cases, (number, count))]
        command = f"python -m bench gemm --part {number}/{count} --turns 5"
        document = {"command": command, "date": f"2026-01-0{number}", "versions": versions, "rows": rows}
        (folder / f"{part_name('gemm', (number, count))}.json").write_text(json.dumps(document))


@given(st.integers(0, 40), st.integers(1, 7))
def test_parts_hold_every_item_once(items: int, count: int) -> None:
    shares = [share(range(items), (number, count)) for number in range(1, count + 1)]
    assert sorted(item for taken in shares for item in taken) == list(range(items))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("count", [2, 3])
def test_the_whole_is_in_the_order_of_the_list(tmp_path: Path, count: int) -> None:
    cases: list[dict[str, Any]] = [{"case": str(at), "ratio": 1.0 + at} for at in range(6)]
    write_parts(tmp_path, [*cases, {"case": "6", "refused": "no"}], count)
    document = joined("gemm", tmp_path)
    assert [row["case"] for row in document["rows"][1:]] == list("0123456")
    assert document["rows"][0] == {
        "cases": 7,
        "refused": 1,
        "geometric_mean": pytest.approx(720 ** (1 / 6)),
        "worst": 1.0,
        "share_at_least_0.95": pytest.approx(6 / 7),
    }
    assert document["versions"] == VERSIONS and document["date"] == f"2026-01-0{count}"
    assert document["command"].startswith(f"python -m bench gemm --turns 5 --part 1/{count} (to {count}/{count}")


def test_a_missing_part_and_parts_of_different_versions_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="parts of gemm"):
        joined("gemm", tmp_path)
    write_parts(tmp_path, [{"case": "a", "ratio": 1.0}], 3)
    (tmp_path / "gemm.part2of3.json").unlink()
    with pytest.raises(ValueError, match="part2of3"):
        joined("gemm", tmp_path)
    write_parts(tmp_path, [{"case": "a", "ratio": 1.0}], 3)
    last = tmp_path / "gemm.part3of3.json"
    last.write_text(last.read_text().replace("2.0", "2.1"))
    with pytest.raises(ValueError, match="different versions"):
        joined("gemm", tmp_path)


@pytest.mark.parametrize("text", ["2", "0/2", "3/2", "a/b", "1/-2", "/", "1/2/3"])
def test_what_names_no_part_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="I/N"):
        part(text)


def test_a_part_is_named() -> None:
    assert (
        part("2/3") == (2, 3) and part_name("gemm", (1, 1)) == "gemm" and part_name("gemm", (2, 3)) == "gemm.part2of3"
    )
