"""The soak's programs that fold: every kind is there, each small enough for its yardstick; the seed alone decides."""

import math

import pytest
from bench.backward import PARTS, BackwardCase
from bench.fold_kinds import FOLD_KINDS, FoldKind, random_folds
from bench.our_products import arguments_of, compile_case
from bench.random_rows import PROGRAMS


def test_every_kind_is_there_once() -> None:
    programs = {getattr(each, "program", None) for each in FOLD_KINDS if not isinstance(each, BackwardCase)}
    assert programs >= {*PROGRAMS, "attention", "causal_attention", "grouped_heads", "sliding", "variable_lengths"}
    assert {each.part for each in FOLD_KINDS if isinstance(each, BackwardCase)} == set(PARTS)
    assert len({each.name for each in FOLD_KINDS}) == len(FOLD_KINDS)


def test_the_seed_alone_decides_and_every_case_is_small() -> None:
    assert random_folds(8, 3) == random_folds(8, 3) != random_folds(8, 4)
    for case in (*FOLD_KINDS, *random_folds(200)):
        kernel, options = arguments_of(case)
        dims = options["dims"]
        assert kernel.name and all(extent >= 1 for extent in dims.values())
        assert math.prod(extent for axis, extent in dims.items() if axis not in "FPS") <= 1 << 31, case


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", [*FOLD_KINDS, *random_folds(24)], ids=lambda case: case.name)
def test_each_is_compiled_and_proven(case: FoldKind) -> None:
    assert compile_case(case).plan.launches
