"""What does the core alone do? An environment that has the core's dependencies and nothing else.

The packages of this environment that pyproject.toml names for the core, and what those need, are linked into a folder;
a command runs with that folder and the sources on its path, without site-packages.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
_SITE_FOLDERS_NOT_LINKED = {"..", "__pycache__", "tests"}
_NO_ASSEMBLER = """
import sys
from tilewright.runtime import assemble
assemble._DEFAULT_TOOLKIT = ""
from tilewright.cli.main import main
raise SystemExit(main())
"""


@cache
def project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def closure(requirements: list[str]) -> set[str]:
    """The names of the distributions that these need, on this machine and without extras."""
    found: set[str] = set()
    waiting = [Requirement(each) for each in requirements]
    while waiting:
        each = waiting.pop()
        if each.name in found or (each.marker is not None and not each.marker.evaluate({"extra": ""})):
            continue
        found.add(each.name)
        waiting += [Requirement(text) for text in distribution(each.name).requires or ()]
    return found


def linked_packages(folder: Path) -> Path:
    """`folder`, with links to the core's packages in it."""
    for name in closure(project()["dependencies"]):
        installed = distribution(name)
        tops = {file.parts[0] for file in installed.files or ()} - _SITE_FOLDERS_NOT_LINKED
        assert tops, name
        for top in tops:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(installed.locate_file(top))))
    return folder


def run_alone(
    folder: Path, *arguments: str, assembler: bool = True, program: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `tilewright ARGUMENTS`, or a Python program, with the packages of `folder`. assembler: whether one that the
    machine has may be found."""
    kept = {name: os.environ[name] for name in ("SYSTEMROOT", "TEMP", "TMP") if name in os.environ}
    environment = {
        **kept,
        "COLUMNS": "200",
        "HOME": str(folder),
        "NO_COLOR": "1",
        "PATH": os.environ["PATH"] if assembler else "",
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT / "src"))),
        "TILEWRIGHT_CACHE": str(folder / "cache"),
    }
    code = program or ("" if assembler else _NO_ASSEMBLER)
    command = ["-c", code] if code else ["-m", "tilewright"]
    return subprocess.run(
        [sys.executable, "-S", *command, *arguments],
        capture_output=True, text=True, encoding="utf-8", env=environment, cwd=ROOT, timeout=240, check=False,
    )  # fmt: skip
