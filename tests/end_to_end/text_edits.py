"""Edits of an emitted PTX text, line by line: drop, repeat, move or rewrite the instruction that a pattern finds."""

from __future__ import annotations

import re
from collections.abc import Callable

Edit = Callable[[list[str]], list[str]]


def places(lines: list[str], pattern: str) -> list[int]:
    """Indices of the lines in which a pattern is found; at least one."""
    found = [index for index, line in enumerate(lines) if re.search(pattern, line)]
    assert found, f"no line has {pattern}"
    return found


def drop(pattern: str, number: int | None = None) -> Edit:
    """Remove the number-th line with a pattern, or all of them."""

    def edit(lines: list[str]) -> list[str]:
        found = places(lines, pattern)
        gone = set(found) if number is None else {found[number]}
        return [line for index, line in enumerate(lines) if index not in gone]

    return edit


def repeat(pattern: str, number: int = 0) -> Edit:
    def edit(lines: list[str]) -> list[str]:
        at = places(lines, pattern)[number]
        return [*lines[: at + 1], *lines[at:]]

    return edit


def rewrite(pattern: str, by: str | Callable[[re.Match[str]], str], number: int | None = None) -> Edit:
    """Replace a pattern in the number-th line that has it, or in all."""

    def edit(lines: list[str]) -> list[str]:
        found = places(lines, pattern)
        touched = set(found) if number is None else {found[number]}
        return [re.sub(pattern, by, line, count=1) if index in touched else line for index, line in enumerate(lines)]

    return edit


def move(pattern: str, number: int, target: str, target_number: int = 0, *, above: bool = False) -> Edit:
    """Move the number-th line with a pattern below (or above) the line with another."""

    def edit(lines: list[str]) -> list[str]:
        at, to = places(lines, pattern)[number], places(lines, target)[target_number]
        moved = lines[at]
        to += not above
        rest = [line for index, line in enumerate(lines) if index != at]
        to -= at < to
        return [*rest[:to], moved, *rest[to:]]

    return edit


def move_block(pattern: str, number: int, length: int, target: str, target_number: int) -> Edit:
    """Move the line with a pattern, and the `length` - 1 lines before it, below the line with another."""

    def edit(lines: list[str]) -> list[str]:
        last, to = places(lines, pattern)[number], places(lines, target)[target_number]
        first = last - length + 1
        block, rest = lines[first : last + 1], [*lines[:first], *lines[last + 1 :]]
        to = to - length if to > last else to
        return [*rest[: to + 1], *block, *rest[to + 1 :]]

    return edit


def rewrite_above(pattern: str, by: str | Callable[[re.Match[str]], str], anchor: str, anchor_number: int = 0) -> Edit:
    """Replace a pattern in the nearest line that has it above the line with another."""

    def edit(lines: list[str]) -> list[str]:
        limit = places(lines, anchor)[anchor_number]
        at = [index for index in places(lines, pattern) if index < limit][-1]
        return [*lines[:at], re.sub(pattern, by, lines[at], count=1), *lines[at + 1 :]]

    return edit


def number(how: Callable[[int], int]) -> Callable[[re.Match[str]], str]:
    """For `rewrite`: the pattern's group `n` holds a number, which is changed."""

    def by(match: re.Match[str]) -> str:
        old = int(match["n"])
        new = how(old)
        assert new != old, "the edit changes nothing"
        begin, end = match.start("n") - match.start(), match.end("n") - match.start()
        return f"{match[0][:begin]}{new}{match[0][end:]}"

    return by


def after(pattern: str, number: int, *new: str) -> Edit:
    """Insert lines below the number-th one with a pattern."""

    def edit(lines: list[str]) -> list[str]:
        at = places(lines, pattern)[number]
        return [*lines[: at + 1], *new, *lines[at + 1 :]]

    return edit


def both(*edits: Edit) -> Edit:
    def edit(lines: list[str]) -> list[str]:
        for each in edits:
            lines = each(lines)
        return lines

    return edit


def wait_loop_dropped(number: int) -> Edit:
    """The number-th wait on an mbarrier is gone: the try_wait, its branches and its labels."""

    def edit(lines: list[str]) -> list[str]:
        at = places(lines, r"mbarrier\.try_wait")[number]
        assert lines[at - 1].startswith("wait_") and lines[at + 3].startswith("wait_done_")
        return [*lines[: at - 1], *lines[at + 4 :]]

    return edit


def ring_wraps(number: int, delta: int) -> Edit:
    """The number-th advance of a cursor compares with another number of stages."""

    def edit(lines: list[str]) -> list[str]:
        at = places(lines, r"selp\.b32 %r\d+, 0, ")[number] - 1
        changed = re.sub(r"(\d+);$", lambda match: f"{int(match[1]) + delta};", lines[at])
        assert "setp.eq.u32" in lines[at] and changed != lines[at]
        return [*lines[:at], changed, *lines[at + 1 :]]

    return edit


def newest_slot_released(lines: list[str]) -> list[str]:
    """In the loop, the slot that has just been waited for is released, not the one before."""
    wait = places(lines, r"mbarrier\.try_wait")[2]
    release = places(lines, r"mbarrier\.arrive\.release")[0]
    form = re.compile(r"mad\.lo\.u32 %r\d+, (%r\d+), 8, %r1;")
    waited = [match[1] for line in lines[:wait] if (match := form.search(line))][-1]
    at = [index for index in range(release) if form.search(lines[index])][-1]
    return [*lines[:at], re.sub(r", %r\d+, 8", f", {waited}, 8", lines[at]), *lines[at + 1 :]]


def registers_renamed(lines: list[str]) -> list[str]:
    """Every 32-bit register one further than it was, cyclically."""
    declared = next(re.search(r"\.b32 %r<(\d+)>", line) for line in lines if ".b32 %r<" in line)
    assert declared is not None
    count = int(declared[1])
    return [re.sub(r"%r(\d+)", lambda match: f"%r{(int(match[1]) + 1) % count}", line) for line in lines]


def neighbours_swapped(lines: list[str]) -> list[str]:
    """Adjacent address computations that do not depend on each other, in the other order."""
    out = list(lines)
    index, swapped = 0, 0
    form = re.compile(r"^\t(?:mul\.lo|add|mad\.lo|shr|and|mov)\.[usb]32 (%r\d+), ([^;]*);$")
    while index + 1 < len(out):
        one, other = form.match(out[index]), form.match(out[index + 1])
        if one and other and one[1] not in re.findall(r"%r\d+", other[2]) and one[1] != other[1]:
            if other[1] not in re.findall(r"%r\d+", one[2]):
                out[index], out[index + 1] = out[index + 1], out[index]
                swapped += 1
            index += 2
        else:
            index += 1
    assert swapped > 3
    return out
