# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Parameters that must have a tensor map of their own: proved for all promised sizes, else an error at their line."""

from typing import Any

import pytest

import tilewright as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.ready import compile_for


def declared(**promises: Any) -> tw.Kernel:
    @tw.kernel(**promises)
    def product(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = acc

    return product


def compiled(kernel: tw.Kernel, m: int = 128, n: int = 256, k: int = 64, **more: Any) -> None:
    compile_kernel(kernel, dims={"M": m, "N": n, "K": k}, rerun=False, assembled=False, **more)


def refused(kernel: tw.Kernel, line: str, words: str, **sizes: Any) -> str:
    with pytest.raises(TilewrightError) as caught:
        compiled(kernel, **sizes)
    span = caught.value.span
    assert span is not None and span.file == __file__
    with open(__file__, encoding="utf-8") as source:
        assert line in source.read().splitlines()[span.line - 1]
    assert words in str(caught.value), str(caught.value)
    return str(caught.value)


def test_what_suffices_for_all_promised_sizes_is_accepted() -> None:
    compiled(declared(by_map=("a", "b", "c"), where="K % 8 == 0, N % 8 == 0"))
    compiled(declared(by_map="a", where="K % 16 == 0, M <= 4096"))
    compiled(declared(by_map=("a", "b", "c")))


def test_what_this_size_allows_and_another_does_not_is_refused() -> None:
    message = refused(declared(by_map=("a",), where="K % 4 == 0"), "tw.dot(a[i, k]", "needs K % 8 == 0 in every call")
    assert "where='K % 8 == 0'" in message
    refused(declared(by_map=("b",), where="K % 8 == 0, N >= 8"), "tw.dot(a[i, k]", "a tensor map of b needs N % 8 == 0")
    refused(declared(by_map=("c",), where="N >= 8"), "c[i, j] = acc", "a tensor map of c needs N % 8 == 0")


def test_the_same_of_walks_into_tensor_memory() -> None:
    """Operands come by maps of their own; results leave by plain stores."""
    more = {"target": "sm_100a"}
    compiled(declared(by_map=("a", "b"), where="K % 8 == 0, N % 8 == 0"), **more)
    compiled(declared(by_map="a"), **more)
    refused(declared(by_map=("a",), where="K % 4 == 0"), "tw.dot(a[i, k]", "needs K % 8 == 0 in every call", **more)
    refused(declared(by_map=("a",)), "tw.dot(a[i, k]", "no tensor map brings a", k=63, **more)
    refused(declared(by_map=("c",)), "c[i, j] = acc", "c has no tensor map of its own", **more)


def test_what_this_size_does_not_allow_is_refused_with_the_reason() -> None:
    refused(declared(by_map=("a",)), "tw.dot(a[i, k]", "a has no tensor map of its own", k=63)
    refused(declared(by_map=("c",)), "c[i, j] = acc", "c has no tensor map of its own", n=255)


def test_an_array_that_may_begin_anywhere_has_none() -> None:
    refused(declared(by_map=("a",), align={"a": 2}), "tw.dot(a[i, k]", "a has no tensor map of its own")


def test_strides_that_were_given_are_kept_in_every_call() -> None:
    compiled(declared(by_map=("a",), where="K <= 64"), strides={"a": (72, 1)})
    refused(declared(by_map=("b",), where="K <= 64"), "tw.dot(a[i, k]", "K % 8 == 0", strides={"b": (1, 64)})


def test_a_single_row_promises_nothing_of_its_stride() -> None:
    refused(declared(by_map=("a",), where="M <= 64"), "tw.dot(a[i, k]", "K % 8 == 0", m=1)


def test_a_program_without_product_has_no_tensor_maps() -> None:
    @tw.kernel(by_map=("x",))
    def double(x: tw.Tensor["N"], y: tw.Tensor["N"]):
        i = tw.grid("N")
        y[i] = x[i] * 2.0

    with pytest.raises(TilewrightError, match="x has no tensor map of its own: no dot"):
        compile_kernel(double, dims={"N": 64}, rerun=False, assembled=False)


def test_an_unknown_parameter_is_refused_where_it_is_named() -> None:
    with pytest.raises(TilewrightError, match="by_map names no parameter d"):
        declared(by_map=("d",))


def test_a_cached_program_does_not_hide_the_demand(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    dims = {"M": 64, "N": 64, "K": 63}
    compile_for(declared(), dims)
    with pytest.raises(TilewrightError, match="no tensor map of its own"):
        compile_for(declared(by_map=("a",)), dims)
