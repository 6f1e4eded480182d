"""Compiled programs on disk: many writers at once, damage, folders that cannot be written, and what makes a key."""

from __future__ import annotations

import multiprocessing

import pytest

from tilewright.base.element import Element
from tilewright.base.plan import Buffer, Launch, LaunchPlan, PointerParam
from tilewright.driver.compile import cache
from tilewright.runtime.bundle import Bundle

X = Buffer("x", Element.F32, (4,), (1,), "output")
BUNDLE = Bundle(
    "k", "sm_90a", LaunchPlan((X,), (Launch("k", (1, 1, 1), (32, 1, 1), (PointerParam("x"),)),)), ptx="//\n"
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "programs"))
    return tmp_path / "programs"


def write_and_read(turns):
    for _ in range(turns):
        cache.keep("key", BUNDLE)
        found = cache.fetch("key")
        if found is None or found.ptx != BUNDLE.ptx:
            return False
    return True


def test_many_processes_write_and_read_one_entry(folder):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert all(pool.map(write_and_read, [20] * 6))
    assert [path.name for path in folder.iterdir()] == ["key.twb"], "nothing half written is left"


def test_a_damaged_entry_is_made_again(folder):
    cache.keep("key", BUNDLE)
    path = folder / "key.twb"
    path.write_bytes(path.read_bytes()[:-30])
    assert cache.fetch("key") is None and not path.exists()
    cache.keep("key", BUNDLE)
    assert cache.fetch("key") is not None


def test_a_folder_that_cannot_be_written_is_no_error(folder):
    folder.write_text("a file where the folder should be")
    cache.keep("key", BUNDLE)
    assert cache.fetch("key") is None


def test_what_makes_a_key(monkeypatch):
    parts = ["program", "sm_90a", "Wanted()", "ptxas 12.9"]
    one = cache.cache_key(*parts)
    assert one == cache.cache_key(*parts)
    for place in range(len(parts)):
        assert cache.cache_key(*[part + "'" * (place == index) for index, part in enumerate(parts)]) != one
    monkeypatch.setattr(cache, "source_digest", lambda: "other sources")
    assert cache.cache_key(*parts) != one, "a compiler that was changed decides anew"
