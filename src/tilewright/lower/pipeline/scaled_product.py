"""How a dot is summed in two levels: each slot's product apart, promoted to a total, scaled or as it is.

Where terms are scaled by blocks of the contracted axis, a slot is as deep as the blocks are, so that one number scales
all terms of a slot at a place. Scales may be any elementwise expression of tensors over the accumulator's axes, or
blocks of them, and blocks of the contracted axis; the numbers are loaded before the wait for the slot that they belong
to. Several scales are multiplied with one another first and with the partial product then.

Not handled: scales displaced by `+ 1`; blocks of which the least is no slot's depth (both refused by `synth`).
Checked by: tests/lower/test_block_scales.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue

from tilewright.ir.ac.promotion import ScalesLoadOp, ScalesType
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.build import Build
from tilewright.lower.expression import loads_in, point_value, scalar_function
from tilewright.lower.program import sources_of
from tilewright.lower.two_levels import add_product


def scale_loads(dot: tile.DotOp) -> list[tile.LoadOp]:
    """The loads that a dot's scales read; each once, in order."""
    return list(dict.fromkeys(load for scale in dot.scales for load in loads_in(scale)))


def load_scales(
    build: Build,
    program: tile.ProgramOp,
    dot: tile.DotOp,
    d: PipelineDecisions,
    place: tuple[SSAValue, SSAValue, SSAValue],
    arrays: dict[str, SSAValue],
) -> list[SSAValue]:
    """The numbers of each of `scale_loads` in one slice. place: the unit's first row, its first column, the slice."""
    letters = {d.rows: "m", d.columns: "n", d.contracted: "k"}
    sources = sources_of(program, arrays)
    kind = ScalesType(IntAttr(d.tile_m // d.consumers), IntAttr(d.tile_n))
    loaded: list[SSAValue] = []
    for load in scale_loads(dot):
        axes = tensor_type(load.tensor).axis_names
        blocks = {letters[base_axis(axis)]: block_size(axis) for axis in axes}
        op = ScalesLoadOp.create(
            operands=[sources[load.tensor], *place],
            properties={
                "axes": StringAttr("".join(blocks)),
                "blocks": int_array(list(blocks.values())),
                "depth": IntAttr(d.tile_k),
                "column_run": IntAttr(math.gcd(d.tile_n, blocks.get("n", 0))),
            },
            result_types=[kind],
        )
        loaded.append(build.value(op))
    return loaded


def promote(build: Build, dot: tile.DotOp, total: SSAValue, partial: SSAValue, loaded: Sequence[SSAValue]) -> SSAValue:
    """The total with one slot's partial product, scaled if it is, added. loaded: from `load_scales`."""

    def scale(inner: Build, numbers: Sequence[SSAValue]) -> SSAValue:
        leaves: dict[SSAValue, SSAValue] = {
            load.result: number for load, number in zip(scale_loads(dot), numbers, strict=True)
        }
        first, *others = [point_value(inner, each, leaves) for each in dot.scales]
        for other in others:
            first = scalar_function(inner, "mul", first, other)
        return first

    return add_product(build, total, partial, loaded, scale) if dot.scales else add_product(build, total, partial)
