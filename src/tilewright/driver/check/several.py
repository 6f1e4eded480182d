"""How are many files checked? In several processes if so asked, and not again where nothing has changed.

A file is one job: its kernels share a text and a time limit. Each process checks one file after the other; reports come
back in the order of the files, whichever is done first, and are those that one process makes. A process that dies takes
one file's report with it, which says so. Checked by: tests/cli/test_several.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tilewright.base.check_report import FileReport
from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.check.sources.text_file import read_text
from tilewright.driver.launch.given_launch import LaunchFile
from tilewright.driver.launch.launch_file import read_launch_file


@dataclass(frozen=True, slots=True)
class Job:
    """A file to check. launch: of one kernel, which is checked alone; launches: paths of the launch files of its
    kernels, used where `launch` is None; cached: may a report that was made before be taken, and this one be kept."""

    path: str
    options: CheckOptions
    launch: LaunchFile | None = None
    launches: tuple[str, ...] = ()
    cached: bool = False


def check_job(job: Job) -> FileReport:
    """The report of one file. A file or a launch that can't be read is an error of the report."""
    try:
        text = read_text(job.path)
        launches = () if job.launch is not None else tuple(map(read_launch_file, job.launches))
    except TilewrightError as error:
        return FileReport(job.path, error=_with_place(error), remedy=error.remedy)
    options = replace(job.options, launches=launches)
    if not job.cached or options.timeline:
        return _checked(text, job, options)
    from tilewright.driver.check.result_cache import fetch, keep, result_key

    given = launches if job.launch is None else (job.launch,)
    key = result_key(text, job.path, given, options, alone=job.launch is not None)
    found = fetch(key, text)
    if found is None:
        found = _checked(text, job, options)
        keep(key, found)
    return found


def _checked(text: str, job: Job, options: CheckOptions) -> FileReport:
    from tilewright.driver.check.check import check_text  # a report that was kept needs none of it

    return check_text(text, job.path, launch=job.launch, options=options)


def check_jobs(jobs: Sequence[Job], processes: int, done: Callable[[str], None]) -> tuple[FileReport, ...]:
    """Reports of all jobs, in order. processes: that check at once, 0 for one on each processor; done: gets the path of
    each file whose report is there."""
    wanted = min(processes or os.cpu_count() or 1, len(jobs))
    if wanted <= 1:
        return tuple(map(check_job, jobs))
    return tuple(_in_processes(jobs, wanted, done))


def _in_processes(jobs: Sequence[Job], processes: int, done: Callable[[str], None]) -> Iterator[FileReport]:
    import multiprocessing
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        # A callback does not travel to another process.
        alone = [replace(job, options=replace(job.options, progress=None)) for job in jobs]
        futures: list[Future[FileReport]] = [pool.submit(check_job, job) for job in alone]
        for job, future in zip(jobs, futures, strict=True):
            try:
                yield future.result()
            except BrokenProcessPool:
                yield FileReport(
                    job.path,
                    error=f"the process that checked {job.path}, or a file beside it, ended before it was done",
                    remedy="check it with -j 1; if memory ran out, use fewer processes",
                )
            done(job.path)


def _with_place(error: TilewrightError) -> str:
    return f"{error.span}: {error.message}" if error.span is not None else error.message
