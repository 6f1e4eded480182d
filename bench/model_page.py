"""Predicted times beside measured ones, as a section of docs/benchmarks.md: what `python -m bench model` found.

Checked by: tests/benchmarks/test_predicted_times.py.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.model_runs import Run, read_runs, score, spearman

_FILES = (
    ("model.json", "Twenty products, timed after the model was fitted"),
    ("model_others.json", "Other products, of which the model was fitted to none"),
    ("model_fitted.json", "The runs that the model was fitted to"),
)
_LEAD = """
What `synth.cost.time_model` predicts of decided pipelines, beside their times in graphs of launches.
Configurations are drawn at random from a fixed seed out of those that the compiler takes, and its own choice is added.
Told are the rank correlation of all runs and, for each product, of its own; the time of the best configuration over
that of the one predicted to be fastest, and over that of the compiler's own choice, which rests on other estimates.
"""


def predicted_times(results: Path) -> Iterator[str]:
    """Lines of the section, none where nothing was timed."""
    if not (results / _FILES[0][0]).exists():
        return
    yield "\n## Predicted times\n"
    yield _LEAD.strip() + "\n"
    for name, title in _FILES:
        if (results / name).exists():
            yield from _file(results / name, title, table=name != "model_fitted.json")
    yield (
        "`python -m bench model --from bench/results/model_fitted.json --fit` fits the parameters again, to all\n"
        "products and to each half of them, and shows how well that predicts the other half.\n"
    )


def _file(path: Path, title: str, *, table: bool) -> Iterator[str]:
    document, runs = read_runs(path)
    products = list(dict.fromkeys(run.shape for run in runs))
    scores = {shape: score([run for run in runs if run.shape == shape]) for shape in products}
    correlation = spearman([run.predicted_microseconds for run in runs], [run.microseconds for run in runs])
    errors = [abs(run.predicted_microseconds / run.microseconds - 1) for run in runs]
    firsts = [each.first for each in scores.values()]
    yield f"### {title}\n"
    yield f"`{document['command']}`, {document['date']}: {document['versions'].get('gpu', '')}.\n"
    yield (
        f"{len(runs)} runs of {len(products)} products: rank correlation {correlation:.3f}; predicted times off by\n"
        f"{100 * statistics.median(errors):.1f} % in the median; first choice {statistics.mean(firsts):.3f} of the "
        f"best in the mean, {min(firsts):.3f} at the least.\n"
    )
    if table:
        yield "| M, N, K | configurations | best, us | predicted first, us | ratio | compiler's choice | correlation |"
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        for shape, each in scores.items():
            yield _line([run for run in runs if run.shape == shape], each.first, each.chosen, each.spearman)
        yield ""


def _line(runs: list[Run], first: float, chosen: float, correlation: float) -> str:
    best = min(run.microseconds for run in runs)
    predicted = min(runs, key=lambda run: run.predicted_microseconds)
    shape = ", ".join(map(str, runs[0].shape))
    return (
        f"| {shape} | {len(runs)} | {best:.2f} | {predicted.microseconds:.2f} | {first:.3f} | {chosen:.3f} | "
        f"{correlation:.3f} |"
    )
