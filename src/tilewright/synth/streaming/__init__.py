"""How is a program of folds and products computed in few walks along an axis, with a state of bounded size?

`streamed` rewrites a `tile` program whose grid has all axes. One of them, T, leaves the grid; loops over it carry the
states of its folds and contractions, corrected where one reads another's result (online softmax), and ops behind them
finish. The modules, in order: `graph` (values, equal ones once), `axis` (which axis), `scales` (numbers that extremes
need not be multiplied by), `along_axis` (what changes along it), `factors` with `affine`, and `extremes` (what can be
carried while results still move), `derive` (walks and states), `emit` (the program), `certificate` with `exact` and
`meaning` (what was derived, checked anew in exact arithmetic).

Not handled: two axes streamed in one program, axes that groups cut, states of more than one term for a sum (the
variance in one walk), orders that matter (scans), where along an axis an element stands. Checked by:
tests/synth/streaming.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import grouping, the_grid, the_program
from tilewright.ir.tile.reduce import ArgReduceOp
from tilewright.ir.tile.rules import place_of
from tilewright.synth.streaming.axis import streamed_axes
from tilewright.synth.streaming.certificate import require
from tilewright.synth.streaming.derive import Streaming, Wait, derived
from tilewright.synth.streaming.emit import emitted
from tilewright.synth.streaming.graph import Node, read

__all__ = ["Streamed", "streamed"]


@dataclass(frozen=True, slots=True)
class Streamed:
    """program: what was streamed; module: its streamed form; axis: what it walks along; walks: how many loops; waits:
    why more than one."""

    program: tile.ProgramOp
    module: ModuleOp
    axis: str
    walks: int
    waits: tuple[Wait, ...]
    derivation: Streaming

    def require(self) -> None:
        """Raises TilewrightError if the derivation does not hold. That takes longer than to derive it, so it is asked
        of the forms that are taken."""
        require(self.program, the_program(self.module), self.derivation)


def streamed(program: tile.ProgramOp) -> Streamed | None:
    """The program in streamed form; None where it sums over no axis of its grid, or has loops of its own.

    program: verified. The form is right once its `require` says so. Raises TilewrightError, at the author's line, for
    what has no such form yet."""
    if any(isinstance(op, tile.LoopOp) for op in program.body.block.ops):
        for op in program.body.block.ops:
            if isinstance(op, ContractOp):
                raise _refused(
                    f"a product over {op.axis.data} that is a value, beside a loop",
                    place_of(op),
                    "write all products as values, by tw.dot(..., over=...), and no loop",
                )
        return None
    for op in program.body.block.ops:
        if isinstance(op, ArgReduceOp):
            raise _refused(
                "tw.argmax or tw.argmin beside a product is not compiled yet",
                place_of(op),
                f"store what is reduced over {op.axis.data}, and reduce it in a kernel of its own",
            )
    graph, stored = read(program)
    axes = streamed_axes([each.value for each in stored])
    if not axes:
        return None
    axis = _the_axis(program, axes)
    streaming = derived(graph, stored, axis)
    module = emitted(program, streaming)
    module.verify()
    return Streamed(program, module, axis, streaming.walks, streaming.waits, streaming)


def _the_axis(program: tile.ProgramOp, axes: dict[str, Node]) -> str:
    (axis, first), *others = axes.items()
    if others:
        other, second = others[0]
        raise _refused(
            f"sums over {axis} and over {other} both have to be walked along",
            second.place,
            f"compute what is summed over {axis} in a kernel of its own, and load it here",
        )
    groups = grouping(program)
    if groups is not None and axis in (groups.ragged, groups.group):
        raise _refused(
            f"a sum over {axis}, which groups cut, is not streamed",
            first.place,
            "sum over another axis, or mask with tw.where and lengths",
        )
    if the_grid(program).axis_names == (axis,):
        raise _refused(
            f"every value is summed over {axis}, the only axis",
            first.place,
            "give the tensors another axis, of extent 1 if need be",
        )
    return axis


def _refused(message: str, place: str, remedy: str) -> TilewrightError:
    file, _, line = place.rpartition(":")
    return TilewrightError(message, span=Span(file, int(line)) if line.isdecimal() else None, remedy=remedy)
