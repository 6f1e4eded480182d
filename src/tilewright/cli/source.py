"""How the command line names a program and its shape: FILE.py:KERNEL, M=4096,N=4096, dtypes, tiles."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tilewright.base.error import TilewrightError
from tilewright.base.size import Range
from tilewright.base.span import Span
from tilewright.frontends.tile.kernel import Kernel, nearest_name

_Named = TypeVar("_Named")


def load_kernel(reference: str) -> Kernel:
    """The kernel that FILE.py:KERNEL names. The file is executed, as Python does on import.

    Raises TilewrightError: no such file, the file does not run, no such kernel.
    """
    return load_kernel_or(reference, Kernel)


def load_kernel_or(reference: str, other: type[_Named]) -> Kernel | _Named:
    """The kernel that FILE.py:NAME names, or the value of type `other`. Raises as `load_kernel` does."""
    file, _, name = reference.rpartition(":")
    module = _executed(reference, file, name)
    kernels = _kernels_of(module)
    if name not in kernels:
        value = module.get(name)
        if isinstance(value, other):
            return value
        if name in module:
            raise TilewrightError(f"{name} in {file} is no kernel", remedy="decorate it with @tw.kernel")
        hint = nearest_name(name, kernels) if kernels else "declare one with @tw.kernel"
        raise TilewrightError(f"{file} declares no kernel {name}", remedy=hint)
    return kernels[name]


def load_kernels(file: str) -> dict[str, Kernel]:
    """All kernels of a file, by name. Raises as `load_kernel` does, and where there is none."""
    kernels = _kernels_of(_executed(file, file, "all"))
    if not kernels:
        raise TilewrightError(f"{file} declares no kernel", remedy="declare one with @tw.kernel")
    return kernels


def _kernels_of(module: Mapping[str, object]) -> dict[str, Kernel]:
    return {key: value for key, value in module.items() if isinstance(value, Kernel)}


def _executed(reference: str, file: str, name: str) -> dict[str, object]:
    """What a file declares, by name. reference: as it was given."""
    if reference.endswith(".ptx"):
        raise TilewrightError(
            f"{reference} is PTX text, which is compiled already",
            remedy="`tilewright check` judges it; `tilewright compile` takes FILE.py:KERNEL",
        )
    if not file or not name:
        raise TilewrightError(f"{reference!r} names no kernel", remedy="write FILE.py:KERNEL")
    path = Path(file)
    if not file.isprintable():
        # The program's text keeps the name of its file, as UTF-8.
        raise TilewrightError(f"{file!r} is no name that can be printed", remedy="rename the file")
    if not os.path.isfile(file):
        raise TilewrightError(f"there is no file {file}", remedy="check the path before the colon")
    specification = importlib.util.spec_from_file_location(f"tilewright_program_{path.stem}", path)
    if specification is None or specification.loader is None:
        raise TilewrightError(f"{file} is no Python file", remedy="give a file that ends in .py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        with contextlib.redirect_stdout(sys.stderr):  # a report is not what the author's module prints
            specification.loader.exec_module(module)
    except TilewrightError as error:
        if error.span is not None and Path(error.span.file).resolve() != path.resolve():
            raise
        span = _last_line(error, file) if error.span is None else replace(error.span, file=file)
        raise TilewrightError(error.message, span=span, remedy=error.remedy, findings=error.findings) from error
    except SyntaxError as error:
        span = Span(file, error.lineno or 1, error.offset or 1, (error.text or "").rstrip())
        raise TilewrightError(f"{error.msg}", span=span, remedy="fix the file") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the author's module raises is the author's to see
        raise _authors_error(error, file) from error
    finally:
        sys.path.pop(0)
    return vars(module)


def _authors_error(error: BaseException, file: str) -> TilewrightError:
    """What the author's code raised, at the innermost of its lines in `file`."""
    words = f": {error}" if str(error) else ""
    return TilewrightError(f"{type(error).__name__}{words}", span=_last_line(error, file), remedy="fix the file")


def _last_line(error: BaseException, file: str) -> Span:
    """The innermost line in `file` on an error's way."""
    whole = Path(file).resolve()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).resolve() == whole]
    return Span(file, frames[-1].lineno or 1, text=frames[-1].line or "") if frames else Span(file, 1)


def parse_shape(text: str) -> dict[str, int]:
    """`M=4096,N=4096` as extents by axis. Raises TilewrightError for anything else."""
    extents: dict[str, int] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        axis, equals, number = part.partition("=")
        axis = axis.strip()
        try:
            extent = int(number)
        except ValueError:
            equals = ""
            extent = 0
        if not equals or not axis.isidentifier():
            raise TilewrightError(f"cannot read {part.strip()!r} in --shape", remedy="write it as M=4096,N=4096,K=4096")
        if axis in extents:
            raise TilewrightError(f"axis {axis} stands twice in --shape", remedy="give each axis once")
        extents[axis] = extent
    return extents


def parse_ranged_shape(text: str) -> dict[str, int | Range]:
    """The same, where `M=1..8192`, or `M=8..8192:8`, is a range of extents that only a launch knows, perhaps of
    multiples."""
    ranges: dict[str, int | Range] = {}
    fixed: list[str] = []
    for part in text.split(","):
        axis, _, values = part.partition("=")
        least, dots, rest = values.partition("..")
        if not dots:
            fixed.append(part)
            continue
        most, _, multiple_of = rest.partition(":")
        try:
            ranges[axis.strip()] = Range(int(least), int(most), int(multiple_of or 1))
        except ValueError:
            raise TilewrightError(
                f"cannot read {part.strip()!r} in --shape", remedy="write it as M=1..8192, or M=8..8192:8"
            ) from None
    extents = parse_shape(",".join([*fixed, *(f"{axis}=1" for axis in ranges)]))
    return {axis: ranges.get(axis, extent) for axis, extent in extents.items()}


def parse_dtypes(text: str) -> str | dict[str, str]:
    """`bf16`, or `a=bf16,c=f32` by parameter."""
    if "=" not in text:
        return text
    result: dict[str, str] = {}
    for part in text.split(","):
        name, equals, dtype = part.partition("=")
        if not equals or not name.strip():
            raise TilewrightError(f"cannot read {part!r} in --dtype", remedy="write bf16, or a=bf16,c=f32")
        if name.strip() in result:
            raise TilewrightError(f"parameter {name.strip()} stands twice in --dtype", remedy="give each one once")
        result[name.strip()] = dtype.strip()
    return result


def parse_tile(text: str) -> tuple[int, int] | None:
    """`128x256` as (rows, columns)."""
    if not text:
        return None
    rows, cross, columns = text.partition("x")
    # `isdigit` alone holds of superscripts, which `int` does not read.
    if not cross or not text.isascii() or not rows.isdigit() or not columns.isdigit():
        raise TilewrightError(f"cannot read --tile {text!r}", remedy="write it as 128x256")
    return int(rows), int(columns)
