"""A suite's ratios as an SVG: a dot a case with its quartiles, a line at one, lines at the targets, every case named.

Plain text, no library; colours work on light and dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

_ROW = 18
_LABELS = 420
_CHART = 560
_TOP = 56
_COLOURS = {"torch": "#3b7dd8", "cublasLt": "#c2410c", "triton": "#7c3aed"}
_OTHER = "#64748b"


def write_plot(path: Path, title: str, rows: Sequence[Mapping[str, Any]], goal: tuple[float, float] | None) -> Path:
    """Write the SVG; rows as `bench.suite` makes them. Refused cases are named with no dot."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plot(title, rows, goal), encoding="utf-8")
    return path


def plot(title: str, rows: Sequence[Mapping[str, Any]], goal: tuple[float, float] | None) -> str:
    """The SVG. The axis is logarithmic: a factor of two either way is the same length."""
    values = [row["ratio"] for row in rows if "ratio" in row] or [1.0]
    low = min(0.9, *values) / 1.03
    high = max(1.1, *values, *(goal or ())) * 1.03

    def place(ratio: float) -> float:
        bounded = min(max(ratio, low), high)
        return _LABELS + _CHART * math.log(bounded / low) / math.log(high / low)

    height = _TOP + _ROW * len(rows) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LABELS + _CHART + 40} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{escape(title, quote=True)}">',
        "<style>text{fill:#1e293b}.rule{stroke:#94a3b8}.goal{stroke:#16a34a;stroke-dasharray:4 3}"
        "@media(prefers-color-scheme:dark){text{fill:#e2e8f0}}</style>",
        f'<text x="10" y="20" font-size="15">{escape(title)}: time of the best peer over ours, same run</text>',
    ]
    bottom = _TOP + _ROW * len(rows)
    for tick in _ticks(low, high):
        x = place(tick)
        weight = 1.6 if tick == 1 else 0.4
        parts.append(
            f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{bottom}" stroke-width="{weight}"/>'
        )
        parts.append(f'<text x="{x:.1f}" y="{_TOP - 12}" text-anchor="middle">{tick:g}</text>')
    for words, target in zip(("geometric mean", "worst"), goal or (), strict=False):
        x = place(target)
        parts.append(f'<line class="goal" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{bottom}">')
        parts.append(f"<title>target of the {words}: {target:g}</title></line>")
    for index, row in enumerate(rows):
        y = _TOP + _ROW * index + _ROW / 2
        label = f"{row['case']} ({', '.join(map(str, row['shape']))})"
        parts.append(f'<text x="{_LABELS - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>')
        if "ratio" not in row:
            parts.append(f'<text x="{place(1):.1f}" y="{y + 4:.1f}" text-anchor="middle">not measured</text>')
            continue
        begin, end = (place(value) for value in row["quartiles"])
        best = str(row["best_peer"])
        colour = _COLOURS.get(best.split()[0], _OTHER)
        others = "; ".join(f"{name} {each['median']:.3f}" for name, each in row["ratios"].items())
        ratio, middle = float(row["ratio"]), place(float(row["ratio"]))
        words = escape(f"{label}: {ratio:.3f} against {best}. {others}")
        parts.append(
            f"<g><title>{words}</title>"
            f'<line x1="{begin:.1f}" x2="{end:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="3"/>'
            f'<circle cx="{middle:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/></g>'
        )
    x = 10.0
    for name, colour in (*_COLOURS.items(), ("other", _OTHER)):
        parts.append(f'<circle cx="{x + 5:.1f}" cy="{bottom + 22}" r="4.5" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14:.1f}" y="{bottom + 26}">best peer: {name}</text>')
        x += 150
    return "".join([*parts, "</svg>\n"])


def _ticks(low: float, high: float) -> list[float]:
    fine = (0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 3, 5, 7, 10, 20)
    return [tick for tick in fine if low <= tick <= high]
