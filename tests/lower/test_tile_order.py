"""Kernels that take their tiles along Hilbert's curve: proved, the same values, and another order than the grouped."""

import pytest
from tests.lower.lowered_programs import assert_close, gemm, random_inputs
from xdsl.dialects.builtin import IntAttr, StringAttr

from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.reproof.reproof import reprove
from tilewright.ir.ac import operations as ac
from tilewright.lower.distribution import raster
from tilewright.lower.ptx.emit import Text
from tilewright.targets import target

HOPPER = target("sm_90a")

_CURVE = {"tile_order": "hilbert", "tile_group": 4}
_KINDS = {
    "alone": {"tile": (64, 8), "swapped": False},
    "in turn": {"tile": (128, 64), "turns": True, "depth": 64},
    "in a cluster": {"tile": (64, 16), "cluster": (1, 2), "swapped": False},
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", _KINDS)
def test_such_a_kernel_is_proved_and_right(kind: str) -> None:
    wanted = _KINDS[kind]
    rows, columns = wanted["tile"]
    # A whole square of 4 x 4 clusters, and tiles beside it that no square covers.
    tiles_n = 6 * wanted.get("cluster", (1, 1))[1]
    lowered = gemm(5 * rows, tiles_n * columns, 128, **wanted, **_CURVE)
    assert lowered.decisions.tile_order == "hilbert"
    assert all(isinstance(verify(kernel, HOPPER), Proven) for kernel in lowered.kernels)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "product"), Proven)
    assert_close(lowered, random_inputs(lowered))


def test_a_curve_that_meets_a_tile_twice_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text's small instance has a whole square, and two stores to one place are seen."""

    def diagonal(text: Text, number: str, side: int) -> tuple[str, str]:
        across, _ = point(text, number, side)
        return across, across

    point = raster._hilbert_point
    monkeypatch.setattr(raster, "_hilbert_point", diagonal)
    lowered = gemm(512, 32, 128, **_KINDS["alone"], **_CURVE)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "product"), Refuted)


def _loops(lowered):
    (kernel,) = lowered.kernels
    module = kernel.clone()
    return module, [op for op in module.walk() if isinstance(op, ac.TilesOp | ac.TurnTilesOp)]


def test_roles_that_disagree_about_the_order_are_not_proven() -> None:
    lowered = gemm(320, 48, 128, **_KINDS["alone"], **_CURVE)
    module, loops = _loops(lowered)
    assert {loop.order for loop in loops} == {StringAttr("hilbert")}
    del loops[0].properties["order"]
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown) and "another order" in str(verdict)


@pytest.mark.parametrize(("name", "value"), [("order", StringAttr("diagonal")), ("raster_group", IntAttr(6))])
def test_orders_of_which_nothing_is_known_are_not_proven(name: str, value: object) -> None:
    module, loops = _loops(gemm(320, 48, 128, **_KINDS["alone"], **_CURVE))
    for loop in loops:
        loop.properties[name] = value
    assert isinstance(verify(module, HOPPER), Unknown)


def test_the_upstream_dialects_have_no_such_order() -> None:
    with pytest.raises(TilewrightError):
        _ = gemm(320, 48, 128, **_KINDS["alone"], **_CURVE).nvgpu
