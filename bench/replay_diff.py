"""How do the texts of two compilers differ? Unified diffs, each shown once with the products that have it.

Two products have the same diff of a text if the same lines go and come, in the same order; what stands around them is
shown of the first. Of diffs that differ in numbers alone one is shown, which says of how many it is an example, unless
everything is asked for. Checked by: tests/benchmarks/test_replay_record.py.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.replay_record import TEXTS

MOST_LINES = 60
"""Shown of one diff."""
MOST_DIFFS = 8
"""Shown of one kind of text."""
_MOST_NAMES = 8
_CONTEXT = 2
_NUMBER = re.compile(r"\d+")

Texts = Mapping[str, Mapping[str, str]]
"""Of each product the texts, by `TEXTS`."""


@dataclass(frozen=True, slots=True)
class Diff:
    """A diff that all of `names` have. text: which of `TEXTS`."""

    text: str
    lines: tuple[str, ...]
    names: tuple[str, ...]


def diffs(before: Texts, after: Texts, heard: Callable[[], None] = lambda: None) -> list[Diff]:
    """Those of products that both sides have; of each kind of text first what most products have. `heard` is called
    after each product."""
    found: list[Diff] = []
    names: dict[str, defaultdict[tuple[str, ...], list[str]]] = {text: defaultdict(list) for text in TEXTS}
    first: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    for name in sorted(before.keys() & after.keys()):
        for text in TEXTS:
            old, new = before[name][text], after[name][text]
            if old == new:
                continue
            # The first two lines name the files.
            lines = tuple(difflib.unified_diff(old.splitlines(), new.splitlines(), n=_CONTEXT, lineterm=""))[2:]
            same = tuple(line for line in lines if line[0] in "+-")
            names[text][same].append(name)
            first.setdefault((text, same), lines)
        heard()
    for text in TEXTS:
        groups = sorted(names[text].items(), key=lambda pair: -len(pair[1]))
        found += [Diff(text, first[text, same], tuple(group)) for same, group in groups]
    return found


def shown(found: list[Diff], *, everything: bool = False) -> str:
    """The diffs as text, cut unless everything is asked for."""
    lines: list[str] = []
    for text in TEXTS:
        of_text = [each for each in found if each.text == text]
        if not of_text:
            continue
        count = sum(len(each.names) for each in of_text)
        lines += [f"==== {text} of {_counted(count, 'product')}, {_counted(len(of_text), 'different diff')}"]
        families = [[each] for each in of_text] if everything else _alike(of_text)
        kept = families if everything else families[:MOST_DIFFS]
        for first, *others in kept:
            lines += ["", *_named(first.names, everything), *_cut(first.lines, everything)]
            if others:
                lines.append(f"... and {_sizes(others)} that differ from this in numbers alone: see --all")
        rest = [each for family in families[len(kept) :] for each in family]
        if rest:
            lines += ["", f"{_sizes(rest)} more: see --all"]
        lines.append("")
    return "\n".join(lines).rstrip("\n")


def _alike(found: list[Diff]) -> list[list[Diff]]:
    """Diffs that are equal but for numbers, those of most products first."""
    families: defaultdict[tuple[str, ...], list[Diff]] = defaultdict(list)
    for each in found:
        families[tuple(_NUMBER.sub("0", line) for line in each.lines if line[0] in "+-")].append(each)
    return sorted(families.values(), key=lambda family: -sum(len(each.names) for each in family))


def _sizes(found: list[Diff]) -> str:
    return f"{_counted(len(found), 'diff')} of {_counted(sum(len(each.names) for each in found), 'product')}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _named(names: tuple[str, ...], everything: bool) -> list[str]:
    kept = names if everything else names[:_MOST_NAMES]
    more = [f"---- and {len(names) - len(kept)} more"] if len(kept) < len(names) else []
    return [*(f"---- {name}" for name in kept), *more]


def _cut(lines: tuple[str, ...], everything: bool) -> list[str]:
    if everything or len(lines) <= MOST_LINES:
        return list(lines)
    return [*lines[:MOST_LINES], f"... {len(lines) - MOST_LINES} more lines: see --all"]
