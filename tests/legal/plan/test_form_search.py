"""Forms by equality saturation: believed where their moves lead to a legal reading, and dismissed where none exists."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from tests.legal.reading_places import faults_of, starts_of

from tilewright.base.element import Element
from tilewright.layout.view.strided_view import StridedView
from tilewright.legal.plan.engines import Engines
from tilewright.legal.plan.form_search import may_have_exact_form, saturated_choices
from tilewright.legal.plan.operand_plan import plan_operand
from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.reading_search import first_fault
from tilewright.legal.tensor_map.map_limits import map_limits
from tilewright.targets import target

LIMITS = map_limits(target("sm_90a"))


def reading(dims: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...], address: int = 0) -> Reading:
    starts = tuple(0 if size >= extent else size for size, extent in zip(box, dims, strict=True))
    return Reading(2, dims, strides, box, (1,) * len(dims), starts, address)


INTERLEAVED = reading((8, 2, 8, 2, 8, 2, 64), (2, 16, 32, 256, 512, 4096, 8192), (8, 2, 8, 2, 8, 2, 4))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))


def test_seven_dimensions_become_a_legal_map() -> None:
    found = saturated_choices(INTERLEAVED, "none", LIMITS, Engines(memo=False))
    assert found
    for choice in found:
        assert first_fault(choice.chain.reading, LIMITS) is None
        assert all(part <= 256 for part in choice.box)


def test_an_answer_remembered_is_the_answer_found() -> None:
    computed = saturated_choices(INTERLEAVED, "none", LIMITS)
    assert saturated_choices(INTERLEAVED, "none", LIMITS) == computed
    moved = reading(INTERLEAVED.dims, INTERLEAVED.strides_bytes, INTERLEAVED.box, 4096)
    again = saturated_choices(moved, "none", LIMITS)
    assert [choice.box for choice in again] == [choice.box for choice in computed]
    assert all(choice.chain.reading.address == 4096 for choice in again)


def test_what_the_domain_dismisses_has_no_form() -> None:
    dismissed = kept = 0
    for columns, gap, address, box in product((8, 12, 16), (0, 2, 8, 16), (0, 8, 16), (4, 8, 16)):
        asked = reading((columns, 6), (2, 2 * columns + gap), (box, 2), address)
        found = saturated_choices(asked, "none", LIMITS, Engines(memo=False))
        if may_have_exact_form(asked, LIMITS):
            kept += 1
        else:
            dismissed += 1
            assert found == []
    assert dismissed
    assert kept


def test_plans_by_the_e_graph_deliver_every_element() -> None:
    view = StridedView((4, 2, 4, 2, 2, 2, 3), (2, 8, 16, 64, 128, 256, 512), 0, 2)
    plans = plan_operand(view, (4, 2, 4, 1, 2, 1, 2), Element.BF16, engines=Engines(memo=False), target="sm_90a")
    assert any(plan.map is not None and plan.kind != "copy" for plan in plans)
    for plan in plans:
        if plan.repair.maps:
            assert faults_of(plan.repair, starts_of(plan.repair.stored)[:3]) == []
