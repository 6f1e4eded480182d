"""Random edits of `ac` texts, such as slips of a hand: each gives a text that may be anything."""

from __future__ import annotations

import random
import re

_NUMBER = re.compile(r"(?<![\w%@])-?\d+")
_VALUE = re.compile(r"%[\w.]+")
_WORD = re.compile(r"(?<![\w%@.])[a-z_][a-z_.]*")
_NUMBERS = (-1, 0, 1, 2, 3, 5, 8, 16, 63, 64, 127, 128, 255, 256, 1024, 4095, 1 << 16, 1 << 20, 1 << 31, 1 << 40)
_CHARACTERS = ("%", "{", "}", "[", "<", '"', ",", "=", "->", "!", "#", "@", "^", "\0", "\\", "ä", "0x", "1.5")


def edited(text: str, source: random.Random) -> str:
    """The text with one to three edits."""
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        text = source.choice(_EDITS)(text, source)
    return text


def _changed_number(text: str, source: random.Random) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    at = source.choice(found)
    number = int(at[0])
    changed = source.choice((number + 1, number - 1, 2 * number, number // 2, -number, source.choice(_NUMBERS)))
    return f"{text[: at.start()]}{changed}{text[at.end() :]}"


def _swapped_values(text: str, source: random.Random) -> str:
    """Two values of one line, or a value by another of the text."""
    found = list(_VALUE.finditer(text))
    if len(found) < 2:
        return text
    at, other = source.choice(found), source.choice(found)
    return f"{text[: at.start()]}{other[0]}{text[at.end() :]}"


def _without_a_line(text: str, source: random.Random) -> str:
    lines = text.split("\n")
    del lines[source.randrange(len(lines))]
    return "\n".join(lines)


def _line_twice(text: str, source: random.Random) -> str:
    lines = text.split("\n")
    at = source.randrange(len(lines))
    return "\n".join([*lines[:at], lines[at], *lines[at:]])


def _swapped_lines(text: str, source: random.Random) -> str:
    lines = text.split("\n")
    if len(lines) < 2:
        return text
    at = source.randrange(len(lines) - 1)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return "\n".join(lines)


def _cut_off(text: str, source: random.Random) -> str:
    return text[: source.randrange(len(text) + 1)]


def _without_characters(text: str, source: random.Random) -> str:
    at = source.randrange(len(text) + 1)
    return text[:at] + text[at + source.choice((1, 1, 2, 5, 40)) :]


def _with_characters(text: str, source: random.Random) -> str:
    at = source.randrange(len(text) + 1)
    return text[:at] + source.choice(_CHARACTERS) + text[at:]


def _other_word(text: str, source: random.Random) -> str:
    found = list(_WORD.finditer(text))
    if not found:
        return text
    at, other = source.choice(found), source.choice(found)
    return f"{text[: at.start()]}{other[0]}{text[at.end() :]}"


_EDITS = (
    _changed_number, _changed_number, _changed_number, _swapped_values, _swapped_values, _without_a_line, _line_twice,
    _swapped_lines, _cut_off, _without_characters, _with_characters, _other_word, _other_word,
)  # fmt: skip
