"""The pairs of code that the pages of rules show, and the excerpts of them, made from whole pairs:
`python -m tests.docs.rule_examples` writes src/tilewright/driver/rules/rule_examples.toml anew.

A pair is one of three: two kernels (docs/bugs, or docs/rules/examples where no bug of docs/bugs shows the rule), an
edit of a correct program of the `ac` dialect, or two maps as options of `tilewright tensormap`.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal

from tests.docs.pages import ROOT

from tilewright.driver.rules.rule_examples import RuleExample

BUGS = ROOT / "docs" / "bugs"
EXAMPLES = ROOT / "docs" / "rules" / "examples"
MADE = ROOT / "src" / "tilewright" / "driver" / "rules" / "rule_examples.toml"
_CONTEXT = 2
"""Lines that are shown around a change."""
_WIDTHS = {"ptx": 200, "mlir": 84}
"""Of a line. Text of the `ac` dialect is cut to what the site shows without scrolling; PTX is shown whole."""
_MARGIN = 18
"""Characters that are shown around a change in a line that is wider."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts, the buggy one and the fixed one, of a rule. launch: the launch file, where there is one."""

    code: str
    title: str
    kind: Literal["ptx", "mlir", "sh"]
    buggy: str
    fixed: str
    files: tuple[str, ...]
    isa: Literal["tolerant", "strict"] = "tolerant"
    launch: str = ""
    review: bool = False
    fixed_verdict: str = "proven"


def pairs() -> dict[str, Pair]:
    """Every pair by the code of the rule that it shows."""
    found: dict[str, Pair] = {}
    for name, entry in _table(BUGS / "index.toml").items():
        for code in entry.get("shows", ()):
            assert code not in found, code
            found[code] = _kernels(code, BUGS / name, entry)
    for code, entry in _table(EXAMPLES / "index.toml").items():
        assert code not in found, f"{code} has a pair in docs/bugs"
        found[code] = _kernels(code, EXAMPLES / code, entry)
    for code, entry in _table(EXAMPLES / "programs" / "edits.toml").items():
        path = EXAMPLES / "programs" / entry["program"]
        program = path.read_text("utf-8")
        files = (_from_root(path), _from_root(path.parent / "edits.toml"))
        found[code] = Pair(code, "", "mlir", edited(program, entry["edits"]), program, files)
    maps = EXAMPLES / "tensor-maps.toml"
    for code, entry in _table(maps).items():
        texts = (f"tilewright tensormap {entry[side]}\n" for side in ("buggy", "fixed"))
        found[code] = Pair(code, "", "sh", *texts, (_from_root(maps),))
    return dict(sorted(found.items()))


def edited(program: str, edits: list[dict[str, Any]]) -> str:
    """The program with the lines of each edit replaced. An edit whose fixed lines are not there is an error."""
    lines = program.split("\n")
    for edit in sorted(edits, key=lambda each: -each["line"]):
        begin = edit["line"] - 1
        end = begin + len(edit["fixed"])
        assert [line.strip() for line in lines[begin:end]] == edit["fixed"], edit
        nearest = lines[begin] if begin < len(lines) else lines[begin - 1]
        indent = nearest[: len(nearest) - len(nearest.lstrip())]
        lines[begin:end] = [indent + line for line in edit["buggy"]]
    return "\n".join(lines)


def example_of(pair: Pair) -> RuleExample:
    """What the page of the pair's rule shows."""
    if pair.kind == "sh":
        return RuleExample(pair.title, "sh", pair.buggy, pair.fixed, (), (), pair.files, "", pair.review)
    (buggy, wrong), (fixed, right) = excerpts(pair.buggy, pair.fixed, _WIDTHS[pair.kind])
    return RuleExample(pair.title, pair.kind, buggy, fixed, wrong, right, pair.files, _command(pair), pair.review)


Excerpt = tuple[str, tuple[int, ...]]
"""Lines, and the numbers of those that differ, from 1 on."""


def excerpts(buggy: str, fixed: str, width: int) -> tuple[Excerpt, Excerpt]:
    """The lines of both texts that differ, with a few around each change, cut to about `width` characters."""
    sides = (_code(buggy), _code(fixed))
    changes = [
        change for change in SequenceMatcher(None, *sides, autojunk=False).get_opcodes() if change[0] != "equal"
    ]  # fmt: skip
    shown: tuple[list[str], list[str]] = ([], [])
    differ: tuple[list[int], list[int]] = ([], [])
    ends = [0, 0]
    for _, *places in changes:
        spans = (places[:2], places[2:])
        narrow = _narrowed(*(sides[side][slice(*spans[side])] for side in (0, 1)), width)
        for side, (begin, end) in enumerate(spans):
            lines, start = sides[side], max(begin - _CONTEXT, ends[side])
            if start > ends[side] and shown[side]:
                shown[side].append("...")
            shown[side].extend(_cut(line, width) for line in lines[start:begin])
            differ[side].extend(range(len(shown[side]) + 1, len(shown[side]) + 1 + len(narrow[side])))
            shown[side].extend(narrow[side])
            ends[side] = end
            if not _overlaps(changes, side, end):
                shown[side].extend(_cut(line, width) for line in lines[end : end + _CONTEXT])
                ends[side] = min(end + _CONTEXT, len(lines))
    return (_dedented(shown[0]), tuple(differ[0])), (_dedented(shown[1]), tuple(differ[1]))


def _code(text: str) -> list[str]:
    """Its lines without those of the title, a comment."""
    lines = text.splitlines()
    return lines[1:] if lines[0].startswith("//") else lines


def _overlaps(changes: list[Any], side: int, end: int) -> bool:
    """Whether the next change begins within the lines that would be shown after this one."""
    return any(end <= change[1 + 2 * side] <= end + _CONTEXT and change[2 + 2 * side] > end for change in changes)


def _narrowed(buggy: list[str], fixed: list[str], width: int) -> tuple[list[str], list[str]]:
    """Changed lines, wide ones cut to what differs."""
    if len(buggy) != len(fixed):
        return [_cut(line, width) for line in buggy], [_cut(line, width) for line in fixed]
    both = [_cut_alike(*lines, width) for lines in zip(buggy, fixed, strict=True)]
    return [left for left, _ in both], [right for _, right in both]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 4].rpartition(' ')[0].rstrip(' [')} ..."


def _cut_alike(buggy: str, fixed: str, width: int) -> tuple[str, str]:
    """Two lines with the same cuts: their beginnings and what differs are left."""
    if max(len(buggy), len(fixed)) <= width:
        return buggy, fixed
    shorter = min(len(buggy), len(fixed))
    same = next((at for at in range(shorter) if buggy[at] != fixed[at]), shorter)
    tail = next((at for at in range(shorter - same) if buggy[-1 - at] != fixed[-1 - at]), shorter - same)
    # The name of the attribute that differs, and no half word before it.
    name = max(buggy.rfind(mark, 0, same) + len(mark) for mark in (", ", "["))
    begin = name if buggy[name : name + 1].isalpha() else buggy.rfind(" ", 0, max(same - _MARGIN, 0) + 1) + 1
    # A line begins with an operation's results and name, up to its attributes.
    head = buggy.find("[") + 1 or buggy.find("(") + 1 or width // 3
    cut: list[str] = []
    for line in (buggy, fixed):
        end = min(len(line) - tail + _MARGIN, len(line))
        prefix = line[:end] if begin <= head else f"{line[:head]} ... {line[begin:end]}"
        cut.append(prefix if end == len(line) else f"{_word_end(prefix)} ...")
    return cut[0], cut[1]


def _word_end(text: str) -> str:
    """Without a last word that is cut."""
    whole, space, _ = text.rstrip().rpartition(" ")
    return whole.rstrip() if space and whole.strip() else text


def _dedented(lines: list[str]) -> str:
    """Without the indentation that all lines share; tabs of kernels go."""
    indents = [len(line) - len(line.lstrip()) for line in lines if line != "..."]
    common = min(indents, default=0)
    return "".join(f"{line if line == '...' else line[common:].rstrip()}\n" for line in lines)


def _kernels(code: str, folder: Path, entry: dict[str, Any]) -> Pair:
    paths = [folder / f"{side}.ptx" for side in ("buggy", "fixed")]
    launch = folder / "launch.json"
    return Pair(
        code, entry["title"], "ptx", *(path.read_text("utf-8") for path in paths),
        files=tuple(_from_root(path) for path in paths), isa=entry.get("isa", "tolerant"),
        launch=_from_root(launch) if launch.exists() else "", review=entry.get("review", False),
        fixed_verdict=entry.get("fixed", "proven"),
    )  # fmt: skip


def _command(pair: Pair) -> str:
    if pair.kind != "ptx":
        return ""
    options = (f" --launch {pair.launch}" if pair.launch else "") + (" --isa strict" if pair.isa == "strict" else "")
    return f"tilewright check {pair.files[0]}{options}"


def _table(path: Path) -> dict[str, dict[str, Any]]:
    return tomllib.loads(path.read_text("utf-8"))


def _from_root(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


_HEAD = """\
# Excerpts for the pages of rules, made from whole pairs by `python -m tests.docs.rule_examples`. Do not edit.
"""


def made() -> str:
    """The file of excerpts."""
    lines = [_HEAD]
    for code, pair in pairs().items():
        example = example_of(pair)
        assert "'''" not in example.buggy + example.fixed
        lines += [
            f"[{code}]",
            f'title = "{example.title}"',
            f'language = "{example.language}"',
            f"buggy = '''\n{example.buggy}'''",
            f"fixed = '''\n{example.fixed}'''",
            f"buggy_lines = {list(example.buggy_lines)}",
            f"fixed_lines = {list(example.fixed_lines)}",
            f"files = {json.dumps(list(example.files))}",
            f'command = "{example.command}"',
            f"review = {str(example.review).lower()}",
            "",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    MADE.write_text(made(), encoding="utf-8")
