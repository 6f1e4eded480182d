"""Contents whose Zstandard frames stand in tests/data/fatbin/zstd.npz, as NAME_LEVEL (`zstd -LEVEL -c`, version 1.5.4).

They are chosen to meet every kind of block, of literals and of tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable


def _words() -> bytes:
    """Text of few words: several blocks, whose tables repeat."""
    draw = random.Random(1)
    words = ["".join(draw.choice("abcdefghijklmnopq_%.") for _ in range(draw.randrange(2, 9))) for _ in range(24)]
    return " ".join(draw.choice(words) for _ in range(26000)).encode()


def _skewed() -> bytes:
    """Bytes of which small ones are frequent, with hardly a match: literals alone."""
    draw = random.Random(2)
    return bytes(min(255, int(draw.expovariate(0.08))) for _ in range(6000))


def _runs() -> bytes:
    """Runs of one letter between numbers: long literals and matches of many lengths."""
    draw = random.Random(3)
    return b"".join(bytes([draw.randrange(97, 100)]) * draw.randrange(1, 400) + b"%d" % number for number in range(800))


def _separated() -> bytes:
    """A second block of matches with one letter between them: its literals are that letter, repeated."""
    draw = random.Random(5)
    first = draw.randbytes(1000)
    pieces = [first[at : at + 60] + b"x" for at in (draw.randrange(900) for _ in range(300))]
    return first.ljust(1 << 17, b"\0") + b"".join(pieces)


CONTENTS: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "short": lambda: b".version 8.6\n",
    "repeated": lambda: b"a" * 300_000,
    "random": lambda: random.Random(4).randbytes(1500),
    "words": _words,
    "skewed": _skewed,
    "runs": _runs,
    "numbers": lambda: b"".join(number.to_bytes(4, "little") for number in range(0, 6_000, 7)),
    "separated": _separated,
}
