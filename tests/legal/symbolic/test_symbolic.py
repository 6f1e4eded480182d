"""Symbolic answers against the rules themselves, on every size of small ranges."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.integer_expression import IntegerExpression
from tilewright.legal.symbolic.symbolic import prove
from tilewright.legal.symbolic.symbolic_map import Dim, Symbolic, SymbolicMap
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.targets import target

SM_90A = target("sm_90a")
SM_100A = target("sm_100a")


def broken(map: TensorMap, name: str = "sm_90a") -> set[tuple[str, int | None]]:
    return {(rule.code, rule.index) for rule in tiled_rules(target(name)) if rule.stated(map.fields) is not True}


def members(size: Dim) -> list[int]:
    assert size.low is not None and size.high is not None
    return [value for value in range(size.low, size.high + 1) if value in size.fact]


def check_against_enumeration(map: SymbolicMap, name: str = "sm_90a") -> str:
    """The answer, once it is found right on every size. Sizes that are not as declared are refused by the guard."""
    found = prove(map, name)
    names = [size.name for size in map.sizes]
    for values in product(*(members(size) for size in map.sizes)):
        sizes = dict(zip(names, values, strict=True))
        concrete = broken(map.at(sizes), name)
        assert (found.answer == "illegal") <= bool(concrete)
        if found.guard is not None:
            # exactly: the guard is neither too weak nor needlessly strong
            assert found.guard.holds(sizes) == (not concrete), (sizes, found.guard.text)
        if found.answer == "legal":
            assert not concrete
    return found.answer


small = st.integers(0, 9)


@st.composite
def dims(draw: st.DrawFn, name: str) -> Dim:
    low = draw(st.sampled_from((0, 1, 3, 8, 250)))
    multiple = draw(st.sampled_from((1, 1, 2, 4, 8, 16)))
    return Dim(name, low, low + multiple + draw(st.integers(0, 20)), multiple)


@st.composite
def maps(draw: st.DrawFn) -> SymbolicMap:
    n, m = draw(dims("N")), draw(dims("M"))
    dtype = draw(st.sampled_from(("bf16", "u8", "f32", "f64")))
    element_bytes = {"bf16": 2, "u8": 1, "f32": 4, "f64": 8}[dtype]
    rank = draw(st.integers(1, 3))
    rows: list[Symbolic] = [n * element_bytes, n * element_bytes + 8, m * 16, n * m * element_bytes, 32, n // 4 * 16]
    extents: list[Symbolic] = [n, m, 64, n + m, n * m]
    inner: list[Symbolic] = [n, m, 16 // element_bytes, 64 // element_bytes, 128 // element_bytes]
    outer: list[Symbolic] = [1, 8, 256, m, n * 2]
    return SymbolicMap(
        dtype,
        tuple(draw(st.sampled_from(extents)) for _ in range(rank)),
        tuple(draw(st.sampled_from(rows)) for _ in range(rank - 1)),
        (draw(st.sampled_from(inner)), *(draw(st.sampled_from(outer)) for _ in range(rank - 1))),
        element_strides=(1, *(draw(st.sampled_from((1, 2, m))) for _ in range(rank - 1))),
        swizzle=draw(st.sampled_from(("none", "32B", "64B", "128B"))),
        interleave=draw(st.sampled_from(("none", "none", "16B", "32B"))),
        address=draw(st.sampled_from((0, 16, n * 8, 8))),
        sizes=(n, m),
    )


@given(maps())
def test_the_guard_is_legality_itself(map: SymbolicMap) -> None:
    check_against_enumeration(map)


@settings(max_examples=40, deadline=None)
@given(maps())
def test_on_the_newer_target_too(map: SymbolicMap) -> None:
    check_against_enumeration(map, "sm_100a")


def test_a_row_major_matrix_of_bf16() -> None:
    found = prove(SymbolicMap("bf16", (Dim("N"), Dim("M")), ("2*N",), (64, 128), swizzle="128B"), "sm_90a")
    assert found.answer == "maybe" and found.guard is not None
    assert found.guard.text == "N >= 1 and N <= 4294967296 and M >= 1 and M <= 4294967296 and N % 8 == 0"
    assert {finding.code for finding in found.undecided} == {"TM011", "TM012", "TM013"}
    assert found.guard.holds({"N": 4096, "M": 1}) and not found.guard.holds({"N": 4095, "M": 1})


def test_declared_sizes_make_it_legal_or_illegal() -> None:
    n, m = Dim("N", 8, 65536, multiple_of=8), Dim("M", 1, 65536)
    legal = prove(SymbolicMap("bf16", (n, m), (2 * n,), (64, 128), swizzle="128B"), "sm_90a")
    assert (legal.answer, legal.undecided) == ("legal", ()) and legal.guard is not None and legal.guard.text == "True"
    odd = prove(SymbolicMap("bf16", (n, m), (2 * n + 2,), (64, 128), swizzle="128B"), "sm_90a")
    assert odd.answer == "illegal" and odd.guard is None
    (finding,) = odd.violated
    assert (finding.code, finding.index, finding.value, finding.limit) == ("TM012", 0, "2*N + 2", 16)
    assert "N % 8 == 7" in finding.message and "% 8 == 0" in finding.message


def test_given_conditions_are_facts() -> None:
    map = SymbolicMap(
        "bf16", ("N", "M"), ("2*N",), (64, 128), sizes=(Dim("N"), Dim("M")), where="N%8==0, 1<=M<=65536, 8<=N<=65536"
    )
    assert prove(map, "sm_90a").answer == "legal"
    products = SymbolicMap(
        "bf16", ("K", "N", "B"), ("2*K", "2*K*N"), (64, 8, 1),
        sizes=(Dim("K", 8, 64, 8), Dim("N", 1, 2**40), Dim("B", 1, 64)), where="K*N <= 2**38, N <= 2**31",
    )  # fmt: skip
    assert prove(products, "sm_90a").answer == "legal"


def test_conditions_that_contradict_each_other_are_illegal() -> None:
    n = Dim("N", 1, 1000)
    map = SymbolicMap("bf16", (64, 64), (2 * n,), (n, 1), swizzle="32B", address=n * 8 + 8)
    found = prove(map, "sm_90a")
    assert found.answer == "illegal" and found.guard is None
    assert {finding.code for finding in found.violated} >= {"TM012", "TM009"}
    check_against_enumeration(map)


def test_conditions_of_products_stay_exact() -> None:
    n, m = Dim("N", 1, 20), Dim("M", 1, 12)
    map = SymbolicMap("bf16", (n, m, 4), (2 * n * m, 16), (8, 1, 1))
    assert check_against_enumeration(map) == "maybe"
    found = prove(map, "sm_90a")
    assert found.guard is not None and found.guard.text == "(M*N) % 8 == 0"
    even = SymbolicMap("bf16", (n, Dim("M", 8, 40, 16), 4), ("2*N*M", 16), (8, 1, 1))
    assert prove(even, "sm_90a").answer == "legal"


def test_what_cannot_be_is_an_error() -> None:
    n = Dim("N", 1, 7)
    with pytest.raises(TilewrightError, match="no sizes satisfy"):
        prove(SymbolicMap("bf16", (n,), (), (8,), where="N % 8 == 0"), "sm_90a")


def as_expression_of(value: Symbolic) -> IntegerExpression:
    assert isinstance(value, IntegerExpression)
    return value


def test_packed_elements_are_read_too() -> None:
    n = Dim("N", 0, 600)
    map = SymbolicMap("u4x16_align16", (n, 4), (n // 2,), (128, 1), sizes=(n,))
    assert check_against_enumeration(map, "sm_100a") == "maybe"
    found = prove(map, "sm_100a")
    assert found.guard is not None and found.guard.holds({"N": 256}) and not found.guard.holds({"N": 192})
