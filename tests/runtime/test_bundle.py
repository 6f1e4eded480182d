"""A bundle is read back whole, or refused with its name: never half, never as something else."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer, Launch, LaunchPlan, PointerParam
from tilewright.runtime import bundle as bundles
from tilewright.runtime.bundle import Bundle, from_bytes, load, save, to_bytes

BUNDLE = Bundle(
    name="vadd",
    target="sm_90a",
    plan=LaunchPlan(
        (Buffer("x", Element.F32, (8,), (1,), "input"),),
        (Launch("vadd", (1, 1, 1), (8, 1, 1), (PointerParam("x"),)),),
    ),
    ptx=".version 8.0\n.target sm_90a\n// é\n",
    cubin=bytes(range(256)) * 8,
    facts={"verdict": "proven", "registers": 12},
    decisions={"stages": [1, 2.5, None, True]},
    tilewright_version="0.1",
)


def test_a_bundle_read_back_equals_the_bundle_saved(tmp_path: Path) -> None:
    path = save(BUNDLE, tmp_path / "vadd.twb")
    assert load(path) == BUNDLE
    assert os.listdir(tmp_path) == ["vadd.twb"]
    without_cubin = dataclasses.replace(BUNDLE, cubin=None)
    assert from_bytes(to_bytes(without_cubin)) == without_cubin


def test_equal_bundles_give_equal_bytes() -> None:
    assert to_bytes(BUNDLE) == to_bytes(BUNDLE)


def test_every_truncation_is_refused() -> None:
    content = to_bytes(BUNDLE)
    for length in range(len(content)):
        with pytest.raises(TilewrightError, match=r"^cut\.twb "):
            from_bytes(content[:length], name="cut.twb")


@given(st.data())
def test_a_flipped_byte_changes_nothing_or_is_refused(data: st.DataObject) -> None:
    content = bytearray(to_bytes(BUNDLE))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        read = from_bytes(bytes(content), name="flipped.twb")
    except TilewrightError as error:
        assert error.message.startswith("flipped.twb ")
        assert error.remedy
    else:
        assert read == BUNDLE


@given(st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06"]), st.binary(max_size=200))
def test_foreign_bytes_are_refused(head: bytes, tail: bytes) -> None:
    with pytest.raises(TilewrightError):
        from_bytes(head + tail)


def test_a_foreign_zip_is_refused() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("manifest.json", "{}")
    with pytest.raises(TilewrightError, match="no Tilewright bundle"):
        from_bytes(archive.getvalue())


def rewritten(edit: Callable[[dict[str, Any]], object], extra: dict[str, bytes] | None = None) -> bytes:
    """A bundle with an edited manifest whose hashes are right."""
    with zipfile.ZipFile(io.BytesIO(to_bytes(BUNDLE))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["manifest.json"])
    edit(document)
    members["manifest.json"] = json.dumps(document).encode()
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        for name, content in {**members, **(extra or {})}.items():
            archive.writestr(name, content)
        archive.comment = b"tilewright bundle " + hashlib.sha256(members["manifest.json"]).hexdigest().encode()
    return output.getvalue()


def test_the_rewriter_itself_writes_good_bundles() -> None:
    assert from_bytes(rewritten(lambda document: None)) == BUNDLE


def test_a_newer_format_is_refused_even_with_members_unknown_here() -> None:
    def newer(document: dict[str, Any]) -> None:
        document.update(format=2, tilewright_version="7.0")
        document["sha256"]["extra.bin"] = hashlib.sha256(b"x").hexdigest()

    with pytest.raises(TilewrightError, match=r"format 2, written by Tilewright 7\.0.*upgrade Tilewright"):
        from_bytes(rewritten(newer, {"extra.bin": b"x"}))


@pytest.mark.parametrize(
    "edit",
    [
        lambda document: document.pop("facts"),
        lambda document: document.update(surprise=1),
        lambda document: document.update(format="1"),
        lambda document: document.update(facts=[]),
        lambda document: document.update(target=90),
        lambda document: document["plan"].pop("launches"),
        lambda document: document["sha256"].pop("kernel.cubin"),
        lambda document: document["sha256"].update({"kernel.ptx": "0" * 64}),
    ],
)
def test_a_manifest_with_another_shape_is_refused(edit: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(TilewrightError, match=r"^odd\.twb"):
        from_bytes(rewritten(edit), name="odd.twb")


def test_an_unlisted_member_is_refused() -> None:
    with pytest.raises(TilewrightError, match=r"evil\.so"):
        from_bytes(rewritten(lambda document: None, {"evil.so": b""}))


def test_facts_that_are_not_json_are_refused() -> None:
    for value in (object(), float("nan")):
        with pytest.raises(TilewrightError, match="not JSON"):
            to_bytes(dataclasses.replace(BUNDLE, facts={"x": value}))


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(BUNDLE, tmp_path / "vadd.twb")

    def full_disk(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundles.os, "fsync", full_disk)
    with pytest.raises(TilewrightError, match="No space left"):
        save(dataclasses.replace(BUNDLE, name="other"), path)
    assert os.listdir(tmp_path) == ["vadd.twb"]
    assert load(path) == BUNDLE


def test_missing_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match=r"cannot read .*nothing"):
        load(tmp_path / "nothing.twb")
    with pytest.raises(TilewrightError, match=r"cannot write .*absent"):
        save(BUNDLE, tmp_path / "absent" / "vadd.twb")
