"""What PTX does NVIDIA's `cuobjdump` find in a binary? Asked where `frontends.fatbin` can't read a binary itself.

It is looked for on PATH, in the packages from PyPI that have it, and in a CUDA toolkit. It runs as a process in a
private directory, for at most a minute, and what it extracts is read up to a limit. Source: CUDA Binary Utilities,
cuobjdump, `--extract-ptx`. Not handled: what it can't read either. Checked by:
tests/driver/check/sources/test_cuobjdump.py.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tilewright.base.error import TilewrightError

SECONDS_MAX = 60
TEXT_BYTES_MAX = 1 << 28
"""Of all texts together."""
_PACKAGES = ("nvidia-cuda-cuobjdump", "nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12", "triton")
_EXECUTABLE = "cuobjdump.exe" if sys.platform == "win32" else "cuobjdump"
_TOOLKIT = "/usr/local/cuda"
_NUMBER = re.compile(r"\.(\d+)\.sm_\w+\.ptx$")


def find_cuobjdump() -> Path | None:
    """Where the program is; None where it is not installed."""
    on_path = shutil.which(_EXECUTABLE)
    if on_path is not None:
        return Path(on_path)
    for package in _PACKAGES:
        try:
            files = importlib.metadata.files(package) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            path = Path(str(file.locate()))
            if file.name == _EXECUTABLE and path.is_file():
                return path
    roots = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), _TOOLKIT)
    places = (Path(root) / "bin" / _EXECUTABLE for root in roots if root)
    return next((place for place in places if place.is_file()), None)


def extracted(program: Path, file: str) -> tuple[str, ...]:
    """The PTX texts of a binary, each once, in the program's order; none where it finds none. Raises TilewrightError:
    it can't be run, takes too long, or extracts too much."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "--extract-ptx", "all", str(Path(file).resolve())]
        try:
            subprocess.run(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=SECONDS_MAX, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise TilewrightError(
                f"{file}: {program} took more than {SECONDS_MAX} s", remedy="give one library or one cubin"
            ) from error
        except OSError as error:
            raise TilewrightError(
                f"{file}: {program} can't be run: {error.strerror}", remedy="correct or remove that program"
            ) from error
        found = sorted(Path(folder).glob("*.ptx"), key=_number)
        if sum(path.stat().st_size for path in found) > TEXT_BYTES_MAX:
            raise TilewrightError(
                f"{file} has more than {TEXT_BYTES_MAX >> 20} MiB of PTX", remedy="give one library or one cubin"
            )
        texts = [path.read_text("utf-8", "replace") for path in found]
    return tuple(dict.fromkeys(text for text in texts if text.strip()))


def _number(path: Path) -> tuple[int, str]:
    found = _NUMBER.search(path.name)
    return (int(found[1]) if found is not None else 0, path.name)
