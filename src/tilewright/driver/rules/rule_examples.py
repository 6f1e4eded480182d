"""Which code breaks a rule, and how is it fixed? A pair of excerpts for each rule that has one.

`rule_examples.toml` has them, made from whole pairs: kernels in docs/bugs and docs/rules/examples, edits of programs of
the `ac` dialect, and options of `tilewright tensormap`. Every buggy one is refuted, or reported for review, with the
rule's code, and no fixed one is.
Not handled: rules that only a fault of this compiler breaks, and those of schedules; they have an example in words.
Checked by: tests/docs/test_rule_examples.py.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class RuleExample:
    """A pair of excerpts. Lines `...` stand for lines left out, and ` ... ` in a line for a part of it."""

    title: str
    """What goes wrong; empty where the rule's own example says it."""
    language: str
    """Of the excerpts: "ptx", "mlir" or "sh"."""
    buggy: str
    fixed: str
    buggy_lines: tuple[int, ...]
    """The lines of `buggy` that differ from the fixed code, from 1 on."""
    fixed_lines: tuple[int, ...]
    files: tuple[str, ...]
    """The files of the pair, from the repository's root: the buggy one, the fixed one; or one that has both."""
    command: str
    """What checks the buggy one; empty where no command reads it."""
    review: bool
    """Whether the finding is for review, and refutes nothing."""


@cache
def rule_examples() -> dict[str, RuleExample]:
    """The examples by code."""
    text = files("tilewright.driver.rules").joinpath("rule_examples.toml").read_text(encoding="utf-8")
    return {
        code: RuleExample(
            entry["title"], entry["language"], entry["buggy"], entry["fixed"], tuple(entry["buggy_lines"]),
            tuple(entry["fixed_lines"]), tuple(entry["files"]), entry["command"], entry["review"],
        )
        for code, entry in tomllib.loads(text).items()
    }  # fmt: skip
