"""Which side of each contested point does `--isa` take? `tolerant`, `strict`, and single points otherwise.

`tolerant,fenced_init=strict` is tolerant but for one point. What the points are, and what each side says, stands in
`contract.rules.interpretations`; here they get their pages. Checked by: tests/driver/rules/test_isa.py.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.error import TilewrightError
from tilewright.contract.rules.interpretations import POINTS, ContestedPoint, Interpretations, strict, tolerant

_SIDES = {"strict": strict, "tolerant": tolerant}


def interpretations_of(isa: str) -> Interpretations:
    """The sides that `isa` takes. Raises TilewrightError for a side or a point that does not exist."""
    side, *changes = (part.strip() for part in isa.split(","))
    interpretations = _side(side, isa)
    for change in changes:
        name, equals, other = (part.strip() for part in change.partition("="))
        if not equals:
            raise TilewrightError(
                f"cannot read {change!r} in the interpretation {isa!r}",
                remedy="write it as tolerant,fenced_init=strict",
            )
        interpretations = _with_point(interpretations, point_named(name), _side(other, isa))
    return interpretations


def _side(name: str, isa: str) -> Interpretations:
    if name not in _SIDES:
        raise TilewrightError(f"{name!r} in the interpretation {isa!r} is no side", remedy="write tolerant or strict")
    return _SIDES[name]()


def _with_point(interpretations: Interpretations, point: ContestedPoint, side: Interpretations) -> Interpretations:
    changed = replace(interpretations, **{point.name: getattr(side, point.name)})
    # At which level a fence on the path is reported belongs to the same point.
    return replace(changed, fence_on_path=side.fence_on_path) if point.name == "proxy_fence" else changed


def point_named(name: str) -> ContestedPoint:
    """The contested point called `name`. Raises TilewrightError, with the nearest, where there is none."""
    names = [point.name for point in POINTS]
    wanted = name.lower().replace("-", "_")
    for point in POINTS:
        if point.name == wanted:
            return point
    near = get_close_matches(wanted, names, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"the points are {', '.join(names)}"
    raise TilewrightError(f"there is no contested point {name!r}", remedy=remedy)


def with_contested(finding: Diagnostic, interpretations: Interpretations) -> Diagnostic:
    """The finding with the contested points that decide its level, by these interpretations, if it names none."""
    if finding.contested:
        return finding
    names = [
        point.name
        for point in POINTS
        if finding.code in point.codes and interpretations.level_of(point.name) is finding.level
    ]
    return replace(finding, contested=" or ".join(names)) if names else finding


def point_page(point: ContestedPoint) -> str:
    """A contested point as a page of Markdown."""
    codes = ", ".join(f"[{code}]({code}.md)" for code in point.codes)
    return (
        f"# Contested: {point.name}\n\n{point.question}\n\n"
        f"- **strict:** {point.strict}\n- **tolerant:** {point.tolerant}\n"
        f"- **Rules:** {codes}\n- **Evidence:** {'; '.join(point.sources)}\n"
        f"- **Switch:** `--isa tolerant,{point.name}=strict`, `--isa strict,{point.name}=tolerant`\n"
    )


def point_file(point: ContestedPoint) -> str:
    """The name of a point's page."""
    return f"contested-{point.name.replace('_', '-')}.md"
