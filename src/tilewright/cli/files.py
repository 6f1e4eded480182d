"""How the command line writes files: all of them or none, and never half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from tilewright.base.error import TilewrightError


def write_files(contents: Mapping[Path, bytes]) -> list[str]:
    """Write every file and return their names.

    Contents go to temporary files beside their targets, which are renamed when all are complete. Raises
    TilewrightError where a folder is missing or not writable; the targets are then as they were.
    """
    temporaries: dict[Path, Path] = {}
    target = Path()
    try:
        for target, content in contents.items():
            if target.is_dir():
                raise TilewrightError(f"cannot write {target}: it is a folder", remedy="name a file in it")
            temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
            temporaries[target] = temporary
            temporary.write_bytes(content)
        for target, temporary in temporaries.items():
            os.replace(temporary, target)
    except OSError as error:
        raise TilewrightError(
            f"cannot write {target}: {error.strerror}", remedy="choose an existing folder that you may write to"
        ) from error
    finally:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)
    return [str(target) for target in contents]
