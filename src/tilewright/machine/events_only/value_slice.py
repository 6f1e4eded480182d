"""Which values of a kernel decide nothing, so that a run that wants its events need not compute them?

A value decides if a branch, a guard, an address, a descriptor or an operand of a synchronization depends on it. What
does is found backwards from those, over registers by name and without regard to order (M. Weiser, "Program Slicing").
All else is dropped: steps that only compute such registers give zeros instead, stores and copies of them and the tensor
cores yield their events and move nothing. The events are those of the full run, in the same order: whatever yields,
orders or faults is executed as it is, on values that are what they would have been. A register that was never written
stays so, and is refused where it was refused.

What went into memory undone is remembered (`dropped_values`), and a load of a value that decides from there ends the
run. Kernels with instructions that are not in the list below (`_KNOWN`), atomic ones among them, keep all values.

What is read from tensor memory counts as the tensor core's result, so that what is written there decides nothing
either: products are not carried out, and loads read whatever stands there.

What a shuffle or a vote hands on decides where its result does; it is carried out all the same, since it may fault.
A branch of a whole warp, by a vote, ahead over arithmetic alone decides what that writes, and no event: what it asks
decides only where one of those registers does.

Not handled: shuffles and votes whose lanes are in registers, matches (what they read counts as deciding). Checked by:
tests/machine/events_only/test_value_slice.py, which compares the events with those of full runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilewright.frontends.ptx.ast import Instruction, Register, Symbol, Vector
from tilewright.machine.core.lanes import UNINITIALISED, Lanes, Registers, poison
from tilewright.machine.core.step import Plain, Step, guarded
from tilewright.machine.events_only.dropped_values import MovedValues
from tilewright.machine.protocol.lanes_together import needs_all_threads
from tilewright.machine.protocol.slicing.slice_operands import Kind

_KNOWN = frozenset({
    "ld", "st", "st.async", "ldmatrix", "stmatrix",
    "clusterlaunchcontrol.try_cancel", "clusterlaunchcontrol.query_cancel",
    "wgmma.mma_async", "wgmma.mma_async.sp", "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group",
    "cp.async", "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all", "cp.async.mbarrier.arrive",
    "cp.async.bulk.tensor", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group",
    "bar.sync", "bar.arrive", "barrier.sync", "barrier.arrive", "bar.warp.sync", "barrier.cluster.arrive",
    "barrier.cluster.wait", "mbarrier.init", "mbarrier.inval", "mbarrier.arrive", "mbarrier.arrive.expect_tx",
    "mbarrier.expect_tx", "mbarrier.try_wait", "mbarrier.test_wait", "fence", "fence.proxy.async",
    "fence.mbarrier_init", "membar",
    "tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit", "tcgen05.mma", "tcgen05.cp",
    "tcgen05.commit", "tcgen05.ld", "tcgen05.st", "tcgen05.wait::ld", "tcgen05.wait::st",
    "tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync",
})  # fmt: skip
"""Rows beside arithmetic, control and hints whose values are followed."""


def drop_values(
    steps: Sequence[Step], instructions: Sequence[Instruction], kinds: Sequence[Kind],
    moves: Sequence[MovedValues | None], labels: Mapping[str, int], accumulators: frozenset[int],
    zeros: Callable[[int], Lanes],
) -> list[Step] | None:  # fmt: skip
    """The steps without values that decide nothing; None where all values are kept: there is an instruction that is not
    understood, or the tensor core's results decide. kinds: of each instruction; moves: of each step, if it is such a
    load or store; labels: which instruction each stands before; accumulators: slots that tensor cores write; zeros:
    what a dropped register holds, by slot."""
    for row, kind in dict(zip([each.row for each in instructions], kinds, strict=True)).items():
        understood = kind in ("compute", "collective", "control", "hint") or row in _KNOWN
        if not understood or row == "call":
            return None
    deciding = _deciding(steps, instructions, kinds, moves, labels)
    if not deciding.isdisjoint(accumulators):
        return None
    for moved in moves:
        if moved is not None and not moved.strong:
            moved.keeps = not deciding.isdisjoint(moved.moved) if moved.loads else deciding.issuperset(moved.moved)
    found = list(steps)
    for at, (step, kind) in enumerate(zip(steps, kinds, strict=True)):
        if kind == "compute" and deciding.isdisjoint(step.writes) and step.writes and isinstance(step.body, Plain):
            instruction = instructions[at]
            if instruction.row != "mov" or any(isinstance(each, Vector) for each in instruction.operands):
                found[at] = _undone(step, step.body, zeros)
    return found


def _hands_on(instruction: Instruction) -> bool:
    """Whether an instruction's result depends on nothing but one register of each lane, by constant lanes."""
    of_lanes = instruction.row in ("shfl.sync", "vote.sync")
    return of_lanes and not any(isinstance(each, Register) for each in instruction.operands[2:])


def _passed_over(instructions: Sequence[Instruction], kinds: Sequence[Kind], labels: Mapping[str, int], at: int) -> int:
    """Where a branch leads, if that is ahead, over arithmetic alone; where it stands, if not."""
    branch = instructions[at]
    target = branch.operands[0] if branch.row == "bra" and branch.guard is not None else None
    end = labels.get(target.name, at) if isinstance(target, Symbol) else at
    passed = range(at + 1, end)
    is_arithmetic = all(kinds[each] == "compute" and not needs_all_threads(instructions[each]) for each in passed)
    return end if is_arithmetic and end > at else at


def _deciding(
    steps: Sequence[Step],
    instructions: Sequence[Instruction],
    kinds: Sequence[Kind],
    moves: Sequence[MovedValues | None],
    labels: Mapping[str, int],
) -> frozenset[int]:
    """Slots of registers that decide something: those that any step reads which is not dropped if only its results are,
    and what these are computed from."""
    makers: dict[int, list[frozenset[int]]] = {}  # by register, what its writers read
    waiting: list[int] = []
    voted = {
        slot for step, each in zip(steps, instructions, strict=True) if each.row == "vote.sync" for slot in step.writes
    }
    voted -= {
        slot for step, each in zip(steps, instructions, strict=True) if each.row != "vote.sync" for slot in step.writes
    }
    for at, (step, instruction, kind, moved) in enumerate(zip(steps, instructions, kinds, moves, strict=True)):
        end = _passed_over(instructions, kinds, labels, at) if step.guard in voted else at
        for passed in steps[at + 1 : end]:
            for slot in passed.writes:
                makers.setdefault(slot, []).append(frozenset({step.guard}))
        if end > at:
            continue
        if step.guard >= 0:
            waiting.append(step.guard)
        if (kind == "compute" and isinstance(step.body, Plain)) or _hands_on(instruction):
            for slot in step.writes:
                if slot in makers:
                    makers[slot].append(step.reads)
                else:
                    makers[slot] = [step.reads]
        elif moved is None or moved.loads or moved.strong:
            waiting.extend(step.reads)
        else:
            waiting.append(moved.address)
            waiting.extend(slot for slot in step.reads if slot not in moved.moved)
    found: set[int] = set()
    while waiting:
        slot = waiting.pop()
        if slot not in found:
            found.add(slot)
            for reads in makers.get(slot, ()):
                waiting.extend(reads)
    return frozenset(found)


def _undone(step: Step, original: Plain, zeros: Callable[[int], Lanes]) -> Step:
    """A step that gives zeros for what it would compute; where it reads what was never written, it does what it did.
    original: its body."""
    reads = tuple(step.reads - {step.guard})
    targets = tuple([(slot, zeros(slot)) for slot in step.writes])

    def full(r: Registers) -> None:
        for slot in reads:
            if r[slot] is UNINITIALISED:
                original.full(r)
                return
        for slot, nothing in targets:
            r[slot] = nothing

    def masked(r: Registers, mask: int) -> None:
        for slot in reads:
            if r[slot] is UNINITIALISED:
                original.masked(r, mask)
                return
        for slot, nothing in targets:
            r[slot] = nothing

    if step.guard < 0:
        return step.doing(Plain(full, masked))
    garbage = tuple([(slot, poison(each.dtype)) for slot, each in targets])
    body = guarded(Plain(full, masked), step.guard, step.negated, garbage)
    return step.doing(body)
