"""Compiled programs kept on disk, and what was found quickest of them: keyed by what the program means, what was
decided, for which target, by which version.

The key is a digest of the traced program (without its places in the author's files), the wanted decisions, the target,
this package's version and sources, and the assembler's version. An entry is a bundle, or a tuner's record as JSON,
written atomically; one that does not load is dropped and made again. The folder is `$TILEWRIGHT_CACHE`, else
`$XDG_CACHE_HOME/tilewright`, else `~/.cache/tilewright`; a folder that cannot be written means no cache, not an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from tilewright.base.cache_folder import cache_folder
from tilewright.base.error import TilewrightError
from tilewright.runtime.bundle import Bundle, load, save, tilewright_version


def cache_key(program_digest: str, target: str, wanted: str, assembler: str) -> str:
    """The digest that names an entry."""
    parts = "\n".join((program_digest, target, wanted, tilewright_version(), source_digest(), assembler))
    return hashlib.sha256(parts.encode()).hexdigest()[:40]


@cache
def source_digest() -> str:
    """A digest of this package's own sources, so that a checkout under development never serves what another state of
    it has made."""
    root = str(Path(__file__).resolve().parents[2])
    digest = hashlib.sha256()
    # A thousand files at every start: plain paths and reads take a quarter of the time that pathlib takes.
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            if name.endswith((".py", ".toml")):
                path = os.path.join(folder, name)
                with open(path, "rb", buffering=0) as file:
                    content = file.read()
                digest.update(f"{path[len(root) :]} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def fetch(key: str) -> Bundle | None:
    """The entry, or None. A damaged one is removed."""
    path = cache_folder() / f"{key}.twb"
    if not path.exists():
        return None
    try:
        return load(path)
    except TilewrightError:
        path.unlink(missing_ok=True)
        return None


def keep(key: str, bundle: Bundle) -> None:
    """Store an entry, if the folder can be written."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save(bundle, folder / f"{key}.twb")
    except (OSError, TilewrightError):
        return


def fetch_record(key: str) -> dict[str, Any] | None:
    """A tuner's record, or None. A damaged one is removed."""
    path = _record_path(key)
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if isinstance(found, dict):
        return cast("dict[str, Any]", found)
    path.unlink(missing_ok=True)
    return None


def keep_record(key: str, record: Mapping[str, object]) -> None:
    """Store a record, if the folder can be written."""
    path = _record_path(key)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(record), encoding="utf-8")
        os.replace(part, path)
    except OSError:
        return


def _record_path(key: str) -> Path:
    return cache_folder() / f"{key}.tuned.json"
