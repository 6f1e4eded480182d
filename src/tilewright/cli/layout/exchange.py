"""What does it cost to bring a tile from one instruction's registers to another's?

`tilewright layout --mma A --operand C --exchange B:A` lists the plans that were weighed, the cheapest of each kind, as
`synth.exchange.search` makes them and `lower` emits them. Cycles are estimates of its model. Checked by:
tests/cli/commands/test_layout_command.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tilewright.base.error import TilewrightError
from tilewright.cli.layout.lines import Line
from tilewright.ir.exchange import ExchangePlan
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout
from tilewright.legal.descriptor.instruction_layout import InstructionLayout, instruction_layout
from tilewright.synth.exchange.search import candidate_plans, plan_exchange


def exchange_plans(
    source: InstructionLayout, destination: str, element_bytes: int, target: str
) -> tuple[ExchangePlan, ...] | NotExpressible:
    """The cheapest plan of each kind, the cheapest first. destination: NAME:OPERAND.

    Raises TilewrightError for names that are none and layouts that are no registers of one tile.
    """
    # A name may have a '::' of its own, as tcgen05.mma.cta_group::1 does; an operand has no colon.
    name, _, operand = destination.rpartition(":")
    if not name or name.endswith(":"):
        raise TilewrightError(f"--exchange {destination[:80]!r} names no operand", remedy="write NAME:OPERAND")
    wanted = instruction_layout(name, operand, target)
    layouts: list[LinearLayout] = []
    for each in (source, wanted):
        if not isinstance(each.layout, LinearLayout) or "register" not in each.layout.input_sizes:
            raise TilewrightError(
                f"{each.name}, operand {each.operand}, is no layout of registers of powers of two",
                remedy="give operands that threads hold",
            )
        layouts.append(each.layout)
    plan_exchange(layouts[0], layouts[1], element_bytes, target)  # refuses elements of other sizes
    found = candidate_plans(layouts[0], layouts[1], element_bytes, target)
    if isinstance(found, NotExpressible):
        return found
    best: dict[str, ExchangePlan] = {}
    for plan in found:
        best.setdefault(plan.kind, plan)
    return tuple(best.values())


def exchange_lines(plans: tuple[ExchangePlan, ...] | NotExpressible, destination: str) -> Iterator[Line]:
    """The plans in words."""
    yield "quiet", f"--exchange {destination}"
    if isinstance(plans, NotExpressible):
        yield "bad", f"  not expressible: {plans.reason}"
        return
    for place, plan in enumerate(plans):
        yield "good" if place == 0 else "plain", f"  {plan.kind}: {_cost_words(plan)}"


def exchange_to_json(plans: tuple[ExchangePlan, ...] | NotExpressible) -> dict[str, Any]:
    """The plans with their costs."""
    if isinstance(plans, NotExpressible):
        return {"kind": "not-expressible", "reason": plans.reason}
    return {"kind": "plans", "plans": [{"kind": plan.kind, "cost": asdict(plan.cost)} for plan in plans]}


def _cost_words(plan: ExchangePlan) -> str:
    cost = plan.cost
    if not plan.steps:
        return "no instruction"
    counts = ((cost.issue_slots, "instructions of a warp"), (cost.shuffles, "of them shuffles"),
              (cost.wavefronts, "wavefronts"), (cost.barriers, "barriers"),
              (cost.shared_bytes, "bytes of shared memory"))  # fmt: skip
    words = [f"about {cost.cycles} cycles", *(f"{count} {what}" for count, what in counts if count)]
    return ", ".join(words)
