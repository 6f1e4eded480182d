"""Does Tilewright install everywhere? pip resolves it for each platform and Python; `--size` measures an environment.

For each platform and Python, `pip install --dry-run --only-binary=:all:` is asked for the requirements of the core, or
of the extras given, as pyproject.toml has them for that platform: every package must have a wheel there. What packages
need in turn is decided by pip with this machine's markers. `--size` installs the checkout into a new environment and
adds up the blocks of its files. Needs the package index.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

_ROOT = Path(__file__).resolve().parents[1]
_PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_GLIBC_MINORS = (39, 38, 35, 34, 31, 28, 27, 26, 24, 17, 12, 5)
"""Of the versions 2.x of glibc that wheels name."""
_MACOS_INTEL = ("14_0", "13_0", "12_0", "11_0", "10_15", "10_14", "10_13", "10_12", "10_9")
_MACOS_ARM = ("14_0", "13_0", "12_0", "11_0")
PLATFORMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Linux x86-64": ("linux", ("manylinux2014_x86_64", *(f"manylinux_2_{each}_x86_64" for each in _GLIBC_MINORS))),
    "Linux arm64": ("linux", ("manylinux2014_aarch64", *(f"manylinux_2_{each}_aarch64" for each in _GLIBC_MINORS))),
    "macOS x86-64": (
        "darwin",
        tuple(f"macosx_{each}_{of}" for each in _MACOS_INTEL for of in ("x86_64", "universal2")),
    ),
    "macOS arm64": ("darwin", tuple(f"macosx_{each}_{of}" for each in _MACOS_ARM for of in ("arm64", "universal2"))),
    "Windows x86-64": ("win32", ("win_amd64",)),
    "Windows arm64": ("win32", ("win_arm64",)),
}
"""Of each platform: its `sys.platform`, and the tags of wheels that it takes."""
_MACHINES = {
    "Linux x86-64": "x86_64",
    "Linux arm64": "aarch64",
    "macOS x86-64": "x86_64",
    "macOS arm64": "arm64",
    "Windows x86-64": "AMD64",
    "Windows arm64": "ARM64",
}
"""Of each platform: its `platform.machine()`."""
_MOST_MEGABYTES = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--extra", action="append", default=[], metavar="NAME", help="with this extra (more than once)")
    parser.add_argument("--glibc", type=int, default=28, metavar="MINOR", help="of Linux: 2.MINOR (default: 28)")
    parser.add_argument("--size", action="store_true", help="measure a new environment of this machine instead")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    extras: list[str] = arguments.extra
    if arguments.size:
        megabytes = installed_megabytes(extras)
        print(json.dumps({"megabytes": megabytes}) if arguments.json else f"{megabytes} MB")
        return 0 if extras or megabytes <= _MOST_MEGABYTES else 1
    cells = [(platform, python) for platform in PLATFORMS for python in _PYTHONS]
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(cells, pool.map(lambda cell: refusal(*cell, extras, arguments.glibc), cells), strict=True))
    if arguments.json:
        print(json.dumps({f"{platform}, {python}": reason for (platform, python), reason in found.items()}, indent=2))
    else:
        print(" " * 16, *(f"{python:>6}" for python in _PYTHONS))
        for platform in PLATFORMS:
            print(f"{platform:<16}", *(f"{'no' if found[platform, python] else 'yes':>6}" for python in _PYTHONS))
        for (platform, python), reason in found.items():
            if reason:
                print(f"{platform}, Python {python}: {reason}")
    return 1 if any(found.values()) else 0


def requirements(extras: list[str], markers: dict[str, str]) -> list[str]:
    """What pyproject.toml asks for on a platform, extras that name others taken apart."""
    project: dict[str, Any] = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting = [Requirement(text) for text in project["dependencies"]]
    left = list(extras)
    while left:
        for text in project["optional-dependencies"][left.pop()]:
            each = Requirement(text)
            if each.name == project["name"]:
                left += each.extras
            else:
                waiting.append(each)
    chosen = [each for each in waiting if each.marker is None or each.marker.evaluate(dict(markers))]
    return sorted({f"{each.name}{each.specifier}" for each in chosen})


def refusal(platform: str, python: str, extras: list[str], glibc: int) -> str:
    """Why pip does not resolve it there; "" if it does. glibc: the minor version of Linux's, where wheels name one."""
    name, every = PLATFORMS[platform]
    markers = {"sys_platform": name, "platform_machine": _MACHINES[platform], "python_version": python}
    tags = [tag for tag in every if not tag.startswith("manylinux_2_") or int(tag.split("_")[2]) <= glibc]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--disable-pip-version-check",
                "--only-binary=:all:", "--target", folder, "--implementation", "cp", "--python-version", python,
                *(word for tag in tags for word in ("--platform", tag)),
                *requirements(extras, markers),
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if not done.returncode:
        return ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
    return errors[-1].removeprefix("ERROR: ") if errors else done.stderr.strip()[-200:]


def installed_megabytes(extras: list[str]) -> int:
    """Megabytes, of 2^20 bytes, that a new environment with this checkout takes on disk, pip among them."""
    with tempfile.TemporaryDirectory() as folder:
        source, environment = Path(folder, "source"), Path(folder, "environment")
        source.mkdir()
        shutil.copytree(_ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy2(_ROOT / name, source / name)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        python = environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        wanted = f"{source}[{','.join(extras)}]" if extras else str(source)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
        subprocess.run(install, check=True)
        return round(sum(_bytes_on_disk(path) for path in environment.rglob("*") if not path.is_symlink()) / (1 << 20))


def _bytes_on_disk(path: Path) -> int:
    status = path.stat()
    return getattr(status, "st_blocks", status.st_size // 512) * 512
