"""`tilewright.check`: what of a text, a file or a compiled kernel is proven, as one value that shows itself.

    import tilewright as tw

    report = tw.check("kernel.ptx", launch="launch.json")
    report.proven, report.findings
    print(report)       # the report of the command line
    report.show()       # the page, in a browser

A kernel object is asked for its PTX: Triton's and Gluon's compiled kernels, what `tw.compile` returns, CuPy's
`RawKernel` and `RawModule` (compiled again with NVRTC, for PTX instead of a cubin). Settings of a pyproject.toml are
the command line's alone. Not handled: kernels of CuPy that are given as a path or compiled with nvcc.
Checked by: tests/driver/check/test_public.py.
"""

from __future__ import annotations

import os
import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

from tilewright.base.check_report import FileReport, KernelReport, VerdictWord, all_findings
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.error import TilewrightError
from tilewright.driver.check.check import check_paths, check_text
from tilewright.driver.check.options import DEFAULT_BUDGET_SECONDS, CheckOptions
from tilewright.driver.launch.given_launch import LaunchFile

Subject = str | PathLike[str] | object
"""PTX or MLIR text, the path of a file or folder, or a compiled kernel."""
Launch = str | PathLike[str] | Mapping[str, Any] | LaunchFile
"""The path of a launch file, or what stands in one."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was found of one subject."""

    files: tuple[FileReport, ...]
    """One report for each file, as `tilewright check` makes them."""
    name: str = field(default="")

    @property
    def kernels(self) -> tuple[KernelReport, ...]:
        """The reports of all kernels, in order."""
        return tuple(kernel for file in self.files for kernel in file.kernels)

    @property
    def verdict(self) -> VerdictWord:
        """ "refuted" if a kernel is, else "unknown" if one is or nothing was checked, else "proven"."""
        verdicts = {kernel.verdict for kernel in self.kernels}
        if "refuted" in verdicts:
            return "refuted"
        return "proven" if verdicts == {"proven"} and not any(file.error for file in self.files) else "unknown"

    @property
    def proven(self) -> bool:
        """Whether every kernel is proven. Unknown is not."""
        return self.verdict == "proven"

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """All findings, reviews among them, in order."""
        return all_findings(self.files)

    def to_json(self) -> dict[str, object]:
        """What `--format json` writes."""
        from tilewright import __version__
        from tilewright.report.findings.check_json import check_to_json

        return check_to_json(self.files, tool=f"tilewright {__version__}")

    def to_html(self) -> str:
        """What `--format html` writes: one page that needs no other file."""
        from tilewright import __version__
        from tilewright.report.findings.check_page import check_page
        from tilewright.report.html import render_page

        return render_page(check_page(self.files, f"Tilewright {__version__}"))

    def show(self) -> Path:
        """Write the page to a temporary file, open it in a browser, and return its path."""
        handle, name = tempfile.mkstemp(prefix="tilewright-", suffix=".html")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(self.to_html())
        webbrowser.open(Path(name).as_uri())
        return Path(name)

    def __str__(self) -> str:
        from tilewright.report.findings.check_text import render_check

        return render_check(self.files)

    def __repr__(self) -> str:
        kernels = self.kernels
        counts = ", ".join(
            f"{number} {word}"
            for word in ("refuted", "unknown", "proven")
            if (number := sum(kernel.verdict == word for kernel in kernels))
        )
        if len(kernels) == 1:
            counts = f"{kernels[0].name} {kernels[0].verdict}"
        errors = sum(bool(file.error) for file in self.files)
        parts = [counts] if counts else []
        if errors:
            parts.append(f"{errors} file{'s' if errors > 1 else ''} not checked")
        return f"<tilewright check of {self.name}: {'; '.join(parts) or 'nothing checked'}>"

    def _repr_html_(self) -> str:
        from tilewright.report.findings.check_summary import check_summary

        return check_summary(self.files)


def check(
    subject: Subject,
    *,
    launch: Launch | None = None,
    entry: str | None = None,
    isa: str = "tolerant",
    budget_seconds: float | None = DEFAULT_BUDGET_SECONDS,
    block: Sequence[int] | None = None,
    cluster: Sequence[int] | None = None,
    grid: Sequence[int] | None = None,
    repair: bool = True,
) -> CheckReport:
    """Prove or refute the asynchronous protocol of every kernel of `subject`.

    Args:
        subject: PTX, TTGIR or nvgpu MLIR text; the path of a file, or of a folder of .ptx files; a compiled kernel of
            Triton, CuPy or `tilewright.compile`.
        launch: A launch file's path or content. Without one, launches are explored.
        entry: Check this kernel alone.
        isa: Interpretation of contested points, as `--isa` takes it.
        budget_seconds: For each kernel; None for no limit.
        block: Threads along x, y, z, of a launch that leaves them out.
        cluster: CTAs of a cluster along x, y, z, of a launch that leaves them out.
        grid: CTAs along x, y, z, of a launch that leaves them out.
        repair: Look for edits that fix what is refuted.

    Raises:
        TilewrightError: The subject can't be read or has no PTX, or the launch or an option is wrong.
    """
    from tilewright.driver.check.options import REPAIR_STEPS
    from tilewright.driver.rules.isa import interpretations_of

    interpretations_of(isa)
    options = CheckOptions(
        isa, entry, budget_seconds, repair_steps=REPAIR_STEPS if repair else 0,
        block=_extents("block", block), cluster=_extents("cluster", cluster), grid=_extents("grid", grid),
    )  # fmt: skip
    known = launch_of(launch)
    if isinstance(subject, (str, PathLike)):
        given = fspath(cast("str | PathLike[str]", subject))
        if isinstance(subject, str) and is_text(given):
            return _raised(CheckReport((check_text(given, "<text>", launch=known, options=options),), "<text>"))
        return _raised(CheckReport(check_paths((given,), launch=known, options=options), given))
    name, text = ptx_of(subject)
    return _raised(CheckReport((check_text(text, f"<{name}>", launch=known, options=options),), name))


def is_text(subject: str) -> bool:
    """Is it PTX or MLIR, not a path? A path has one line, and does not begin with a directive or a comment."""
    begins = subject.lstrip().startswith((".", "//", "module", "#")) and not Path(subject).suffix
    return not subject.strip() or "\n" in subject or begins


def ptx_of(kernel: object) -> tuple[str, str]:
    """The name and the PTX text of a compiled kernel. Raises TilewrightError for what has none."""
    for read in (_of_triton, _of_bundle, _of_cupy):
        found = read(kernel)
        if found is not None:
            return found
    raise TilewrightError(
        f"a {type(kernel).__module__}.{type(kernel).__qualname__} is nothing that can be checked",
        remedy="give PTX text, a path, or a compiled kernel of Triton, CuPy or tilewright",
    )


def _of_triton(kernel: Any) -> tuple[str, str] | None:
    texts: Any = getattr(kernel, "asm", None)
    if texts is None:
        return None
    if "ptx" not in texts:
        raise TilewrightError("the compiled kernel has no PTX", remedy="compile it for an NVIDIA target")
    return str(getattr(kernel, "name", "kernel")), str(texts["ptx"])


def _of_bundle(kernel: Any) -> tuple[str, str] | None:
    bundle: Any = getattr(kernel, "bundle", kernel)
    text = getattr(bundle, "ptx", None)
    return (str(getattr(bundle, "name", "kernel")), text) if isinstance(text, str) else None


def _of_cupy(kernel: Any) -> tuple[str, str] | None:
    """CuPy keeps a RawKernel's source and options, not its PTX, so NVRTC compiles it once more."""
    if not type(kernel).__module__.startswith("cupy"):
        return None
    code, options = getattr(kernel, "code", None), tuple(getattr(kernel, "options", ()) or ())
    if not isinstance(code, str) or getattr(kernel, "backend", "nvrtc") != "nvrtc":
        raise TilewrightError("this CuPy kernel has no source for NVRTC", remedy="check the PTX that nvcc -ptx writes")
    nvrtc: Any = import_module("cupy.cuda.nvrtc")
    if not any(str(option).startswith(("-arch", "--gpu-architecture")) for option in options):
        options = (*options, "--gpu-architecture=compute_90a")
    program: Any = nvrtc.createProgram(code, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, tuple(str(option).replace("=sm_", "=compute_") for option in options))
        text: Any = nvrtc.getPTX(program)
    except nvrtc.NVRTCError as error:
        log = str(nvrtc.getProgramLog(program)).strip()
        raise TilewrightError(f"NVRTC: {error}\n{log}".strip(), remedy="correct the source, or its options") from error
    finally:
        nvrtc.destroyProgram(program)
    ptx = text.decode() if isinstance(text, bytes) else str(text)
    return str(getattr(kernel, "name", "kernel.cu")), ptx.rstrip("\0")


def launch_of(launch: Launch | None) -> LaunchFile | None:
    """A launch from a path or a document. Raises TilewrightError for a mistake in it."""
    from tilewright.driver.launch.launch_file import launch_from_json, read_launch_file

    if launch is None or isinstance(launch, LaunchFile):
        return launch
    if isinstance(launch, Mapping):
        return launch_from_json(dict(launch), "launch")
    return read_launch_file(fspath(launch))


def _extents(name: str, given: Sequence[int] | None) -> tuple[int, int, int] | None:
    if given is None:
        return None
    extents = (given,) if isinstance(given, int) else tuple(given)
    if not 1 <= len(extents) <= 3 or any(not 1 <= extent < 1 << 31 for extent in extents):
        raise TilewrightError(f"{name}={given!r}", remedy="give one to three extents of at least 1")
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def _raised(report: CheckReport) -> CheckReport:
    """The report; what could not be checked at all, as an error, where it is all there is."""
    errors = [file for file in report.files if file.error]
    if errors and len(errors) == len(report.files):
        first = errors[0]
        raise TilewrightError(first.error, remedy=first.remedy, findings=first.error_findings)
    return report
