"""What a tuner times: the compiler's choice first, kernels that differ, none that is refused, and few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile import kernels, kernels_scaled
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import to_json
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.alternatives import alternatives
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target
from tilewright.tune.candidates import MOST, candidates

HOPPER = target("sm_90a")
MATMUL = kernels.product_kernel("none", biased=False, added=False)
SCALED = kernels_scaled.scaled_kernel("none", False, False, (False, False))


def traced(kernel: Kernel, m: int, n: int, k: int, dtype: Element = Element.BF16, **more: int) -> Any:
    elements = {each.name: each.element or (Element.BF16 if each.name == "c" else dtype) for each in kernel.parameters}
    strides = {} if "B" in kernel.axes else {"b": (1, k)}
    return trace(kernel, {"M": m, "N": n, "K": k, **more}, elements, strides)


def walks(source: ModuleOp) -> Callable[[Wanted], ModuleOp]:
    """The form of a program that each request gives it."""
    return lambda request: walked(source, HOPPER, request)


@pytest.mark.sample(3)
@pytest.mark.parametrize("m, n, k", [(1, 4096, 4096), (37, 6144, 4096), (300, 2048, 1536), (900, 9216, 2304),
                                     (128, 128, 16384), (8192, 8192, 8192)])  # fmt: skip
@pytest.mark.parametrize("dtype", [Element.BF16, Element.F8E4M3])
@pytest.mark.parametrize("accumulation", [None, "fast"])
def test_candidates_differ_and_are_decided_as_asked(m: int, n: int, k: int, dtype: Element, accumulation: Any) -> None:
    kernel = SCALED if dtype is Element.F8E4M3 else MATMUL
    given = Wanted(accumulation=accumulation if dtype is Element.F8E4M3 else None)
    form = walks(traced(kernel, m, n, k, dtype))
    module = form(given)
    before = str(module)
    found = candidates(module, HOPPER, given, form)
    assert found[0] == given and 2 <= len(found) <= 1 + MOST
    assert str(module) == before, "the program is not decided"
    decided = [decide(the_program(form(each).clone()), HOPPER, each) for each in found]
    kept = [{name: value for name, value in to_json(each).items() if name != "reasons"} for each in decided]
    assert all(kept.count(each) == 1 for each in kept)
    for request, each in zip(found[1:], decided[1:], strict=True):
        assert isinstance(each, CascadeDecisions)
        assert (each.tile_rows, each.tile_columns) == request.tile and each.consumers == request.consumers
        assert each.split == request.split and each.teams == (request.teams or 1)
        assert bool(each.turns) == request.turns and (each.row == "N") == request.swapped
        assert request.accumulation == given.accumulation


def test_the_choice_is_among_its_models_alternatives() -> None:
    module = walked(traced(MATMUL, 4096, 4096, 4096), HOPPER)
    chosen = decide(the_program(module.clone()), HOPPER)
    assert isinstance(chosen, CascadeDecisions)
    tiles = {(each.tile, each.turns) for each in alternatives(the_program(module), HOPPER, Wanted())}
    assert ((chosen.tile_rows, chosen.tile_columns), bool(chosen.turns)) in tiles


def test_at_most_two_tiles_differ_in_columns_alone() -> None:
    found = list(alternatives(the_program(walked(traced(MATMUL, 512, 8192, 4096), HOPPER)), HOPPER, Wanted()))
    kinds = [(each.tile[0], each.consumers, each.swapped, each.split, each.teams, each.resident, each.turns,
              each.stream_k, each.cluster) for each in found if each.tile is not None]  # fmt: skip
    assert len(found) > 8 and max(map(kinds.count, kinds)) == 2


def test_batches_have_candidates_and_fixed_tiles_few() -> None:
    form = walks(traced(kernels.batched_kernel("none"), 512, 512, 512, B=8))
    assert len(candidates(form(Wanted()), HOPPER, Wanted(), form)) > 1
    fixed, form = Wanted(tile=(64, 7)), walks(traced(MATMUL, 512, 512, 512))
    with pytest.raises(TilewrightError):
        candidates(form(fixed), HOPPER, fixed, form)


@pytest.mark.parametrize("m, n, k, tile, cluster", [(837, 1024, 4096, (64, 120), (4, 1)),
                                                    (68, 18176, 4544, (128, 160), (1, 4))])  # fmt: skip
def test_tiles_whose_ctas_share_loads_are_among_them(
    m: int, n: int, k: int, tile: tuple[int, int], cluster: tuple[int, int]
) -> None:
    """Of two products that were slower than a library whose kernels share loads. Of the second 114 tiles lie along the
    columns, which is no multiple of 4."""
    form = walks(traced(MATMUL, m, n, k))
    found = candidates(form(Wanted()), HOPPER, Wanted(), form)
    assert (tile, cluster) in [(each.tile, each.cluster) for each in found]


def test_tiles_of_one_wave_that_pass_an_end_overlap() -> None:
    """Of a product of which a library's tile of 64x112 was the quickest, and ours too, in steps."""
    form = walks(traced(MATMUL, 530, 1536, 8960))
    found = [each for each in candidates(form(Wanted()), HOPPER, Wanted(), form) if each.tile == (64, 112)]
    assert {each.cluster for each in found} >= {None, (4, 1)}
    assert all(each.steps == (0, 106) for each in found)


def test_every_model_has_its_candidates_timed() -> None:
    """Estimates of models that were fitted apart may differ by more than any of them errs by."""
    form = walks(traced(SCALED, 22, 18432, 2304, Element.F8E4M3))
    found = candidates(form(Wanted()), HOPPER, Wanted(), form)
    assert {(64, 24), (64, 64)} <= {each.tile for each in found}
