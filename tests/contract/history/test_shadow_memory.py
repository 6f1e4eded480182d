"""Histories of granules agree with a history kept byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.base.span import Span
from tilewright.contract.history.atom_memory import AtomMemory
from tilewright.contract.history.atoms import Atoms
from tilewright.contract.history.granules import SEGMENT_BYTES
from tilewright.contract.history.shadow_memory import COARSE_BYTES, COARSE_GLOBAL_BYTES, Record, ShadowMemory
from tilewright.contract.judge.race import overlap
from tilewright.machine.core.event import Ranges, WarpActor

BASE = SEGMENT_BYTES - 96
Kind = Callable[[], ShadowMemory]
KINDS: tuple[Kind, ...] = (
    ShadowMemory,
    partial(ShadowMemory, granule_bytes=COARSE_GLOBAL_BYTES),
    partial(ShadowMemory, once=True),
    partial(ShadowMemory, granule_bytes=COARSE_GLOBAL_BYTES, once=True),
    AtomMemory,
)


@st.composite
def accesses(draw: st.DrawFn) -> list[tuple[int, bool, Ranges]]:
    unit = draw(st.sampled_from([1, 2, 4, 16]))
    found: list[tuple[int, bool, Ranges]] = []
    for _ in range(draw(st.integers(1, 25))):
        finer = draw(st.sampled_from([unit, unit, 16]))
        if draw(st.booleans()):  # rows of a box
            width, gap, first = (draw(st.integers(1, 3)) for _ in range(3))
            rows = range(draw(st.integers(1, 5)))
            starts = [BASE + finer * (first - 1 + row * (width + gap)) for row in rows]
            found.append(
                (draw(st.integers(0, 3)), draw(st.booleans()), tuple((at, at + finer * width) for at in starts))
            )
            continue
        edges = sorted(draw(st.sets(st.integers(0, 192 // finer), min_size=2, max_size=6)))
        pairs = zip(edges[::2], edges[1::2], strict=False)
        ranges = tuple((BASE + finer * a, BASE + finer * b) for a, b in pairs)
        found.append((draw(st.integers(0, 3)), draw(st.booleans()), ranges))
    return found


@given(accesses(), st.sampled_from(KINDS))
def test_conflicts_are_exact_for_every_byte(sequence: list[tuple[int, bool, Ranges]], kind: Kind) -> None:
    memory = kind()
    writes: dict[int, Record] = {}
    reads: dict[int, dict[int, Record]] = {}
    for line, (agent, write, ranges) in enumerate(sequence, start=1):
        record = Record(WarpActor(0, agent), agent, write, False, Span("s", line), ranges)
        expected: set[int] = set()
        for begin, end in ranges:
            for byte in range(begin, end):
                if byte in writes:
                    expected.add(id(writes[byte]))
                if write:
                    expected.update(id(read) for read in reads.pop(byte, {}).values())
                    writes[byte] = record
                else:
                    reads.setdefault(byte, {})[agent] = record
        conflicts = memory.conflicts(record)
        assert {id(each) for each in conflicts} == expected
        assert len(conflicts) == len(expected)
        for each in conflicts:
            low, high = overlap(each, record)
            assert low < high
            for found in (each, record):
                assert any(begin <= low and high <= end for begin, end in found.ranges)


@settings(max_examples=30)
@given(accesses(), st.integers(0, (1 << 25) - 1), st.sampled_from(KINDS))
def test_atomic_writes_replace_nothing(sequence: list[tuple[int, bool, Ranges]], atomic: int, kind: Kind) -> None:
    """All accesses since the last ordinary write of a byte are found, or newer ones of the same agent and kind."""
    memory = kind()
    since: dict[int, list[Record]] = {}
    for line, (agent, write, ranges) in enumerate(sequence, start=1):
        record = Record(WarpActor(0, agent), agent, write, bool(atomic >> line & 1), Span("s", line), ranges)
        found = {each.span.line for each in memory.conflicts(record)}
        fresh = False
        for byte in (byte for begin, end in ranges for byte in range(begin, end)):
            kept = since.setdefault(byte, [])
            fresh = fresh or not any(each.write for each in kept)
            kinds = [((each.agent, each.write, each.atomic), each) for each in kept if write or each.write]
            newest = {kind: each.span.line for kind, each in kinds}
            assert found >= set(newest.values())
            if write and not record.atomic:
                kept.clear()
            kept.append(record)
        assert memory.met_unwritten == fresh


@given(accesses())
def test_two_readers_suffice_where_nothing_is_ordered(sequence: list[tuple[int, bool, Ranges]]) -> None:
    full, short = ShadowMemory(), ShadowMemory(readers_kept=2)
    for line, (agent, write, ranges) in enumerate(sequence, start=1):
        record = Record(WarpActor(0, agent), agent, write, False, Span("s", line), ranges)

        def races(memory: ShadowMemory, record: Record = record) -> bool:
            return any(each.agent != record.agent for each in memory.conflicts(record))

        assert races(full) == races(short)


@given(accesses(), st.sampled_from(KINDS))
def test_what_was_never_written_is_told_byte_by_byte(sequence: list[tuple[int, bool, Ranges]], kind: Kind) -> None:
    memory = kind()
    written: set[int] = set()
    for line, (agent, write, ranges) in enumerate(sequence, start=1):
        memory.conflicts(Record(WarpActor(0, agent), agent, write, False, Span("s", line), ranges))
        if write:
            written.update(byte for begin, end in ranges for byte in range(begin, end))
        asked = ((BASE - 8, BASE + 40), (BASE + 64, BASE + SEGMENT_BYTES + 200))
        never = memory.never_written(asked)
        for (_, end), (begin, _) in pairwise(never):
            assert end < begin or (end, begin) == (BASE + 40, BASE + 64)
        for begin, end in asked:
            near = range(begin, min(end, BASE + 400))
            assert [byte for byte in near if byte not in written] == [
                byte for low, high in never for byte in range(max(low, near.start), min(high, near.stop))
            ]


@given(accesses(), st.sampled_from(KINDS))
def test_what_meets_nothing_may_be_entered_later(sequence: list[tuple[int, bool, Ranges]], kind: Kind) -> None:
    at_once, later = kind(), kind()
    for line, (agent, write, ranges) in enumerate(sequence, start=1):
        record = Record(WarpActor(0, agent), agent, write, False, Span("s", line), ranges)
        conflicts = at_once.conflicts(record)
        if at_once.put_aside:
            assert conflicts == []
            later.put_read(record)
        elif at_once.met_nothing:
            assert conflicts == []
            later.put_first(record)
        else:
            assert later.conflicts(record) == conflicts
            assert later.met_unwritten == at_once.met_unwritten
    everything = ((BASE, BASE + 400),)
    assert later.never_written(everything) == at_once.never_written(everything)
    assert later.touched(everything) == at_once.touched(everything)


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_that_is_entered_late_does_not_replace_a_newer_one(kind: Kind) -> None:
    """Somebody writes near the newer one, which reaches far, and then where both have read."""
    memory = kind()
    reads = [
        Record(WarpActor(0, 0), 0, False, False, Span("s", line), ranges)
        for line, ranges in enumerate([((64, 128),), ((0, 128), (1 << 17, (1 << 17) + 128))], start=1)
    ]
    writes = [
        Record(WarpActor(0, 1), 1, True, False, Span("s", line), ranges)
        for line, ranges in enumerate([(((1 << 17) + 512, (1 << 17) + 640),), ((64, 128),)], start=3)
    ]
    for each in (*reads, writes[0]):
        assert memory.conflicts(each) == []
    assert memory.conflicts(writes[1]) == [reads[1]]


@given(accesses(), st.sampled_from(KINDS[1:]), st.booleans())
def test_however_histories_are_kept_the_same_is_found(
    sequence: list[tuple[int, bool, Ranges]], kind: Kind, across: bool
) -> None:  # fmt: skip
    plain, other = ShadowMemory(), kind()
    move = 0 if across else SEGMENT_BYTES // 2  # within one segment what is found comes in the same order, too
    everything = ((move + BASE - 8, move + BASE + 400),)
    for line, (agent, write, ranges) in enumerate(sequence, start=1):
        moved = tuple((begin + move, end + move) for begin, end in ranges)
        record = Record(WarpActor(0, agent), agent, write, False, Span("s", line), moved)
        found, expected = other.conflicts(record), plain.conflicts(record)
        assert sorted(map(id, found)) == sorted(map(id, expected))
        assert across or found == expected
        assert (other.met_nothing, other.met_unwritten) == (plain.met_nothing, plain.met_unwritten)
        assert other.put_aside == plain.put_aside
        assert other.never_written(everything) == plain.never_written(everything)
    assert set(map(id, other.touched(everything))) == set(map(id, plain.touched(everything)))


@pytest.mark.full
@given(st.lists(st.tuples(st.booleans(), accesses()), max_size=4))
def test_memories_share_atoms_and_no_histories(sequences: list[tuple[bool, list[tuple[int, bool, Ranges]]]]) -> None:
    atoms = Atoms(COARSE_BYTES)
    shared = {False: AtomMemory(atoms), True: AtomMemory(atoms)}
    alone = {False: ShadowMemory(), True: ShadowMemory()}
    for which, sequence in sequences:
        for line, (agent, write, ranges) in enumerate(sequence, start=1):
            record = Record(WarpActor(0, agent), agent, write, False, Span("s", line), ranges)
            expected = {id(each) for each in alone[which].conflicts(record)}
            assert {id(each) for each in shared[which].conflicts(record)} == expected


@given(accesses(), st.integers(0, 95), st.sampled_from([1, 2, 4]), st.sampled_from(KINDS))
def test_bytes_finer_than_any_access_before_are_asked_about(
    sequence: list[tuple[int, bool, Ranges]], place: int, unit: int, kind: Kind
) -> None:
    memory = kind()
    asked = range(BASE + unit * place, BASE + unit * (place + 1))
    held: dict[int, list[int]] = {byte: [] for byte in asked}  # lines of the last write and of the reads since
    for line, (agent, write, ranges) in enumerate(sequence, start=1):
        memory.conflicts(Record(WarpActor(0, agent), agent, write, False, Span("s", line), ranges))
        for begin, end in ranges:
            for byte in range(max(begin, asked.start), min(end, asked.stop)):
                older = [each for each in held[byte] if sequence[each - 1][:2] != (agent, False)]
                held[byte] = [line] if write else [*older, line]
    found = {record.span.line for record in memory.touched(((asked.start, asked.stop),))}
    assert found == {line for lines in held.values() for line in lines}
