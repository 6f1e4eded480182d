# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Consumers that issue in order: the text has one turn a slot and leaves no arrival over; values against NumPy."""

import numpy as np
import pytest
from lowered_programs import Lowered, instructions, lower, random_inputs, reference, run

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def in_two_levels(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    c[i, j] = acc


ELEMENTS = {"a": Element.F8E4M3, "b": Element.F8E4M3, "c": Element.BF16}


def ordered(tile: tuple[int, int], dims: tuple[int, int, int] = (256, 256, 640), **wanted) -> Lowered:
    return lower(in_two_levels, dict(zip("MNK", dims, strict=True)), ELEMENTS | {"c": Element.F32}, None,
                 Wanted(tile=tile, ordered=True, **wanted))  # fmt: skip


@pytest.mark.parametrize(("tile", "consumers"), [((128, 128), 2), ((192, 128), 3)])
def test_values_and_turns(tile, consumers):
    lowered = ordered(tile)
    assert lowered.decisions.ordered and lowered.decisions.consumers == consumers
    arrays = random_inputs(lowered)
    expected, got = reference(lowered, arrays)["c"], run(lowered, arrays)["c"]
    assert np.abs(got - expected).max() <= 2e-6 * np.abs(expected).max()
    rows = [item.row for item in instructions(lowered.parsed)]
    issues = [number for number, row in enumerate(rows) if row == "wgmma.commit_group"]
    assert issues and all(rows[number + 1] == "bar.arrive" for number in issues)
    assert all(rows[number - 1] == "bar.sync" for number, row in enumerate(rows) if row == "wgmma.fence")
    # The first turn is given before, and the last one taken after.
    assert rows.count("bar.arrive") == len(issues) + 1


def test_the_large_kernel_is_proved_as_text():
    dims, dtype = {"M": 4096, "N": 4096, "K": 1024}, {name: element.value for name, element in ELEMENTS.items()}
    done = compile_kernel(in_two_levels, dims=dims, dtype=dtype, wanted=Wanted(ordered=True), assembled=False)
    assert done.decisions.ordered and done.text_proof is not None


@pytest.mark.parametrize("wanted", [{"accumulation": "fast"}, {"tile": (64, 64)}])
def test_what_has_no_order_is_refused(wanted):
    with pytest.raises(TilewrightError, match="order"):
        dtype = {"a": "f8e4m3", "b": "f8e4m3", "c": "bf16"}
        dims = {"M": 512, "N": 512, "K": 512}
        compile_kernel(in_two_levels, dims=dims, dtype=dtype, wanted=Wanted(ordered=True, **wanted), assembled=False)
