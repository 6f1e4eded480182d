"""Sums of rows whose parts a loop carries, and factors of rows that are 1: the same numbers by fewer instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.lower import cascade_programs
from tests.lower.lowered_programs import Lowered, lower, random_inputs, reference, run
from xdsl.dialects.builtin import IntAttr, StringAttr

from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.driver.reproof.reproof import reprove
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentFoldOp, FragmentMapOp
from tilewright.ir.function import Function
from tilewright.lower.fragment.late_fold import carried_in_parts, is_finished_late
from tilewright.synth.decide import Wanted

DIMS = {"B": 1, "H": 1, "Q": 100, "T": 200, "E": 64, "F": 40}
EXCHANGE = re.compile(r"shfl\.sync\.bfly\.b32 (%f\d+), .*\n\tadd\.rn\.f32 (%f\d+), (%f\d+), \1;")

_ROUNDED = 2.0**-6


def made(*, late: bool = False, skipping: bool = False) -> Lowered:
    kernel = cascade_programs.attention
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    return lower(kernel, DIMS, elements, wanted=Wanted(consumers=2, depth=64, late_sums=late, skips_ones=skipping))


def walk_of(lowered: Lowered) -> str:
    loops = re.findall(r"^(loop_\d+):\n(.*?)^\tbra \1;", lowered.ptx, re.DOTALL | re.MULTILINE)
    return next(body for _, body in loops if "wgmma" in body)


def loop_of(lowered: Lowered) -> ac.LoopOp:
    loops = [op for module in lowered.kernels for op in module.walk() if isinstance(op, ac.LoopOp)]
    return next(loop for loop in loops if any(isinstance(op, FragmentFoldOp) for op in loop.walk()))


def off(found: Mapping[str, NDArray[Any]], expected: NDArray[Any]) -> float:
    return float(np.abs(found["o"].astype(np.float64) - expected).max() / np.abs(expected).max())


def sum_of(loop: ac.LoopOp) -> FragmentFoldOp:
    folds = [op for op in loop.walk() if isinstance(op, FragmentFoldOp)]
    return next(op for op in folds if op.function.data == Function.ADD.value)


def map_of(fold: FragmentFoldOp) -> FragmentMapOp:
    (use,) = fold.result.uses
    assert isinstance(use.operation, FragmentMapOp)
    return use.operation


def test_threads_of_a_row_exchange_their_parts_behind_the_loop() -> None:
    each_time, behind = made(), made(late=True)
    assert len(EXCHANGE.findall(walk_of(each_time))) == 4 and not EXCHANGE.search(walk_of(behind))
    assert len(EXCHANGE.findall(behind.ptx)) == 4
    assert isinstance(reprove(behind.module, behind.ptx, "sm_90a", "attention"), Proven)
    arrays = random_inputs(behind, 3)
    expected = reference(behind, arrays)["o"]
    assert off(run(behind, arrays), expected) < _ROUNDED
    forgets = EXCHANGE.sub("mov.f32 \\2, \\3;", behind.ptx)
    assert off(run(behind, arrays, forgets), expected) > 10 * _ROUNDED


def test_only_what_is_linear_in_the_parts_is_carried_in_parts() -> None:
    def edited(function: Function, to: Function) -> list[int]:
        loop = loop_of(made(late=True))
        at = carried_in_parts(loop)
        assert len(at) == 1 and is_finished_late(sum_of(loop))
        for op in map_of(sum_of(loop)).body.block.ops:
            if isinstance(op, ac.ScalarOp) and op.function.data == function.value:
                op.properties["function"] = StringAttr(to.value)
        return carried_in_parts(loop)

    assert edited(Function.ADD, Function.SUB)
    assert not edited(Function.ADD, Function.MAX) and not edited(Function.MUL, Function.ADD)
    assert not edited(Function.ADD, Function.MUL)


def test_sums_that_others_read_are_exchanged_at_once() -> None:
    loop = loop_of(made(late=True))
    fold = sum_of(loop)
    reader = map_of(fold)
    loop.body.block.insert_op_before(reader.clone(), reader)
    assert not carried_in_parts(loop) and not is_finished_late(fold)


def test_folds_that_are_not_asked_for_are_exchanged_at_once() -> None:
    loop = loop_of(made(late=True))
    sum_of(loop).properties["late"] = IntAttr(0)
    assert not carried_in_parts(loop)
    assert not carried_in_parts(loop_of(made()))


def test_rows_whose_factors_are_1_are_passed_over() -> None:
    """The same bits, whether a tile raises the largest of a row or not."""
    always, skipping = made(), made(skipping=True)
    assert "vote.sync" not in always.ptx and walk_of(skipping).count("vote.sync.all.pred") == 2
    assert isinstance(reprove(skipping.module, skipping.ptx, "sm_90a", "attention"), Proven)
    arrays = random_inputs(always, 5)
    # Of the first warps' rows the first tile has the largest numbers, so that their factors are all 1 from then on.
    arrays["q"][..., :40, :] = np.abs(arrays["q"][..., :40, :])
    arrays["k"][..., :64, :] = np.abs(arrays["k"][..., :64, :]) + np.asarray(2, arrays["k"].dtype)
    found, wrong = run(always, arrays), skipping.ptx.replace("vote.sync.all.pred", "vote.sync.any.pred")
    np.testing.assert_array_equal(run(skipping, arrays)["o"], found["o"])
    assert (run(skipping, arrays, wrong)["o"] != found["o"]).any()
