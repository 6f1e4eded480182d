"""Compile the kernels of libraries that `tests/corpus/fresh/kernels.toml` lists, for `bench corpus` and `vacuity`.

`python -m bench fresh CHECKOUTS FOLDER --python PYTHON --nvcc NVCC`. PYTHON is of an environment into which
`tests/corpus/fresh/requirements.txt` is installed; NVCC is a CUDA compiler of its own, since torch pins the headers of
an earlier one (`pip install --target DIR -r tests/corpus/fresh/requirements-nvcc.txt`: DIR/nvidia/cu13/bin/nvcc).
Repositories that CHECKOUTS lacks are cloned at their commit. Each kernel becomes FOLDER/FAMILY/TARGET/NAME.ptx, those
of Triton with the launch that the library made; what is there already is kept. Then
`python -m bench corpus FOLDER --results bench/results` checks them. No GPU is needed.

Which files are compiled was drawn by the list's seed before any was. What does not compile, or takes longer than
`--minutes`, is printed and has no row in any record.
Checked by: tests/benchmarks/test_fresh_bench.py
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.base.error import TilewrightError

_HERE = Path(__file__).resolve().parents[1] / "tests" / "corpus"
_LIST = _HERE / "fresh" / "kernels.toml"
_SOURCES = _HERE / "sources"
KINDS = ("cuda", "triton", "script")


@dataclass(frozen=True, slots=True)
class Compilation:
    """One command. kind: `cuda`, a file for nvcc or its text; `triton`, a program that calls the library, whose
    launches are caught; `script`, in CuTe DSL or TileLang, that is run as it stands. flags: with {name} of folders."""

    kind: str
    family: str
    target: str
    source: Path | str
    name: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Places:
    """Where things lie. folders: by the names that flags have in braces."""

    python: str
    nvcc: str
    folders: dict[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkouts", type=Path, help="folder of repositories; those that it lacks are cloned there")
    parser.add_argument("folder", type=Path, help="where FAMILY/TARGET/NAME.ptx is written")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the compilers' environment")
    parser.add_argument("--nvcc", default="nvcc", help="the CUDA compiler (default: the one on the path)")
    parser.add_argument("--only", default="", help="families and names that contain this")
    parser.add_argument("--minutes", type=float, default=15.0, help="limit of each compilation (default %(default)g)")
    parser.add_argument("--list", action="store_true", help="print what was drawn, and compile nothing")


def run(arguments: argparse.Namespace) -> int:
    listed = tomllib.loads(_LIST.read_text("utf-8"))
    asked = () if arguments.list else (("--nvcc", arguments.nvcc), ("--python", arguments.python))
    for option, program in asked:
        if shutil.which(program) is None:
            raise TilewrightError(f"no program {program}", remedy=f"name one by {option}; bench/fresh.py says which")
    for name, (url, commit) in listed["repositories"].items():
        check_out(arguments.checkouts / name, url, commit)
    todo = [
        each
        for each in compilations(listed, arguments.checkouts)
        if arguments.only in f"{each.family}/{each.target}/{each.name}"
    ]
    if arguments.list:
        for each in todo:
            print(f"{each.family}/{each.target}/{each.name}")
        return 0
    places = _places(arguments.python, arguments.nvcc, arguments.checkouts.resolve(), listed["repositories"])
    failed: list[str] = []
    for each in todo:
        why = _compile(each, arguments.folder.resolve(), places, arguments.minutes * 60)
        print(f"{each.family}/{each.target}/{each.name}: {why or 'compiled'}", flush=True)
        failed += [each.name] if why else []
    _write_sources(listed, arguments.folder, places)
    print(f"{len(todo) - len(failed)} of {len(todo)} compiled")
    return 0


def compilations(listed: dict[str, Any], checkouts: Path) -> Iterator[Compilation]:
    """What the list asks for, of the checkouts as they are."""
    for kind in KINDS:
        for entry in listed.get(kind, []):
            family, target = entry["family"], entry["target"]
            flags = (*listed["cuda_flags"], *entry.get("flags", [])) if kind == "cuda" else ()
            if "code" in entry:
                yield Compilation(kind, family, target, entry["code"], entry["name"], flags)
            elif "program" in entry:
                yield Compilation(kind, family, target, _LIST.parent / entry["program"], Path(entry["program"]).stem)
            else:
                root, seed = checkouts / entry["repository"], f"{listed['seed']} {entry['repository']}"
                for path in drawn(root, entry["files"], entry.get("except", []), entry["draw"], seed):
                    yield Compilation(kind, family, target, path, path.stem, flags)


def drawn(root: Path, patterns: list[str], without: list[str], count: int, seed: str) -> list[Path]:
    """So many of the files of a checkout that match, without those whose path contains a word of `without`."""
    found = {path for pattern in patterns for path in root.glob(pattern)}
    names = sorted(path.relative_to(root).as_posix() for path in found)
    names = [name for name in names if not any(word in name for word in without)]
    if len(names) < count:
        raise TilewrightError(f"{root} has {len(names)} files for {patterns}; the list draws {count}")
    return [root / name for name in sorted(random.Random(seed).sample(names, count))]


def check_out(folder: Path, url: str, commit: str) -> None:
    if not folder.exists():
        _git("clone", "--quiet", "--no-checkout", url, str(folder))
        _git("-C", str(folder), "checkout", "--quiet", commit)
    found = _git("-C", str(folder), "rev-parse", "HEAD").strip()
    if found != commit:
        raise TilewrightError(f"{folder} is at {found}; the list is of {commit}: `git checkout {commit}` there")


def _git(*command: str) -> str:
    done = subprocess.run(["git", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise TilewrightError(f"git {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _places(python: str, nvcc: str, checkouts: Path, repositories: dict[str, object]) -> _Places:
    asked = "import sysconfig; print(sysconfig.get_path('purelib')); print(sysconfig.get_path('include'))"
    site, include = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    folders = {name: str(checkouts / name) for name in repositories} | {"site": site, "python": include}
    return _Places(python, nvcc, folders)


def _compile(wanted: Compilation, folder: Path, places: _Places, limit_seconds: float) -> str:
    """Why there is no text, or nothing."""
    path = folder / wanted.family / wanted.target / f"{wanted.name}.ptx"
    if path.exists():
        return ""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        partial = Path(scratch) / "text.ptx"
        to_folder = [str(folder), wanted.family]
        match wanted.kind:
            case "cuda":
                source = wanted.source
                if isinstance(source, str):
                    source = Path(scratch) / "instance.cu"
                    source.write_text(str(wanted.source), "utf-8")
                flags = [flag.format(**places.folders) for flag in wanted.flags]
                command = [places.nvcc, "-ptx", f"-arch={wanted.target}", *flags, "-o", str(partial), str(source)]
            case "triton":
                number = wanted.target.removeprefix("sm_").rstrip("a")
                command = [places.python, str(_SOURCES / "library_launches.py"), *to_folder, number, str(wanted.source)]
            case _:
                script = [*to_folder, wanted.target, places.nvcc, str(wanted.source)]
                command = [places.python, str(_SOURCES / "script_kernels.py"), *script]
        environment = os.environ | {f"CHECKOUT_{name.upper()}": at for name, at in places.folders.items()}
        done = _finished(command, environment, limit_seconds)
        if done is None:
            return f"stopped after {limit_seconds / 60:g} minutes"
        failed, out, errors = done
        if not failed and wanted.kind == "cuda":
            path.write_bytes(partial.read_bytes())
    if wanted.kind != "cuda":
        print(*(line for line in out.splitlines() if line.startswith(f"{wanted.family}/")), sep="\n")
    if failed:
        lines = (errors or out).strip().splitlines()
        return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "failed")
    return ""


def _finished(command: list[str], environment: dict[str, str], limit_seconds: float) -> tuple[bool, str, str] | None:
    """Whether a command failed, and what it printed; None if its time was over. It and all that it started end then."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            out, errors = process.communicate(timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
    return process.returncode != 0, out, errors


def _write_sources(listed: dict[str, Any], folder: Path, places: _Places) -> None:
    """FOLDER/sources.json, which `bench corpus` writes on its page."""
    said = subprocess.run([places.nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    asked = "import importlib.metadata as m; print(m.version('triton'))"
    triton = subprocess.run([places.python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    nvcc = f"nvcc {said.rsplit(' V', 1)[-1].split()[0]}"
    families: dict[str, dict[str, str]] = {}
    for kind in KINDS:
        for entry in listed.get(kind, []):
            entry: dict[str, str]
            compiler = {"cuda": nvcc, "triton": f"Triton {triton}"}.get(kind) or entry["compiler"]
            if "package" in entry:
                source, _, commit = entry["package"].partition("==")
            else:
                source, commit = listed["repositories"][entry["repository"]]
            source = source.removeprefix("https://github.com/")
            families[entry["family"]] = {"source": source, "commit": commit[:12], "compiler": compiler}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sources.json").write_text(json.dumps(families, indent=1) + "\n", "utf-8")
