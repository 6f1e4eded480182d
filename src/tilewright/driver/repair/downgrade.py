"""Which form of a copy is legal where a bulk copy is not, and which completion belongs to the form that is there?

A bulk copy takes multiples of 16 bytes, at addresses that are such. Where size or address is none, its issuing thread
copies the same bytes in a loop:

- to shared memory by `cp.async` of 16, 8 or 4 bytes, whose completion arrives on the mbarrier that the bulk copy
  signalled (`cp.async.mbarrier.arrive`), or is waited for, with a proxy fence and an arrival, where an engine reads;
- by loads and stores of 8 bytes or fewer else, and from shared memory.

The bytes are no longer expected. Where others still are, the arrival that expects them comes behind the loop, and the
loop's own arrival is one more of the phase.

A completion of the wrong kind is replaced: groups of `cp.async` for bulk copies and the other way round, a wait for an
mbarrier for a bulk store that can only be in a bulk group, a bulk group's wait for a copy that signals an mbarrier.

Not handled: copies through tensor maps, to several CTAs or to another one; bytes that a register expects.
Checked by: tests/driver/repair/test_downgrade.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.driver.repair.text import (
    Candidate,
    Edit,
    Place,
    Subject,
    barrier_of,
    before,
    dropped,
    replaced,
    spelled,
    wait_end,
    wait_lines,
    waits,
    written,
)
from tilewright.frontends.ptx.ast import Address, Immediate, Instruction, Operand, Register

_ASYNC_WIDTHS = (16, 8, 4)
_WIDTHS = (8, 4, 2, 1)
_ALIGNED = 16
_DEPTH = 12
"""Instructions that an address is followed back through."""
_COST = "one thread copies, a few bytes at a time"
_COMMIT, _WAIT = "commit_group", "wait_group"


def smaller_copies(subject: Subject) -> Iterator[Candidate]:
    """The bulk copy of a finding as a loop of smaller ones."""
    for place in subject.found:
        item = place.item
        if item.row != "cp.async.bulk" or "multicast" in item.opcode or "cache_hint" in item.opcode:
            continue
        addresses = [each for each in item.operands if isinstance(each, Address)]
        size = next((each for each in item.operands if isinstance(each, Immediate | Register)), None)
        if len(addresses) < 2 or size is None or addresses[0].base is None or addresses[1].base is None:
            continue
        if ".shared" in item.opcode.split(".global")[0]:
            yield from _loads(subject, place, addresses, size)
        elif "bulk_group" in item.opcode:
            for width in _legal(subject, addresses[0], size, _WIDTHS):
                lines = _loop(place, addresses[0], addresses[1], size, width, _words("shared", "global", width))
                title = f"copy by loads and stores of {_bytes(width)} (line {place.line})"
                yield Candidate(title, (replaced(place, "\n\t".join(lines)),), _COST)


def _loads(subject: Subject, place: Place, addresses: list[Address], size: Operand) -> Iterator[Candidate]:
    """A copy to shared memory that signals an mbarrier."""
    barrier = barrier_of(place.item)
    expect = _expectation(subject, place, barrier)
    if barrier is None or expect is None or not isinstance(size, Immediate):
        return
    expected = expect.item.operands[-1]
    if not isinstance(expected, Immediate) or expected.value < size.value:
        return
    left, at = expected.value - size.value, spelled(barrier)
    rest = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, {at}, {left};"
    if left:
        signalled = (f"cp.async.mbarrier.arrive.shared::cta.b64 {at};", rest)
        synchronous = (rest,)
    else:
        signalled = (f"cp.async.mbarrier.arrive.noinc.shared::cta.b64 {at};",)
        synchronous = (f"mbarrier.arrive.shared::cta.b64 _, {at};",)
    fence = "fence.proxy.async.shared::cta;"

    def candidate(title: str, copy: tuple[str, ...], width: int, end: tuple[str, ...], price: str) -> Candidate:
        lines = _loop(place, addresses[0], addresses[1], size, width, copy, end)
        edits: tuple[Edit, ...] = (dropped(subject, expect), replaced(place, "\n\t".join(lines)))
        return Candidate(f"{title} (line {place.line})", edits, price)

    for width in _legal(subject, addresses[1], size, _ASYNC_WIDTHS):
        copy = (f"cp.async.{'cg' if width == 16 else 'ca'}.shared.global [copy_to], [copy_from], {width};",)
        title = f"copy by cp.async of {_bytes(width)}"
        yield candidate(title, copy, width, signalled, _COST)
        end = ("cp.async.wait_all;", fence, *synchronous)
        yield candidate(f"{title}, waited for and fenced", copy, width, end, f"{_COST}, and waits for them")
    for width in _legal(subject, addresses[1], size, _WIDTHS):
        title = f"copy by loads and stores of {_bytes(width)}"
        yield candidate(title, _words("global", "shared", width), width, (fence, *synchronous), _COST)


def _bytes(width: int) -> str:
    return "1 byte" if width == 1 else f"{width} bytes"


def _legal(subject: Subject, address: Address, size: Operand, widths: tuple[int, ...]) -> list[int]:
    """The widths that divide the size, the address that was found, and as far as the text shows an address in global
    memory: where no launch is given, no check of the text looks at that one."""
    known = [size.value] if isinstance(size, Immediate) else []
    known += [int(word, 16) for word in re.findall(r"address (0x[0-9a-f]+) of", subject.finding.message)]
    known.append(_multiple(subject, address))
    return [width for width in widths if all(value % width == 0 for value in known)]


def _multiple(subject: Subject, operand: Operand, seen: frozenset[str] = frozenset()) -> int:
    """A power of two, 16 at most, that an operand is a multiple of; a parameter of 64 bits is taken for an address that
    is one of 16, which bulk copies need, and a narrower one for any number. What is not followed is a multiple of 1."""
    match operand:
        case Immediate(value):
            return min(value & -value, _ALIGNED) or _ALIGNED
        case Address(base, offset):
            own = Immediate(offset)
            return min(_multiple(subject, own), _ALIGNED if base is None else _multiple(subject, base, seen))
        case Register(name) if name not in seen and len(seen) < _DEPTH:
            makers = [place.item for place in subject.places if name in written(place.item)]
            return min((_made(subject, each, seen | {name}) for each in makers), default=1)
        case Register(name) if name in seen:
            return _ALIGNED  # what is added to it in a loop decides
        case _:
            return 1


def _made(subject: Subject, item: Instruction, seen: frozenset[str]) -> int:
    """The same of an instruction's result."""
    parts = [_multiple(subject, each, seen) for each in item.operands[1:]]
    match item.row:
        case "ld" if ".param" in item.opcode and item.opcode.endswith("64"):
            return _ALIGNED
        case "mov" | "cvta" | "cvt" | "add" | "sub" | "selp" | "or" | "min" | "max":
            return min(parts[:2] if item.row == "selp" else parts, default=1)
        case "mul" | "mad":
            product = parts[0] * parts[1]
            return min(_ALIGNED, product, *parts[2:])
        case "shl" if isinstance(item.operands[2], Immediate):
            return min(_ALIGNED, parts[0] << min(item.operands[2].value, 4))
        case _:
            return 1


def _words(source: str, target: str, width: int) -> tuple[str, ...]:
    """A load and a store of some bytes."""
    return (
        f"ld.{source}.b{8 * width} copy_word, [copy_from];",
        f"st.{target}.b{8 * width} [copy_to], copy_word;",
    )


def _loop(
    place: Place, target: Address, source: Address, size: Operand, width: int, copy: tuple[str, ...],
    end: tuple[str, ...] = (),
) -> tuple[str, ...]:  # fmt: skip
    """The lines that copy so many bytes, by the threads for which the guard of `place` holds."""
    limit = size.value if isinstance(size, Immediate) else getattr(size, "name", "")
    to_shared = ".shared" in place.item.opcode.split(".global")[0]
    bits = (32, 64) if to_shared else (64, 32)
    guard = place.item.guard
    skip = () if guard is None else (f"@{'' if guard.negated else '!'}{guard.register.name} bra copied_all;",)
    word = (f".reg .b{max(8 * width, 16)} copy_word;",) if any("copy_word" in line for line in copy) else ()
    return (
        "{",
        ".reg .pred copy_more;",
        ".reg .b32 copied;",
        f".reg .b{bits[0]} copy_to;",
        f".reg .b{bits[1]} copy_from;",
        *word,
        *skip,
        "mov.b32 copied, 0;",
        *_start("copy_to", target, bits[0]),
        *_start("copy_from", source, bits[1]),
        "copy_again:",
        *copy,
        f"add.u{bits[0]} copy_to, copy_to, {width};",
        f"add.u{bits[1]} copy_from, copy_from, {width};",
        f"add.u32 copied, copied, {width};",
        f"setp.lt.u32 copy_more, copied, {limit};",
        "@copy_more bra copy_again;",
        *end,
        "copied_all:",
        "}",
    )


def _start(name: str, address: Address, bits: int) -> tuple[str, ...]:
    """A register with the value of an address."""
    base = address.base.name if address.base is not None else "0"
    move = f"mov.u{bits} {name}, {base};"
    return (move, f"add.u{bits} {name}, {name}, {address.offset};") if address.offset else (move,)


def _expectation(subject: Subject, copy: Place, barrier: Address | None) -> Place | None:
    """The arrival that expects the bytes of a copy: the one on its barrier that is nearest."""
    expects = [
        each
        for each in subject.places
        if "expect_tx" in each.item.opcode and each.item.row.startswith("mbarrier.arrive")
        and barrier_of(each.item) == barrier
    ]  # fmt: skip
    return min(expects, key=lambda each: abs(each.index - copy.index), default=None)


# ---------------------------------------------------------------- completions


def completions(subject: Subject) -> Iterator[Candidate]:
    """The completion that a copy has, where another one is waited for."""
    bulk, small = _copies(subject, "cp.async.bulk", "cp.reduce.async.bulk"), _copies(subject, "cp.async")
    bulk_ends = list(subject.fits(f"cp.async.bulk.{_COMMIT}", f"cp.async.bulk.{_WAIT}"))
    small_ends = list(subject.fits(f"cp.async.{_COMMIT}", f"cp.async.{_WAIT}", "cp.async.wait_all"))
    in_groups = [each for each in bulk if "bulk_group" in each.item.opcode]
    if in_groups and not small and small_ends and not bulk_ends:
        yield _other_groups(small_ends, "bulk groups", in_groups[0], "cp.async.", "cp.async.bulk.")
    if small and not in_groups and bulk_ends and not small_ends:
        yield _other_groups(bulk_ends, "groups of cp.async", small[0], "cp.async.bulk.", "cp.async.")
    if in_groups and not bulk_ends:
        yield from _groups_for_phases(subject, in_groups)
    if not in_groups and bulk_ends:
        yield from _phases_for_groups(subject, [each for each in bulk if each not in in_groups], bulk_ends)


def _copies(subject: Subject, *rows: str) -> list[Place]:
    return [each for each in subject.places if each.item.row in (*rows, *(f"{row}.tensor" for row in rows))]


def _other_groups(ends: list[Place], kind: str, copy: Place, old: str, new: str) -> Candidate:
    edits: list[Edit] = []
    for each in ends:
        text = each.text.replace(f"{old}wait_all", f"{new}wait_group 0", 1).replace(old, new, 1)
        edits.append(replaced(each, text.replace(".wait_group.read", ".wait_group") if "bulk" in old else text))
    return Candidate(f"{kind} for the copies of line {copy.line} (line {ends[0].line})", tuple(edits))


def _groups_for_phases(subject: Subject, stores: list[Place]) -> Iterator[Candidate]:
    """A wait for an mbarrier that a bulk store never signals, as a wait for its bulk group."""
    for wait in subject.near(waits(subject))[:2]:
        earlier = [each for each in stores if each.index < wait.index]
        end = wait_end(subject, wait)
        if not earlier or end is wait:
            continue
        store = earlier[-1]
        lines = (f"{store.guard}cp.async.bulk.{_COMMIT};", f"{store.guard}cp.async.bulk.{_WAIT}.read 0;")
        edits = (dropped(subject, wait), dropped(subject, end), before(subject, wait, *lines))
        title = f"wait for the bulk group of line {store.line} instead of the mbarrier (line {wait.line})"
        yield Candidate(title, edits)


def _phases_for_groups(subject: Subject, loads: list[Place], ends: list[Place]) -> Iterator[Candidate]:
    """A bulk group's wait for a copy that signals an mbarrier, as a wait for its phase by all threads."""
    asked = [each for each in ends if each.item.row.startswith(f"cp.async.bulk.{_WAIT}")]
    for wait in asked[:2]:
        earlier = [each for each in loads if each.index < wait.index and barrier_of(each.item) is not None]
        barrier = barrier_of(earlier[-1].item) if earlier else None
        if barrier is None:
            continue
        lines = wait_lines(spelled(barrier), "0")
        unused = [dropped(subject, each) for each in ends if each is not wait]
        title = f"wait for the phase of the mbarrier instead of a bulk group (line {wait.line})"
        yield Candidate(title, (replaced(wait, "\n\t".join(lines)), *unused))
