"""Which numbers of a kernel might be meant otherwise? Expected bytes, arrival counts, parities, named barriers,
columns, registers, alignments, offsets.

What a number should be the finding says (the bytes that came, the arrivals that were counted), or the copies that
an expectation is of, or what the same number is elsewhere in the kernel: of several alike, one that differs is the
likelier mistake. Checked by: tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tilewright.driver.repair.text import (
    Candidate,
    Edit,
    Place,
    Subject,
    barrier_of,
    constant,
    parity_of,
    replaced,
    waits,
    with_number,
    written,
)
from tilewright.frontends.ptx.ast import Immediate, Instruction, Operand, Register, TensorAddress

NUMBER = re.compile(r"(?<![\w.%+$])(?:0x[0-9a-fA-F]+|\d+)\b")
BARRIERS = ("bar.sync", "bar.arrive", "bar.red", "barrier.sync", "barrier.arrive", "barrier.cta", "barrier.red", "bar")
PARITY = re.compile(r"\]\s*,\s*([^,;\s]+)(?=\s*[,;])")
"""The parity in a wait's text: what follows the address."""
_OFFSET = re.compile(r"\[\s*([^\]\s{,]+?)\s*\+\s*(-?\d+)\s*\]")
_ALIGN = re.compile(r"\.align\s+(\d+)")


def said(subject: Subject) -> list[int]:
    """Numbers that the finding says, each once, in order."""
    return list(dict.fromkeys(int(word, 0) for word in NUMBER.findall(subject.words)))


def set_number(place: Place, old: int, new: int, what: str) -> Candidate | None:
    text = with_number(place, old, new)
    if text is None or new == old:
        return None
    return Candidate(f"{what} {new} instead of {old} (line {place.line})", (replaced(place, text),))


def _constants(subject: Subject, place: Place, operand: Operand) -> list[tuple[Place, int]]:
    """Where an operand's number stands: in the instruction itself, or in the moves that set its register."""
    match operand:
        case Immediate(value):
            return [(place, value)]
        case Register(name):
            makers = [each for each in subject.places if each.item.row == "mov" and written(each.item) == {name}]
            return [
                (each, each.item.operands[1].value) for each in makers if isinstance(each.item.operands[1], Immediate)
            ]
        case _:
            return []


def same_barrier(subject: Subject, first: Instruction, second: Instruction) -> bool:
    """May two instructions mean the same mbarrier, by their text?"""
    one, two = barrier_of(first), barrier_of(second)
    if one is None or two is None:
        return False
    if one == two:
        return True
    places = constant(subject, one), constant(subject, two)
    return None in places or places[0] == places[1]


def expected_bytes(subject: Subject) -> Iterator[Candidate]:
    """Other bytes at the places that expect some."""
    sites = [
        (place, old, where)
        for where in subject.near([each for each in subject.places if "expect_tx" in each.item.opcode])
        for place, old in _constants(subject, where, where.item.operands[-1])
    ]
    common = Counter(old for _, old, _ in sites)
    pairs = [(int(came), int(expected)) for came, expected in re.findall(r"(\d+) of (\d+) bytes", subject.words)]
    lost = [int(word) for word in re.findall(r"its (\d+) bytes", subject.words)]
    anchor = subject.primary or subject.other
    ranked: list[tuple[int, Candidate]] = []
    for place, old, where in sites:
        offers: dict[int, int] = {}
        for came, expected in pairs:
            offers.setdefault(old + came - expected, 0)
            if expected and old * came % expected == 0:
                offers.setdefault(old * came // expected, 1)
        copied = _copied_after(subject, where)
        if copied:
            offers.setdefault(copied, 0)
        for value, times in common.most_common():
            offers.setdefault(value, 0 if times > common[old] or anchor is where else 3)
        for value in lost:
            offers.setdefault(old + value, 2)
            offers.setdefault(value, 4)
        if pairs or lost or subject.finding.code.startswith("TX"):
            offers.setdefault(2 * old, 4)
            for value in said(subject):
                offers.setdefault(value, 6)
        far = 0 if anchor is None or where is anchor or same_barrier(subject, where.item, anchor.item) else 2
        for value, rank in offers.items():
            made = set_number(place, old, value, "expect") if value > 0 and value % 16 == 0 else None
            if made is not None:
                ranked.append((rank + far, made))
    yield from (candidate for _, candidate in sorted(ranked, key=lambda item: item[0]))


def _copied_after(subject: Subject, where: Place) -> int:
    """Bytes of the copies of stated size that follow an expectation on its barrier, until the next one."""
    total = 0
    for place in subject.places[where.index + 1 :]:
        if "expect_tx" in place.item.opcode or place.item.row in ("bra", "ret", "exit"):
            break
        if place.item.row == "cp.async.bulk" and barrier_of(place.item) == barrier_of(where.item):
            sizes = [each.value for each in place.item.operands if isinstance(each, Immediate)]
            total += sizes[0] if sizes else 0
    return total


def arrival_counts(subject: Subject) -> Iterator[Candidate]:
    """Other counts at the inits of mbarriers."""
    inits = list(subject.fits("mbarrier.init"))
    anchor = subject.primary
    numbers = [
        (place, old, where) for where in inits for place, old in _constants(subject, where, where.item.operands[-1])
    ]
    common = Counter(old for _, old, _ in numbers)
    lacking = [(int(came), int(count)) for came, count in re.findall(r"(\d+) of (\d+) arrivals", subject.words)]
    if lacking and not any(came for came, _ in lacking):
        return  # no count is small enough for nobody
    threads = _threads(subject)
    ranked: list[tuple[int, Candidate]] = []
    for place, old, where in numbers:
        near = where is anchor or where is subject.other or (
            anchor is not None and same_barrier(subject, where.item, anchor.item)
        )  # fmt: skip
        offers: dict[int, int] = {}
        for came, count in lacking:
            if count == old and came:
                offers.setdefault(came, 0)
        for value, times in common.items():
            offers.setdefault(value, 1 if times > common[old] else 3)
        for value in (old + 1, old - 1, 1, 32, threads, 128, 256):
            offers.setdefault(value, 4)
        for value in said(subject):
            offers.setdefault(value, 6)
        for value, rank in offers.items():
            made = set_number(place, old, value, "count arrivals:") if 0 < value <= 4096 else None
            if made is not None:
                ranked.append((rank + (0 if near else 4), made))
    yield from (candidate for _, candidate in sorted(ranked, key=lambda item: item[0]))


def _threads(subject: Subject) -> int:
    sizes = subject.kernel.directives.get("reqntid") or subject.kernel.directives.get("maxntid") or ()
    total = 1
    for size in sizes:
        total *= size
    return total


def other_parities(subject: Subject) -> Iterator[Candidate]:
    """The other parity at a wait, or in the register that a loop keeps it in."""
    yield from (replace(candidate, loosens=True) for candidate in _other_parities(subject))


def _other_parities(subject: Subject) -> Iterator[Candidate]:
    for wait in subject.near(waits(subject))[:4]:
        parity = parity_of(wait)
        match parity:
            case Immediate(value) if value in (0, 1):
                text = with_number(wait, value, 1 - value)
                if text is not None:
                    yield Candidate(
                        f"wait for the other parity, {1 - value} (line {wait.line})", (replaced(wait, text),)
                    )
            case Register():
                spot = PARITY.search(wait.text)
                if spot is not None:
                    operand = spot.group(1)
                    body = wait.text[: spot.start(1)] + "other_parity" + wait.text[spot.end(1) :]
                    text = f"{{ .reg .b32 other_parity; xor.b32 other_parity, {operand}, 1; {body} }}"
                    yield Candidate(f"wait for the other parity (line {wait.line})", (replaced(wait, text),))
                for place, value in _constants(subject, wait, parity):
                    text = with_number(place, value, 1 - value) if value in (0, 1) else None
                    if text is not None:
                        yield Candidate(f"begin with parity {1 - value} (line {place.line})", (replaced(place, text),))
            case _:
                continue


def named_barriers(subject: Subject) -> Iterator[Candidate]:
    """Other thread counts and numbers of named barriers."""
    sites = [
        place for place in subject.near(list(subject.fits(*BARRIERS)))
        if place.item.operands and place.item.row != "bar.warp.sync"
    ]  # fmt: skip
    known = [
        (place, first.value, place.item.operands[1].value if len(place.item.operands) > 1
         and isinstance(place.item.operands[1], Immediate) else None)
        for place in sites if isinstance(first := place.item.operands[0], Immediate)
    ]  # fmt: skip
    often = Counter((number, threads) for _, number, threads in known)
    alone = {number for number, _ in often if sum(each == number for each, _ in often) > 1}
    known.sort(
        key=lambda each: (each[1] not in alone, often[each[1], each[2]]) if each[0] not in subject.found else (False, 0)
    )
    warps = [32 * int(word) for word in re.findall(r"(\d+) warps have come", subject.words)]
    for place, number, threads in known[:6]:
        if threads is not None:
            same = [other for _, each, other in known if each == number and other not in (None, threads)]
            values = dict.fromkeys(value for value in (*same, *warps, *said(subject), _threads(subject)) if value)
            for value in values:
                made = set_number(place, threads, value, "a barrier of") if value % 32 == 0 and value <= 1024 else None
                if made is not None:
                    yield Candidate(made.title.replace(" instead", " threads instead"), made.edits)
        used = {each for _, each, _ in known}
        alike = [each for other, each, size in known if size == threads and other is not place]
        free = [each for each in range(15, -1, -1) if each not in used]
        for value in dict.fromkeys((*alike, *sorted(used), *free[:1])):
            text = re.sub(rf"(?<=[\s]){number}(?=\s*[,;])", str(value), place.text, count=1)
            if value != number and 0 <= value < 16 and text != place.text:
                yield Candidate(f"barrier {value} instead of {number} (line {place.line})", (replaced(place, text),))


def trip_counts(subject: Subject) -> Iterator[Candidate]:
    """The bounds of loops that other loops have: roles that pass tiles to each other make as many trips."""
    if "does not again" not in subject.words:
        return
    bounds: list[tuple[Place, int]] = []
    for loop in subject.loops:
        guard = subject.places[loop.last].item.guard
        makers = [
            place for place in subject.places[loop.first : loop.last]
            if guard is not None and place.item.row == "setp" and guard.register.name in written(place.item)
        ]  # fmt: skip
        for place in makers[-1:]:
            last = place.item.operands[-1]
            if isinstance(last, Immediate) and any(isinstance(each, Register) for each in place.item.operands[1:]):
                bounds.append((place, last.value))
    anchor = subject.primary.index if subject.primary is not None else 0
    for place, old in sorted(bounds, key=lambda each: abs(each[0].index - anchor), reverse=True):
        for _, value in sorted(bounds, key=lambda each: -each[1]):
            made = set_number(place, old, value, "trips:")
            if made is not None:
                yield made


def columns(subject: Subject) -> Iterator[Candidate]:
    """Columns of tensor memory: as many freed as allocated, a power of two, enough of them."""
    sites = [
        (place, old, where)
        for where in subject.near(list(subject.fits("tcgen05.alloc", "tcgen05.dealloc")))
        for place, old in _constants(subject, where, where.item.operands[-1])
    ]
    often = Counter(old for _, old, _ in sites)
    sites.sort(key=lambda site: often[site[1]])
    values = [old for old, _ in often.most_common()]
    for place, old, _ in sites:
        larger = [size for size in (32, 64, 128, 256, 512) if size > old]
        for value in dict.fromkeys((*(each for each in values if each != old), *larger)):
            made = set_number(place, old, value, "columns:") if value in (32, 64, 128, 256, 512) else None
            if made is not None:
                yield made
    if len(sites) > 1:
        for value in (64, 128, 256, 512):
            parts = [set_number(place, old, value, "columns:") for place, old, _ in sites if old < value]
            found = [part for part in parts if part is not None]
            if len(found) > 1:
                yield Candidate(
                    f"allocate and free {value} columns", tuple(edit for part in found for edit in part.edits)
                )


def registers(subject: Subject) -> Iterator[Candidate]:
    """Register counts of setmaxnreg: the finding's own numbers, the nearest legal one, fewer for those that take."""
    sites = [
        (place, place.item.operands[-1].value)
        for place in subject.near(list(subject.fits("setmaxnreg")))
        if place.item.operands and isinstance(place.item.operands[-1], Immediate)
    ]
    for place, old in sites:
        legal = [
            value
            for value in (*said(subject), min(256, max(24, old // 8 * 8)))
            if value % 8 == 0 and 24 <= value <= 256
        ]
        lower = [value for value in (old - 8, old - 16, old - 24, old - 32, old - 48, old - 64) if value >= 24]
        rising = ".inc" in place.item.opcode
        for value in dict.fromkeys((*legal, *(lower if rising else ()))):
            made = set_number(place, old, value, "registers:")
            if made is not None:
                yield made


def alignments(subject: Subject) -> Iterator[Candidate]:
    """Shared variables aligned more strongly, offsets and coordinates that are multiples of what is wanted."""
    wanted = [value for value in said(subject) if 8 <= value <= 1024 and value & (value - 1) == 0]
    for place in subject.found:
        for match in _OFFSET.finditer(place.text):
            offset = int(match.group(2))
            for unit in dict.fromkeys((*wanted, 16, 128)):
                for new in dict.fromkeys((0, offset // unit * unit, -(-offset // unit) * unit)):
                    if new != offset:
                        text = place.text[: match.start()] + _address(match.group(1), new) + place.text[match.end() :]
                        yield Candidate(
                            f"offset {new} instead of {offset} (line {place.line})", (replaced(place, text),)
                        )
    for operand, place in _coordinates(subject):
        for where, old in _constants(subject, place, operand):
            for unit in dict.fromkeys((2 * old, *wanted)):
                for new in (-(-old // unit) * unit, old // unit * unit) if unit else ():
                    made = set_number(where, old, new, "coordinate")
                    if made is not None:
                        yield made
    for number, line in enumerate(subject.text.split("\n")):
        match = _ALIGN.search(line)
        if match is None or ".shared" not in line:
            continue
        start = subject.line_starts[number]
        for align in dict.fromkeys((*wanted, 128, 1024)):
            if align > int(match.group(1)):
                edit = Edit(start + match.start(1), start + match.end(1), str(align))
                yield Candidate(f"align to {align} bytes (line {number + 1})", (edit,))


def _address(base: str, offset: int) -> str:
    return f"[{base}+{offset}]" if offset else f"[{base}]"


def _coordinates(subject: Subject) -> Iterator[tuple[Operand, Place]]:
    for place in subject.found:
        for operand in place.item.operands:
            if isinstance(operand, TensorAddress):
                yield from ((each, place) for each in operand.coordinates)


def offsets(subject: Subject) -> Iterator[Candidate]:
    """An address of a copy or a commit without its offset, or with that of a sibling, or beyond what it runs into.

    A register that stands without offset elsewhere, and with one here, comes first.
    """
    copies = list(subject.fits("cp.async.bulk", "tcgen05.commit", "mbarrier"))
    plain = Counter(base for place in copies for base in re.findall(r"\[\s*(%[\w$]+)\s*\]", place.text))
    spots = [(place, match) for place in subject.near(copies) for match in _OFFSET.finditer(place.text)]
    spots.sort(key=lambda spot: (not plain[spot[1].group(1)], spot[0] not in subject.found))
    starts = [int(word, 0) for word in re.findall(r"\[(0x[0-9a-f]+), 0x", subject.words)]
    ends = [int(word, 0) for word in re.findall(r", (0x[0-9a-f]+)\)", subject.words)]
    step = max((end - start for start, end in zip(starts, ends, strict=False)), default=0)
    for place, match in spots[:8]:
        offset = int(match.group(2))
        sizes = [each.value for each in place.item.operands if isinstance(each, Immediate) and each.value >= 16]
        offers = (0, offset - 8, offset + 8, 2 * offset, *sizes[:1], offset + step)
        for new in dict.fromkeys(offers[:1] if plain[match.group(1)] else offers):
            if new != offset:
                text = place.text[: match.start()] + _address(match.group(1), new) + place.text[match.end() :]
                yield Candidate(f"offset {new} instead of {offset} (line {place.line})", (replaced(place, text),))
