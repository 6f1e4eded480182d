"""Which tile programs does this compiler not schedule yet, though the language has them?

Whatever the lowering would not carry out in full is refused here, at the author's line, before anything is decided: no
part of a program is left out silently. Checked by tests/synth/test_supported.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.ir import tile
from tilewright.ir.tile_facts import dots, grouping, loads, the_grid
from tilewright.ir.tile_rules import place_of
from tilewright.ir.tile_types import value_type


def refuse_unsupported(program: tile.ProgramOp) -> None:
    """Raise TilewrightError for the first part of a verified program that nothing lowers."""
    for op, message, remedy in _unsupported(program):
        file, _, line = place_of(op).rpartition(":")
        raise TilewrightError(message, span=Span(file, int(line)), remedy=remedy)


def _unsupported(program: tile.ProgramOp) -> Iterator[tuple[tile.GridOp | tile.DotOp | tile.BlockOp, str, str]]:
    products = dots(program)
    groups = grouping(program)
    if groups is not None and not products:
        yield the_grid(program), "a program over groups without dot is not compiled yet", "compile one for each group"
    if len(products) > 1:
        yield products[1], "a program with more than one dot is not compiled yet", "split it into two kernels"
    for dot in products:
        # Groups that stand apart are a batch to the language, and one pipeline to `grouped`.
        ranks = (len(value_type(dot.result).axis_names), len(value_type(dot.left).axis_names))
        if groups is None and max(ranks) > 2:
            yield dot, "a batched product is not compiled yet", "compile one for each element of the batch"
        if dot.scales:
            yield dot, "a product scaled inside its loop is not compiled yet", "scale its operands instead"
    for load in loads(program):
        for index in load.indices:
            owner = index.owner.index.owner if isinstance(index.owner, tile.ShiftOp) else index.owner
            if isinstance(owner, tile.BlockOp):
                yield owner, "a tensor over blocks is not compiled yet", "give a number for every element"
