"""How a program that folds its points along an axis becomes one `ac.elementwise` over rows.

The region is the program at one point: loads first, then what is computed, each once, whichever stores need it.
Checked by: tests/lower/points/test_rows.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Block, Region, SSAValue

from tilewright.base.size import Size, product
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import ElementwiseDecisions, to_attribute
from tilewright.ir.rows import BUFFER_BYTES, RowDecision
from tilewright.ir.sizes import size_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import grid_axes, parameter_name, reductions, stores
from tilewright.ir.tile.gather import read_tensor
from tilewright.ir.tile.reduce import ArgReduceOp
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.build import INDEX, new_kernel, new_role, shared_buffer, wait_for_launch_before
from tilewright.lower.expression import (
    element_load,
    loads_in,
    point_value,
    position,
    positions_in,
    unrounded,
)
from tilewright.lower.points.narrow_rows import emit_simplified
from tilewright.lower.program import arrays_of, sources_of


def row_kernel(program: tile.ProgramOp, decisions: ElementwiseDecisions) -> ModuleOp:
    """The kernel of a program whose decisions share rows."""
    (row,) = decisions.rows
    others = [axis for axis in grid_axes(program) if axis not in (row.axis, row.across)]
    axes = (*others, *([row.across] if row.across else []), row.axis)
    folds = reductions(program)
    scratch = row.partial_bytes(len(folds), sum(2 if isinstance(op, ArgReduceOp) else 1 for op in folds))
    begins = -(-scratch // BUFFER_BYTES) * BUFFER_BYTES
    found = dict.fromkeys(load for store in stores(program) for load in loads_in(store.value))
    kept = [load for load in found if _is_kept(program, load, row)]
    element_bytes = sum(tensor_type(load.tensor).element_kind.bytes for load in kept)
    waiting = row.kept_bytes(program.extents[row.axis], element_bytes)
    name = program.sym_name.data
    extents = [program.sizes[axis] for axis in axes]
    ctas: Size = decisions.ctas
    if program.run_time:
        ctas = row.grid(product(extents[:-1]), decisions.threads)
    bytes_of_cta = begins + waiting if waiting else scratch
    module, build = new_kernel(
        name,
        {},
        (ctas, 1, 1),
        (row.ctas, 1, 1),
        decisions.threads,
        bytes_of_cta,
        decisions.launch_registers,
        program.run_time,
    )
    arrays = arrays_of(build, program)
    through = [shared_buffer(build, "partials", 0, scratch)] if scratch else []
    through += [shared_buffer(build, "kept", begins, waiting)] if waiting else []
    if decisions.programmatic:
        wait_for_launch_before(build, releases_first=bool(decisions.releases_first))
    role, _ = new_role(build, "threads", "warp32", decisions.threads // 32, 0, 0)
    body = Block(arg_types=[INDEX] * len(axes))
    properties = {"extents": size_array(extents), "run": IntAttr(1), "rows": to_attribute(row)}
    role.add(ac.ElementwiseOp.create(operands=through, properties=properties, regions=[Region(body)]))
    inner, sources = role.inside(body), sources_of(program, arrays)
    places: dict[str, SSAValue] = dict(zip(axes, body.args, strict=True))
    leaves: dict[SSAValue, SSAValue] = {load.result: element_load(inner, load, places, sources) for load in found}
    numbers = dict.fromkeys(each for store in stores(program) for each in positions_in(store.value))
    leaves |= {each.result: position(inner, each, places) for each in numbers}
    for store in stores(program):
        if row.narrow:
            emit_simplified(inner, unrounded(store.value), row.axis, leaves)
        value = point_value(inner, unrounded(store.value), leaves)
        indices = [places[axis] for axis in tensor_type(store.tensor).axis_names]
        destination = arrays[parameter_name(program, store.tensor)]
        inner.add(ac.ElementStoreOp.create(operands=[value, destination, *indices]))
    return module


def _is_kept(program: tile.ProgramOp, load: tile.LoadOp, row: RowDecision) -> bool:
    """Whether what is loaded waits in shared memory."""
    tensor = read_tensor(load.tensor)
    return parameter_name(program, tensor) in row.kept and row.axis in tensor_type(tensor).axis_names
