"""Which edits of a PTX text might mend a finding? Proposals only: `repair` checks each before anyone sees it.

A finding names the place of the fault and, mostly, a second place that it conflicts with. A proposal is local to one of
them: an instruction put before or after it, a number in it corrected. Numbers come from the finding's own words (the
bytes that came, the arrivals that were counted). A fence belongs between the accesses and the synchronization that
follows them; a wait, before the first use of what it waits for; a synchronization of the CTA, where all threads pass.

Which proposals fit is decided by the finding's family, not by the code alone, so that a new rule of a family is served.
Checked by: tests/driver/test_repair.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tilewright.base.diagnostic import Diagnostic
from tilewright.frontends.ptx.ast import Immediate, Instruction, Module, Register

_SYNCHRONIZES = frozenset({"bar", "barrier", "barrier.cta", "barrier.cluster", "mbarrier.arrive", "bar.sync"})
_NUMBER = re.compile(r"(?<![\w.%+])(?:0x[0-9a-fA-F]+|\d+)\b")
_PROXY_FENCE = "fence.proxy.async.shared::cta;"
_CTA_BARRIER = "bar.sync 0;"
_CLUSTER_BARRIER = ("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One edit. line: 1-based, of the unedited text; lines: what is put there."""

    title: str
    line: int
    kind: Literal["before", "after", "replace"]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Text:
    lines: list[str]
    instructions: tuple[Instruction, ...]
    """In order, of the kernel the finding is in."""
    primary: Instruction | None
    other: Instruction | None


def candidates(text: str, module: Module, finding: Diagnostic) -> Iterator[Candidate]:
    """Edits that might mend `finding`, likeliest first. Some may make no difference or do harm: check them."""
    context = _context(text, module, finding)
    family = finding.code[:2]
    match family:
        case "PX":
            yield from _proxy(context)
        case "TX":
            yield from _numbers(context, finding)
            yield from _awaited(context)
        case "MB" | "LV":
            yield from _numbers(context, finding)
            yield from _parities(context)
            yield from _initialisation(context)
            yield from _awaited(context)
            yield from _proxy(context)
        case "BG":
            yield from _bulk_groups(context)
        case "TM":
            yield from _awaited(context)
            yield from _bulk_groups(context)
            yield from _barriers(context)
        case "WG":
            yield from _wgmma(context)
        case "TC":
            yield from _tensor_memory(context)
        case "NB":
            yield from _barriers(context)
            yield from _numbers(context, finding)
        case "CL":
            yield from _cluster(context)
        case "SR":
            yield from _numbers(context, finding)
        case "AL" | "MF":
            yield from _alignment(context, finding)
        case "GD":
            yield from _around(context, "griddepcontrol.wait;", "wait for the grids before this one", ("before",))
        case _:
            return


def _context(text: str, module: Module, finding: Diagnostic) -> _Text:
    place = finding.primary or finding.conflicts_with
    body: tuple[Instruction, ...] = ()
    for kernel in module.kernels:
        instructions = tuple(item for item in kernel.body if isinstance(item, Instruction))
        if place is not None and any(item.span.line == place.line for item in instructions):
            body = instructions
    if not body and module.kernels:
        body = tuple(item for item in module.kernels[0].body if isinstance(item, Instruction))

    def at(line: int | None) -> Instruction | None:
        return next((item for item in body if item.span.line == line), None)

    return _Text(
        text.split("\n"),
        body,
        at(finding.primary.line if finding.primary else None),
        at(finding.conflicts_with.line if finding.conflicts_with else None),
    )


def _places(context: _Text) -> list[Instruction]:
    """The conflicting place first: it is mostly the cause, the primary place where it shows."""
    return [item for item in (context.other, context.primary) if item is not None]


def _guard(item: Instruction) -> str:
    if item.guard is None:
        return ""
    return f"@{'!' if item.guard.negated else ''}{item.guard.register.name} "


def _around(
    context: _Text, instruction: str, title: str, kinds: tuple[Literal["before", "after"], ...]
) -> Iterator[Candidate]:
    for item in _places(context):
        for kind in kinds:
            yield Candidate(f"{title} ({kind} line {item.span.line})", item.span.line, kind, (f"\t{instruction}",))


def _following(context: _Text, item: Instruction) -> Iterator[Instruction]:
    """The instructions that synchronize, from `item` on, in text order; then those before it, for loops."""
    lines = [each for each in context.instructions if each.row.startswith(tuple(_SYNCHRONIZES))]
    yield from (each for each in lines if each.span.line > item.span.line)
    yield from (each for each in reversed(lines) if each.span.line < item.span.line)


def _proxy(context: _Text) -> Iterator[Candidate]:
    title = "a proxy fence between the accesses and the synchronization"
    for item in _places(context):
        for kind in ("after", "before"):
            if kind == "after" or item is context.primary:
                yield Candidate(f"{title} ({kind} line {item.span.line})", item.span.line, kind, (f"\t{_PROXY_FENCE}",))
        for number, sync in enumerate(_following(context, item)):
            if number == 2:
                break
            yield Candidate(f"{title} (before line {sync.span.line})", sync.span.line, "before", (f"\t{_PROXY_FENCE}",))


def _numbers(context: _Text, finding: Diagnostic) -> Iterator[Candidate]:
    """Numbers of the finding's words in place of those in the text: bytes, counts, registers, ids."""
    said = [int(word, 0) for word in _NUMBER.findall(finding.message)]
    said += [int(word, 0) for step in finding.interleaving for word in _NUMBER.findall(step)]
    offered = list(dict.fromkeys(said))
    rows = ("mbarrier.init", "mbarrier.arrive", "mbarrier.expect_tx", "setmaxnreg", "bar", "barrier")
    places = _places(context)
    places += [item for item in context.instructions if item.row.startswith(rows) and item not in places]
    for item in places:
        constants = [operand.value for operand in item.operands if isinstance(operand, Immediate)]
        if not constants or not item.row.startswith(rows):
            continue
        old = constants[-1]
        for new in offered:
            if new != old and _plausible(item, old, new):
                replaced = _replace_last(context.lines[item.span.line - 1], old, new)
                if replaced is not None:
                    yield Candidate(
                        f"{new} instead of {old} in line {item.span.line}", item.span.line, "replace", (replaced,)
                    )
    yield from _moved_numbers(context, offered)


def _moved_numbers(context: _Text, offered: list[int]) -> Iterator[Candidate]:
    """The same for numbers that reach a place through a register."""
    for item in _places(context):
        for operand in item.operands[1:]:
            if not isinstance(operand, Register):
                continue
            for each in context.instructions:
                target = each.operands[0] if each.operands else None
                if each.row == "mov" and target == operand and isinstance(each.operands[1], Immediate):
                    old = each.operands[1].value
                    for new in offered:
                        replaced = _replace_last(context.lines[each.span.line - 1], old, new)
                        if new != old and replaced is not None:
                            yield Candidate(
                                f"{new} instead of {old} in line {each.span.line}",
                                each.span.line,
                                "replace",
                                (replaced,),
                            )


def _plausible(item: Instruction, old: int, new: int) -> bool:
    if "expect_tx" in item.opcode:
        return new > 0 and new % 16 == 0
    if item.row == "setmaxnreg":
        return new % 8 == 0 and 24 <= new <= 256
    return 0 <= new <= 4096


def _replace_last(line: str, old: int, new: int) -> str | None:
    """`line` with the last number equal to `old` replaced."""
    found = [match for match in _NUMBER.finditer(line) if int(match.group(), 0) == old]
    if not found:
        return None
    return line[: found[-1].start()] + str(new) + line[found[-1].end() :]


def _parities(context: _Text) -> Iterator[Candidate]:
    """The other parity at a wait, or in the register that holds it."""
    for item in _places(context):
        if not item.row.startswith(("mbarrier.test_wait", "mbarrier.try_wait")):
            continue
        parity = item.operands[2] if len(item.operands) > 2 else None
        if isinstance(parity, Immediate):
            replaced = _replace_last(context.lines[item.span.line - 1], parity.value, 1 - parity.value)
            if replaced is not None:
                yield Candidate(f"the other parity in line {item.span.line}", item.span.line, "replace", (replaced,))
        if isinstance(parity, Register):
            for each in context.instructions:
                target = each.operands[0] if each.operands else None
                if each.row == "mov" and target == parity and each.operands[1] in (Immediate(0), Immediate(1)):
                    value = int(each.operands[1] == Immediate(1))
                    replaced = _replace_last(context.lines[each.span.line - 1], value, 1 - value)
                    if replaced is not None:
                        yield Candidate(
                            f"parity {1 - value} at first, in line {each.span.line}",
                            each.span.line,
                            "replace",
                            (replaced,),
                        )


def _initialisation(context: _Text) -> Iterator[Candidate]:
    inits = [item for item in context.instructions if item.row == "mbarrier.init"]
    if not inits:
        return
    last = inits[-1]
    fence = f"\t{_guard(last)}fence.mbarrier_init.release.cluster;"
    yield Candidate("the threads of the CTA wait for the inits", last.span.line, "after", (f"\t{_CTA_BARRIER}",))
    yield Candidate("the inits are fenced for the cluster", last.span.line, "after", (fence,))
    yield Candidate(
        "the inits are fenced, and the cluster waits for them",
        last.span.line,
        "after",
        (fence, *(f"\t{line}" for line in _CLUSTER_BARRIER)),
    )


def _awaited(context: _Text) -> Iterator[Candidate]:
    """An asynchronous operation is used before it is known to be complete."""
    rows = [item.row for item in context.instructions]
    if any(row.startswith("wgmma") for row in rows):
        yield from _wgmma(context)
    if any(row.startswith("cp.async.wait") or row == "cp.async" for row in rows):
        yield from _around(context, "cp.async.wait_all;", "wait for the copies", ("before",))
        for item in _places(context):
            lines = ("\tcp.async.wait_all;", f"\t{_CTA_BARRIER}")
            yield Candidate(f"wait for the copies (before line {item.span.line})", item.span.line, "before", lines)
        yield from _lower_waits(context, "cp.async.wait_group")


def _bulk_groups(context: _Text) -> Iterator[Candidate]:
    yield from _lower_waits(context, "cp.async.bulk.wait_group")
    for item in _places(context):
        guard = _guard(item)
        yield Candidate(
            f"commit the copies (after line {item.span.line})", item.span.line, "after",
            (f"\t{guard}cp.async.bulk.commit_group;",),
        )  # fmt: skip
        yield Candidate(
            f"commit the copies and wait for them (after line {item.span.line})", item.span.line, "after",
            (f"\t{guard}cp.async.bulk.commit_group;", f"\t{guard}cp.async.bulk.wait_group.read 0;"),
        )  # fmt: skip
        for wait in ("cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;"):
            yield Candidate(
                f"wait for the copies (before line {item.span.line})", item.span.line, "before", (f"\t{wait}",)
            )
            yield Candidate(
                f"wait for the copies, all threads (before line {item.span.line})", item.span.line, "before",
                (f"\t{wait}", f"\t{_CTA_BARRIER}"),
            )  # fmt: skip
    for item in context.instructions:
        if item.row in ("ret", "exit"):
            yield Candidate(
                f"wait for the copies before the end (line {item.span.line})", item.span.line, "before",
                ("\tcp.async.bulk.wait_group 0;",),
            )  # fmt: skip
    commits = [item for item in context.instructions if item.row == "cp.async.bulk.commit_group"]
    for item in commits[-2:]:
        yield Candidate(
            f"wait for the copies (after line {item.span.line})", item.span.line, "after",
            (f"\t{_guard(item)}cp.async.bulk.wait_group.read 0;",),
        )  # fmt: skip


def _lower_waits(context: _Text, row: str) -> Iterator[Candidate]:
    """Waits that leave fewer groups pending."""
    for item in context.instructions:
        if not item.row.startswith(row) or not item.operands or not isinstance(item.operands[-1], Immediate):
            continue
        pending = item.operands[-1].value
        for fewer in dict.fromkeys((pending - 1, 0)):
            if 0 <= fewer < pending:
                replaced = _replace_last(context.lines[item.span.line - 1], pending, fewer)
                if replaced is not None:
                    yield Candidate(
                        f"leave {fewer} groups pending instead of {pending} in line {item.span.line}",
                        item.span.line, "replace", (replaced,),
                    )  # fmt: skip


def _wgmma(context: _Text) -> Iterator[Candidate]:
    yield from _lower_waits(context, "wgmma.wait_group")
    primary = context.primary
    if primary is not None and primary.row == "wgmma.mma_async":
        yield Candidate(
            f"wgmma.fence before line {primary.span.line}",
            primary.span.line,
            "before",
            ("\twgmma.fence.sync.aligned;",),
        )
    both = ("\twgmma.commit_group.sync.aligned;", "\twgmma.wait_group.sync.aligned 0;")
    for item in _places(context):
        if item.row == "wgmma.mma_async":
            yield Candidate(f"commit the wgmmas (after line {item.span.line})", item.span.line, "after", both[:1])
            yield Candidate(
                f"commit the wgmmas and wait for them (after line {item.span.line})", item.span.line, "after", both
            )
        else:
            yield Candidate(f"wait for the wgmmas (before line {item.span.line})", item.span.line, "before", both[1:])
    arrivals = [item for item in context.instructions if item.row.startswith("mbarrier.arrive")]
    for item in arrivals:
        yield Candidate(
            f"wait for the wgmmas before the release (line {item.span.line})", item.span.line, "before", both[1:]
        )
    for item in context.instructions:
        if item.row in ("ret", "exit"):
            yield Candidate(
                f"wait for the wgmmas before the end (line {item.span.line})", item.span.line, "before", both
            )


def _tensor_memory(context: _Text) -> Iterator[Candidate]:
    waits = ("tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;")
    fences = ("tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;")
    for item in _places(context):
        for wait in waits:
            yield Candidate(f"{wait[:-1]} before line {item.span.line}", item.span.line, "before", (f"\t{wait}",))
        if item.row.startswith(("tcgen05.ld", "tcgen05.st")):
            for wait in waits:
                yield Candidate(f"{wait[:-1]} after line {item.span.line}", item.span.line, "after", (f"\t{wait}",))
        for number, sync in enumerate(_following(context, item)):
            if number == 2:
                break
            for lines in ((waits[0], fences[0]), (waits[1], fences[0]), fences[:1]):
                yield Candidate(
                    f"{lines[0][:-1]} before line {sync.span.line}", sync.span.line, "before",
                    tuple(f"\t{line}" for line in lines),
                )  # fmt: skip
        yield Candidate(f"{fences[1][:-1]} before line {item.span.line}", item.span.line, "before", (f"\t{fences[1]}",))
    yield from _barriers(context)


def _barriers(context: _Text) -> Iterator[Candidate]:
    for item in _places(context):
        kinds: tuple[Literal["before", "after"], ...] = (
            ("after", "before") if item is context.other else ("before", "after")
        )
        for kind in kinds:
            yield Candidate(
                f"the threads of the CTA wait for each other ({kind} line {item.span.line})", item.span.line, kind,
                (f"\t{_CTA_BARRIER}",),
            )  # fmt: skip


def _cluster(context: _Text) -> Iterator[Candidate]:
    lines = tuple(f"\t{line}" for line in _CLUSTER_BARRIER)
    for item in context.instructions:
        if item.row in ("ret", "exit"):
            yield Candidate(
                f"the cluster waits before its end (line {item.span.line})", item.span.line, "before", lines
            )
    inits = [item for item in context.instructions if item.row == "mbarrier.init"]
    if inits:
        yield Candidate("the cluster waits for the inits", inits[-1].span.line, "after", lines)
    for item in _places(context):
        yield Candidate(f"the cluster waits (before line {item.span.line})", item.span.line, "before", lines)
        yield Candidate(f"the cluster waits (after line {item.span.line})", item.span.line, "after", lines)
    yield from _initialisation(context)


def _alignment(context: _Text, finding: Diagnostic) -> Iterator[Candidate]:
    """A stronger alignment of the shared variables."""
    wanted = [int(word, 0) for word in _NUMBER.findall(finding.message)]
    powers = [
        value for value in dict.fromkeys((*wanted, 128, 1024)) if 16 <= value <= 1024 and value & (value - 1) == 0
    ]
    for number, line in enumerate(context.lines, 1):
        match = re.search(r"\.shared\b.*\.align\s+(\d+)", line)
        if match is None:
            continue
        for align in powers:
            if align > int(match.group(1)):
                changed = line[: match.start(1)] + str(align) + line[match.end(1) :]
                yield Candidate(f"align to {align} bytes in line {number}", number, "replace", (changed,))
