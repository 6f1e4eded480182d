"""How does a program read that walks along an axis?

The axis leaves the grid. What does not change along it is computed once, before the loop that needs it first, or behind
the loops; a loop holds the rest, and equal values are computed once in each. Initial values are `tile.full` (of a value
without axes a constant). The op that carries a state on is `add(corrected old, tile.contract ...)`, or the fold of the
corrected old value and `tile.reduce`. Checked by: tests/synth/streaming/test_streamed.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.facts import the_grid
from tilewright.ir.tile.types import GroupType, IndexType
from tilewright.synth.streaming.derive import State, Streaming, Walked
from tilewright.synth.streaming.graph import Node, below


class _Emitter:
    """before: the block of the program; inside: that of the loop under way, and what is known in it."""

    def __init__(self, axis: str, before: Block) -> None:
        self.axis = axis
        self.before = before
        self.known: dict[Node, SSAValue] = {}
        self.inside: Block | None = None
        self.known_inside: dict[Node, SSAValue] = {}
        self._stays: dict[Node, bool] = {}

    def stays(self, node: Node) -> bool:
        """Whether a node can be computed in a loop only."""
        for each in below([node], self._stays.__contains__):
            if each not in self._stays:
                over = (each.type.axis.data,) if isinstance(each.type, IndexType | GroupType) else each.axes
                leaf = isinstance(each.what, tuple) and each.what[0] == "carried"
                along = any(base_axis(axis) == self.axis for axis in over)
                self._stays[each] = leaf or along or any(self._stays[operand] for operand in each.operands)
        return self._stays[node]

    def value(self, node: Node) -> SSAValue:
        for each in below([node], lambda each: each in self._known(each)):
            known = self._known(each)
            if each not in known:
                block = self.inside if known is self.known_inside else self.before
                assert isinstance(each.what, type) and block is not None, "leaves are known"
                op = each.what.create(
                    operands=[self._known(operand)[operand] for operand in each.operands],
                    result_types=[each.type],
                    properties={**dict(each.properties), "place": StringAttr(each.place)},
                )
                block.add_op(op)
                known[each] = op.results[0]
        return self._known(node)[node]

    def _known(self, node: Node) -> dict[Node, SSAValue]:
        """The values among which a node's is, or will be."""
        return self.known_inside if self.inside is not None and self.stays(node) else self.known


def emitted(program: tile.ProgramOp, streaming: Streaming) -> ModuleOp:
    """The streamed program."""
    graph, axis = streaming.graph, streaming.axis
    block = Block(arg_types=[argument.type for argument in program.body.block.args])
    emitter = _Emitter(axis, block)
    for number, argument in enumerate(block.args):
        argument.name_hint = program.body.block.args[number].name_hint
        emitter.known[graph.leaf("tensor", number, argument.type)] = argument
    the_axis = _grid(program, streaming, emitter)
    for walk in range(streaming.walks):
        states = [state for state in streaming.states if state.walk == walk]
        stores = [each for each in streaming.stores if each.walk == walk]
        block.add_op(_loop(emitter, the_axis, axis, states, stores))
    for each in streaming.stores:
        if each.walk is None:
            block.add_op(_store(emitter, each))
    block.add_op(tile.ReturnOp())
    names = [name.data for name in program.parameters]
    place = program.place.data
    written = tile.ProgramOp(program.sym_name.data, names, program.extents, Region(block), place, program.run_time)
    return ModuleOp([written])


def _grid(program: tile.ProgramOp, streaming: Streaming, emitter: _Emitter) -> Node:
    """Adds the grid without the axis; returns the leaf that was the axis's index."""
    grid, graph = the_grid(program), streaming.graph
    kept = [axis for axis in grid.axis_names if axis != streaming.axis]
    bounds = None if grid.bounds is None else program.body.block.args.index(grid.bounds)
    op = tile.GridOp.create(
        operands=[] if bounds is None else [emitter.before.args[bounds]],
        properties={
            **grid.properties,
            "axes": tile.GridOp(kept, grid.place.data).axes,
        },
        result_types=[index.type for index in grid.indices if index.type != IndexType.of(streaming.axis)],
    )
    emitter.before.add_op(op)
    results = iter(op.results)
    place = grid.place.data
    leaves = [graph.leaf("grid", number, index.type, place) for number, index in enumerate(grid.indices)]
    for leaf in leaves:
        if leaf.type != IndexType.of(streaming.axis):
            emitter.known[leaf] = next(results)
    return next(leaf for leaf in leaves if leaf.type == IndexType.of(streaming.axis))


def _loop(emitter: _Emitter, the_axis: Node, axis: str, states: Sequence[State], stores: Sequence[Walked]) -> Operation:
    place = states[0].place if states else stores[0].store.place
    initial = [_initial(emitter, state) for state in states]
    body = Block(arg_types=[IndexType.of(axis), *(value.type for value in initial)])
    emitter.inside = body
    emitter.known_inside = {the_axis: body.args[0]}
    for state, argument in zip(states, body.args[1:], strict=True):
        emitter.known_inside[state.old] = argument
    yielded = [emitter.value(state.update) for state in states]
    for each in stores:
        body.add_op(_store(emitter, each))
    body.add_op(tile.YieldOp(yielded))
    emitter.inside = None
    loop = tile.LoopOp(axis, initial, Region(body), place, streamed=True)
    for state, output in zip(states, loop.outputs, strict=True):
        emitter.known[state.final] = output
    return loop


def _initial(emitter: _Emitter, state: State) -> SSAValue:
    if state.old.axes:
        op: Operation = tile.FullOp(state.initial, state.old.axes, state.place)
    else:
        op = tile.ConstantOp(state.initial, state.place)
    emitter.before.add_op(op)
    return op.results[0]


def _store(emitter: _Emitter, walked: Walked) -> Operation:
    store = walked.store
    value, tensor = emitter.value(store.value), emitter.value(store.tensor)
    return tile.StoreOp(value, tensor, [emitter.value(index) for index in store.indices], store.place)
