"""Along which axis is a program streamed?

The one whose sums (folds and contractions) cannot be one tile's business, or another loop's:
- a sum over it reads another sum over it;
- both folds and contractions run over it, so that one walk serves both;
- a sum over it reads a contraction over another axis: a fold of a product, or a product of products.
Where no axis is such a one, a single axis that is summed over is it. Of two, none is chosen: the program is refused.

Checked by: tests/synth/streaming/test_axis.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.synth.streaming.graph import Node, below


def streamed_axes(roots: Sequence[Node]) -> dict[str, Node]:
    """The axes that values below the roots ask to be streamed along, each with the first sum that does."""
    sums = [node for node in below(roots) if node.is_sum]
    asking: dict[str, Node] = {}
    for node in sums:
        read = [other for other in below(node.operands) if other.is_sum]
        again = any(other.axis == node.axis for other in read)
        elsewhere = [other for other in read if other.what is ContractOp and other.axis != node.axis]
        product = any(node.axis in other.axes for other in elsewhere)
        both = {other.what for other in sums if other.axis == node.axis} == {ReduceOp, ContractOp}
        if again or product or both:
            asking.setdefault(node.axis, node)
    if not asking:
        for node in sums:
            asking.setdefault(node.axis, node)
    return asking
