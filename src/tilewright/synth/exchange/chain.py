"""Which plan does a chain of steps make: without what changes nothing, and priced?

Two rounds of a block's trip hide how words are packed behind the first round's loads, for one more barrier; where no
word is packed there is nothing to hide, and the trip goes in one (measured: slower in two, by the price of a barrier).

Who checks: tests/synth/exchange/test_search.py.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.exchange import ExchangePlan, Load, Rearrange, Stage, Step
from tilewright.synth.exchange.cost import cost_of, packed_words
from tilewright.targets import Target


def plan_of_chain(
    kind: str, steps: tuple[Step, ...], elements: int, warps: int, element_bytes: int, target: Target
) -> ExchangePlan:
    """elements: of each thread before; kind: in words, what the chain does."""
    short = _shortened(steps, elements)
    if any(_has_block_rounds(step) for step in short) and not packed_words(short, elements, element_bytes, target):
        short = tuple(replace(step, rounds=()) if isinstance(step, Stage) else step for step in short)
    cost = cost_of(short, elements, element_bytes, warps, target)
    return ExchangePlan(kind if short else "nothing moves", element_bytes, elements, warps, short, cost)


def _has_block_rounds(step: Step) -> bool:
    return isinstance(step, Stage) and step.scope == "block" and bool(step.rounds)


def _shortened(steps: tuple[Step, ...], elements: int) -> tuple[Step, ...]:
    """Rearrangements in a row as one, and none that changes nothing."""
    short: list[Step] = []
    for step in steps:
        if isinstance(step, Rearrange) and short and isinstance(short[-1], Rearrange):
            before = short.pop()
            assert isinstance(before, Rearrange)
            step = Rearrange(tuple(before.elements[each] for each in step.elements))
        short.append(step)
    kept: list[Step] = []
    for step in short:
        if isinstance(step, Rearrange):
            if step.elements == tuple(range(elements)):
                continue
            elements = len(step.elements)
        elif isinstance(step, Stage | Load):
            elements = step.elements
        kept.append(step)
    return tuple(kept)
