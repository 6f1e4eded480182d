"""Which programs of products get an axis of rows, since their own arrays have none?

A product of a vector with each matrix of a batch, as one query with the keys of its sequence, is one of matrices whose
left one has a single row. So where of each product one operand has no axis of its own, an axis of one element is put in
front of it: of the arrays that this operand is loaded from, and of all that is computed of it. An array over one more
axis of one element is the same array; what is stored is held against the program's own meaning in exact arithmetic.

Not handled: programs in which some products have rows and others have none; an array that both operands are loaded
from. Checked by: tests/synth/joining/test_row_axis.py.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.error import TilewrightError
from tilewright.ir.cascade_facts import contractions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, blocks_of
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import grouping, loops, the_grid, the_program
from tilewright.ir.tile.types import IndexType, RuleViolation, TensorType
from tilewright.synth.cut.further_axis import FurtherAxis
from tilewright.synth.cut.handover import free_name, program_of
from tilewright.synth.streaming.graph import Graph, Node, Stored, below, read
from tilewright.synth.streaming.made_up import points
from tilewright.synth.streaming.meaning import Array, meaning

_EXTENTS = (1, 2)
"""Of each axis, one after the other, at which the two programs are compared."""


def with_rows(module: ModuleOp) -> ModuleOp:
    """The program with an axis of rows, of one element; the module itself where it needs none, or none can be had."""
    program = the_program(module)
    if loops(program) or grouping(program) is not None or not contractions(program):
        return module
    graph, stored = read(program)
    leaves = _arrays_of_vectors(stored)
    if not leaves:
        return module
    rows = free_name("rows", [*program.extents, *(name.data for name in program.parameters)])
    try:
        found = _over_rows(program, graph, stored, leaves, rows)
    except (RuleViolation, ValueError):
        return module  # more axes than a tile has, or in an order that none has
    if found is None:
        return module
    _require_same(program, the_program(found), rows)
    return found


def _arrays_of_vectors(stored: tuple[Stored, ...]) -> set[Node]:
    """The tensors that operands without an axis of their own are loaded from; none where a product has two of them, or
    none."""
    vectors: list[Node] = []
    others: list[Node] = []
    for product in below([each.value for each in stored]):
        if product.what is ContractOp:
            bare = [_has_none_of_its_own(product, at) for at in (0, 1)]
            if bare.count(True) != 1:
                return set()
            vectors.append(product.operands[bare.index(True)])
            others.append(product.operands[bare.index(False)])
    # What another product gives has the rows of that one's operand.
    first = [each for each in vectors if not any(node.what is ContractOp for node in below([each]))]
    return _loaded(first) - _loaded(others)


def _has_none_of_its_own(product: Node, at: int) -> bool:
    """Whether the other operand has all axes of one, but for the one that is summed over."""
    own, other = (set(map(base_axis, product.operands[each].axes)) - {product.axis} for each in (at, 1 - at))
    return own <= other


def _loaded(values: list[Node]) -> set[Node]:
    """The tensors of floats that values are loaded from."""
    found = {node for node in below(values) if isinstance(node.what, tuple) and node.what[0] == "tensor"}
    return {node for node in found if isinstance(node.type, TensorType) and node.type.element_kind.bytes < 4}


def _over_rows(
    program: tile.ProgramOp, graph: Graph, stored: tuple[Stored, ...], leaves: set[Node], rows: str
) -> ModuleOp | None:
    grid, extents = the_grid(program), {rows: 1, **program.extents}
    over = FurtherAxis(graph, rows)
    over.index = graph.leaf("grid", len(grid.axis_names), IndexType.of(rows), grid.place.data)
    tensors: dict[Node, tuple[str, TensorType]] = {}
    for number, argument in enumerate(program.body.block.args):
        kind, leaf = argument.type, graph.leaf("tensor", number, argument.type)
        assert isinstance(kind, TensorType)
        if leaf in leaves or any(each.tensor is leaf for each in stored):
            span = max(e * s for e, s in zip(kind.extents, kind.stride_elements, strict=True))
            wider = TensorType.of(
                (rows, *kind.axis_names), (1, *kind.extents), (span, *kind.stride_sizes), kind.element_kind,
                kind.refinement,
            )  # fmt: skip
            over.known[leaf] = graph.leaf("tensor", number, wider)
            tensors[over.known[leaf]] = (program.parameters.data[number].data, wider)
    values = [over.value(each.value) for each in stored]
    if any(rows not in value.axes for value in values):
        return None
    roots = [
        Stored(value, over.known[each.tensor], (over.index, *each.indices), each.place)
        for value, each in zip(values, stored, strict=True)
    ]
    return program_of(program, graph, program.sym_name.data, roots, tensors, rows, extents)


def _require_same(program: tile.ProgramOp, other: tile.ProgramOp, rows: str) -> None:
    """Raises TilewrightError where the program over rows stores other numbers than the one that it was made of."""
    for length in _EXTENTS:
        extents = {axis: length for axis in program.extents if blocks_of(axis) is None}
        of = partial(meaning, program, extents, cut=())
        for inputs, expected in points(program, extents, random.Random(length), of):
            got = meaning(other, {**extents, rows: 1}, _seen(other, inputs, rows), ())
            for name, values in expected.items():
                found = got[name].reshape(values.shape)
                if not all(a is not None and a.same(b) for a, b in zip(found.flat, values.flat, strict=True)):
                    raise TilewrightError(
                        f"{program.sym_name.data} over an axis of one row stores other numbers in {name}",
                        remedy="this is a fault of the compiler; please report the program",
                    )


def _seen(program: tile.ProgramOp, inputs: Mapping[str, Array], rows: str) -> dict[str, Array]:
    """The arrays as the program over rows sees them."""
    found = dict(inputs)
    for name, argument in zip(program.parameters, program.body.block.args, strict=True):
        kind = argument.type
        if isinstance(kind, TensorType) and rows in kind.axis_names and name.data in found:
            found[name.data] = found[name.data][None]
    return found
