"""Short names of files for kernels whose own names may have thousands of letters.

Checked by: tests/driver/capture/test_capture.py.
"""

from __future__ import annotations

import re

_MAX_LETTERS = 48


def short_name(entry: str) -> str:
    """The identifiers of a C++ name up to its template arguments, or the name itself; letters, digits and _ only."""
    words: list[str] = []
    if entry.startswith("_Z"):
        at = 3 if entry.startswith("_ZN") else 2
        while (match := re.match(r"\d+", entry[at:])) is not None:
            begin = at + match.end()
            at = begin + int(match[0])
            words.append(entry[begin:at])
    # Anonymous namespaces and the hash in a static function's name say nothing.
    kept = [word for word in words if not word.startswith("_GLOBAL__N_")]
    name = re.sub(r"\W+", "_", "_".join(kept[-2:]) or entry)
    return name[:_MAX_LETTERS].strip("_") or "kernel"


def unique_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, with a number where it is taken; it is taken then."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name
