"""Has this question been answered before, in this process or in an earlier one?

Two levels: a bounded table in memory that keeps the answers themselves, least recently used dropped first, and a file
of JSON texts in SQLite below the user's cache folder (`$TILEWRIGHT_CACHE`, else `$XDG_CACHE_HOME/tilewright`, else
`~/.cache/tilewright`). An entry of the file belongs to one version: a digest of this package's version, of its target
tables and of its sources, so that no answer outlives the rules that gave it.

The file is a convenience: absent, unwritable, locked or damaged, it is done without (a damaged one is replaced), and no
question fails for it. It is not trusted either: it holds JSON, never code, and `decode` refuses what it does not
accept, and checks anew what an answer claims. Not handled: answers of more than `_ANSWER_BYTES_MAX`, which stay in
memory. Checked by tests/solve/test_memo.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from threading import RLock
from typing import Generic, TypeVar

from tilewright.base.cache_folder import cache_folder

Answer = TypeVar("Answer")

_FILE = "memo.sqlite3"
_BUSY_MILLISECONDS = 50
"""How long another process may hold the file before an access is given up."""
_ROWS_MAX = 100_000
_ROWS_KEPT = 50_000
_ANSWER_BYTES_MAX = 1 << 20
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS answers (number INTEGER PRIMARY KEY, kind TEXT, version TEXT, question TEXT,"
    " answer TEXT, UNIQUE (kind, version, question))"
)


class Memo(Generic[Answer]):
    """Answers to one kind of question, by the question's canonical text."""

    def __init__(
        self,
        kind: str,
        encode: Callable[[Answer], object],
        decode: Callable[[object], Answer | None],
        *,
        entries: int = 4096,
        on_disk: bool = True,
    ) -> None:
        """kind: of question, apart from all others in the file; encode: an answer as JSON values; decode: the answer,
        or None for what is none; entries: kept in memory."""
        self.kind = kind
        self.encode = encode
        self.decode = decode
        self.entries = entries
        self.on_disk = on_disk
        self.known: OrderedDict[str, Answer] = OrderedDict()
        self.lock = RLock()

    def get(self, question: str) -> Answer | None:
        """The answer kept, or None."""
        with self.lock:
            found = self.known.get(question)
            if found is not None:
                self.known.move_to_end(question)
                return found
        if not self.on_disk:
            return None
        text = _FILES.read(self.kind, question)
        if text is None:
            return None
        try:
            answer = self.decode(json.loads(text))
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):
            return None
        if answer is not None:
            self._remember(question, answer)
        return answer

    def put(self, question: str, answer: Answer) -> None:
        """Keep `answer`, on disk where that is possible."""
        self._remember(question, answer)
        if self.on_disk:
            text = json.dumps(self.encode(answer), allow_nan=False, separators=(",", ":"))
            if len(text) <= _ANSWER_BYTES_MAX:
                _FILES.write(self.kind, question, text)

    def ask(self, question: str, compute: Callable[[], Answer]) -> Answer:
        """The answer kept, or what `compute` answers, kept from then on."""
        answer = self.get(question)
        if answer is None:
            answer = compute()
            self.put(question, answer)
        return answer

    def forget(self) -> None:
        """Empty the memory; the file stays."""
        with self.lock:
            self.known.clear()

    def _remember(self, question: str, answer: Answer) -> None:
        with self.lock:
            self.known[question] = answer
            self.known.move_to_end(question)
            if len(self.known) > self.entries:
                self.known.popitem(last=False)


@cache
def memo_version() -> str:
    """A digest of the package's version, its target tables by content, and its sources by name, size and time."""
    try:
        installed = metadata.version("tilewright")
    except metadata.PackageNotFoundError:
        installed = "source"
    digest = hashlib.sha256(installed.encode())
    root = Path(__file__).resolve().parent.parent
    for path in sorted(root.rglob("*")):
        if path.suffix == ".toml":
            digest.update(path.name.encode() + path.read_bytes())
        elif path.suffix == ".py":
            stat = path.stat()
            digest.update(f"{path.relative_to(root)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]


class _Files:
    """Connections to the file, one for each folder and process; a folder whose file cannot be used has None."""

    def __init__(self) -> None:
        self.open: dict[tuple[Path, int], sqlite3.Connection | None] = {}
        self.lock = RLock()

    def read(self, kind: str, question: str) -> str | None:
        with self.lock:
            rows = self._run(
                "SELECT answer FROM answers WHERE kind = ? AND version = ? AND question = ?",
                (kind, memo_version(), question),
            )
        # The file's types are its own: a damaged row may hold anything.
        return rows[0][0] if rows and isinstance(rows[0][0], str) else None

    def write(self, kind: str, question: str, answer: str) -> None:
        with self.lock:
            self._run(
                "INSERT OR REPLACE INTO answers (kind, version, question, answer) VALUES (?, ?, ?, ?)",
                (kind, memo_version(), question, answer),
            )

    def close(self) -> None:
        """Close every connection of this process; the next question opens its own."""
        with self.lock:
            for (_, process), connection in self.open.items():
                if connection is not None and process == os.getpid():
                    connection.close()
            self.open.clear()

    def _run(self, statement: str, values: tuple[str, ...]) -> list[tuple[object, ...]]:
        # A connection that a fork inherited belongs to the parent.
        place = (cache_folder(), os.getpid())
        for _ in range(2):
            if place not in self.open:
                self.open[place] = _opened(place[0])
            connection = self.open[place]
            if connection is None:
                return []
            try:
                return connection.execute(statement, values).fetchall()
            except (sqlite3.DatabaseError, UnicodeError, OverflowError) as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                    return []
                connection.close()
                del self.open[place]
                if not _removed(place[0]):
                    self.open[place] = None
        return []


def _opened(folder: Path) -> sqlite3.Connection | None:
    """A connection to the file in `folder`, made where there is none; None where that is not possible."""
    for _ in range(2):
        connection = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                folder / _FILE, timeout=_BUSY_MILLISECONDS / 1000, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA journal_mode = WAL")
            # A crash of the machine may lose the last answers, which is no loss.
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(_SCHEMA)
            _prune(connection)
            return connection
        except (OSError, sqlite3.DatabaseError) as error:
            if connection is not None:
                connection.close()
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED or not _removed(folder):
                return None
    return None


def _prune(connection: sqlite3.Connection) -> None:
    """Drop the oldest rows of a file that has grown too long, whatever their version."""
    (last,) = connection.execute("SELECT max(number) FROM answers").fetchone()
    (count,) = connection.execute("SELECT count(*) FROM answers").fetchone() if last else (0,)
    if count > _ROWS_MAX:
        connection.execute(
            "DELETE FROM answers WHERE number NOT IN (SELECT number FROM answers ORDER BY number DESC LIMIT ?)",
            (_ROWS_KEPT,),
        )


def _removed(folder: Path) -> bool:
    """Remove a damaged file; another process may have it open and keeps its own."""
    try:
        for suffix in ("", "-wal", "-shm"):
            (folder / (_FILE + suffix)).unlink(missing_ok=True)
    except OSError:
        return False
    return True


_FILES = _Files()
