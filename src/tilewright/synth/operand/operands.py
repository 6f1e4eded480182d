"""How each operand reaches shared memory and each result leaves it: by which tensor map, or round which obstacle.

Every array is put to `legal.plan.operand_plan` as the view that it is, with the tile that a stage needs, for each axis
that may lie innermost in shared memory. The cheapest plan that this compiler can carry out is taken: a tensor map of
the array as it stands, or one of a workspace into which the operand is copied first. An operand that is computed goes
through a workspace in any case. Threads may copy it into the ring in pieces instead (`synth.operand.async_copy`). A
result is stored by bulk copies where a map is legal and no row ends inside the 16 bytes that the copy engine writes at
once; else by plain stores. Every detour leaves its reason and its cost.

Not carried out, though planned for elsewhere: several maps for one operand.
Checked by: tests/synth/test_decide.py and test_operands.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import L2Promotion, Swizzle
from tilewright.ir.decisions import RUN_BYTES, MapDecision, OperandDecision, StoreDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import index_offset, parameter_name
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.layout.view.strided_view import StridedView
from tilewright.legal.plan.engines import Engines
from tilewright.legal.plan.operand_plan import OperandPlan, plan_operand
from tilewright.legal.plan.repairs import repair
from tilewright.legal.plan.want import Want
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.synth.operand.async_copy import operand_in_pieces
from tilewright.synth.store.store_chunks import StagedRow
from tilewright.targets import Target

SWIZZLE_SPAN_BYTES = 128
"""Rows in shared memory are as long as the span of swizzle 128B, the widest: every map here has it."""
_SWIZZLE: Swizzle = "128B"
_SWIZZLE_ROWS = 8
"""Rows after which that swizzle begins anew."""
_REMEDIES_NAMED = 3
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
    multiple of 16 bytes. `reasons` gathers why each detour was taken. in_pieces: whether threads copy what no map
    describes, where they can."""

    program: tile.ProgramOp
    target: Target
    misaligned: tuple[str, ...]
    reasons: list[str]
    in_pieces: bool = False

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


def decide_operand(
    site: Site, side: tuple[str, SSAValue, str], contracted: str, extent: int, depth: int
) -> OperandDecision:
    """A tensor map on the operand itself where one is legal; else on a workspace with padded rows.

    side: "left" or "right", the operand's value, the name of its axis that is not contracted. extent, depth: elements
    of that axis and of the contracted one that one CTA loads into a slot. Raises TilewrightError where no workspace has
    a legal map either.
    """
    name, value, outer = side
    why: list[str] = []
    source = value.owner.operand if isinstance(value.owner, tile.TransposeOp) else value
    found: OperandDecision | None = None
    if isinstance(source.owner, tile.LoadOp):
        found = _planned(site, name, source.owner, (contracted, outer), (extent, depth), why)
    else:
        why.append("it is computed elementwise")
    if found is not None and not found.materialized:
        return found
    if site.in_pieces and isinstance(source.owner, tile.LoadOp):
        element = tensor_type(source.owner.tensor).element_kind
        majors = _majors(tensor_type(source.owner.tensor).element_kind, site.target)
        boxes = {major: _box(major, (extent, depth), element, site.target) for major in majors}
        pieces = operand_in_pieces(site.program, name, source.owner, contracted, boxes, site.misaligned, site.target)
        if pieces is not None:
            said = "; ".join(dict.fromkeys(why))
            site.reasons.append(f"{name} operand: {said}; threads copy it in pieces of {pieces.piece_bytes} bytes")
            return pieces
    decision = _on_lines(found or _workspace(site, name, value, (contracted, outer), (extent, depth)), site.target)
    row_bytes, rows = decision.map.strides_bytes[0], decision.map.dims[1]
    site.reasons.append(
        f"{name} operand: {'; '.join(dict.fromkeys(why))}; first copied into rows of {row_bytes} bytes "
        f"({rows * row_bytes} bytes of workspace)"
    )
    return decision


def _on_lines(operand: OperandDecision, target: Target) -> OperandDecision:
    """The workspace with rows that begin at multiples of a line of the caches, or of a sector of one, so that boxes are
    fetched from no more of them than they fill; unless that were to make it larger by more than a third.

    `python -m bench cliffs` on an H200 with rows at multiples of 16 bytes, and so: "small odd K" 12.8 and 8.8 us, "all
    odd" 298 and 263 us.
    """
    pitch, *others = operand.map.strides_bytes
    multiples = (target.limit("device.line_bytes"), target.limit("device.sector_bytes"))
    longer = (_round_up(pitch, multiple) for multiple in multiples)
    row_bytes = next((each for each in longer if 3 * each <= 4 * pitch), pitch)
    return replace(operand, map=replace(operand.map, strides_bytes=(row_bytes, *others)))


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _box(major: str, slot: tuple[int, int], element: Element, target: Target) -> tuple[int, int]:
    """K-major: boxes of one swizzle span by the extent, or by an equal part of it; MN-major: of one span by the depth.

    slot: extent and depth. Raises TilewrightError for an extent of more rows than a box has and no such parts.
    """
    extent, depth = slot
    span = SWIZZLE_SPAN_BYTES // element.bytes
    most = target.limit("tensor_map.box_extent_max")
    if major == "MN":
        return span, depth
    for parts in range(-(-extent // most), extent + 1):
        if extent % parts == 0 and (parts == 1 or extent // parts % _SWIZZLE_ROWS == 0):
            return span, extent // parts
    raise TilewrightError(f"{extent} rows of a slot are no equal boxes", remedy=f"use a multiple of {_SWIZZLE_ROWS}")


def _planned(
    site: Site, side: str, load: tile.LoadOp, axes: tuple[str, str], slot: tuple[int, int], why: list[str]
) -> OperandDecision | None:
    """The cheapest plan for a loaded operand that this compiler carries out, or None; obstacles are added to `why`.

    axes: the contracted one and the other.
    """
    contracted, outer = axes
    tensor = tensor_type(load.tensor)
    name = parameter_name(site.program, load.tensor)
    shifts = {axis: index_offset(index) for axis, index in zip(tensor.axis_names, load.indices, strict=True)}
    if shifts[contracted]:
        why.append(f"it is displaced along {contracted}, where elements past the end must not count")
        return None
    view = site.view(load.tensor, axes)
    element = tensor.element_kind
    majors = _majors(element, site.target)
    preferred = _preferred_major(load.result, contracted, majors)
    choices: list[tuple[bool, tuple[int, ...], OperandDecision]] = []
    for inner, major in enumerate(majors):
        box = _box(major, slot, element, site.target)
        tile_shape = box if major == "K" else box[::-1]
        plans = plan_operand(
            view,
            tile_shape,
            element,
            "wgmma",
            target=site.target,
            inner=(inner,),
            swizzle=_SWIZZLE,
            engines=_ENGINES,
        )
        for plan in plans:
            decision = _carried_out(plan, element, box)
            if decision is None:
                continue
            if plan.workspace is None:
                if major == "MN" and shifts[outer] * view.element_bytes % RUN_BYTES:
                    why.append(f"its displacement of {shifts[outer]} elements is not a multiple of {RUN_BYTES} bytes")
                    continue
                return OperandDecision(side, name, 0, major, decision, shifts[outer])
            # A copy that reads along its source's rows is quicker than one that turns them, whatever it pads.
            operand = OperandDecision(side, f"{side}_operand", 1, major, decision, 0)
            choices.append((major != preferred, plan.cost.rank, operand))
    why.extend(_obstacles(site, view, name, element, slot))
    return min(choices, key=lambda choice: choice[:2])[2] if choices else None


def _carried_out(
    plan: OperandPlan,
    element: Element,
    box: tuple[int, int],
    l2_promotion: L2Promotion = "128B",
    swizzle: Swizzle = _SWIZZLE,
) -> MapDecision | None:
    """The plan's map, where it is one of two dimensions that brings the box as it is wanted in shared memory."""
    map_ = plan.map
    if map_ is None or len(plan.repair.maps) != 1 or map_.box != box or map_.swizzle != swizzle or map_.rank != 2:
        return None
    moved_as = Element.U8 if element.is_float8 else element
    if plan.cost.extra_copies or plan.cost.overfetched_bytes or map_.dtype != moved_as.value:
        return None
    return MapDecision(element.value, map_.dims, map_.strides, map_.box, swizzle, l2_promotion)


def _obstacles(site: Site, view: StridedView, name: str, element: Element, slot: tuple[int, int]) -> list[str]:
    """What keeps a tensor map from the array as it stands: the rules broken where one of its axes is contiguous."""
    words: list[str] = []
    majors = _majors(element, site.target)
    for inner, major in enumerate(("K", "MN")):
        if view.strides_bytes[inner] == view.element_bytes:
            if major not in majors:
                words.append(f"the tensor core takes {element.value} with the contracted axis contiguous only")
                continue
            dims = (view.extents[inner], view.extents[1 - inner])
            strides = (view.strides_bytes[1 - inner],)
            box = _box(major, slot, element, site.target)
            words += site.broken(
                TensorMap(element.value, dims, strides, box, swizzle=_SWIZZLE, address=view.offset_bytes)
            )
    return words or [f"neither axis of {name} is contiguous"]


def workspace_operand(
    site: Site, side: tuple[str, SSAValue, str], contracted: str, slot: tuple[int, int]
) -> OperandDecision:
    """The operand through a workspace, whatever its own array allows; arguments as for `decide_operand`."""
    name, value, outer = side
    return _workspace(site, name, value, (contracted, outer), slot)


def _workspace(site: Site, side: str, value: SSAValue, axes: tuple[str, str], slot: tuple[int, int]) -> OperandDecision:
    """A map of a workspace with room for the operand, which is computed into it."""
    element = value_type(value).element_kind
    major = _preferred_major(value, axes[0], _majors(element, site.target))
    inner, count = (site.program.extents[axis] for axis in (axes if major == "K" else axes[::-1]))
    row_bytes = _round_up(inner * element.bytes, RUN_BYTES)
    box = _box(major, slot, element, site.target)
    map_ = TensorMap(element.value, (inner, count), (row_bytes,), box, swizzle=_SWIZZLE, l2_promotion="128B")
    broken = site.broken(map_)
    if broken:
        plans = repair(map_, Want(box=box, consumer="wgmma", keep=frozenset({"swizzle"})), target=site.target)
        remedies = [plan.title for plan in plans[:_REMEDIES_NAMED]]
        raise TilewrightError(
            f"no legal tensor map for the {side} operand: {'; '.join(broken)}",
            remedy=f"use smaller extents, or one of: {'; '.join(remedies)}" if remedies else "use smaller extents",
        )
    decision = MapDecision(element.value, (inner, count), (row_bytes,), box, _SWIZZLE, "128B")
    return OperandDecision(side, f"{side}_operand", 1, major, decision, 0)


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
    carried_out = [_carried_out(plan, element, box, "none", staged.swizzle) for plan in plans]
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
