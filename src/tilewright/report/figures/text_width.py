"""How wide is a text of a figure? An estimate in the figure's own units, for text of 11 units.

A page says "system-ui" and cannot know which font that is. The widths are those of a wide one (DejaVu Sans), rounded
up, so that labels keep inside their cells elsewhere, too. Not handled: scripts other than Latin, which count as its
widest letters. Checked by: tests/report/figures/test_text_width.py.
"""

from __future__ import annotations

_NARROW = frozenset(" .,:;'|!ijlI()[]")
_WIDE = frozenset("mwMW@%")


def text_width(text: str) -> float:
    """Units that `text` takes."""
    return sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if character in _NARROW:
        return 4.4
    if character in _WIDE or not character.isascii():
        return 11.0
    return 8.2 if character.isupper() else 7.0
