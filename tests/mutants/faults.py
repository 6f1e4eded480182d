"""Edits that break a protocol and take more than a line's own text: what a wait or a barrier stands between."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.mutants.edit import (
    Edit,
    Places,
    Subject,
    Wait,
    each,
    fits,
    read,
    retried,
    sources_of,
    straight_after,
    waits,
    written,
)
from tilewright.frontends.ptx.ast import Address, Immediate, Instruction, Label, PairOfPredicates, Register

EXPECT = "mbarrier.arrive.expect_tx"
COPY = ("cp.async.bulk.tensor", "cp.async.bulk")
# The predicate of a wait as the text names it: names of an inner scope are not those of the syntax tree.
_DONE = re.compile(r"(mbarrier\.t\w+_wait\S*\s+)(%?\w+)")
BARRIER = ("bar.sync", "barrier.sync", "barrier.cta.sync", "bar.red", "barrier.red")


def dropped_waits(subject: Subject) -> Iterator[Edit]:
    """The wait finds its phase complete, whatever it is: as if it were not there."""
    for wait in waits(subject):
        item, line = wait.item, subject.line(wait.item)
        done = _DONE.search(line)
        if line.count(";") == 1 and item.guard is None and done is not None:
            yield Edit(item.span.line, {item.span.line: f"\tsetp.eq.u32 {done.group(2)}, 0, 0;"})


def flipped_parities(subject: Subject) -> Iterator[Edit]:
    for wait in waits(subject):
        item, line = wait.item, subject.line(wait.item)
        if line.count(";") != 1 or "parity" not in item.opcode or len(item.operands) < 3:
            continue
        match item.operands[2]:
            case Immediate(value):
                new = re.sub(rf",\s*{value}(?=\s*[,;])", f", {1 - value}", line, count=1)
            case Register(name):
                body = re.sub(rf",\s*{re.escape(name)}(?=\s*[,;])", ", flipped", line, count=1).strip()
                new = f"\t{{ .reg .b32 flipped; xor.b32 flipped, {name}, 1; {body} }}"
            case _:
                continue
        yield Edit(item.span.line, {item.span.line: new})


def _of_waits(subject: Subject, operand: int) -> set[str]:
    """Registers that an operand of some wait is computed from: 1 for the mbarrier's address, 2 for the parity."""
    names: set[str] = set()
    for wait in waits(subject):
        if len(wait.item.operands) <= operand:
            continue
        match wait.item.operands[operand]:
            case Register(name) | Address(Register(name)):
                names.add(name)
            case _:
                continue
    return sources_of(subject, names)


def stuck_phases(subject: Subject) -> Iterator[Edit]:
    """The parity that waits use is never flipped: `xor p, p, 1`, `xor p, p, carried`, or a bit of a count."""
    parity = _of_waits(subject, 2)
    for item in subject.instructions():
        if not written(item) & parity or item.guard is not None or len(item.operands) < 3:
            continue
        first, second, last = item.operands[0], item.operands[1], item.operands[-1]
        if not isinstance(first, Register) or not isinstance(second, Register):
            continue
        if item.row == "xor" and item.opcode.endswith("b32") and _flips(subject, last):
            yield Edit(item.span.line, {item.span.line: f"\tmov.b32 {first.name}, {second.name};"})
        elif (item.row == "and" and last == Immediate(1)) or (
            item.row == "bfe" and item.operands[3:] == (Immediate(1),)
        ):
            yield Edit(item.span.line, {item.span.line: f"\tmov.b32 {first.name}, 0;"})


def _flips(subject: Subject, operand: object) -> bool:
    """1, or a register that `selp` makes 1 or 0: the carry of a stage that starts again."""
    if operand == Immediate(1):
        return True
    return isinstance(operand, Register) and any(
        item.row == "selp"
        and written(item) == {operand.name}
        and set(item.operands[1:3]) == {Immediate(0), Immediate(1)}
        for item in subject.instructions()
    )


def stuck_stages(subject: Subject) -> Iterator[Edit]:
    """`add s, s, 1` of a stage that starts again by `selp`, used for the addresses of barriers, does nothing."""
    address = _of_waits(subject, 1)
    for item in subject.instructions():
        if item.row != "add" or item.operands[-1:] != (Immediate(1),) or not written(item) & address:
            continue
        first, second = item.operands[0], item.operands[1]
        if not isinstance(first, Register) or not isinstance(second, Register):
            continue
        again = any(
            other.row == "selp" and first in other.operands[1:3] and Immediate(0) in other.operands[1:3]
            for other in subject.instructions()
        )
        if again:
            yield Edit(item.span.line, {item.span.line: f"\tmov.b32 {first.name}, {second.name};"})


def moved_waits(rows: tuple[str, ...], past_uses: bool) -> Places:
    """A wait moved behind an instruction of `rows` that follows it: that one happens too early.

    past_uses: also where data are used between them, which then happens too early as well.
    """

    def places(subject: Subject) -> Iterator[Edit]:
        for wait in waits(subject):
            spelled = _spelled(subject, wait)
            if spelled is None:
                continue
            for _, item in straight_after(subject, wait.past):
                if item.row in rows and "mbarrier" in item.opcode:
                    line = subject.line(item)
                    if line.count(";") == 1:
                        removed = {number: "" for number in spelled[1]}
                        yield Edit(item.span.line, {**removed, item.span.line: f"{line} {spelled[0]}"})
                    break
                if written(item) & read(wait.item) or (not past_uses and item.opcode.startswith(_NEXT)):
                    break

    return places


def _spelled(subject: Subject, wait: Wait) -> tuple[str, tuple[int, ...]] | None:
    """The wait in one line, with names of its own, and the lines it has now."""
    line = subject.line(wait.item)
    if not retried(subject, wait) or line.count(";") != 1:
        return None
    follower = subject.kernel.body[wait.at + 1]
    tried = _DONE.sub(r"\1tried", line.strip(), count=1)
    text = f"{{ .reg .pred tried; again: {tried} @!tried bra.uni again; }}"
    return text, (wait.item.span.line, follower.span.line)


_USES = ("ld", "ldmatrix", "wgmma.wait_group", "tcgen05.wait::ld", *BARRIER)


def early_releases(subject: Subject) -> Iterator[Edit]:
    """An arrival moved up, past loads, waits for the tensor core or barriers, as far as its operands allow."""
    body = subject.kernel.body
    for at, item in enumerate(body):
        if not isinstance(item, Instruction) or item.row != "mbarrier.arrive" or subject.line(item).count(";") != 1:
            continue
        target, passed = None, False
        for earlier in range(at - 1, -1, -1):
            other = body[earlier]
            if not isinstance(other, Instruction) or other.row in ("bra", "ret", "exit") or written(other) & read(item):
                break
            passed = passed or (fits(other, _USES) and "global" not in other.opcode)
            if subject.line(other).count(";") == 1:
                target = other
        if target is not None and passed and target.row != "bra":
            number = target.span.line
            yield Edit(
                number, {item.span.line: "", number: f"\t{subject.line(item).strip()} {subject.line(target).strip()}"}
            )


def one_cta_multicast(subject: Subject) -> Iterator[Edit]:
    for item in subject.instructions():
        if "multicast::cluster" not in item.opcode or not fits(item, COPY) or item.guard is not None:
            continue
        line = subject.line(item)
        masks = [operand for operand in item.operands[3:] if isinstance(operand, Register)]
        if masks:
            body = re.sub(rf",\s*{re.escape(masks[0].name)}(?=\s*[,;])", ", narrower", line, count=1).strip()
            yield Edit(item.span.line, {item.span.line: f"\t{{ .reg .b16 narrower; mov.u16 narrower, 1; {body} }}"})


def elected_by_all(item: Instruction, _line: str) -> str | None:
    match item.operands[:1]:
        case (PairOfPredicates(_, Register(name)),) if item.row == "elect.sync":
            return f"\tsetp.eq.u32 {name}, 0, 0;"
        case _:
            return None


_ACCESS = (
    "ldmatrix", "stmatrix", "cp.async.wait", "cp.async.bulk.wait", "wgmma.wait", "tcgen05.wait", "mbarrier.init",
    "ld.shared", "st.shared", "tensormap",
)  # fmt: skip
"""Of instructions after which other threads may want to go on."""
_NEXT = (*_ACCESS, "cp.", "mbarrier.arrive", "wgmma.mma", "tcgen05")


def _before(subject: Subject, at: int, rows: tuple[str, ...]) -> list[Instruction]:
    """Instructions before an index, back to a label, a branch, or an instruction of `rows`."""
    found: list[Instruction] = []
    for item in reversed(subject.kernel.body[:at]):
        if not isinstance(item, Instruction) or item.row in ("bra", "ret", "exit", *rows):
            break
        found.append(item)
    return found


def ordering_barriers(subject: Subject) -> Iterator[Edit]:
    """Barriers between accesses of all threads and what may depend on them, neither across another barrier."""
    for at, item in enumerate(subject.kernel.body):
        if not isinstance(item, Instruction) or not fits(item, BARRIER) or subject.line(item).count(";") != 1:
            continue
        earlier = _before(subject, at, BARRIER)
        later: list[Instruction] = []
        for _, other in straight_after(subject, at + 1):
            if fits(other, BARRIER):
                break
            later.append(other)
        if any(each.opcode.startswith(_ACCESS) for each in earlier) and any(
            each.opcode.startswith(_NEXT) for each in later
        ):
            yield Edit(item.span.line, {item.span.line: ""})


def fences_after(kinds: tuple[str, ...], but_not: tuple[str, ...] = ()) -> Places:
    """Proxy fences with an access of `kinds` right before them, and none of `but_not`."""

    def places(subject: Subject) -> Iterator[Edit]:
        for at, item in enumerate(subject.kernel.body):
            if (
                not isinstance(item, Instruction)
                or item.row != "fence.proxy.async"
                or subject.line(item).count(";") != 1
            ):
                continue
            earlier = [other.opcode for other in _before(subject, at, ("fence.proxy.async",))]
            if any(each.startswith(kinds) for each in earlier) and not any(
                each.startswith(but_not) for each in earlier if but_not
            ):
                yield Edit(item.span.line, {item.span.line: ""})

    return places


def other_barrier(subject: Subject) -> Iterator[Edit]:
    """A barrier of some of the CTA's threads under the number that others meet at."""
    barriers = [item for item in subject.instructions() if fits(item, BARRIER)]
    used = sorted({item.operands[0].value for item in barriers if isinstance(item.operands[0], Immediate)})
    for item in barriers:
        first = item.operands[0]
        others = [value for value in used if first != Immediate(value)]
        if isinstance(first, Immediate) and others and len(item.operands) == 2:
            line = subject.line(item)
            new = re.sub(rf"(\s){first.value}(?=\s*,)", rf"\g<1>{others[0]}", line, count=1)
            yield Edit(item.span.line, {item.span.line: new})


def more_threads(item: Instruction, line: str) -> str | None:
    if not fits(item, BARRIER) or len(item.operands) < 2 or not isinstance(item.operands[-1], Immediate):
        return None
    last = item.operands[-1].value
    return re.sub(rf"\b{last}\s*;", f"{last + 32};", line, count=1)


def next_barrier(*rows: str) -> Places:
    """The last address of the instruction, an mbarrier's, 8 bytes further."""

    def edit(item: Instruction, line: str) -> str | None:
        if not fits(item, rows) or "mbarrier" not in item.opcode:
            return None
        return re.sub(r"\[\s*(%?\w+)\s*\](?=[^\[]*$)", r"[\1+8]", line, count=1)

    return each(edit)


def misaligned(item: Instruction, line: str) -> str | None:
    if not fits(item, COPY) or "complete_tx" not in item.opcode:
        return None
    return re.sub(r"\[(%\w+)(?:\+(\d+))?\]", lambda at: f"[{at[1]}+{int(at[2] or 0) + 8}]", line, count=1)


def plain_barrier_arrival(item: Instruction, line: str) -> str | None:
    """`barrier.cluster.arrive` without the release that it has unless told otherwise."""
    if item.row != "barrier.cluster.arrive" or "relaxed" in item.opcode:
        return None
    return line.replace(".release", "", 1).replace("barrier.cluster.arrive", "barrier.cluster.arrive.relaxed", 1)


def bulk_waits(weaker: bool, at_end: bool) -> Places:
    """`cp.async.bulk.wait_group` dropped, or one group weaker: in a loop, or (at_end) after the last store."""

    def places(subject: Subject) -> Iterator[Edit]:
        first = {item.name: item.span.line for item in subject.kernel.body if isinstance(item, Label)}
        back = [
            (first.get(getattr(item.operands[-1], "name", ""), item.span.line), item.span.line)
            for item in subject.instructions()
            if item.row == "bra"
        ]
        for item in subject.instructions():
            if item.row != "cp.async.bulk.wait_group" or not isinstance(item.operands[0], Immediate):
                continue
            place, line, count = item.span.line, subject.line(item), item.operands[0].value
            if any(start < place < end for start, end in back) != at_end:
                weak = re.sub(rf"\b{count}(?=\s*;)", str(count + 1), line)
                yield Edit(place, {place: weak if weaker else ""})

    return places


def blocks_without_barriers(subject: Subject) -> Iterator[Edit]:
    """An ordering barrier and all that follow it before the next label or branch: none is left to stand in for it."""
    for edit in ordering_barriers(subject):
        body = subject.kernel.body
        at = next(
            index for index, item in enumerate(body) if item.span.line == edit.line and isinstance(item, Instruction)
        )
        following = [
            item.span.line
            for _, item in straight_after(subject, at + 1)
            if fits(item, BARRIER) and subject.line(item).count(";") == 1
        ]
        if following:
            yield Edit(edit.line, {**edit.new, **{number: "" for number in following}})


def late_grid_wait(subject: Subject) -> Iterator[Edit]:
    """`griddepcontrol.wait` behind the load that follows it."""
    body = subject.kernel.body
    for at, item in enumerate(body):
        if isinstance(item, Instruction) and item.row == "griddepcontrol.wait":
            for _, other in straight_after(subject, at + 1):
                if other.opcode.startswith("ld.global") and subject.line(other).count(";") == 1:
                    moved = f"{subject.line(other)} {subject.line(item).strip()}"
                    yield Edit(other.span.line, {item.span.line: "", other.span.line: moved})
                    break
