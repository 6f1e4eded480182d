"""Ways to break a correct kernel's protocol, one instruction at a time, and edits that must change nothing.

A mutation looks for instructions of a kind and edits the line of one: removes it, or changes a number, an operand, a
modifier. It knows the families of codes that may name the fault, and nothing of how it is found. Whether a mutant is
truly broken depends on the kernel: a fence may be redundant, a wait implied by another. `required` says why each place
is needed, as far as the text tells; a place it can't vouch for is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tilewright.frontends.ptx.ast import Immediate, Instruction, Kernel, Module
from tilewright.frontends.ptx.reader import read


@dataclass(frozen=True, slots=True)
class Mutant:
    """An edited text. line: of the edit (1-based, in the edited text); families: codes that may name the fault."""

    mutation: str
    text: str
    line: int
    families: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mutation:
    """name: what is broken; edit: the new lines for an instruction's line, None to leave it alone."""

    name: str
    families: tuple[str, ...]
    edit: Callable[[Instruction, str], tuple[str, ...] | None]


def _drop(*rows: str, having: str = "") -> Callable[[Instruction, str], tuple[str, ...] | None]:
    def edit(item: Instruction, _line: str) -> tuple[str, ...] | None:
        return () if item.row.startswith(rows) and having in item.opcode else None

    return edit


def _number(rows: tuple[str, ...], change: Callable[[int], int | None], having: str = "", last: bool = True):
    def edit(item: Instruction, line: str) -> tuple[str, ...] | None:
        if not item.row.startswith(rows) or having not in item.opcode:
            return None
        constants = [operand.value for operand in item.operands if isinstance(operand, Immediate)]
        if not constants:
            return None
        old = constants[-1 if last else 0]
        new = change(old)
        found = [match for match in re.finditer(r"(?<![\w.%+])\d+\b", line) if int(match.group()) == old]
        if new is None or new == old or not found:
            return None
        place = found[-1]
        return (line[: place.start()] + str(new) + line[place.end() :],)

    return edit


def _before(added: str, *rows: str, having: str = "") -> Callable[[Instruction, str], tuple[str, ...] | None]:
    def edit(item: Instruction, line: str) -> tuple[str, ...] | None:
        return (added, line) if item.row.startswith(rows) and having in item.opcode else None

    return edit


def _twice(*rows: str, having: str = "") -> Callable[[Instruction, str], tuple[str, ...] | None]:
    def edit(item: Instruction, line: str) -> tuple[str, ...] | None:
        return (line, line) if item.row.startswith(rows) and having in item.opcode else None

    return edit


def _replace(rows: tuple[str, ...], old: str, new: str) -> Callable[[Instruction, str], tuple[str, ...] | None]:
    def edit(item: Instruction, line: str) -> tuple[str, ...] | None:
        return (line.replace(old, new, 1),) if item.row.startswith(rows) and old in line else None

    return edit


_ARRIVE = ("mbarrier.arrive",)
_COPY = ("cp.async.bulk.tensor", "cp.async.bulk")

BROKEN: tuple[Mutation, ...] = (
    Mutation("expected bytes too few", ("TX", "MB", "LV"), _number(_ARRIVE, lambda n: n // 2, "expect_tx")),
    Mutation("expected bytes too many", ("TX", "MB", "LV"), _number(_ARRIVE, lambda n: n + 128, "expect_tx")),
    Mutation("expected bytes off by 16", ("TX", "MB", "LV"), _number(_ARRIVE, lambda n: n - 16 or None, "expect_tx")),
    Mutation("expectation dropped", ("TX", "MB", "LV", "TM"), _drop(*_ARRIVE, having="expect_tx")),
    Mutation("expectation repeated", ("TX", "MB", "LV"), _twice(*_ARRIVE, having="expect_tx")),
    Mutation("init count too large", ("MB", "LV", "TX"), _number(("mbarrier.init",), lambda n: n + 1)),
    Mutation("init count too small", ("MB", "LV", "TX", "WG", "TC"), _number(("mbarrier.init",), lambda n: n - 1 if n > 1 else None)),
    Mutation("init dropped", ("MB", "MF", "TX"), _drop("mbarrier.init")),
    Mutation("arrival dropped", ("MB", "LV", "TX", "TM"), lambda i, _l: () if i.row == "mbarrier.arrive" and "expect_tx" not in i.opcode else None),
    Mutation("arrival repeated", ("MB", "LV", "TX"), lambda i, l: (l, l) if i.row == "mbarrier.arrive" and "expect_tx" not in i.opcode else None),
    Mutation("copy dropped", ("TX", "MB", "LV"), _drop(*_COPY, having="mbarrier")),
    Mutation("copy repeated", ("TX", "TM", "MB", "LV"), _twice(*_COPY, having="mbarrier")),
    Mutation("wgmma fence dropped", ("WG",), _drop("wgmma.fence")),
    Mutation("wgmma commit dropped", ("WG",), _drop("wgmma.commit_group")),
    Mutation("wgmma wait dropped", ("WG",), _drop("wgmma.wait_group")),
    Mutation("wgmma wait too weak", ("WG",), _number(("wgmma.wait_group",), lambda n: n + 1)),
    Mutation("bulk commit dropped", ("BG",), _drop("cp.async.bulk.commit_group")),
    Mutation("bulk wait dropped", ("BG",), _drop("cp.async.bulk.wait_group")),
    Mutation("bulk wait too weak", ("BG",), _number(("cp.async.bulk.wait_group",), lambda n: n + 1)),
    Mutation("cp.async commit dropped", ("TM", "NB", "BG"), _drop("cp.async.commit_group")),
    Mutation("cp.async wait dropped", ("TM", "NB", "BG"), lambda i, _l: () if i.row in ("cp.async.wait_group", "cp.async.wait_all") else None),
    Mutation("cp.async wait too weak", ("TM", "NB", "BG"), _number(("cp.async.wait_group",), lambda n: n + 2)),
    Mutation("proxy fence dropped", ("PX",), _drop("fence.proxy.async")),
    Mutation("barrier dropped", ("NB", "MB", "TM", "PX", "BG", "WG", "TC", "CL", "LV", "MF"), _drop("bar.sync", "barrier.sync", "bar", "barrier.cta")),
    Mutation("cluster arrival dropped", ("CL", "LV", "MB"), _drop("barrier.cluster.arrive")),
    Mutation("cluster barrier dropped", ("CL", "LV", "MB"), _drop("barrier.cluster")),
    Mutation("tensor-memory load not waited for", ("TC",), _drop("tcgen05.wait", having="::ld")),
    Mutation("tensor-memory store not waited for", ("TC",), _drop("tcgen05.wait", having="::st")),
    Mutation("tensor-memory commit dropped", ("TC", "MB", "LV", "TX"), _drop("tcgen05.commit")),
    Mutation("tensor memory not freed", ("TC",), _drop("tcgen05.dealloc")),
    Mutation("tensor memory not allocated", ("TC", "MF"), _drop("tcgen05.alloc")),
    Mutation("too few columns", ("TC", "MF"), _number(("tcgen05.alloc",), lambda n: n // 2 if n > 32 else None)),
    Mutation("too few columns freed", ("TC", "MF"), _number(("tcgen05.dealloc",), lambda n: n // 2 if n > 32 else None)),
    Mutation("too many registers", ("SR", "LV"), _number(("setmaxnreg",), lambda n: 256 if n < 250 else None, ".inc")),
    Mutation("barrier of another number", ("NB", "LV", "MB", "TM", "PX", "WG"), lambda i, l: _other_barrier(i, l)),
    Mutation("barrier with too many threads", ("NB", "LV"), lambda i, l: _more_threads(i, l)),
    Mutation("all lanes issue the copy", ("TX", "MB", "TM", "LV"), lambda i, l: (re.sub(r"@!?%p\d+\s+", "", l, count=1),) if i.row.startswith(_COPY) and i.guard is not None and "mbarrier" in i.opcode else None),
    Mutation("all lanes arrive", ("MB", "TX", "LV"), lambda i, l: (re.sub(r"@!?%p\d+\s+", "", l, count=1),) if i.row == "mbarrier.arrive" and i.guard is not None else None),
    Mutation("destination off alignment", ("AL", "MF", "TM"), lambda i, l: (re.sub(r"\[(%r\d+)\]", r"[\1+8]", l, count=1),) if i.row.startswith("cp.async.bulk.tensor") and "mbarrier" in i.opcode else None),
    Mutation("signals the next barrier", ("MB", "TX", "LV", "MF", "TM"), lambda i, l: (re.sub(r"\[(%r\d+)\](?=[^\[]*$)", r"[\1+8]", l, count=1),) if i.row.startswith("cp.async.bulk.tensor") and "mbarrier" in i.opcode else None),
)


def _other_barrier(item: Instruction, line: str) -> tuple[str, ...] | None:
    if item.row not in ("bar", "barrier", "bar.sync", "barrier.sync") or len(item.operands) < 2:
        return None
    first = item.operands[0]
    if not isinstance(first, Immediate):
        return None
    return (re.sub(rf"(\s){first.value}\s*,", rf"\g<1>{(first.value + 7) % 16},", line, count=1),)


def _more_threads(item: Instruction, line: str) -> tuple[str, ...] | None:
    if item.row not in ("bar", "barrier", "bar.sync", "barrier.sync") or len(item.operands) < 2:
        return None
    last = item.operands[-1]
    if not isinstance(last, Immediate):
        return None
    return (re.sub(rf"\b{last.value}\s*;", f"{last.value + 32};", line, count=1),)


HARMLESS: tuple[Mutation, ...] = (
    Mutation("a proxy fence more", (), _before("\tfence.proxy.async.shared::cta;", "mbarrier.arrive", "bar")),
    Mutation("a memory fence more", (), _before("\tfence.acq_rel.cta;", "mbarrier.arrive", "cp.async.bulk")),
    Mutation("expected bytes in two parts", (), lambda i, l: _split(i, l)),
    Mutation("a stronger wgmma wait", (), _number(("wgmma.wait_group",), lambda n: n - 1 if n > 0 else None)),
    Mutation("a stronger bulk wait", (), _number(("cp.async.bulk.wait_group",), lambda n: n - 1 if n > 0 else None)),
    Mutation("a stronger cp.async wait", (), _number(("cp.async.wait_group",), lambda n: n - 1 if n > 0 else None)),
    Mutation("an empty bulk group", (), _before("\tcp.async.bulk.commit_group;", "bar", "cp.async.bulk.commit_group")),
    Mutation("a prefetch of nothing", (), _before("\tnanosleep.u32 0;", "mbarrier.arrive", "wgmma.commit_group", "tcgen05.commit")),
    Mutation("a tensor-memory fence more", (), _before("\ttcgen05.fence::before_thread_sync;", "tcgen05.commit", "tcgen05.wait")),
)


def _split(item: Instruction, line: str) -> tuple[str, ...] | None:
    """`arrive.expect_tx n` as `expect_tx n/2` and `arrive.expect_tx n/2`."""
    match = re.search(r"mbarrier\.arrive\.expect_tx\.shared(::cta)?\.b64\s+_,\s*(\[[^\]]*\]),\s*(\d+)\s*;", line)
    if item.row != "mbarrier.arrive" or match is None:
        return None
    half = int(match.group(3)) // 2
    guard = line[: match.start()]
    place = match.group(2)
    return (
        f"{guard}mbarrier.expect_tx.relaxed.cta.shared::cta.b64 {place}, {half};",
        f"{guard}mbarrier.arrive.expect_tx.shared::cta.b64 _, {place}, {int(match.group(3)) - half};",
    )


def mutants(text: str, file: str, mutations: tuple[Mutation, ...], places: int = 3) -> Iterator[Mutant]:
    """Mutants of every kernel of a text: for each mutation, at most `places` of the places it fits, spread out."""
    module: Module = read(text, file, tolerant=True)
    lines = text.split("\n")
    for mutation in mutations:
        found: list[tuple[int, tuple[str, ...]]] = []
        for kernel in module.kernels:
            for item in _instructions(kernel):
                line = lines[item.span.line - 1]
                if line.count(";") != 1:
                    continue
                new = mutation.edit(item, line)
                if new is not None and new != (line,):
                    found.append((item.span.line, new))
        step = max(1, len(found) // places)
        for number, new in found[::step][:places]:
            edited = [*lines[: number - 1], *new, *lines[number:]]
            yield Mutant(mutation.name, "\n".join(edited), number, mutation.families)


def _instructions(kernel: Kernel) -> list[Instruction]:
    return [item for item in kernel.body if isinstance(item, Instruction)]
