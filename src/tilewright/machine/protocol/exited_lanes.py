"""Do lanes of a warp execute an instruction for which they wait for one another, once some have exited?

`.aligned` says that all threads in the warp execute the same instruction; `bar.sync` without a word is
`barrier.sync.aligned`. Of `mma`, `wmma`, `ldmatrix`, `stmatrix` and `movmatrix` the ISA says besides that they are
undefined if any thread of the warp has exited. The programming guide promises of `__syncthreads()` that only threads
count that have not exited, which the ISA does not say of any such instruction. So where lanes exit before others of
their warp, no such instruction may be on a way that the others can still go: otherwise the verdict is unknown.

`shfl.sync`, `vote.sync`, `match.sync` and `redux.sync` wait for all *non-exited* threads of their member mask, and may
follow; a shuffle that reads a lane which has exited is a fault (MF005). `elect.sync` and `bar.warp.sync` wait for all
threads of their mask: unknown, where it names one that has exited, or is no constant.

Source: PTX ISA, `.aligned`, barrier{.cta}, mma, ldmatrix, stmatrix, shfl.sync, vote.sync, match.sync, redux.sync,
elect.sync, bar.warp.sync; CUDA C++ Programming Guide, Independent Thread Scheduling. Not handled: exits behind which
nothing of the protocol comes. Lanes that part and meet again: `lanes_together`. Checked by:
tests/coverage_attacks/test_exited_lanes.py.
"""

from __future__ import annotations

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Immediate, Instruction
from tilewright.machine.core.lanes import FULL, to_bits
from tilewright.machine.core.state import Warp
from tilewright.machine.protocol.lanes_together import needs_all_threads
from tilewright.machine.protocol.slicing.slice_flow import Flow

_NAMING = ("elect.sync", "bar.warp.sync")
"""Instructions that wait for all threads of a mask, their last operand."""


def _waits_for(item: Instruction, exited: int) -> bool:
    """Whether an instruction may wait for lanes that have exited, given as bits."""
    if needs_all_threads(item):
        return True
    if item.row not in _NAMING:
        return False
    mask = item.operands[-1]
    return not isinstance(mask, Immediate) or bool(int(mask.value) & exited)


def awaited_after(flow: Flow, spans: tuple[Span, ...], exited: int) -> Span | None:
    """The first instruction by which lanes may wait for those that have exited, from places in the text on."""
    waiting = [at for at, item in enumerate(flow.instructions) if item.span in spans]
    seen: set[int] = set()
    found: list[int] = []
    while waiting:
        begin = waiting.pop()
        block = flow.blocks[flow.block_of[begin]]
        if begin >= len(flow.instructions) or begin in seen:
            continue
        seen.add(begin)
        here = [at for at in range(begin, block.end) if _waits_for(flow.instructions[at], exited)]
        found += here[:1]
        if not here:
            waiting += [flow.blocks[each].begin for each in block.successors]
    return flow.instructions[min(found)].span if found else None


class ExitedLanes:
    """Follows lanes that exit before others of their warp."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._known: dict[tuple[tuple[Span, ...], int], Span | None] = {}

    def __call__(self, warp: Warp, span: Span) -> None:
        cluster = warp.cta.cluster
        steps = cluster.program.steps
        spans = tuple(steps[strand.pc].span for strand in warp.strands if strand.pc < len(steps))
        key = spans, to_bits(FULL & ~warp.live)
        if key not in self._known:
            self._known[key] = awaited_after(self._flow, *key)
        awaited = self._known[key]
        if awaited is not None:
            why = f"this waits for all threads of a warp, and some may have exited before ({span})"
            cluster.undefined[awaited] = why
