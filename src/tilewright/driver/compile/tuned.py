"""`tune=True`: the compiler's choice and its nearest alternatives timed on the GPU, and the winner kept on disk.

Every candidate (`tune.candidates`) is compiled and proven as any kernel; one that is refused or spills is left out. The
times alternate on the GPU (`runtime.alternating`), in two races (`tune.fastest`), and the winner is kept as a request:
what fixes its tile, keyed by program, target and version. So a program that was tuned once is compiled like any other
afterwards, on a machine without a GPU, too.

Not handled: the key does not name the GPU, so that what an H100 found quickest serves an H200; several processes that
tune one program at the same time each do so. Checked by: tests/driver/compile/test_tuned.py with a timer of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile import cache
from tilewright.driver.compile.compile import Progress, aligned, elements_of
from tilewright.driver.compile.sequence import uncut
from tilewright.driver.run.random_integers import random_integers
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.shapes import Dims
from tilewright.frontends.tile.trace import fingerprint, trace
from tilewright.runtime import device as gpu
from tilewright.runtime.alternating import alternating_times
from tilewright.runtime.assemble import find_ptxas
from tilewright.runtime.bundle import Bundle
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target as target_named
from tilewright.tune.candidates import candidates
from tilewright.tune.fastest import winner

Timer = Callable[[Sequence[Bundle]], Sequence[Sequence[float]]]
"""Microseconds of each program, by rounds; none of one that cannot run."""

Compile = Callable[[Wanted], Bundle]


@dataclass(frozen=True, slots=True)
class Program:
    """What is tuned: a kernel with its extents, elements and strides, for a target."""

    kernel: Kernel
    dims: Dims
    target: str
    dtype: str | Element | Mapping[str, str | Element]
    strides: Mapping[str, tuple[int, ...]] | None

    def key(self, wanted: Wanted) -> str:
        """Of the winner's record."""
        digest = fingerprint(trace(self.kernel, self.dims, elements_of(self.kernel, self.dtype), self.strides))
        return cache.cache_key(digest, self.target, f"tuned {wanted!r}", find_ptxas().version)


def tuned(
    program: Program,
    wanted: Wanted,
    compile_one: Compile,
    *,
    cached: bool = True,
    progress: Progress | None = None,
) -> Wanted:
    """`wanted`, with the quickest tile fixed: as it was kept, or as it is timed now.

    compile_one: compiles and proves a candidate. Raises TilewrightError for a program that has nothing to tune, without
    a GPU of the target, and as compiling raises.
    """
    key = program.key(wanted)
    kept = _requested(cache.fetch_record(key), wanted) if cached else None
    if kept is not None:
        return kept
    timer = gpu_timer(program)
    requests = _requests(program, wanted)
    bundles: dict[int, Bundle] = {}
    for place, request in enumerate(requests):
        if progress is not None:
            progress(f"candidate {place + 1} of {len(requests)}")
        try:
            bundles[place] = compile_one(request)
        except TilewrightError as error:
            # A candidate may not fit; the program itself has to, and a refuted text is a fault to report.
            if place == 0 or error.findings:
                raise
    if progress is not None:
        progress(f"time {len(bundles)} candidates")
    able = list(bundles)
    taken = requests[able[winner(len(able), lambda places: timer([bundles[able[place]] for place in places]))]]
    cache.keep_record(key, _record(taken, wanted))
    return taken


def _requests(program: Program, wanted: Wanted) -> list[Wanted]:
    facts = target_named(program.target)
    elements = elements_of(program.kernel, program.dtype)
    kernel, known = aligned(program.kernel, elements, wanted)
    source = trace(kernel, program.dims, elements, program.strides)
    known = replace(known, mapped=tuple(item.name for item in kernel.parameters if item.by_map))

    def form(request: Wanted) -> ModuleOp:
        return uncut(source, facts, request)[-1].module

    found = candidates(form(known), facts, known, form)
    if len(found) == 1:
        raise TilewrightError(
            f"{program.kernel.name} has one kernel that the compiler would choose, and nothing to tune",
            span=program.kernel.span,
            remedy="compile it untuned; products of two matrices have tiles to tune",
        )
    return [replace(each, mapped=wanted.mapped, misaligned=wanted.misaligned) for each in found]


def gpu_timer(program: Program) -> Timer:
    """What times kernels on this machine's GPU. Raises TilewrightError where there is none of the program's target."""
    try:
        gpu.require_target(gpu.open_device(), program.target, program.kernel.name)
    except TilewrightError as error:
        raise TilewrightError(
            f"tuning times kernels on a GPU of {program.target}: {error.message}",
            remedy="tune on the machine that will run the kernel, or compile untuned",
        ) from error

    def times(bundles: Sequence[Bundle]) -> list[list[float]]:
        first = bundles[0]
        integers = random_integers(first, [each for each in first.plan.buffers if each.role == "input"])
        return alternating_times(bundles, integers)

    return times


def _record(winner: Wanted, wanted: Wanted) -> dict[str, object]:
    """What a request fixes beyond what was asked for."""
    before, after = asdict(wanted), asdict(winner)
    return {name: value for name, value in after.items() if value != before[name]}


def _requested(record: Mapping[str, Any] | None, wanted: Wanted) -> Wanted | None:
    """The request that a record stands for; None for no record, and for one of another form."""
    if record is None or not set(record) <= {each.name for each in fields(Wanted)}:
        return None
    values: dict[str, Any] = dict(record)
    return replace(wanted, **{name: _tuples(value) for name, value in values.items()})


def _tuples(value: Any) -> Any:
    """JSON's lists as what they were."""
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value
