"""Which edits of a PTX text might mend a finding, likeliest first? Proposals only: `repair` checks each before anyone
sees it.

A finding names the place of the fault and, mostly, a second place that it conflicts with. A proposal is local to one of
them, or to what the text says is odd: an instruction that stands twice, operands that nothing uses, a number unlike its
siblings. The finding's family decides which kinds of proposals are made, and in which order; kinds take turns, so that
no kind with many proposals keeps the others away.

No proposal takes away a copy, a wait or a use, unless it stands twice. Checked by: tests/driver/test_repair.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from tilewright.base.diagnostic import Diagnostic
from tilewright.driver import repair_missing as missing
from tilewright.driver import repair_numbers as numbers
from tilewright.driver import repair_order as order
from tilewright.driver.repair_text import Candidate, Subject, subject_of
from tilewright.frontends.ptx.ast import Module

Proposals = Callable[[Subject], Iterator[Candidate]]

# What a text shows by itself comes first: there is seldom more than one such place.
_ODD: tuple[Proposals, ...] = (missing.doubled, missing.elections, missing.idle_moves)

_MOVED: tuple[Proposals, ...] = (missing.moved_after_waits, missing.moved_up_waits)
_MBARRIERS: tuple[Proposals, ...] = (
    *_ODD, numbers.expected_bytes, numbers.arrival_counts, numbers.offsets, missing.expectations, missing.guards,
    numbers.other_parities, missing.initialisations, *_MOVED, missing.phase_waits, missing.arrivals, missing.commits,
    order.initialised, missing.kept_phases, missing.remote_arrivals, order.wgmmas, order.async_copies,
    order.cta_barriers, missing.every_thread_arrives, order.proxy_fences, order.tensor_memory,
)  # fmt: skip
_RACES: tuple[Proposals, ...] = (
    *_ODD, *_MOVED, numbers.offsets, missing.phase_waits, numbers.other_parities, order.async_copies, order.wgmmas,
    order.bulk_groups, order.cta_barriers, missing.kept_phases, numbers.expected_bytes, numbers.arrival_counts,
    missing.guards, missing.every_thread_arrives, numbers.named_barriers, order.proxy_fences, order.tensor_memory,
    missing.commits, numbers.alignments, missing.expectations,
)  # fmt: skip

_BY_FAMILY: dict[str, tuple[Proposals, ...]] = {
    "PX": (order.proxy_fences, *_ODD, order.initialised, order.cta_barriers, order.bulk_groups),
    "TX": _MBARRIERS,
    "MB": _MBARRIERS,
    "LV": (*_MBARRIERS, numbers.named_barriers, order.cluster_barriers),
    "BG": (order.bulk_groups, order.async_copies, order.cta_barriers),
    "TM": _RACES,
    "WG": (order.wgmmas, order.cta_barriers, *_MOVED, numbers.arrival_counts, *_ODD,
           numbers.other_parities, missing.kept_phases),
    "TC": (order.tensor_memory, order.allocations, numbers.columns, missing.commits, *_ODD, order.cta_barriers,
           *_MOVED, missing.guards, missing.phase_waits, numbers.expected_bytes,
           numbers.other_parities, numbers.arrival_counts, numbers.named_barriers, missing.kept_phases),
    "NB": (numbers.named_barriers, order.cta_barriers, order.async_copies, *_ODD, missing.every_thread_arrives,
           order.cluster_barriers),
    "CL": (order.cluster_barriers, order.initialised, missing.remote_arrivals, *_ODD),
    "SR": (numbers.registers, order.register_changes),
    "AL": (numbers.alignments, numbers.offsets),
    "MF": (numbers.alignments, numbers.offsets, *_ODD, order.cta_barriers, order.allocations, missing.initialisations),
    "GD": (order.grid_waits,),
}  # fmt: skip


def candidates(text: str, module: Module, finding: Diagnostic) -> Iterator[Candidate]:
    """Edits that might mend `finding`, likeliest first. Some may make no difference or do harm: check them."""
    subject = subject_of(text, module, finding)
    if subject is None:
        return
    waiting = [kind(subject) for kind in _BY_FAMILY.get(finding.code[:2], ())]
    while waiting:
        still: list[Iterator[Candidate]] = []
        for kind in waiting:
            taken = list(islice(kind, 2))
            yield from taken
            if len(taken) == 2:
                still.append(kind)
        waiting = still
