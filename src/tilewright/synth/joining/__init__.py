"""Which axes of a program may be one, so that the rows of a tile run over the product of several?

Heads that attend to the same keys, queries, matrices of a batch that meet the same weights: to a product's other
operand they are all rows. Of two such axes, an outer and an inner one, a program is rewritten over their product, in
which element p stands for p // n of the outer and p % n of the inner, where n is the inner one's extent. Where the
other operands have the outer axis by blocks, each block joins by itself and the blocks are an axis of the batch. So
what comes after knows nothing of it: tiles, tensor maps, walks and both proofs are of the rewritten program.

Arrays stay where they are: a tensor over both axes is viewed as one over their product, which takes that the outer
stride is the inner extent times the inner stride, or that one of the extents is 1. `pairs` finds the axes and says what
is in the way, `rewrite` makes the program.

Not handled: axes that stand in an array in the other order, or with something between them (a tile would need a box of
more dimensions); arrays over the inner axis alone. Which of the programs is the quickest is for the decisions to say.
Checked by: tests/synth/joining.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp

from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import the_program
from tilewright.synth.joining.pairs import obstacle, pairs
from tilewright.synth.joining.rewrite import joined

__all__ = ["joined_forms"]


def joined_forms(program: tile.ProgramOp) -> Iterator[ModuleOp]:
    """The program over joined axes: two of them, and again two of what came of that. None where no axes can be."""
    for pair in pairs(program):
        if not obstacle(program, pair):
            module = joined(program, pair)
            yield module
            yield from joined_forms(the_program(module))
