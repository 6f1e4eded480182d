"""Where do findings and reasons for doubt collect during a typestate proof, and what place does each name?

A place is a span from the caller, or, without one, the operation's ordinal in the printed order of its module. Findings
are kept in the order of discovery, one per code and place. While `muted`, nothing is collected: loop bodies are
interpreted several times, and only the last time speaks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.span import Span
from tilewright.contract.rules.typestate_codes import RULES
from tilewright.legal.tensor_map.violation import Violation

Places = Callable[[Operation], Span]


def ordinal_places(module: ModuleOp) -> Places:
    """Places by ordinal: the module is line 1 of file `<module>`, its first operation line 2, and so on."""

    @lru_cache(maxsize=1)
    def ordinals() -> dict[Operation, int]:
        return {operation: number for number, operation in enumerate(module.walk(), start=1)}

    return lambda operation: Span("<module>", ordinals().get(operation, 1), text=operation.name)


@dataclass(slots=True)
class Findings:
    """What a proof has found so far. Report a broken rule with `report`, a question left open with `doubt`."""

    places: Places
    muted: bool = False
    found: list[Diagnostic] = field(default_factory=list[Diagnostic])
    doubts: list[str] = field(default_factory=list[str])
    assumptions: list[str] = field(default_factory=list[str])

    def report(
        self,
        code: str,
        operation: Operation,
        message: str,
        *,
        against: Operation | None = None,
        steps: tuple[str, ...] = (),
    ) -> None:
        """Record that `operation` breaks rule `code`. against: the conflicting operation; steps: a short run."""
        if self.muted:
            return
        place = self.places(operation)
        if any(earlier.code == code and earlier.primary == place for earlier in self.found):
            return
        rule = RULES[code]
        self.found.append(
            Diagnostic(
                code=code,
                name=rule.name,
                message=message,
                primary=place,
                conflicts_with=self.places(against) if against is not None else None,
                interleaving=steps,
                source=rule.source,
                repair=Repair(rule.remedy),
            )
        )

    def assume(self, what: str) -> None:
        """Record what the proof takes for granted besides what every proof does."""
        if what not in self.assumptions:
            self.assumptions.append(what)

    def illegal(self, violation: Violation, operation: Operation) -> None:
        """Record that the tensor map of `operation` breaks a rule of the encoder."""
        self.found.append(
            Diagnostic(
                code=violation.code,
                name=violation.name,
                message=violation.message,
                primary=self.places(operation),
                source=violation.source,
            )
        )

    def doubt(self, reason: str, operation: Operation | None = None) -> None:
        """Record a reason why the program can't be proven. Muting doesn't silence doubt: unknown must never be lost."""
        text = reason if operation is None else f"{self.places(operation)}: {operation.name}: {reason}"
        if text not in self.doubts:
            self.doubts.append(text)
