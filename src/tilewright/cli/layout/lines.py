"""What does `tilewright layout` say in words?

The layout with its properties; each operation with its answer, and that of the last with its properties. Lines have a
tone, which the terminal shows as a colour. Checked by: tests/cli/commands/test_layout_command.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from tilewright.cli.layout.steps import Chain, Step, Value, kind_words
from tilewright.layout.answer import NotDecided, NotExpressible
from tilewright.layout.equality import Different, Equal
from tilewright.layout.layout import Layout
from tilewright.layout.layout_properties import (
    is_bijective,
    is_injective,
    is_non_degenerate,
    is_surjective,
    is_tractable,
)
from tilewright.layout.linear import maps as linear
from tilewright.layout.linear.hierarchy import Hierarchy
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.pieces.piecewise import Piecewise
from tilewright.solve.layout_relation import Relation

if TYPE_CHECKING:
    from tilewright.legal.descriptor.instruction_layout import InstructionLayout

Line = tuple[Literal["heading", "good", "bad", "doubt", "quiet", "plain"], str]


def chain_lines(chain: Chain, operand: InstructionLayout | None) -> Iterator[Line]:
    """The report of a layout and what operations made of it."""
    if operand is not None:
        yield "heading", f"{operand.name}, operand {operand.operand}"
        for line in str(chain.start).splitlines():
            yield "plain", f"  {line}"
        yield "quiet", f"  {property_words(chain.start)}"
        yield "quiet", f"  source: {operand.source}; {', '.join(operand.targets)}"
    else:
        yield "heading", f"{chain.start}"
        yield "quiet", f"  {property_words(chain.start)}"
    for place, step in enumerate(chain.steps):
        yield "quiet", f"--{step.operation} {step.argument}".rstrip()
        symbolic = isinstance(chain.start, Layout) and chain.start.is_symbolic
        yield from _answer_lines(step, last=place + 1 == len(chain.steps), symbolic=symbolic)


def _answer_lines(step: Step, *, last: bool, symbolic: bool) -> Iterator[Line]:
    match step.answer:
        case NotExpressible(reason):
            yield "bad", f"  not expressible: {reason}"
        case NotDecided(reason, would_decide):
            yield "doubt", f"  undecided: {reason}"
            if would_decide:
                yield "quiet", f"  would decide it: {would_decide}"
        case Different() as found:
            yield "bad", f"  {found}"
        case Equal(by):
            yield "good", f"  equal{' for all sizes' if symbolic else ''}, by {by}"
        case Relation() as found:
            yield "heading", f"  {found.complete}"
            for name, symbol in found.symbols.items():
                yield "quiet", f"  {symbol} is {name}"
        case int() | str() as value:
            yield "plain", f"  {value}"
        case Layout() | LinearLayout() | Hierarchy() | Piecewise() as value:
            for line in str(value).splitlines():
                yield "heading" if last else "plain", f"  {line}"
            if last:
                yield "quiet", f"  {property_words(value)}"


def property_words(value: Value) -> str:
    """Size and properties in one line."""
    match value:
        case Layout():
            return _of_layout(value)
        case LinearLayout():
            words = [f"{value.size} places to {value.cosize}"]
            if linear.is_bijective(value):
                return f"{words[0]}, each once: a bijection"
            words.append("each to another" if linear.is_injective(value) else "some to the same")
            words.append("all reached" if linear.is_surjective(value) else "some not reached")
            return ", ".join(words)
        case Hierarchy():
            return f"{value.size} places of {kind_words(value)}: not linear over F2"
        case Piecewise():
            where = "everywhere" if value.is_total else f"at {value.defined} of {value.size} places"
            return f"{len(value.pieces)} piece{'s' if len(value.pieces) > 1 else ''}, defined {where}"


def properties(layout: Layout) -> dict[str, bool | None]:
    """By name whether the layout has it; None where that is undecided."""
    found: dict[str, bool | None] = {
        "injective": _known(is_injective(layout)),
        "surjective": None,
        "bijective": _known(is_bijective(layout)),
        "tractable": None,
        "non_degenerate": is_non_degenerate(layout),
    }
    if not layout.is_symbolic:
        found["surjective"] = _known(is_surjective(layout))
        found["tractable"] = is_tractable(layout)
    elif found["bijective"]:
        found["surjective"] = True
    return found


def _of_layout(layout: Layout) -> str:
    known = properties(layout)
    words = [f"{layout.size} elements"]
    if not layout.is_symbolic:
        words.append(f"{layout.least} to {layout.greatest}" + (" before the swizzle" if layout.swizzle else ""))
    if known["bijective"]:
        words.append("each value once: a bijection")
    else:
        if known["injective"] is not None:
            words.append("no value twice" if known["injective"] else "values come twice")
        else:
            words.append("whether values come twice depends on the sizes")
        if known["surjective"] is not None:
            words.append("no gaps" if known["surjective"] else "with gaps")
    if known["tractable"] is False:
        words.append("not tractable")
    if known["non_degenerate"] is False:
        words.append("degenerate")
    return ", ".join(words)


def _known(answer: bool | NotDecided) -> bool | None:
    return answer if isinstance(answer, bool) else None
