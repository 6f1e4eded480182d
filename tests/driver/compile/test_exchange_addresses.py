"""Addresses of emitted exchanges against their plans: all proved, mutated texts refuted."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from bench.exchange_kernel import exchange_kernel_text
from bench.register_layouts import register_layouts
from tests.driver.compile.exchange_addresses import ExchangeAddresses, WrongExchangeAddress, exchange_addresses

from tilewright.frontends.ptx.reader import read
from tilewright.ir.exchange import ExchangePlan, Stage
from tilewright.layout.answer import NotDecided
from tilewright.synth.exchange.search import candidate_plans

LAYOUTS = register_layouts(64)
PAIRS = sorted(itertools.product(LAYOUTS, LAYOUTS))


def staged(seed: int, element_bytes: int, count: int) -> list[tuple[str, ExchangePlan]]:
    """Texts and plans, with a trip through shared memory, of some pairs."""
    found: list[tuple[str, ExchangePlan]] = []
    for first, second in random.Random(seed).sample(PAIRS, 40):
        plans = candidate_plans(LAYOUTS[first], LAYOUTS[second], element_bytes, "sm_90a")
        assert isinstance(plans, list | tuple)
        for plan in plans:
            if any(isinstance(step, Stage) for step in plan.steps):
                found.append((exchange_kernel_text(LAYOUTS[first], LAYOUTS[second], plan), plan))
                break
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_addresses_of_staged_exchanges_are_the_plans(element_bytes: int) -> None:
    given = staged(element_bytes, element_bytes, 6)
    assert len(given) == 6
    for text, plan in given:
        verdict = exchange_addresses(read(text), plan)
        assert isinstance(verdict, ExchangeAddresses), verdict
        assert verdict.accesses > 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(2))
def test_mutated_addresses_are_refuted(seed: int) -> None:
    refuted = wrong = 0
    for text, plan in staged(100 + seed, 2, 3):
        lines = text.splitlines()
        at = [number for number, line in enumerate(lines) if re.search(r"(st|ld)\.shared|(st|ld)matrix", line)]
        register = re.search(r"\[(%r\d+)", lines[at[0]])
        assert register is not None
        changed = [
            *lines[: at[0]],
            re.sub(r"\[%r\d+(\+\d+)?\]", f"[{register[1]}+2048]", lines[at[0]]),
            *lines[at[0] + 1 :],
        ]
        verdict = exchange_addresses(read("\n".join(changed)), plan)
        assert isinstance(verdict, WrongExchangeAddress) and verdict.access == 0
        assert verdict.wanted != verdict.found and verdict.span.line == at[0] + 1
        for number, line in enumerate(lines):
            shift = re.fullmatch(r"(\t(?:shl|shr)\.\w+ %r\d+, %r\d+, )(\d+);", line)
            if shift is None:
                continue
            mutated = [*lines[:number], f"{shift[1]}{int(shift[2]) + 1};", *lines[number + 1 :]]
            verdict = exchange_addresses(read("\n".join(mutated)), plan)
            wrong += 1
            refuted += isinstance(verdict, WrongExchangeAddress)
    assert refuted and wrong


def test_a_lost_access_is_no_proof() -> None:
    ((text, plan),) = staged(7, 2, 1)
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if "st.shared" in line or "stmatrix" in line)
    assert isinstance(exchange_addresses(read("\n".join([*lines[:at], *lines[at + 1 :]])), plan), NotDecided)
