"""Operands reach shared memory by the plan that is cheapest; each plan delivers every element of its tiles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.legal.reading_places import faults_of, starts_of

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.layout.view.strided_view import StridedView
from tilewright.legal.descriptor.operand_feed import tma_feeds_mma
from tilewright.legal.descriptor.shared_operand import OperandDescriptor
from tilewright.legal.plan.operand_plan import OperandPlan, plan_operand
from tilewright.legal.plan.repairs import repair
from tilewright.legal.plan.want import Want
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.targets import target

HOPPER = target("sm_90a")


def test_a_legal_operand_is_taken_as_it_is() -> None:
    plans = plan_operand(StridedView((4096, 4096), (2, 8192), 0, 2), (64, 128), Element.BF16, "wgmma", target="sm_90a")
    assert [plan.kind for plan in plans] == ["legal"]
    assert plans[0].map is not None
    assert (plans[0].inner, plans[0].map.box, plans[0].map.swizzle) == (0, (64, 128), "128B")
    assert plans[0].workspace is None


def test_the_contiguous_dimension_lies_innermost() -> None:
    first = plan_operand(StridedView((4096, 4096), (8192, 2), 0, 2), (64, 128), Element.BF16, "wgmma", target="sm_90a")[
        0
    ]
    assert first.inner == 1
    assert first.cost.copied_bytes == 0
    only = plan_operand(
        StridedView((4096, 4096), (8192, 2), 0, 2), (64, 128), Element.BF16, "wgmma", inner=(0,), target="sm_90a"
    )
    assert {plan.inner for plan in only} == {0}
    assert {plan.kind for plan in only} == {"copy", "loads"}
    assert only[0].cost.transposed_bytes == 4096 * 4096 * 2


def test_an_odd_row_is_copied_into_the_smallest_workspace() -> None:
    first = plan_operand(StridedView((4095, 4097), (2, 8190), 0, 2), (64, 128), Element.BF16, "wgmma", target="sm_90a")[
        0
    ]
    assert first.kind == "copy"
    assert first.workspace == StridedView((4095, 4097), (2, 8192), 0, 2)


def test_plain_consumers_read_odd_rows_where_they_stand() -> None:
    plans = plan_operand(StridedView((4095, 4097), (2, 8190), 0, 2), (64, 128), Element.BF16, target="sm_90a")
    assert any(plan.kind == "several-maps" for plan in plans)


def test_what_is_no_operand_is_named() -> None:
    view = StridedView((64, 64), (2, 128), 0, 2)
    with pytest.raises(TilewrightError, match="does not fit a view of 2 dimensions"):
        plan_operand(view, (64,), Element.BF16, target="sm_90a")
    with pytest.raises(TilewrightError, match="negative strides"):
        plan_operand(StridedView((64, 64), (2, -128), 8192, 2), (64, 64), Element.BF16, target="sm_90a")
    with pytest.raises(TilewrightError, match="elements have 2 bytes"):
        plan_operand(view, (64, 64), Element.F32, target="sm_90a")


@st.composite
def operands(draw: st.DrawFn) -> tuple[StridedView, tuple[int, ...], Element]:
    element = draw(st.sampled_from((Element.U8, Element.BF16, Element.F32)))
    rank = draw(st.integers(1, 6))
    extents = tuple(draw(st.integers(1, 5 if rank > 3 else 10)) for _ in range(rank))
    strides, reach = [0] * rank, element.bytes
    for at in draw(st.permutations(range(rank))):
        strides[at] = reach
        reach = reach * extents[at] + draw(st.sampled_from((0, 0, 0, element.bytes, 16)))
    tile = tuple(draw(st.integers(1, extent + 1)) for extent in extents)
    return StridedView(extents, tuple(strides), draw(st.sampled_from((0, 0, 16, 4, 8))), element.bytes), tile, element


def delivers(plan: OperandPlan) -> list[str]:
    starts = starts_of(plan.repair.stored)
    return faults_of(plan.repair, starts[:1] + starts[-2:]) if plan.repair.maps else []


@given(operands(), st.sampled_from((None, "wgmma")))
def test_every_plan_delivers_every_element(
    operand: tuple[StridedView, tuple[int, ...], Element], consumer: str | None
) -> None:
    view, tile, element = operand
    plans = plan_operand(view, tile, element, consumer, target="sm_90a")  # type: ignore[arg-type]
    assert plans
    for plan in plans:
        assert delivers(plan) == [], plan
        stored = plan.repair.stored
        assert tuple(stored.dims[plan.order.index(at)] for at in range(view.rank)) == view.extents
        if plan.kind not in ("copy", "pad"):
            assert tuple(stored.strides_bytes[plan.order.index(at)] for at in range(view.rank)) == view.strides_bytes


@pytest.mark.parametrize("row", [16, 32, 64, 128, 256])
def test_tensor_cores_get_rows_that_their_descriptors_describe(row: int) -> None:
    """Box by box: what the copy engine writes is what wgmma reads, by the models of both."""
    view = StridedView((4096, 4096), (2, 8192), 0, 2)
    compared = 0
    for plan in plan_operand(view, (row // 2, 64), Element.BF16, "wgmma", inner=(0,), target="sm_90a"):
        if plan.map is None or plan.map.rank != 2:
            continue
        swizzle = plan.map.to_plan().swizzle
        row_bytes = plan.map.box[0] * 2
        assert row_bytes == {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
        if swizzle != "none":
            descriptor = OperandDescriptor(0, 16, 8 * row_bytes, swizzle)
            feeds = tma_feeds_mma(plan.map, descriptor, HOPPER, major="K", destinations=(0,))
            assert feeds.ok, feeds.why
            compared += 1
    assert compared or row == 16


def test_a_box_without_swizzle_gets_one_for_the_tensor_core() -> None:
    map = TensorMap("bf16", (4096, 4096), (8192,), (64, 64))
    assert repair(map, target="sm_90a")[0].kind == "legal"
    first = repair(map, Want(consumer="wgmma"), target="sm_90a")[0]
    assert first.map is not None
    assert (first.kind, first.map.swizzle, first.map.box) == ("swizzle", "128B", (64, 64))
