"""The typestate proof on what the compiler emits: every program is proven, every spoiled one is refuted by a rule.

The mutants of tests/contract are of a program written for the test; these are of the compiler's own, on every path:
one and several consumers, staged and direct stores, an operand that a launch before materialises, clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.end_to_end import program_edits as edits
from tests.end_to_end.compiled_programs import CLUSTERS, DIRECT, PROGRAMS, STAGED, lowered, product_of
from tests.end_to_end.program_edits import Edit, announce, bypass, chain, change, drop, plus, repeat, times, to, word

from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.rules.typestate_codes import RULES
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.ac import operations as ac
from tilewright.targets import target

HOPPER = target("sm_90a")

SOME = ("plain", "direct-store", "cluster-2x1")
ALL = ("plain", "one-group", "bias-gelu", "direct-store", "materialised", "cluster-2x1", "cluster-1x2-direct")
SINGLE = ("plain", "direct-store", "materialised")


@dataclass(frozen=True)
class Mutation:
    """name; the code that must be among those found; the edit; which programs it is tried on."""

    name: str
    code: str
    edit: Edit
    programs: tuple[str, ...] = SOME


MUTATIONS = (
    # Transactions and copies.
    Mutation("bytes halved", "TX001", announce(times(0.5)), ALL),
    Mutation("bytes doubled", "TX001", announce(times(2)), ALL),
    Mutation("bytes one off", "TX001", announce(plus(1))),
    Mutation("copy dropped", "TX001", bypass(ac.CopyIssueOp, 1, 2), ALL),
    Mutation("first copy dropped", "TX001", bypass(ac.CopyIssueOp, 0, 2)),
    Mutation("copy doubled", "TX001", chain(ac.CopyIssueOp, 0, 2), ALL),
    Mutation("copy claims fewer bytes", "TX002", change(ac.CopyIssueOp, 0, "box_bytes", times(0.5)), ALL),
    Mutation("tensor map with a smaller box", "TX002", edits.smaller_box(0)),
    Mutation("copy past its slot", "TX004", change(ac.CopyIssueOp, -1, "offset_bytes", plus(1024))),
    Mutation("copy into the other operand", "TX005", edits.copy_of_other_operand, ("direct-store", "materialised")),
    Mutation("copies by every lane of a warp", "TX007", edits.role_at("producer", "warp32", 4, 0)),
    # The ring's barriers.
    Mutation("wait for empty dropped", "LV004", edits.wait_bypassed("producer"), ALL),
    Mutation("wait for full dropped", "LV004", edits.wait_bypassed("consumer"), ALL),
    Mutation("producer waits on the other side", "MB012", word(ac.BarrierWaitOp, 0, "side", "full")),
    Mutation("consumer waits on the other side", "MB012", word(ac.BarrierWaitOp, 1, "side", "empty")),
    Mutation("producer's parity flipped", "MB005", change(ac.BarrierWaitOp, 0, "invert_parity", to(0)), ALL),
    Mutation("first full parity flipped", "MB005", change(ac.BarrierWaitOp, 1, "invert_parity", to(1))),
    Mutation("loop's full parity flipped", "MB005", change(ac.BarrierWaitOp, 2, "invert_parity", to(1)), ALL),
    Mutation("producer's cursor begins on the other side", "MB005", word(ac.CursorStartOp, 0, "side", "full")),
    Mutation("producer's cursor not advanced", "MB006", bypass(ac.AdvanceOp, 0, 0), ALL),
    Mutation("producer's cursor advanced twice", "MB006", chain(ac.AdvanceOp, 0, 0), ALL),
    Mutation("consumer's cursor not advanced", "MB006", bypass(ac.AdvanceOp, 1, 0), ALL),
    Mutation("consumer's cursor advanced twice", "MB006", chain(ac.AdvanceOp, 2, 0)),
    Mutation("release dropped", "LV001", drop(ac.ArriveOp, 0), ALL),
    Mutation("last release dropped", "LV001", drop(ac.ArriveOp, 1), ALL),
    Mutation("release doubled", "LV002", repeat(ac.ArriveOp, 0), ALL),
    Mutation("release before the wgmma is done", "LV002", edits.release_before_retire, ALL),
    Mutation("one arrival fewer", "MB009", change(ac.RingOp, 0, "empty_arrivals", plus(-1)), ("plain", "cluster-2x1")),
    Mutation("no arrivals", "MB010", change(ac.RingOp, 0, "empty_arrivals", to(0))),
    Mutation("one arrival more", "MB009", change(ac.RingOp, 0, "empty_arrivals", plus(1)), ALL),
    Mutation("two producers counted", "MB008", change(ac.RingOp, 0, "full_arrivals", to(2)), ALL),
    Mutation("ring of one stage more", "LV006", change(ac.RingOp, 0, "stages", plus(1))),
    # Set-up.
    Mutation("init dropped", "MB001", drop(ac.BarrierInitOp), ALL),
    Mutation("init doubled", "MB002", repeat(ac.BarrierInitOp)),
    Mutation("init fence dropped", "MB003", drop(ac.FenceBarrierInitOp), ALL),
    Mutation("sync after init dropped", "MB004", drop(ac.CtaSyncOp), SINGLE),
    # wgmma.
    Mutation("wgmma wait leaves two pending", "WG002", change(ac.WgmmaWaitOp, 0, "pending", to(2)), ALL),
    Mutation("last wgmma wait leaves one pending", "WG003", change(ac.WgmmaWaitOp, 1, "pending", to(1)), ALL),
    Mutation("accumulator read before the wait", "LV002", edits.settle_after_use, ALL),
    Mutation("commit dropped", "WG001", drop(ac.WgmmaCommitOp, 0), ALL),
    Mutation("loop's commit dropped", "WG001", drop(ac.WgmmaCommitOp, 1), ALL),
    Mutation("wgmma fence dropped", "WG004", drop(ac.WgmmaFenceOp, 0), ALL),
    Mutation("accumulator of another shape", "WG005", change(ac.WgmmaIssueOp, 1, "n", plus(-8))),
    Mutation("wgmma reads beyond its slot", "WG006", change(ac.WgmmaIssueOp, 1, "b_stride_bytes", times(8)), ALL),
    Mutation("both operands from one buffer", "WG006", edits.wgmma_of_other_operand, ("bias-gelu",)),
    Mutation("stride that no descriptor holds", "WG008", change(ac.WgmmaIssueOp, 0, "a_stride_bytes", plus(8))),
    Mutation("wgmma reads last iteration's slot", "LV003", edits.wait_for_phase_before, ALL),
    Mutation("wgmma by one thread", "WG009", edits.role_at("consumer", "thread1", 1, 128), ("one-group",)),
    # Staging and bulk stores.
    Mutation("proxy fence dropped", "PX001", bypass(ac.FenceProxyOp, 0, 0), STAGED),
    Mutation("barrier before the store dropped", "NB004", edits.store_before_sync, STAGED),
    Mutation("barrier before restaging dropped", "BG001", drop(ac.NamedBarrierSyncOp, 0), STAGED),
    Mutation("barrier of other threads", "NB002", change(ac.NamedBarrierSyncOp, 1, "threads", times(2)), STAGED),
    Mutation("waits before restaging dropped", "BG001", edits.all_reuse_waits(None), STAGED),
    Mutation("one more store pending", "BG001", edits.all_reuse_waits(plus(1)), STAGED),
    Mutation("staged before the wait", "BG001", edits.write_before_reuse_wait, STAGED),
    Mutation("bulk commits dropped", "BG002", edits.all_bulk_commits, STAGED),
    Mutation("last bulk commit dropped", "BG002", edits.last_of(ac.BulkCommitOp), STAGED),
    Mutation("final wait dropped", "BG003", edits.last_of(ac.BulkWaitOp), STAGED),
    Mutation("final wait leaves one pending", "BG003", change(ac.BulkWaitOp, -1, "pending", to(1)), STAGED),
    Mutation("other columns staged", "BG004", change(ac.StageWriteOp, 0, "column_end", plus(-8)), STAGED),
    Mutation("store of the other slot", "BG004", change(ac.CopyStoreOp, 0, "slot", to(1)), ("bias-gelu",)),
    Mutation("store dropped", "LV001", drop(ac.CopyStoreOp, 0), STAGED),
    # Trip counts.
    Mutation("producer skips a slice", "LV004", change(ac.LoopOp, 0, "begin", to(1)), ALL),
    Mutation("consumer waits once more", "LV004", change(ac.LoopOp, 1, "begin", to(0)), ALL),
    Mutation("consumer skips a slice", "LV004", change(ac.LoopOp, 1, "begin", to(2)), ALL),
    # Space.
    Mutation("slots overlap", "AL003", change(ac.BufferOp, 1, "address", plus(-8192)), ALL),
    Mutation("ring inside the slots", "AL003", change(ac.RingOp, 0, "address", to(0)), ALL),
    Mutation("slots off their swizzle pattern", "AL002", change(ac.BufferOp, 0, "address", plus(128))),
    Mutation("staging of one group for all", "AL003", change(ac.BufferOp, 2, "instances", to(1)), ("plain",)),
    Mutation("less shared memory", "AL004", change(ac.KernelOp, 0, "dynamic_smem_bytes", plus(-16)), ALL),
    Mutation("registers overcommitted", "SR002", change(ac.KernelOp, 0, "launch_registers", to(256)), ("plain",)),
    Mutation("odd number of registers", "SR001", change(ac.RoleOp, 1, "registers", plus(-3)), ALL),
    Mutation("roles overlap", "SR003", edits.role_at("consumer", "warpgroup128", 1, 0), ("one-group",)),
    # Clusters.
    Mutation("releases reach one CTA", "CL003", edits.one_peer, CLUSTERS),
    Mutation("releases reach one CTA, counted so", "CL003", edits.both_arrivals_to_self, CLUSTERS),
    Mutation("multicast to one CTA", "TX001", edits.multicast(1), CLUSTERS),
    Mutation("multicast to four CTAs", "CL002", edits.multicast(4), CLUSTERS),
    Mutation("both parts of the shared operand at one place", "TX005", edits.rank_ignored, CLUSTERS),
    Mutation("sync of the CTA after init", "CL004", edits.entry_sync_of_cta, CLUSTERS),
    Mutation("final cluster sync dropped", "CL001", edits.last_of(ac.ClusterSyncOp), CLUSTERS),
)  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_compiler_emits_is_proven(name: str) -> None:
    for module in lowered(name):
        verdict = verify(module, HOPPER)
        assert isinstance(verdict, Proven), verdict
        assert verdict.scope == "all trip counts"


@pytest.mark.sample(8)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_spoiled_program_is_refuted(mutation: Mutation) -> None:
    for name in mutation.programs:
        module = product_of(name)
        mutation.edit(module)
        verdict = verify(module, HOPPER)
        assert isinstance(verdict, Refuted), f"{name}: {verdict}"
        found = {finding.code: finding.message for finding in verdict.findings}
        assert mutation.code in found, f"{name}: {found}"
        assert all(finding.name == RULES[finding.code].name for finding in verdict.findings)


def test_paths_are_what_they_are_called() -> None:
    for name in PROGRAMS:
        module = product_of(name)
        assert bool(edits.every(module, ac.GlobalStoreOp)) == (name in DIRECT), name
        assert bool(edits.every(module, ac.ClusterSyncOp)) == (name in CLUSTERS), name
    assert len(lowered("materialised")) > 1


HARMLESS: dict[str, tuple[Edit, tuple[str, ...]]] = {
    "a second wgmma fence": (repeat(ac.WgmmaFenceOp, 1), ALL),
    "no wgmma fence where one shape goes on": (drop(ac.WgmmaFenceOp, 1), ALL),
    "a second barrier before restaging": (repeat(ac.NamedBarrierSyncOp, 0), STAGED),
    "waiting for every wgmma": (change(ac.WgmmaWaitOp, 0, "pending", to(0)), ALL),
    "waiting for every store": (edits.all_reuse_waits(to(0)), STAGED),
    "final wait for the writes as well": (change(ac.BulkWaitOp, -1, "read", to(0)), STAGED),
    "fewer registers for the producer": (change(ac.RoleOp, 0, "registers", plus(-8)), ALL),
    "more shared memory": (change(ac.KernelOp, 0, "dynamic_smem_bytes", plus(16)), ALL),
    "other raster": (edits.other_raster, ALL),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_edit_stays_proven(name: str) -> None:
    edit, programs = HARMLESS[name]
    for program in programs:
        module = product_of(program)
        edit(module)
        verdict = verify(module, HOPPER)
        assert isinstance(verdict, Proven), f"{program}: {verdict}"
