"""Does a program that is to be written upstream come without what has no form there, and only without that?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.upstream import writable
from tilewright.ir.cascade import CascadeDecisions
from tilewright.lower.mlir.ac_to_nvgpu import lower_to_nvgpu
from tilewright.synth.tile.wanted import Wanted

STREAMED = {"M": 4096, "N": 2112, "K": 7168}
SPLIT = {"M": 128, "N": 4096, "K": 7168}
PLAIN = {"M": 64, "N": 64, "K": 64}


@pytest.mark.parametrize(("dims", "words"), [(STREAMED, "stream-K"), (SPLIT, "split-K"), (PLAIN, "")])
def test_what_has_no_form_is_left_out(dims: dict[str, int], words: str) -> None:
    strides, given = {"b": (1, dims["K"])}, Wanted()
    wanted, left_out = writable(matmul_kernel, given, target="sm_90a", dims=dims, strides=strides)
    if words:
        assert any(words in each for each in left_out)
    else:
        assert not left_out and replace(wanted, cut=None) == given
    compiled = compile_kernel(matmul_kernel, dims=dims, strides=strides, wanted=wanted, assembled=False, rerun=False)
    assert "gpu.func @matmul_kernel" in lower_to_nvgpu(list(compiled.modules.values()))
    if not words:
        return
    chosen = compile_kernel(matmul_kernel, dims=dims, strides=strides, wanted=given, assembled=False, rerun=False)
    decisions = chosen.decisions
    assert isinstance(decisions, CascadeDecisions)
    assert decisions.stream is not None or decisions.split > 1
    with pytest.raises(TilewrightError):
        lower_to_nvgpu(list(chosen.modules.values()))


def test_pairs_of_ctas_are_written() -> None:
    dims = {"M": 4096, "N": 4096, "K": 4096}
    wanted, left_out = writable(matmul_kernel, Wanted(), target="sm_100a", dims=dims)
    assert wanted.cluster is None and not left_out
    compiled = compile_kernel(
        matmul_kernel, target="sm_100a", dims=dims, wanted=wanted, assembled=False, rerun=False
    )  # fmt: skip
    assert isinstance(compiled.decisions, CascadeDecisions) and compiled.decisions.pair
    assert "#nvvm.cta_group<cta_2>" in lower_to_nvgpu(list(compiled.modules.values()), "sm_100a")


@pytest.mark.parametrize(("dims", "wish"), [(STREAMED, Wanted(stream_k=True)), (SPLIT, Wanted(split=2))])
def test_a_wish_for_it_is_refused(dims: dict[str, int], wish: Wanted) -> None:
    strides = {"b": (1, dims["K"])}
    with pytest.raises(TilewrightError, match="no form in the upstream dialects"):
        writable(matmul_kernel, wish, target="sm_90a", dims=dims, strides=strides)
