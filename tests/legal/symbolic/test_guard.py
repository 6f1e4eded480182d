"""Guards: what they answer, and that their C text, compiled, answers the same."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.condition import at_least_zero, either, is_zero
from tilewright.layout.numbers.condition_parser import parse_where
from tilewright.layout.numbers.integer_expression import variable
from tilewright.layout.numbers.integer_fact import IntegerFact
from tilewright.legal.symbolic.guard import Guard

M, N = variable("M"), variable("N")


def test_declared_ranges_are_part_of_the_guard() -> None:
    guard = Guard((("N", IntegerFact(1, 100, 4)),), parse_where("N != 8"), (is_zero(N % 8),))
    assert [size for size in range(-8, 120) if guard.holds({"N": size})] == list(range(16, 97, 8))
    with pytest.raises(TilewrightError, match="needs the size N"):
        guard.holds({"M": 8})


def test_text_of_nothing_that_remains() -> None:
    guard = Guard((), True, ())
    assert (guard.text, guard.c_text, str(guard), guard.holds({})) == ("True", "1", "True", True)


def compiled(expression: str, folder: Path) -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler here")
    source, library = folder / "guard.c", folder / "guard.so"
    source.write_text(f"int guard(long long M, long long N) {{ return {expression}; }}\n")
    subprocess.run([compiler, "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(str(library))


def test_the_c_text_answers_as_python(tmp_path: Path) -> None:
    guard = Guard(
        (("M", IntegerFact(0)), ("N", IntegerFact(0))),
        True,
        (
            is_zero(N % 8),
            is_zero((M * N + 4) % 16 - 4),
            at_least_zero(2**40 - 1 - 2 * M * N),
            either((at_least_zero(M - 3), is_zero(N // 16 - 2))),
            at_least_zero(M - 2 * N + 2**62),
        ),
    )
    library = compiled(guard.c_text, tmp_path)
    call = library.guard
    call.argtypes = (ctypes.c_longlong, ctypes.c_longlong)
    sizes = [0, 1, 2, 3, 4, 7, 8, 16, 32, 40, 2**20, 2**39, 2**40, 2**62, 2**63 - 8, 2**63 - 1]
    for m in sizes:
        for n in sizes:
            assert bool(call(m, n)) == guard.holds({"M": m, "N": n}), (m, n, guard.c_text)


def test_a_product_that_may_overflow_is_wide_and_a_bounded_one_is_not() -> None:
    wide = Guard((("M", IntegerFact(0)), ("N", IntegerFact(0))), True, (at_least_zero(2**40 - M * N),))
    assert "__int128" in wide.c_text
    bounded = Guard(wide.declared, True, (at_least_zero(2**30 - M), at_least_zero(2**30 - N), *wide.conditions))
    assert "__int128" not in bounded.c_text


def test_what_c_would_answer_otherwise_is_an_error() -> None:
    unbounded = (("M", IntegerFact()), ("N", IntegerFact()))
    for condition, words in (
        (is_zero(N % 8), "negative operand"),
        (is_zero(N // 8 - M), "negative operand"),
        (at_least_zero(2**40 - M * N * N), "overflow"),
        (at_least_zero(M * N + 2**64), "no integer"),
    ):
        with pytest.raises(TilewrightError, match=words):
            assert Guard(unbounded, True, (condition,)).c_text
