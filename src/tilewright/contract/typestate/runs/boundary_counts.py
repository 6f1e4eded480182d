"""At which trip counts do a kernel's roles run, and what becomes of a violation?

At those where off-by-ones show: a symbol's minimum, a ring's stages and one more or fewer, twice round a ring.

Checked by: tests/contract/typestate/test_typestate_tokenmachine.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.program import Kernel, reaches_peers
from tilewright.contract.typestate.runs.token_machine import Machine
from tilewright.contract.typestate.runs.token_program import TokenProgram
from tilewright.contract.typestate.runs.token_state import NotRunnable, Violation
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import StreamPartOp, TurnStreamPartOp

_OVER_TILES = (
    ac.TilesOp, ac.TurnTilesOp, ac.GroupTilesOp, ac.TurnGroupTilesOp, StreamPartOp, TurnStreamPartOp
)  # fmt: skip
_RUNS = 24
_LARGEST_CLUSTER = 4
_STEPS_SHOWN = 12


def boundary_counts(kernel: Kernel) -> list[dict[str, int]]:
    """Values of the symbols to run at, smallest first."""
    stages = max((ring.stages for ring in kernel.rings.values()), default=1)
    outer = {op.symbol.data for op in kernel.operations.of(*_OVER_TILES)}
    parts = {op.slices.data for op in kernel.operations.of(StreamPartOp, TurnStreamPartOp)}
    names = sorted(kernel.symbols)
    options: list[list[int]] = []
    for name in names:
        # A symbol without a minimum is doubted elsewhere; its own value is all that may be run.
        least = kernel.minima.get(name, kernel.symbols[name])
        wanted = {0, 1, 2, 3} if name in outer else {1, stages - 1, stages, stages + 1, 2 * stages + 1}
        if name in parts:
            # As many combinations as without parts would take too long to list; whole tiles run at the others.
            wanted = {stages, stages + 1}
        options.append(sorted({least, *(value for value in wanted if value > least)}))
    # (product, sum, values): their own order is by size, and of as large ones by values.
    sizes: list[tuple[int, int, tuple[int, ...]]] = [(1, 0, ())]
    for values in options:
        sizes = [(size * max(1, one), total + one, (*point, one)) for size, total, point in sizes for one in values]
    sizes.sort()
    points = [point for _, _, point in sizes]
    limit = max(4, _RUNS // kernel.cluster_ctas)
    if len(points) > limit:
        # Keep the smallest, which give the shortest runs, and spread the rest over the larger ones.
        head, tail = points[: limit // 2], points[limit // 2 :]
        step = -(-len(tail) // (limit - limit // 2))
        points = [*head, *tail[step - 1 :: step]]
    return [dict(zip(names, point, strict=True)) for point in points]


def large_counts(kernel: Kernel) -> list[dict[str, int]]:
    """Counts at which every ring is full and more is to come, whichever loop fills it."""
    slots = sum(ring.stages for ring in kernel.rings.values()) + 1
    outer = sorted(op.symbol.data for op in kernel.operations.of(*_OVER_TILES))
    found: list[dict[str, int]] = []
    for tiles in (2, slots):
        for rest in (1, 2, slots):
            counts = {name: tiles if name in outer else rest for name in sorted(kernel.symbols)}
            found.append({name: max(value, kernel.minima.get(name, value)) for name, value in counts.items()})
    return found


def run_boundary_counts(kernel: Kernel, findings: Findings, *, large: bool = False) -> None:
    """Run the kernel's roles at boundary counts. A violation becomes a finding, or the run of an earlier one. large: at
    large ones as well, where a circle of waits is not excluded."""
    if kernel.cluster_ctas < 1 or not kernel.rings:
        return
    # One past all shared memory is refuted already, and would be run through as long as it is said to be.
    most_bytes = kernel.facts.limit("cta.shared_bytes_max")
    if any(ring.stages < 1 or ring.bytes > most_bytes for ring in kernel.rings.values()):
        return
    if kernel.cluster_ctas > _LARGEST_CLUSTER:
        kernel = replace(kernel, cluster_ctas=1) if not reaches_peers(kernel.operations) else kernel
    program = TokenProgram(kernel)
    counts = [*boundary_counts(kernel), *(large_counts(kernel) if large else ())]
    for number, symbols in enumerate(counts):
        try:
            Machine(kernel, symbols, number % 2 == 1, None, program).run()
        except NotRunnable:
            if not findings.found and not findings.doubts:
                findings.doubt("the roles can't be run at concrete counts", kernel.op)
            return
        except Violation as violation:
            _tell(program, symbols, number % 2 == 1, violation, findings)
            return


def _tell(
    program: TokenProgram, symbols: Mapping[str, int], eager: bool, violation: Violation, findings: Findings
) -> None:
    trace: list[str] = []
    with suppress(Violation):
        Machine(program.kernel, symbols, eager, trace, program).run()
    counts = ", ".join(f"{name} = {value}" for name, value in symbols.items())
    steps = (f"with {counts or 'no symbols'}:", *trace[-_STEPS_SHOWN:], violation.message)
    if not findings.found:
        findings.report(violation.code, violation.operation, f"{violation.message} (with {counts})", steps=steps)
        return
    first = findings.found[0]
    if not first.interleaving:
        findings.found[0] = replace(first, interleaving=steps)
