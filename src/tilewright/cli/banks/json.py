"""What does `tilewright banks` say as JSON? Stable within `version`.

A tile gives `accesses` with what they cost as it stands and, with `--synthesize`, `best` and `families`; kernels give
`lines`, in the text's order. Checked by: tests/cli/commands/test_banks_command.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.base.span import Span
from tilewright.cli.banks.judge import TileJudged
from tilewright.cli.layout.json import layout_to_json
from tilewright.driver.views.bank_report import BankReport
from tilewright.layout.layout import Layout
from tilewright.legal.bank.swizzle_choice import Judged

VERSION = 1


def tile_to_json(judged: TileJudged) -> dict[str, Any]:
    """The whole of what is printed of a tile."""
    document: dict[str, Any] = {
        "version": VERSION,
        "layout": layout_to_json(judged.layout),
        "element_bytes": judged.element_bytes,
        "target": judged.target.name,
        "conflict_free": judged.conflict_free,
        "accesses": [
            {
                "kind": cost.asked.kind,
                "order": cost.asked.order,
                "weight": cost.asked.weight,
                "accesses": cost.accesses,
                "wavefronts": cost.wavefronts,
                "ideal": cost.ideal,
                "first_addresses": list(cost.first),
            }
            for cost in judged.costs
        ],
    }
    choice = judged.choice
    if choice is not None:
        document["choice"] = {
            "best": _placement_to_json(judged, choice.best),
            "families": [_placement_to_json(judged, each) for each in choice.by_family],
            "ideal": choice.ideal,
            "bound": choice.bound,
            "candidates": choice.candidates,
            "proof": choice.proof,
            "conflict_free": choice.conflict_free,
        }
    return document


def _placement_to_json(judged: TileJudged, each: Judged) -> dict[str, Any]:
    placement, layout = each.placement, judged.layout_of(each)
    return {
        "family": placement.family,
        "name": placement.name,
        "wavefronts": each.wavefronts,
        "by_access": list(each.by_access),
        "extra_bytes": placement.extra_bytes,
        "alignment_bytes": placement.alignment_bytes,
        "panels": placement.panels,
        "pitch_bytes": placement.pitch_bytes,
        "layout": str(layout) if isinstance(layout, Layout) else None,
    }


def kernels_to_json(reports: Sequence[BankReport]) -> dict[str, Any]:
    """The whole of what is printed of kernels' launches."""
    return {"version": VERSION, "kernels": [_kernel_to_json(report) for report in reports]}


def _kernel_to_json(report: BankReport) -> dict[str, Any]:
    return {
        "kernel": report.entry,
        "wavefronts": report.wavefronts,
        "ideal": report.ideal,
        "clusters": report.clusters,
        "clusters_of_launch": report.clusters_of_launch,
        "ending": None if report.ending is None else report.ending.message,
        "lines": [
            {
                **_span_to_json(line.span),
                "origin": None if line.origin is None else _span_to_json(line.origin),
                "kind": line.kind,
                "executions": line.executions,
                "wavefronts": line.wavefronts,
                "ideal": line.ideal,
                "worst": line.worst,
                "worst_addresses": list(line.worst_addresses),
            }
            for line in report.lines
        ],
        "uncounted": [
            {**_span_to_json(each.span), "reason": each.reason, "executions": each.executions}
            for each in report.uncounted
        ],
    }


def _span_to_json(span: Span) -> dict[str, Any]:
    return {"file": span.file, "line": span.line, "text": span.text.strip()}
