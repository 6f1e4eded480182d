"""When do two accesses of a structured program's agents touch the same bytes, and which rule do they break unordered?

Checked by: tests/contract/words/test_structured_run.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache

from tilewright.contract.typestate.places.footprint import Ranges, merged
from tilewright.contract.words.state import Record
from tilewright.contract.words.word import Piece, Region, Step

WARP_THREADS = 32


def overlap(one: Region, other: Region) -> bool:
    """Have two regions of an allocation bytes in common?"""
    if not all(a[0] < b[1] and b[0] < a[1] for a, b in zip(one.box, other.box, strict=True)):
        return False
    if not one.pieces and not other.pieces:
        return True
    return next(_common(one, other), None) is not None


def _common(one: Region, other: Region) -> Iterator[tuple[int, int]]:
    """The threads of pieces that have bytes in common (-1: of a region that is not told apart by thread)."""
    first, second = _pieces(one), _pieces(other)
    longest = max((piece.end - piece.begin for piece in second), default=0)
    for piece in first:
        place = bisect_left(second, Piece(piece.begin - longest, 0, 0))
        while place < len(second) and second[place].begin < piece.end:
            if second[place].end > piece.begin:
                yield piece.thread, second[place].thread
            place += 1


def _pieces(region: Region) -> tuple[Piece, ...]:
    return region.pieces or (Piece(*region.box[0], -1),)


@lru_cache(maxsize=4096)
def ranges_of(region: Region) -> Ranges:
    """The bytes of a region of one dimension."""
    return merged((piece.begin, piece.end) for piece in _pieces(region))


def crossing(one: Region, other: Region) -> bool | None:
    """Does a thread touch bytes of one region that a thread of another warp touches in the other? None where that is
    not known, or they are of one warp, whose order is contested."""
    if not one.pieces or not other.pieces:
        return None
    same_warp = False
    for first, second in _common(one, other):
        if first // WARP_THREADS != second // WARP_THREADS:
            return True
        same_warp = same_warp or first != second
    return None if same_warp else False


def covers(one: Region, other: Region) -> bool:
    """Is all of `other` in `one`?"""
    if one == other:
        return True
    if (not one.exact and one.box != other.box) or not _has_no_gaps(one):
        return False
    return all(a[0] <= b[0] and b[1] <= a[1] for a, b in zip(one.box, other.box, strict=True))


@lru_cache(maxsize=4096)
def _has_no_gaps(region: Region) -> bool:
    """Do the pieces touch all of the box?"""
    reached = region.box[0][0] if region.pieces else region.box[0][1]
    for piece in region.pieces:
        if piece.begin > reached:
            return False
        reached = max(reached, piece.end)
    return reached >= region.box[0][1]


def conflict_code(record: Record, region: Region, writes: bool, kind: str, name: str, step: Step) -> tuple[str, str]:
    """The rule that two unordered accesses break, and what happens."""
    freed = step.kind == "free"
    match record.kind:
        case "load":
            if kind == "load":
                return "TM102", "two copies write the same bytes and nothing orders them"
            return "MB111", "bytes of a copy are used before the phase that reports them"
        case "dot":
            return "WG105", "shared memory is overwritten while a wgmma may still read it"
        case "mma" if region.tensor:
            if freed:
                return "TC103", "tensor memory is given up while an operation may still use it"
            if kind == "mma" and record.agent != name:
                return "TC118", "two agents' operations use the same tensor memory and nothing orders them"
            return "TC107", "the result of a tensor-core operation is touched before it is complete"
        case "mma":
            return "TC110", "shared memory is overwritten while a tensor-core operation may still read it"
        case "store":
            return "BG103", "bytes of a bulk store are overwritten before it has read them"
        case "copy":
            return "BG105", "bytes of a cp.async are used before it is waited for"
        case _:
            if region.tensor:
                return "TC118", "two agents use the same tensor memory and nothing orders them"
            if kind == "thread":
                others = f"{name} and {record.agent}" if name != record.agent else f"threads of {name}"
                return "NB101", f"{others} use the same bytes and nothing orders them"
            verb = "overwrites" if writes else "reads"
            return "TM101", f"an engine {verb} bytes that {record.agent} may still use"
