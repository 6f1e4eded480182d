"""The races of all suites in one SVG: how far is each case from its best peer, and where is each suite's mean?

A row for each suite: a dot for each case at its ratio (the best peer's time over ours) on a logarithmic axis, a bar at
the geometric mean with its number, a hollow mark at the goal. Plain text, no library. The figure brings its own
background, so that it is legible on any page, and follows the reader's colour scheme.
Checked by: tests/benchmarks/test_overview_plot.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_ROW = 34
_LABELS = 196
_CHART = 520
_NUMBERS = 84
_TOP = 66
_BOTTOM = 50
_LOW, _HIGH = 0.85, 8.0
"""Of the axis. Cases beyond it stand at its end."""
_TICKS = (0.9, 1.0, 1.2, 1.5, 2, 3, 5, 8)
_STYLE = (
    ".page{fill:#fff;stroke:#cbd5e1}text{fill:#0f172a}.quiet{fill:#475569}.rule{stroke:#cbd5e1}.one{stroke:#475569}"
    ".ahead{fill:#0f766e}.behind{fill:#c2410c}.mean{stroke:#0f172a}.goal{fill:none;stroke:#475569}"
    "@media(prefers-color-scheme:dark){.page{fill:#1b1f27;stroke:#3b4252}text{fill:#e5e9f0}.quiet{fill:#aab4c4}"
    ".rule{stroke:#3b4252}.one{stroke:#aab4c4}.ahead{fill:#2dd4bf}.behind{fill:#fb923c}.mean{stroke:#e5e9f0}"
    ".goal{stroke:#aab4c4}}"
)


@dataclass(frozen=True, slots=True)
class SuiteRatios:
    """A suite's races. ratios: of each case; mean: their geometric mean; goal: for it, None where none was set."""

    title: str
    ratios: tuple[float, ...]
    mean: float
    goal: float | None


def overview_plot(suites: Sequence[SuiteRatios]) -> str:
    """The SVG of these suites, in order."""
    width, bottom = _LABELS + _CHART + _NUMBERS, _TOP + _ROW * len(suites)
    title = "Time of the best peer over ours, case by case"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + _BOTTOM}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13" aria-label="{title}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{bottom + _BOTTOM - 1}" rx="6"/>',
        f'<text x="16" y="26" font-size="15" font-weight="600">{title}</text>',
        f'<text class="quiet" x="{width - 16}" y="26" text-anchor="end">right of 1: ours is faster</text>',
    ]
    for tick in _TICKS:
        x, kind = _place(tick), "one" if tick == 1 else "rule"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 8}" y2="{bottom}"/>')
        parts.append(f'<text class="quiet" x="{x:.1f}" y="{_TOP - 14}" text-anchor="middle">{tick:g}</text>')
    for number, suite in enumerate(suites):
        parts += _suite(suite, _TOP + _ROW * number + _ROW / 2)
    parts += _legend(bottom + 28)
    return "".join([*parts, "</svg>\n"])


def _suite(suite: SuiteRatios, y: float) -> list[str]:
    parts = [
        f'<text x="16" y="{y + 4:.1f}">{escape(suite.title)}</text>',
        f'<text x="{_LABELS + _CHART + 68}" y="{y + 4:.1f}" text-anchor="end" font-weight="600">'
        f"{suite.mean:.3f}</text>",
    ]
    for index, ratio in enumerate(sorted(suite.ratios)):
        kind = "ahead" if ratio >= 1 else "behind"
        # Neighbours stand at different heights, so that dots of equal ratios are seen.
        height = y + 3 * (index % 5 - 2)
        parts.append(
            f'<circle class="{kind}" cx="{_place(ratio):.1f}" cy="{height:.1f}" r="3" fill-opacity="0.6">'
            f"<title>{ratio:.3f}</title></circle>"
        )
    if suite.goal is not None:
        parts.append(
            f'<circle class="goal" cx="{_place(suite.goal):.1f}" cy="{y - 14:.1f}" r="3.5" stroke-width="1.5"/>'
        )
    x = _place(suite.mean)
    parts.append(
        f'<line class="mean" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 12:.1f}" y2="{y + 12:.1f}" stroke-width="2.5"/>'
    )
    return parts


def _legend(y: float) -> list[str]:
    return [
        f'<circle class="ahead" cx="22" cy="{y - 4}" r="4"/><text x="32" y="{y}">a case, ours faster</text>',
        f'<circle class="behind" cx="186" cy="{y - 4}" r="4"/><text x="196" y="{y}">a peer faster</text>',
        f'<line class="mean" x1="318" x2="318" y1="{y - 12}" y2="{y + 4}" stroke-width="2.5"/>'
        f'<text x="328" y="{y}">geometric mean, and its value at the right</text>',
        f'<circle class="goal" cx="640" cy="{y - 4}" r="3.5" stroke-width="1.5"/>'
        f'<text x="650" y="{y}">goal for it</text>',
    ]


def _place(ratio: float) -> float:
    bounded = min(max(ratio, _LOW), _HIGH)
    return _LABELS + _CHART * math.log(bounded / _LOW) / math.log(_HIGH / _LOW)
