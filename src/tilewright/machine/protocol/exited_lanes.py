"""Do lanes of a warp execute an instruction that all of its threads must execute, once some have exited?

`.aligned` says that all threads in the warp execute the same instruction; `bar.sync` without a word is
`barrier.sync.aligned`. The programming guide promises of `__syncthreads()` that only threads count that have not
exited, which the ISA does not say of any such instruction. So where lanes exit before others of their warp, no such
instruction may be on a way that the others can still go: otherwise the verdict is unknown.

Source: PTX ISA, `.aligned`, barrier{.cta}; CUDA C++ Programming Guide, Independent Thread Scheduling. Not handled:
lanes that part and meet again; exits behind which nothing of the protocol comes. Checked by:
tests/coverage_attacks/test_exited_lanes.py.
"""

from __future__ import annotations

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.state import Warp
from tilewright.machine.protocol.slice_flow import Flow

_ALIGNED_ROWS = ("bar.sync", "bar.arrive", "bar.red", "bar.cta.sync", "bar.cta.arrive", "bar.cta.red")


def needs_all_threads(item: Instruction) -> bool:
    """Whether all threads of a warp must execute an instruction."""
    return item.row in _ALIGNED_ROWS or "aligned" in item.modifiers or "aligned" in item.opcode.split(".")


def aligned_after(flow: Flow, spans: tuple[Span, ...]) -> Span | None:
    """The first instruction for all threads of a warp that may follow, from places in the text on."""
    waiting = [at for at, item in enumerate(flow.instructions) if item.span in spans]
    seen: set[int] = set()
    found: list[int] = []
    while waiting:
        begin = waiting.pop()
        block = flow.blocks[flow.block_of[begin]]
        if begin >= len(flow.instructions) or begin in seen:
            continue
        seen.add(begin)
        aligned = [at for at in range(begin, block.end) if needs_all_threads(flow.instructions[at])]
        found += aligned[:1]
        if not aligned:
            waiting += [flow.blocks[each].begin for each in block.successors]
    return flow.instructions[min(found)].span if found else None


class ExitedLanes:
    """Follows lanes that exit before others of their warp."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._known: dict[tuple[Span, ...], Span | None] = {}

    def __call__(self, warp: Warp, span: Span) -> None:
        cluster = warp.cta.cluster
        steps = cluster.program.steps
        spans = tuple(steps[strand.pc].span for strand in warp.strands if strand.pc < len(steps))
        if spans not in self._known:
            self._known[spans] = aligned_after(self._flow, spans)
        aligned = self._known[spans]
        if aligned is not None:
            why = f"all threads of a warp must execute this, and some may have exited before ({span})"
            cluster.undefined[aligned] = why
