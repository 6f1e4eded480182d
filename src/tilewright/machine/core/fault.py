"""How a run ends badly: a fault (an instruction did what the ISA forbids) or a hang (nobody can ever move again).

Both carry the place in the PTX text and a code that `rules` explains: `MF` for the machine's own family, numbers from
201 for protocol families. A hang is `LV201`; a run past its step limit, which proves nothing, `LV202`.
"""

from __future__ import annotations

from typing import Literal

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.core.event import value


class MachineFault(TilewrightError):
    """An instruction broke a rule of the ISA. `diagnostic` is the same finding as a value."""

    def __init__(
        self, code: str, name: str, message: str, span: Span | None, source: str = "",
        conflicts_with: Span | None = None,
    ) -> None:  # fmt: skip
        self.diagnostic = Diagnostic(
            code=code, name=name, message=message, primary=span, conflicts_with=conflicts_with, source=source
        )
        self.code = code
        super().__init__(f"{code} {message}", span=span, findings=(self.diagnostic,))


AwaitedKind = Literal[
    "", "mbarrier", "named barrier", "cluster barrier", "registers", "tensor memory", "lanes", "global word"
]


@value
class Awaited:
    """What a warp waits for: an mbarrier (owner `cta`, `address`, `parity`; -1: by state), a named barrier (`address`:
    its number; `threads`: how many it takes, -1: all), the cluster's barrier, registers, columns of tensor memory,
    other lanes, a word of global memory (`address`), or something else ("")."""

    kind: AwaitedKind = ""
    cta: int = -1
    address: int = -1
    parity: int = -1
    threads: int = -1


NOTHING_NAMED = Awaited()


@dataclass(frozen=True, slots=True)
class Waiter:
    """Who waits, for what. `reason` is one line: the barrier's address, phase and what it still lacks."""

    cta: int
    warp: int
    lanes: int
    reason: str
    span: Span
    awaited: Awaited = NOTHING_NAMED

    def __str__(self) -> str:
        who = f"CTA {self.cta} warp {self.warp}"
        if self.lanes != 32:
            who += f" ({self.lanes} lane{'s' if self.lanes != 1 else ''})"
        return f"{who} at {self.span}: {self.reason}"


class MachineHang(TilewrightError):
    """No warp can move and nothing is in flight (or the step limit was reached): `waiters` says who waits for what."""

    def __init__(self, code: str, summary: str, waiters: tuple[Waiter, ...]) -> None:
        self.waiters = waiters
        self.code = code
        lines = tuple(str(waiter) for waiter in waiters)
        first = waiters[0].span if waiters else None
        self.diagnostic = Diagnostic(
            code=code, name="hang", message=summary, primary=first, interleaving=lines, source="PTX ISA, mbarrier"
        )
        super().__init__("\n".join((f"{code} {summary}", *lines)), findings=(self.diagnostic,))
