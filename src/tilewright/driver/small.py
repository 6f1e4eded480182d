"""Which small instance of a program stands for the large one when the emitted text is run.

The instance keeps every decision (tile, stages, roles, paths, swizzles), every stride and the remainder of each extent
by its tile, and reduces the extents to a few tiles: two along the columns, so that a phase crosses tiles, and stages +
1 slices along the contracted axis, so that every slot is refilled. Since the lowering turns extents into immediates
only, the small text is the large one but for immediates of plain arithmetic; `same_but_for_extents` checks that on the
parsed texts, so a lowering that strays from the rule is caught.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64

from tilewright.frontends.ptx.ast import Immediate, Instruction, Kernel, Label, Module, Operand
from tilewright.ir import tile
from tilewright.ir.decisions import (
    ElementwiseDecisions,
    OperandDecision,
    PipelineDecisions,
    StoreDecision,
    decisions_of,
    to_attribute,
)
from tilewright.ir.tile_facts import the_program
from tilewright.ir.tile_types import TensorType, tensor_type

_POINTS_PER_AXIS = 48
"""Extent left of each axis of an element-by-element program."""

_ARITHMETIC_ROWS = frozenset({"setp", "mul", "mad", "div", "rem", "sub", "min", "mov"})
"""Rows whose immediates may hold extents. Barrier counts, byte counts, group counts and addresses may not differ."""


def small_extents(program: tile.ProgramOp) -> dict[str, int]:
    """Extents of the small instance, by axis."""
    decisions = decisions_of(program.attributes["decisions"])
    extents = program.extents
    match decisions:
        case ElementwiseDecisions():
            return {axis: min(extent, _POINTS_PER_AXIS) for axis, extent in extents.items()}
        case PipelineDecisions():
            reduced = dict(extents)
            for axis, size, tiles in (
                (decisions.rows, decisions.tile_m, 1),
                (decisions.columns, decisions.tile_n, 2),
                (decisions.contracted, decisions.tile_k, decisions.stages + 1),
            ):
                reduced[axis] = _reduced(extents[axis], size, tiles)
            return reduced


def _reduced(extent: int, size: int, tiles: int) -> int:
    """At most `tiles` tiles of `size`, the last one as full as the original's last one."""
    if extent <= size * tiles:
        return extent
    return size * (tiles - 1) + (extent % size or size)


def small_instance(module: ModuleOp) -> ModuleOp:
    """A copy of a decided program with small extents and the same decisions."""
    copy = module.clone()
    program = the_program(copy)
    extents = small_extents(program)
    program.properties["axes"] = DictionaryAttr({axis: IntegerAttr(size, i64) for axis, size in extents.items()})
    for argument in list(program.body.block.args):
        tensor = tensor_type(argument)
        shape = [extents[axis] for axis in tensor.axis_names]
        kind = TensorType.of(tensor.axis_names, shape, tensor.stride_elements, tensor.element_kind)
        # The argument is replaced by one of the new type: types of values do not change in place.
        fresh = program.body.block.insert_arg(kind, argument.index)
        argument.replace_all_uses_with(fresh)
        program.body.block.erase_arg(argument)
    decisions = decisions_of(program.attributes["decisions"])
    match decisions:
        case ElementwiseDecisions():
            program.attributes["decisions"] = to_attribute(replace(decisions, ctas=1))
        case PipelineDecisions():
            program.attributes["decisions"] = to_attribute(_small_decisions(decisions, extents))
    return copy


def _small_decisions(decisions: PipelineDecisions, extents: dict[str, int]) -> PipelineDecisions:
    rows, columns, contracted = (extents[axis] for axis in (decisions.rows, decisions.columns, decisions.contracted))

    def operand(item: OperandDecision, outer: int) -> OperandDecision:
        dims = (contracted, outer) if item.major == "K" else (outer, contracted)
        return replace(item, map=replace(item.map, dims=dims))

    def store(item: StoreDecision) -> StoreDecision:
        return replace(item, map=replace(item.map, dims=(columns, rows)))

    return replace(
        decisions,
        a=operand(decisions.a, rows),
        b=operand(decisions.b, columns),
        stores=tuple(store(item) for item in decisions.stores),
        ctas=decisions.cluster_m * decisions.cluster_n,
        fill_ctas=1,
    )


# ---------------------------------------------------------------- comparison of texts


def same_but_for_extents(large: Module, small: Module) -> str:
    """Empty if the two texts are one but for immediates of plain arithmetic; else the first difference, in words."""
    if [kernel.name for kernel in large.kernels] != [kernel.name for kernel in small.kernels]:
        return "the texts have different entries"
    for one, other in zip(large.kernels, small.kernels, strict=True):
        difference = _kernel_difference(one, other)
        if difference:
            return f"{one.name}: {difference}"
    return ""


def _kernel_difference(large: Kernel, small: Kernel) -> str:
    if large.directives != small.directives or len(large.body) != len(small.body):
        return f"{len(large.body)} statements against {len(small.body)}"
    for one, other in zip(large.body, small.body, strict=True):
        match one, other:
            case Label(name), Label(same):
                if name != same:
                    return f"{one.span}: label {name} against {same}"
            case Instruction(), Instruction():
                if _without_extents(one) != _without_extents(other):
                    return f"{one.span}: {one.span.text.strip()} against {other.span.text.strip()}"
            case _:
                return f"{one.span}: a label against an instruction"
    return ""


def _without_extents(instruction: Instruction) -> tuple[object, ...]:
    """An instruction as it must stand in both texts: immediates that may hold extents are left out."""
    operands: tuple[Operand | None, ...] = instruction.operands
    if instruction.row in _ARITHMETIC_ROWS:
        operands = tuple(None if isinstance(item, Immediate) else item for item in operands)
    return (instruction.opcode, operands, instruction.guard)
