"""How many wavefronts does each shared-memory access of a compiled kernel take, line by line?

The kernel runs on the CPU machine, and every load and store of shared memory tells its lanes' addresses
(`machine.events_only.lane_addresses`), which the bank model counts (`legal.bank.banks`). So addresses that depend on
data, on masks or on loops are those of this very run. Each line gets its executions by warps, its wavefronts and what
they would be without conflicts; where the text has `.loc`, the line of the program that it was compiled from, as
findings of `check` have it.

Not handled: accesses whose conflicts are not modelled, which are listed with the reason; copies and matrix
instructions, which are no accesses of lanes. The addresses of static variables are the machine's, an assembler may
order them otherwise. Checked by tests/driver/views/test_bank_report.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np
from numpy.typing import NDArray

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.driver.check.defect import defects_as_errors
from tilewright.driver.check.sources.origin import ptx_origins
from tilewright.driver.check.sources.source_text import SourceFiles
from tilewright.driver.launch.given_launch import LaunchFile, placed
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.frontends.ptx.reader import read
from tilewright.legal.bank.access_kind import access_kind, lane_groups
from tilewright.legal.bank.banks import wavefronts
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.program import Program, decode
from tilewright.machine.core.run import STEP_LIMIT, cluster_origins, prepare, start_cluster
from tilewright.machine.core.scheduler import run_cluster
from tilewright.machine.core.state import Counts
from tilewright.machine.events_only.lane_addresses import Asked, Refused, span_of, watched
from tilewright.runtime.bundle import Bundle
from tilewright.targets import Target

_ROWS_AT_ONCE = 4096
Arrays = Mapping[str, NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class AccessLine:
    """One instruction. span: in the PTX text; origin: in the program it was compiled from, if the text says; kind: as
    `legal.bank.access_kind` calls it; executions: by warps; wavefronts: of all of them; ideal: the groups of lanes that
    they served, which would take one wavefront each without conflicts, or fewer; worst: wavefronts of the worst
    execution; worst_addresses: of its lanes, -1 for those that took no part."""

    span: Span
    origin: Span | None
    kind: str
    executions: int
    wavefronts: int
    ideal: int
    worst: int
    worst_addresses: tuple[int, ...]

    @property
    def excess(self) -> int:
        """Wavefronts that conflicts cost."""
        return self.wavefronts - self.ideal


@dataclass(frozen=True, slots=True)
class UncountedLine:
    """An instruction whose conflicts are not counted."""

    span: Span
    reason: str
    executions: int


@dataclass(frozen=True, slots=True)
class BankReport:
    """Of one launch. lines: in the text's order; clusters: how many of the launch's ran; ending: the fault or the hang
    that ended the run early, after which nothing is counted."""

    entry: str
    lines: tuple[AccessLine, ...]
    uncounted: tuple[UncountedLine, ...]
    clusters: int
    clusters_of_launch: int
    ending: Diagnostic | None = None

    @property
    def wavefronts(self) -> int:
        return sum(line.wavefronts for line in self.lines)

    @property
    def ideal(self) -> int:
        return sum(line.ideal for line in self.lines)


def bank_report_of_ptx(
    text: str, file: str, launch: LaunchFile, arrays: Arrays | None = None, *, clusters: int | None = None
) -> BankReport:
    """Run a kernel of a PTX text and count.

    arrays: bytes of buffers by name, zeros for the rest; they are not changed. clusters: how many to run, all if None.
    Raises TilewrightError for a text that is no PTX, a launch that is not this kernel's, and an instruction that the
    machine lacks; a fault or a hang ends the report.
    """
    with defects_as_errors(f"the text of {file}"):
        module = read(text, file, tolerant=True)
    whole = placed(launch.resolve(launch.kernel(module, file)), launch.buffers)
    memory = {buffer.name: np.zeros(buffer.size_bytes, np.uint8) for buffer in whole.buffers}
    for name, data in (arrays or {}).items():
        memory[name][whole.shifts[name] :] = data
    with defects_as_errors(f"{whole.launch.entry} in {file}"):
        return bank_report(module, whole.launch, memory, clusters=clusters)


def bank_reports_of_bundle(bundle: Bundle, arrays: Arrays, *, clusters: int | None = None) -> tuple[BankReport, ...]:
    """Run every launch of a compiled program in order and count.

    arrays: bytes of buffers by name, changed in place, zeros for the rest. Raises as `bank_report_of_ptx` does.
    """
    module = read(bundle.ptx, f"<{bundle.name}.ptx>")
    memory = {
        buffer.name: arrays[buffer.name] if buffer.name in arrays else np.zeros(buffer.span_bytes, np.uint8)
        for buffer in bundle.plan.buffers
    }
    return tuple(bank_report(module, launch, memory, clusters=clusters) for launch in bundle.plan.launches)


def bank_report(
    module: Module, launch: Launch, buffers: Mapping[str, NDArray[np.uint8]], *, clusters: int | None = None
) -> BankReport:
    """Run one launch and count. buffers: contiguous bytes by name, changed in place; clusters: how many, in order."""
    prepared = prepare(module, launch, buffers)
    plain = decode(prepared.decoder)
    tally = _Tally(prepared.target)
    program = watched(plain, tally.record)
    origins = cluster_origins(launch)
    most = len(origins) if clusters is None else min(clusters, len(origins))
    ran, ending, counts, random = 0, None, Counts(), Random(0)
    with np.errstate(all="ignore"):
        try:
            for index in range(most):
                run_cluster(start_cluster(prepared, program, random, counts, index, origins[index]), STEP_LIMIT)
                ran += 1
        except (MachineFault, MachineHang) as stop:
            ending = stop.diagnostic
    lines, uncounted = tally.lines(module, prepared.kernel, program)
    return BankReport(launch.entry, lines, uncounted, ran, len(origins), ending)


@dataclass(slots=True)
class _Sums:
    """What an instruction's executions came to, and those that were not yet judged."""

    kind: str
    executions: int = 0
    wavefronts: int = 0
    ideal: int = 0
    worst: int = 0
    worst_addresses: tuple[int, ...] = ()
    waiting: list[Asked] = field(default_factory=list[Asked])


class _Tally:
    """Executions, by instruction."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.sums: dict[int, _Sums] = {}
        self.refused: Counter[tuple[int, str]] = Counter()

    def record(self, report: Asked | Refused) -> None:
        match report:
            case Refused(step, reason):
                self.refused[step, reason] += 1
            case Asked(step, kind):
                sums = self.sums.setdefault(step, _Sums(kind))
                sums.waiting.append(report)
                if len(sums.waiting) >= _ROWS_AT_ONCE:
                    self._judge(sums)

    def _judge(self, sums: _Sums) -> None:
        if not sums.waiting:
            return
        addresses = np.stack([asked.offsets for asked in sums.waiting])
        active = np.stack([asked.active for asked in sums.waiting])
        sums.waiting.clear()
        each = wavefronts(sums.kind, addresses, self.target, active)
        groups = np.array(lane_groups(access_kind(sums.kind), self.target))
        served = active[:, groups].any(axis=2).sum(axis=1)
        sums.executions += len(each)
        sums.wavefronts += int(each.sum())
        # Loads in pairs may take fewer wavefronts than groups.
        sums.ideal += int(np.minimum(served, each).sum())
        worst = int(each.argmax())
        if each[worst] > sums.worst:
            sums.worst = int(each[worst])
            sums.worst_addresses = tuple(np.where(active[worst], addresses[worst], -1).tolist())

    def lines(
        self, module: Module, kernel: Kernel, program: Program
    ) -> tuple[tuple[AccessLine, ...], tuple[UncountedLine, ...]]:
        lines: list[AccessLine] = []
        named = next((each for each in module.kernels if each.name == kernel.name), kernel)
        origins = ptx_origins(module, named, SourceFiles(kernel.span.file))
        for step, sums in sorted(self.sums.items()):
            self._judge(sums)
            span = span_of(program, step)
            origin, _ = origins.stack(span)
            lines.append(
                AccessLine(
                    span, origin, sums.kind, sums.executions, sums.wavefronts, sums.ideal, sums.worst,
                    sums.worst_addresses,
                )
            )  # fmt: skip
        uncounted = [
            UncountedLine(span_of(program, step), reason, times)
            for (step, reason), times in sorted(self.refused.items())
        ]
        return tuple(lines), tuple(uncounted)
