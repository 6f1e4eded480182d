"""How a fragment leaves through staging slots in shared memory: chunks of its columns, each a box of a bulk store.

A slot is written once the first thread has waited until the slot's last store was read, and a barrier has told the unit
so; then each thread fences what it wrote, another barrier makes it ready, and the first thread issues the store. The
slots are used one after the other, over all boxes of a tile.

Checked by: tests/lower/test_staged_store.py, tests/lower/cascade, and `contract`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.base.element import Element
from tilewright.ir.ac import operations as ac
from tilewright.ir.copy_decisions import BLOCK_ROWS, AsyncPlan, MapDecision, StoreDecision
from tilewright.ir.decisions import exchange_attribute
from tilewright.ir.tier import MemoryType
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name
from tilewright.lower.build import Build, affine

_NAME = "staging"
FIRST_BARRIER, _THREADS = 1, 128


@dataclass(slots=True)
class SlotCounter:
    """Staged chunks so far in one tile, which pick the staging slot."""

    done: int = 0
    freed: bool = False
    """Whether the first one's slot has been waited for."""


def declare_staging(
    build: Build, stores: Sequence[StoreDecision], slots: int, slot_bytes: int, address: int, units: int
) -> SSAValue | None:
    """So many slots for each unit; None for none."""
    if not slots:
        return None
    staged = [store.map for store in stores]
    # Slots that take outputs of several elements by turns are bytes.
    element = staged[0].element if len({one.element for one in staged}) == 1 else Element.U8.value
    properties = {"sym_name": StringAttr(_NAME), "address": IntAttr(address), "instances": IntAttr(units)}
    swizzle = StringAttr(staged[0].swizzle)
    kind = MemoryType(StringAttr("SMEM"), StringAttr(element), IntAttr(slots), IntAttr(slot_bytes), swizzle)
    return build.value(ac.BufferOp.create(properties=properties, result_types=[kind]))


def store_boxes(
    build: Build,
    staging: SSAValue,
    unit: SSAValue,
    origin: tuple[SSAValue, list[tuple[SSAValue, int]], list[SSAValue]],
    fragment: SSAValue,
    decision: StoreDecision,
    plan: AsyncPlan,
    shape: tuple[int, int],
    descriptors: tuple[SSAValue, ...],
    counter: SlotCounter,
) -> None:
    """Column chunks through the staging slots: wait until the slot's last store was read, write, fence, store.

    origin: first row, terms of the first column, coordinates of further dimensions. shape: rows and columns of the
    unit's part of a tile."""
    for box in decision.boxes(*shape):
        slot = counter.done % plan.stages
        counter.done += 1
        if counter.done > 1 or not counter.freed:
            free_slot(build, unit, plan)
        staged = _staged(build, staging, unit, fragment, decision, box, slot)
        leave(build, staging, unit, origin, [staged], decision, shape, descriptors)


@dataclass(frozen=True, slots=True)
class StagedBox:
    """A chunk of a fragment's columns that all threads have written to a slot, and fenced."""

    block: int
    begin: int
    width: int
    slot: int
    fenced: SSAValue


def stage(
    build: Build,
    staging: SSAValue,
    unit: SSAValue,
    fragment: SSAValue,
    decision: StoreDecision,
    shape: tuple[int, int],
) -> list[StagedBox]:
    """All chunks, each to a slot of its own, which have been waited for."""
    boxes = enumerate(decision.boxes(*shape))
    return [_staged(build, staging, unit, fragment, decision, box, slot) for slot, box in boxes]


def _staged(
    build: Build,
    staging: SSAValue,
    unit: SSAValue,
    fragment: SSAValue,
    decision: StoreDecision,
    box: tuple[int, int, int],
    slot: int,
) -> StagedBox:
    """Write a chunk to a slot, and fence it. box: its block, first column and width."""
    block, begin, width = box
    narrow = width < decision.chunk_columns
    written = build.value(
        ac.StageWriteOp.create(
            operands=[fragment, staging, unit],
            properties={
                "column_begin": IntAttr(begin),
                "column_end": IntAttr(begin + width),
                "slot": IntAttr(slot),
                **({"plan": exchange_attribute(decision.staging[int(narrow)])} if decision.staging else {}),
                **({"block": IntAttr(block)} if decision.turned else {}),
            },
            result_types=[ac.StagedType(StringAttr(_NAME), StringAttr("written"))],
        )
    )
    fenced = ac.FenceProxyOp.create(
        operands=[written], result_types=[ac.StagedType(StringAttr(_NAME), StringAttr("fenced"))]
    )
    return StagedBox(block, begin, width, slot, build.value(fenced))


def leave(
    build: Build,
    staging: SSAValue,
    unit: SSAValue,
    origin: tuple[SSAValue, list[tuple[SSAValue, int]], list[SSAValue]],
    boxes: Sequence[StagedBox],
    decision: StoreDecision,
    shape: tuple[int, int],
    descriptors: tuple[SSAValue, ...],
) -> None:
    """Have all threads meet, and store what they have staged. origin, shape: as of `store_boxes`."""
    row, columns, further = origin
    for box in boxes:
        # The last boxes may be narrower, and the last one of columns cut: these have maps of their own.
        narrow = box.width < decision.chunk_columns
        is_cut = bool(decision.cut) and box.begin + box.width == shape[1]
        map_ = decision.cut[0] if is_cut else decision.tail[0] if narrow else decision.map
        descriptor = descriptors[-1 if is_cut else int(narrow)]
        ready = build.value(synchronized(unit, box.fenced, ac.StagedType(StringAttr(_NAME), StringAttr("ready"))))
        staged_lines = box.width if decision.turned else shape[0]
        column = affine(build, columns, box.begin)
        place = [column, row]
        if decision.turned:
            place = [affine(build, [(row, 1)], BLOCK_ROWS * box.block) if box.block else row, column]
        build.add(
            ac.CopyStoreOp.create(
                operands=[descriptor, staging, unit, ready, *place, *further],
                properties={
                    "slot": IntAttr(box.slot),
                    "box_bytes": IntAttr(map_.tensor_map().box_bytes),
                    **({"lines": IntAttr(map_.box[1])} if map_.box[1] < staged_lines else {}),
                },
            )
        )
        build.add(ac.BulkCommitOp.create(operands=[unit]))


def free_slot(build: Build, unit: SSAValue, plan: AsyncPlan) -> None:
    """Wait until the next slot of a store's plan has been read."""
    build.add(bulk_wait(unit, plan.pending))
    build.add(synchronized(unit))


def bulk_wait(unit: SSAValue, pending: int) -> ac.BulkWaitOp:
    """Until all groups but so many have been read."""
    return ac.BulkWaitOp.create(operands=[unit], properties={"pending": IntAttr(pending), "read": IntAttr(1)})


def synchronized(unit: SSAValue, staged: SSAValue | None = None, ready: Attribute | None = None) -> Operation:
    """A barrier of the unit's threads, which makes ready what all have staged and fenced."""
    return ac.NamedBarrierSyncOp.create(
        operands=[unit, *([staged] if staged is not None else [])],
        properties={"first_barrier": IntAttr(FIRST_BARRIER), "threads": IntAttr(_THREADS)},
        result_types=[ready] if ready is not None else [],
    )


def tail_of(decision: StoreDecision) -> str:
    """Under which name, of no parameter, the map of a store's narrower boxes is kept among the arrays."""
    return f"{decision.parameter} tail"


def cut_of(decision: StoreDecision) -> str:
    """And that of its last box, where that is cut."""
    return f"{decision.parameter} cut"


def further_maps(program: tile.ProgramOp, decision: StoreDecision) -> list[tuple[str, str, MapDecision]]:
    """Of a store's maps besides its first: under which name each is kept, its name in the kernel, which no parameter
    has, and the map."""
    taken = {parameter_name(program, argument) for argument in program.body.block.args}
    found: list[tuple[str, str, MapDecision]] = []
    for kept, maps in ((tail_of(decision), decision.tail), (cut_of(decision), decision.cut)):
        name = kept.replace(" ", "_")
        while name in taken:
            name += "_"
        found += [(kept, name, each) for each in maps]
    return found
