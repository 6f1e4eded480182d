"""How a program without dot is emitted for one point, node by node in the order that was decided.

What a node reads was emitted before it, or it is emitted with it: an order can cost registers, never a value.
Checked by: tests/lower/points/test_expression_order.py, which runs such kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.expression_nodes import expression_nodes
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.build import Build
from tilewright.lower.expression import element_load, point_value, position, unrounded
from tilewright.lower.program import sources_of


def add_in_order(
    build: Build,
    program: tile.ProgramOp,
    order: Sequence[int],
    places: Mapping[str, SSAValue],
    arrays: dict[str, SSAValue],
) -> None:
    """All loads, operations and stores at the point `places`. order: of the numbers of `ir.expression_nodes`.

    Raises ValueError for an order that has not every node once, or a load behind what reads it.
    """
    expressions = expression_nodes(program)
    if sorted(order) != list(range(len(expressions.nodes))):
        raise ValueError("an order has every node once")
    sources, point = sources_of(program, arrays), dict(places)
    leaves: dict[SSAValue, SSAValue] = {}
    done: set[int] = set()
    for number in order:
        if not done.issuperset(expressions.reads[number]):
            raise ValueError(f"node {number} comes before what it reads")
        done.add(number)
        node = expressions.nodes[number]
        match node:
            case tile.PositionOp():
                leaves[node.result] = position(build, node, point)
            case tile.LoadOp():
                leaves[node.result] = element_load(build, node, point, sources)
            case tile.StoreOp():
                indices = [places[axis] for axis in tensor_type(node.tensor).axis_names]
                value = point_value(build, unrounded(node.value), leaves)
                destination = arrays[parameter_name(program, node.tensor)]
                build.add(ac.ElementStoreOp.create(operands=[value, destination, *indices]))
            case tile.CastOp() if unrounded(node.result) is not node.result and _is_stored_only(node):
                pass  # the store rounds
            case _:
                point_value(build, node.result, leaves)


def _is_stored_only(node: tile.CastOp) -> bool:
    return all(isinstance(use.operation, tile.StoreOp) for use in node.result.uses)
