"""`tilewright run FILE.ptx --launch FILE.json`: a foreign kernel on bytes from an `.npz` file, judged as it runs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.diagnostic import Level
from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    from tilewright.driver.run.run_ptx import PtxRun


def run_ptx(arguments: argparse.Namespace) -> int:
    """Run, write every buffer where --outputs asks for it, report. 1 for a fault, a race or a hang."""
    import numpy as np

    from tilewright.cli.arrays import read_arrays
    from tilewright.cli.files import require_writable, write_files
    from tilewright.cli.progress import Progress
    from tilewright.driver.check.check import decode_text, read_text
    from tilewright.driver.check.isa import readings_of
    from tilewright.driver.launch.launch_file import read_launch_file
    from tilewright.driver.run.run_ptx import buffers_for, run_on_gpu, run_on_machine

    path = str(arguments.bundle)
    if not arguments.launch:
        raise TilewrightError(
            f"how {path} is launched is not known", remedy="give --launch launch.json (docs/launch-file.md)"
        )
    readings = readings_of(arguments.isa or "tolerant")
    require_writable((arguments.outputs,), (path, arguments.launch, arguments.inputs))
    launch = read_launch_file(arguments.launch)
    if path == "-":
        text, file = decode_text(sys.stdin.buffer.read(), "standard input"), "<stdin>"
    else:
        text, file = read_text(path), path
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
                readings=readings,
                seed=arguments.seed,
                progress=progress.share,
            )
    seconds = time.perf_counter() - begin
    written: list[str] = []
    if arguments.outputs and done.finished:
        stream = BytesIO()
        np.savez(stream, **done.arrays)  # pyright: ignore[reportArgumentType]
        written = write_files({Path(arguments.outputs): stream.getvalue()})
    _report(done, "GPU" if on_gpu else "CPU machine", seconds, written, arguments.format)
    return 1 if done.errors else 0


def _report(done: PtxRun, where: str, seconds: float, written: list[str], form: str) -> None:
    if form == "json":
        from tilewright.report.findings_json import findings_to_json

        document = {
            "name": done.entry,
            "on": where,
            "seconds": seconds,
            "finished": done.finished,
            "findings": findings_to_json(done.findings),
            "written": written,
        }
        print(json.dumps(document, indent=2))
        return
    from tilewright.cli.show import say, show_finding

    shown = 0
    for finding in sorted(done.findings, key=lambda each: each.level is not Level.ERROR):
        # One missing synchronization shows at many places: the first few of each run are enough here.
        if shown < 5:
            show_finding(finding)
        shown += 1
    if shown > 5:
        say(f"and {shown - 5} more findings (tilewright check shows them)")
    ended = "ran to its end" if done.finished else "did not end"
    say(f"{done.entry} on the {where}: {ended}, {seconds:.2f} s")
    for path in written:
        say(f"wrote {path}")
