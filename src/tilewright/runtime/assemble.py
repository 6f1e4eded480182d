"""PTX text to machine code: which `ptxas` to use, what it produced, and what it complained about.

`ptxas` is run as a process on files in a private directory, with `-v`, whose report is parsed for registers, spills
and shared memory. Its advisories matter as much as its errors: serialised `wgmma` (C7510 and its neighbours) or an
ignored `setmaxnreg` (C7508) leave a kernel correct and slow.

Source: CUDA Compiler Driver NVCC, "ptxas options"; PTX ISA, "Directives: .version, .target".
Not handled: linking several PTX modules, and NVRTC or nvJitLink as assemblers.
Checked by: tests/runtime/test_assemble.py, against the real `ptxas`.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from tilewright.base.error import TilewrightError
from tilewright.base.extra import install
from tilewright.base.span import Span

INSTALL_REMEDY = (
    f"{install('compile')} (it brings ptxas for Linux and Windows, no toolkit needed), put ptxas on PATH, "
    "or set TILEWRIGHT_PTXAS to its path"
)
_NEWER_REMEDY = "pip install --upgrade nvidia-cuda-nvcc, or set TILEWRIGHT_PTXAS to a newer one"
# Newest first: a newer assembler accepts the PTX of an older one, never the other way round.
_WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12")
_DEFAULT_TOOLKIT = "/usr/local/cuda"
_EXECUTABLE = "ptxas.exe" if sys.platform == "win32" else "ptxas"

PtxasSource = Literal["TILEWRIGHT_PTXAS", "wheel", "PATH", "CUDA_HOME"]


@dataclass(frozen=True, slots=True)
class Ptxas:
    """An assembler found on this machine. version: such as `12.9.86`; source: how it was found."""

    path: Path
    version: str
    source: PtxasSource


@dataclass(frozen=True, slots=True)
class FunctionResources:
    """What one function uses: registers, stack and spill bytes per thread, static shared bytes per block.

    registers and shared_bytes are reported for entries only: a called function shows 0 and is counted in its callers.
    """

    name: str
    is_entry: bool
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class Assembly:
    """The machine code of one PTX module.

    functions: in the order that `ptxas` reports; warnings: advisories and warnings, one line each, as `ptxas` words
    them; seconds: wall-clock time of the process.
    """

    cubin: bytes
    target: str
    functions: tuple[FunctionResources, ...]
    warnings: tuple[str, ...]
    seconds: float
    ptxas: Ptxas

    @property
    def registers(self) -> int:
        """Registers per thread of the hungriest entry."""
        return max((function.registers for function in self.functions), default=0)

    @property
    def spill_bytes(self) -> int:
        """Bytes spilled per thread, stores and loads, over all functions."""
        return sum(function.spill_store_bytes + function.spill_load_bytes for function in self.functions)

    @property
    def shared_bytes(self) -> int:
        """Static shared memory per block of the hungriest entry."""
        return max((function.shared_bytes for function in self.functions), default=0)

    @property
    def version(self) -> str:
        """Version of the assembler."""
        return self.ptxas.version


def assemble(
    ptx: str, target: str, *, name: str = "kernel", timeout_seconds: float = 300.0, ptxas: Ptxas | None = None
) -> Assembly:
    """Assemble `ptx` for `target` (`sm_90a`, ...). `name` is shown in errors and the file name that `ptxas` sees.

    Raises TilewrightError: no `ptxas` found; `ptxas` rejects the text (with the PTX line) or knows no such target or
    PTX version; it ran longer than `timeout_seconds`.
    """
    assembler = ptxas or find_ptxas()
    if not re.fullmatch(r"sm_\d+[af]?", target):
        raise TilewrightError(f"{target!r} is no target", remedy="write it as sm_90a or sm_100a")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        source = Path(folder) / "kernel.ptx"
        cubin = Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [str(assembler.path), "-v", "-arch", target, source.name, "-o", cubin.name]
        started = time.perf_counter()
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=timeout_seconds
            )
        except subprocess.TimeoutExpired as error:
            raise TilewrightError(
                f"ptxas took more than {timeout_seconds:g} s over {name}",
                remedy="split the kernel, unroll less, or raise timeout_seconds",
            ) from error
        except OSError as error:
            raise TilewrightError(f"cannot run {assembler.path}: {error.strerror}", remedy=INSTALL_REMEDY) from error
        seconds = time.perf_counter() - started
        report = done.stderr + done.stdout
        if done.returncode != 0 or not cubin.exists():
            raise _rejection(report, ptx, target, name, assembler, done.returncode)
        return Assembly(
            cubin=cubin.read_bytes(),
            target=target,
            functions=parse_resources(report),
            warnings=parse_warnings(report),
            seconds=seconds,
            ptxas=assembler,
        )


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")


def parse_resources(report: str) -> tuple[FunctionResources, ...]:
    """The resources of each function in a `ptxas -v` report: entries, and the functions they call."""
    entries = set(_ENTRY.findall(report))
    functions: list[FunctionResources] = []
    for line in report.splitlines():
        if match := _PROPERTIES.search(line):
            functions.append(FunctionResources(match[1], match[1] in entries, 0, 0, 0, 0, 0))
        elif functions and (match := _STACK.search(line)):
            stack, stores, loads = (int(group) for group in match.groups())
            functions[-1] = replace(functions[-1], stack_bytes=stack, spill_store_bytes=stores, spill_load_bytes=loads)
        elif functions and (match := _USED.search(line)):
            shared = _SHARED.search(line)
            shared_bytes = int(shared[1]) + int(shared[2] or 0) if shared else 0
            functions[-1] = replace(functions[-1], registers=int(match[1]), shared_bytes=shared_bytes)
    return tuple(functions)


_ADVISORY = re.compile(r"^ptxas(?:\s+(?P<place>\S+, line \d+);)?\s*(?P<level>info|warning)\s*:\s*(?P<text>.*)$")
# What `-v` always prints; every other `info` line is an advisory.
_ROUTINE = re.compile(
    r"^(\d+ bytes gmem|Compiling entry function|Function properties for|Used \d+ registers|Compile time"
    r"|\d+ bytes stack frame)"
)


def parse_warnings(report: str) -> tuple[str, ...]:
    """The warnings and performance advisories in a `ptxas -v` report, without the routine lines, each once."""
    found: dict[str, None] = {}
    for line in report.splitlines():
        match = _ADVISORY.match(line.strip())
        if match is None or (match["level"] == "info" and _ROUTINE.match(match["text"])):
            continue
        place = f"{match['place'].rpartition(', ')[2]}: " if match["place"] else ""
        found[place + match["text"]] = None
    return tuple(found)


_PLACED_ERROR = re.compile(r"^ptxas \S*kernel\.ptx, line (\d+); (?:error|fatal)\s*: (.*)$")
_UNPLACED_ERROR = re.compile(r"^ptxas (?:error|fatal)\s*: (.*)$")
_PTX_VERSION = re.compile(r"Unsupported \.version ([\d.]+); current version is '([\d.]+)'")


def _rejection(report: str, ptx: str, target: str, name: str, assembler: Ptxas, return_code: int) -> TilewrightError:
    span: Span | None = None
    messages: list[str] = []
    lines = ptx.splitlines()
    for line in report.splitlines():
        if match := _PLACED_ERROR.match(line):
            number = int(match[1])
            if span is None:
                text = lines[number - 1] if number <= len(lines) else ""
                span = Span(f"<{name}>", number, text=text)
                messages.append(match[2])
            else:
                messages.append(f"line {number}: {match[2]}")
        elif (match := _UNPLACED_ERROR.match(line)) and "aborted due to errors" not in match[1]:
            messages.append(match[1])
    if not messages:
        messages = [report.strip() or f"exit status {return_code} and no message"]
    shown = "; ".join(messages[:5]) + (f"; and {len(messages) - 5} more" if len(messages) > 5 else "")
    if match := _PTX_VERSION.search(report):
        remedy = f"this ptxas ({assembler.version}) knows PTX up to {match[2]}: {_NEWER_REMEDY}"
    elif "is not defined for option 'gpu-name'" in report:
        remedy = f"ptxas {assembler.version} does not know {target}: sm_100a needs 12.8 or newer: {_NEWER_REMEDY}"
    elif "higher than default SM version" in report:
        remedy = f"the text's .target and the target {target} asked for disagree"
    else:
        remedy = "correct the PTX at that line"
    return TilewrightError(f"ptxas {assembler.version} rejects {name} for {target}: {shown}", span=span, remedy=remedy)


def find_ptxas() -> Ptxas:
    """The assembler to use: TILEWRIGHT_PTXAS, then the PyPI wheels, then PATH, then CUDA_HOME and /usr/local/cuda.

    Raises TilewrightError where there is none, or where TILEWRIGHT_PTXAS names something that is not a `ptxas`.
    """
    chosen = os.environ.get("TILEWRIGHT_PTXAS")
    if chosen:
        # Asked for by name: falling back to another would hide the mistake.
        path = Path(chosen)
        version = ptxas_version(path)
        if version is None:
            raise TilewrightError(
                f"TILEWRIGHT_PTXAS is {chosen}, which is no working ptxas", remedy="correct or unset the variable"
            )
        return Ptxas(path, version, "TILEWRIGHT_PTXAS")
    for path, source in _candidates():
        version = ptxas_version(path)
        if version is not None:
            return Ptxas(path, version, source)
    raise TilewrightError("no ptxas found to assemble PTX", remedy=INSTALL_REMEDY)


def _candidates() -> Iterator[tuple[Path, PtxasSource]]:
    for wheel in _WHEELS:
        path = _wheel_ptxas(wheel)
        if path is not None:
            yield path, "wheel"
    on_path = shutil.which("ptxas")
    if on_path is not None:
        yield Path(on_path), "PATH"
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), _DEFAULT_TOOLKIT):
        if root:
            yield Path(root) / "bin" / _EXECUTABLE, "CUDA_HOME"


@lru_cache(maxsize=8)
def _wheel_ptxas(wheel: str) -> Path | None:
    try:
        files = importlib.metadata.files(wheel)
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files or ():
        if file.name == _EXECUTABLE and file.parent.name == "bin":
            return Path(str(file.locate()))
    return None


def ptxas_version(path: Path) -> str | None:
    """The version that the program at `path` reports (`12.9.86`), or None if it is no working `ptxas`."""
    try:
        stamp = path.stat().st_mtime_ns
    except OSError:
        return None
    return _version_of(path, stamp)


@lru_cache(maxsize=8)
def _version_of(path: Path, stamp_ns: int) -> str | None:
    del stamp_ns  # a cache key only: a replaced file is asked again
    try:
        done = subprocess.run([str(path), "--version"], capture_output=True, text=True, errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"release [\d.]+, V([\d.]+)", done.stdout)
    return match[1] if match and done.returncode == 0 else None
