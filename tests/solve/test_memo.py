"""The memo: hits, versions, damage, several processes; nothing about the file may make a question fail."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import time

import pytest

from tilewright.base.cache_folder import cache_folder
from tilewright.solve import memo as module
from tilewright.solve.memo import Memo


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_FILES", module._Files())
    yield tmp_path / "cache"
    module._FILES.close()


def numbers(**options):
    return Memo[int](
        "numbers", lambda answer: answer, lambda found: found if isinstance(found, int) else None, **options
    )


def file_of(folder):
    return folder / "memo.sqlite3"


def test_an_answer_is_computed_once_and_outlives_the_process(folder):
    calls = []

    def compute():
        calls.append(1)
        return 7

    first = numbers()
    assert first.ask("six plus one", compute) == 7 == first.ask("six plus one", compute)
    assert numbers().ask("six plus one", compute) == 7
    assert len(calls) == 1
    assert numbers().get("another") is None
    other = Memo[int]("others", lambda answer: answer, lambda found: int(str(found)))
    assert other.get("six plus one") is None
    assert cache_folder() == folder and file_of(folder).exists()


def test_another_version_does_not_see_it(monkeypatch):
    numbers().put("q", 1)
    monkeypatch.setattr(module, "memo_version", lambda: "another")
    assert numbers().get("q") is None
    numbers().put("q", 2)
    monkeypatch.undo()


def test_the_least_recently_used_leaves_memory():
    memo = numbers(entries=2, on_disk=False)
    memo.put("a", 1)
    memo.put("b", 2)
    assert memo.get("a") == 1
    memo.put("c", 3)
    assert memo.get("b") is None and memo.get("a") == 1 and memo.get("c") == 3


@pytest.mark.parametrize("damage", [b"", b"not a database at all" * 99, None])
def test_a_damaged_file_is_replaced(folder, damage):
    numbers().put("q", 1)
    module._FILES.close()
    if damage is None:
        content = bytearray(file_of(folder).read_bytes())
        content[100:] = os.urandom(len(content) - 100)
        damage = bytes(content)
    file_of(folder).write_bytes(damage)
    memo = numbers()
    assert memo.get("q") is None
    memo.put("q", 2)
    assert numbers().get("q") == 2


@pytest.mark.parametrize("answer", ["", "{", '"seven"', "[1]", "null", "NaN", "[" * 100_000, None, b"\xff", 3.5])
def test_what_is_no_answer_is_refused(folder, answer):
    numbers().put("q", 1)
    with sqlite3.connect(file_of(folder)) as connection:
        connection.execute("UPDATE answers SET answer = ?", (answer,))
    assert numbers().get("q") is None


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "file" / "below"))
    memo = numbers()
    memo.put("q", 1)
    assert memo.get("q") == 1 and numbers().get("q") is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_file_that_is_read_only(folder):
    numbers().put("q", 1)
    module._FILES.close()
    file_of(folder).chmod(stat.S_IRUSR)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    memo = numbers()
    memo.put("r", 2)
    assert memo.get("r") == 2
    folder.chmod(stat.S_IRWXU)


def test_a_locked_file_costs_little_and_fails_nothing(folder):
    numbers().put("q", 1)
    with sqlite3.connect(file_of(folder), isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        memo = numbers()
        began = time.perf_counter()
        memo.put("r", 2)
        assert memo.get("r") == 2
        assert time.perf_counter() - began < 2
        other.execute("ROLLBACK")


WRITER = """
import sys
from tilewright.solve.memo import Memo
memo = Memo[int]("numbers", lambda answer: answer, lambda found: found if isinstance(found, int) else None)
for i in range(50):
    memo.put(f"{sys.argv[1]} {i}", i)
    memo.put("shared", 5)
"""


def test_processes_write_at_once(folder):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(number)]) for number in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    memo = numbers()
    found = [memo.get(f"{number} {i}") for number in range(3) for i in range(50)]
    # A writer gives up rather than wait, so how many are kept depends on luck; whatever is kept is right.
    assert all(value in (None, i % 50) for i, value in enumerate(found)) and memo.get("shared") in (None, 5)
    memo.put("afterwards", 6)
    assert memo.get("afterwards") == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_opens_its_own_connection():
    memo = numbers()
    memo.put("q", 1)
    child = os.fork()
    if child == 0:
        memo.forget()
        os._exit(0 if memo.get("q") == 1 and len(module._FILES.open) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_old_file_is_pruned(folder, monkeypatch):
    monkeypatch.setattr(module, "_ROWS_MAX", 20)
    monkeypatch.setattr(module, "_ROWS_KEPT", 5)
    memo = numbers()
    for i in range(30):
        memo.put(str(i), i)
    module._FILES.close()
    fresh = numbers()
    assert fresh.get("29") == 29 and fresh.get("24") is None


def test_values_are_json(folder):
    memo = Memo[tuple[int, ...]]("tuples", list, lambda found: tuple(found) if isinstance(found, list) else None)
    memo.put("q", (1, 2**70))
    memo.forget()
    assert memo.get("q") == (1, 2**70)
    with sqlite3.connect(file_of(folder)) as connection:
        assert json.loads(connection.execute("SELECT answer FROM answers").fetchone()[0]) == [1, 2**70]
