"""What are the pieces of a PTX text that can be taken away one by one, and what goes with them for nothing?

A text is written anew with one statement, label, declaration or brace on a line, without comments, places of the source
and debug sections: `normalised`. `tidied` then takes away what no statement that is left needs: computations of values
that nothing reads, labels that nothing names, empty scopes, declarations and variables without use. Both keep a text
readable that was; neither knows whether a finding survives.

Not handled: preprocessor lines. Checked by: tests/driver/reduce/test_reduce.py.
"""

from __future__ import annotations

import re

from tilewright.base.error import TilewrightError
from tilewright.driver.repair.text import constant_among, places_of, unused
from tilewright.frontends.ptx.ast import Address, Register
from tilewright.frontends.ptx.reader import read

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_IDLE = re.compile(r"^[ \t]*\.(?:loc|file|pragma)\b[^\n]*$", re.MULTILINE)
_LINE_DIRECTIVE = re.compile(r"\.(?:version|target|address_size)\b[^\n]*")
_LABEL = re.compile(r"[A-Za-z_$%][\w$]*\s*:(?!:)")
_WORD = re.compile(r"[%$A-Za-z_][\w$]*")
_RANGE = re.compile(r"(%?[\w$]*[A-Za-z_$])<(\d+)>")
_REGISTER_ADDRESS = re.compile(r"\[\s*(%[\w$]+)\s*(?:\+\s*(-?\d+)\s*)?\]")
_TABLE = (".branchtargets", ".callprototype", ".calltargets")


def normalised(text: str) -> list[str]:
    """The lines of a text with one piece on each. Raises TilewrightError where braces don't match."""
    bare = _IDLE.sub("", _COMMENT.sub(" ", text.replace("\r", "")))
    lines: list[str] = []
    at = 0
    while (at := _past_space(bare, at)) < len(bare):
        directive = _LINE_DIRECTIVE.match(bare, at)
        if directive is not None:
            lines.append(directive.group().strip())
            at = directive.end()
            continue
        ends = [place for place in (bare.find(";", at), bare.find("{", at)) if place >= 0]
        if not ends:
            raise TilewrightError("the text ends within a statement", remedy="give a text that check can read")
        end = min(ends)
        head = " ".join(bare[at:end].split())
        if bare[end] == ";" or "=" in head:
            end = bare.find(";", at)
            lines.append(" ".join(bare[at : end + 1].split()))
            at = end + 1
        elif head.startswith(".section"):
            at = _closing(bare, end) + 1
        else:
            close = _closing(bare, end)
            lines += [head, "{", *_body(bare[end + 1 : close]), "}"]
            at = close + 1
    return lines


def _body(text: str) -> list[str]:
    """The pieces of a kernel's or function's body."""
    lines: list[str] = []
    at = 0
    while (at := _past_space(text, at)) < len(text):
        label = _LABEL.match(text, at)
        if text[at] in "{}":
            lines.append(text[at])
            at += 1
        elif label is not None and not text[_past_space(text, label.end()) :].startswith(_TABLE):
            lines.append("".join(label.group().split()))
            at = label.end()
        else:
            end = text.find(";", at)
            end = len(text) - 1 if end < 0 else end
            lines.append("\t" + " ".join(text[at : end + 1].split()))
            at = end + 1
    return lines


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _closing(text: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    raise TilewrightError("a brace is never closed", remedy="give a text that check can read")


def without_kernels(lines: list[str], kept: str) -> list[str]:
    """Without the kernels of other names than `kept`."""
    found: list[str] = []
    at = 0
    while at < len(lines):
        head = lines[at]
        if ".entry" in head and lines[at + 1 : at + 2] == ["{"]:
            end = _end(lines, at + 1)
            name = re.search(r"\.entry\s+([\w$%]+)", head)
            if name is not None and name.group(1) == kept:
                found += lines[at : end + 1]
            at = end + 1
            continue
        found.append(head)
        at += 1
    return found


def _end(lines: list[str], opening: int) -> int:
    depth = 0
    for at in range(opening, len(lines)):
        depth += (lines[at] == "{") - (lines[at] == "}")
        if depth == 0:
            return at
    return len(lines) - 1


def tidied(lines: list[str]) -> list[str]:
    """Without what nothing needs. A text that can't be read any more is given back as it is."""
    for _ in range(20):
        before = len(lines)
        lines = _without_idle_code(lines)
        lines = _without_empty_scopes(lines)
        lines = _without_unused_names(lines)
        if len(lines) == before:
            break
    return lines


def _without_idle_code(lines: list[str]) -> list[str]:
    try:
        module = read("\n".join(lines), "<reduced>", tolerant=True)
    except TilewrightError:
        return lines
    idle: set[int] = set()
    for kernel in module.kernels:
        places = places_of("\n".join(lines), kernel)
        idle |= {place.line for place in unused(places)}
        last = None
        for place in places:  # what follows an unconditional end and has no label is never reached
            if last is not None and last.item.row in ("ret", "exit", "bra") and last.item.guard is None:
                between = lines[last.line : place.line - 1]
                if not any(line.rstrip().endswith(":") for line in between) and not place.text.startswith("."):
                    idle.add(place.line)
                    continue
            last = place
    return [line for number, line in enumerate(lines, 1) if number not in idle]


def folded(lines: list[str]) -> list[str]:
    """Addresses of shared memory that are constant, written as what they are: `[smem+16]` instead of `[%r7+8]`."""
    text = "\n".join(lines)
    try:
        module = read(text, "<reduced>", tolerant=True)
    except TilewrightError:
        return lines
    found = list(lines)
    for kernel in module.kernels:
        shared = {variable.name for variable in (*kernel.variables, *module.variables) if variable.space == "shared"}
        places = places_of(text, kernel)
        for place in places:
            for match in _REGISTER_ADDRESS.finditer(place.text):
                at = constant_among(places, Address(Register(match.group(1)), int(match.group(2) or 0)))
                if at is not None and at[0] in shared:
                    spelled = f"[{at[0]}+{at[1]}]" if at[1] else f"[{at[0]}]"
                    found[place.line - 1] = found[place.line - 1].replace(match.group(), spelled)
    return found


def _without_empty_scopes(lines: list[str]) -> list[str]:
    """Without braces that hold nothing but declarations, or no declarations and labels."""
    drop: set[int] = set()
    stack: list[int] = []
    for number, line in enumerate(lines):
        if line == "{":
            stack.append(number)
        elif line == "}" and stack:
            opening = stack.pop()
            inside = [each for at, each in enumerate(lines[opening + 1 : number], opening + 1) if at not in drop]
            held = [each for each in inside if not each.lstrip().startswith(".reg")]
            if not stack:
                continue
            if not held:
                drop |= set(range(opening, number + 1))
            elif len(held) == len(inside) and not any(each.endswith(":") or each in "{}" for each in held):
                drop |= {opening, number}
    return [line for number, line in enumerate(lines) if number not in drop]


def _without_unused_names(lines: list[str]) -> list[str]:
    """Labels, registers, variables and tables that no statement names; ranges of registers as short as may be."""
    words: dict[str, int] = {}
    highest: dict[str, int] = {}
    for line in lines:
        if line.lstrip().startswith(".reg"):
            continue
        for word in _WORD.findall(line):
            words[word] = words.get(word, 0) + 1
            number = re.search(r"\d+$", word)
            if number is not None:
                stem = word[: number.start()]
                highest[stem] = max(highest.get(stem, -1), int(number.group()))
    kept: list[str] = []
    for line in lines:
        bare = line.strip()
        if bare.endswith(":") and words.get(bare[:-1].strip(), 0) < 2:
            continue
        if bare.startswith(".reg"):
            shorter = _registers(bare, words, highest)
            if shorter:
                kept.append("\t" + shorter)
            continue
        declared = _declared(bare)
        if declared is not None and words.get(declared, 0) < 2:
            continue
        kept.append(line)
    return kept


def _registers(line: str, words: dict[str, int], highest: dict[str, int]) -> str:
    """A register declaration without the names that have no use; empty if none has."""
    match = re.match(r"(\.reg\s+(?:\.v[24]\s+)?\.\w+)\s+(.*);$", line)
    if match is None:
        return line
    names: list[str] = []
    for name in (each.strip() for each in match.group(2).split(",")):
        span = _RANGE.fullmatch(name)
        if span is None:
            if words.get(name, 0):
                names.append(name)
        elif span.group(1) in highest:
            names.append(f"{span.group(1)}<{min(int(span.group(2)), highest[span.group(1)] + 1)}>")
    return f"{match.group(1)} {', '.join(names)};" if names else ""


def _declared(line: str) -> str | None:
    """The name of a variable or table that a line declares."""
    table = re.match(r"([\w$%]+)\s*:\s*\.(?:branchtargets|callprototype|calltargets)", line)
    if table is not None:
        return table.group(1)
    if not re.match(r"(?:\.(?:extern|visible|weak|common)\s+)*\.(?:shared|global|const|local)\b", line):
        return None
    name = re.search(r"([%$A-Za-z_][\w$]*)\s*(?:\[[^\]]*\]\s*)*(?:=.*)?;$", line)
    return name.group(1) if name is not None else None


def unused_parameters(lines: list[str]) -> list[str]:
    """The kernel's head without the parameters that its body does not name."""
    words = {word for line in lines if ".entry" not in line for word in _WORD.findall(line)}
    found: list[str] = []
    for line in lines:
        match = re.match(r"(.*\.entry\s+[\w$%]+\s*)\((.*)\)(.*)$", line)
        if match is None:
            found.append(line)
            continue
        parameters = [each.strip() for each in match.group(2).split(",") if each.strip()]
        kept = [each for each in parameters if re.sub(r"\[\d*\]$", "", each).split()[-1] in words]
        found.append(f"{match.group(1)}({', '.join(kept)}){match.group(3)}")
    return found
