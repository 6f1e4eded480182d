"""Where is the compiled shim? In a folder of the caller's choice, compiled there by the system's C compiler once.

The name has a digest of the sources and of the machine, so that another version or a shared home folder never loads the
wrong one. The C sources need no CUDA toolkit.

Not handled: systems other than Linux with the GNU C library. Checked by: tests/runtime/test_shim.py.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from tilewright.base.error import TilewrightError

SOURCES = Path(__file__).parent
_FLAGS = ("-O2", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden")


def compiler() -> str | None:
    """The C compiler: $CC, cc, gcc or clang, whichever is there first."""
    names = (os.environ.get("CC", ""), "cc", "gcc", "clang")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def built_shim(folder: Path) -> Path:
    """The shared library, compiled into `folder` unless it is there. Raises TilewrightError where it can't be."""
    require_linux()
    sources = sorted(SOURCES.glob("*.c"))
    digest = hashlib.sha256(platform.machine().encode() + platform.libc_ver()[0].encode())
    for source in (*sources, *sorted(SOURCES.glob("*.h"))):
        digest.update(source.read_bytes())
    target = folder / f"capture-{digest.hexdigest()[:20]}.so"
    if target.exists():
        return target
    found = compiler()
    if found is None:
        raise TilewrightError(
            "the library that records launches has to be compiled, and there is no C compiler",
            remedy="install one (apt install gcc), or give --shim with the library compiled on another machine: "
            f"cc {' '.join(_FLAGS)} -o shim.so {SOURCES}/*.c -ldl -lpthread",
        )
    temporary = folder / f".{secrets.token_hex(8)}.so"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        command = [found, *_FLAGS, "-o", str(temporary), *map(str, sources), "-ldl", "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
            raise TilewrightError(f"{found} does not compile {SOURCES}: {first}", remedy="set CC to another C compiler")
        os.replace(temporary, target)
    except OSError as error:
        remedy = "set TILEWRIGHT_CACHE to a folder that you may write to"
        raise TilewrightError(f"cannot write {target}: {error.strerror}", remedy=remedy) from error
    finally:
        temporary.unlink(missing_ok=True)
    return target


def require_linux() -> None:
    """Raises TilewrightError where programs can't be given a library to load first."""
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        raise TilewrightError(
            f"launches are captured on Linux with the GNU C library, not on {sys.platform}",
            remedy="run the program there, and copy the folder with the launch files",
        )


def preloaded(shim: Path, environment: dict[str, str]) -> dict[str, str]:
    """The environment with the shim in front of what it preloads. Raises TilewrightError for a path with separators."""
    path = str(shim.resolve())
    if any(letter in path for letter in " :\t\n"):
        remedy = "set TILEWRIGHT_CACHE to a folder without them"
        raise TilewrightError(f"{path} has a blank or a colon, which LD_PRELOAD takes for a separator", remedy=remedy)
    others = environment.get("LD_PRELOAD", "")
    return {**environment, "LD_PRELOAD": f"{path}:{others}" if others else path}
