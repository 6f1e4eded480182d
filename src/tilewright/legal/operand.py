"""What does a kernel's author read when an operand cannot be fetched by the copy engine?

Each rule that the operand's tensor map breaks becomes one diagnostic: the rule in one line with its numbers, and a
repair: a change of the map, judged again by the rules, or the copy path that needs no tensor map. Documented rules that
the driver does not enforce come out at level REVIEW.

Not handled: choosing between the repairs (`synth` does). Checked by tests/legal/test_operand.py.
"""

from __future__ import annotations

from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.plan import TensorMap
from tilewright.base.span import Span
from tilewright.legal.mend import mend_one
from tilewright.legal.tensormap import cautions, violations
from tilewright.legal.violation import Violation
from tilewright.targets import Target

_WITHOUT_TENSOR_MAP = "copy it without a tensor map"
_LAYOUT_RULES = frozenset(("TM007", "TM009", "TM010", "TM011", "TM012", "TM013", "TM017"))
"""Rules about where the tensor stands. Others are about the box, which the compiler chooses."""


def diagnose(
    map: TensorMap,
    target: Target,
    place: Span | None = None,
    *,
    global_address: int = 0,
    dimension_names: tuple[str, ...] = (),
) -> tuple[Diagnostic, ...]:
    """One diagnostic per rule that `map` breaks, at `place`; empty for a legal map without cautions.

    dimension_names: innermost first, such as ("K", "M"), for the repairs. Raises TilewrightError where the map's fields
    have contradicting lengths.
    """
    broken = violations(map, target, global_address=global_address)
    codes = {violation.code for violation in broken}
    found = [
        _diagnostic(
            violation,
            place,
            Level.ERROR,
            _repair(map, violation, codes, target, global_address=global_address, dimension_names=dimension_names),
        )
        for violation in broken
    ]
    found += [_diagnostic(caution, place, Level.REVIEW, None) for caution in cautions(map, target)]
    return tuple(found)


def _diagnostic(violation: Violation, place: Span | None, level: Level, repair: Repair | None) -> Diagnostic:
    return Diagnostic(
        code=violation.code,
        name=violation.name,
        message=violation.message,
        primary=place,
        source=violation.source,
        repair=repair,
        level=level,
    )


def _repair(
    map: TensorMap,
    violation: Violation,
    codes: set[str],
    target: Target,
    *,
    global_address: int,
    dimension_names: tuple[str, ...],
) -> Repair | None:
    """The mend of one rule. `rechecked`: the mended map no longer breaks it there, nor any rule kept before."""
    mended = mend_one(map, violation, target, dimension_names=dimension_names)
    if mended is None:
        if violation.code not in _LAYOUT_RULES:
            return None
        title = _WITHOUT_TENSOR_MAP
        if violation.code == "TM009":
            title = f"begin the tensor at a multiple of {violation.limit} bytes, or {_WITHOUT_TENSOR_MAP}"
        return Repair(title=title, cost="threads copy instead of the copy engine")
    after = violations(mended.map, target, global_address=global_address)
    left = any(other.code == violation.code and other.index == violation.index for other in after)
    clean = not left and {other.code for other in after} <= codes
    change = mended.changes[0]
    title = f"{change.title}, or {_WITHOUT_TENSOR_MAP}" if violation.code in _LAYOUT_RULES else change.title
    return Repair(title=title, cost=change.cost, rechecked=clean)
