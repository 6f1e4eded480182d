"""What is a decoded instruction? Two Python functions over a register file, or one that steers control.

A plain step always falls through: `full` runs it for all 32 lanes, `masked` for some. A control step (`act`) may jump,
block, yield or exit; it gets the warp and the lanes. Decoding happens once for a launch; no text is looked at later.
Checked by: tests/machine/core/test_run.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import FULL, UNINITIALISED, Lanes, Registers, merge, predicate_mask

if TYPE_CHECKING:
    from tilewright.machine.core.state import Warp


class Signal(Enum):
    """What a control step asks for, besides an integer (jump there) or None (fall through)."""

    CONVERGE = "lanes of the warp are missing"
    BLOCK = "run this instruction again once woken"
    YIELD = "fall through and end the quantum"
    EXIT = "these lanes are done"


FullFunction = Callable[[Registers], None]
MaskedFunction = Callable[[Registers, int], None]
LaneFunction = (
    Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
)
"""A function of lane vectors."""

ActFunction = Callable[["Warp", int], "int | Signal | None"]


@dataclass(slots=True, eq=False)
class Plain:
    """An instruction that always falls through. Never changed, yet not frozen, as a step: thousands are made for a
    launch, and a frozen one takes three times as long to make."""

    full: FullFunction
    masked: MaskedFunction


@dataclass(frozen=True, slots=True, eq=False)
class Control:
    """An instruction that steers. `converged`: it needs every live lane of the warp (`.aligned`)."""

    act: ActFunction
    converged: bool = False


@dataclass(slots=True, eq=False)
class Step:
    """A decoded instruction at its place. `guard` is a register slot, or -1; `reads` and `writes` are slots."""

    body: Plain | Control
    span: Span
    opcode: str
    guard: int
    negated: bool
    reads: frozenset[int] = field(default_factory=frozenset[int])
    writes: frozenset[int] = field(default_factory=frozenset[int])

    def doing(self, body: Plain | Control) -> Step:
        """The same step with another body."""
        return Step(body, self.span, self.opcode, self.guard, self.negated, self.reads, self.writes)

    def part(self, warp: Warp, mask: int, chosen: int) -> int:
        """Let the chosen lanes of `mask` go on with the step, and the others behind it. The chosen ones' place."""
        if "uni" in self.opcode.split("."):
            raise MachineFault(
                "MF005", "lanes-part",
                f"{self.opcode} is for {chosen.bit_count()} of {mask.bit_count()} lanes of CTA {warp.cta.linear} warp "
                f"{warp.index}, which come to it together",
                self.span, "PTX ISA 9.7.12: .uni",
            )  # fmt: skip
        return warp.part(mask, chosen)

    def within(self, around: Callable[[Warp, int, Callable[[], int | Signal | None]], int | Signal | None]) -> Step:
        """The same step, run by `around`, which gets the warp, the lanes and what the step does."""
        match self.body:
            case Plain(full, masked):

                def run_full(r: Registers) -> None:
                    around(r[0], FULL, lambda: full(r))

                def run_masked(r: Registers, mask: int) -> None:
                    around(r[0], mask, lambda: masked(r, mask))

                return self.doing(Plain(run_full, run_masked))
            case Control(act, converged):
                return self.doing(Control(lambda warp, mask: around(warp, mask, lambda: act(warp, mask)), converged))


def guarded(body: Plain, guard: int, negated: bool, targets: tuple[tuple[int, Lanes], ...] = ()) -> Plain:
    """`body` under `@p` or `@!p`.

    targets: registers that it writes, with what they hold if the guard holds in no lane and nobody wrote them before.
    Compilers take such a register for written, and use its undefined value where that does no harm.
    """
    run_full, run_masked = body.full, body.masked

    def skip(r: Registers) -> None:
        for slot, garbage in targets:
            if r[slot] is UNINITIALISED:
                r[slot] = garbage

    def full(r: Registers) -> None:
        chosen = predicate_mask(r[guard])
        if negated:
            chosen ^= FULL
        if chosen == FULL:
            run_full(r)
        elif chosen:
            run_masked(r, chosen)
        else:
            skip(r)

    def masked(r: Registers, mask: int) -> None:
        chosen = predicate_mask(r[guard])
        if negated:
            chosen ^= FULL
        chosen &= mask
        if chosen:
            run_masked(r, chosen)
        else:
            skip(r)

    return Plain(full, masked)


def before(first: Plain, body: Plain) -> Plain:
    """`first`, then `body`."""
    first_full, first_masked, full, masked = first.full, first.masked, body.full, body.masked

    def both_full(r: Registers) -> None:
        first_full(r)
        full(r)

    def both_masked(r: Registers, mask: int) -> None:
        first_masked(r, mask)
        masked(r, mask)

    return Plain(both_full, both_masked)


def compute(lane_function: LaneFunction, target: int, sources: tuple[int, ...]) -> Plain:
    """A plain step: `target` becomes `lane_function` of the source registers, lane by lane."""
    function: Callable[..., Any] = lane_function
    match sources:
        case (a,):

            def full_1(r: Registers) -> None:
                r[target] = function(r[a])

            def masked_1(r: Registers, mask: int) -> None:
                r[target] = merge(r[target], function(r[a]), mask)

            return Plain(full_1, masked_1)
        case (a, b):

            def full_2(r: Registers) -> None:
                r[target] = function(r[a], r[b])

            def masked_2(r: Registers, mask: int) -> None:
                r[target] = merge(r[target], function(r[a], r[b]), mask)

            return Plain(full_2, masked_2)
        case (a, b, c):

            def full_3(r: Registers) -> None:
                r[target] = function(r[a], r[b], r[c])

            def masked_3(r: Registers, mask: int) -> None:
                r[target] = merge(r[target], function(r[a], r[b], r[c]), mask)

            return Plain(full_3, masked_3)
        case _:

            def full(r: Registers) -> None:
                r[target] = function(*[r[slot] for slot in sources])

            def masked(r: Registers, mask: int) -> None:
                r[target] = merge(r[target], function(*[r[slot] for slot in sources]), mask)

            return Plain(full, masked)


def compute_many(function: Callable[..., tuple[Any, ...]], targets: tuple[int, ...], sources: tuple[int, ...]) -> Plain:
    """As `compute`, for several targets."""

    def full(r: Registers) -> None:
        for target, value in zip(targets, function(*[r[slot] for slot in sources]), strict=True):
            r[target] = value

    def masked(r: Registers, mask: int) -> None:
        for target, value in zip(targets, function(*[r[slot] for slot in sources]), strict=True):
            r[target] = merge(r[target], value, mask)

    return Plain(full, masked)


def nothing() -> Plain:
    """A step without effect (prefetches, hints)."""
    return Plain(lambda _r: None, lambda _r, _mask: None)
