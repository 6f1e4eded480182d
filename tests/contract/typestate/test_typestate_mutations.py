"""Each mutant of a correct matrix product breaks one rule and must be refuted by that rule's code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.gemm_program import RING, Shape, gemm
from tests.contract.typestate.typestate_edits import (
    Op,
    announced_bytes,
    bypass,
    consumer_begins_late,
    copy_after,
    copy_dropped,
    edit,
    every,
    first,
    late_retire,
    no_advance,
    producer_begins_late,
    put,
    remove,
    retype,
)
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntAttr, ModuleOp, StringAttr, i32
from xdsl.ir import Operation
from xdsl.irdl import AttrSizedOperandSegments

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.rules.typestate_codes import RULES
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import ExecutionAttr, MemoryType, int_array
from tilewright.targets import target

HOPPER = target("sm_90a")

SINGLE, DUAL, CLUSTER = Shape(consumers=1), Shape(), Shape(cluster=2)


def named(module: ModuleOp, kind: type[Op], name: str) -> Op:
    return next(op for op in every(module, kind) if op.properties["sym_name"] == StringAttr(name))


def memory(buffer: ac.BufferOp, **changes: int | str) -> None:
    """Change fields of the buffer's type."""
    kind = buffer.result.type
    assert isinstance(kind, MemoryType)
    fields = {"slots": kind.slots, "slot_bytes": kind.slot_bytes, "swizzle": kind.swizzle}
    for name, value in changes.items():
        fields[name] = IntAttr(value) if isinstance(value, int) else StringAttr(value)
    retype(buffer, MemoryType(kind.tier, kind.element, fields["slots"], fields["slot_bytes"], fields["swizzle"]))


# ---------------------------------------------------------------- mutations


def unfenced_accumulator(module: ModuleOp) -> None:
    remove(first(module, ac.WgmmaFenceOp))


def double_advance(module: ModuleOp) -> None:
    advance = first(module, ac.AdvanceOp)
    clone = copy_after(advance)
    advance.result.replace_uses_with_if(clone.results[0], lambda use: use.operation is not clone)
    clone.operands[0] = advance.result


def consumer_double_advance(module: ModuleOp) -> None:
    advance = every(module, ac.AdvanceOp)[-1]
    clone = copy_after(advance)
    advance.result.replace_uses_with_if(clone.results[0], lambda use: use.operation is not clone)
    clone.operands[0] = advance.result


def consumer_no_advance(module: ModuleOp) -> None:
    bypass(first(module, ac.AdvanceOp, 1))


def copy_doubled(module: ModuleOp) -> None:
    issue = first(module, ac.CopyIssueOp, 1)
    clone = copy_after(issue)
    issue.result.replace_uses_with_if(clone.results[0], lambda use: use.operation is not clone)
    clone.operands[2] = issue.result


def copies_swapped_buffers(module: ModuleOp) -> None:
    staging = named(module, ac.BufferOp, "staging")
    first(module, ac.CopyIssueOp).operands[1] = staging.result


def late_settle(module: ModuleOp) -> None:
    put(first(module, ac.WgmmaWaitOp, 1), pending=1)


def release_doubled(module: ModuleOp) -> None:
    copy_after(first(module, ac.ArriveOp))


def release_dropped(module: ModuleOp) -> None:
    remove(first(module, ac.ArriveOp))


def last_release_dropped(module: ModuleOp) -> None:
    remove(first(module, ac.ArriveOp, 1))


def consumer_begins_early(module: ModuleOp) -> None:
    put(first(module, ac.LoopOp, 1), begin=0)


def other_symbol(module: ModuleOp) -> None:
    kernel = first(module, ac.KernelOp)
    kernel.properties["symbols"] = DictionaryAttr({**kernel.symbols.data, "rows": IntAttr(8)})
    kernel.properties["minima"] = DictionaryAttr({**kernel.minima.data, "rows": IntAttr(0)})
    first(module, ac.TilesOp, 1).properties["symbol"] = StringAttr("rows")


def commit_dropped(module: ModuleOp) -> None:
    remove(first(module, ac.WgmmaCommitOp))


def loop_commit_dropped(module: ModuleOp) -> None:
    remove(first(module, ac.WgmmaCommitOp, 1))


def fresh_accumulator_lost(module: ModuleOp) -> None:
    """The loop's wgmma overwrites instead of accumulating: what the loop carries in is lost."""
    issue = first(module, ac.WgmmaIssueOp, 1)
    issue.operands = list(issue.operands)[:-1]
    issue.properties[AttrSizedOperandSegments.attribute_name] = DenseArrayBase.from_list(i32, [1, 1, 1, 1, 0, 0])


def accumulator_of_other_shape(module: ModuleOp) -> None:
    put(first(module, ac.WgmmaIssueOp, 1), n=64)


def carried_swapped(module: ModuleOp) -> None:
    """The body yields the slot read an iteration ago instead of the one being read."""
    loop = first(module, ac.LoopOp, 1)
    last = loop.body.block.last_op
    assert last is not None
    last.operands[2] = loop.body.block.args[3]


def phase_from_outside(module: ModuleOp) -> None:
    """The loop reads the slot that was waited for before it."""
    waits = every(module, ac.BarrierWaitOp)
    first(module, ac.WgmmaIssueOp, 1).operands[0] = waits[1].result


def proxy_fence_dropped(module: ModuleOp) -> None:
    bypass(first(module, ac.FenceProxyOp))


def ready_barrier_dropped(module: ModuleOp) -> None:
    bypass(first(module, ac.NamedBarrierSyncOp, 1), operand=1)


def reuse_barrier_dropped(module: ModuleOp) -> None:
    remove(first(module, ac.NamedBarrierSyncOp))


def reuse_wait_dropped(module: ModuleOp) -> None:
    remove(first(module, ac.BulkWaitOp))


def all_reuse_waits_dropped(module: ModuleOp) -> None:
    for wait in every(module, ac.BulkWaitOp)[:-1]:
        remove(wait)


def reuse_wait_weak(module: ModuleOp) -> None:
    for wait in every(module, ac.BulkWaitOp)[:-1]:
        put(wait, pending=2)


def wait_after_write(module: ModuleOp) -> None:
    wait, write = first(module, ac.BulkWaitOp), first(module, ac.StageWriteOp)
    block = wait.parent_block()
    assert block is not None
    wait.detach()
    block.insert_op_after(wait, write)


def bulk_commit_dropped(module: ModuleOp) -> None:
    remove(first(module, ac.BulkCommitOp))


def every_bulk_commit_dropped(module: ModuleOp) -> None:
    for commit in every(module, ac.BulkCommitOp):
        remove(commit)


def last_wait_dropped(module: ModuleOp) -> None:
    remove(every(module, ac.BulkWaitOp)[-1])


def last_wait_weak(module: ModuleOp) -> None:
    put(every(module, ac.BulkWaitOp)[-1], pending=1)


def same_slot_twice(module: ModuleOp) -> None:
    put(first(module, ac.StageWriteOp, 1), slot=0)
    put(first(module, ac.CopyStoreOp, 1), slot=0)


def store_of_other_slot(module: ModuleOp) -> None:
    put(first(module, ac.CopyStoreOp), slot=1)


def store_dropped(module: ModuleOp) -> None:
    remove(first(module, ac.CopyStoreOp))


def ring_not_initialised(module: ModuleOp) -> None:
    remove(first(module, ac.BarrierInitOp))


def ring_initialised_twice(module: ModuleOp) -> None:
    copy_after(first(module, ac.BarrierInitOp))


def init_fence_dropped(module: ModuleOp) -> None:
    remove(first(module, ac.FenceBarrierInitOp))


def init_fence_before_init(module: ModuleOp) -> None:
    init, fence = first(module, ac.BarrierInitOp), first(module, ac.FenceBarrierInitOp)
    block = init.parent_block()
    assert block is not None
    fence.detach()
    block.insert_op_before(fence, init)


def sync_dropped(module: ModuleOp) -> None:
    remove(first(module, ac.CtaSyncOp))


def exit_sync_dropped(module: ModuleOp) -> None:
    remove(every(module, ac.ClusterSyncOp)[-1])


def entry_sync_of_cta(module: ModuleOp) -> None:
    sync = first(module, ac.ClusterSyncOp)
    block = sync.parent_block()
    assert block is not None
    block.insert_op_before(ac.CtaSyncOp.create(), sync)
    remove(sync)


def released_to_self(module: ModuleOp) -> None:
    for arrive in every(module, ac.ArriveOp):
        put(arrive, peers=1)
    put(first(module, ac.RingOp), empty_arrivals=2)


def rank_ignored(module: ModuleOp) -> None:
    put(first(module, ac.CopyIssueOp, 1), rank_offset_bytes=0)


def wide_multicast(module: ModuleOp) -> None:
    put(first(module, ac.CopyIssueOp, 1), multicast=4)


def role_at(name: str, unit: str, count: int, first_thread: int) -> Callable[[ModuleOp], None]:
    def mutate(module: ModuleOp) -> None:
        execution = ExecutionAttr(StringAttr(unit), IntAttr(count), IntAttr(first_thread))
        named(module, ac.RoleOp, name).properties["execution"] = execution

    return mutate


def edit_buffer(name: str, **changes: int | str) -> Callable[[ModuleOp], None]:
    return lambda module: memory(named(module, ac.BufferOp, name), **changes)


def side_of(kind: type[Operation], number: int, side: str) -> Callable[[ModuleOp], None]:
    def mutate(module: ModuleOp) -> None:
        first(module, kind, number).properties["side"] = StringAttr(side)

    return mutate


def box_of(name: str, *box: int) -> Callable[[ModuleOp], None]:
    def mutate(module: ModuleOp) -> None:
        named(module, ac.TensorMapOp, name).properties["box"] = int_array(box)

    return mutate


def second_ring(module: ModuleOp) -> None:
    """The consumer waits on a ring of its own with the cursor of the first."""
    ring = first(module, ac.RingOp)
    clone = ring.clone()
    clone.properties["sym_name"] = StringAttr("other")
    clone.properties["address"] = IntAttr(ring.address.data + 1024)
    retype(clone, ac.RingType(StringAttr("other"), ring.stages))
    block = ring.parent_block()
    assert block is not None
    block.insert_op_after(clone, ring)
    init = first(module, ac.BarrierInitOp)
    block.insert_op_after(ac.BarrierInitOp.create(operands=[clone.results[0]]), init)
    put(first(module, ac.KernelOp), dynamic_smem_bytes=DUAL.smem_bytes + 1024)
    first(module, ac.BarrierWaitOp, 1).operands[0] = clone.results[0]


def shared_named_barrier(module: ModuleOp) -> None:
    """Two consumer roles of one warpgroup each, on the same barrier number."""
    role = named(module, ac.RoleOp, "consumer")
    clone = role.clone()
    clone.properties["sym_name"] = StringAttr("second")
    for op, start in ((role, 128), (clone, 256)):
        op.properties["execution"] = ExecutionAttr(StringAttr("warpgroup128"), IntAttr(1), IntAttr(start))
    block = role.parent_block()
    assert block is not None
    block.insert_op_after(clone, role)


def copies_by_warp(module: ModuleOp) -> None:
    role_at("producer", "warp32", 4, 0)(module)


def wgmma_by_thread(module: ModuleOp) -> None:
    role_at("consumer", "thread1", 1, 128)(module)


def coordinate_dropped(module: ModuleOp) -> None:
    issue = first(module, ac.CopyIssueOp)
    issue.operands = list(issue.operands)[:-1]


def swapped_releases(module: ModuleOp) -> None:
    """Release the newer slot in the loop and carry the older one on: each slot is released, in the wrong order."""
    loop = first(module, ac.LoopOp, 1)
    wait, last = first(module, ac.WgmmaWaitOp), loop.body.block.last_op
    assert last is not None
    put(wait, pending=0)
    held, newly = wait.operands[0], last.operands[2]
    wait.operands[0], last.operands[2] = newly, held


def commit_moved_into_the_loop(module: ModuleOp) -> None:
    """The loop begins with an uncommitted wgmma, and ends without."""
    remove(first(module, ac.WgmmaCommitOp))


def stores_a_phase(module: ModuleOp) -> None:
    """A bulk store of a slot of the ring."""
    waits = every(module, ac.BarrierWaitOp)
    first(module, ac.CopyStoreOp).operands[3] = waits[1].result


def fewer_tiles_than_promised(module: ModuleOp) -> None:
    kernel = first(module, ac.KernelOp)
    kernel.properties["symbols"] = DictionaryAttr({"K": IntAttr(0), "tiles": IntAttr(8)})


def type_of_bytes(module: ModuleOp) -> None:
    retype(first(module, ac.ArriveExpectOp), ac.TransactionType(RING, IntAttr(4)))


def type_of_ring(module: ModuleOp) -> None:
    retype(first(module, ac.RingOp), ac.RingType(RING, IntAttr(9)))


def type_of_phase(module: ModuleOp) -> None:
    retype(first(module, ac.BarrierWaitOp), ac.PhaseType(RING, StringAttr("full")))


def fills_full_slot(module: ModuleOp) -> None:
    """The producer waits on the full side, with the parity that lets it pass."""
    wait = first(module, ac.BarrierWaitOp)
    wait.properties["side"] = StringAttr("full")


def advances(*steps: int) -> Callable[[ModuleOp], None]:
    def mutate(module: ModuleOp) -> None:
        first(module, ac.WgmmaIssueOp, 1).properties["b_step_bytes"] = int_array(steps)

    return mutate


def element(name: str) -> Callable[[ModuleOp], None]:
    def mutate(module: ModuleOp) -> None:
        first(module, ac.WgmmaIssueOp).properties["element"] = StringAttr(name)

    return mutate


@dataclass(frozen=True)
class Mutant:
    code: str
    mutate: Callable[[ModuleOp], None]
    shape: Shape = field(default=DUAL)
    note: str = ""

    @property
    def label(self) -> str:
        name = self.note or getattr(self.mutate, "__name__", "mutant")
        return f"{self.code}-{name}"


MUTANTS = [
    Mutant("MB001", ring_not_initialised),
    Mutant("MB002", ring_initialised_twice),
    Mutant("MB003", init_fence_dropped),
    Mutant("MB003", init_fence_before_init),
    Mutant("MB004", sync_dropped),
    Mutant("MB005", edit(ac.BarrierWaitOp, 0, invert_parity=0), note="producer-parity"),
    Mutant("MB005", edit(ac.BarrierWaitOp, 1, invert_parity=1), note="prologue-parity"),
    Mutant("MB005", edit(ac.BarrierWaitOp, 2, invert_parity=1), note="loop-parity"),
    Mutant("MB005", side_of(ac.CursorStartOp, 0, "full"), note="producer-cursor-side"),
    Mutant("MB005", side_of(ac.CursorStartOp, 1, "empty"), note="consumer-cursor-side"),
    Mutant("MB006", no_advance),
    Mutant("MB006", consumer_no_advance),
    Mutant("MB006", double_advance),
    Mutant("MB006", consumer_double_advance),
    Mutant("MB007", second_ring),
    Mutant("MB008", edit(ac.RingOp, full_arrivals=2), note="full-arrivals-2"),
    Mutant("MB009", edit(ac.RingOp, empty_arrivals=1), note="empty-arrivals-few"),
    Mutant("MB009", edit(ac.RingOp, empty_arrivals=3), note="empty-arrivals-many"),
    Mutant("MB009", edit(ac.RingOp, empty_arrivals=2), CLUSTER, "empty-arrivals-of-one-cta"),
    Mutant("MB010", edit(ac.RingOp, empty_arrivals=0), note="empty-arrivals-0"),
    Mutant("MB011", swapped_releases),
    Mutant("MB012", fills_full_slot),
    Mutant("TX001", announced_bytes(DUAL.a_bytes + DUAL.b_bytes + 16), note="announced-more"),
    Mutant("TX001", announced_bytes(DUAL.a_bytes), note="announced-less"),
    Mutant("TX001", announced_bytes(DUAL.b_bytes // 2 + DUAL.a_bytes), CLUSTER, "announced-own-half"),
    Mutant("TX001", copy_dropped),
    Mutant("TX001", copy_doubled),
    Mutant("TX002", edit(ac.CopyIssueOp, box_bytes=8192), note="claimed-less"),
    Mutant("TX002", box_of("a_map", 64, 64), note="box-smaller"),
    Mutant("TX003", announced_bytes(1 << 20), note="announced-2^20"),
    Mutant("TX004", edit(ac.CopyIssueOp, offset_bytes=1024), note="offset"),
    Mutant("TX004", edit(ac.CopyIssueOp, 1, rank_offset_bytes=16384), CLUSTER, "rank-offset"),
    Mutant("TX005", rank_ignored, CLUSTER),
    Mutant("TX006", copies_swapped_buffers),
    Mutant("TX007", copies_by_warp),
    Mutant("TX008", coordinate_dropped),
    Mutant("BG001", reuse_wait_weak),
    Mutant("BG001", all_reuse_waits_dropped),
    Mutant("BG001", reuse_barrier_dropped),
    Mutant("BG001", wait_after_write),
    Mutant("BG001", reuse_wait_dropped),
    Mutant("BG001", same_slot_twice),
    Mutant("BG002", every_bulk_commit_dropped),
    Mutant("BG003", last_wait_dropped),
    Mutant("BG003", last_wait_weak),
    Mutant("BG004", box_of("c_map", 64, 32), note="store-box"),
    Mutant("BG004", store_of_other_slot),
    Mutant("BG004", edit(ac.StageWriteOp, column_end=96), note="staged-columns"),
    Mutant("PX001", proxy_fence_dropped),
    Mutant("WG001", commit_dropped),
    Mutant("WG001", loop_commit_dropped),
    Mutant("WG002", late_retire),
    Mutant("WG003", late_settle),
    Mutant("WG004", unfenced_accumulator),
    Mutant("WG005", accumulator_of_other_shape),
    Mutant("WG006", edit(ac.WgmmaIssueOp, 1, b_stride_bytes=2048), note="stride"),
    Mutant("WG006", edit(ac.WgmmaIssueOp, a_instance_bytes=16384), note="instance"),
    Mutant("WG007", box_of("b_map", 64, 64), note="half-filled"),
    Mutant("WG008", edit(ac.WgmmaIssueOp, a_stride_bytes=1000), note="stride-1000"),
    Mutant("WG008", advances(0, 32, 64, 112), note="advance-over-row"),
    Mutant("WG009", wgmma_by_thread, SINGLE),
    Mutant("WG010", edit(ac.WgmmaIssueOp, n=260), note="n-260"),
    Mutant("WG010", element("f64"), note="f64"),
    Mutant("NB001", edit(ac.NamedBarrierSyncOp, first_barrier=15), note="barrier-16"),
    Mutant("NB001", edit(ac.NamedBarrierSyncOp, first_barrier=0), note="barrier-0"),
    Mutant("NB002", edit(ac.NamedBarrierSyncOp, threads=256), note="threads-256"),
    Mutant("NB002", edit(ac.NamedBarrierSyncOp, threads=96), note="threads-96"),
    Mutant("NB003", shared_named_barrier),
    Mutant("NB003", edit(ac.NamedBarrierSyncOp, first_barrier=2), note="units-share-a-barrier"),
    Mutant("NB003", edit(ac.NamedBarrierSyncOp, 1, first_barrier=2), note="units-share-a-barrier-later"),
    Mutant("NB004", ready_barrier_dropped),
    Mutant("SR001", edit(ac.RoleOp, registers=44), note="registers-44"),
    Mutant("SR001", edit(ac.RoleOp, registers=16), note="registers-16"),
    Mutant("SR002", edit(ac.RoleOp, 1, registers=240), note="registers-240"),
    Mutant("SR002", edit(ac.KernelOp, launch_registers=256), note="launch-256"),
    Mutant("SR003", role_at("consumer", "warpgroup128", 2, 0), note="roles-overlap"),
    Mutant("SR004", role_at("consumer", "warpgroup128", 2, 64), note="role-misaligned"),
    Mutant("SR004", role_at("consumer", "warpgroup128", 3, 128), note="role-past-end"),
    Mutant("LV001", release_dropped),
    Mutant("LV001", last_release_dropped),
    Mutant("LV001", store_dropped),
    Mutant("LV001", fresh_accumulator_lost),
    Mutant("LV002", release_doubled),
    Mutant("LV002", carried_swapped),
    Mutant("LV003", phase_from_outside),
    Mutant("LV004", consumer_begins_late),
    Mutant("LV004", consumer_begins_early),
    Mutant("LV004", producer_begins_late),
    Mutant("LV004", other_symbol),
    Mutant("LV005", lambda module: None, Shape(stages=1), "one-stage"),
    Mutant("LV006", type_of_bytes),
    Mutant("LV006", type_of_ring),
    Mutant("LV006", type_of_phase),
    Mutant("LV007", commit_moved_into_the_loop),
    Mutant("LV008", stores_a_phase),
    Mutant("LV009", fewer_tiles_than_promised),
    Mutant("AL001", edit(ac.RingOp, address=DUAL.barrier_address - 4), note="ring-address"),
    Mutant("AL002", edit(ac.BufferOp, address=512), note="buffer-address"),
    Mutant("AL002", edit_buffer("b", slot_bytes=DUAL.b_bytes + 128), note="slot-bytes"),
    Mutant("AL002", edit(ac.CopyIssueOp, 1, rank_offset_bytes=64), CLUSTER, "box-inside-a-row"),
    Mutant("TX005", edit(ac.CopyIssueOp, 1, rank_offset_bytes=128), CLUSTER, "boxes-a-row-apart"),
    Mutant("AL003", edit(ac.RingOp, address=0), note="ring-in-buffer"),
    Mutant("AL003", edit(ac.BufferOp, 2, instances=1), note="instances-shared"),
    Mutant("AL003", edit(ac.BufferOp, 1, address=DUAL.a_bytes), note="buffers-overlap"),
    Mutant("AL004", edit(ac.KernelOp, dynamic_smem_bytes=1024), note="smem-bytes"),
    Mutant("AL004", edit_buffer("b", slots=3), note="slots-3"),
    Mutant("AL004", edit(ac.KernelOp, dynamic_smem_bytes=232449), note="more-than-a-cta-has"),
    Mutant("AL005", edit_buffer("a", swizzle="64B"), note="buffer-swizzle"),
    Mutant("CL001", exit_sync_dropped, CLUSTER),
    Mutant("CL002", wide_multicast, CLUSTER),
    Mutant("CL003", released_to_self, CLUSTER),
    Mutant("CL004", entry_sync_of_cta, CLUSTER),
]


@pytest.mark.sample(40)
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.label for mutant in MUTANTS])
def test_mutant_is_refuted_by_its_rule(mutant: Mutant) -> None:
    module = gemm(mutant.shape)
    mutate_changes_something = str(module)
    mutant.mutate(module)
    assert mutant.code == "LV005" or str(module) != mutate_changes_something
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted), verdict
    codes = [finding.code for finding in verdict.findings]
    assert mutant.code in codes, [f"{finding.code} {finding.message}" for finding in verdict.findings]
    for finding in verdict.findings:
        rule = RULES[finding.code]
        assert (finding.name, finding.source) == (rule.name, rule.source)
        assert finding.primary is not None


def test_every_rule_has_a_mutant() -> None:
    # WG011 is about products with A in registers, which this program has none of: test_register_operand.py. Neither
    # do threads copy into its slots: test_async_copy_steps.py. Nor has it tensor memory, or pairs of CTAs:
    # test_tensor_memory.py and test_pairs.py.
    elsewhere = {"WG011", "PX002", "CA001", "CA002", "CA003", "TC001", "TC002", "TC003", "TC004", "TC005", "TC006"}
    assert set(RULES) == {mutant.code for mutant in MUTANTS} | elsewhere


def numbers_of(op: Operation) -> list[str]:
    return sorted(name for name, value in op.properties.items() if isinstance(value, IntAttr))


EDITABLE = [(number, name) for number, op in enumerate(gemm(CLUSTER).walk()) for name in numbers_of(op)]


@given(st.sampled_from(EDITABLE), st.sampled_from([-1, 0, 1, 2, 3, 7, 16, 100, 1024, 1 << 20]))
def test_any_number_gets_a_verdict(place: tuple[int, str], value: int) -> None:
    """Whatever stands in a property, the answer is a verdict: nothing is raised, and findings carry rules."""
    module = gemm(CLUSTER)
    number, name = place
    list(module.walk())[number].properties[name] = IntAttr(value)
    match verify(module, HOPPER):
        case Refuted(findings):
            assert findings and all(finding.code and finding.source for finding in findings)
        case Unknown(reasons):
            assert reasons
        case Proven(scope):
            assert scope == "all trip counts"


def test_a_ring_that_no_memory_holds_is_refuted_without_a_run() -> None:
    """At its boundary counts it would be filled 65,536 times."""
    module = gemm(CLUSTER)
    first(module, ac.RingOp).properties["stages"] = IntAttr(1 << 16)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted) and "AL004" in {finding.code for finding in verdict.findings}


# ---------------------------------------------------------------- harmless edits


def renamed(module: ModuleOp) -> None:
    for ordinal, op in enumerate(module.walk()):
        for result in op.results:
            result.name_hint = f"v{ordinal}"


def consumers_waits_moved_apart(module: ModuleOp) -> None:
    """The two roles in the other order."""
    producer, consumer = named(module, ac.RoleOp, "producer"), named(module, ac.RoleOp, "consumer")
    block = producer.parent_block()
    assert block is not None
    producer.detach()
    block.insert_op_after(producer, consumer)


def copies_in_other_order(module: ModuleOp) -> None:
    """B before A, tokens and types rethreaded."""
    a, b = every(module, ac.CopyIssueOp)
    announce, close = first(module, ac.ArriveExpectOp), first(module, ac.TransactionCloseOp)
    block = a.parent_block()
    assert block is not None
    a.detach()
    block.insert_op_after(a, b)
    b.operands[2], a.operands[2], close.operands[0] = announce.result, b.result, a.result
    retype(b, ac.TransactionType(RING, IntAttr(announce.bytes.data - b.box_bytes.data * b.multicast.data)))
    retype(a, ac.TransactionType(RING, IntAttr(0)))


def extra_fence(module: ModuleOp) -> None:
    copy_after(first(module, ac.WgmmaFenceOp))


def loop_fence_dropped(module: ModuleOp) -> None:
    """wgmmas of one shape that share an accumulator need no fence between them."""
    remove(first(module, ac.WgmmaFenceOp, 1))


def exit_wait_for_reads(module: ModuleOp) -> None:
    """At exit it is enough that the sources have been read."""
    put(every(module, ac.BulkWaitOp)[-1], read=1)


def stronger_waits(module: ModuleOp) -> None:
    put(first(module, ac.WgmmaWaitOp), pending=0)
    for wait in every(module, ac.BulkWaitOp)[:-1]:
        put(wait, pending=0)


def advance_earlier(module: ModuleOp) -> None:
    """The cursor moves on right after its wait."""
    advance, wait = every(module, ac.AdvanceOp)[-1], every(module, ac.BarrierWaitOp)[-1]
    block = wait.parent_block()
    assert block is not None
    advance.detach()
    block.insert_op_after(advance, wait)


def one_commit_for_both_stores(module: ModuleOp) -> None:
    """One group of two stores, and none pending before the next tile stages again."""
    remove(first(module, ac.BulkCommitOp))
    for wait in every(module, ac.BulkWaitOp)[:1]:
        put(wait, pending=0)


HARMLESS = [
    renamed, consumers_waits_moved_apart, copies_in_other_order, extra_fence, loop_fence_dropped, exit_wait_for_reads,
    stronger_waits, advance_earlier, one_commit_for_both_stores,
]  # fmt: skip


@pytest.mark.parametrize("mutate", HARMLESS, ids=[mutate.__name__ for mutate in HARMLESS])
def test_harmless_edit_stays_proven(mutate: Callable[[ModuleOp], None]) -> None:
    module = gemm()
    mutate(module)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Proven), verdict
