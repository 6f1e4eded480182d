"""Mutated PTX: the reader returns a module that can be written and read again, or raises TilewrightError."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frontends.ptx_writer import write

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.reader import read

SAMPLES = [path.read_text() for path in sorted((Path(__file__).parents[1] / "data" / "ptx").glob("*.ptx"))]
# The head of each sample and a window of its body keep an example short.
WORDS = re.compile(r"\s+|[\w%$.:]+|.", re.DOTALL)
TOKENS = [WORDS.findall(text) for text in SAMPLES]
SPICE = [
    "{", "}", "[", "]", "(", ")", ";", ",", ":", "@", "!", "|", "+", "-", "<", ">", "=", "_", "/*", "*/", "//", '"',
    "%r1", "%p", ".reg", ".b32", ".shared", "ld", "ret", "0x", "1e999", "0f00", "99999999999999999999", "-1", ".", "$",
    ".global", ".v2", ".alias", ".func", ".callprototype", "generic", "frob.x", ".frob", "v.x", "%r1.b0",
    "é", "\0", "\r", ".loc", ".section", ".branchtargets", ".param", ".align", "call", "::", "%tid.x",
]  # fmt: skip


def _survives(text: str) -> None:
    for tolerant in (False, True):
        try:
            module = read(text, "mutant.ptx", tolerant=tolerant)
        except TilewrightError as error:
            assert error.message
            assert error.span is None or 1 <= error.span.line <= text.count("\n") + 1
            continue
        if not tolerant:
            written = write(module)
            assert write(read(written)) == written
            assert not module.unread


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


@given(st.sampled_from(SAMPLES), st.integers(0, 10**6), st.integers(0, 12), st.text(max_size=6))
def test_mutated_characters(text: str, at: int, length: int, patch: str) -> None:
    at %= len(text)
    _survives(text[:at] + patch + text[at + length :])


@given(st.lists(st.sampled_from(SPICE), max_size=40))
def test_word_salad_in_a_body(words: list[str]) -> None:
    _survives(".version 8.6 .target sm_90a .address_size 64 .entry k() { .reg .b32 %r<4>; " + " ".join(words) + " }")


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    _survives(text)


def test_deep_nesting_costs_no_stack() -> None:
    head = ".version 8.6 .target sm_90a .entry k() "
    _survives(head + "{" * 10_000 + "}" * 10_000)
    for opening in ("(", "-", "~", "!", "1?", "{", "["):
        _survives(f"{head}{{ .reg .b32 r; mov.b32 r, {opening * 5_000}1; }}")
        _survives(f".version 8.6 .target sm_90a .global .u32 a[4] = {opening * 5_000}1;")
    _survives(head + "{ call " + "(a, " * 5_000 + "; }")
    _survives(head + "{ bra X; " * 5_000 + "X: }" + "}" * 4_999)


def _hostile() -> dict[str, str]:
    """Texts whose reading would take the square of their length if some step looked at everything again."""
    head = ".version 8.6 .target sm_90a .address_size 64 "
    body = head + ".entry k() "
    return {
        "open scopes": body + "{ bra X; " * 20_000 + "X: " + "}" * 20_000,
        "renamed labels": body + "{ A: bra A; } " * 20_000,
        "many functions": head + "".join(f".func f{n}() {{ }} " for n in range(20_000)),
        "many aliases": head + ".func f() { } " + "".join(f".func a{n}(); .alias a{n}, f; " for n in range(10_000)),
        "one long vector": body + "{ .reg .b32 r; mov.b32 r, {" + "r, " * 100_000 + "r}; }",
        "labels in a vector": body + "{ A: } { " * 1 + "".join(f"L{n}: " for n in range(20_000)) + "mov.b32 r, {"
        + ", ".join(f"L{n}" for n in range(20_000)) + "}; }",
        "modifiers": body + "{ ld" + ".a" * 100_000 + " x; }",
        "a long name": body + "{ bra " + "a" * 300_000 + "; " + "a" * 299_999 + ": }",
        "a long table": body + "{ A: t: .branchtargets " + "A, " * 100_000 + "A; }",
        "a long comment": body + "/* " + "/* " * 200_000,
        "a long opcode": body + "{ " + "a" * 500_000 + " x; }",
    }  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", sorted(_hostile()))
def test_hostile_texts_take_no_longer_than_others(name: str) -> None:
    start = time.process_time()
    _survives(_hostile()[name])
    assert time.process_time() - start < 10.0
