"""Tiles that are dealt out evenly: how far apart they are, where they may be, and which requests are refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.end_to_end.walked_programs import batched
from tests.synth.walked_products import decided_product, is_swapped

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.kernels import gated_kernel, matmul_kernel
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import decisions_of, to_attribute
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cost.model import rates_of
from tilewright.synth.decide import Wanted, decide
from tilewright.synth.tile.alternatives import alternatives
from tilewright.synth.tile.few_rows import few_rows_shape, parameters_of, row_cycles
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.synth.tile.steps import even_step, leave_in_bulk, past_end, with_steps
from tilewright.targets import target

HOPPER = target("sm_90a")


def traced(m: int, n: int, k: int, *, strides: dict[str, tuple[int, ...]] | None = None):
    return the_program(module_of(m, n, k, strides=strides))


def module_of(m: int, n: int, k: int, *, strides: dict[str, tuple[int, ...]] | None = None):
    kinds = {each.name: tw.bf16 for each in matmul_kernel.parameters}
    return trace(matmul_kernel, {"M": m, "N": n, "K": k}, kinds, {"b": (1, k)} if strides is None else strides)


def decided(m: int, n: int, k: int, **wanted) -> CascadeDecisions:
    return decided_product(m, n, k, **wanted)


@given(st.integers(1, 3000), st.integers(1, 32), st.sampled_from([1, 2, 3, 4]), st.booleans())
def test_as_many_tiles_reach_the_end_and_pass_it_by_less(extent: int, size: int, parts: int, rows: bool) -> None:
    whole = 64 if rows else 8
    size *= whole * parts
    step, tiles = even_step(extent, size, parts, whole), -(-extent // size)
    before = past_end(extent, size, size, parts)
    assert before == tiles * size - extent
    if step == 0:
        return
    assert step < size and step % parts == 0 and -(-extent // step) == tiles
    # Less than what is computed together overlaps, of each part.
    assert 0 < (size - step) // parts < whole
    past = past_end(extent, size, step, parts)
    last = (tiles - 1) * step + (parts - 1) * (step // parts) + size // parts
    assert past == last - extent >= 0 and past <= before - 4


@pytest.mark.parametrize(
    ("extent", "size", "parts", "step"),
    [
        (734, 72, 1, 67), (720, 72, 1, 0), (721, 72, 1, 66), (719, 72, 1, 0), (792, 72, 1, 0), (1, 72, 1, 0),
        (530, 112, 2, 106), (61, 64, 1, 0), (99, 128, 2, 100), (128, 128, 2, 0), (127, 128, 2, 0), (251, 128, 2, 0),
    ],
)  # fmt: skip
def test_steps_of_extents_about_multiples(extent: int, size: int, parts: int, step: int) -> None:
    """None of a single box, and none for a few rows."""
    assert even_step(extent, size, parts, 8 if parts == 1 or size == 112 else 64) == step


def asked(m: int, n: int = 1536, k: int = 8960, *, steps: tuple[int, int] = (8, 8), **more) -> TileQuestion:
    return replace(TileQuestion((m, n, k), 2, 2, (False, True), steps, turnable=True, bulk=True), **more)


def test_which_tiles_may_overlap() -> None:
    turned, plain = TileShape(128, 112, 64, 2, True), TileShape(128, 128, 64, 2)
    assert with_steps(asked(530), turned).steps == (0, 106)
    assert with_steps(asked(530), plain).steps == (106, 0)
    # Results that leave by plain stores; operands that lie along the axis.
    assert with_steps(asked(530, turnable=False), turned) == turned
    assert with_steps(asked(530, bulk=False), plain) == plain
    assert with_steps(asked(530, steps=(64, 8)), turned) == turned
    assert with_steps(asked(530, steps=(64, 8)), plain) == plain
    for other in ({"products": 2}, {"batch": 2}, {"scaled": True}):
        assert with_steps(asked(530, **other), turned) == turned and with_steps(asked(530, **other), plain) == plain
    # CTAs that load parts of a part, and parts too small for boxes of their own.
    assert with_steps(asked(530), replace(plain, cluster=(1, 2))) == replace(plain, cluster=(1, 2))
    assert with_steps(asked(530), replace(plain, cluster=(2, 1))).steps == (106, 0)
    assert with_steps(asked(530), replace(turned, split=2)).steps == (0, 106)
    assert with_steps(asked(530), replace(turned, columns=128, split=8)).steps == (0, 0)


@pytest.mark.parametrize(("m", "n", "k"), [(530, 1536, 8960), (145, 3072, 3072), (616, 896, 4864), (597, 1024, 4096)])
def test_middling_rows_of_no_multiple_are_dealt_out_evenly(m: int, n: int, k: int) -> None:
    plan = decided(m, n, k)
    steps = zip(plan.steps, (plan.tile_rows, plan.tile_columns), strict=True)
    along, size = list(steps)[is_swapped(plan)]
    assert 0 < along < size and -(-m // along) == -(-m // size)
    assert decisions_of(to_attribute(plan)) == plan
    # Boxes along the result's memory stay as they are; those across it end at the step.
    (store,) = plan.stores
    ends = store.cut[0].box[1] if is_swapped(plan) else store.map.box[1]
    part_columns = plan.stored_along(plan.column)
    last = plan.part_step - sum(store.chunks(part_columns)[:-1]) if is_swapped(plan) else plan.unit_step
    assert ends == last


def test_rows_of_a_multiple_are_not() -> None:
    for m in (128, 512, 560):
        plan = decided(m, 1536, 8960)
        assert plan.steps == (0, 0)


def test_another_tile_is_taken_where_that_saves_much() -> None:
    """34 of 64 rows of each unit, of which half past the end were loaded side by side."""
    question = asked(68, 18176, 4544)
    shape = few_rows_shape(question, TileShape(192, 72, 64, 3, True), HOPPER, reasons := [])
    assert shape.steps[0] == 68 and not shape.swapped and reasons
    p, rates = parameters_of(HOPPER), rates_of(HOPPER)
    apart, beside = (row_cycles(p, rates, question, each, 6, HOPPER) for each in (shape, replace(shape, steps=(0, 0))))
    assert apart < 0.95 * beside


def test_tiles_in_turn_stay_as_others_chose_them() -> None:
    question, given = asked(1262, 4096, 4096), TileShape(128, 144, 64, 2, True)
    assert few_rows_shape(question, given, HOPPER, [], turns=True) == given
    assert few_rows_shape(question, given, HOPPER, []) == replace(given, steps=(0, 141))
    plan = decided(1262, 4096, 4096)
    assert plan.turns and plan.steps == (0, 0)


@pytest.mark.parametrize(
    ("wanted", "dims", "more"),
    [
        # Not across the result's memory, too far, not at all, no equal parts.
        ({"tile": (128, 64), "steps": (0, 60)}, (200, 256, 128), {}),
        ({"tile": (128, 64), "steps": (0, 56), "swapped": True}, (200, 256, 128), {}),
        ({"tile": (128, 64), "steps": (128, 0)}, (200, 256, 128), {}),
        ({"tile": (128, 64), "steps": (101, 0)}, (200, 256, 128), {}),
        ({"tile": (128, 64), "steps": (0, 63), "swapped": True, "split": 2}, (200, 256, 256), {}),
        # CTAs that load parts of a unit's rows.
        ({"tile": (128, 64), "steps": (120, 0), "cluster": (1, 2)}, (200, 256, 128), {}),
        # Results that leave by plain stores, an operand that lies along the rows.
        ({"tile": (128, 64), "steps": (120, 0)}, (200, 250, 128), {}),
        ({"tile": (128, 64), "steps": (120, 0)}, (200, 256, 128), {"strides": {"a": (1, 200)}}),
    ],
)
def test_steps_that_cannot_be_are_refused(wanted, dims, more) -> None:
    with pytest.raises(TilewrightError, match="cannot be"):
        decided(*dims, **wanted, **more)
    with pytest.raises(TilewrightError, match="cannot be"):
        as_walk(matmul_kernel, dict(zip("MNK", dims, strict=True)), **wanted, **more)


def as_walk(kernel: tw.Kernel, dims: dict[str, int], **wanted):
    wishes = Wanted(**{name: value for name, value in wanted.items() if name != "strides"})
    kinds = {each.name: tw.bf16 for each in kernel.parameters}
    module = walked(trace(kernel, dims, kinds, wanted.get("strides")), HOPPER, wishes)
    return decide(the_program(module), HOPPER, wishes)


@pytest.mark.parametrize("kernel", [batched, gated_kernel("silu")])
def test_tiles_of_a_batch_and_of_several_products_do_not_overlap(kernel: tw.Kernel) -> None:
    dims = {axis: {"B": 2, "M": 200}.get(axis, 256) for axis in kernel.axes}
    assert as_walk(kernel, dims, tile=(128, 64)).steps == (0, 0)
    with pytest.raises(TilewrightError, match="cannot be"):
        as_walk(kernel, dims, tile=(128, 64), steps=(120, 0))


def test_results_that_may_be_cut() -> None:
    assert leave_in_bulk(traced(200, 256, 128), ())
    assert not leave_in_bulk(traced(200, 256, 128), ("c",))
    assert not leave_in_bulk(traced(200, 250, 128), ())


def test_a_tuner_asks_for_steps_too() -> None:
    program = the_program(walked(module_of(530, 1536, 8960), HOPPER))
    found = [each.steps for each in alternatives(program, HOPPER, Wanted())]
    assert (0, 106) in found and (0, 0) in found
