"""Edits that change nothing about a kernel's protocol: what a compiler's next version may do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from tests.mutants.edit import (
    PURE,
    Edit,
    Mutation,
    Subject,
    before,
    each,
    fits,
    number,
    read,
    straight_after,
    twice,
    written,
)
from tilewright.frontends.ptx.ast import Address, Immediate, Instruction, Symbol

_EXPECT = "mbarrier.arrive.expect_tx"
_BARRIER = ("bar.sync", "barrier.sync", "barrier.cta.sync")


def _renamed_registers(subject: Subject) -> Iterator[Edit]:
    """Every numbered register under another name; special registers keep theirs."""
    renamed = [re.sub(r"%(rd|rs|rq|r|p|fd|f|h)(?=[\d<])", r"%renamed_\1", line) for line in subject.lines]
    changed = {at + 1: new for at, (new, old) in enumerate(zip(renamed, subject.lines, strict=True)) if new != old}
    if changed:
        yield Edit(min(changed), changed)


def _renamed_labels(subject: Subject) -> Iterator[Edit]:
    renamed = [re.sub(r"\$L__BB", "$other_name_", line) for line in subject.lines]
    changed = {at + 1: new for at, (new, old) in enumerate(zip(renamed, subject.lines, strict=True)) if new != old}
    if changed:
        yield Edit(min(changed), changed)


def _comments(subject: Subject) -> Iterator[Edit]:
    first = min(item.span.line for item in subject.instructions())
    yield Edit(
        first,
        {
            at: f"/* a comment; with a semicolon */ {subject.lines[at - 1]} // and another {{"
            for at in range(first, len(subject.lines), 7)
            if "\\" not in subject.lines[at - 1] and "//" not in subject.lines[at - 1] and subject.lines[at - 1].strip()
        },
    )


def _reordered(subject: Subject) -> Iterator[Edit]:
    """Neighbours that only compute, and not with each other's results, change places, wherever they stand."""
    body = subject.kernel.body
    new: dict[int, str] = {}
    for one, other in itertools.pairwise(body):
        if not isinstance(one, Instruction) or not isinstance(other, Instruction):
            continue
        if one.row not in PURE or other.row not in PURE or one.span.line in new or other.span.line in new:
            continue
        if subject.line(one).count(";") != 1 or subject.line(other).count(";") != 1:
            continue
        if written(one) & (read(other) | written(other)) or written(other) & read(one):
            continue
        new[one.span.line], new[other.span.line] = subject.line(other), subject.line(one)
    if new:
        yield Edit(min(new), new)


def _split_expectation(item: Instruction, line: str) -> str | None:
    """`arrive.expect_tx n` as `expect_tx n/2` and `arrive.expect_tx n - n/2`."""
    match item.operands:
        case (Symbol("_"), Address(), Immediate(total)) if item.row == _EXPECT:
            first = total // 2
        case _:
            return None
    place = re.search(r"\[[^\]]*\]", line)
    if place is None:
        return None
    rest = re.sub(rf"\b{total}(?=\s*;)", str(total - first), line, count=1)
    guard = f"@{'!' if item.guard.negated else ''}{item.guard.register.name} " if item.guard is not None else ""
    return f"\t{guard}mbarrier.expect_tx.relaxed.cta.shared::cta.b64 {place.group()}, {first}; {rest.strip()}"


def _late_expectations(subject: Subject) -> Iterator[Edit]:
    """`arrive.expect_tx` behind the last copy for the same mbarrier: its arrival holds the phase open until then.

    Only where nothing between synchronizes, branches or redefines an operand, and where the arrival is the only one
    that is pending.
    """
    body = subject.kernel.body
    for at, item in enumerate(body):
        if not isinstance(item, Instruction) or item.row != _EXPECT or len(item.operands) != 3:
            continue
        last: Instruction | None = None
        for _, other in straight_after(subject, at + 1):
            if written(other) & read(item) or other.row.startswith(
                ("bar.sync", "barrier", "mbarrier", "cp.async.mbar")
            ):
                break
            if other.row == "cp.async.bulk.tensor" and other.operands[2:3] == item.operands[1:2]:
                last = other
        if last is None or subject.line(item).count(";") != 1 or subject.line(last).count(";") != 1:
            continue
        moved = f"\t{subject.line(last).strip()} {subject.line(item).strip()}"
        yield Edit(item.span.line, {item.span.line: "", last.span.line: moved})


def _barrier_twice(item: Instruction, line: str) -> str | None:
    """Threads of one instruction meet once more; only where the line names its threads, or every thread passes it."""
    if not fits(item, _BARRIER) or item.guard is not None:
        return None
    return f"{line} {line.strip()}" if len(item.operands) == 2 else None


def _wider_fence(item: Instruction, line: str) -> str | None:
    """The proxy fence for every space."""
    if item.row != "fence.proxy.async" or "shared::cta" not in item.opcode:
        return None
    return line.replace(".shared::cta", "", 1)


def _stronger_wait(item: Instruction, line: str) -> str | None:
    """A wait for reading, as a wait for writing as well."""
    return line.replace(".read", "", 1) if item.row == "cp.async.bulk.wait_group" and ".read" in line else None


def _address_in_a_register(item: Instruction, line: str) -> str | None:
    """The mbarrier's address through one more register."""
    if not item.row.startswith("mbarrier.arrive") or "shared::cta" not in item.opcode:
        return None
    place = re.search(r"\[\s*(%\w+)\s*\]", line)
    if place is None:
        return None
    body = line.replace(place.group(), "[through]", 1).strip()
    return f"\t{{ .reg .b32 through; add.u32 through, {place.group(1)}, 8; sub.u32 through, through, 8; {body} }}"


def _explicit_count(item: Instruction, line: str) -> str | None:
    """`mbarrier.arrive _, [m]` as `mbarrier.arrive _, [m], 1`."""
    match item.operands:
        case (Symbol("_"), Address()) if item.row == "mbarrier.arrive" and "noComplete" not in item.opcode:
            return re.sub(r"\]\s*;", "], 1;", line, count=1)
        case _:
            return None


def _known_guard(item: Instruction, line: str) -> str | None:
    """A fence under a predicate that holds."""
    if item.row not in ("fence.proxy.async", "fence.mbarrier_init") or item.guard is not None:
        return None
    return f"\t{{ .reg .pred holds; setp.eq.u32 holds, 0, 0; @holds {line.strip()} }}"


def _wait_with_time(item: Instruction, line: str) -> str | None:
    """`try_wait` with a hint of how long it may sleep."""
    if item.row != "mbarrier.try_wait" or len(item.operands) != 3 or "parity" not in item.opcode:
        return None
    return re.sub(r"\s*;\s*$", ", 0x989680;", line)


def _tensor_memory_fences(subject: Subject) -> Iterator[Edit]:
    """A fence more, in kernels that use tensor memory: others have a target without it."""
    if any(item.row.startswith("tcgen05") for item in subject.instructions()):
        yield from before("tcgen05.fence::before_thread_sync;", "tcgen05.commit", "bar.sync")(subject)


_SYNCS = ("mbarrier.arrive", _EXPECT, "wgmma.commit_group", "tcgen05.commit", "bar.sync", "cp.async.commit_group")
HARMLESS: tuple[Mutation, ...] = (
    Mutation("registers renamed", (), _renamed_registers),
    Mutation("labels renamed", (), _renamed_labels),
    Mutation("comments", (), _comments),
    Mutation("independent instructions reordered", (), _reordered),
    Mutation("a proxy fence more", (), before("fence.proxy.async.shared::cta;", "mbarrier.arrive", "bar.sync")),
    Mutation("a proxy fence twice", (), twice("fence.proxy.async")),
    Mutation("a proxy fence for every space", (), each(_wider_fence)),
    Mutation("a memory fence more", (), before("fence.acq_rel.cta;", "mbarrier.arrive", "cp.async.bulk.tensor")),
    Mutation("a fence of the system", (), before("fence.sc.sys;", "bar.sync", "mbarrier.arrive")),
    Mutation("a fence under a predicate that holds", (), each(_known_guard)),
    Mutation("expected bytes in two parts", (), each(_split_expectation)),
    Mutation("expectation after its copies", (), _late_expectations),
    Mutation("a barrier twice", (), each(_barrier_twice)),
    Mutation("a warp's barrier more", (), before("bar.warp.sync -1;", "bar.sync")),
    Mutation("a stronger wgmma wait", (), number(lambda n: n - 1 if n else None, "wgmma.wait_group")),
    Mutation("a wgmma fence twice", (), twice("wgmma.fence")),
    Mutation("an empty wgmma group", (), before("wgmma.commit_group.sync.aligned;", "wgmma.fence")),
    Mutation("a stronger bulk wait", (), number(lambda n: n - 1 if n else None, "cp.async.bulk.wait_group")),
    Mutation("a bulk wait for writes", (), each(_stronger_wait)),
    Mutation("a bulk wait twice", (), twice("cp.async.bulk.wait_group")),
    Mutation("a stronger cp.async wait", (), number(lambda n: n - 1 if n else None, "cp.async.wait_group")),
    Mutation("a pause", (), before("nanosleep.u32 0;", *_SYNCS)),
    Mutation("a tensor-memory fence more", (), _tensor_memory_fences),
    Mutation("a tensor-memory wait twice", (), twice("tcgen05.wait::ld", "tcgen05.wait::st")),
    Mutation("an mbarrier's address computed again", (), each(_address_in_a_register)),
    Mutation("an arrival that says its count", (), each(_explicit_count)),
    Mutation("a wait with a time", (), each(_wait_with_time)),
)
