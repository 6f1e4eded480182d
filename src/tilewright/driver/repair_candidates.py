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
_ODD: tuple[Proposals, ...] = (missing.doubled, missing.elections, missing.idle_moves, missing.lost_waits)
_MOVED: tuple[Proposals, ...] = (missing.moved_after_waits, missing.moved_up_waits)

_HANG: tuple[Proposals, ...] = (
    *_ODD, numbers.expected_bytes, numbers.arrival_counts, missing.commits, missing.arrivals, missing.expectations,
    numbers.other_parities, numbers.offsets, numbers.named_barriers, missing.kept_phases, *_MOVED,
    order.cluster_barriers, missing.guards, missing.remote_arrivals, order.cta_barriers,
    missing.phase_waits, numbers.trip_counts,
)  # fmt: skip
"""Somebody waits for ever."""
_INVALID: tuple[Proposals, ...] = (
    *_ODD, missing.guards, missing.initialisations, numbers.arrival_counts, numbers.offsets, order.initialised,
    missing.remote_arrivals, missing.expectations, missing.kept_phases, *_MOVED, numbers.other_parities,
    numbers.expected_bytes, missing.phase_waits, missing.arrivals, order.cta_barriers, order.cluster_barriers,
)  # fmt: skip
"""The machine stopped at something that is not allowed at all."""
_OUT_OF_PHASE: tuple[Proposals, ...] = (
    *_ODD, numbers.expected_bytes, missing.guards, *_MOVED, numbers.arrival_counts, missing.phase_waits,
    missing.expectations, numbers.other_parities, missing.kept_phases, order.initialised, missing.arrivals,
    missing.every_thread_arrives, numbers.offsets, order.cta_barriers, missing.commits, missing.remote_arrivals,
)  # fmt: skip
"""Something counts in another phase than it should."""
_RACE: tuple[Proposals, ...] = (
    *_ODD, order.async_copies, order.wgmmas, order.bulk_groups, *_MOVED, missing.phase_waits, numbers.offsets,
    missing.expectations, order.cta_barriers, numbers.expected_bytes, numbers.other_parities, missing.kept_phases,
    missing.commits, numbers.arrival_counts, missing.guards, missing.every_thread_arrives, numbers.named_barriers,
    order.proxy_fences, order.tensor_memory, numbers.alignments, order.cluster_barriers, missing.remote_arrivals,
)  # fmt: skip
"""Something is used before somebody is done with it."""

_BY_FAMILY: dict[str, tuple[Proposals, ...]] = {
    "PX": (order.proxy_fences, *_ODD, order.initialised, order.cta_barriers, order.bulk_groups),
    "TX": _OUT_OF_PHASE,
    "MB": _OUT_OF_PHASE,
    "LV": _HANG,
    "BG": (order.bulk_groups, order.async_copies, order.cta_barriers),
    "TM": _RACE,
    "WG": (order.wgmmas, order.cta_barriers, *_MOVED, missing.phase_waits, numbers.arrival_counts, *_ODD,
           numbers.expected_bytes, numbers.other_parities, missing.kept_phases, numbers.offsets),
    "TC": (order.tensor_memory, *_ODD, order.allocations, numbers.columns, missing.commits, order.cta_barriers,
           *_MOVED, numbers.expected_bytes, missing.guards, missing.phase_waits, numbers.offsets,
           numbers.other_parities, numbers.arrival_counts, numbers.named_barriers, missing.kept_phases),
    "NB": (numbers.named_barriers, order.cta_barriers, order.async_copies, *_ODD, missing.every_thread_arrives,
           order.cluster_barriers),
    "CL": (order.cluster_barriers, order.initialised, missing.remote_arrivals, *_ODD),
    "SR": (order.register_changes, numbers.registers),
    "AL": (numbers.alignments, numbers.offsets),
    "MF": (numbers.alignments, numbers.offsets, *_ODD, order.cta_barriers, order.allocations, missing.initialisations),
    "GD": (order.grid_waits,),
}  # fmt: skip


def _kinds(finding: Diagnostic) -> tuple[Proposals, ...]:
    """Which kinds of proposals fit a finding, in order: by its family, and for mbarriers by what it tells."""
    family, hundred = finding.code[:2], finding.code[2:3]
    if family not in ("MB", "TX", "LV"):
        return _BY_FAMILY.get(family, ())
    if hundred == "2":
        return _INVALID
    if "may not be done" in finding.message:
        return _RACE
    if (
        "wait for ever" in finding.message
        or "waits for the end" in finding.message
        or "waits as well" in finding.message
    ):
        return _HANG
    return _BY_FAMILY[family]


def candidates(text: str, module: Module, finding: Diagnostic) -> Iterator[Candidate]:
    """Edits that might mend `finding`, likeliest first. Some may make no difference or do harm: check them."""
    subject = subject_of(text, module, finding)
    if subject is None:
        return
    waiting = [kind(subject) for kind in _kinds(finding)]
    while waiting:
        still: list[Iterator[Candidate]] = []
        for kind in waiting:
            taken = list(islice(kind, 2))
            yield from taken
            if len(taken) == 2:
                still.append(kind)
        waiting = still
