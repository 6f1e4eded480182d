"""How does a result leave shared memory, by which tensor map, or why by none?

A result is stored by bulk copies where a map is legal (`legal.plan.operand_plan`) and no row ends inside the 16 bytes
that the copy engine writes at once; else by plain stores, which leave their reason. How walks bring operands:
`synth.cascade.slots.slot_maps`.
Checked by: tests/synth/test_decide.py and test_operands.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from tilewright.base.element import Element
from tilewright.base.plan import Swizzle
from tilewright.ir.decisions import RUN_BYTES, MapDecision, StoreDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.layout.view.strided_view import StridedView
from tilewright.legal.plan.engines import Engines
from tilewright.legal.plan.operand_plan import OperandPlan, plan_operand
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.synth.store.store_chunks import StagedRow
from tilewright.targets import Target

SWIZZLE_SPAN_BYTES = 128
"""Rows in shared memory are as long as the span of swizzle 128B, the widest: every map here has it."""
_SWIZZLE: Swizzle = "128B"
_ENGINES = Engines(egraph=False)
"""What is carried out here are maps of an array's own two dimensions; equality saturation finds others."""


def slice_depth(element_bytes: int) -> int:
    """Elements of the contracted axis in one slot: as many as fill a row there."""
    return SWIZZLE_SPAN_BYTES // element_bytes


def _majors(element: Element, target: Target) -> tuple[str, ...]:
    """Which axis of an operand may be contiguous in shared memory: the contracted one, of 16-bit elements either."""
    return ("K", "MN") if element.bytes == target.limit("wgmma.mn_major_element_bytes") else ("K",)


@dataclass(frozen=True, slots=True)
class Site:
    """What every question here is about: the program, the target, and the parameters whose arrays do not begin at a
    multiple of 16 bytes. `reasons` gathers why each detour was taken."""

    program: tile.ProgramOp
    target: Target
    misaligned: tuple[str, ...]
    reasons: list[str]

    def view(self, tensor: SSAValue, axes: tuple[str, str]) -> StridedView:
        """A parameter's array with its dimensions in the order of `axes`. One that begins anywhere begins at 1 element:
        what is planned for that serves every address."""
        kind = tensor_type(tensor)
        sizes = dict(zip(kind.axis_names, kind.extents, strict=True))
        strides = dict(zip(kind.axis_names, kind.stride_elements, strict=True))
        width = kind.element_kind.bytes
        begins = width if parameter_name(self.program, tensor) in self.misaligned else 0
        return StridedView(
            tuple(sizes[axis] for axis in axes), tuple(strides[axis] * width for axis in axes), begins, width
        )

    def broken(self, map: TensorMap) -> list[str]:
        """The rules that a map breaks, in words."""
        return [item.message for item in check(map, self.target).violations]


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _carried_out(
    plan: OperandPlan,
    element: Element,
    box: tuple[int, int],
    swizzle: Swizzle,
) -> MapDecision | None:
    """The plan's map, where it is one of two dimensions that brings the box as it is wanted in shared memory."""
    map_ = plan.map
    if map_ is None or len(plan.repair.maps) != 1 or map_.box != box or map_.swizzle != swizzle or map_.rank != 2:
        return None
    moved_as = Element.U8 if element.is_float8 else element
    if plan.cost.extra_copies or plan.cost.overfetched_bytes or map_.dtype != moved_as.value:
        return None
    return MapDecision(element.value, map_.dims, map_.strides, map_.box, swizzle, "none")


def loaded_step(value: SSAValue, contracted: str, target: Target) -> int:
    """Elements of its outer axis by which more or less of an operand is loaded: a swizzle span where that axis is the
    contiguous one, else the rows of a core matrix."""
    element = value_type(value).element_kind
    major = _preferred_major(value, contracted, _majors(element, target))
    return SWIZZLE_SPAN_BYTES // element.bytes if major == "MN" else target.limit("wgmma.core_rows")


def _preferred_major(value: SSAValue, contracted: str, majors: tuple[str, ...]) -> str:
    """The major of the first load behind a value, so that a copy reads along its source's rows, if it is one of
    `majors`."""
    if len(majors) == 1:
        return majors[0]
    pending, seen = [value], set[int]()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, tile.LoadOp):
            tensor = tensor_type(owner.tensor)
            strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
            if len(strides) > 1 and contracted in strides:
                return "K" if strides[contracted] == min(strides.values()) else "MN"
        elif isinstance(owner, Operation) and not isinstance(owner, tile.LoopOp) and id(owner) not in seen:
            seen.add(id(owner))
            pending.extend(owner.operands)
    return "K"


def decide_store(
    site: Site, store: tile.StoreOp, axes: tuple[str, str], unit_rows: int, row: StagedRow | None
) -> StoreDecision:
    """Bulk stores of boxes where the array allows them, else plain stores. axes: rows, columns. unit_rows: rows that
    one warpgroup stores of a tile. row: of a chunk in staging; None where the tile's columns are no whole chunks."""
    tensor = tensor_type(store.tensor)
    name = parameter_name(site.program, store.tensor)
    view = site.view(store.tensor, (axes[1], axes[0]))
    element = tensor.element_kind
    staged = row or StagedRow(SWIZZLE_SPAN_BYTES, _SWIZZLE)
    chunk = staged.columns(element.bytes)
    box = (chunk, unit_rows)
    row_bytes = view.extents[0] * element.bytes
    why: list[str] = []
    if row_bytes % RUN_BYTES:
        # The copy engine clips in units of 16 bytes and would write past the end of a row.
        why.append(f"its rows of {row_bytes} bytes are not a multiple of {RUN_BYTES}")
    if row is None:
        why.append("the tile's columns are no whole chunks")
    plans = plan_operand(
        view,
        box,
        element,
        None,
        target=site.target,
        inner=(0,),
        swizzle=staged.swizzle,
        copy_allowed=False,
        store=True,
        engines=_ENGINES,
    )
    carried_out = [_carried_out(plan, element, box, staged.swizzle) for plan in plans]
    decision = next((item for item in carried_out if item is not None), None)
    if decision is not None and not why:
        tail = (replace(decision, box=(staged.tail_bytes // element.bytes, unit_rows)),) if staged.tails else ()
        return StoreDecision(name, "tma", chunk, 0, decision, (), tail, staged.tails)
    pitch_bytes = view.strides_bytes[1] if view.extents[1] > 1 else _round_up(row_bytes, RUN_BYTES)
    map_ = TensorMap(
        element.value, view.extents, (pitch_bytes,), box, swizzle=staged.swizzle, l2_promotion="none",
        address=view.offset_bytes,
    )  # fmt: skip
    why = [*site.broken(map_), *why]
    along_rows = view.strides_bytes[0] == element.bytes and view.extents[0] > 1 and not element.is_float8
    if view.strides_bytes[0] != element.bytes and view.extents[0] != 1:
        why.append(f"{name} is not contiguous along {axes[1]}")
    how = "by plain stores" + (", each warp along its rows" if along_rows else "")
    site.reasons.append(f"store of {name} {how}: {'; '.join(dict.fromkeys(why))}")
    refused = MapDecision(element.value, map_.dims, map_.strides, box, staged.swizzle, "none")
    return StoreDecision(name, "direct", chunk, int(along_rows), refused)
