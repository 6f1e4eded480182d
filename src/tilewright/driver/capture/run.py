"""Run a program with the shim in front of its driver, and convert what it launched.

The program's streams are its own, and so is its exit code. Interrupts and requests to end go to the program; what it
launched until then is converted. Records lie in `FOLDER/raw` meanwhile, and are removed when they are converted.
Checked by: tests/driver/capture/test_capture.py, with a driver of the test's own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tilewright.base.cache_folder import cache_folder
from tilewright.base.error import TilewrightError
from tilewright.driver.capture.convert import Capture, convert
from tilewright.driver.capture.records import read_processes
from tilewright.driver.capture.texts import TextFinder
from tilewright.runtime.shim.build import built_shim, preloaded, require_linux

DEFAULT_FOLDER = "captured"


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """What is recorded.

    limit: different launches of one kernel; 0: all
    buffer_bytes: the largest buffer whose bytes are saved; 0: none are
    kernel: a pattern (with * ? []) or a part of a kernel's name; "": every kernel
    texts: folders with PTX of kernels that are loaded as cubins
    shim: the library, compiled elsewhere; None: it is compiled here
    """

    limit: int = 16
    buffer_bytes: int = 0
    kernel: str = ""
    texts: tuple[Path, ...] = ()
    shim: Path | None = None


def capture_folder(wanted: str | None) -> Path:
    """The folder to write to, made: `wanted`, which must be empty, else the first free one of captured, captured-2, ..

    Raises TilewrightError where it can't be made.
    """
    if wanted is not None:
        folder = Path(wanted)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            what = "is not empty" if folder.is_dir() else "is a file"
            raise TilewrightError(f"{folder} {what}", remedy="give -o another folder, or remove it")
    else:
        numbers = (f"{DEFAULT_FOLDER}-{number}" for number in range(2, 1 << 30))
        folder = Path(DEFAULT_FOLDER)
        while folder.exists():
            folder = Path(next(numbers))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TilewrightError(f"cannot make {folder}: {error.strerror}", remedy="give -o another folder") from error
    return folder


def capture(command: Sequence[str], folder: Path, options: CaptureOptions) -> tuple[int, Capture]:
    """Run the command; the exit code as a shell counts it, and what was captured into `folder`.

    Raises TilewrightError: the shim can't be compiled or loaded, or there is no such command.
    """
    require_linux()
    shim = options.shim or built_shim(cache_folder())
    if not shim.is_file():
        raise TilewrightError(f"there is no file {shim}", remedy="check the path after --shim")
    raw = folder.resolve() / "raw"
    environment = preloaded(shim, dict(os.environ))
    environment |= {
        "TILEWRIGHT_CAPTURE": str(raw),
        "TILEWRIGHT_CAPTURE_LIMIT": str(options.limit),
        "TILEWRIGHT_CAPTURE_BUFFERS": str(options.buffer_bytes),
        "TILEWRIGHT_CAPTURE_KERNEL": options.kernel,
    }
    raw.mkdir()
    try:
        code = _run(command, environment)
    except OSError as error:
        raw.rmdir()
        remedy = "check the command after --"
        raise TilewrightError(f"cannot run {command[0]}: {error.strerror}", remedy=remedy) from error
    found = convert(read_processes(raw), folder, TextFinder(options.texts, Path.home()))
    shutil.rmtree(raw)
    return code, found


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """The exit code; 128 and the signal's number for a program that a signal ended."""
    process: subprocess.Popen[bytes] | None = None
    came: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        came.append(number)
        if process is not None:
            process.send_signal(number)

    def leave_to_program(_number: int, _: FrameType | None) -> None:
        """A terminal interrupts the program too. (That a signal is ignored, a program would inherit.)"""

    before: dict[signal.Signals, Any] = {}
    try:
        # Before the program starts: once it does anything, whoever sees that may stop this process.
        before[signal.SIGINT] = signal.signal(signal.SIGINT, leave_to_program)
        before[signal.SIGTERM] = signal.signal(signal.SIGTERM, pass_on)
    except ValueError:
        pass  # not in the main thread, which alone gets signals
    try:
        starting = subprocess.Popen(list(command), env=environment)
        process = starting
        for number in came:
            starting.send_signal(number)  # it came before there was a program
        code = starting.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code
