"""Which edits of nvgpu MLIR might fix a finding about mbarriers? Proposals only: `repair` checks each.

What lacks is written as a sibling of it stands elsewhere in the text: the init of a place in a group of barriers that
another group has, a wait, an arrival, an expectation. A group and a place are those of an operation of the finding, or
of one in the same block. Bytes, counts and parities are changed through a constant of their own, which is put before
the operation, so that nothing else changes that uses the old one.

Not handled: waits whose parity no value in sight has. Checked by: tests/driver/repair/test_structured.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tilewright.driver.repair.text import Candidate, Edit

_PLACE = re.compile(r"(%[\w$.-]+)\[(%[\w$.-]+)\]")
_INIT = re.compile(r"nvgpu\.mbarrier\.init (%[\w$.-]+)\[(%[\w$.-]+)\], (%[\w$.-]+)")
_EXPECT = re.compile(r"nvgpu\.mbarrier\.arrive\.expect_tx (%[\w$.-]+)\[(%[\w$.-]+)\], (%[\w$.-]+)")
_WAIT = re.compile(r"nvgpu\.mbarrier\.try_wait\.parity (%[\w$.-]+)\[(%[\w$.-]+)\], (%[\w$.-]+), (%[\w$.-]+)")
_LOAD = re.compile(r"nvgpu\.tma\.async\.load [^,]*(?:\[[^\]]*\])?, (%[\w$.-]+)\[(%[\w$.-]+)\]")
_OFF = re.compile(r"expects (\d+) (more|fewer) bytes")
_CONSTANT = re.compile(r"(%[\w$.-]+) = arith\.constant (-?\d+|true|false)(?: : (\w+))?\s*$")
_GROUPS_LEFT = re.compile(r"(waitGroup = |numGroups = )(\d+)")
_FIXED = "%repaired"
_NEAR = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """lines: of the whole text; near: those of the finding, from 0; message: what it says."""

    lines: tuple[str, ...]
    near: tuple[int, ...]
    message: str

    def matches(self, pattern: re.Pattern[str]) -> list[tuple[int, re.Match[str]]]:
        """Lines with what matches in them, nearest to the finding first."""
        found = [(at, match) for at, line in enumerate(self.lines) if (match := pattern.search(line)) is not None]
        return sorted(found, key=lambda each: min((abs(each[0] - at) for at in self.near), default=each[0]))

    def start(self, at: int) -> int:
        return sum(len(line) + 1 for line in self.lines[:at])

    def indent(self, at: int) -> str:
        line = self.lines[at]
        return line[: len(line) - len(line.lstrip())]

    def before(self, at: int, text: str) -> Edit:
        return Edit(self.start(at), self.start(at), f"{self.indent(at)}{text}\n")

    def after(self, at: int, text: str) -> Edit:
        end = self.start(at) + len(self.lines[at])
        return Edit(end, end, f"\n{self.indent(at)}{text}")

    def replaced(self, at: int, *texts: str) -> Edit:
        inner = "\n".join(f"{self.indent(at)}{text}" for text in texts)
        return Edit(self.start(at), self.start(at) + len(self.lines[at]), inner)


def barrier_candidates(text: str, near: tuple[int, ...], message: str) -> Iterator[Iterator[Candidate]]:
    """Kinds of edits, each likeliest first; none where the text has no nvgpu mbarriers."""
    if "nvgpu.mbarrier" not in text and "nvgpu.device_async" not in text:
        return
    subject = Subject(tuple(text.split("\n")), near, message)
    kinds: tuple[Callable[[Subject], Iterator[Candidate]], ...] = (
        _bytes, _inits, _signals, _waits, _parities, _counts, _left,
    )  # fmt: skip
    for kind in kinds:
        yield kind(subject)


def _constants(subject: Subject) -> dict[str, tuple[int, str]]:
    """Values of constants by name, with their types."""
    found: dict[str, tuple[int, str]] = {}
    for _, match in subject.matches(_CONSTANT):
        value = {"true": 1, "false": 0}.get(match[2])
        found[match[1]] = (int(match[2]) if value is None else value, match[3] or "i1")
    return found


def _with_constant(subject: Subject, at: int, old: str, value: int, kind: str) -> Edit:
    """The line with a constant of its own in the place of an operand."""
    line = subject.lines[at].strip()
    written = re.sub(rf"(?<=[ ,(=]){re.escape(old)}(?![\w$.-])", _FIXED, line, count=1)
    number = ("true" if value else "false") if kind == "i1" else f"{value} : {kind}"
    return subject.replaced(at, f"{_FIXED} = arith.constant {number}", written)


def _bytes(subject: Subject) -> Iterator[Candidate]:
    """As many bytes as the finding misses or has too many."""
    off = _OFF.search(subject.message)
    constants = _constants(subject)
    for at, match in subject.matches(_EXPECT)[:_NEAR] if off is not None else ():
        value, kind = constants.get(match[3], (None, ""))
        if value is None or off is None:
            continue
        right = value - int(off[1]) if off[2] == "more" else value + int(off[1])
        if right > 0:
            edit = _with_constant(subject, at, match[3], right, kind)
            yield Candidate(f"expect {right} instead of {value} (line {at + 1})", (edit,))


def _counts(subject: Subject) -> Iterator[Candidate]:
    """Another number of arrivals: 1, or a warpgroup's."""
    constants = _constants(subject)
    for at, match in subject.matches(_INIT)[: 2 * _NEAR]:
        value, kind = constants.get(match[3], (None, ""))
        usual = [constants[other[3]][0] for _, other in subject.matches(_INIT) if other[3] in constants]
        for right in dict.fromkeys((*usual, 1, 128)):
            if value is not None and right != value:
                edit = _with_constant(subject, at, match[3], right, kind)
                yield Candidate(f"count {right} arrivals instead of {value} (line {at + 1})", (edit,))


def _inits(subject: Subject) -> Iterator[Candidate]:
    """A place of a group that is used or that another group has, and that nobody initialises."""
    inits = subject.matches(_INIT)
    begun = {(match[1], match[2]) for _, match in inits}
    places = dict.fromkeys(match[2] for _, match in inits)
    groups = dict.fromkeys(match[1] for line in subject.lines if "nvgpu." in line for match in _PLACE.finditer(line)
                           if "mbarrier" in line)  # fmt: skip
    for group in groups:
        siblings = [each for each in inits if each[1][1] == group] or inits
        for place in places:
            if (group, place) in begun:
                continue
            for at, match in siblings[:2]:
                written = subject.lines[at].strip().replace(f"{match[1]}[{match[2]}]", f"{group}[{place}]", 1)
                yield Candidate(f"initialise {group}[{place}] (after line {at + 1})", (subject.after(at, written),))


def _signals(subject: Subject) -> Iterator[Candidate]:
    """An expectation before the first copy of a block that has none, and an arrival behind the products."""
    expects = subject.matches(_EXPECT)
    for at, match in subject.matches(_LOAD)[:_NEAR]:
        first = at
        while first and _LOAD.search(subject.lines[first - 1]) is not None:
            first -= 1
        if any(_EXPECT.search(line) for line in subject.lines[max(0, first - 8) : at + 8]):
            continue
        condition = re.search(r", predicate = %[\w$.-]+", subject.lines[first])
        for _, sibling in expects[:2]:
            written = re.sub(r", predicate = %[\w$.-]+", "", sibling.string.strip())
            written = written.replace(f"{sibling[1]}[{sibling[2]}]", f"{match[1]}[{match[2]}]", 1)
            if condition is not None:
                written = written.replace(" : ", f"{condition[0]} : ", 1)
            yield Candidate(f"expect the copies' bytes (before line {first + 1})", (subject.before(first, written),))
    yield from _empty_conditions(subject)


def _empty_conditions(subject: Subject) -> Iterator[Candidate]:
    """A condition that guards nothing any more: an arrival stood there, on a barrier that a wait names."""
    types = [line.rsplit(" : ", 1)[-1].strip() for line in subject.lines if "mbarrier.try_wait" in line]
    kinds = dict.fromkeys(types)
    for at in range(len(subject.lines) - 1):
        if not re.search(r"scf\.if %[\w$.-]+ \{$", subject.lines[at]) or subject.lines[at + 1].strip() != "}":
            continue
        places = _places_above(subject, at)
        for _, wait in subject.matches(_WAIT)[: 2 * _NEAR]:
            for place in dict.fromkeys((*places, wait[2])):
                for kind in kinds:
                    written = f"  {_FIXED} = nvgpu.mbarrier.arrive {wait[1]}[{place}] : {kind} -> !nvgpu.mbarrier.token"
                    yield Candidate(f"arrive (after line {at + 1})", (subject.after(at, written),))


def _places_above(subject: Subject, at: int) -> list[str]:
    """The places in groups that operations of the same block name."""
    own = len(subject.indent(at))
    found: list[str] = []
    for line in subject.lines[at - 1 :: -1] if at else ():
        if line.strip() and len(line) - len(line.lstrip()) < own:
            break
        found += [match[2] for match in _PLACE.finditer(line) if "nvgpu." in line]
    return list(dict.fromkeys(found))


def _waits(subject: Subject) -> Iterator[Candidate]:
    """A wait like another one of the text, before what was found, with the barrier and the place of the finding's
    copies, or of an operation of the same block."""
    waits = subject.matches(_WAIT)
    signalled = [
        (match[1], match[2]) for at in subject.near for match in _PLACE.finditer(subject.lines[at])
        if "nvgpu." in subject.lines[at]
    ]  # fmt: skip
    groups = dict.fromkeys((*(group for group, _ in signalled), *(match[1] for _, match in waits)))
    for at in subject.near:
        spots = [at, *_begins(subject, at)]
        places = _places_above(subject, at) or [place for _, place in signalled]
        for spot in dict.fromkeys(spots):
            for _, wait in waits[:_NEAR]:
                for group in list(groups)[:2]:
                    for place in dict.fromkeys((*places[:2], wait[2])):
                        old = f"{wait[1]}[{wait[2]}]"
                        written = wait.string.strip().replace(old, f"{group}[{place}]", 1)
                        title = f"wait for {group}[{place}] (before line {spot + 1})"
                        yield Candidate(title, (subject.before(spot, written),))


def _begins(subject: Subject, at: int) -> list[int]:
    """The first operation of the protocol in a line's block, and the line where its block begins."""
    own = len(subject.indent(at))
    first = at
    for place in range(at - 1, -1, -1):
        line = subject.lines[place]
        if line.strip() and len(line) - len(line.lstrip()) < own:
            break
        if "nvgpu." in line or "nvvm.wgmma" in line:
            first = place
    return [first]


def _parities(subject: Subject) -> Iterator[Candidate]:
    """The other parity: of the wait itself, or of the one that a loop begins with."""
    constants = _constants(subject)
    waits = subject.matches(_WAIT)[: 2 * _NEAR]
    for at, match in waits:
        for other in _bits_above(subject, at):
            if other != match[3]:
                changed = subject.lines[at].strip().replace(f", {match[3]},", f", {other},", 1)
                yield Candidate(f"wait for parity {other} (line {at + 1})", (subject.replaced(at, changed),))
    for at, line in enumerate(subject.lines):
        for carried in re.finditer(r"%[\w$.-]+ = (%[\w$.-]+)", line) if "iter_args" in line else ():
            value, kind = constants.get(carried[1], (None, ""))
            if value in (0, 1) and kind == "i1":
                old = carried[0]
                written = line.strip().replace(old, old.replace(f"= {carried[1]}", f"= {_FIXED}"), 1)
                number = "false" if value else "true"
                edit = subject.replaced(at, f"{_FIXED} = arith.constant {number}", written)
                yield Candidate(f"begin with the other parity (line {at + 1})", (edit,))


def _bits_above(subject: Subject, at: int) -> list[str]:
    """Truth values that are computed in the block before a line, and that no wait takes."""
    own = len(subject.indent(at))
    taken = {match[3] for _, match in subject.matches(_WAIT)}
    found: list[str] = []
    for line in subject.lines[at - 1 :: -1] if at else ():
        if line.strip() and len(line) - len(line.lstrip()) < own:
            break
        bit = re.match(r"\s*(%[\w$.-]+) = arith\.(?:xori|select|trunci|andi|cmpi)\b.*: (?:i1|index|i32)$", line)
        if bit is not None and bit[1] not in taken:
            found.append(bit[1])
    return found[:_NEAR]


def _left(subject: Subject) -> Iterator[Candidate]:
    """Fewer groups of products or of cp.async that are left pending."""
    for at, match in subject.matches(_GROUPS_LEFT)[:_NEAR]:
        for fewer in range(int(match[2]) - 1, -1, -1):
            changed = _GROUPS_LEFT.sub(rf"\g<1>{fewer}", subject.lines[at], count=1).strip()
            title = f"leave {fewer} groups pending instead of {match[2]} (line {at + 1})"
            yield Candidate(title, (subject.replaced(at, changed),), "less overlap")
