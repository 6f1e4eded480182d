"""`tilewright run FILE.ptx --launch FILE.json`: a foreign kernel on bytes from an `.npz` file, judged as it runs."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError
from tilewright.cli.terminal.finding_flags import allowed, listed, view_of

if TYPE_CHECKING:
    from tilewright.base.check_report import Suppressed
    from tilewright.driver.run.run_ptx import PtxRun
    from tilewright.report.findings.finding_lines import View


def run_ptx(arguments: argparse.Namespace) -> int:
    """Run, write every buffer where --outputs asks for it, report. 1 for a fault, a race or a hang."""
    import numpy as np

    from tilewright.cli.arrays import read_arrays
    from tilewright.cli.terminal.files import require_writable, write_files
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.check.finding_filter import finding_filter
    from tilewright.driver.check.sources.text_file import read_given
    from tilewright.driver.launch.launch_file import read_launch_file
    from tilewright.driver.rules.isa import interpretations_of, with_contested
    from tilewright.driver.run.run_ptx import buffers_for, run_on_gpu, run_on_machine

    path = str(arguments.bundle)
    text, file = "", path
    if path != "-":
        text, file = read_given(path)  # a file that is not there is the mistake to name, not its launch
    if not arguments.launch:
        raise TilewrightError(
            f"how {path} is launched is not known", remedy="give --launch launch.json (docs/launch-file.md)"
        )
    interpretations = interpretations_of(arguments.isa or "tolerant")
    view = view_of(arguments)
    chosen = finding_filter(allowed(arguments), listed(arguments.select), listed(arguments.ignore))
    require_writable((arguments.outputs,), (path, arguments.launch, arguments.inputs))
    launch = read_launch_file(arguments.launch)
    if path == "-":
        text, file = read_given(path)
    given = read_arrays(arguments.inputs) if arguments.inputs else {}
    arrays = buffers_for(launch, given, arguments.inputs or "no file")
    begin = time.perf_counter()
    on_gpu = arguments.on == "gpu"
    if on_gpu:
        done = run_on_gpu(text, file, launch, arrays)
    else:
        with Progress(wanted=arguments.format == "text", after_seconds=2.0) as progress:
            progress.step(f"running {path} on the CPU machine")
            done = run_on_machine(
                text,
                file,
                launch,
                arrays,
                interpretations=interpretations,
                seed=arguments.seed,
                progress=progress.share,
            )
    seconds = time.perf_counter() - begin
    kept, suppressed = chosen.split(with_contested(each, interpretations) for each in done.findings)
    done = replace(done, findings=kept)
    written: list[str] = []
    if arguments.outputs and done.finished:
        stream = BytesIO()
        np.savez(stream, **done.arrays)  # pyright: ignore[reportArgumentType]
        written = write_files({Path(arguments.outputs): stream.getvalue()})
    where = f"{'GPU' if on_gpu else 'CPU machine'}: {'ran to its end' if done.finished else 'did not end'}"
    if arguments.format == "json":
        _print_json(done, suppressed, "GPU" if on_gpu else "CPU machine", seconds, written)
    else:
        _say(done, suppressed, f"{done.entry} on the {where}, {seconds:.2f} s", written, view)
    return 1 if done.errors and not arguments.exit_zero else 0


def _print_json(
    done: PtxRun, suppressed: tuple[Suppressed, ...], where: str, seconds: float, written: list[str]
) -> None:
    from tilewright.report.findings.findings_json import finding_to_json, findings_to_json

    document = {
        "name": done.entry,
        "on": where,
        "seconds": seconds,
        "finished": done.finished,
        "findings": findings_to_json(done.findings),
        "suppressed": [{**finding_to_json(each.finding), "reason": each.reason, "by": each.by} for each in suppressed],
        "written": written,
    }
    print(json.dumps(document, indent=2))


def _say(done: PtxRun, suppressed: tuple[Suppressed, ...], summary: str, written: list[str], view: View) -> None:
    """How the run ended, then what was found, as in a check's report. Quiet, a clean run says nothing."""
    from tilewright.cli.terminal.printing import STYLES, say
    from tilewright.report.findings.finding_lines import finding_lines, statistics_lines

    if view.quiet and done.finished and not done.errors:
        return
    say(summary, STYLES["bad" if done.errors or not done.finished else "good"])
    lines = statistics_lines(done.findings) if view.statistics else finding_lines(done.findings, suppressed, view)
    for line, tone in lines:
        say(line, STYLES[tone])
    for path in () if view.quiet else written:
        say(f"wrote {path}")
