"""In which order are a program's loads, operations and stores at one point emitted, where registers are short?

Usually all loads stand first, so that an assembler may have them on their way together. Where that keeps more values
than the registers of a thread hold, while as many CTAs share a multiprocessor as the launch has for it, the order is
chosen by what it keeps live (`solve.scheduling.register_block`): loads then stand where they are wanted. An assembler
follows the order it is given, in large (`python -m bench registers`): it moves loads up as far as it has registers.

The optimum is searched where the schedule of a loop would be (`Wanted.schedule`). Not handled: temporaries inside one
operation, and the points that a thread works on at once, which an assembler interleaves as it likes.
Checked by: tests/lower/points/test_expression_order.py.
"""

from __future__ import annotations

import math

from tilewright.ir.expression_nodes import ExpressionNodes, expression_nodes
from tilewright.ir.tile import operations as tile
from tilewright.solve.scheduling.register_block import BlockOperation, RegisterBlock, fast_order, pressure
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_KEPT_REGISTERS = 4
"""Of a thread, for indices and addresses. Chosen so that 24 operands, which take 40 registers with loads first, keep
them first, and 32, which take 48, do not: 3 % and 2 % quicker so on an H200 (`python -m bench registers --speeds`)."""
_LEAST_VALUES = 8


def block_of(expressions: ExpressionNodes) -> RegisterBlock:
    """A value takes one register, whatever its element: arithmetic is float32."""
    operations = [
        BlockOperation(0 if isinstance(node, tile.StoreOp) else 1, reads)
        for node, reads in zip(expressions.nodes, expressions.reads, strict=True)
    ]
    return RegisterBlock(tuple(operations))


def loads_first(expressions: ExpressionNodes) -> tuple[int, ...]:
    """The order that is emitted where none is decided: of each store the loads, then the rest."""
    order: list[int] = []
    begin = 0
    for number, node in enumerate(expressions.nodes):
        if isinstance(node, tile.StoreOp):
            mine = range(begin, number + 1)
            order += [each for each in mine if isinstance(expressions.nodes[each], tile.LoadOp)]
            order += [each for each in mine if not isinstance(expressions.nodes[each], tile.LoadOp)]
            begin = number + 1
    return tuple(order)


def choose_order(
    program: tile.ProgramOp, launch: tuple[int, int], target: Target, wanted: Wanted, reasons: list[str]
) -> tuple[int, ...]:
    """Numbers of `ir.expression_nodes` in the order to emit; empty where loads may stand first.

    launch: CTAs and threads of each.
    """
    ctas, threads = launch
    expressions = expression_nodes(program)
    block = block_of(expressions)
    usual = pressure(block, loads_first(expressions))
    beside = max(1, math.ceil(ctas / target.limit("device.multiprocessors")))
    held = target.limit("multiprocessor.registers") // (threads * beside) - _KEPT_REGISTERS
    if usual <= max(held, _LEAST_VALUES):
        return ()
    words = "by a heuristic"
    order = fast_order(block)
    if wanted.schedule == "optimal":
        from tilewright.solve.scheduling.register_order import least_pressure

        best = least_pressure(block)
        order = best.order
        words = "the least there is" if best.proved else f"at least {best.lower} whatever the order"
    found = pressure(block, order)
    if found >= usual:
        return ()
    reasons.append(
        f"operations in an order that keeps {found} values of a point at once ({words}), not {usual} as with all loads "
        f"first: {beside} CTAs of {threads} threads leave a thread room for {max(held, _LEAST_VALUES)}"
    )
    return order
