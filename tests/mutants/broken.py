"""Ways to break a correct kernel's protocol: synchronization removed, weakened, moved, or with other numbers.

A mutation looks at the text alone: it knows the families of codes that may name the fault, and nothing of how it is
found. Whether a mutant is truly broken depends on the kernel (a fence may be redundant, a wait implied by another):
those that are not are listed, with the reason, where the mutants are checked.
"""

from __future__ import annotations

from tests.mutants.edit import Mutation, drop, each, number, replace, twice, without_guard
from tests.mutants.faults import (
    COPY,
    EXPECT,
    blocks_without_barriers,
    bulk_waits,
    dropped_waits,
    early_releases,
    elected_by_all,
    fences_after,
    flipped_parities,
    late_grid_wait,
    misaligned,
    more_threads,
    moved_waits,
    next_barrier,
    one_cta_multicast,
    ordering_barriers,
    other_barrier,
    plain_barrier_arrival,
    stuck_phases,
    stuck_stages,
)

_TX = ("TX", "MB", "LV")
_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")
_USES_OF_MBARRIER = ("mbarrier", "cp.async.bulk.tensor", "cp.async.mbarrier", "tcgen05.commit")
_USES_OF_DATA = ("ld.shared", "st.shared", "ldmatrix", "stmatrix", "wgmma", "tcgen05", "cp.", "mbarrier")
_REMOTE = ("mapa", "cp.async.bulk.tensor", "mbarrier.arrive")
_RACE = ("TM", "PX", "MB", "TX", "NB", "WG", "TC", "BG", "CL", "MF")
BROKEN: tuple[Mutation, ...] = (
    Mutation("expected bytes too few", _TX, number(lambda n: n // 2, EXPECT)),
    Mutation("expected bytes too many", _TX, number(lambda n: n + 128, EXPECT)),
    Mutation("expected bytes off by 16", _TX, number(lambda n: n - 16, EXPECT)),
    Mutation("expectation dropped", (*_TX, "TM"), drop(EXPECT, "mbarrier.expect_tx"), shows=_USES_OF_MBARRIER),
    Mutation("expectation repeated", _TX, twice(EXPECT)),
    Mutation("init count too large", _TX, number(lambda n: n + 1, "mbarrier.init"), shows=_USES_OF_MBARRIER),
    Mutation(
        "init count too small",
        (*_TX, *_RACE),
        number(lambda n: n - 1 if n > 1 else None, "mbarrier.init"),
        shows=_USES_OF_MBARRIER,
    ),
    Mutation("init dropped", ("MB", "MF", "TX"), drop("mbarrier.init"), shows=_USES_OF_MBARRIER),
    Mutation("init fence dropped", ("MB", "PX", "CL"), drop("fence.mbarrier_init"), "strict"),
    Mutation("arrival dropped", (*_TX, "TM"), drop("mbarrier.arrive"), shows=_WAITS),
    Mutation("arrival repeated", (*_TX, *_RACE), twice("mbarrier.arrive"), shows=_USES_OF_MBARRIER),
    Mutation("arrival of cp.async dropped", (*_TX, *_RACE), drop("cp.async.mbarrier.arrive"), shows=_WAITS),
    Mutation("release moved up", _RACE, early_releases, shows=_USES_OF_DATA),
    Mutation("wait dropped", (*_RACE, "LV"), dropped_waits, shows=_USES_OF_DATA),
    Mutation("wait for the other parity", (*_RACE, "LV"), flipped_parities, shows=_WAITS),
    Mutation("phase never flipped", (*_RACE, "LV"), stuck_phases, shows=_WAITS),
    Mutation("stage never advanced", (*_RACE, "LV"), stuck_stages, shows=_USES_OF_MBARRIER),
    Mutation("wait behind the next copy", _RACE, moved_waits(COPY, True), shows=_USES_OF_DATA),
    Mutation("wait behind the next expectation", (*_RACE, "LV"), moved_waits((EXPECT,), False), shows=_USES_OF_DATA),
    Mutation("copy dropped", _TX, drop(*COPY, having="complete_tx"), shows=_USES_OF_MBARRIER),
    Mutation("copy repeated", (*_TX, "TM"), twice(*COPY, having="complete_tx")),
    Mutation("copy signals the next barrier", (*_TX, "MF", "TM"), next_barrier(*COPY), shows=_USES_OF_MBARRIER),
    Mutation("destination off alignment", ("AL", "MF", "TM"), each(misaligned)),
    Mutation("multicast to one CTA alone", (*_TX, "CL"), one_cta_multicast, shows=_USES_OF_MBARRIER),
    Mutation("all lanes issue the copy", (*_TX, "TM"), without_guard(*COPY, having="complete_tx")),
    Mutation("all lanes are elected", (*_TX, *_RACE, "BG"), each(elected_by_all), "strict"),
    Mutation("all lanes arrive", (*_TX, *_RACE), without_guard("mbarrier.arrive", EXPECT)),
    Mutation("wgmma fence dropped", ("WG",), drop("wgmma.fence"), shows=("wgmma",)),
    Mutation("wgmma commit dropped", ("WG",), drop("wgmma.commit_group"), shows=_USES_OF_DATA),
    Mutation("wgmma wait dropped", ("WG",), drop("wgmma.wait_group"), shows=_USES_OF_DATA),
    Mutation("wgmma wait too weak", ("WG",), number(lambda n: n + 1, "wgmma.wait_group"), shows=_USES_OF_DATA),
    Mutation("bulk commit dropped", ("BG",), drop("cp.async.bulk.commit_group")),
    Mutation("bulk wait dropped", ("BG",), bulk_waits(weaker=False, at_end=False)),
    Mutation("last bulk wait dropped", ("BG",), bulk_waits(weaker=False, at_end=True), "strict"),
    Mutation("bulk wait too weak", ("BG",), bulk_waits(weaker=True, at_end=False)),
    Mutation("last bulk wait too weak", ("BG",), bulk_waits(weaker=True, at_end=True), "strict"),
    Mutation("cp.async commit dropped", ("TM", "NB", "BG"), drop("cp.async.commit_group")),
    Mutation("cp.async wait dropped", ("TM", "NB", "BG"), drop("cp.async.wait_group", "cp.async.wait_all")),
    Mutation("cp.async wait too weak", ("TM", "NB", "BG"), number(lambda n: n + 2, "cp.async.wait_group")),
    Mutation("fence after stores dropped", ("PX",), fences_after(("st.shared", "stmatrix"))),
    Mutation(
        "fence after loads dropped",
        ("PX",),
        fences_after(("ld.shared", "ldmatrix"), ("st", "mbarrier.init")),
        "strict",
    ),
    Mutation(
        "tensor-map fence dropped",
        ("PX", "TM"),
        drop("fence.proxy.tensormap::generic"),
        shows=("cp.async.bulk", "tensormap"),
    ),
    Mutation(
        "tensor-map field not set",
        ("TM", "PX", "MF", "AL"),
        drop("tensormap.replace", having="rank"),
        shows=("cp.async.bulk", "tensormap"),
    ),
    Mutation("barrier dropped", (*_RACE, "LV"), ordering_barriers, shows=_USES_OF_DATA),
    Mutation("barriers of a block dropped", (*_RACE, "LV"), blocks_without_barriers, shows=_USES_OF_DATA),
    Mutation("barrier of another number", (*_RACE, "LV"), other_barrier, shows=("bar", "mbarrier.try_wait")),
    Mutation("barrier with more threads", ("NB", "LV"), each(more_threads), shows=("bar", "mbarrier.try_wait")),
    Mutation(
        "cluster arrival dropped",
        ("CL", "LV", "MB"),
        drop("barrier.cluster.arrive"),
        shows=("barrier.cluster", *_REMOTE),
    ),
    Mutation(
        "cluster wait dropped", ("CL", "LV", "MB"), drop("barrier.cluster.wait"), shows=("barrier.cluster", *_REMOTE)
    ),
    Mutation("cluster arrival relaxed", ("CL", "MB", "TM", "PX"), each(plain_barrier_arrival), shows=_REMOTE),
    Mutation(
        "remote release relaxed",
        _RACE,
        replace(".release", ".relaxed", "mbarrier.arrive", having="release.cluster"),
        shows=("cp.async.bulk",),
    ),
    Mutation(
        "registers beyond the limit",
        ("SR", "LV"),
        number(lambda n: 264, "setmaxnreg", having=".inc"),
        shows=("setmaxnreg",),
    ),
    Mutation("register release dropped", ("SR", "LV"), drop("setmaxnreg", having=".dec"), shows=("setmaxnreg",)),
    Mutation("tensor-memory load not waited for", ("TC",), drop("tcgen05.wait::ld"), "strict"),
    Mutation("tensor-memory store not waited for", ("TC",), drop("tcgen05.wait::st")),
    Mutation(
        "tensor-memory fence dropped",
        ("TC",),
        drop("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"),
        "strict",
    ),
    Mutation("commit dropped", ("TC", *_TX), drop("tcgen05.commit"), shows=_WAITS),
    Mutation("commit to the next barrier", ("TC", *_TX, "MF"), next_barrier("tcgen05.commit"), shows=_WAITS),
    Mutation("tensor memory not freed", ("TC",), drop("tcgen05.dealloc"), shows=("tcgen05",)),
    Mutation("tensor memory not allocated", ("TC", "MF"), drop("tcgen05.alloc"), shows=("tcgen05",)),
    Mutation(
        "too few columns",
        ("TC", "MF"),
        number(lambda n: n // 2 if n > 32 else None, "tcgen05.alloc"),
        shows=("tcgen05",),
    ),
    Mutation(
        "too few columns freed",
        ("TC", "MF"),
        number(lambda n: n // 2 if n > 32 else None, "tcgen05.dealloc"),
        shows=("tcgen05",),
    ),
    Mutation("wait for the grid before dropped", ("GD",), drop("griddepcontrol.wait"), "strict"),
    Mutation("wait for the grid before is late", ("GD",), late_grid_wait, "strict"),
)
