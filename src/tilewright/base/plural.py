"""How is a number of things written? "1 slot", "2 slots", "1,024 bytes", with the thing in its singular or its plural.

Only English words whose plural is -s, -es after a hiss, or -ies after a consonant and y. Checked by:
tests/base/test_plural.py.
"""

from __future__ import annotations

_HISSES = ("s", "x", "z", "ch", "sh")


def plural(word: str, count: int) -> str:
    """`word` as it stands after `count`: its last word takes the plural, as in "mbarrier phases"."""
    if count == 1:
        return word
    if word.endswith(_HISSES):
        return f"{word}es"
    if word.endswith("y") and word[-2:-1] not in ("a", "e", "i", "o", "u"):
        return f"{word[:-1]}ies"
    return f"{word}s"


def counted(count: int, word: str) -> str:
    """The number and the word: "1 slot", "2 slots", "1,024 bytes"."""
    return f"{count:,} {plural(word, count)}"
