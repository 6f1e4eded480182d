"""Which findings does the user set aside, of every kernel? `--allow CODE=REASON`, `--ignore CODES`, `--select CODES`.

A rule is named by its code (`PX101`), its name (`write-not-fenced`), or the beginning of codes (`PX`, `PX1`).

- allow: the findings are set aside with a reason, as a comment in the source does for one line;
- ignore: they are set aside without one;
- select: all others are ignored. What stands in both is ignored: `--select PX --ignore PX102`.

A finding that is set aside counts for nothing: it does not refute, and the rest of the run is judged as if it were not
there. A proof says which errors it leaves out (`KernelReport.exceptions`). Where the run ends at such a finding (a
hang, a fault), the rest was not judged, and the verdict is unknown. Reasons of an unknown verdict have no code: none of
this touches them. Checked by: tests/driver/check/test_finding_filter.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches

from tilewright.base.check_report import FileReport, Suppressed
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.contract.rules.interpretations import POINTS
from tilewright.contract.rules.typestate_codes import Rule


def _all_rules() -> tuple[Rule, ...]:
    from tilewright.driver.rules.catalog import all_rules  # most checks set nothing aside

    return all_rules()


@dataclass(frozen=True, slots=True)
class FindingFilter:
    """allowed: codes, with the reason; ignored: codes. A code in both is allowed, with its reason."""

    allowed: Mapping[str, str]
    ignored: frozenset[str]

    def excludes(self, finding: Diagnostic) -> bool:
        """Whether a finding is set aside."""
        return finding.code in self.allowed or finding.code in self.ignored

    def split(self, findings: Iterable[Diagnostic]) -> tuple[tuple[Diagnostic, ...], tuple[Suppressed, ...]]:
        """Findings that stay, and those that are set aside."""
        kept: list[Diagnostic] = []
        suppressed: list[Suppressed] = []
        for finding in findings:
            if finding.code in self.allowed:
                suppressed.append(Suppressed(finding, self.allowed[finding.code], "option"))
            elif finding.code in self.ignored:
                suppressed.append(Suppressed(finding, "", "ignored"))
            else:
                kept.append(finding)
        return tuple(kept), tuple(suppressed)

    def of_file(self, report: FileReport) -> FileReport:
        """The report without those findings of the file as a whole that are set aside."""
        return replace(report, findings=self.split(report.findings)[0])


NOTHING_SET_ASIDE = FindingFilter({}, frozenset())


def finding_filter(
    allow: Mapping[str, str] | None = None, select: Iterable[str] = (), ignore: Iterable[str] = ()
) -> FindingFilter:
    """What these options set aside. Raises TilewrightError for a name that no rule has, and for a reason that is
    empty."""
    allowed: dict[str, str] = {}
    for name, reason in (allow or {}).items():
        if not reason.strip():
            raise TilewrightError(
                f"{name} is allowed without a reason", remedy=f"say why, as in {name}=the bytes are never read"
            )
        allowed |= dict.fromkeys(codes_of(name), " ".join(reason.split()))
    selected = frozenset(code for name in select for code in codes_of(name))
    ignored = frozenset(code for name in ignore for code in codes_of(name))
    if selected:
        ignored |= frozenset(rule.code for rule in _all_rules()) - selected
    return FindingFilter(allowed, ignored) if allowed or ignored else NOTHING_SET_ASIDE


def codes_of(name: str) -> tuple[str, ...]:
    """The codes that a name stands for: a code, a rule's name, or the beginning of codes. Raises TilewrightError where
    there is none."""
    wanted = name.strip()
    rules = _all_rules()
    found = [rule.code for rule in rules if wanted.upper() == rule.code or wanted.lower() == rule.name]
    found = found or [rule.code for rule in rules if wanted and rule.code.startswith(wanted.upper())]
    if not found:
        raise TilewrightError(f"there is no rule {name}", remedy=nearest_rule(name))
    return tuple(found)


def nearest_rule(name: str) -> str:
    """What may have been meant by a code or name that no rule has, in words."""
    if name.strip().lower().replace("-", "_") in (point.name for point in POINTS):
        point = name.strip().lower().replace("-", "_")
        return f"{point} is a contested point: choose its side, as in --isa tolerant,{point}=strict"
    known = [word for rule in _all_rules() for word in (rule.code, rule.name)] + [point.name for point in POINTS]
    near = get_close_matches(name.upper(), known, n=1) or get_close_matches(name.lower(), known, n=1)
    return f"did you mean {near[0]}?" if near else "`tilewright explain` lists them"
