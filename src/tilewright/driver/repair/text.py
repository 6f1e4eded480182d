"""Where in a kernel's text may an edit be made, and what does the text itself tell about a fault?

`Subject` is a text with its instructions as places: what they read and write, which of them compute something that
nobody uses (an instruction that is missing leaves its operands behind), which shared addresses are constant, which loop
an instruction is in, where a wait for an mbarrier ends. `Candidate` is a proposed edit; `applied` makes it.

All of it is syntax and a guess of what was meant: nothing here decides whether an edit is right. Liveness ignores the
order of instructions; a register that is renamed (of a nested scope) can't be named in an edit elsewhere, such an edit
is then not readable and falls away. Checked by: tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    Immediate,
    Instruction,
    Kernel,
    Label,
    Module,
    Negated,
    Operand,
    PairOfPredicates,
    Register,
    Symbol,
    TensorAddress,
    Vector,
)

_SYNCHRONIZES = ("bar", "barrier", "mbarrier.arrive")
_WITHOUT_EFFECT = (
    "abs", "add", "and", "bfe", "bfi", "cvt", "cvta", "div", "elect.sync", "isspacep", "lop3", "mad", "mapa", "max",
    "min", "mov", "mul", "neg", "not", "or", "popc", "prmt", "rem", "sad", "selp", "set", "setp", "shf", "shfl.sync",
    "shl", "shr", "slct", "sub", "vote.sync", "xor",
)  # fmt: skip
_WITHOUT_RESULT = (
    "st", "stmatrix", "bar", "barrier", "mbarrier.init", "mbarrier.inval", "mbarrier.expect_tx", "bra", "brx", "ret",
    "exit", "call", "cp.", "fence", "membar", "red", "setmaxnreg", "griddepcontrol", "nanosleep", "prefetch", "trap",
    "tensormap", "multimem.red", "discard", "applypriority",
    "tcgen05.mma", "tcgen05.alloc", "tcgen05.dealloc", "tcgen05.commit", "tcgen05.st", "tcgen05.cp", "tcgen05.wait",
    "tcgen05.fence", "tcgen05.shift", "tcgen05.relinquish", "wgmma.fence", "wgmma.commit", "wgmma.wait",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Edit:
    """The characters from start to before end give way to `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """Edits that belong together. title: what they do, for a person; cost: what they cost at run time, where known;
    loosens: a wait may pass that did not."""

    title: str
    edits: tuple[Edit, ...]
    cost: str = ""
    loosens: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """An instruction in the text: index among its kernel's, characters from its guard to its semicolon."""

    item: Instruction
    index: int
    start: int
    end: int
    text: str

    @property
    def line(self) -> int:
        return self.item.span.line

    @property
    def guard(self) -> str:
        """`@%p1 ` or nothing."""
        guard = self.item.guard
        return "" if guard is None else f"@{'!' if guard.negated else ''}{guard.register.name} "


@dataclass(frozen=True, slots=True)
class Loop:
    """head: the label's name; first and last: indices of instructions, `last` being the branch back."""

    head: str
    head_line: int
    first: int
    last: int


@dataclass(slots=True)
class Subject:
    """A kernel's text, and the two places of a finding in it."""

    text: str
    kernel: Kernel
    places: tuple[Place, ...]
    finding: Diagnostic
    primary: Place | None
    other: Place | None
    loops: tuple[Loop, ...]
    line_starts: tuple[int, ...]
    dead: tuple[Place, ...] = field(default=())
    """Instructions that compute what nothing uses, in order."""

    @property
    def found(self) -> tuple[Place, ...]:
        """The places of the finding, the conflicting one first: it is mostly the cause, the other where it shows."""
        return tuple(place for place in (self.other, self.primary) if place is not None)

    @property
    def words(self) -> str:
        """All that the finding says."""
        return "\n".join((self.finding.message, *self.finding.interleaving))

    def fits(self, *rows: str) -> Iterator[Place]:
        """Instructions whose row begins with one of `rows`, in order."""
        return (place for place in self.places if place.item.row.startswith(rows))

    def near(self, places: Iterator[Place] | list[Place]) -> list[Place]:
        """Those that are found first, then those nearest to what is found."""
        anchors = [place.index for place in (self.primary, self.other) if place is not None]
        return sorted(places, key=lambda place: min((abs(place.index - at) for at in anchors), default=place.index))

    def enclosing(self, place: Place) -> list[Loop]:
        """Loops around an instruction, the innermost first."""
        around = [loop for loop in self.loops if loop.first <= place.index <= loop.last]
        return sorted(around, key=lambda loop: loop.last - loop.first)


def subject_of(text: str, module: Module, finding: Diagnostic) -> Subject | None:
    """The kernel that a finding is in, or the first; None where there is no kernel."""
    place = finding.primary or finding.conflicts_with
    kernel = next(
        (each for each in module.kernels if place is not None and _has_line(each, place.line)),
        module.kernels[0] if module.kernels else None,
    )
    if kernel is None:
        return None
    starts = _line_starts(text)
    places = places_of(text, kernel)

    def at(span: Span | None) -> Place | None:
        if span is None:
            return None
        on_line = [each for each in places if each.line == span.line]
        return next((each for each in on_line if each.item.span.column == span.column), on_line[0] if on_line else None)

    return Subject(
        text, kernel, tuple(places), finding, at(finding.primary), at(finding.conflicts_with),
        _loops(kernel), tuple(starts), unused(places),
    )  # fmt: skip


def places_of(text: str, kernel: Kernel) -> list[Place]:
    """The instructions of a kernel in its text."""
    starts = _line_starts(text)
    places: list[Place] = []
    for item in kernel.body:
        if isinstance(item, Instruction):
            start = starts[item.span.line - 1] + item.span.column - 1
            end = text.find(";", start) + 1
            places.append(Place(item, len(places), start, end, text[start:end]))
    return places


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts


def applied(text: str, candidate: Candidate) -> str | None:
    """The text with a candidate's edits; None where they overlap or change nothing."""
    changed, limit = text, len(text) + 1
    for edit in sorted(candidate.edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        if edit.end > limit or edit.start > edit.end:
            return None
        changed = changed[: edit.start] + edit.text + changed[edit.end :]
        limit = edit.start
    return changed if changed != text else None


def joined(chain: Sequence[Candidate]) -> Candidate:
    """Several steps of one text as one."""
    return Candidate("; ".join(each.title for each in chain), tuple(edit for each in chain for edit in each.edits))


def unshifted(candidate: Candidate, earlier: Candidate) -> Candidate | None:
    """A candidate for a text with `earlier`'s edits, as one for the text without; None where it touches what they
    wrote."""
    edits: list[Edit] = []
    for edit in candidate.edits:
        by = 0
        for other in sorted(earlier.edits, key=lambda each: (each.start, each.end)):
            start = other.start + by
            end = start + len(other.text)
            if edit.start >= end and (edit.start > start or not other.text):
                by += len(other.text) - (other.end - other.start)
            elif edit.end > start:
                return None
        edits.append(Edit(edit.start - by, edit.end - by, edit.text))
    return replace(candidate, edits=tuple(edits))


def shifted(edits: Sequence[Edit], candidate: Candidate) -> tuple[Edit, ...] | None:
    """Edits of a text as edits of the text with those of a candidate; None where they touch the same characters."""
    moved: list[Edit] = []
    for edit in edits:
        by = 0
        for other in candidate.edits:
            if other.end <= edit.start and other != edit:
                by += len(other.text) - (other.end - other.start)
            elif other.start < edit.end or other.start == edit.start:
                return None
        moved.append(Edit(edit.start + by, edit.end + by, edit.text))
    return tuple(moved)


# ---------------------------------------------------------------- edits


def before(subject: Subject, place: Place, *lines: str) -> Edit:
    """Lines put before an instruction: on lines of their own if nothing stands before it on its line."""
    line_start = subject.line_starts[place.line - 1]
    if subject.text[line_start : place.start].strip():
        return Edit(place.start, place.start, " ".join(lines) + " ")
    return Edit(line_start, line_start, "".join(f"\t{line}\n" for line in lines))


def after(subject: Subject, place: Place, *lines: str) -> Edit:
    """Lines put after an instruction."""
    line_end = subject.text.find("\n", place.end)
    line_end = len(subject.text) if line_end < 0 else line_end
    rest = subject.text[place.end : line_end]
    if rest.strip() and not rest.lstrip().startswith("//"):
        return Edit(place.end, place.end, " " + " ".join(lines))
    return Edit(line_end, line_end, "".join(f"\n\t{line}" for line in lines))


def before_line(subject: Subject, line: int, *lines: str) -> Edit:
    """Lines put before a line of the text (1-based)."""
    start = subject.line_starts[line - 1]
    return Edit(start, start, "".join(f"\t{each}\n" for each in lines))


def replaced(place: Place, text: str) -> Edit:
    return Edit(place.start, place.end, text)


def dropped(subject: Subject, place: Place) -> Edit:
    """The instruction taken away, with its line if it has one to itself."""
    line_start = subject.line_starts[place.line - 1]
    line_end = subject.text.find("\n", place.end)
    line_end = len(subject.text) if line_end < 0 else line_end + 1
    rest = subject.text[place.end : line_end].strip()
    if not subject.text[line_start : place.start].strip() and (not rest or rest.startswith("//")):
        return Edit(line_start, line_end, "")
    return Edit(place.start, place.end, "")


def with_number(place: Place, old: int, new: int) -> str | None:
    """The instruction's text with the last number equal to `old` replaced."""
    found = [
        match
        for match in re.finditer(r"(?<![\w.%+$-])(?:0x[0-9a-fA-F]+|-?\d+)\b", place.text)
        if int(match.group(), 0) == old
    ]
    if not found:
        return None
    return place.text[: found[-1].start()] + str(new) + place.text[found[-1].end() :]


# ---------------------------------------------------------------- what instructions say


def written(item: Instruction) -> set[str]:
    """Names of the registers that an instruction writes."""
    if not item.operands or item.row.startswith(_WITHOUT_RESULT):
        return set()
    match item.operands[0]:
        case Register(name):
            return {name}
        case PairOfPredicates(first, second):
            return {first.name, second.name}
        case Vector(items):
            return {each.name for each in items if isinstance(each, Register)}
        case _:
            return set()


def read_by(item: Instruction) -> set[str]:
    """Names of the registers that an instruction reads."""
    results = 0 if item.row.startswith(_WITHOUT_RESULT) or not item.operands else 1
    if results and not isinstance(item.operands[0], Register | PairOfPredicates | Vector):
        results = 0
    names = {name for operand in item.operands[results:] for name in _names(operand)}
    if item.row.startswith("wgmma.mma") or item.row == "mma.sync":
        names |= set(_names(item.operands[0])) if item.operands else set()
    return names | ({item.guard.register.name} if item.guard is not None else set())


def _names(operand: Operand) -> Iterator[str]:
    match operand:
        case Register(name):
            yield name
        case Address(Register(name)):
            yield name
        case TensorAddress(base, coordinates):
            yield from _names(base)
            for each in coordinates:
                yield from _names(each)
        case Vector(items) | Arguments(items):
            for each in items:
                yield from _names(each)
        case Negated(register):
            yield register.name
        case PairOfPredicates(first, second):
            yield from (first.name, second.name)
        case _:
            return


def barrier_of(item: Instruction) -> Address | None:
    """The mbarrier that an instruction names."""
    if not item.row.startswith("mbarrier") and "mbarrier" not in item.opcode:
        return None
    addresses = [operand for operand in item.operands if isinstance(operand, Address)]
    return addresses[0 if item.row.startswith(("mbarrier", "tcgen05")) else -1] if addresses else None


def spelled(address: Address) -> str:
    """An address as text."""
    name = "" if address.base is None else address.base.name
    if not address.offset or not name:
        return f"[{name or address.offset}]"
    return f"[{name}+{address.offset}]"


def constant(subject: Subject, operand: Operand) -> tuple[str, int] | None:
    """A symbol (empty for none) and an offset, where an operand is such a constant; as of the text, not of a run."""
    return constant_among(subject.places, operand)


def constant_among(places: Sequence[Place], operand: Operand, depth: int = 6) -> tuple[str, int] | None:
    """The same, of a kernel with these instructions."""
    match operand:
        case Immediate(value):
            return "", value
        case Symbol(name):
            return name, 0
        case Address(base, offset):
            at = ("", 0) if base is None else constant_among(places, base, depth)
            return None if at is None else (at[0], at[1] + offset)
        case Register(name):
            makers = [place.item for place in places if name in written(place.item)]
            if depth == 0 or len(makers) != 1 or makers[0].guard is not None:
                return None
            parts = [constant_among(places, each, depth - 1) for each in makers[0].operands[1:]]
            known = [part for part in parts if part is not None]
            if len(known) != len(parts):
                return None
            match makers[0].row, known:
                case "mov" | "cvta", [value]:
                    return value
                case "add", [first, second] if not (first[0] and second[0]):
                    return first[0] or second[0], first[1] + second[1]
                case _:
                    return None
        case _:
            return None


def unused(places: list[Place]) -> tuple[Place, ...]:
    """Instructions that do nothing but compute what nothing uses."""
    makers: dict[str, list[Place]] = {}
    for place in places:
        for name in written(place.item):
            makers.setdefault(name, []).append(place)
    live: set[str] = set()
    waiting: list[str] = []
    for place in places:
        if place.item.row not in _WITHOUT_EFFECT and not place.item.row.startswith("ld.param"):
            waiting.extend(read_by(place.item))
    while waiting:
        name = waiting.pop()
        if name not in live:
            live.add(name)
            for place in makers.get(name, ()):
                waiting.extend(read_by(place.item))
    return tuple(
        place
        for place in places
        if place.item.row in _WITHOUT_EFFECT and written(place.item) and not written(place.item) & live
    )


def _loops(kernel: Kernel) -> tuple[Loop, ...]:
    """Branches back, with the label they go to. The loop in which a wait asks again is one, too."""
    labels: dict[str, tuple[int, int]] = {}
    loops: list[Loop] = []
    index = 0
    for item in kernel.body:
        if isinstance(item, Label):
            labels[item.name] = (index, item.span.line)
            continue
        target = item.operands[0] if item.row == "bra" and item.operands else None
        if isinstance(target, Symbol) and target.name in labels:
            first, line = labels[target.name]
            loops.append(Loop(target.name, line, first, index))
        index += 1
    return tuple(loops)


def _has_line(kernel: Kernel, line: int) -> bool:
    return any(item.span.line == line for item in kernel.body)


# ---------------------------------------------------------------- waits


def waits(subject: Subject) -> list[Place]:
    """The instructions that ask whether a phase has ended."""
    return list(subject.fits("mbarrier.test_wait", "mbarrier.try_wait"))


def wait_end(subject: Subject, wait: Place) -> Place:
    """The last instruction of a wait: the branch that asks again, or goes on."""
    done = written(wait.item)
    for place in subject.places[wait.index + 1 : wait.index + 5]:
        if place.item.row == "bra" and place.item.guard is not None and place.item.guard.register.name in done:
            following = subject.places[place.index + 1 : place.index + 2]
            jump = following and following[0].item.row == "bra" and following[0].item.guard is None
            return following[0] if jump and not place.item.guard.negated else place
    return wait


def wait_lines(address: str, parity: str) -> tuple[str, ...]:
    """A wait for a phase, as text in a scope of its own."""
    return (
        "{",
        ".reg .pred phase_ended;",
        "ask_again:",
        f"mbarrier.try_wait.parity.shared::cta.b64 phase_ended, {address}, {parity};",
        "@!phase_ended bra ask_again;",
        "}",
    )


def parity_of(wait: Place) -> Operand | None:
    """The parity that a wait names, None where it takes a state."""
    operands = wait.item.operands
    return operands[2] if "parity" in wait.item.opcode and len(operands) > 2 else None


def following_syncs(subject: Subject, place: Place) -> Iterator[Place]:
    """The instructions that synchronize, after `place` in text order; then those before it, for loops."""
    lines = list(subject.fits(*_SYNCHRONIZES))
    yield from (each for each in lines if each.index > place.index)
    yield from (each for each in reversed(lines) if each.index < place.index)


def ends_of(subject: Subject) -> list[Place]:
    """Where threads exit."""
    return list(subject.fits("ret", "exit"))
