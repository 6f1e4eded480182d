"""Which edits of a text in TTGIR, or in nvgpu MLIR, might fix a finding? Proposals only: `repair` checks each.

An operation has a line. One that is missing leaves values behind that nothing uses: the view of a barrier, the parity
of a wait. From these are written

- the init, the wait, the arrival or the expectation that lacks; bytes and counts are those of the finding or of the
  siblings, a copy's predicate is that of its expectation;
- a wait for stores, or a proxy fence, before what needs it, and before the end.

An operation that takes no value is put around what was found, as it stands elsewhere: of nvgpu MLIR too, whose waits
for groups, fences, commits and barriers of the block are such.

Numbers are changed to what the finding counted or the siblings have; fewer groups are left pending; what stands twice
is taken away once; an arrival before a load of its block goes behind it; a constant parity gives way to one that
nothing uses.

Of nvgpu MLIR's mbarriers: `nvgpu_barriers`. Not handled: operations whose results others use, such as waits for
products. Checked by: tests/driver/repair/test_structured.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import prod

from tilewright.base.diagnostic import Diagnostic
from tilewright.driver.repair.nvgpu_barriers import barrier_candidates
from tilewright.driver.repair.text import Candidate, Edit

_OPERATION = re.compile(r"^\s*(?:(%[\w$.-]+)(?::\d+)? = )?\"?([a-z_]\w*\.[\w.]+)")
_NAME = re.compile(r"%[\w$.-]+")
_BARRIER = re.compile(r"!ttg\.memdesc<1xi64[^>]*>")
_LOAD = "ttng.async_tma_copy_global_to_local"
_COPY = re.compile(r"\] (%\S+), (%\S+), (%\S+) :")
_ONCE = ("ttng.arrive_barrier", "ttng.barrier_expect", "ttng.init_barrier", "ttng.async_tma_copy", "nvgpu.mbarrier")
_READS = ("ttg.local_load", "ttng.tmem_load", "ttng.warp_group_dot_wait")
_PARITIES = ("arith.andi", "arith.xori", "arith.remsi", "arith.extui")
_BITS = ("arith.andi", "arith.xori", "arith.select")
_TTGIR_PLAIN = (
    (("BG", "TM"), "ttng.async_tma_store_wait {pendings = 0 : i32}"),
    (("PX", "TM"), "ttng.fence_async_shared {bCluster = false}"),
)
_PLAIN = {
    "BG": ("bulk.commit", "bulk.wait"),
    "TM": ("nvvm.barrier", "gpu.barrier", "bulk.wait", "fence.proxy"),
    "PX": ("fence.proxy",),
    "WG": ("wgmma.fence", "wgmma.commit", "wgmma.wait"),
    "MB": ("gpu.barrier", "nvvm.barrier"),
    "NB": ("nvvm.barrier", "gpu.barrier"),
}
"""What the operations are called of which one may be missing, by the family of the finding."""
_ENDS = ("tt.return", "gpu.return", "ttg.warp_yield", "ttg.warp_return")
_EACH = 3
"""Proposals of a kind in each turn."""


@dataclass(frozen=True, slots=True)
class _Line:
    """An operation's line. start, end: characters, without the line's break; index: among the lines, from 0."""

    index: int
    text: str
    start: int
    result: str
    operation: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def indent(self) -> str:
        return self.text[: len(self.text) - len(self.text.lstrip())]

    @property
    def number(self) -> int:
        return self.index + 1


@dataclass(frozen=True, slots=True)
class _Subject:
    """lines: of operations; near: lines of the finding, from 0; whole: all lines of the text."""

    lines: tuple[_Line, ...]
    finding: Diagnostic
    near: tuple[int, ...]
    whole: tuple[str, ...]

    def of(self, *operations: str) -> list[_Line]:
        """Lines of these operations, nearest to the finding first."""
        found = [each for each in self.lines if each.operation.startswith(operations)]
        return sorted(found, key=lambda each: min((abs(each.index - at) for at in self.near), default=each.index))

    def unused(self, *operations: str) -> list[_Line]:
        """Lines of these operations whose result nothing behind them in their block uses."""
        return [each for each in self.of(*operations) if each.result and not self._used(each)]

    def _used(self, line: _Line) -> bool:
        name = re.compile(re.escape(line.result) + r"(?![\w$.-])")
        for text in self.whole[line.index + 1 :]:
            if text.strip() and len(text) - len(text.lstrip()) < len(line.indent):
                return False
            if name.search(text):
                return True
        return False

    def block(self, line: _Line) -> list[_Line]:
        """The lines of the block that one is in, in order."""
        around = [each.index for each in self.lines if len(each.indent) < len(line.indent)]
        first = max((at for at in around if at < line.index), default=-1)
        last = min((at for at in around if at > line.index), default=len(self.whole))
        return [each for each in self.lines if first < each.index < last and each.indent == line.indent]

    def following(self, line: _Line) -> Iterator[_Line]:
        """The lines of the same block behind one."""
        for each in self.lines:
            if each.index > line.index:
                if len(each.indent) < len(line.indent):
                    return
                if len(each.indent) == len(line.indent):
                    yield each


def structured_candidates(text: str, finding: Diagnostic) -> Iterator[Candidate]:
    """Edits that might fix a finding, likeliest first."""
    subject = _subject(text, finding)
    kinds: tuple[Callable[[_Subject], Iterator[Candidate]], ...] = (
        _doubled, _plain, _signals, _numbers, _pending, _parities, _moved,
    )  # fmt: skip
    own = [kind(subject) for kind in kinds]
    barriers = list(barrier_candidates(text, subject.near, finding.message))
    waiting = [*barriers, *own] if finding.code[:2] in ("MB", "TX", "LV") else [*own, *barriers]
    while waiting:
        still: list[Iterator[Candidate]] = []
        for kind in waiting:
            taken = list(islice(kind, _EACH))
            yield from taken
            if len(taken) == _EACH:
                still.append(kind)
        waiting = still


def _subject(text: str, finding: Diagnostic) -> _Subject:
    lines: list[_Line] = []
    start = 0
    for index, line in enumerate(text.split("\n")):
        found = _OPERATION.match(line)
        if found is not None:
            lines.append(_Line(index, line, start, found[1] or "", found[2]))
        start += len(line) + 1
    near = tuple(span.line - 1 for span in (finding.primary, finding.conflicts_with) if span is not None)
    return _Subject(tuple(lines), finding, near, tuple(text.split("\n")))


def _after(line: _Line, text: str) -> Edit:
    return Edit(line.end, line.end, f"\n{line.indent}{text}")


def _before(line: _Line, text: str) -> Edit:
    return Edit(line.start, line.start, f"{line.indent}{text}\n")


def _dropped(line: _Line) -> Edit:
    return Edit(line.start, line.end + 1, "")


def _doubled(subject: _Subject) -> Iterator[Candidate]:
    """An operation that stands twice, one right after the other."""
    for line, following in zip(subject.lines, subject.lines[1:], strict=False):
        if line.operation.startswith(_ONCE) and line.text == following.text and following.index == line.index + 1:
            yield Candidate(f"once instead of twice (line {following.number})", (_dropped(following),))


def _numbers(subject: _Subject) -> Iterator[Candidate]:
    """Bytes that are expected, arrivals that are counted."""
    said = [int(number) for number in re.findall(r"(\d+) of \d+ bytes", subject.finding.message)]
    for operation, word in (("ttng.barrier_expect", "expect"), ("ttng.init_barrier", "count"),
                            ("ttng.arrive_barrier", "arrive for")):  # fmt: skip
        lines = subject.of(operation)
        values = {line: value for line in lines if (value := _operand(line)) is not None}
        usual = [value for value, _ in Counter(values.values()).most_common(3)]
        for line, value in list(values.items())[:4]:
            others = (*said, *usual, value * 2, value // 2) if word == "expect" else (*usual, value - 1, 1, value + 1)
            for other in [each for each in dict.fromkeys(others) if each > 0 and each != value][:5]:
                changed = re.sub(rf"(%\S+, ){value}\b", rf"\g<1>{other}", line.text, count=1)
                title = f"{word} {other} instead of {value} (line {line.number})"
                yield Candidate(title, (Edit(line.start, line.end, changed),))


def _operand(line: _Line) -> int | None:
    """The number that stands behind the barrier."""
    found = re.search(r"%\S+, (\d+)\b", line.text)
    return None if found is None else int(found[1])


def _pending(subject: _Subject) -> Iterator[Candidate]:
    """Waits that leave fewer groups pending."""
    for line in subject.of("ttng.", "ttg.async_wait", "nvvm.wgmma.wait", "nvvm.cp.async.bulk.wait"):
        found = re.search(r"((?:pendings|num) = |\.aligned |wait_group )(\d+)", line.text)
        for fewer in range(int(found[2]) - 1, -1, -1) if found is not None else ():
            assert found is not None
            changed = line.text[: found.start(2)] + str(fewer) + line.text[found.end(2) :]
            title = f"leave {fewer} groups pending instead of {found[2]} (line {line.number})"
            yield Candidate(title, (Edit(line.start, line.end, changed),), "less overlap")


def _signals(subject: _Subject) -> Iterator[Candidate]:
    """What is done with the view of a barrier that nothing uses, and the expectation before a copy that has none."""
    yield from _expectations(subject)
    counts = [value for line in subject.of("ttng.init_barrier") if (value := _operand(line)) is not None]
    parities = subject.unused(*_PARITIES)
    asked = [found[1] for line in subject.of("ttng.wait_barrier") if (found := re.search(r", (%\S+?),? ", line.text))]
    for view in subject.unused("ttg.memdesc_index", "ttg.local_alloc"):
        kind = _BARRIER.findall(view.text)
        if not kind:
            continue
        of_type = f" : {kind[-1]}"
        block = subject.block(view)
        bits = [each for each in block[::-1] if each.index < view.index and each.operation.startswith(_BITS)]
        held = [each for each in block[::-1] if each.index < view.index and each.operation == "arith.cmpi"]
        for parity in (*parities[:2], *bits[:3]):
            last = max(view, parity, key=lambda each: each.index)
            for name in ("", *(f", {each.result}" for each in held[:2] if parity in parities)):
                edit = _after(last, f"ttng.wait_barrier {view.result}, {parity.result}{name}{of_type}")
                yield Candidate(f"wait for the phase (after line {last.number})", (edit,))
        for parity in dict.fromkeys(asked[:2]):
            edit = _after(view, f"ttng.wait_barrier {view.result}, {parity}{of_type}")
            yield Candidate(f"wait for the phase (after line {view.number})", (edit,))
        reads = [each for each in subject.following(view) if each.operation.startswith(_READS)]
        for spot in (*reads[-1:], view):
            edit = _after(spot, f"ttng.arrive_barrier {view.result}, 1{of_type}")
            yield Candidate(f"arrive (after line {spot.number})", (edit,))
        for count in dict.fromkeys((*counts[:2], 1)):
            edit = _after(view, f"ttng.init_barrier {view.result}, {count}{of_type}")
            yield Candidate(f"initialise the barrier for {count} arrivals (after line {view.number})", (edit,))
    for view in [each for each in subject.of("ttg.memdesc_index") if _BARRIER.search(each.text)][:8]:
        begun = any(_names(each)[:1] == [view.result] for each in subject.of("ttng.init_barrier"))
        constant = re.search(r"\[%c\d+_i\d+", view.text)
        if begun or constant is None:
            continue
        kind = _BARRIER.findall(view.text)[-1]
        for count in dict.fromkeys((*counts[:2], 1)):
            edit = _after(view, f"ttng.init_barrier {view.result}, {count} : {kind}")
            yield Candidate(f"initialise the barrier for {count} arrivals (after line {view.number})", (edit,))


def _names(line: _Line) -> list[str]:
    """The values that an operation takes, in order."""
    return [name for name in _NAME.findall(line.text) if name != line.result]


def _expectations(subject: _Subject) -> Iterator[Candidate]:
    """Before the first copy of a block that signals a barrier: the bytes of the block's copies that do."""
    expects = subject.of("ttng.barrier_expect")
    said = [int(number) for number in re.findall(r"(\d+) of \d+ bytes", subject.finding.message)]
    usual = [value for line in expects if (value := _operand(line)) is not None]
    kinds = [kind for line in subject.of("ttng.") for kind in _BARRIER.findall(line.text)]
    seen: set[int] = set()
    for copy in subject.of(_LOAD) if kinds else ():
        found = _COPY.search(copy.text)
        block = subject.block(copy)
        if found is None or copy.index in seen:
            continue
        together = [each for each in block if each.operation == _LOAD and f", {found[2]}, " in each.text]
        seen |= {each.index for each in together}
        if any(each in expects and _names(each)[0] == found[2] for each in block):
            continue
        total = sum(map(_copied_bytes, together))
        for value in [each for each in dict.fromkeys((total, *said, *usual)) if each][:3]:
            edit = _before(together[0], f"ttng.barrier_expect {found[2]}, {value}, {found[3]} : {kinds[0]}")
            yield Candidate(f"expect {value} bytes (before line {together[0].number})", (edit,))


def _copied_bytes(copy: _Line) -> int:
    """The bytes of the tile that a copy writes; 0 where its type is of another form."""
    tiles = re.findall(r"memdesc<((?:\d+x)+)(?:f|bf|i)(\d+)", copy.text)
    return prod(int(extent) for extent in tiles[-1][0].split("x") if extent) * int(tiles[-1][1]) // 8 if tiles else 0


def _plain(subject: _Subject) -> Iterator[Candidate]:
    """Operations that take no value (waits for groups, fences, commits, barriers of the block) around what was found
    and before the ends: those that the text has elsewhere, and those that TTGIR has for the finding."""
    family = subject.finding.code[:2]
    own = [text for families, text in _TTGIR_PLAIN if family in families and subject.of("ttng.")]
    words = _PLAIN.get(family, ())
    elsewhere = [
        each.text.strip()
        for word in words
        for each in subject.of("nvvm.", "gpu.barrier")
        if word in each.text and not _NAME.search(each.text) and not each.text.rstrip().endswith("{")
    ]
    elsewhere += [word for word in words if word == "gpu.barrier" and subject.of("gpu.return")]
    places = [each for at in subject.near for each in subject.lines if each.index == at]
    ends = subject.of(*_ENDS) if family in ("BG", "TM") else []
    for text in dict.fromkeys((*own, *elsewhere)):
        word = text.split(" ", 1)[0]
        for line in (*places, *ends):
            yield Candidate(f"{word} (before line {line.number})", (_before(line, text),))
        for line in places[::-1]:
            yield Candidate(f"{word} (after line {line.number})", (_after(line, text),))


def _parities(subject: _Subject) -> Iterator[Candidate]:
    """A parity that was computed, and that nothing uses, in the place of another."""
    for wait in subject.of("ttng.wait_barrier")[:4]:
        names = _names(wait)
        for parity in subject.unused(*_PARITIES)[:2]:
            if len(names) > 1 and parity.index < wait.index:
                changed = wait.text.replace(f", {names[1]}", f", {parity.result}", 1)
                title = f"wait for parity {parity.result} (line {wait.number})"
                yield Candidate(title, (Edit(wait.start, wait.end, changed),))


def _moved(subject: _Subject) -> Iterator[Candidate]:
    """An arrival behind the last load of its block."""
    for arrival in subject.of("ttng.arrive_barrier")[:4]:
        reads = [each for each in subject.following(arrival) if each.operation.startswith(_READS)]
        if reads:
            edits = (_dropped(arrival), _after(reads[-1], arrival.text.strip()))
            title = f"release behind the last read (line {arrival.number}, after line {reads[-1].number})"
            yield Candidate(title, edits)
