"""Mutated PTX: the reader returns a module that can be written and read again, or raises TilewrightError."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.ptx.writer import write

SAMPLES = [path.read_text() for path in sorted((Path(__file__).parents[1] / "data" / "ptx").glob("*.ptx"))]
# The head of each sample and a window of its body keep an example short.
WORDS = re.compile(r"\s+|[\w%$.:]+|.", re.DOTALL)
TOKENS = [WORDS.findall(text) for text in SAMPLES]
SPICE = [
    "{", "}", "[", "]", "(", ")", ";", ",", ":", "@", "!", "|", "+", "-", "<", ">", "=", "_", "/*", "*/", "//", '"',
    "%r1", "%p", ".reg", ".b32", ".shared", "ld", "ret", "0x", "1e999", "0f00", "99999999999999999999", "-1", ".", "$",
    "é", "\0", "\r", ".loc", ".section", ".branchtargets", ".param", ".align", "call", "::", "%tid.x",
]  # fmt: skip


def _survives(text: str) -> None:
    try:
        module = read(text, "mutant.ptx")
    except TilewrightError as error:
        assert error.message
        assert error.span is None or 1 <= error.span.line <= text.count("\n") + 1
        return
    written = write(module)
    assert write(read(written)) == written


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_mutated_tokens(data: st.DataObject) -> None:
    tokens = list(data.draw(st.sampled_from(TOKENS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(tokens) - 1))
        match data.draw(st.sampled_from(["delete", "insert", "replace", "swap", "copy"])):
            case "delete":
                del tokens[at]
            case "insert":
                tokens.insert(at, data.draw(st.sampled_from(SPICE)))
            case "replace":
                tokens[at] = data.draw(st.sampled_from(SPICE))
            case "swap":
                other = data.draw(st.integers(0, len(tokens) - 1))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case _:
                other = data.draw(st.integers(0, len(tokens) - 1))
                tokens.insert(at, tokens[other])
    _survives("".join(tokens))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SAMPLES), st.integers(0, 10**6), st.integers(0, 12), st.text(max_size=6))
def test_mutated_characters(text: str, at: int, length: int, patch: str) -> None:
    at %= len(text)
    _survives(text[:at] + patch + text[at + length :])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(SPICE), max_size=40))
def test_word_salad_in_a_body(words: list[str]) -> None:
    _survives(".version 8.6 .target sm_90a .address_size 64 .entry k() { .reg .b32 %r<4>; " + " ".join(words) + " }")


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    _survives(text)


def test_deep_nesting_costs_no_stack() -> None:
    head = ".version 8.6 .target sm_90a .entry k() "
    _survives(head + "{" * 50_000 + "}" * 50_000)
    for opening in ("(", "-", "~", "!", "1?", "{", "["):
        _survives(f"{head}{{ .reg .b32 r; mov.b32 r, {opening * 20_000}1; }}")
        _survives(f".version 8.6 .target sm_90a .global .u32 a[4] = {opening * 20_000}1;")
