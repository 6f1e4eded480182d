"""What an edit of a PTX text is, and the places of a kernel that an edit may need to know.

Edits keep the number of lines: what is removed leaves its line empty, what is added stands on the line of its
neighbour, so that lines of findings are lines of the subject.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import cast

from tilewright.frontends.ptx.ast import Address, Immediate, Instruction, Kernel, Label, PairOfPredicates, Register


@dataclass(frozen=True, slots=True)
class Edit:
    """line: where the fault is, or the first changed line; new: line numbers (1-based) and their new texts."""

    line: int
    new: dict[int, str]


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel and the lines of the text it stands in."""

    kernel: Kernel
    lines: tuple[str, ...]

    def line(self, item: Instruction | Label) -> str:
        return self.lines[item.span.line - 1]

    def instructions(self) -> list[Instruction]:
        """Those that have their line to themselves."""
        return [item for item in self.kernel.body if isinstance(item, Instruction) and self.line(item).count(";") == 1]


Places = Callable[[Subject], Iterator[Edit]]
LineEdit = Callable[[Instruction, str], str | None]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A kind of edit. families: of codes that may name the fault, none for an edit that changes nothing; places: the
    edits of a kernel; isa: the reading under which it is a fault; shows: opcodes of the instructions at which a fault
    shows that has no line of its own, such as the wait for an arrival that is missing."""

    name: str
    families: tuple[str, ...]
    places: Places
    isa: str = "tolerant"
    shows: tuple[str, ...] = ()


def each(edit: LineEdit) -> Places:
    """One edit for every instruction whose line `edit` changes."""

    def places(subject: Subject) -> Iterator[Edit]:
        for item in subject.instructions():
            line = subject.line(item)
            new = edit(item, line)
            if new is not None and new != line:
                yield Edit(item.span.line, {item.span.line: new})

    return places


def fits(item: Instruction, rows: tuple[str, ...], having: str = "") -> bool:
    return item.row in rows and having in item.opcode


def drop(*rows: str, having: str = "") -> Places:
    return each(lambda item, _line: "" if fits(item, rows, having) else None)


def twice(*rows: str, having: str = "") -> Places:
    return each(lambda item, line: f"{line} {line.strip()}" if fits(item, rows, having) else None)


def before(added: str, *rows: str, having: str = "") -> Places:
    return each(lambda item, line: f"\t{added} {line.strip()}" if fits(item, rows, having) else None)


def replace(old: str, new: str, *rows: str, having: str = "") -> Places:
    return each(lambda item, line: line.replace(old, new, 1) if fits(item, rows, having) else None)


def number(change: Callable[[int], int | None], *rows: str, having: str = "") -> Places:
    """Change the last integer constant among the operands."""

    def edit(item: Instruction, line: str) -> str | None:
        constants = [operand.value for operand in item.operands if isinstance(operand, Immediate)]
        if not fits(item, rows, having) or not constants:
            return None
        new = change(constants[-1])
        found = [match for match in re.finditer(r"(?<![\w.%+])\d+\b", line) if int(match.group()) == constants[-1]]
        if new is None or not found:
            return None
        return line[: found[-1].start()] + str(new) + line[found[-1].end() :]

    return each(edit)


def without_guard(*rows: str, having: str = "") -> Places:
    def edit(item: Instruction, line: str) -> str | None:
        if not fits(item, rows, having) or item.guard is None:
            return None
        return re.sub(r"@!?%?\w+\s+", "", line, count=1)

    return each(edit)


# ---------------------------------------------------------------- what an instruction reads and writes

_NO_RESULT = ("st", "red", "bar", "barrier", "fence", "membar", "bra", "ret", "exit", "mbarrier", "cp", "wgmma")
PURE = (
    "add", "sub", "mul", "mad", "mul24", "shl", "shr", "and", "or", "xor", "not", "neg", "mov", "setp", "selp", "cvt",
    "bfe", "bfi", "lop3", "shf", "prmt", "min", "max", "fma", "cvta", "ex2", "rcp",
)  # fmt: skip
"""Rows of instructions that only compute."""


def registers(value: object) -> set[str]:
    """Names of the registers in a value of the syntax tree."""
    if isinstance(value, Register):
        return {value.name}
    if isinstance(value, tuple):
        return {name for part in cast(tuple[object, ...], value) for name in registers(part)}
    if is_dataclass(value):
        return {name for part in fields(value) for name in registers(getattr(value, part.name))}
    return set()


def written(item: Instruction) -> set[str]:
    """Registers that an instruction may write; the accumulators of a wgmma among them."""
    root = item.opcode.split(".")[0]
    if item.opcode.startswith(("wgmma.mma_async", "mbarrier.try_wait", "mbarrier.test_wait")):
        return registers(item.operands[0])
    if (root in _NO_RESULT and "mbarrier.arrive" not in item.opcode) or not item.operands:
        return set()
    return registers(item.operands[0])


def read(item: Instruction) -> set[str]:
    used = registers(item.operands[1:]) | registers(item.guard)
    first = item.operands[0] if item.operands else None
    if isinstance(first, Address) or item.opcode.split(".")[0] in _NO_RESULT or item.guard is not None:
        used |= registers(first)
    if isinstance(first, PairOfPredicates):
        return used
    return used


def sources_of(subject: Subject, names: set[str], steps: int = 6) -> set[str]:
    """Registers that those named are computed from, through instructions that only compute, `steps` deep."""
    found = set(names)
    body = [item for item in subject.instructions() if item.row in PURE]
    for _ in range(steps):
        more = {name for item in body if written(item) & found for name in read(item)}
        if more <= found:
            break
        found |= more
    return found


# ---------------------------------------------------------------- waits


@dataclass(frozen=True, slots=True)
class Wait:
    """A `mbarrier.try_wait` that is tried until it succeeds. at: index in the body; past: index after its loop."""

    item: Instruction
    at: int
    past: int


def waits(subject: Subject) -> list[Wait]:
    found: list[Wait] = []
    body = subject.kernel.body
    for at, item in enumerate(body):
        if not isinstance(item, Instruction) or item.row not in ("mbarrier.try_wait", "mbarrier.test_wait"):
            continue
        past = at + 1
        while past < len(body) and past < at + 4:
            follower = body[past]
            if isinstance(follower, Instruction) and follower.row != "bra":
                break
            past += 1
        found.append(Wait(item, at, past))
    return found


def retried(subject: Subject, wait: Wait) -> bool:
    """Whether it is the inline assembly of Triton's: a loop of the wait and a branch under its own predicate."""
    after = subject.kernel.body[wait.at + 1]
    return isinstance(after, Instruction) and after.row == "bra" and after.guard is not None and after.guard.negated


def straight_after(subject: Subject, index: int) -> Iterator[tuple[int, Instruction]]:
    """Instructions from an index on, up to a label or a branch."""
    body = subject.kernel.body
    while index < len(body):
        item = body[index]
        if not isinstance(item, Instruction) or item.row in ("bra", "brx.idx", "ret", "exit", "call"):
            return
        yield index, item
        index += 1
