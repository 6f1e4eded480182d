"""How a tile program with its decisions becomes asynchronous-contract kernels.

A program that walks an axis by tiles, with products and folds along it, becomes one warp-specialized kernel
(`lower.cascade`). Any other one has no product: its threads share points, or rows (`lower.points.row_kernel`).

Everything chosen here was chosen by `synth` and stands in the program's `decisions` attribute; what the result means is
proved again by `contract`, which does not read this file. Checked by: tests/lower/test_values.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.base.plan import Buffer
from tilewright.base.size import Range, Size, ceil_div, computed, product
from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import (
    Decisions,
    ElementwiseDecisions,
    decisions_of,
    to_attribute,
)
from tilewright.ir.sizes import size_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers, grid_axes, parameter_name, run_axes, stores
from tilewright.ir.tile.types import tensor_type
from tilewright.ir.transpose import TransposeDecision
from tilewright.lower.build import (
    INDEX,
    Build,
    global_array,
    name_arrays_apart,
    new_kernel,
    new_role,
    shared_buffer,
    wait_for_launch_before,
)
from tilewright.lower.cascade.kernel import cascade_kernel
from tilewright.lower.expression import element_body
from tilewright.lower.points.expression_order import add_in_order
from tilewright.lower.points.row_kernel import row_kernel
from tilewright.lower.program import arrays_of, shape_of, sources_of, stride_sizes


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """One ac kernel in a module of its own."""

    name: str
    module: ModuleOp


@dataclass(frozen=True, slots=True)
class LoweredProgram:
    """Kernels in launch order, and the arrays they use: the program's parameters, then workspaces. ranges: of its
    run-time axes; shapes, strides: of the arrays, where there are such axes."""

    kernels: tuple[LoweredKernel, ...]
    buffers: tuple[Buffer, ...]
    ranges: tuple[tuple[str, Range], ...] = ()
    shapes: tuple[tuple[Size, ...], ...] = ()
    strides: tuple[tuple[Size, ...], ...] = ()


def lower_program(program: tile.ProgramOp) -> LoweredProgram:
    """Apply the decisions on `program`.

    Raises ValueError if it carries none.
    """
    attribute = program.attributes.get("decisions")
    if attribute is None:
        raise ValueError(f"program {program.sym_name.data} carries no decisions")
    decisions: Decisions = decisions_of(attribute)
    lowered = _lowered(program, decisions)
    for kernel in lowered.kernels:
        name_arrays_apart(kernel.module)
    if not program.run_time:
        return lowered
    parameters = {name.data: shape_of(program, name.data) for name in program.parameters}
    shapes = tuple(parameters.get(buffer.name, buffer.shape) for buffer in lowered.buffers)
    apart = {name.data: stride_sizes(program, name.data) for name in program.parameters}
    strides = tuple(apart.get(buffer.name, buffer.strides) for buffer in lowered.buffers)
    return replace(lowered, ranges=tuple(program.run_time.items()), shapes=shapes, strides=strides)


def _lowered(program: tile.ProgramOp, decisions: Decisions) -> LoweredProgram:
    match decisions:
        case ElementwiseDecisions():
            build = row_kernel if decisions.rows else _elementwise_kernel
            module = build(program, decisions)
            arrays = _of_whole_runs(program, decisions) if decisions.run > 1 else buffers(program)
            return LoweredProgram((LoweredKernel(program.sym_name.data, module),), arrays)
        case CascadeDecisions():
            module, workspaces = cascade_kernel(program, decisions)
            arrays = (*buffers(program), *workspaces)
            return LoweredProgram((LoweredKernel(program.sym_name.data, module),), arrays)


def _elementwise_kernel(program: tile.ProgramOp, decisions: ElementwiseDecisions) -> ModuleOp:
    axes = grid_axes(program)
    extents = tuple(program.sizes[axis] for axis in axes)
    turned = decisions.transpose
    smem = max([each.smem_bytes for each in turned], default=0)
    ctas: Size = decisions.ctas
    if program.run_time:
        # No more than have a point for each of their threads.
        ctas = computed("min", ceil_div(product(extents), decisions.threads), decisions.ctas)
    name, threads = program.sym_name.data, decisions.threads
    module, build = new_kernel(
        name, {}, (ctas, 1, 1), (1, 1, 1), threads, smem, decisions.launch_registers, program.run_time
    )
    in_runs = stores(program) if decisions.run > 1 else ()
    along = {parameter_name(program, store.tensor): run_axes(program, store) for store in in_runs}
    arrays = {} if in_runs else arrays_of(build, program)
    for each in _of_whole_runs(program, decisions) if in_runs else ():
        ordered = _ordered(program, each, along[each.name]) if each.name in along else each
        arrays[each.name] = global_array(build, ordered)
    through = [shared_buffer(build, "turned", 0, smem)] if turned else []
    if decisions.programmatic:
        wait_for_launch_before(build, releases_first=bool(decisions.releases_first))
    role, _ = new_role(build, "threads", "warp32", decisions.threads // 32, 0, 0)
    for store in in_runs:
        _add_runs(role, program, decisions, store, arrays)
    if in_runs:
        return module
    body = _points(role, extents, 1, turned, through)
    places: dict[str, SSAValue] = dict(zip(axes, body.args, strict=True))
    inner = role.inside(body)
    if decisions.order:
        add_in_order(inner, program, decisions.order, places, arrays)
        return module
    for store in stores(program):
        value = element_body(inner, store.value, places, sources_of(program, arrays))
        indices = [places[axis] for axis in tensor_type(store.tensor).axis_names]
        destination = arrays[parameter_name(program, store.tensor)]
        inner.add(ac.ElementStoreOp.create(operands=[value, destination, *indices]))
    return module


def whole_runs(extent: int, run: int) -> int:
    """An extent as it is taken by runs."""
    return -(-extent // run) * run


def _ordered(program: tile.ProgramOp, buffer: Buffer, axes: Sequence[str]) -> Buffer:
    """A result's array with its dimensions in the order of these axes: runs are stored along the last one."""
    store = next(each for each in stores(program) if parameter_name(program, each.tensor) == buffer.name)
    order = [tensor_type(store.tensor).axis_names.index(axis) for axis in axes]
    shape, strides = (tuple(sizes[at] for at in order) for sizes in (buffer.shape, buffer.strides))
    return replace(buffer, shape=shape, strides=strides)


def _of_whole_runs(program: tile.ProgramOp, decisions: ElementwiseDecisions) -> tuple[Buffer, ...]:
    """The program's arrays, results with rows of whole runs: what lies past a row's end is 0, and nobody reads it."""
    ends = {parameter_name(program, store.tensor): run_axes(program, store)[-1] for store in stores(program)}
    found: list[Buffer] = []
    for buffer, argument in zip(buffers(program), program.body.block.args, strict=True):
        axes = tensor_type(argument).axis_names
        shape = tuple(
            whole_runs(extent, decisions.run) if ends.get(buffer.name) == axis else extent
            for axis, extent in zip(axes, buffer.shape, strict=True)
        )
        found.append(replace(buffer, shape=shape))
    return tuple(found)


def _add_runs(
    role: Build,
    program: tile.ProgramOp,
    decisions: ElementwiseDecisions,
    store: tile.StoreOp,
    arrays: dict[str, SSAValue],
) -> None:
    """Threads take runs of the points of one result."""
    axes = run_axes(program, store)
    *others, last = (program.extents[axis] for axis in axes)
    whole = whole_runs(last, decisions.run)
    body = _points(role, (*others, whole), decisions.run, kept=decisions.kept)
    inner = role.inside(body)
    places: dict[str, SSAValue] = dict(zip(axes, body.args, strict=True))
    padded = frozenset(axes[-1:] if whole != last else ())
    value = element_body(inner, store.value, places, sources_of(program, arrays), padded)
    destination = arrays[parameter_name(program, store.tensor)]
    inner.add(ac.ElementStoreOp.create(operands=[value, destination, *body.args]))


def _points(
    role: Build,
    extents: Sequence[Size],
    run: int,
    turned: Sequence[TransposeDecision] = (),
    through: Sequence[SSAValue] = (),
    kept: int = 0,
) -> Block:
    """The body that a role's threads run for every point. kept: as in `ac.elementwise`."""
    body = Block(arg_types=[INDEX] * len(extents))
    properties: dict[str, Attribute] = {"extents": size_array(extents), "run": IntAttr(run)}
    if turned:
        properties["transpose"] = to_attribute(turned[0])
    if kept:
        properties["kept"] = IntAttr(kept)
    role.add(ac.ElementwiseOp.create(operands=list(through), properties=properties, regions=[Region(body)]))
    return body
