"""A family of kernels that hang or race behind a guard or a bound, each with its fixed twin, and launches of both.

Every kernel crosses a protocol and its bug (`rings`, `sections`) with a guard (`guards`). Which are crossed is fixed by
the tables below: every guard meets several bugs, every bug several guards. Nothing is random.
Ground truth is a check with the witness launch, where the buggy kernel is refuted and the twin proven.
Checked by: tests/guarded/test_guarded_kernels.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from tests.guarded.guards import CONDITIONS, COUNTS, GUARDS, MEMORY, POINTERS, Guard
from tests.guarded.mismatches import MISMATCHES
from tests.guarded.rings import ITERATION_GUARDS, RING_BUGS, ring
from tests.guarded.sections import CHOICES, SECTIONS, SHARED, Section
from tests.guarded.text import kernel_text, launch_json
from tests.guarded.tickets import TICKET_BUGS, tickets

_RING_SHARED = ".shared .align 128 .b8 slots[2048];\n.shared .align 8 .b8 bars[32];"
_RINGS_OF_A_GUARD = 3
_SECTIONS_OF_A_GUARD = 3


@dataclass(frozen=True, slots=True)
class GuardedKernel:
    """A buggy kernel and its fixed twin. protocol, bug, guard: what was crossed; group: of the guard; witness: a launch
    file with which the buggy one fails; launches: with which, as with the witness, the twin is clean; words: of the
    buffer `data` at each of these launches, witness first; excuse: a proof of the buggy one is right if an
    assumption has this word."""

    name: str
    protocol: str
    bug: str
    guard: str
    group: str
    buggy: str
    fixed: str
    witness: Mapping[str, object]
    launches: tuple[Mapping[str, object], ...]
    words: tuple[tuple[int, ...], ...] = ()
    excuse: str = ""


def family() -> tuple[GuardedKernel, ...]:
    """All of them, in a fixed order, kinds interleaved so that any prefix has some of each. What two tables cross alike
    is there once."""
    kinds = (
        _rings(),
        _sections(),
        _choices(),
        _iterations(),
        _nested(),
        _mismatches(),
        _structures(),
        _memory(),
        _own_counts(),
        _pointers(),
        _tickets(),
    )
    found: list[GuardedKernel] = []
    waiting = [iter(kind) for kind in kinds]
    while waiting:
        for kind in list(waiting):
            some = list(islice(kind, 2))
            found += some
            if not some:
                waiting.remove(kind)
    return tuple({each.name: each for each in reversed(found)}.values())[::-1]


def _rings() -> Iterator[GuardedKernel]:
    """Every bound, with three bugs of the ring."""
    for shift in range(_RINGS_OF_A_GUARD):
        for index, guard in enumerate(COUNTS):
            yield _ring_kernel(guard, RING_BUGS[(index + shift * 5) % len(RING_BUGS)])
    for guard in CONDITIONS[::3]:
        yield _ring_kernel(guard, RING_BUGS[0])


def _ring_kernel(guard: Guard, bug: str, structured: bool = False) -> GuardedKernel:
    lines = guard.lines
    if guard.kind == "condition":
        lines += " selp.b32 %r_count, 5, 0, %p_guard;"
    return _crossed("ring", bug, guard, ring(bug, lines), ring(None, lines), _RING_SHARED, structured=structured)


def _sections() -> Iterator[GuardedKernel]:
    """Every guard, with bugs of the small protocols."""
    pairs = [(section, bug) for section in SECTIONS for bug in section.bugs]
    for shift in range(_SECTIONS_OF_A_GUARD):
        for index, guard in enumerate(GUARDS):
            at = index + shift * (len(pairs) // _SECTIONS_OF_A_GUARD)
            while pairs[at % len(pairs)][0].uniform and guard.differs_by_cta:
                at += 1
            yield _section_kernel(guard, *pairs[at % len(pairs)])


def _choices() -> Iterator[GuardedKernel]:
    pairs = [(section, bug) for section in CHOICES for bug in section.bugs]
    for index, guard in enumerate((*CONDITIONS, *COUNTS[::4])):
        yield _section_kernel(guard, *pairs[index % len(pairs)])


def _section_kernel(guard: Guard, section: Section, bug: str, structured: bool = False) -> GuardedKernel:
    lines = guard.lines
    if guard.kind == "count":
        lines += " setp.gt.s32 %p_guard, %r_count, 0;"

    def body(which: str | None) -> str:
        return f"{lines}\n{section.text(which)}"

    return _crossed(section.name, bug, guard, body(bug), body(None), SHARED, section, structured)


def _iterations() -> Iterator[GuardedKernel]:
    """A bug in some iteration of a loop that is entered."""
    for name, (lines, witness, harmless) in ITERATION_GUARDS.items():
        guard = Guard(name, "count", "mov.b32 %r_count, %r_n;", witness, harmless, "iteration")
        yield _crossed(
            "ring",
            "expects more than it copies",
            guard,
            ring("at iteration", guard.lines, lines),
            ring(None, guard.lines, lines),
            _RING_SHARED,
        )


def _nested() -> Iterator[GuardedKernel]:
    """Two loops, whose bounds are two guards'."""
    for index, bug in enumerate(each for each in RING_BUGS if "trip more" not in each and "tile" not in each):
        one, other = COUNTS[(3 * index) % 40], COUNTS[(3 * index + 13) % 40]
        other = _renamed(other, {name: name * 2 for name in other.names})
        guard = Guard(
            f"{one.name} and {other.name}",
            "count",
            f"{one.lines.replace('%r_count', '%r_outer')}\n{other.lines.replace('%r_count', '%r_inner')}",
            {**one.witness, **other.witness},
            {**one.witness, **other.harmless},
            "nested loops",
        )
        yield _crossed(
            "ring", bug, guard, ring(bug, guard.lines, nested=True), ring(None, guard.lines, nested=True), _RING_SHARED
        )


def _renamed(guard: Guard, rename: Mapping[str, str]) -> Guard:
    lines = guard.lines
    for old, new in rename.items():
        lines = re.sub(rf"%(rd?)_{old}\b", rf"%\1_{new}", lines)
    return Guard(
        guard.name,
        guard.kind,
        lines,
        {rename[name]: value for name, value in guard.witness.items()},
        {rename[name]: value for name, value in guard.harmless.items()},
        guard.group,
    )


def _mismatches() -> Iterator[GuardedKernel]:
    """Two roles count their trips in two ways, which differ for some numbers alone."""
    for each in MISMATCHES:
        group = "memory" if each.words else "trip counts of two roles"
        guard = Guard(
            each.name, "count", each.producer, each.witness, each.harmless, group, words=each.words,
            harmless_words=each.harmless_words,
        )  # fmt: skip
        buggy = ring("two counts", f"{each.producer}\n{each.consumer}")
        yield _crossed("ring", "roles disagree", guard, buggy, ring(None, each.producer), _RING_SHARED)


def _structures() -> Iterator[GuardedKernel]:
    """Numbers that are members of one structure."""
    named = [guard for guard in (*COUNTS, *CONDITIONS) if guard.names]
    for index, guard in enumerate(named[::3]):
        if index % 2:
            section = SECTIONS[index % len(SECTIONS)]
            yield _section_kernel(guard, section, section.bugs[index % len(section.bugs)], structured=True)
        else:
            yield _ring_kernel(guard, RING_BUGS[index % len(RING_BUGS)], structured=True)


def _memory() -> Iterator[GuardedKernel]:
    """Bounds and conditions that global memory holds."""
    for index, guard in enumerate(MEMORY):
        if guard.kind == "count":
            for bug in RING_BUGS[index % 2 : 10 : 2]:
                yield _ring_kernel(guard, bug)
        for section in SECTIONS[index % 2 :: 2]:
            yield _section_kernel(guard, section, section.bugs[index % len(section.bugs)])


def _own_counts() -> Iterator[GuardedKernel]:
    """Each role reads its trip count from memory by itself."""
    for guard in MEMORY:
        if guard.kind == "count":
            for bug in ("expects more than it copies", "never releases", "consumer's parity never changes"):
                named = replace(guard, name=f"{guard.name}, read by each role")
                yield _crossed(
                    "ring", bug, named, ring(bug, own=guard.lines), ring(None, own=guard.lines), _RING_SHARED
                )


def _pointers() -> Iterator[GuardedKernel]:
    """What is done only if an optional pointer is given."""
    for index, guard in enumerate(POINTERS):
        for bug in RING_BUGS[index::4]:
            yield _ring_kernel(guard, bug)
        for section in SECTIONS[index::2]:
            yield _section_kernel(guard, section, section.bugs[index % len(section.bugs)])


def _tickets() -> Iterator[GuardedKernel]:
    """Tiles that two CTAs take from a counter."""
    for index, bug in enumerate(TICKET_BUGS):
        for guard in (COUNTS[index], COUNTS[index + 17]):
            taken = replace(
                guard, name=f"tickets below {guard.name}", group="tickets", grid=2, words=(1,), harmless_words=(0,)
            )
            yield _crossed("tickets", bug, taken, tickets(bug, guard.lines), tickets(None, guard.lines), _RING_SHARED)


def _crossed(
    protocol: str,
    bug: str,
    guard: Guard,
    buggy: str,
    fixed: str,
    shared: str,
    section: Section | None = None,
    structured: bool = False,
) -> GuardedKernel:
    threads, cluster = (section.threads, section.cluster) if section is not None else (64, 1)
    title = "_".join(f"{protocol} {bug} {guard.name}{' structured' if structured else ''}".replace("'", "").split())
    name = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in title)
    data = guard.reads_memory or guard.optional
    directives = f".reqnctapercluster {cluster}, 1, 1\n" if cluster > 1 else ""

    def text(body: str) -> str:
        return kernel_text(
            name, body, guard.names, threads=threads, shared=shared, structured=structured,
            data=data, directives=directives,
        )  # fmt: skip

    def launch(
        numbers: Mapping[str, int], grid: int, null: bool = False, words: tuple[int, ...] = ()
    ) -> Mapping[str, object]:
        return launch_json(
            numbers, grid=grid, threads=threads, cluster=cluster, structured=structured, data=data, null=null,
            words=words,
        )  # fmt: skip

    return GuardedKernel(
        name,
        protocol,
        bug,
        guard.name,
        "structure" if structured else guard.group,
        text(buggy),
        text(fixed),
        launch(guard.witness, guard.grid, guard.null_at_witness, guard.words),
        (
            launch(
                guard.harmless, guard.harmless_grid, guard.optional and not guard.null_at_witness, guard.harmless_words
            ),
        ),
        (guard.words, guard.harmless_words) if guard.reads_memory else (),
        guard.excuse,
    )
