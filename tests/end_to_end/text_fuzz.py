"""Random edits of PTX text, line by line, most of them of instructions that the protocol is made of.

An edit knows nothing of what a line means: labels may go, registers may be of other values. Checked by being used in
test_differential_fuzz.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from tests.end_to_end.program_fuzz import other_number

_PROTOCOL = re.compile(
    r"mbarrier|cp\.async|wgmma\.[fcw]|fence|bar\.|bra |setp|selp|xor|mapa|setmaxnreg|ctarank|mad\.lo\.u32|st\.|stmatrix"
)
_NUMBER = re.compile(r"(?<![%\w.$])-?\d+(?![\w.])")
_REGISTER = re.compile(r"%(?:rd|r|p|h|f)\d+")
_WORD_PAIRS = (
    (".release", ".relaxed"), (".acquire", ".relaxed"), (".cluster", ".cta"), (".shared::cluster", ".shared::cta"),
    (".read", ""), (".cta", ".cluster"), ("expect_tx", "complete_tx"), ("@!%", "@%"), ("@%", "@!%"),
)  # fmt: skip


def mutate_text(text: str, random: Random, count: int) -> tuple[str, tuple[str, ...]]:
    """A PTX text with `count` random edits of its instructions' lines, and what they were."""
    lines = text.split("\n")
    done: list[str] = []
    while len(done) < count:
        body = [number for number, line in enumerate(lines) if _is_instruction(line)]
        protocol = [number for number in body if _PROTOCOL.search(lines[number])]
        at = random.choice(protocol if random.random() < 0.7 else body)
        said = f"line {at} {lines[at].strip()}"
        match random.choice(("drop", "repeat", "swap", "move", "number", "register", "word", "guard")):
            case "drop":
                del lines[at]
                done.append(f"drop {said}")
            case "repeat":
                lines.insert(at, lines[at])
                done.append(f"repeat {said}")
            case "swap":
                if at + 1 < len(lines) and lines[at + 1] != lines[at] and lines[at + 1].strip() != "}":
                    lines[at], lines[at + 1] = lines[at + 1], lines[at]
                    done.append(f"swap {said} with {lines[at].strip()}")
            case "move":
                to = random.choice(body if random.random() < 0.3 else [n for n in body if abs(n - at) < 12])
                line = lines.pop(at)
                lines.insert(to, line)
                if to != at:
                    done.append(f"move {said} to {to}, above {lines[to + 1].strip()}")
            case "number":
                done += _replace(lines, at, _NUMBER, lambda old: str(other_number(int(old), random)), random)
            case "register":
                done += _replace(lines, at, _REGISTER, lambda old: _like(text, old, random), random)
            case "word":
                pairs = [pair for pair in _WORD_PAIRS if pair[0] in lines[at]]
                if pairs:
                    old, new = random.choice(pairs)
                    lines[at] = lines[at].replace(old, new, 1)
                    done.append(f"{said}: {old} -> {new or 'nothing'}")
            case _:
                if lines[at].strip().startswith("@"):
                    lines[at] = "\t" + lines[at].strip().split(" ", 1)[1]
                    done.append(f"unguard {said}")
    return "\n".join(lines), tuple(done)


def _is_instruction(line: str) -> bool:
    return line.startswith("\t") and line.rstrip().endswith(";") and not line.strip().startswith(".")


def _replace(
    lines: list[str], at: int, pattern: re.Pattern[str], other: Callable[[str], str], random: Random
) -> list[str]:
    """Replace one match in a line; what was done, or nothing."""
    found = list(pattern.finditer(lines[at]))
    if not found:
        return []
    match = random.choice(found)
    new = other(match[0])
    if new == match[0]:
        return []
    said = f"line {at} {lines[at].strip()}: {match[0]} -> {new}"
    lines[at] = lines[at][: match.start()] + new + lines[at][match.end() :]
    return [said]


def _like(text: str, register: str, random: Random) -> str:
    """Another register of the same kind, one near it as often as not."""
    kind = register.rstrip("0123456789")
    if random.random() < 0.5:
        return f"{kind}{max(0, int(register[len(kind) :]) + random.choice((-2, -1, 1, 2)))}"
    return random.choice(sorted(set(re.findall(re.escape(kind) + r"\d+\b", text))))
