"""Which values of a program may be handed over through a workspace, and what are the programs before and after?

Theory: a program is a graph of values (`streaming.graph`), and every value divides it: what the value is computed
from, and what is computed with it. The program before stores the value, and whatever else is stored that shares a sum
with it; the program after has a load in its place. Sums (folds and products) are what costs; no cut is proposed that
computes one of them on both sides. Of all values three kinds are proposed, since between them lies only arithmetic that
costs nothing on either side: what a sum gives, what a product takes, and what was rounded to fewer bits. Several values
are proposed together where what is stored is computed of them point by point, as a softmax is of its two sums. Where
one kernel does not hold all results, each may be computed by one of its own (`apart`), at the price of shared sums.

A workspace is dense in the value's own order of axes and of the value's own element, so that nothing is rounded that
the program does not round; its rows begin at multiples of 16 bytes, as copies ask.

Not handled: programs with loops or groups; values over blocks of an axis, or of integers (but the number that they
are in arithmetic is a float32); other values together.
Checked by: tests/synth/cut/test_handover.py, and each cut by `certificate`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Region, SSAValue

from tilewright.base.element import Element
from tilewright.ir.decisions import RUN_BYTES
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, blocks_of
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import grouping, loops, the_grid
from tilewright.ir.tile.gather import GatherOp
from tilewright.ir.tile.product import DOT_ELEMENTS
from tilewright.ir.tile.reduce import ArgReduceOp
from tilewright.ir.tile.rules import violations
from tilewright.ir.tile.types import GroupType, IndexType, RuleViolation, TensorType, ValueType
from tilewright.synth.streaming.graph import Graph, Node, Stored, below, read
from tilewright.targets import Target

_HANDED = (Element.F32, Element.BF16, Element.F16, Element.F8E4M3, Element.F8E5M2)
_FREE = (tile.LoadOp, tile.CastOp, tile.BroadcastOp, tile.TransposeOp, tile.ConstantOp, tile.FullOp, tile.PositionOp)
"""What computes nothing: a value of these alone is loaded on either side, but for one that tables lead to, which may be
laid out once."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Programs in the place of one, in launch order. workspaces: the arrays that the first stores and the others load;
    size_bytes: of them; place: the author's line of the value; divides_sums: whether the first and another have sums;
    parts: of an axis that the first folds in parts, 0 where it does not; overlap: elements that two neighbours of them
    have both."""

    programs: tuple[ModuleOp, ...]
    workspaces: tuple[str, ...]
    size_bytes: int
    place: str
    divides_sums: bool
    parts: int = 0
    overlap: int = 0


def cuts(program: tile.ProgramOp) -> Iterator[Cut]:
    """Every cut that is proposed, in the order of the values. program: verified, as traced."""
    if loops(program) or grouping(program) is not None:
        return
    graph, stored = _rounded_once(*read(program))
    for values in _proposed(stored):
        cut = _cut(program, graph, stored, values)
        if cut is not None:
            yield cut


def apart(program: tile.ProgramOp) -> Cut | None:
    """One program for each array that is stored, with no workspace between them, whatever they compute twice; None for
    a single result, or where one is no program."""
    if loops(program) or grouping(program) is not None:
        return None
    graph, stored = read(program)
    results: dict[Node, list[Stored]] = {}
    for each in stored:
        results.setdefault(each.tensor, []).append(each)
    name = program.sym_name.data
    found = [
        program_of(program, graph, f"{name}_{number}", stores, {}) for number, stores in enumerate(results.values(), 1)
    ]
    modules = tuple(module for module in found if module is not None)
    if len(modules) < max(2, len(found)):
        return None
    return Cut(modules, (), 0, stored[0].place, True)


def _rounded_once(graph: Graph, stored: Sequence[Stored]) -> tuple[Graph, list[Stored]]:
    """The same program with the rounding of each product's operand, which the product implies, as a value."""

    def rule(node: Node) -> Node:
        if node.what is not ContractOp:
            return node
        left, right = node.operands
        narrow = next((each.element for each in node.operands if each.element in DOT_ELEMENTS), None)
        if narrow is None:
            return node
        left, right = (_as_element(graph, each, narrow) for each in (left, right))
        return graph.contract(left, right, node.axis, node.axes, node.place)

    done = graph.mapped([each.value for each in stored], rule)
    return graph, [replace(each, value=done[each.value]) for each in stored]


def _as_element(graph: Graph, node: Node, element: Element) -> Node:
    """The value rounded to an element, or as it was before it was widened from there."""
    if node.what is tile.CastOp and node.operands[0].element is element:
        return node.operands[0]
    return graph.cast(node, element, node.place)


def _is_sum(node: Node) -> bool:
    return node.is_sum or node.what is ArgReduceOp


def _proposed(stored: Sequence[Stored]) -> Iterator[tuple[Node, ...]]:
    """The values that are proposed: single ones, and all sums from which what is stored is computed point by point."""
    yield from ((value,) for value in _values(stored))
    last = [node for node in below([each.value for each in stored], _is_sum) if _is_sum(node)]
    if len(last) > 1 and all(map(_may_be_handed_over, last)):
        yield tuple(last)


def _values(stored: Sequence[Stored]) -> list[Node]:
    """The single values that are proposed."""
    found: dict[Node, None] = {}
    nodes = below([each.value for each in stored])
    for node in nodes:
        if _is_sum(node):
            found[node] = None
        if node.what is ContractOp:
            found |= dict.fromkeys(map(_bare, node.operands))
        if node.what is tile.CastOp and node.element.bytes < node.operands[0].element.bytes:
            found[_bare(node)] = None
        if node.what is tile.CastOp and node.operands[0].what is ArgReduceOp:
            found[node] = None  # the number, which float32 has exactly
    whole = {each.value for each in stored}
    return [node for node in nodes if node in found and node not in whole and _may_be_handed_over(node)]


def _bare(node: Node) -> Node:
    """A value without what only repeats or turns it."""
    return _bare(node.operands[0]) if node.what in (tile.BroadcastOp, tile.TransposeOp) else node


def _may_be_handed_over(node: Node) -> bool:
    computed = any(
        (each.is_tile and each.what not in _FREE) or each.what is GatherOp or _widens_bytes(each)
        for each in below([node])
    )
    return (
        computed and bool(node.axes) and node.element in _HANDED and all(blocks_of(axis) is None for axis in node.axes)
    )


def _widens_bytes(node: Node) -> bool:
    """Whether numbers of 8 bits become wider: on their way to a tensor core threads take a part in that."""
    return node.what is tile.CastOp and node.operands[0].element.bytes == 1


def _cut(program: tile.ProgramOp, graph: Graph, stored: Sequence[Stored], values: Sequence[Node]) -> Cut | None:
    """The cut at some values; None where a sum would be computed on both sides, or a side is no program."""
    extents, name = program.extents, program.sym_name.data
    names = [each.data for each in program.parameters]
    tensors: dict[Node, tuple[str, TensorType]] = {}
    first, second = list[Stored](), list[Stored]()
    loaded: dict[Node, Node] = {}
    for number, value in enumerate(values):
        axes = _handed_axes(value, stored)
        if any(axis in program.run_time for axis in axes[1:]):
            return None  # its strides would not be known
        shape = [extents[axis] for axis in axes]
        try:
            tensor = TensorType.of(axes, shape, padded_strides(shape, value.element), value.element)
        except RuleViolation:
            return None  # more elements than an array has
        leaf = graph.leaf("tensor", len(names) + number, tensor)
        workspace = f"{name}_1_result" if len(values) == 1 else f"{name}_1_result_{number}"
        tensors[leaf] = (free_name(workspace, names), tensor)
        indices = tuple(_index(program, graph, axis) for axis in axes)
        first.append(Stored(graph.broadcast(value, axes, value.place), leaf, indices, value.place))
        found = graph.node(tile.LoadOp, (leaf, *indices), ValueType.of(axes, value.element), value.place)
        loaded[value] = graph.broadcast(found, value.axes, value.place)
    sums = _sums(values)
    for each in stored:
        depends = any(value in loaded for value in below([each.value]))
        (first if not depends and sums & _sums([each.value]) else second).append(each)
    second = [replace(each, value=graph.replaced(each.value, loaded)) for each in second]
    sums, left = (_sums([each.value for each in stores]) for stores in (first, second))
    if not second or sums & left:
        return None
    before, after = (
        program_of(program, graph, f"{name}_{number}", stores, tensors) for number, stores in ((1, first), (2, second))
    )
    if before is None or after is None:
        return None
    workspaces = tuple(workspace for workspace, _ in tensors.values())
    size_bytes = sum(array_bytes(tensor) for _, tensor in tensors.values())
    return Cut((before, after), workspaces, size_bytes, values[0].place, bool(sums and left))


def _handed_axes(value: Node, stored: Sequence[Stored]) -> tuple[str, ...]:
    """The axes of a workspace for a value: in its own order, but that no batch of a product that takes it comes last,
    since no tensor map brings rows that are not contiguous along an axis of the product."""
    for node in below([each.value for each in stored]):
        if node.what is ContractOp and value in map(_bare, node.operands):
            left, right = node.operands
            batch = {axis for axis in left.axes if axis in right.axes and axis != node.axis}
            if len(value.axes) > 2 and value.axes[-1] in batch:
                return tuple(sorted(value.axes, key=lambda axis: axis not in batch))
    return value.axes


def _sums(roots: Sequence[Node]) -> set[Node]:
    return {node for node in below(roots) if _is_sum(node)}


def free_name(name: str, taken: Sequence[str]) -> str:
    return name if name not in taken else free_name(f"{name}_", taken)


def padded_strides(shape: Sequence[int], element: Element) -> list[int]:
    """Of a dense array whose rows begin at whole runs."""
    run = RUN_BYTES // element.bytes
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * (-(-extent // run) * run if strides[0] == 1 else extent))
    return strides


def strides_on_lines(shape: Sequence[int], element: Element, target: Target) -> list[int]:
    """The same with rows that begin at multiples of a line of the caches, or of a sector of one, so that boxes are
    fetched from no more of them than they fill; unless that were to make it larger by more than a third.

    `python -m bench cliffs` on an H200 with rows at multiples of 16 bytes, and so: "small odd K" 12.8 and 8.8 us, "all
    odd" 298 and 263 us.
    """
    *_, pitch, inner = padded_strides([1, 1, *shape], element)
    multiples = (target.limit(f"device.{part}_bytes") // element.bytes for part in ("line", "sector"))
    longer = (-(-pitch // multiple) * multiple for multiple in multiples)
    pitch = next((each for each in longer if 3 * each <= 4 * pitch), pitch)
    strides = [inner]
    for extent in reversed(shape[1:]):
        strides.insert(0, pitch if len(strides) == 1 else strides[0] * extent)
    return strides


def array_bytes(tensor: TensorType) -> int:
    return math.prod(tensor.extents) * tensor.element_kind.bytes


def _index(program: tile.ProgramOp, graph: Graph, axis: str) -> Node:
    grid = the_grid(program)
    return graph.leaf("grid", grid.axis_names.index(axis), IndexType.of(axis), grid.place.data)


def program_of(
    program: tile.ProgramOp,
    graph: Graph,
    name: str,
    stores: Sequence[Stored],
    tensors: Mapping[Node, tuple[str, TensorType]],
    further: str = "",
    extents: Mapping[str, int] | None = None,
) -> ModuleOp | None:
    """The program of some stores, over the axes and tensors that they need; None where these are no program. tensors:
    those beyond the program's own; further: an axis beyond its own, the grid's first; extents: others than its own."""
    grid = the_grid(program)
    needed = below([node for each in stores for node in (each.value, each.tensor, *each.indices)])
    named = {node: found for node, found in tensors.items() if node in needed}
    for number, argument in enumerate(program.body.block.args):
        leaf = graph.leaf("tensor", number, argument.type)
        assert isinstance(argument.type, TensorType)
        if leaf in needed:
            named[leaf] = (program.parameters.data[number].data, argument.type)
    axes = _axes(needed, [tensor for _, tensor in named.values()])
    listed = sorted(named, key=lambda node: str(node.what))
    block = Block(arg_types=[named[node][1] for node in listed])
    known: dict[Node, SSAValue] = dict(zip(listed, block.args, strict=True))
    for node, argument in known.items():
        argument.name_hint = named[node][0]
    kept = [*([further] if further else []), *(axis for axis in grid.axis_names if axis in axes)]
    opened = tile.GridOp(kept, grid.place.data)
    block.add_op(opened)
    for axis, index in zip(kept, opened.indices, strict=True):
        index.name_hint = axis
        number = grid.axis_names.index(axis) if axis in grid.axis_names else len(grid.axis_names)
        known[graph.leaf("grid", number, IndexType.of(axis), grid.place.data)] = index
    for node in needed:
        if node not in known:
            assert isinstance(node.what, type), "leaves are known"
            properties = {**dict(node.properties), "place": StringAttr(node.place)}
            op = node.what.create(
                operands=[known[each] for each in node.operands], result_types=[node.type], properties=properties
            )
            block.add_op(op)
            known[node] = op.results[0]
    for each in stores:
        block.add_op(
            tile.StoreOp(known[each.value], known[each.tensor], [known[index] for index in each.indices], each.place)
        )
    block.add_op(tile.ReturnOp())
    sizes = {axis: extent for axis, extent in (extents or program.extents).items() if base_axis(axis) in axes}
    ranges = {axis: values for axis, values in program.run_time.items() if axis in axes}
    names = [named[node][0] for node in listed]
    written = tile.ProgramOp(name, names, sizes, Region(block), program.place.data, ranges)
    module = ModuleOp([written])
    return module if next(violations(written), None) is None else None


def _axes(nodes: Sequence[Node], tensors: Sequence[TensorType]) -> set[str]:
    """The axes that values, sums, indices and tensors have; of blocks those that they are of."""
    found = {axis for node in nodes for axis in (*node.axes, *([node.axis] if node.axis else []))}
    found |= {node.type.axis.data for node in nodes if isinstance(node.type, IndexType | GroupType)}
    return {base_axis(axis) for axis in (*found, *(axis for each in tensors for axis in each.axis_names))}
