"""How a tile program with its decisions becomes asynchronous-contract kernels.

A program with a dot becomes one warp-specialized kernel (`lower.pipeline`); an operand that no tensor map describes is
first materialized in a workspace by an element-by-element kernel of its own. A program without dot is one such kernel.

Everything chosen here was chosen by `synth` and stands in the program's `decisions` attribute; what the result means is
proved again by `contract`, which does not read this file. Checked by: tests/lower/test_values.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.base.plan import Buffer
from tilewright.ir import ac, tile
from tilewright.ir.decisions import (
    RUN_BYTES,
    Decisions,
    ElementwiseDecisions,
    OperandDecision,
    PipelineDecisions,
    decisions_of,
)
from tilewright.ir.tier import int_array
from tilewright.ir.tile_facts import buffers, dots, grid_axes, parameter_name, stores
from tilewright.ir.tile_types import tensor_type
from tilewright.lower.build import INDEX, Build, global_array, new_kernel, new_role
from tilewright.lower.expression import element_body, loads_in
from tilewright.lower.pipeline import pipeline_kernel
from tilewright.lower.program import sources_of


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """One ac kernel in a module of its own."""

    name: str
    module: ModuleOp


@dataclass(frozen=True, slots=True)
class LoweredProgram:
    """Kernels in launch order, and the arrays they use: the program's parameters, then workspaces."""

    kernels: tuple[LoweredKernel, ...]
    buffers: tuple[Buffer, ...]


def lower_program(program: tile.ProgramOp) -> LoweredProgram:
    """Apply the decisions on `program`.

    Raises ValueError if it carries none.
    """
    attribute = program.attributes.get("decisions")
    if attribute is None:
        raise ValueError(f"program {program.sym_name.data} carries no decisions")
    decisions: Decisions = decisions_of(attribute)
    match decisions:
        case ElementwiseDecisions():
            module = _elementwise_kernel(program, decisions)
            return LoweredProgram((LoweredKernel(program.sym_name.data, module),), buffers(program))
        case PipelineDecisions():
            return _pipeline_program(program, decisions)


def _elementwise_kernel(program: tile.ProgramOp, decisions: ElementwiseDecisions) -> ModuleOp:
    axes = grid_axes(program)
    extents = tuple(program.extents[axis] for axis in axes)
    module, build = new_kernel(program.sym_name.data, {}, (decisions.ctas, 1, 1), (1, 1, 1), decisions.threads, 0, 0)
    arrays = {buffer.name: global_array(build, buffer) for buffer in buffers(program)}
    body, role = _points(build, decisions.threads, extents)
    places: dict[str, SSAValue] = dict(zip(axes, body.args, strict=True))
    inner = role.inside(body)
    for store in stores(program):
        value = element_body(inner, store.value, places, sources_of(program, arrays))
        indices = [places[axis] for axis in tensor_type(store.tensor).axis_names]
        destination = arrays[parameter_name(program, store.tensor)]
        inner.add(ac.ElementStoreOp.create(operands=[value, destination, *indices]))
    return module


def _points(build: Build, threads: int, extents: tuple[int, ...], run: int = 1) -> tuple[Block, Build]:
    role, _ = new_role(build, "threads", "warp32", threads // 32, 0, 0)
    body = Block(arg_types=[INDEX] * len(extents))
    properties: dict[str, Attribute] = {"extents": int_array(extents), "run": IntAttr(run)}
    role.add(ac.ElementwiseOp.create(properties=properties, regions=[Region(body)]))
    return body, role


def _materialize(
    program: tile.ProgramOp,
    decisions: PipelineDecisions,
    operand: OperandDecision,
    value: SSAValue,
    axes: tuple[str, str],
) -> tuple[LoweredKernel, Buffer]:
    """A kernel that computes a dot operand into a workspace whose rows a tensor map can describe.

    axes: (outer, contracted) names of the operand.
    """
    inner_axis, outer_axis = (axes[1], axes[0]) if operand.major == "K" else (axes[0], axes[1])
    element = operand.map.tensor_map().element
    run = RUN_BYTES // element.bytes
    # Rows are filled to a whole number of runs; what lies past the operand's end is 0, and no tensor map reads it.
    extents = (program.extents[outer_axis], -(-program.extents[inner_axis] // run) * run)
    padded = frozenset({inner_axis}) if extents[1] != program.extents[inner_axis] else frozenset[str]()
    pitch = operand.map.strides_bytes[0] // element.bytes
    workspace = Buffer(operand.buffer, element, extents, (pitch, 1), "workspace")
    name = f"{program.sym_name.data}_{operand.buffer}"
    module, build = new_kernel(name, {}, (decisions.fill_ctas, 1, 1), (1, 1, 1), decisions.fill_threads, 0, 0)
    wanted = {id(load.tensor) for load in loads_in(value)}
    arrays = {
        buffer.name: global_array(build, buffer)
        for buffer, argument in zip(buffers(program), program.body.block.args, strict=True)
        if id(argument) in wanted
    }
    destination = global_array(build, workspace)
    body, role = _points(build, decisions.fill_threads, extents, run)
    inner = role.inside(body)
    places: dict[str, SSAValue] = {outer_axis: body.args[0], inner_axis: body.args[1]}
    result = element_body(inner, value, places, sources_of(program, arrays), padded)
    inner.add(ac.ElementStoreOp.create(operands=[result, destination, *body.args]))
    return LoweredKernel(name, module), workspace


def _pipeline_program(program: tile.ProgramOp, decisions: PipelineDecisions) -> LoweredProgram:
    kernels: list[LoweredKernel] = []
    arrays = list(buffers(program))
    (dot,) = dots(program)
    sides = {"left": dot.left, "right": dot.right}
    for operand, outer in ((decisions.a, decisions.rows), (decisions.b, decisions.columns)):
        if operand.materialized:
            kernel, workspace = _materialize(
                program, decisions, operand, sides[operand.side], (outer, decisions.contracted)
            )
            kernels.append(kernel)
            arrays.append(workspace)
    kernels.append(LoweredKernel(program.sym_name.data, pipeline_kernel(program, decisions)))
    return LoweredProgram(tuple(kernels), tuple(arrays))
