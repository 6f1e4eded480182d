"""What is left of a kernel without all of one kind of its synchronization? Deletions for the test of vacuity.

A proof that survives the loss of every announcement, wait, commit or fence says nothing about them. Each deletion takes
out every instruction of a kind from one kernel: announcements (an arrival that announces becomes a plain one), waits of
one kind, commits of one kind, fences of one kind, arrivals of one place and all of them. A wait for an mbarrier becomes
a comparison that holds, so that its loop ends at once. The text keeps its lines.

Not handled: arrivals by address, since several lines may arrive at one barrier; they are deleted one by one, and all.
Checked by: tests/mutants/test_deletions.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from tilewright.frontends.ptx.ast import Instruction, Kernel, Module

_EXPECT = "mbarrier.arrive.expect_tx"
_ARRIVALS_ALONE = 16
"""So many arrivals are also deleted one by one."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """An edited text. kind: what was deleted, such as `waits: mbarrier`; lines: where it stood, 1-based."""

    kernel: str
    kind: str
    lines: tuple[int, ...]
    text: str


Change = Callable[[Instruction, str], str | None]
"""An instruction's text without its semicolon, and what it becomes: None to keep it, an empty text to delete it."""


def deletions(text: str, module: Module, kernel: Kernel) -> Iterator[Deletion]:
    """Every deletion that changes `kernel`. module: the text, read."""
    lines_of = _Lines(text)
    items = [item for part in (kernel, *module.functions) for item in part.body or () if isinstance(item, Instruction)]
    for kind, change in _KINDS.items():
        yield from _deleted(lines_of, kernel, kind, items, change)
    arrivals = [item for item in items if item.row.startswith("mbarrier.arrive") and item.row != "mbarrier.arrive_drop"]
    yield from _deleted(lines_of, kernel, "arrivals: all", arrivals, _gone)
    if 1 < len(arrivals) <= _ARRIVALS_ALONE:
        for item in arrivals:
            yield from _deleted(lines_of, kernel, "arrivals: one", [item], _gone)


def single_deletions(text: str, module: Module, kernel: Kernel, near: Collection[int], most: int) -> Iterator[Deletion]:
    """Deletions of one instruction each, of any kind of waits, fences and commits: the `most` that are nearest to the
    lines `near`."""
    lines_of = _Lines(text)
    found: list[tuple[int, str, Instruction, Change]] = []
    for part in (kernel, *module.functions):
        for item in part.body:
            if not isinstance(item, Instruction) or item.span.line in near:
                continue
            distance = min(abs(item.span.line - line) for line in near)
            for kind, change in _KINDS.items():
                if kind != "announcements" and change(item, lines_of.of(item)) is not None:
                    found.append((distance, kind, item, change))
                    break
    for _, kind, item, change in sorted(found, key=lambda each: (each[0], each[2].span.line))[:most]:
        yield from _deleted(lines_of, kernel, f"{kind}, one", [item], change)


def _deleted(
    lines_of: _Lines, kernel: Kernel, kind: str, items: list[Instruction], change: Change
) -> Iterator[Deletion]:
    edits = [(item, new) for item in items if (new := change(item, lines_of.of(item))) is not None]
    if edits:
        lines = tuple(sorted({item.span.line for item, _ in edits}))
        yield Deletion(kernel.name, kind, lines, lines_of.edited(edits))


def instructions(module: Module) -> Iterator[Instruction]:
    """Of all kernels and functions."""
    return (
        item for part in (*module.kernels, *module.functions) for item in part.body if isinstance(item, Instruction)
    )


def with_traps(text: str, module: Module, lines: Collection[int]) -> str:
    """A trap in place of every instruction of these lines, under its guard."""
    lines_of = _Lines(text)
    edits: list[tuple[Instruction, str]] = []
    for item in instructions(module):
        if item.span.line in lines:
            guard = re.match(r"@!?[%\w$]+\s+", lines_of.of(item))
            edits.append((item, f"{guard[0] if guard else ''}trap"))
    return lines_of.edited(edits)


class _Lines:
    """The text, and where its instructions begin and end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        for line in text.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def _bounds(self, item: Instruction) -> tuple[int, int]:
        begin = self.starts[item.span.line - 1] + item.span.column - 1
        return begin, self.text.index(";", begin)

    def of(self, item: Instruction) -> str:
        begin, end = self._bounds(item)
        return self.text[begin:end]

    def edited(self, edits: list[tuple[Instruction, str]]) -> str:
        pieces: list[str] = []
        last = 0
        for item, new in sorted(edits, key=lambda edit: self._bounds(edit[0])):
            begin, end = self._bounds(item)
            if begin < last:
                continue
            # An empty statement is none to every reader: its semicolon goes with it, its line ends stay.
            kept = "\n" * self.text.count("\n", begin, end)
            pieces.append(self.text[last:begin] + (new + ";" if new else "") + kept)
            last = end + 1
        return "".join(pieces) + self.text[last:]


# ---------------------------------------------------------------- kinds


def _gone(_item: Instruction, _text: str) -> str | None:
    return ""


def _rows(*rows: str, having: str = "") -> Change:
    """Instructions of these rows, deleted."""
    return lambda item, text: "" if item.row in rows and having in item.opcode else None


def _opcodes(*beginnings: str) -> Change:
    return lambda item, text: "" if item.opcode.startswith(beginnings) else None


def _plain(item: Instruction, text: str) -> str | None:
    """An announcement deleted, its arrival kept."""
    if item.row == "mbarrier.expect_tx":
        return ""
    if item.row != _EXPECT:
        return None
    text = text.replace(".expect_tx", "", 1)
    return re.sub(r"(\[[^\]]*\])\s*,[^,]*$", r"\1", text)


def _passed(item: Instruction, text: str) -> str | None:
    """A wait for an mbarrier that is over at once."""
    if item.row not in ("mbarrier.try_wait", "mbarrier.test_wait"):
        return None
    found = re.match(r"(@!?[%\w$]+\s+)?\S+\s+([%\w$]+)", text)
    return f"{found[1] or ''}setp.eq.u32 {found[2]}, 0, 0" if found else None


_KINDS: dict[str, Change] = {
    "announcements": _plain,
    "waits: mbarrier": _passed,
    "waits: wgmma": _opcodes("wgmma.wait_group"),
    "waits: bulk group": _opcodes("cp.async.bulk.wait_group"),
    "waits: cp.async": _opcodes("cp.async.wait_group", "cp.async.wait_all"),
    "waits: tcgen05.wait::ld": _opcodes("tcgen05.wait::ld"),
    "waits: tcgen05.wait::st": _opcodes("tcgen05.wait::st"),
    "waits: barriers of threads": _opcodes("bar.sync", "bar.arrive", "bar.red", "barrier.sync", "barrier.cta",
                                           "barrier.arrive", "barrier.red"),
    "waits: warp barriers": _opcodes("bar.warp.sync"),
    "waits: cluster barriers": _opcodes("barrier.cluster"),
    "orders: cluster arrivals": lambda item, text: (
        re.sub(r"barrier\.cluster\.arrive(\.release)?", "barrier.cluster.arrive.relaxed", text, count=1)
        if item.opcode.startswith("barrier.cluster.arrive") and ".relaxed" not in item.opcode
        else None
    ),
    "waits: grid before": _opcodes("griddepcontrol.wait"),
    "commits: wgmma": _opcodes("wgmma.commit_group"),
    "commits: bulk group": _opcodes("cp.async.bulk.commit_group"),
    "commits: cp.async": _opcodes("cp.async.commit_group"),
    "commits: cp.async to mbarriers": _opcodes("cp.async.mbarrier.arrive"),
    "commits: tcgen05": _opcodes("tcgen05.commit"),
    "fences: proxy": _opcodes("fence.proxy.async"),
    "fences: tensor map": _opcodes("fence.proxy.tensormap"),
    "fences: mbarrier init": _opcodes("fence.mbarrier_init"),
    "fences: wgmma": _opcodes("wgmma.fence"),
    "fences: tcgen05 before": _opcodes("tcgen05.fence::before_thread_sync"),
    "fences: tcgen05 after": _opcodes("tcgen05.fence::after_thread_sync"),
    "fences: memory": _opcodes("fence.acq_rel", "fence.sc", "membar", "fence.acquire", "fence.release"),
    "inits: mbarrier": _opcodes("mbarrier.init"),
    "copies of tensor maps": _opcodes("tensormap.cp_fenceproxy"),
}  # fmt: skip
