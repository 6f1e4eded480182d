"""Staging by a plan: each element in its place is proved, and no plan that stores anything else anywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.contract.gemm_program import Shape, gemm
from tests.lower.lowered_programs import Lowered, lower, matmul
from xdsl.dialects.builtin import DictionaryAttr, IntAttr, ModuleOp, StringAttr

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.typestate.places.staged_places import Chunk, Elsewhere, NotUnderstood, judge_plan
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import exchange_of, to_attribute
from tilewright.ir.exchange import Access, ExchangePlan, Rearrange, Store
from tilewright.ir.tier import int_array
from tilewright.synth.exchange.memory import plan_store
from tilewright.synth.store.staged_store import fragment_layout, staged_layout
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


def plan_of(chunk: Chunk) -> ExchangePlan:
    """The compiler's own for a chunk."""
    layout = staged_layout(chunk.rows, chunk.columns, chunk.element_bytes, chunk.swizzle, turned=chunk.transposed)  # type: ignore[arg-type]
    fragment = fragment_layout(chunk.rows, chunk.columns)
    plan = plan_store(fragment, layout, chunk.element_bytes, target("sm_90a"))
    assert isinstance(plan, ExchangePlan)
    return plan


def access_of(plan: ExchangePlan) -> Access:
    (step,) = plan.steps
    assert isinstance(step, Store)
    return step.access


def with_access(plan: ExchangePlan, **changes: Any) -> ExchangePlan:
    (step,) = plan.steps
    assert isinstance(step, Store)
    return replace(plan, steps=(replace(step, access=replace(step.access, **changes)),))


CHUNKS = [
    Chunk(64, 64, 2, "128B", transposed=False),
    Chunk(128, 32, 2, "64B", transposed=False),
    Chunk(64, 16, 2, "32B", transposed=False),
    Chunk(64, 128, 2, "none", transposed=False),
    Chunk(64, 32, 2, "128B", transposed=True),
    Chunk(64, 8, 2, "128B", transposed=True),
    Chunk(64, 32, 4, "128B", transposed=False),
    Chunk(64, 128, 1, "128B", transposed=False),
]


@pytest.mark.parametrize("chunk", CHUNKS, ids=str)
def test_every_number_of_a_plan_counts(chunk: Chunk) -> None:
    plan = plan_of(chunk)
    access = access_of(plan)
    assert judge_plan(plan, chunk, HOPPER) is None
    # Of two matrices the first 16 lanes give the addresses.
    words = len(access.elements[0]) * chunk.element_bytes // 4
    lane_bits = 5 if access.form == "vector" else 2 + words.bit_length()
    for name, count in (("lane_bytes", lane_bits), ("warp_bytes", 2), ("constants", len(access.constants))):
        numbers = getattr(access, name)
        for at in range(count):
            for other in (0, 1, 16, numbers[at] + 1, numbers[at] + 16, numbers[at] * 2, 1 << 20, -16):
                if other != numbers[at]:
                    changed = with_access(plan, **{name: (*numbers[:at], other, *numbers[at + 1 :])})
                    assert judge_plan(changed, chunk, HOPPER) is not None, (name, at, other)
    for at, group in enumerate(access.elements):
        assert group
        for other in ((group[0] ^ 1, *group[1:]), (*group[:-1], group[-1] ^ 2), group[:-1], (*group, 0)):
            changed = with_access(plan, elements=(*access.elements[:at], other, *access.elements[at + 1 :]))
            assert judge_plan(changed, chunk, HOPPER) is not None, (at, other)


def test_plans_of_another_kind() -> None:
    chunk = Chunk(64, 64, 2, "128B", transposed=False)
    plan = plan_of(chunk)
    access = access_of(plan)
    assert access.form == "matrix"
    for form in ("transposed matrix", "vector"):
        assert isinstance(judge_plan(with_access(plan, form=form), chunk, HOPPER), Elsewhere)
    # The fields of an attribute hold what they like.
    others = [
        with_access(plan, form="K"),
        with_access(plan, lane_active=1),
        with_access(plan, warp_active=1),
        with_access(plan, lane_bytes=access.lane_bytes[:4]),
        with_access(plan, constants=access.constants[1:]),
        with_access(plan, constants=0),
        with_access(plan, elements=(0, *access.elements[1:])),
        with_access(plan, warp_bytes=("mn", "mn")),
        replace(plan, element_bytes=4),
        replace(plan, steps=()),
        replace(plan, steps=(*plan.steps, Rearrange((0,)))),
        replace(plan, steps=(Rearrange((0,)),)),
        replace(plan, steps=(Store("tiles", 0),)),  # type: ignore[arg-type]
        replace(plan, steps=3),  # type: ignore[arg-type]
    ]
    for other in others:
        assert isinstance(judge_plan(other, chunk, HOPPER), NotUnderstood), other
    # A right plan, of another chunk.
    for changes in ({"columns": 32, "swizzle": "64B"}, {"rows": 128}, {"transposed": True}, {"swizzle": "64B"}):
        assert judge_plan(plan, replace(chunk, **changes), HOPPER) is not None


def lowered(**wanted: Any) -> Lowered:
    elements = {"c": wanted.pop("element", Element.BF16)}
    return lower(matmul, {"M": 120, "N": 136, "K": 128}, elements, wanted=Wanted(**wanted))


PROGRAMS: dict[str, dict[str, Any]] = {
    "matrices": {"tile": (64, 64)},
    "pairs": {"tile": (64, 64), "element": Element.F32},
    "turned": {"tile": (128, 64), "swapped": True},
}


def with_plan(module: ModuleOp, plan: ExchangePlan) -> Verdict:
    """The first write of a copy by that plan."""
    copy = module.clone()
    write = next(op for op in copy.walk() if isinstance(op, ac.StageWriteOp))
    write.properties["plan"] = to_attribute(plan)
    return verify(copy, HOPPER)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_stage_elsewhere_are_refuted(name: str) -> None:
    module = lowered(**PROGRAMS[name]).kernels[-1]
    write = next(op for op in module.walk() if isinstance(op, ac.StageWriteOp))
    assert write.plan is not None
    plan = exchange_of(write.plan)
    access = access_of(plan)
    assert isinstance(with_plan(module, plan), Proven)
    warps, lanes = access.warp_bytes, access.lane_bytes
    spoiled = [
        {"lane_bytes": (1, *lanes[1:])},
        {"warp_bytes": (warps[0], 0)},
        {"warp_bytes": warps[::-1]},
        {"lane_bytes": (*lanes[:3], lanes[3] * 2, lanes[4])},
        # Past the slot's end: a barrier, or another role's slot.
        {"constants": tuple(each + 4096 * 8 for each in access.constants)},
        {"elements": access.elements[:-1], "constants": access.constants[:-1]},
        {"elements": (access.elements[0], *access.elements[:-1])},
    ]
    for changes in spoiled:
        verdict = with_plan(module, with_access(plan, **changes))
        assert isinstance(verdict, Refuted), changes
        assert {finding.code for finding in verdict.findings} == {"BG004"}
    other = module.clone()
    write = next(op for op in other.walk() if isinstance(op, ac.StageWriteOp))
    write.properties["plan"] = DictionaryAttr({"class": StringAttr("Store")})
    assert isinstance(verify(other, HOPPER), Unknown)


def test_columns_that_registers_do_not_hold_together() -> None:
    module = gemm(Shape(consumers=1))
    assert isinstance(verify(module, HOPPER), Proven)
    for write in [op for op in module.walk() if isinstance(op, ac.StageWriteOp)][:1]:
        write.properties["column_begin"] = IntAttr(4)
        write.properties["column_end"] = IntAttr(68)
    assert isinstance(verify(module, HOPPER), Unknown)


def test_lines_that_are_shorter_than_the_swizzle() -> None:
    """The exclusive-or takes a piece of such a line to another's place."""
    module = gemm(Shape(consumers=1))
    writes = [op for op in module.walk() if isinstance(op, ac.StageWriteOp)]
    for write in writes:
        write.properties["column_end"] = IntAttr(write.column_begin.data + 32)
    stores = [op for op in module.walk() if isinstance(op, ac.CopyStoreOp)]
    map_ = stores[0].descriptor.owner
    assert isinstance(map_, ac.TensorMapOp)
    columns, *rows = (each.data for each in map_.box)
    map_.properties["box"] = int_array((columns // 2, *rows))
    for store in stores:
        store.properties["box_bytes"] = IntAttr(store.box_bytes.data // 2)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown) and "swizzle" in str(verdict)


def test_a_box_of_other_lines_than_were_staged() -> None:
    """As many bytes, in lines of twice the length."""
    module = lowered(tile=(64, 64)).kernels[-1].clone()
    store = next(op for op in module.walk() if isinstance(op, ac.CopyStoreOp))
    map_ = store.descriptor.owner
    assert isinstance(map_, ac.TensorMapOp)
    columns, rows = (each.data for each in map_.box)
    map_.properties["box"] = int_array((columns // 2, rows * 2))
    assert not isinstance(verify(module, HOPPER), Proven)
