"""Edits of a kernel that streams, and what is spoiled by each."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import PartialAddOp, PartialStoreOp, StreamPartOp, TurnStreamPartOp

Parts = StreamPartOp | TurnStreamPartOp


def parts(module: ModuleOp, part: str) -> list[Parts]:
    return [op for op in module.walk() if isinstance(op, Parts) and op.part.data == part]


def summing(module: ModuleOp, part: str) -> Block:
    """The body of the consumer's loop over a part."""
    return parts(module, part)[-1].body.block


def found(module: ModuleOp, kind: type[Operation]) -> Operation:
    return next(op for op in module.walk() if isinstance(op, kind))


def no_store(module: ModuleOp) -> None:
    found(module, PartialStoreOp).detach()


def two_stores(module: ModuleOp) -> None:
    op = found(module, PartialStoreOp)
    summing(module, "head").insert_op_after(op.clone(), op)


def no_addition(module: ModuleOp) -> None:
    op = found(module, PartialAddOp)
    assert isinstance(op, PartialAddOp)
    op.sum.replace_all_uses_with(op.accumulator)
    op.detach()


def added_twice_and_never_stored(module: ModuleOp) -> None:
    found(module, PartialStoreOp).detach()
    op = found(module, PartialAddOp)
    assert isinstance(op, PartialAddOp)
    again = op.clone()
    summing(module, "tail").insert_op_after(again, op)
    op.sum.replace_all_uses_with(again.sum)
    again.operands[list(again.operands).index(op.accumulator)] = op.sum


def half_sum_used(module: ModuleOp) -> None:
    op = found(module, PartialAddOp)
    assert isinstance(op, PartialAddOp)
    use = next(iter(op.sum.uses))
    use.operation.operands[use.index] = op.accumulator


def slot_of_a_row(module: ModuleOp) -> None:
    op = found(module, PartialStoreOp)
    op.operands[3] = summing(module, "head").args[0]


def slot_of_the_first_slice(module: ModuleOp) -> None:
    op = found(module, PartialAddOp)
    op.operands[3] = summing(module, "tail").args[3]


def no_unit(module: ModuleOp) -> None:
    op = found(module, PartialAddOp)
    op.operands[4] = op.operands[3]


def arrays_swapped(module: ModuleOp) -> None:
    op = found(module, PartialStoreOp)
    op.operands[1], op.operands[2] = op.operands[2], op.operands[1]


def too_few_slots(module: ModuleOp) -> None:
    op = found(module, PartialStoreOp)
    array = op.operands[2].owner
    assert isinstance(array, ac.GlobalOp)
    array.properties["shape"] = ArrayAttr([IntAttr(1)])


def flags_also_results(module: ModuleOp) -> None:
    array = found(module, PartialStoreOp).operands[2].owner
    assert isinstance(array, ac.GlobalOp)
    array.properties["buffer"] = StringAttr("c")


def more_helpers(module: ModuleOp) -> None:
    for op in (*parts(module, "head"), *parts(module, "tail")):
        op.properties["helpers"] = IntAttr(2)


def more_tiles_cut(module: ModuleOp) -> None:
    for op in (*parts(module, "head"), *parts(module, "tail")):
        op.properties["streamed"] = IntAttr(3)


def one_role_cuts_more(module: ModuleOp) -> None:
    parts(module, "head")[0].properties["streamed"] = IntAttr(1)


def whole_tiles_from_the_first(module: ModuleOp) -> None:
    for op in module.walk():
        if isinstance(op, ac.TilesOp | ac.TurnTilesOp):
            op.properties["first_tile"] = IntAttr(0)


def another_order(module: ModuleOp) -> None:
    parts(module, "tail")[0].properties["raster_group"] = IntAttr(9)


def a_slice_left_out(module: ModuleOp) -> None:
    for op in parts(module, "tail"):
        op.properties["first_slice"] = IntAttr(op.first_slice.data + 1)


def parts_change_places(module: ModuleOp) -> None:
    for head, tail in zip(parts(module, "head"), parts(module, "tail"), strict=True):
        head.properties["part"], tail.properties["part"] = tail.part, head.part


def parts_of_one_length(module: ModuleOp) -> None:
    for op in parts(module, "tail"):
        op.properties["slices"] = StringAttr("head")


def a_role_without_tails(module: ModuleOp) -> None:
    op = parts(module, "tail")[0]
    for result, value in zip(op.outputs, op.carried, strict=True):
        result.replace_all_uses_with(value)
    op.detach()


def counts_change_places(module: ModuleOp) -> None:
    for part, other in (("head", "tails"), ("tail", "heads")):
        for op in parts(module, part):
            op.properties["symbol"] = StringAttr(other)


def tail_before_heads(module: ModuleOp) -> None:
    """Waits for another CTA come before what others wait for."""
    for head, tail in zip(parts(module, "head"), parts(module, "tail"), strict=True):
        block = head.parent_block()
        assert block is not None
        for result, value in zip(tail.outputs, head.outputs, strict=True):
            result.replace_all_uses_with(value)
        first, second = list(head.carried), list(tail.outputs)
        tail.detach()
        block.insert_op_before(tail, head)
        begin = len(tail.operands) - len(first)
        for number, (value, result) in enumerate(zip(first, second, strict=True)):
            tail.operands[begin + number] = value
            head.operands[begin + number] = result


MUTATIONS: tuple[Callable[[ModuleOp], None], ...] = (
    no_store, two_stores, no_addition, half_sum_used, slot_of_a_row, slot_of_the_first_slice, no_unit, arrays_swapped,
    too_few_slots, flags_also_results, more_helpers, more_tiles_cut, one_role_cuts_more, whole_tiles_from_the_first,
    another_order, a_slice_left_out, parts_change_places, parts_of_one_length, a_role_without_tails,
    counts_change_places, tail_before_heads, added_twice_and_never_stored,
)  # fmt: skip


SPOILED: dict[str, tuple[str, str, set[str]]] = {
    "the release relaxed": ("st.release.gpu", "st.relaxed.gpu", {"CL101"}),
    "the release weak": ("st.release.gpu.global", "st.global", {"CL101"}),
    "the release of CTA scope": ("st.release.gpu", "st.release.cta", {"CL104"}),
    "the acquire relaxed": ("ld.acquire.gpu", "ld.relaxed.gpu", {"CL101"}),
    "the acquire of CTA scope": ("ld.acquire.gpu", "ld.acquire.cta", {"CL104"}),
    "partial sums read by the other path": ("ld.global.v4.f32", "ld.global.nc.v4.f32", {"CL107"}),
    "no wait for the grid before": ("griddepcontrol.wait;", "", {"GD101"}),
    "the flag not set back": ("st.relaxed.gpu.global.u32", "", {"LV103"}),
}
