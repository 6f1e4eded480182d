"""How each operand reaches shared memory and each result leaves it: by which tensor map, or round which obstacle.

An operand is copied by the tensor map of its own array where one is legal; else it is computed first into a workspace
whose rows a tensor map can describe. A result is stored by bulk copies where a map is legal and no row ends inside the
16 bytes that the copy engine writes at once; else by plain stores. Legality is asked of `legal`, and every detour
leaves its reason. Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tilewright.base.error import TilewrightError
from tilewright.ir import tile
from tilewright.ir.decisions import RUN_BYTES, MapDecision, OperandDecision, StoreDecision
from tilewright.ir.tile_facts import index_offset, parameter_name
from tilewright.ir.tile_types import tensor_type, value_type
from tilewright.legal.tensormap import violations
from tilewright.targets import Target

SWIZZLE_SPAN_BYTES = 128
"""Rows in shared memory are as long as the span of swizzle 128B, the widest: every map here has it."""
TILE_K = SWIZZLE_SPAN_BYTES // 2
"""Elements of 16 bits in such a row."""


@dataclass(frozen=True, slots=True)
class Site:
    """What every question here is about: the program, the target, and the parameters whose arrays do not begin at a
    multiple of 16 bytes. `reasons` gathers why each detour was taken."""

    program: tile.ProgramOp
    target: Target
    misaligned: tuple[str, ...]
    reasons: list[str]

    def broken(self, plan: MapDecision, buffer: str) -> list[str]:
        """The rules of tensor maps that a map of this buffer breaks, in words."""
        address = 1 if buffer in self.misaligned else 0
        return [item.message for item in violations(plan.tensor_map(), self.target, global_address=address)]


def decide_operand(site: Site, side: tuple[str, SSAValue, str], contracted: str, extent: int) -> OperandDecision:
    """A tensor map on the operand itself where one is legal; else on a workspace with padded rows."""
    name, value, outer = side
    why: list[str] = []
    source = value.owner.operand if isinstance(value.owner, tile.TransposeOp) else value
    if isinstance(source.owner, tile.LoadOp):
        direct = _direct_operand(site, name, source.owner, outer, contracted, extent, why)
        if direct is not None:
            return direct
    else:
        why.append("it is computed elementwise")
    element = value_type(value).element_kind
    major = _preferred_major(value, contracted)
    inner_axis, outer_axis = (contracted, outer) if major == "K" else (outer, contracted)
    inner, count = site.program.extents[inner_axis], site.program.extents[outer_axis]
    row_bytes = _round_up(inner * element.bytes, RUN_BYTES)
    workspace = f"{name}_operand"
    plan = MapDecision(element.value, (inner, count), (row_bytes,), _box(major, extent), "128B", "128B")
    broken = site.broken(plan, workspace)
    if broken:
        words = "; ".join(broken)
        raise TilewrightError(f"no legal tensor map for the {name} operand: {words}", remedy="use smaller extents")
    site.reasons.append(
        f"{name} operand: {'; '.join(why)}; first copied into rows of {row_bytes} bytes "
        f"({count * row_bytes} bytes of workspace)"
    )
    return OperandDecision(name, workspace, 1, major, plan, 0)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _box(major: str, extent: int) -> tuple[int, int]:
    """K-major: TILE_K by the tile's extent in one box; MN-major: boxes of one swizzle span (64 elements) by TILE_K."""
    return (TILE_K, extent) if major == "K" else (SWIZZLE_SPAN_BYTES // 2, TILE_K)


def _preferred_major(value: SSAValue, contracted: str) -> str:
    """The major of the first load behind a value, so that a copy reads along its source's rows."""
    pending, seen = [value], set[int]()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, tile.LoadOp):
            tensor = tensor_type(owner.tensor)
            strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
            if len(strides) == 2 and contracted in strides:
                return "K" if strides[contracted] == min(strides.values()) else "MN"
        elif isinstance(owner, Operation) and not isinstance(owner, tile.LoopOp) and id(owner) not in seen:
            seen.add(id(owner))
            pending.extend(owner.operands)
    return "K"


def _direct_operand(
    site: Site, side: str, load: tile.LoadOp, outer: str, contracted: str, extent: int, why: list[str]
) -> OperandDecision | None:
    """A tensor map of the loaded array itself, or None, with the reasons added to `why`."""
    tensor = tensor_type(load.tensor)
    name = parameter_name(site.program, load.tensor)
    shifts = {axis: index_offset(index) for axis, index in zip(tensor.axis_names, load.indices, strict=True)}
    if shifts[contracted]:
        why.append(f"it is displaced along {contracted}, where elements past the end must not count")
        return None
    sizes = dict(zip(tensor.axis_names, tensor.extents, strict=True))
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    element_bytes = tensor.element_kind.bytes
    for major, inner_axis, outer_axis in (("K", contracted, outer), ("MN", outer, contracted)):
        if strides[inner_axis] != 1 and sizes[inner_axis] != 1:
            continue
        if major == "MN" and shifts[outer] * element_bytes % 16:
            why.append(f"its displacement of {shifts[outer]} elements is not a multiple of 16 bytes")
            continue
        stride_bytes = strides[outer_axis] * element_bytes
        if sizes[outer_axis] == 1:  # a single row has no stride to speak of
            stride_bytes = _round_up(sizes[inner_axis] * element_bytes, 16)
        plan = MapDecision(
            tensor.element_kind.value,
            (sizes[inner_axis], sizes[outer_axis]),
            (stride_bytes,),
            _box(major, extent),
            "128B",
            "128B",
        )
        broken = site.broken(plan, name)
        if not broken:
            return OperandDecision(side, name, 0, major, plan, shifts[outer])
        why.extend(broken)
    if not why:
        why.append(f"neither axis of {name} is contiguous")
    return None


def decide_store(site: Site, store: tile.StoreOp, axes: tuple[str, str], unit_rows: int) -> StoreDecision:
    """Bulk stores of boxes of `unit_rows` rows where the array allows them, else plain stores."""
    tensor = tensor_type(store.tensor)
    name = parameter_name(site.program, store.tensor)
    sizes = dict(zip(tensor.axis_names, tensor.extents, strict=True))
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    rows, columns = axes
    element_bytes = tensor.element_kind.bytes
    chunk = SWIZZLE_SPAN_BYTES // element_bytes
    stride_bytes = strides[rows] * element_bytes
    if sizes[rows] == 1:
        stride_bytes = _round_up(sizes[columns] * element_bytes, 16)
    plan = MapDecision(
        tensor.element_kind.value, (sizes[columns], sizes[rows]), (stride_bytes,), (chunk, unit_rows), "128B", "none"
    )
    why = site.broken(plan, name)
    if strides[columns] != 1 and sizes[columns] != 1:
        why.append(f"{name} is not contiguous along {columns}")
    if sizes[columns] * element_bytes % 16:
        # The copy engine clips in units of 16 bytes and would write past the end of a row.
        why.append(f"its rows of {sizes[columns] * element_bytes} bytes are not a multiple of 16")
    if why:
        site.reasons.append(f"store of {name} by plain stores: {'; '.join(dict.fromkeys(why))}")
        return StoreDecision(name, "direct", chunk, plan)
    return StoreDecision(name, "tma", chunk, plan)
