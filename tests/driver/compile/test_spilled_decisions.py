"""A text whose counters wait in shared memory is proven, unless a number of an array decides what it does besides."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.driver.compile.spilling_programs import residual

import tilewright.driver.reproof.reproof as reproof
from tilewright.base.verdict import Proven, Unknown, Verdict
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.ptx.reader import read
from tilewright.synth.tile.wanted import Wanted

_WANTED = Wanted(tile=(64, 16), depth=64, stages=2, spill_slots=2, stream_k=False)
_REGISTERS = ["\t.reg .pred %odd;", "\t.reg .b32 %number;", "\t.reg .b64 %elsewhere;"]


@pytest.fixture(scope="module")
def small() -> tuple[str, tuple[Any, ...]]:
    """The text of the small instance, and what it is judged with."""
    found: list[tuple[str, tuple[Any, ...]]] = []
    lower, replay_plan = reproof.lower_to_ptx, reproof.replay_plan
    texts: list[str] = []

    def noted_text(modules: Any, target: str) -> str:
        texts.append(lower(modules, target))
        return texts[-1]

    def noted(module: Any, *arguments: Any, slow: bool) -> Verdict:
        found.append((texts[-1], arguments))
        return replay_plan(module, *arguments, slow=slow)

    # Odd N: the result is stored by threads.
    made = compile_kernel(residual, dims={"M": 512, "N": 2049, "K": 128}, wanted=_WANTED, rerun=False, assembled=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reproof, "lower_to_ptx", noted_text)
        patched.setattr(reproof, "replay_plan", noted)
        assert isinstance(reproof.reprove(made.tile, made.ptx, "sm_90a", "residual"), Proven)
    text, arguments = found[-1]
    lines = text.split("\n")
    last = max(at for at, line in enumerate(lines) if line.startswith("\t.reg"))
    return "\n".join([*lines[: last + 1], *_REGISTERS, *lines[last + 1 :]]), arguments


def judged(small: tuple[str, tuple[Any, ...]], lines: list[str]) -> Verdict:
    return reproof.replay_plan(read("\n".join(lines), "k.ptx"), *small[1])


def last(lines: list[str], pattern: str) -> tuple[int, re.Match[str]]:
    return [(at, found) for at, line in enumerate(lines) if (found := re.match(pattern, line)) is not None][-1]


def test_what_waits_in_memory_is_proven(small: tuple[str, tuple[Any, ...]]) -> None:
    assert "ld.shared.b32" in small[0]
    assert isinstance(judged(small, small[0].split("\n")), Proven)


def sign_of_a_number(lines: list[str]) -> str:
    """What a run with small positive numbers finds zero."""
    _, number = last(lines, r"\t@%p\d+ ld\.global\.b16 (%h\d+)")
    return f"cvt.u32.u16 %number, {number[1]}; shr.u32 %number, %number, 15;"


def test_a_number_that_guards_a_store(small: tuple[str, tuple[Any, ...]]) -> None:
    lines = small[0].split("\n")
    at, store = last(lines, r"\t@(%p\d+) (st\.global\.b16.*)")
    lines[at : at + 1] = [
        f"\t{sign_of_a_number(lines)} setp.eq.and.u32 %odd, %number, 0, {store[1]};",
        f"\t@%odd {store[2]}",
    ]
    assert isinstance(judged(small, lines), Unknown)


def test_a_number_that_skips_a_store(small: tuple[str, tuple[Any, ...]]) -> None:
    lines = small[0].split("\n")
    at, _ = last(lines, r"\t@(%p\d+) st\.global\.b16")
    skip = f"\t{sign_of_a_number(lines)} setp.ne.u32 %odd, %number, 0;"
    lines[at : at + 1] = [skip, "\t@%odd bra unstored;", lines[at], "unstored:"]
    assert isinstance(judged(small, lines), Unknown)


def test_a_number_that_says_what_is_loaded(small: tuple[str, tuple[Any, ...]]) -> None:
    lines = small[0].split("\n")
    number = sign_of_a_number(lines[: last(lines, r"\t@%p\d+ ld\.global\.b16")[0]])
    at, load = last(lines, r"\t(@%p\d+ ld\.global\.b16 %h\d+), \[(%rd\d+)")
    moved = f"\t{number} mul.wide.u32 %elsewhere, %number, 2; add.s64 %elsewhere, %elsewhere, {load[2]};"
    lines[at : at + 1] = [moved, lines[at].replace(load[2], "%elsewhere")]
    assert isinstance(judged(small, lines), Unknown)


def test_a_number_that_makes_an_endless_loop(small: tuple[str, tuple[Any, ...]]) -> None:
    lines = small[0].split("\n")
    at, _ = last(lines, r"\t@(%p\d+) st\.global\.b16")
    lines[at:at] = [f"\t{sign_of_a_number(lines)}", "stay:", "\tsetp.ne.u32 %odd, %number, 0;", "\t@%odd bra stay;"]
    assert isinstance(judged(small, lines), Unknown)
