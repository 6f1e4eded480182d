"""`tilewright descriptor`: decoded, encoded, judged, fed by a map, looked for; and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Tilewright

MAP = {"dtype": "bf16", "dims": [4096, 4096], "strides": [8192], "box": [64, 128], "swizzle": "128B"}
BITS = "0x4000004000010040"
FIELDS = ("--start", "0x400", "--leading", "16", "--stride", "1024", "--swizzle", "128B")


@pytest.fixture
def map_file(folder: Path) -> str:
    (folder / "map.json").write_text(json.dumps(MAP))
    return "map.json"


def test_bits_and_fields_are_one_descriptor(tilewright: Tilewright) -> None:
    decoded, encoded = tilewright("descriptor", BITS, "--format", "json"), tilewright("descriptor", *FIELDS)
    assert decoded.code == 0 and decoded.document["fields"] == {
        "start_address": 0x400, "leading_bytes": 16, "stride_bytes": 1024, "swizzle": "128B", "base_offset": 0,
    }  # fmt: skip
    assert encoded.code == 0 and encoded.out.startswith(f"wgmma descriptor {BITS}\n")
    blackwell = tilewright("descriptor", *FIELDS, "--target", "sm_100a")
    assert blackwell.code == 0 and blackwell.out.startswith("tcgen05 descriptor 0x4000404000010040\n")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--role", "A", "--rows", "63"), "LY008 shape: A has 63 rows"),
        (("--role", "B", "--rows", "12", "--dtype", "e4m3"), "LY008 shape: B has 12 columns"),
        (("--role", "A", "--rows", "64", "--dtype", "e4m3", "--major", "MN"), "LY007 major"),
        (("--major", "MN", "--dtype", "tf32"), "MN-major operands of 16 bits alone"),
    ],
)
def test_an_operand_is_judged(tilewright: Tilewright, options: tuple[str, ...], problem: str) -> None:
    answer = tilewright("descriptor", BITS, *options)
    assert answer.code == 1 and problem in answer.out
    assert tilewright("descriptor", BITS, "--role", "A", "--rows", "64", "--dtype", "e4m3").code == 0


def test_fields_that_do_not_hold_their_values(tilewright: Tilewright) -> None:
    answer = tilewright("descriptor", "--start", "8", "--leading", "16", "--stride", "0x40000")
    assert answer.code == 1 and answer.out.startswith("no wgmma descriptor")
    assert answer.out.count("is not a multiple of 16 from 0 to") == 2


def test_what_a_map_loads_is_what_the_instruction_reads_or_not(map_file: str, tilewright: Tilewright) -> None:
    fed = tilewright("descriptor", BITS, "--map", map_file)
    assert fed.code == 0 and "the loads put every element where the instruction reads it (linear)" in fed.out
    other = tilewright("descriptor", "0x8000004000010040", "--map", map_file, "--format", "json")
    assert other.code == 1 and other.document["feeds"]["mismatch"] == [1, 0, 0x490, 0x440]
    moved = tilewright("descriptor", BITS, "--map", map_file, "--destinations", "0x800")
    assert moved.code == 1 and "do not feed it" in moved.out


def test_the_descriptors_of_a_layout_are_looked_for(map_file: str, tilewright: Tilewright) -> None:
    asked = ("--start", "0x400", "--rows", "64", "--depth", "64")
    found = tilewright("descriptor", *asked, "--row-bytes", "128", "--swizzle", "128B", "--format", "json")
    assert found.code == 0 and found.document["descriptors"][0] == BITS and len(found.document["descriptors"]) == 4
    for each in found.document["descriptors"]:
        first = f"0,{16 * found.document['descriptors'].index(each)}"
        rows = ("--rows", "64", "--destinations", "0x400", "--first", first)
        assert tilewright("descriptor", each, "--map", map_file, *rows).code == 0
    none = tilewright("descriptor", *asked, "--row-bytes", "144")
    assert none.code == 1 and none.out.startswith("no descriptor means this layout")


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        ((), "no descriptor is given", "give its bits"),
        (("1e3",), "BITS '1e3' is no whole number", "0x400"),
        ((BITS, *FIELDS), "more than one descriptor", "give one"),
        (("--start", "0x400"), "--leading missing", "give it"),
        (("0x10000000000000000",), "a matrix descriptor has 64 bits", ""),
        (("0x4000404000010040",), "reserved bits are set", "a descriptor of tcgen05 has bit 46 set"),
        ((BITS, "--target", "gfx942"), "neither wgmma nor tcgen05", "choose sm_90a or sm_100a"),
        ((BITS, "--map", "missing.json"), "cannot read missing.json", "name a file of JSON"),
        ((BITS, "--map", "map.json", "--first", "1"), "--first '1' is no ROW,K", "two numbers"),
        ((BITS, "--role", "A"), "--rows missing", "give it"),
        ((BITS, "--row-bytes", "128"), "and one is given", "give one"),
        (("--row-bytes", "128", "--rows", "0"), "an operand of 0 x 16", "1 to 1024 rows"),
        (("--row-bytes", "128", "--rows", "64", "--swizzle", "48B"), "no swizzle of sm_90a", "use none, 32B"),
    ],
)
def test_what_is_refused(
    map_file: str, tilewright: Tilewright, arguments: tuple[str, ...], message: str, remedy: str
) -> None:
    answer = tilewright("descriptor", *arguments)
    assert answer.code == 2 and answer.out == "" and answer.err.count("error:") == 1
    assert message in answer.err and remedy in answer.err
