"""Is a run of a kernel free of races and hangs in every interleaving, not just in the one that happened?

The judge takes a run's events one at a time and decides of the partial order that they imply. Clocks (`vector_clock`)
say what a warp knows; an access conflicts with an earlier one if both touch a byte and one writes (`shadow_memory`):

- two ordinary accesses must be ordered: the later warp knows the earlier event;
- an ordinary access and a later one by an engine (bulk copy, wgmma, tcgen05): whoever issues the engine must know a
  proxy fence that follows the access;
- an engine's access and anything later: the later one must know what reports the engine's completion: the mbarrier
  phase of a load, the bulk group of a store, the wgmma group.

Waits of CTAs for words of global memory are judged by `awaited_words`, given the loads that wait. Mbarriers are judged
by `phase_ledger`; between CTAs they order memory only if both sides name the cluster's scope, and what is told
otherwise is `out_of_scope_order`. Lanes of one warp are threads, too, which `lane_order` judges. If every
synchronization is so ordered that it would be the same in any interleaving, and no access races, then values and
control flow are the same too, and one run that ends stands for all.

The subjects are in `judge_*`, which share `launch_state`. What is taken on trust, and named in `ASSUMPTIONS`: a wait of
one lane counts for its warp. Taken from the caller: a wait that fails is tried again (`retried_waits` reads that off
the text), and, with `follows_values`, that nothing but waiting depends on which of several unordered strong writes a
strong read sees; else such reads are doubted.
Not handled: scopes of a bulk copy's complete_tx (see `out_of_scope_order`); a fence beside a relaxed arrival, which
counts as none.
Checked by: tests/contract/judge/test_happens_before.py, test_happens_before_rules.py, test_barrier_scopes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.contract.judge import phase_ledger
from tilewright.contract.judge.events import accesses as judge_accesses
from tilewright.contract.judge.exit_rules import check_exit
from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.order.grid_dependency import judge_grid
from tilewright.contract.replay.unwritten import Contents, FreshBytes, left_unwritten
from tilewright.contract.rules.interpretations import Interpretations
from tilewright.machine.core import event as events
from tilewright.machine.core.event import Actor, Event
from tilewright.machine.core.fault import MachineHang
from tilewright.machine.protocol.loops.polls import Poll

__all__ = ["ASSUMPTIONS", "HappensBefore", "Interpretations"]

ASSUMPTIONS = (
    "what one lane of a warp waits for at an mbarrier, its other lanes have waited for",
    "no value that steers control or addresses comes from a clock",
)

_KINDS = {
    "accesses": "Access MemoryFence",
    "async_copies": "AsyncCopyIssue AsyncCopyCommit AsyncCopyWait AsyncCopyArriveIssue AsyncCopyArrive",
    "barriers": "BarrierInit BarrierInvalidate BarrierArrive BarrierExpect PhaseEnd BarrierWait BarrierPeek",
    "copies": "CopyIssue BulkCommit BulkWait BarrierComplete TensorMapFence",
    "fences": "ProxyFence",
    "launch": "RegisterBudget GridDependency Exit",
    "rendezvous": "NamedBarrierArrive NamedBarrier ClusterArrive ClusterBarrier ClusterWait",
    "tensor_memory": (
        "TensorMemoryAllocate TensorMemoryDeallocate TensorMemoryRelinquish TensorMemoryIssue TensorMemoryWait "
        "TensorMemoryFence TensorMemoryCommit CommitArrive TensorMemoryRegisterUse"
    ),
    "warpgroup": "WgmmaFence WgmmaIssue WgmmaCommit WgmmaWait RegisterHazard",
}
"""The kinds of events that each module of `contract.judge.events` judges, by the module's name. A module is loaded with
the first event of its kinds."""

_MODULES = {kind: module for module, kinds in _KINDS.items() for kind in kinds.split()}

Handler = Callable[[LaunchState, Any], None]


class _Handlers(dict[type, Handler]):
    """What judges an event, by its kind, as far as one was met."""

    def __missing__(self, kind: type) -> Handler:
        self.update(import_module(f"tilewright.contract.judge.events.{_MODULES[kind.__name__]}").HANDLERS)
        return self[kind]


_HANDLERS = _Handlers()


class HappensBefore:
    """The judge of one launch. Feed it every event in order, then ask `finish`; `doubts` are reasons why a clean run
    would not stand for all interleavings.

    follows_values: the caller knows of every decision that depends on what a strong access read. unread: places of
    atomic operations whose results nobody uses (red). any_global_address: global addresses are made up, so that no two
    accesses of global memory are said to meet. polls: the loads of the text that wait for words of global memory.
    contents: what memory holds when the launch begins; None: nothing is said of bytes that nobody wrote.
    asking: loads of the text that may come before the grids before have ended (`waits.asking_loads`).
    reserved_bytes: of each CTA's shared memory, from 0 on, which nobody may touch.
    """

    def __init__(
        self, launch: Launch, interpretations: Interpretations | None = None, *, follows_values: bool = False,
        unread: frozenset[Span] = frozenset(), any_global_address: bool = False,
        polls: Mapping[Span, Poll] | None = None, contents: Contents | None = None, reserved_bytes: int = 0,
        asking: frozenset[Span] = frozenset(),
    ) -> None:  # fmt: skip
        self.state = LaunchState(
            launch, interpretations or Interpretations(), any_global_address=any_global_address, polls=polls,
            contents=contents, reserved_bytes=reserved_bytes, asking=asking,
        )  # fmt: skip
        self._follows_values = follows_values
        self._unread = unread
        self._finished = False

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """Findings so far, before anything is judged that only the end can show."""
        return tuple(map(self.state.roles.named, self.state.findings.found.values()))

    @property
    def doubts(self) -> tuple[str, ...]:
        return tuple(self.state.findings.doubts)

    @property
    def repeated_stores(self) -> frozenset[Span]:
        """Stores that several warps make to the same bytes, unordered, of values whose identity is not known."""
        return frozenset(self.state.repeated_stores)

    @property
    def compared_stores(self) -> frozenset[tuple[Span, Actor, Actor]]:
        """Such stores that were found to be of one value, with the two warps that made them."""
        return frozenset(self.state.compared_stores)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a clean run takes for granted."""
        return (*ASSUMPTIONS, *self.state.awaited.assumptions(resident=self.state.launch.resident))

    @property
    def handlers(self) -> dict[type, Callable[[Any], None]]:
        """What takes the next event of the run, by its kind: all kinds of `machine.core.event`."""
        kinds: list[type] = [getattr(events, name) for name in _MODULES]
        return {kind: partial(_HANDLERS[kind], self.state) for kind in kinds}

    def feed(self, event: Event) -> None:
        """Take the next event of the run. Raises KeyError on an event of a kind that is not in `machine.core.event`."""
        _HANDLERS[type(event)](self.state, event)

    def left_unwritten(self) -> tuple[FreshBytes, ...]:
        """Bytes of `contents` that held nothing when the launch began, and that it has not written so far."""
        contents = self.state.unwritten.contents
        return () if contents is None else left_unwritten(contents, self.state.global_order.accesses.never_written)

    def below_shared(self) -> tuple[Diagnostic, ...]:
        """Accesses of reserved shared memory, once the run has ended."""
        for cluster in self.state.clusters.values():
            self.state.below_shared.look(cluster)
        return self.state.below_shared.findings()

    def let_go(self) -> None:
        """Nothing more is asked of what was judged: it is freed."""
        self.state.let_go()

    def hang(self, hang: MachineHang) -> tuple[Diagnostic, ...]:
        """The run hung: its cause, before what was found until then."""
        from tilewright.contract.judge.deadlock import diagnose

        for cluster in self.state.clusters.values():
            phase_ledger.late_waits(cluster, self.state.interpretations, self.state.findings)
        return (self.state.roles.named(diagnose(self.state, hang)), *self.findings)

    def finish(self) -> tuple[Diagnostic, ...]:
        """The run has ended: judge what is left, and return all findings. Findings of level REVIEW refute nothing."""
        if not self._finished:
            self._finished = True
            state = self.state
            for cluster in state.clusters.values():
                check_exit(cluster, state.interpretations, state.findings)
            programmatic = state.launch.programmatic
            judge_grid(state.grid, state.interpretations.grid_wait, state.findings, programmatic=programmatic)
            state.awaited.finish(state.global_order, state.grid, state.findings, programmatic=programmatic)
            state.unwritten.report(state.interpretations.unwritten_shared, state.findings)
            if not self._follows_values:
                judge_accesses.doubt_values(state, self._unread)
        return self.findings
