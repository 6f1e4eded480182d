"""Tiles of rows that end with the axis: the first one begins before it, and consumers without rows pass its slots."""

import ml_dtypes
import numpy as np
import pytest
from tests.lower.cascade_programs import causal

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.lower.cascade import kernel
from tilewright.lower.distribution import tile_range
from tilewright.synth.cascade.walk import walk_range
from tilewright.synth.tile.wanted import Wanted


@pytest.fixture(autouse=True)
def as_of_many_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles are as they would be if each CTA had several."""
    monkeypatch.setattr(walk_range, "_SEVERAL", 0)


def compiled(length: int, misaligned: tuple[str, ...] = ()) -> Compilation:
    dims = {"B": 2, "Q": length, "T": length, "E": 64, "F": 64}
    return compile_kernel(causal, dims=dims, wanted=Wanted(consumers=3, depth=64, ordered=False, misaligned=misaligned))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("length", "before", "misaligned"),
    [(193, 128, ()), (256, 128, ("o",)), (320, 64, ())],
)
def test_every_row_is_stored_and_none_before_the_array(length: int, before: int, misaligned: tuple[str, ...]) -> None:
    made = compiled(length, misaligned)
    assert isinstance(made.proof, Proven) and isinstance(made.text_proof, Proven)
    bundle = made.bundle()
    (walked,) = bundle.decisions["walked"]
    assert 64 * walked["lacking"] == before
    generator = np.random.default_rng(length)
    inputs = [each for each in bundle.plan.buffers if each.role == "input"]
    arrays = {each.name: generator.standard_normal(each.shape).astype(ml_dtypes.bfloat16) for each in inputs}
    found = run_on_machine(bundle, tuple(arrays.values())).astype(np.float64)
    dims = {"B": 2, "Q": length, "T": length, "E": 64, "F": 64}
    wanted = evaluate(trace(causal, dims, dict.fromkeys("qkvo", Element.BF16)), arrays, rounded=False)["o"]
    # By rows: first rows are of few keys, and larger than last ones.
    assert (np.abs(found - wanted).max(axis=-1) <= 2.0**-7 * np.abs(wanted).max(axis=-1)).all()


def test_a_consumer_without_rows_that_keeps_slots_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_range, "release_slot", lambda lowering, slot: None)
    with pytest.raises(TilewrightError, match="refuted"):
        compiled(256)


def test_stores_to_rows_before_the_array_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "pass_without_rows", lambda consumer, cursors: None)
    with pytest.raises(TilewrightError, match="refuted"):
        compiled(256)
