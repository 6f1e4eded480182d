"""Which edits of a PTX text might fix a finding, likeliest first? Proposals only: `repair` checks each before anyone
sees it.

A finding names the place of the fault and, mostly, a second place that it conflicts with. A proposal is local to one of
them, or to what the text says is odd: an instruction that stands twice, operands that nothing uses, a number unlike its
siblings. The finding's family decides which kinds of proposals are made, and in which order; kinds take turns, so that
no kind with many proposals keeps the others away.

No proposal takes away a copy, a wait or a use, unless it stands twice or another takes its place (`downgrade`).
Structured programs have proposals of their own (`structured`). Checked by: tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from tilewright.base.diagnostic import Diagnostic
from tilewright.driver.repair import downgrade, first_products, groups, missing, numbers, odd, order, phases, releases
from tilewright.driver.repair import tensor_memory as tensor
from tilewright.driver.repair.text import Candidate, Subject, subject_of
from tilewright.frontends.ptx.ast import Module

_OWN_SHARE = 5
"""Proposals of the family's own kind in each turn; of each other kind there are two."""

Proposals = Callable[[Subject], Iterator[Candidate]]

# What a text shows by itself comes first: there is seldom more than one such place.
_ODD: tuple[Proposals, ...] = (
    odd.doubled,
    odd.elections,
    odd.idle_moves,
    phases.lost_waits,
    odd.masks,
)
_MOVED: tuple[Proposals, ...] = (phases.moved_after_waits, phases.moved_up_waits, releases.moved_behind_reads)

_HANG: tuple[Proposals, ...] = (
    *_ODD, downgrade.completions, numbers.expected_bytes, numbers.arrival_counts, missing.commits, missing.arrivals,
    missing.expectations, numbers.other_parities, numbers.offsets, numbers.named_barriers, phases.kept_phases, *_MOVED,
    order.cluster_barriers, odd.guards, phases.remote_arrivals, order.cta_barriers,
    phases.phase_waits, numbers.trip_counts,
)  # fmt: skip
"""Somebody waits forever."""
_INVALID: tuple[Proposals, ...] = (
    *_ODD, odd.guards, missing.initialisations, numbers.arrival_counts, numbers.offsets, order.initialised,
    phases.remote_arrivals, missing.expectations, phases.kept_phases, *_MOVED, numbers.other_parities,
    numbers.expected_bytes, phases.phase_waits, missing.arrivals, order.cta_barriers, order.cluster_barriers,
)  # fmt: skip
"""The machine stopped at something that is not allowed at all."""
_OUT_OF_PHASE: tuple[Proposals, ...] = (
    *_ODD, numbers.expected_bytes, odd.guards, *_MOVED, numbers.arrival_counts, phases.phase_waits,
    missing.expectations, numbers.other_parities, phases.kept_phases, order.initialised, missing.arrivals,
    phases.every_thread_arrives, numbers.offsets, order.cta_barriers, missing.commits, phases.remote_arrivals,
)  # fmt: skip
"""Something counts in another phase than it should."""
_RACE: tuple[Proposals, ...] = (
    *_ODD, downgrade.completions, groups.async_copies, groups.wgmmas, groups.bulk_groups, *_MOVED, phases.phase_waits,
    numbers.offsets, missing.expectations, order.cta_barriers, numbers.expected_bytes, numbers.other_parities,
    phases.kept_phases, missing.commits, numbers.arrival_counts, odd.guards, phases.every_thread_arrives,
    numbers.named_barriers, order.proxy_fences, tensor.tensor_memory, numbers.alignments, order.cluster_barriers,
    phases.remote_arrivals,
)  # fmt: skip
"""Something is used before somebody is done with it."""

_BY_FAMILY: dict[str, tuple[Proposals, ...]] = {
    "PX": (order.proxy_fences, *_ODD, order.initialised, order.cta_barriers, groups.bulk_groups),
    "TX": _OUT_OF_PHASE,
    "MB": _OUT_OF_PHASE,
    "LV": _HANG,
    "BG": (downgrade.completions, groups.bulk_groups, groups.async_copies, order.cta_barriers),
    "TM": _RACE,
    "WG": (groups.wgmmas, order.cta_barriers, *_MOVED, phases.phase_waits, numbers.arrival_counts, *_ODD,
           numbers.expected_bytes, numbers.other_parities, phases.kept_phases, numbers.offsets),
    "TC": (first_products.first_products, tensor.tensor_memory, *_ODD, tensor.allocations, numbers.columns,
           missing.commits, order.cta_barriers, *_MOVED, numbers.expected_bytes, odd.guards, phases.phase_waits,
           numbers.offsets, numbers.other_parities, numbers.arrival_counts, numbers.named_barriers, phases.kept_phases),
    "NB": (downgrade.completions, numbers.named_barriers, order.cta_barriers, groups.async_copies, *_ODD,
           phases.every_thread_arrives, order.cluster_barriers),
    "CL": (order.cluster_barriers, order.initialised, phases.remote_arrivals, *_ODD),
    "SR": (order.register_changes, numbers.registers),
    "AL": (numbers.alignments, numbers.offsets, downgrade.smaller_copies),
    "MF": (numbers.alignments, numbers.offsets, *_ODD, order.cta_barriers, tensor.allocations, missing.initialisations),
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
        "wait forever" in finding.message
        or "waits for the end" in finding.message
        or "waits as well" in finding.message
    ):
        return _HANG
    return _BY_FAMILY[family]


def candidates(text: str, module: Module, finding: Diagnostic) -> Iterator[Candidate]:
    """Edits that might fix `finding`, likeliest first. Some may make no difference or do harm: check them."""
    subject = subject_of(text, module, finding)
    if subject is None:
        return
    waiting = [(kind(subject), 2 if number else _OWN_SHARE) for number, kind in enumerate(_kinds(finding))]
    while waiting:
        still: list[tuple[Iterator[Candidate], int]] = []
        for kind, share in waiting:
            taken = list(islice(kind, share))
            yield from taken
            if len(taken) == share:
                still.append((kind, share))
        waiting = still
