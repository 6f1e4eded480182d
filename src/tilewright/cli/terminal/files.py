"""How the command line writes files: all of them or none, never half of one, and never over what it reads.

What could not be written is said before the work, not after it (`require_writable`). Checked by:
tests/cli/terminal/test_files.py.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from tilewright.base.error import TilewrightError

_FOLDER_REMEDY = "choose an existing folder that you may write to"


def require_writable(targets: Iterable[str | Path | None], sources: Iterable[str | Path | None] = ()) -> None:
    """Say at once what would be said after minutes of work. None and "" stand for options that are not given.

    Raises TilewrightError: a target is a folder, lies in a folder that is missing or not writable, is given twice, or
    is one of `sources`, the files that are read.
    """
    read = {os.path.realpath(source): source for source in sources if source}
    written: set[str] = set()
    for target in map(Path, filter(None, targets)):
        place = os.path.realpath(target)
        if os.path.isdir(target):
            raise TilewrightError(f"cannot write {target}: it is a folder", remedy="name a file in it")
        if _is_special(target):
            continue
        if place in read:
            raise TilewrightError(f"{target} would be written over, and it is read here", remedy="name another file")
        if place in written:
            raise TilewrightError(f"{target} is to be written twice", remedy="name another file")
        written.add(place)
        folder = os.path.dirname(place)
        if not os.path.isdir(folder):
            raise TilewrightError(f"cannot write {target}: there is no folder {folder}", remedy=_FOLDER_REMEDY)
        if not os.access(folder, os.W_OK):
            raise TilewrightError(f"cannot write {target}: {folder} is not yours to write to", remedy=_FOLDER_REMEDY)


def write_files(contents: Mapping[Path, bytes]) -> list[str]:
    """Write every file and return their names.

    Contents go to temporary files beside their targets, which are renamed when all are complete; a file that was there
    keeps its permissions, and a link goes on leading to it. Devices and pipes are written to as they are. Raises
    TilewrightError where a folder is missing or not writable; the targets are then as they were.
    """
    import secrets  # it takes long to load, and most commands write no file

    temporaries: dict[Path, Path] = {}
    target = Path()
    try:
        for target, content in contents.items():
            if os.path.isdir(target):
                raise TilewrightError(f"cannot write {target}: it is a folder", remedy="name a file in it")
            if _is_special(target):
                continue
            place = Path(os.path.realpath(target))
            temporary = place.with_name(f".{secrets.token_hex(8)}.part")
            temporaries[place] = temporary
            temporary.write_bytes(content)
            if place.exists():
                temporary.chmod(stat.S_IMODE(place.stat().st_mode))
        for target, temporary in temporaries.items():
            os.replace(temporary, target)
        for target in filter(_is_special, contents):
            target.write_bytes(contents[target])
    except OSError as error:
        raise TilewrightError(f"cannot write {target}: {error.strerror}", remedy=_FOLDER_REMEDY) from error
    finally:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)
    return [str(target) for target in contents]


def _is_special(target: Path) -> bool:
    """Whether it is a device, a pipe or one of the process's own streams, which a rename would replace by a file."""
    return Path("/dev") in Path(os.path.abspath(target)).parents or (
        os.path.exists(target) and not os.path.isfile(target)
    )
