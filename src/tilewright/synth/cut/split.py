"""How do several CTAs share an axis that a program folds, when it has too few rows for all of them?

Theory: the state of a fold over an axis is a monoid's (`streaming.derive`), so an axis of S times T elements may be cut
into S parts of T, each part folded by itself, and the S states combined by the very corrections that a loop applies
when its reference moves: an extreme is the extreme of the parts', and a sum that follows it is the sum of the parts'
states, each corrected from its part's reference to the common one. What is finished afterwards is finished once. So the
program before has the parts as one more axis of its grid, over the same arrays (an axis of stride s is one of stride
T s and one of stride s), and stores the states; the program after folds the parts' axis. The states of a part that a
mask leaves nothing of, or of no finite element, combine like any others, since the loop's do.

Both are the program's own operations, in an order that extents alone decide: the same bits in every run.

Other axes may be run-time ones; states then lie as at the largest extents.

Not handled: parts that overlap of folds alone, and of products without a fold; values stored along the axis, folds that
need a second walk, a run-time axis, arrays whose strides a launch says, values over blocks of the axis. Checked by:
tests/synth/cut/test_split.py and tests/end_to_end/test_run_time_parts.py, and each split by `certificate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Block, Region

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.ir.cascade_facts import cascade_axes, contractions
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size, derived_extent
from tilewright.ir.tile.facts import gathers, grouping, loops, the_grid, the_program
from tilewright.ir.tile.reduce import ArgReduceOp
from tilewright.ir.tile.types import IndexType, RuleViolation, TensorType, ValueType, tensor_type
from tilewright.synth.cascade.walk.past_end import bounded_once
from tilewright.synth.cut.further_axis import FurtherAxis
from tilewright.synth.cut.handover import Cut, array_bytes, free_name, padded_strides, program_of
from tilewright.synth.cut.parts_of_blocks import (
    blocks_of_axis,
    fit_blocks,
    gathered_in_parts,
    over_blocks_of_parts,
)
from tilewright.synth.cut.time import Parts
from tilewright.synth.streaming.axis import streamed_axes
from tilewright.synth.streaming.derive import IDENTITIES, State, Streaming, Walked, derived
from tilewright.synth.streaming.emit import emitted
from tilewright.synth.streaming.graph import Graph, Node, Stored, below, constant_of, read

_LEAST, _LEAST_WALKED = 256, 128
"""Elements of a part, at least. A policy: a part leaves states to combine, so it should read many more numbers; of
products one tile of a walk, as wide as it may be (`synth.cascade.decide`)."""
_TRIED = 3
"""Numbers of parts."""
_FEWEST, _MOST = 0.5, 8.0
"""Parts that are tried, of those that are wanted, or of one if fewer are."""
_NEAR = 1.02
"""Over the least time, numbers of parts that are taken to be as quick: the estimate is no better. A policy: of these
come first those that divide the axis, in which nothing is masked, then the fewest, which have less to combine."""
_RUN = 16
"""Elements of an axis along which an array is contiguous, at multiples of which overlapping parts begin."""


def splits(program: tile.ProgramOp, wanted: float, microseconds: Callable[[Parts], float]) -> Iterator[Cut]:
    """The program with its folded axis in parts. wanted: by which every multiprocessor has one; microseconds: that
    parts are estimated to take. The quickest numbers are tried."""
    if loops(program) or grouping(program) is not None:
        return
    graph, stored = read(program)
    axis = _axis(program, stored)
    if not axis or axis in program.run_time or _is_strided_at_launch(program):
        return
    states = derived(graph, stored, axis).states
    sizes = blocks_of_axis(program, axis)
    blocks, length = math.lcm(*sizes), program.extents[axis]
    walked = bool(contractions(program))
    most = min(length // (_LEAST_WALKED if walked else _LEAST), math.ceil(_MOST * max(1.0, wanted)))
    least = max(2, math.ceil(_FEWEST * min(wanted, most)))
    counts = range(least, most + 1)
    state_bytes = sum(array_bytes(_tensor(state.old.axes, program.extents)) for state in states)

    def times(parts: Iterable[_Parts]) -> dict[_Parts, float]:
        return {each: microseconds(Parts(each.count, each.length, length, state_bytes)) for each in parts}

    equal = [_Parts(parts, length // parts, length // parts) for parts in counts if length % parts == 0]
    found = times(each for each in equal if fit_blocks(each.length, sizes))
    if walked and length % blocks == 0:
        unit = math.lcm(blocks, _RUN) if _is_contiguous(program, axis) else blocks
        found |= times(_overlapping(counts, length, unit))
    near = _NEAR * min(found.values(), default=0.0)
    for each in sorted(found, key=lambda each: (max(near, found[each]), each.overlap > 0, each.count))[:_TRIED]:
        try:
            cut = in_parts(program, axis, each.count, each.step)
        except RuleViolation:
            continue  # more axes than a tile has
        if each.overlap == 0 or _is_masked_once(the_program(cut.programs[0])):
            yield cut


@dataclass(frozen=True, slots=True)
class _Parts:
    """count: of parts; length: elements of each; step: from one's begin to the next one's."""

    count: int
    length: int
    step: int

    @property
    def overlap(self) -> int:
        return self.length - self.step


def _overlapping(counts: Iterable[int], length: int, unit: int) -> list[_Parts]:
    """Parts of an axis of this length that begin at multiples of `unit`, and have half of a step at most twice."""
    steps = ((count, length // count // unit * unit) for count in counts)
    found = [_Parts(count, length - (count - 1) * step, step) for count, step in steps]
    return [each for each in found if 0 < 2 * each.overlap <= each.step]


def _is_strided_at_launch(program: tile.ProgramOp) -> bool:
    """Whether only the launch knows how far apart parts of some array are."""
    kinds = [tensor_type(argument) for argument in program.body.block.args]
    return any(not isinstance(stride, int) for kind in kinds for stride in kind.stride_sizes)


def _is_contiguous(program: tile.ProgramOp, axis: str) -> bool:
    """Whether some array's neighbours in memory are neighbours along the axis."""
    kinds = [tensor_type(argument) for argument in program.body.block.args]
    return any(
        base_axis(each) == axis and stride == 1
        for kind in kinds
        for each, stride in zip(kind.axis_names, kind.stride_elements, strict=True)
    )


def _is_masked_once(program: tile.ProgramOp) -> bool:
    """Whether a mask of the first fold's operand is one of all that a part folds and multiplies."""
    return len(bounded_once(program, cascade_axes(program))) == len(loops(program))


def _axis(program: tile.ProgramOp, stored: Sequence[Stored]) -> str:
    """The axis that is folded in one walk, with nothing stored along it; "" where there is none."""
    roots = [each.value for each in stored]
    nodes = below(roots)
    axes = list(streamed_axes(roots))
    if len(axes) != 1 or any(node.what is ArgReduceOp for node in nodes):
        return ""
    (axis,) = axes
    named = {each for node in nodes for each in node.axes}
    if any(each != axis and base_axis(each) == axis for each in named):
        return ""
    streaming = derived(*read(program), axis)
    whole = streaming.walks == 1 and all(each.walk is None for each in streaming.stores)
    return axis if whole else ""


def in_parts(program: tile.ProgramOp, axis: str, parts: int, step: int = 0) -> Cut:
    """The two programs that fold `axis`, in one walk, in so many parts of equal length. step: from one part's begin to
    the next one's, if that is less than the length."""
    step = step or program.extents[axis] // parts
    name, length = program.sym_name.data, program.extents[axis] - (parts - 1) * step
    along = free_name(f"{axis}_parts", list(program.extents))
    names = [each.data for each in program.parameters]
    graph, stored = read(program)
    streaming = derived(graph, stored, axis)
    states = streaming.states
    extents = {**program.extents, axis: length, along: parts}
    extents |= {each: derived_extent(each, extents) for each in extents}
    workspaces = [free_name(f"{name}_1_result_{state.number}", names) for state in states]
    tensors = [_tensor((along, *state.old.axes), extents) for state in states]
    before = _before(program, axis, along, parts, step, list(zip(workspaces, tensors, strict=True)))
    after = _after(program, graph, streaming, along, parts, list(zip(workspaces, tensors, strict=True)))
    size_bytes = sum(map(array_bytes, tensors))
    return Cut((before, *after), tuple(workspaces), size_bytes, states[0].place, True, parts, length - step)


def _tensor(axes: Sequence[str], extents: Mapping[str, int]) -> TensorType:
    """An array of states, part after part."""
    shape = [extents[axis] for axis in axes]
    return TensorType.of(axes, shape, padded_strides(shape, Element.F32), Element.F32)


# ---------------------------------------------------------------- the parts' states


def _before(
    program: tile.ProgramOp, axis: str, along: str, parts: int, step: int, workspaces: Sequence[tuple[str, TensorType]]
) -> ModuleOp:
    """Every part's states. Of products they are carried by a loop over the part; of folds alone they are the folds of
    the part, which rows' kernels walk as they like."""
    lifted = _program_in_parts(program, axis, along, parts, step)
    graph, stored = read(lifted)
    streaming = derived(graph, stored, axis)
    grid = the_grid(lifted)
    count = len(lifted.parameters)
    stores: list[Stored] = []
    for number, (state, (_, tensor)) in enumerate(zip(streaming.states, workspaces, strict=True)):
        leaf = graph.leaf("tensor", count + number, tensor)
        indices = tuple(_index(graph, grid, each) for each in tensor.axis_names)
        value = state.final if contractions(program) else _part_alone(graph, streaming, state)
        value = graph.broadcast(value, tensor.axis_names, state.place)
        stores.append(Stored(value, leaf, indices, state.place))
    names = dict(zip((each.tensor for each in stores), workspaces, strict=True))
    if not contractions(program):
        module = program_of(lifted, graph, f"{program.sym_name.data}_1", stores, names)
        assert module is not None, "folds of a part are a program"
        return module
    shell = _shell(lifted, f"{program.sym_name.data}_1", workspaces)
    return _without_unused(emitted(shell, replace(streaming, stores=tuple(Walked(each, None) for each in stores))))


def _part_alone(graph: Graph, streaming: Streaming, state: State) -> Node:
    """A state after one tile: the tile's own sum, which follows the tile's own extremes."""
    known = {other.update: _part_alone(graph, streaming, other) for other in _followed(state)}
    return graph.replaced(state.part, known)


def _followed(state: State) -> list[State]:
    return [correction.extreme for correction in state.corrections]


def _shell(program: tile.ProgramOp, name: str, workspaces: Sequence[tuple[str, TensorType]]) -> tile.ProgramOp:
    """A program with a grid, some more arrays and nothing else."""
    kinds = [*(argument.type for argument in program.body.block.args), *(tensor for _, tensor in workspaces)]
    block = Block(arg_types=kinds)
    block.add_op(tile.GridOp(the_grid(program).axis_names, the_grid(program).place.data))
    names = [*(each.data for each in program.parameters), *(each for each, _ in workspaces)]
    return tile.ProgramOp(name, names, program.extents, Region(block), program.place.data, program.run_time)


def _without_unused(module: ModuleOp) -> ModuleOp:
    """The program without arrays that it does not reach."""
    program = the_program(module)
    names = list(program.parameters)
    for number in reversed(range(len(names))):
        argument = program.body.block.args[number]
        if not any(True for _ in argument.uses):
            program.body.block.erase_arg(argument)
            del names[number]
    program.properties["parameters"] = ArrayAttr(names)
    module.verify()
    return module


def _index(graph: Graph, grid: tile.GridOp, axis: str) -> Node:
    return graph.leaf("grid", grid.axis_names.index(axis), IndexType.of(axis), grid.place.data)


# ---------------------------------------------------------------- the program over parts


def _program_in_parts(program: tile.ProgramOp, axis: str, along: str, parts: int, step: int) -> tile.ProgramOp:
    """The program of each part by itself: what depends on the axis has the parts' axis first."""
    graph, stored = read(program)
    grid = the_grid(program)
    extents = {along: parts, **program.extents, axis: program.extents[axis] - (parts - 1) * step}
    extents |= {each: derived_extent(each, extents) for each in extents}
    over = FurtherAxis(graph, along)
    index = graph.leaf("grid", len(grid.axis_names), IndexType.of(along), grid.place.data)
    tensors: dict[Node, tuple[str, TensorType]] = {}
    seen = _seen_in_blocks(program, over, axis, step, list(extents))
    for number, argument in enumerate(program.body.block.args):
        kind = tensor_type(argument)
        wider = seen.get(number, kind)
        stored_to = any(each.tensor.what == ("tensor", number) for each in stored)
        divided = next((each for each in kind.axis_names if base_axis(each) == axis), "")
        if stored_to or (divided and number not in seen):
            shape, strides = [derived_extent(each, extents) for each in kind.axis_names], kind.stride_elements
            if stored_to:
                strides = padded_strides(shape, kind.element_kind)
                apart = shape[0] * strides[0]
            else:
                apart = step // block_size(divided) * strides[kind.axis_names.index(divided)]
            wider = TensorType.of((along, *kind.axis_names), (parts, *shape), (apart, *strides), kind.element_kind)
        if wider != kind:
            leaf = graph.leaf("tensor", number, wider)
            tensors[leaf] = (program.parameters.data[number].data, wider)
            over.known[graph.leaf("tensor", number, kind)] = leaf
            extents |= dict(zip(wider.axis_names, wider.extents, strict=True))
    over.index, over.axis, over.step = index, axis, step
    values = [over.value(each.value) for each in stored]
    if overlap := extents[axis] - step:
        values = _masked(graph, values, index, _index(graph, grid, axis), overlap)
    roots = [
        Stored(value, over.known[each.tensor], (index, *each.indices), each.place)
        for value, each in zip(values, stored, strict=True)
    ]
    module = program_of(program, graph, program.sym_name.data, roots, tensors, along, extents)
    assert module is not None, "a program in parts is one"
    return the_program(module)


def _seen_in_blocks(
    program: tile.ProgramOp, over: FurtherAxis, axis: str, step: int, taken: Sequence[str]
) -> dict[int, TensorType]:
    """By parameter, arrays of which blocks of the axis are longer than a part, as the parts see them; their gathers
    read them as `over` then says. taken: names of axes. Raises RuleViolation where gathers differ, or axes are too
    many."""
    found: dict[int, TensorType] = {}
    for op in gathers(program):
        for tensor, (kind, places) in {
            op.tensor: gathered_in_parts(op, axis, over.along, step, taken),
            **{each: (over_blocks_of_parts(tensor_type(each), axis, over.along, step), []) for each in op.tables},
        }.items():
            if kind == tensor_type(tensor):
                continue
            number = program.body.block.args.index(tensor)
            if found.setdefault(number, kind) != kind:
                raise RuleViolation("one array is gathered by blocks of two sizes", "gather it by one")
            if places:
                over.places[over.graph.leaf("tensor", number, kind), op.places] = places
    return found


def _masked(graph: Graph, values: Sequence[Node], part: Node, within: Node, overlap: int) -> list[Node]:
    """The values, with the first elements of each part but the first one, which the part before has as well, out of
    what is folded and follows from no other fold. part, within: indices of the parts' axis and of the axis."""
    along, axis = (each.type.axis.data for each in (part, within) if isinstance(each.type, IndexType))
    known: dict[Node, Node] = {}

    def is_sum(node: Node) -> bool:
        return node.is_sum and node.axis == axis

    for node in below(values):
        if not is_sum(node) or node.function is None or any(map(is_sum, below(node.operands))):
            continue
        operand, place = node.operands[0], node.place
        number, element = (
            graph.node(tile.PositionOp, (index,), ValueType.of((name,), Element.F32), place)
            for index, name in ((part, along), (within, axis))
        )
        first = graph.binary(Function.MIN, number, graph.constant_like(1.0, number), place)
        first = graph.binary(Function.MUL, first, graph.constant_like(float(overlap), first), place)
        first, element = (graph.broadcast(each, operand.axes, place) for each in (first, element))
        counts, value = graph.binary(Function.LE, first, element, place), operand
        other = graph.constant_like(IDENTITIES[node.function], operand)
        if operand.what is tile.SelectOp and constant_of(operand.operands[2]) == constant_of(other):
            condition, chosen, _ = operand.operands
            if _is_truth(condition):
                # One condition, which a tile may pass over.
                counts, value = graph.binary(Function.MIN, counts, condition, place), chosen
        known[operand] = graph.select(counts, value, other, place)
    return [graph.replaced(value, known) for value in values]


def _is_truth(node: Node) -> bool:
    """Whether a condition is 1 or 0 by what makes it."""
    if node.what in (tile.BroadcastOp, tile.TransposeOp) or node.function in (Function.MIN, Function.MAX):
        return all(map(_is_truth, node.operands))
    return node.function in (Function.LT, Function.LE, Function.EQ)


# ---------------------------------------------------------------- the states combined


def _after(
    program: tile.ProgramOp,
    graph: Graph,
    streaming: Streaming,
    along: str,
    parts: int,
    workspaces: Sequence[tuple[str, TensorType]],
) -> list[ModuleOp]:
    """The states of all parts combined, and what the program stores of them: results over the same axes in one."""
    grid, count = the_grid(program), len(program.parameters)
    index = graph.leaf("grid", len(grid.axis_names), IndexType.of(along), grid.place.data)
    loaded: dict[State, Node] = {}
    combined: dict[State, Node] = {}
    tensors: dict[Node, tuple[str, TensorType]] = {}
    for number, (state, (name, tensor)) in enumerate(zip(streaming.states, workspaces, strict=True)):
        leaf = graph.leaf("tensor", count + number, tensor)
        tensors[leaf] = (name, tensor)
        indices = (index, *(_index(graph, grid, axis) for axis in state.old.axes))
        kind = ValueType.of(tensor.axis_names, Element.F32)
        loaded[state] = graph.node(tile.LoadOp, (leaf, *indices), kind, state.place)
    for state in streaming.states:
        value, over = loaded[state], FurtherAxis(graph, along)
        for other in _followed(state):
            over.known[other.old] = loaded[other]
            over.known[other.update] = graph.broadcast(combined[other], loaded[other].axes, state.place)
        for correction in state.corrections:
            step = graph.broadcast(over.value(correction.step), value.axes, state.place)
            value = graph.binary(Function.MUL, value, step, state.place)
        combined[state] = graph.reduce(state.function, value, along, state.place)
    finals = {state.final: combined[state] for state in streaming.states}
    stores = [replace(each.store, value=graph.replaced(each.store.value, finals)) for each in streaming.stores]
    extents = {along: parts, **program.extents}
    alike: dict[frozenset[str], list[Stored]] = {}
    for each in stores:
        alike.setdefault(frozenset(each.value.axes), []).append(each)
    found: list[ModuleOp] = []
    for number, group in enumerate(alike.values(), start=2):
        module = program_of(program, graph, f"{program.sym_name.data}_{number}", group, tensors, along, extents)
        if module is None:
            raise TilewrightError(f"the states of {program.sym_name.data} in parts are not combined by a program")
        found.append(module)
    return found
