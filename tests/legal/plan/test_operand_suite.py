"""The suite of real operands: large enough, and each with the plan that it can have."""

from __future__ import annotations

import pytest
from bench.operand_shapes import Operand, operands
from bench.operand_suite import Answer, answered

from tilewright.legal.plan.form_search import may_have_exact_form
from tilewright.legal.plan.reading import Reading
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.map_limits import map_limits
from tilewright.targets import target

LIMITS = map_limits(target("sm_90a"))


@pytest.fixture(scope="module")
def answers() -> list[Answer]:
    return answered(operands())


def reading_of(operand: Operand) -> Reading:
    view, tile = operand.view, operand.tile
    starts = tuple(0 if size >= extent else size for size, extent in zip(tile, view.extents, strict=True))
    ones = (1,) * view.rank
    return Reading(view.element_bytes, view.extents, view.strides_bytes, tile, ones, starts, view.offset_bytes)


def test_the_suite_is_what_it_says(answers: list[Answer]) -> None:
    suite = [answer.operand for answer in answers]
    assert len(suite) >= 300
    assert len({operand.name for operand in suite}) == len(suite)
    families = {operand.family for operand in suite if "config.json" in operand.source}
    assert len(families) >= 10
    assert all(operand.source for operand in suite)


def test_every_operand_has_a_plan_by_legal_maps(answers: list[Answer]) -> None:
    for answer in answers:
        mapped = answer.mapped
        assert mapped is not None, answer.operand
        assert all(check(map, "sm_90a").legal for map in mapped.repair.maps)


def test_what_is_legal_as_it_stands_is_taken_so(answers: list[Answer]) -> None:
    taken = [answer for answer in answers if answer.legal]
    assert len(taken) > 300
    assert all(answer.plans[0].kind == "legal" for answer in taken)


def test_whatever_may_be_brought_exactly_is_brought_in_place(answers: list[Answer]) -> None:
    possible = [answer for answer in answers if may_have_exact_form(reading_of(answer.operand), LIMITS)]
    assert len(possible) > len([answer for answer in answers if answer.legal])
    assert [answer.operand.name for answer in possible if answer.in_place is None] == []
