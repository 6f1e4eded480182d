"""The three verdicts: proven (and for what), refuted (with findings), unknown (with what would decide it)."""

from __future__ import annotations

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.value import dataclass


@dataclass(frozen=True, slots=True)
class Proven:
    """Every interleaving is free of hangs and races, for `scope` ("all trip counts" or "this launch").

    `claims` are the facts that the proof rests on and that an independent check may compare with a run.
    """

    scope: str
    assumptions: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refuted:
    findings: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Not decided. `reasons` say what would decide it. Never shown as a pass."""

    reasons: tuple[str, ...]


Verdict = Proven | Refuted | Unknown
