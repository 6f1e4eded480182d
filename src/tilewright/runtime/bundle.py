"""A compiled program in one file (`.twb`): what is in it, how it is written, and how a bad one is recognised.

A bundle is a ZIP archive of `manifest.json`, `kernel.ptx` and, where an assembler was at hand, `kernel.cubin`. The
manifest carries the format version, the target, the launch plan, facts and decisions of the compiler, and the SHA-256
of every other member; the archive's comment carries the SHA-256 of the manifest. Loading needs all of that to agree.

It is not a signature: whoever writes a file can write its hashes. A bundle holds machine code; load it only from where
you would run a program from.
Checked by: tests/runtime/test_bundle.py, which cuts and flips bytes of a good bundle.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tilewright.base.error import TilewrightError
from tilewright.base.plan import LaunchPlan
from tilewright.base.plan_json import plan_from_json, plan_to_json

BUNDLE_FORMAT = 1
_MANIFEST, _PTX, _CUBIN = "manifest.json", "kernel.ptx", "kernel.cubin"
_COMMENT = b"tilewright bundle "
_REBUILD = "compile the program again"
_BYTES_MAX = 256 << 20
"""No kernel is as large, and a device may never end."""
_MEMBER_LIMIT_BYTES = 1 << 30
# A fixed date makes equal bundles equal files.
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A compiled program."""

    name: str
    target: str
    plan: LaunchPlan
    ptx: str
    cubin: bytes | None = None
    """None where none was assembled: the driver then compiles the PTX when loading."""
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    """What was proved or measured of the program, as JSON."""
    decisions: Mapping[str, object] = field(default_factory=dict[str, object])
    """What the compiler chose, as JSON."""
    tilewright_version: str = ""


def tilewright_version() -> str:
    """The installed version, or `source` when run from a checkout that is not installed."""
    import importlib.metadata  # which loads more than all else here, and few ask

    try:
        return importlib.metadata.version("tilewright")
    except importlib.metadata.PackageNotFoundError:
        return "source"


def save(bundle: Bundle, path: str | os.PathLike[str]) -> Path:
    """Write `bundle` to `path`, whole or not at all, and return the path.

    Raises TilewrightError: the folder is missing or not writable; facts or decisions are not JSON.
    """
    target = Path(path)
    content = to_bytes(bundle)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise TilewrightError(
            f"cannot write {target}: {error.strerror}", remedy="choose an existing folder that you may write to"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return target


def to_bytes(bundle: Bundle) -> bytes:
    """The bundle as the bytes of a `.twb` file. Equal bundles give equal bytes."""
    members = {_PTX: bundle.ptx.encode("utf-8")}
    if bundle.cubin is not None:
        members[_CUBIN] = bundle.cubin
    document = {
        "format": BUNDLE_FORMAT,
        "tilewright_version": bundle.tilewright_version or tilewright_version(),
        "name": bundle.name,
        "target": bundle.target,
        "plan": plan_to_json(bundle.plan),
        "facts": dict(bundle.facts),
        "decisions": dict(bundle.decisions),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
    }
    try:
        manifest = json.dumps(document, indent=1, sort_keys=True, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise TilewrightError(
            f"the facts or decisions of {bundle.name} are not JSON: {error}",
            remedy="use only dicts, lists, strings, finite numbers, booleans and None",
        ) from error
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {_MANIFEST: manifest, **members}.items():
            information = zipfile.ZipInfo(name, _ZIP_DATE)
            information.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(information, content)
        file.comment = _COMMENT + hashlib.sha256(manifest).hexdigest().encode()
    return archive.getvalue()


def load(path: str | os.PathLike[str]) -> Bundle:
    """Read the bundle at `path`.

    Raises TilewrightError, naming the file: it is missing, truncated, corrupt, no bundle at all, or written by a newer
    Tilewright.
    """
    source = Path(path)
    try:
        with source.open("rb") as stream:
            content = stream.read(_BYTES_MAX + 1)
    except OSError as error:
        raise TilewrightError(f"cannot read {source}: {error.strerror}", remedy="name a .twb file") from error
    if len(content) > _BYTES_MAX:
        raise TilewrightError(f"{source} has more than {_BYTES_MAX >> 20} MiB", remedy="name a .twb file")
    return from_bytes(content, name=str(source))


def from_bytes(content: bytes, *, name: str = "<bundle>") -> Bundle:
    """The bundle in the bytes of a `.twb` file. `name` is shown in errors. Raises as `load` does."""
    members, comment = _unzip(content, name)
    manifest = members.pop(_MANIFEST)
    if comment != _COMMENT + hashlib.sha256(manifest).hexdigest().encode():
        raise _corrupt(name, f"{_MANIFEST} does not match its hash")
    document = _parse_manifest(manifest, name)
    hashes = _object(document, "sha256", name)
    if hashes.keys() != members.keys() or members.keys() - {_PTX, _CUBIN}:
        raise _corrupt(name, f"holds {sorted(members)} where its manifest lists {sorted(hashes)}")
    for member, stored in members.items():
        if hashlib.sha256(stored).hexdigest() != hashes[member]:
            raise _corrupt(name, f"{member} does not match its hash")
    if _PTX not in members:
        raise _corrupt(name, f"holds no {_PTX}")
    try:
        ptx = members[_PTX].decode("utf-8")
    except UnicodeDecodeError as error:
        raise _corrupt(name, f"{_PTX} is not UTF-8") from error
    return Bundle(
        name=_string(document, "name", name),
        target=_string(document, "target", name),
        plan=plan_from_json(document["plan"], where=f"{name}: plan"),
        ptx=ptx,
        cubin=members.get(_CUBIN),
        facts=_object(document, "facts", name),
        decisions=_object(document, "decisions", name),
        tilewright_version=_string(document, "tilewright_version", name),
    )


def _unzip(content: bytes, name: str) -> tuple[dict[str, bytes], bytes]:
    if not content.startswith(b"PK\x03\x04"):
        raise TilewrightError(f"{name} is no Tilewright bundle", remedy="name a .twb file")
    members: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if _MANIFEST not in archive.namelist() or not archive.comment.startswith(_COMMENT):
                raise TilewrightError(f"{name} is a ZIP archive but no Tilewright bundle", remedy="name a .twb file")
            for information in archive.infolist():
                if information.filename in members:
                    raise _corrupt(name, f"holds {information.filename!r} twice")
                if information.file_size > _MEMBER_LIMIT_BYTES:
                    raise _corrupt(name, f"{information.filename} claims {information.file_size} bytes")
                members[information.filename] = archive.read(information)
            return members, archive.comment
    # Everything that zipfile raises on a damaged archive, as its readers meet the damage at different depths.
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
        NotImplementedError,
        ValueError,
        IndexError,
        OverflowError,
    ) as error:
        raise _corrupt(name, str(error) or type(error).__name__) from error


def _parse_manifest(manifest: bytes, name: str) -> Mapping[str, object]:
    try:
        document: object = json.loads(manifest.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise _corrupt(name, f"{_MANIFEST} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise _corrupt(name, f"{_MANIFEST} is no JSON object")
    fields = cast("Mapping[str, object]", document)
    version = fields.get("format")
    if isinstance(version, bool) or not isinstance(version, int):
        raise _corrupt(name, f"{_MANIFEST} has no format version")
    if version != BUNDLE_FORMAT:
        writer = fields.get("tilewright_version", "unknown")
        raise TilewrightError(
            f"{name} has bundle format {version}, written by Tilewright {writer}; this one reads {BUNDLE_FORMAT}",
            remedy=f"upgrade Tilewright, or {_REBUILD}",
        )
    expected = {"format", "tilewright_version", "name", "target", "plan", "facts", "decisions", "sha256"}
    if set(fields) != expected:
        raise _corrupt(name, f"{_MANIFEST} has other fields than expected: {sorted(set(fields) ^ expected)}")
    return fields


def _object(document: Mapping[str, object], key: str, name: str) -> Mapping[str, object]:
    value = document[key]
    if not isinstance(value, dict):
        raise _corrupt(name, f"{_MANIFEST}: {key} is no object")
    return cast("Mapping[str, object]", value)


def _string(document: Mapping[str, object], key: str, name: str) -> str:
    value = document[key]
    if not isinstance(value, str):
        raise _corrupt(name, f"{_MANIFEST}: {key} is no string")
    return value


def _corrupt(name: str, detail: str) -> TilewrightError:
    return TilewrightError(f"{name} is damaged: {detail}", remedy=f"copy the file again, or {_REBUILD}")
