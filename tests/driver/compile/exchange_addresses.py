"""Are the shared-memory addresses of an emitted exchange those of its plan, in every thread?

What is proved: the text has, in order, one access to shared memory for each of the plan's, and in every thread that the
plan lets take part its address is the memory's begin plus the image of lane and warp under a linear layout over F2,
exclusive-or a constant of the access. The text's addresses are forms of the thread (`driver.reproof.thread_form`),
exact for every thread and for wherever the memory begins. A difference is a counterexample: thread, access, both bytes.

That the plan itself moves every element to its place is `synth`'s algebra, and run on the machine. Anything that the
forms do not follow ends as `NotDecided`. Checked by: tests/driver/compile/test_exchange_addresses.py, with mutated
texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.base.span import Span
from tilewright.driver.reproof.thread_form import NoForm, ThreadForm, ThreadForms, Truths
from tilewright.frontends.ptx.ast import Address, Instruction, Module
from tilewright.ir.exchange import Access, ExchangePlan, Load, Stage, Store
from tilewright.layout.answer import NotDecided
from tilewright.layout.linear.maps import LinearLayout, images

_LANES = 32
_LANE_BITS = 5


@dataclass(frozen=True, slots=True)
class ExchangeAddresses:
    """Every access stands where the plan says. accesses: instructions of the text."""

    accesses: int


@dataclass(frozen=True, slots=True)
class WrongExchangeAddress:
    """A counterexample. access: number of the instruction among those to shared memory; thread: of the block; wanted,
    found: bytes from the memory's begin, None for a thread that takes no part. span: of the instruction."""

    access: int
    thread: int
    wanted: int | None
    found: int | None
    span: Span


def layout_of_access(access: Access) -> LinearLayout:
    """Lane and warp to the byte of an access, but for its constant."""
    columns = (*access.lane_bytes, *access.warp_bytes)
    bits = max(column.bit_length() for column in columns) if columns else 0
    names = (("lane", len(access.lane_bytes)), ("warp", len(access.warp_bytes)))
    return LinearLayout(names, (("byte", bits),), columns)


def exchange_addresses(module: Module, plan: ExchangePlan) -> ExchangeAddresses | WrongExchangeAddress | NotDecided:
    """The verdict on the one kernel of `module`, which was emitted for `plan` alone, once."""
    (kernel,) = module.kernels
    shared = {each.name: each.align for each in (*module.variables, *kernel.variables) if each.space == "shared"}
    if len(shared) > 1:
        return NotDecided(f"{len(shared)} shared variables", "one, which holds the memory of the exchange")
    forms = ThreadForms(kernel, _LANES * plan.warps, shared)
    items = forms.text.flow.instructions
    found = [at for at, facts in enumerate(forms.text.facts) if facts.space == "shared" and facts.kind in _ACCESSES]
    wanted = list(_accesses(plan))
    if len(found) != len(wanted):
        return NotDecided(f"{len(found)} accesses to shared memory for {len(wanted)} of the plan", "one for each")
    for number, (at, (access, constant)) in enumerate(zip(found, wanted, strict=True)):
        verdict = _judge(forms, items[at], at, number, access, constant, shared)
        if verdict is not None:
            return verdict
    return ExchangeAddresses(len(found))


_ACCESSES = ("load", "store", "atomic")


def _accesses(plan: ExchangePlan) -> Iterator[tuple[Access, int]]:
    """Every instruction to shared memory, with the constant of its address."""
    for step in plan.steps:
        match step:
            case Stage():
                sides = [access for part in step.parts for access in part]
            case Store(access) | Load(access):
                sides = [access]
            case _:
                sides = []
        for access in sides:
            for constant in access.constants:
                yield access, constant


def _judge(
    forms: ThreadForms,
    item: Instruction,
    at: int,
    number: int,
    access: Access,
    constant: int,
    shared: dict[str, int],
) -> WrongExchangeAddress | NotDecided | None:
    operand = next((each for each in item.operands if isinstance(each, Address)), None)
    if operand is None or operand.base is None:
        return NotDecided(f"{item.opcode} has no address of a register", "an address in a register")
    form = forms.of_operand(operand.base, at)
    if not isinstance(form, ThreadForm):
        reason = form.reason if isinstance(form, NoForm) else "a predicate"
        return NotDecided(f"the address of {item.opcode}: {reason}", "a form that is followed")
    if len(form.symbols) != 1 or form.symbols[0][0] not in shared or form.symbols[0][1] != 1:
        return NotDecided(f"the address of {item.opcode} does not count from one shared variable", "such an address")
    taking = np.ones(forms.threads, np.bool_)
    if item.guard is not None:
        chosen = forms.of_register(item.guard.register.name, at)
        if not isinstance(chosen, Truths):
            return NotDecided(f"which threads execute {item.opcode}", "a guard that depends on the thread alone")
        taking = chosen.numbers ^ item.guard.negated
    threads = np.arange(forms.threads, dtype=np.int64)
    expected = taking_part(access, threads)
    layout = layout_of_access(access)
    places = images(layout, threads & (1 << len(layout.columns)) - 1) ^ constant
    given = (form.numbers + operand.offset) % (1 << 32)
    wrong = np.flatnonzero((taking != expected) | (expected & (given != places)))
    if not wrong.size:
        return None
    thread = int(wrong[0])
    return WrongExchangeAddress(
        number,
        thread,
        int(places[thread]) if expected[thread] else None,
        int(given[thread]) if taking[thread] else None,
        item.span,
    )


def taking_part(
    access: Access, threads: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each thread executes the access."""
    mask = access.lane_active | access.warp_active << _LANE_BITS
    return (threads & mask) == 0
