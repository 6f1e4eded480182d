"""The command that judges tensor maps: what it takes, what it refuses, and how it ends."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.cli.conftest import Tilewright

from tilewright.legal import Im2colMap, TensorMap, encode_map

LEGAL = ("--dtype", "bf16", "--dims", "4096,100", "--strides", "8192", "--box", "64,100", "--swizzle", "128B")
PACKED_ROWS = ("--dtype", "bf16", "--dims", "100,4096", "--strides", "200", "--box", "64,128", "--swizzle", "128B")
MAP = TensorMap("bf16", (4096, 100), (8192,), (64, 100), swizzle="128B", address=0x10000)
ENTRY = {"dtype": "bf16", "dims": [4096, 100], "strides": [8192], "box": [64, 100], "swizzle": "128B"}


def codes(document: dict[str, list[dict[str, list[dict[str, str]]]]], index: int = 0) -> list[str]:
    return [each["code"] for each in document["maps"][index]["violations"]]


def test_a_legal_map(tilewright: Tilewright) -> None:
    answer = tilewright("tensormap", *LEGAL)
    assert answer.code == 0 and "legal on sm_90a" in answer.out
    assert "12800 bytes on the barrier, 12800 bytes of shared memory" in answer.out


def test_an_illegal_map_is_told_with_value_limit_source_and_repairs(tilewright: Tilewright) -> None:
    answer = tilewright("tensormap", *PACKED_ROWS)
    assert answer.code == 1
    for words in ("TM012", "200", "limit 16", "cuTensorMapEncodeTiled: globalStrides", "to fix it, change strides[0]",
                  "1. pad the row stride from 200 to 208 bytes", "32760 bytes of padding"):  # fmt: skip
        assert words in answer.out


def test_a_plan_is_written_out_and_can_be_pasted(tilewright: Tilewright) -> None:
    answer = tilewright("tensormap", *PACKED_ROWS, "--synthesize", "--format", "json")
    assert answer.code == 0
    (entry,) = answer.document["maps"]
    assert not entry["legal"] and entry["repairs"][0]["maps"][0]["strides"] == [208]
    assert all(each["checked"] for each in entry["repairs"])


def test_what_may_not_change_is_kept(tilewright: Tilewright) -> None:
    free = tilewright("tensormap", *PACKED_ROWS, "--synthesize", "--format", "json").document["maps"][0]["repairs"]
    kept = tilewright(
        "tensormap", *PACKED_ROWS, "--synthesize", "--keep", "strides", "--no-copy", "--format", "json"
    ).document["maps"][0]["repairs"]
    assert {"pad", "copy"} <= {each["kind"] for each in free}
    assert not {"pad", "copy"} & {each["kind"] for each in kept}


def test_what_a_step_needs_is_delivered(tilewright: Tilewright) -> None:
    """512 rows are two copies of 256, and 512 again where the rows may be halved."""
    answer = tilewright("tensormap", *LEGAL, "--want-box", "64,512", "--consumer", "wgmma", "--synthesize",
                        "--format", "json")  # fmt: skip
    plans = answer.document["maps"][0]["repairs"]
    assert answer.code == 0 and all(plan["box"] == [64, 512] for plan in plans)
    assert "2 copies of 256" in next(plan["title"] for plan in plans if plan["kind"] == "box")


def test_what_the_encoder_answered_is_explained(tilewright: Tilewright) -> None:
    assert "earlier error of the context" in tilewright("tensormap", *LEGAL, "--error", "700").out
    assert "breaks no rule known" in tilewright("tensormap", *LEGAL, "--error", "1").out
    assert "earlier error" not in tilewright("tensormap", *PACKED_ROWS, "--error", "700").out
    misplaced = tilewright("tensormap", *LEGAL, "--map-address", "0x20")
    assert misplaced.code == 1 and "TM201" in misplaced.out
    assert "128 bytes from CUDA 13.0 on" in tilewright("tensormap", *LEGAL, "--map-address", "0x40").out


def test_a_null_address_is_remarked_where_it_is_stated(tilewright: Tilewright) -> None:
    assert "address is null" in tilewright("tensormap", *LEGAL, "--address", "0").out
    assert "address is null" not in tilewright("tensormap", *LEGAL).out


def test_swapped_dimensions_are_noticed(tilewright: Tilewright) -> None:
    answer = tilewright(
        "tensormap", "--dtype", "bf16", "--dims", "4096,100", "--strides", "200", "--box", "64,128", "--swizzle", "128B"
    )
    assert answer.code == 1 and "dimensions are innermost first" in answer.out and "100,4096" in answer.out
    assert "innermost first" not in tilewright("tensormap", *PACKED_ROWS).out


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--coords", "3,0"), "TM054"),
        (("--coords", "8,0", "--shared-address", "0x40"), "TM056"),
        (("--coords=-8,0", "--direction", "store"), "TM055"),
        (("--shared-bytes", "12799"), "TM064"),
        (("--direction", "reduce", "--reduction", "inc"), "TM060"),
        (("--mode", "tile::gather4"), "TM051"),
        (("--coords", "1,2,3"), "TM052"),
        (("--coords", f"{2**31},0"), "TM053"),
        (("--multicast", "99"), "TM059"),
    ],
)
def test_one_copy_is_judged(tilewright: Tilewright, options: tuple[str, ...], code: str) -> None:
    answer = tilewright("tensormap", *LEGAL, *options, "--format", "json")
    assert answer.code == 1 and code in codes(answer.document)
    text = tilewright("tensormap", *LEGAL, *options)
    assert "the map is legal on sm_90a, this copy is not" in text.out and "help:" in text.out


def test_a_plan_does_not_excuse_a_wrong_copy(tilewright: Tilewright) -> None:
    assert tilewright("tensormap", *LEGAL, "--coords", "3,0", "--synthesize").code == 1
    assert tilewright("tensormap", *LEGAL, "--coords", "8,0", "--synthesize").code == 0


def test_repairs_are_ones_that_the_driver_knows(tilewright: Tilewright) -> None:
    answer = tilewright("tensormap", *LEGAL, "--driver", "11.8", "--format", "json")
    assert answer.code == 1 and codes(answer.document) == ["TM019"]
    assert not any(each["maps"] for each in answer.document["maps"][0]["repairs"])


def test_sizes_that_vary(tilewright: Tilewright) -> None:
    options = ("--dtype", "bf16", "--dims", "K,M", "--strides", "2*K", "--box", "64,128")
    some = tilewright("tensormap", *options)
    assert some.code == 3 and "K % 8 == 0" in some.out and "guard: the map is legal exactly where" in some.out
    every = tilewright("tensormap", *options, "--where", "K % 8 == 0, 8 <= K <= 65536, 1 <= M <= 65536")
    assert every.code == 0 and "for all sizes as declared" in every.out
    none = tilewright("tensormap", *options, "--where", "K % 8 == 1, 1 <= M <= 65536", "--format", "json")
    assert none.code == 1 and none.document["maps"][0]["answer"] == "illegal"
    for more in (("--synthesize",), ("--coords", "0,0"), ("--want-box", "8,8")):
        refused = tilewright("tensormap", *options, *more)
        assert refused.code == 2 and "numbers" in refused.err


def test_im2col(tilewright: Tilewright) -> None:
    options = ("--dtype", "bf16", "--dims", "64,56,56,32", "--strides", "128,7168,401408", "--lower-corner=-1,-1",
               "--upper-corner=-1,-1", "--channels-per-pixel", "64", "--pixels-per-column", "128")  # fmt: skip
    legal = tilewright("tensormap", *options, "--swizzle", "128B")
    assert legal.code == 0 and "16384 bytes on the barrier" in legal.out
    # Twice the span of channels: what a user of tilelang (issue 2578) met.
    wide = tilewright("tensormap", *options, "--channels-per-pixel", "128", "--swizzle", "128B", "--format", "json")
    assert wide.code == 1 and codes(wide.document) == ["TM016"]
    assert wide.document["maps"][0]["repairs"][0]["maps"][0]["channels_per_pixel"] == 64
    later = tilewright(
        "tensormap", "--dtype", "bf16", "--dims", "64,56,56,32", "--strides", "128,7168,401408", "--lower-corner=-1",
        "--upper-corner=1", "--channels-per-pixel", "64", "--pixels-per-column", "64", "--wide-mode", "w", "--swizzle",
        "128B", "--format", "json",
    )  # fmt: skip
    assert later.code == 1 and codes(later.document) == ["TM028"]


def test_bytes_are_decoded(tilewright: Tilewright, tmp_path: Path) -> None:
    wide = Im2colMap("f16", (64, 56, 56, 32), (128, 7168, 401408), (-1, -1), (-1, -1), 64, 128, swizzle="128B")
    path = tmp_path / "maps.bin"
    path.write_bytes(encode_map(MAP) + encode_map(wide))
    answer = tilewright("tensormap", "--from-bytes", str(path))
    assert answer.code == 0
    assert "TensorMap(dtype='bf16', dims=(4096, 100), strides=(8192,), box=(64, 100), swizzle='128B'" in answer.out
    assert "= tilewright tensormap --dtype bf16 --dims 4096,100 --strides 8192" in answer.out
    assert "Im2colMap(" in answer.out and "--lower-corner=-1,-1" in answer.out


def test_bytes_of_a_wrong_map_are_told(tilewright: Tilewright, tmp_path: Path) -> None:
    """A map that was replaced on the device obeys nobody: 128 bytes of a row under a swizzle of 64."""
    path = tmp_path / "map.bin"
    path.write_bytes(encode_map(TensorMap("bf16", (64, 8), (128,), (64, 8), swizzle="64B")))
    answer = tilewright("tensormap", "--from-bytes", str(path), "--format", "json")
    assert answer.code == 1 and codes(answer.document) == ["TM016"]


def test_lists_of_json(tilewright: Tilewright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "maps.json"
    path.write_text(json.dumps([ENTRY, ENTRY | {"strides": [8200]}, ENTRY | {"dtype": 9, "swizzle": 3}]))
    answer = tilewright("tensormap", "--json", str(path), "--format", "json")
    assert answer.code == 1 and [each["legal"] for each in answer.document["maps"]] == [True, False, True]
    assert [each["index"] for each in answer.document["maps"]] == [0, 1, 2]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(json.dumps(ENTRY).encode())))
    assert tilewright("tensormap", "--json", "-").code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"dtype":"bf16","dims":[64],"strides":[],"box":[8]},{"dtype":"bf16","dims":[NaN],"strides":[],"box":[8]}]',
         "map 1: dims[0] is nan, not an integer"),
        ('{"dtype":"bf16","dims":[64,-Infinity],"strides":[128],"box":[8,4]}', "map 0: dims[1] is -inf"),
        ('{"dtype":"bf16","dims":[1e400,4],"strides":[128],"box":[8,4]}', "map 0: dims[0] is inf"),
        ('{"dtype":"bf16","dims":[64.0,4],"strides":[128],"box":[8,4]}', "map 0: dims[0] is 64.0, not an integer"),
        ('{"dtype":"bf16","dims":[true,4],"strides":[128],"box":[8,4]}', "map 0: dims[0] is True, not an integer"),
        ('{"dtype":"bf16","dims":null,"strides":[128],"box":[8,4]}', "map 0: dims is None"),
        ('{"dtype":"bf16","dims":"64,4","strides":[128],"box":[8,4]}', "map 0: dims is '64,4', not a list"),
        ('{"dtype":["bf16"],"dims":[64,4],"strides":[128],"box":[8,4]}', "map 0: dtype is"),
        ('{"dtype":"bf16","dims":[64,4],"strides":[128,1],"box":[8,4]}', "map 0: strides has 2 entries; rank 2 needs"),
        ('{"dtype":"bf16","dims":[64,4],"strides":[128]}', "map 0 lacks 'box'"),
        ('{"dtype":"bf16","dims":[64,4],"strides":[128],"box":[8,4],"swizle":"64B"}', "map 0 has no field 'swizle'"),
        ('{"dtype":"bf16","dims":[64],"dims":[64],"strides":[],"box":[8]}', "field 'dims' stands twice"),
        (f'{{"dtype":"bf16","dims":[{"9" * 5000}],"strides":[],"box":[8]}}', "a number of 5000 digits"),
        (json.dumps(ENTRY | {"dtype": "bf16" * 100_000}), "dtype has no value 'bf16bf16"),
        (json.dumps(ENTRY | {"d" * 100_000: 1}), "(100000 characters)"),
        (json.dumps(ENTRY | {"dims": [[8] * 100_000, 1]}), "map 0: dims[0] is [8, 8"),
        (json.dumps(ENTRY | {"dtype": "\x1b[31m"}), "'\\x1b[31m'"),
        ("[3]", "map 0 is a number, not an object"),
        ("[]", "holds no tensor map"),
        ("", "is no JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
    ids=range(21),
)  # fmt: skip
def test_json_that_is_no_map(tilewright: Tilewright, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "maps.json"
    path.write_text(text)
    answer = tilewright("tensormap", "--json", str(path))
    assert answer.code == 2 and answer.out == "" and answer.err.count("error:") == 1
    assert message in answer.err and len(answer.err) < 1000 and "\x1b" not in answer.err
    assert message in tilewright("tensormap", "--json", str(path), "--format", "json").document["error"]


@pytest.mark.parametrize("option", ["--from-bytes", "--json"])
def test_files_that_are_none(tilewright: Tilewright, tmp_path: Path, option: str) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    for path, message in ((tmp_path, "directory"), (tmp_path / "none", "No such file"), (huge, "more than 1048576")):
        answer = tilewright("tensormap", option, str(path))
        assert answer.code == 2 and answer.err.count("error:") == 1 and message in answer.err
    assert "null byte" in tilewright("tensormap", option, "a\0b").err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (bytes(127), "has 127 bytes"),
        (bytes(129), "has 129 bytes"),
        (bytes(128), "all 128 bytes are zero"),
        (b"\xff" * 128, "no tensor map"),
        (encode_map(MAP) + bytes(128), "byte 128"),
    ],
)
def test_bytes_that_are_no_map(tilewright: Tilewright, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "map.bin"
    path.write_bytes(content)
    answer = tilewright("tensormap", "--from-bytes", str(path))
    assert answer.code == 2 and answer.out == "" and answer.err.count("error:") == 1 and message in answer.err


def test_noise_is_no_map(tilewright: Tilewright, tmp_path: Path) -> None:
    """Half of the format's bits are 0 in every map, so that noise is told from maps."""
    noise = np.random.default_rng(5).integers(0, 256, (40, 128), dtype=np.uint8)
    for index, row in enumerate(noise):
        path = tmp_path / f"{index}.bin"
        path.write_bytes(row.tobytes())
        answer = tilewright("tensormap", "--from-bytes", str(path))
        assert answer.code == 2 and answer.err.count("error:") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--dtype and --dims and --box missing"),
        (("--dims", "3"), "--dtype and --box missing"),
        (("--dtype", "bf16", "--dims", "64,4", "--box", "8,4"), "--strides missing"),
        (("--dtype", "bf15", "--dims", "64", "--box", "8"), "did you mean 'bf16'"),
        (("--dtype", "bf16", "--dims", "64,,4", "--strides", "128", "--box", "8,4"), "empty entry"),
        (("--dtype", "bf16", "--dims", "nan,4", "--strides", "128", "--box", "8,4"), "nan is no integer"),
        (("--dtype", "bf16", "--dims", "64", "--box", "9" * 400), "400 digits"),
        (("--dtype", "bf16", "--dims", "64,4", "--strides", "1.5", "--box", "8,4"), "no part of an expression"),
        (("--dtype", "bf16", "--dims", "64,4", "--strides", "128,9", "--box", "8,4"), "strides has 2 entries"),
        (("--dtype", "bf16", "--dims", "64", "--box", "8", "--json", "x.json"), "more than one source"),
        (("--from-bytes", "a", "--json", "b"), "more than one source"),
        ((*LEGAL, "--target", "sm_80"), "unknown target"),
        ((*LEGAL, "--driver", "new"), "--driver"),
        ((*LEGAL, "--driver", "0.0"), "not understood"),
        ((*LEGAL, "--keep", "shape"), "no field 'shape'"),
        ((*LEGAL, "--consumer", "mma"), "unknown consumer"),
        ((*LEGAL, "--mode", "tiles"), "mode has no value"),
        ((*LEGAL, "--coords", "x,0"), "'x' is no number"),
        ((*LEGAL, "--shared-address", "0,0"), "not one number"),
        ((*LEGAL, "--want-box", "8", "--synthesize"), "the wanted box has 1 entries"),
        ((*LEGAL, "--where", "K %"), "where an expression belongs"),
        ((*LEGAL, "--lower-corner", "0,0"), "no box"),
    ],
)
def test_options_that_are_no_map(tilewright: Tilewright, options: tuple[str, ...], message: str) -> None:
    answer = tilewright("tensormap", *options)
    assert answer.code == 2 and answer.out == "" and answer.err.count("error:") == 1 and message in answer.err


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("dims", "strides", "box", "code"),
    [
        ([], [], [], "TM007"),
        ([8] * 6, [16] * 5, [8] * 6, "TM007"),
        ([8] * 1000, [16] * 999, [8] * 1000, "TM007"),
        ([8] * 20000, [16] * 19999, [8] * 20000, "TM007"),
        ([0, 0], [0], [0, 0], "TM011"),
        ([-1, 5], [-16], [8, 4], "TM011"),
        ([2**64, 5], [2**64], [8, 4], "TM011"),
        ([2**200, 5], [2**200], [2**200, 4], "TM014"),
    ],
)
def test_absurd_numbers_are_illegal_and_no_more(
    tilewright: Tilewright, dims: list[int], strides: list[int], box: list[int], code: str
) -> None:
    options = (f"--{name}={','.join(map(str, values))}" for name, values in
               (("dims", dims), ("strides", strides), ("box", box)))  # fmt: skip
    given = ("--dtype", "bf16", *options)
    answer = tilewright("tensormap", *given, "--format", "json")
    assert answer.code == 1 and code in codes(answer.document)
    assert tilewright("tensormap", *given).code == 1
    assert tilewright("tensormap", *given, "--synthesize").code in (0, 1)


def test_channels_and_pixels_are_numbers_like_others(tilewright: Tilewright) -> None:
    given = ("--dtype", "bf16", "--dims", "64,8,8,2", "--strides", "128,1024,8192", "--lower-corner=0,0",
             "--upper-corner=0,0", "--channels-per-pixel")  # fmt: skip
    assert tilewright("tensormap", *given, "0x40", "--pixels-per-column", "64").code == 0
    for text in ("x", "1,2", "", "9" * 5000):
        answer = tilewright("tensormap", *given, text, "--pixels-per-column", "64")
        assert answer.code == 2 and answer.err.count("error:") == 1 and "--channels-per-pixel" in answer.err
