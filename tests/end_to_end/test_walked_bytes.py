"""Products of 8-bit numbers by the general generator: sums in two levels or the tensor core's alone, factors after."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.end_to_end.walked_programs import check_numbers, walked
from xdsl.dialects.builtin import IntAttr, ModuleOp

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.kernels_scaled import scaled_kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.promotion import PromoteOp
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.streaming.loop_products import as_walk
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")
_OPERANDS = {"a": "f8e4m3", "b": "f8e4m3"}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("dims", "options", "partials"),
    [
        # Two slots an iteration, of an even number; three of them, one by one; a single one has no second level.
        ({"M": 140, "N": 136, "K": 496}, {"tile": (128, 64)}, 2),
        ({"M": 140, "N": 136, "K": 304}, {"tile": (128, 64)}, 1),
        ({"M": 70, "N": 72, "K": 128}, {"tile": (64, 64)}, 0),
        # Registers for one product beside the total.
        ({"M": 200, "N": 200, "K": 512}, {"tile": (128, 192)}, 1),
        ({"M": 140, "N": 272, "K": 400}, {"tile": (128, 136), "turns": True, "accumulation": "fast"}, 0),
        ({"M": 20, "N": 264, "K": 512}, {}, 2),
    ],
)
@pytest.mark.parametrize("element", ["f8e4m3", "f8e5m2"])
def test_products(dims: Mapping[str, int], options: dict[str, Any], partials: int, element: str) -> None:
    kinds = {"a": element, "b": element, "c": "bf16"}
    compilation, decisions = walked(matmul_kernel, dims, dtype=kinds, strides={"b": (1, dims["K"])}, **options)
    assert decisions.partials == partials
    check_numbers(compilation)


@pytest.mark.sample(2)
@pytest.mark.parametrize("scaling", [(True, True), (False, False), (True, False)])
@pytest.mark.parametrize("accumulation", ["precise", "fast"])
def test_factors_of_rows_and_of_whole_operands(scaling: tuple[bool, bool], accumulation: str) -> None:
    kinds = {**_OPERANDS, "scale_a": "f32", "scale_b": "f32", "bias": "bf16", "c": "bf16"}
    kernel = scaled_kernel("gelu", True, False, scaling)
    dims = {"M": 70, "N": 136, "K": 384}
    compilation, decisions = walked(kernel, dims, dtype=kinds, strides={"b": (1, 384)}, accumulation=accumulation)
    assert bool(decisions.partials) is (accumulation == "precise")
    check_numbers(compilation)


def test_factors_are_loaded_ahead_by_threads_that_know_the_launch_before_has_ended() -> None:
    """A slot says so to those that wait for it first; of two levels factors come before any slot, so all wait."""
    kinds = {**_OPERANDS, "scale_a": "f32", "scale_b": "f32", "c": "bf16"}
    kernel = scaled_kernel("none", False, False, (True, True))
    dims = {"M": 140, "N": 136, "K": 384}
    for accumulation, alone in (("precise", False), ("fast", True)):
        compilation, decisions = walked(
            kernel, dims, dtype=kinds, strides={"b": (1, 384)}, tile=(128, 64), accumulation=accumulation
        )
        assert decisions.consumers_wait is not alone and decisions.loads_ahead == ("scale_a", "scale_b")
        check_numbers(compilation)


def test_operands_of_16_bits_have_two_levels_where_that_is_asked_for() -> None:
    compilation, decisions = walked(matmul_kernel, {"M": 70, "N": 64, "K": 256}, accumulation="precise")
    assert decisions.partials == 2
    check_numbers(compilation)


def test_two_levels_have_no_ping_pong() -> None:
    """A turn is passed on behind a product that was waited for, and each product of two levels is."""
    kinds = {**_OPERANDS, "c": "bf16"}
    with pytest.raises(TilewrightError, match="ping-pong takes a plain product"):
        walked(matmul_kernel, {"M": 64, "N": 80, "K": 512}, dtype=kinds, tile=(128, 64), turns=True)


def test_rows_across_the_contracted_axis_are_copied_first() -> None:
    """The tensor core takes 8-bit operands along the contracted axis alone."""
    kinds = {**_OPERANDS, "c": "bf16"}
    compilation = compile_kernel(matmul_kernel, dims={"M": 70, "N": 80, "K": 256}, dtype=kinds)
    assert len(compilation.plan.launches) == 2
    check_numbers(compilation)


def promoted(slots: int) -> ModuleOp:
    """A sum in two levels of so many slots, as lowered."""
    elements = {each.name: tw.f8e4m3 for each in matmul_kernel.parameters} | {"c": tw.bf16}
    depth = 128 * slots
    module = as_walk(trace(matmul_kernel, {"M": 140, "N": 136, "K": depth}, elements, {"b": (1, depth)}))
    assert module is not None
    program = the_program(module)
    decide(program, HOPPER, Wanted(tile=(128, 64)))
    return lower_program(program).kernels[-1].module


def _all(module: ModuleOp, kind: type[Any]) -> list[Any]:
    return [op for op in module.walk() if isinstance(op, kind)]


def waits_too_late(module: ModuleOp) -> None:
    """The first product's registers are added while it runs."""
    _all(module, ac.WgmmaWaitOp)[0].properties["pending"] = IntAttr(2)


def adds_to_an_old_total(module: ModuleOp) -> None:
    first, second = _all(module, PromoteOp)
    second.operands[0] = first.total


def fills_one_slot_fewer(module: ModuleOp) -> None:
    loop = next(op for op in _all(module, ac.LoopOp))
    loop.properties["begin"] = IntAttr(1)


def writes_what_threads_have_read(module: ModuleOp) -> None:
    """Without a fence, after the additions of the iteration before."""
    _all(module, ac.WgmmaFenceOp)[0].detach()


@pytest.mark.parametrize("slots", [3, 4])
def test_the_protocol_of_two_levels_is_proven(slots: int) -> None:
    assert isinstance(verify(promoted(slots), HOPPER), Proven)


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (waits_too_late, "WG002"),
        (adds_to_an_old_total, "LV002"),
        (fills_one_slot_fewer, "LV004"),
        (writes_what_threads_have_read, "WG004"),
    ],
)
def test_a_spoiled_one_is_refuted(edit: Callable[[ModuleOp], None], code: str) -> None:
    module = promoted(4).clone()
    edit(module)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted), verdict
    assert code in {finding.code for finding in verdict.findings}
