"""Which reports were made before of the very same input? Kept on disk, by a digest of all that decides them.

The key is the whole text, its path (which stands in places), the TTGIR beside it, the program's files that it names,
the launches with their buffers' bytes, every option that a verdict depends on, the packages that are installed, and
this package's sources, its version among them. A report that a limit in seconds ended is not kept, nor one with a
defect of this program, nor one with a timeline. An entry is JSON, written atomically; one that cannot be read is made
again. A folder that cannot be written means no cache, not an error. The folder is that of compiled programs
(`compile.cache`), `checks/` in it. Checked by: tests/driver/check/test_result_cache.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from tilewright.base.check_report import FileReport
from tilewright.base.record_json import from_json, to_json
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.check.sources.source_text import SourceFiles
from tilewright.driver.compile.cache import cache_folder, source_digest
from tilewright.driver.launch.given_launch import LaunchFile

_NAMED_FILES = re.compile(r'(?:\.file\s+\d+\s+|loc\()"([^"\n]+)"')
"""The program's files, as PTX and MLIR name them."""
ENTRIES_MOST = 4096
"""Beyond this, the entries that were used longest ago are removed."""


def result_key(
    text: str, path: str, launches: Sequence[LaunchFile], options: CheckOptions, *, alone: bool = False
) -> str:
    """The digest that names the report of `text` under these launches and options. alone: the one kernel that is
    launched is checked, and no other."""
    digest = hashlib.sha256()
    for beside in _beside(text, path, options.source_roots):
        digest.update(f"{len(beside)}:{beside}\n".encode("utf-8", "surrogateescape"))
    plain = replace(options, progress=None, launches=())
    for part in (source_digest(), repr(_packages()), path, text, repr(plain), repr(alone)):
        digest.update(f"{len(part)}:{part}\n".encode("utf-8", "surrogateescape"))
    for launch in launches:
        digest.update(repr(replace(launch, contents=())).encode("utf-8", "surrogateescape"))
        for held in launch.contents:
            import numpy as np  # which most reports that were kept are shown without

            data = np.ascontiguousarray(held.data)
            digest.update(f"{held.name} {data.dtype} {data.shape} {held.known}\n".encode())
            digest.update(data.tobytes())
    return digest.hexdigest()


@cache
def _packages() -> tuple[str, ...]:
    """What is installed beside this package, by name and version, as the names of folders say it: a question that no
    solver answered may have an answer with one. (To load `importlib.metadata` takes longer than to look.)"""
    found: set[str] = set()
    for folder in sys.path:
        with suppress(OSError):
            found.update(name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info")))
    return tuple(sorted(found))


def _beside(text: str, path: str, source_roots: Sequence[str]) -> Iterator[str]:
    """What a report says beside the text: the TTGIR next to it, and the program's files that are at hand."""
    try:
        yield Path(path).with_suffix(".ttgir").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        yield ""
    sources = SourceFiles(path, source_roots)
    for name in dict.fromkeys(_NAMED_FILES.findall(text)):
        yield "\n".join(sources.lines(name))


def fetch(key: str, text: str) -> FileReport | None:
    """The report that was kept, with the text that it is of; None where there is none."""
    path = cache_folder() / "checks" / f"{key}.json"
    try:
        report = from_json(FileReport, json.loads(path.read_bytes()))
        os.utime(path)
    except (OSError, ValueError, RecursionError):
        return None
    return replace(report, text=text)


def keep(key: str, report: FileReport) -> None:
    """Store a report, if it is one that the same input always has and the folder can be written."""
    if report.error or report.notes or any(each.stopped or each.defect or each.timeline for each in report.kernels):
        return
    folder = cache_folder() / "checks"
    temporary = folder / f".{secrets.token_hex(8)}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(to_json(replace(report, text=""))), encoding="utf-8")
        os.replace(temporary, folder / f"{key}.json")
        _remove_oldest(folder)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _remove_oldest(folder: os.PathLike[str]) -> None:
    entries = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
    if len(entries) <= ENTRIES_MOST:
        return
    by_use = sorted(entries, key=lambda entry: entry.stat().st_mtime)
    for entry in by_use[: len(entries) - ENTRIES_MOST * 3 // 4]:
        os.unlink(entry.path)
