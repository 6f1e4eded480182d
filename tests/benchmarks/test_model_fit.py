"""Fitting finds its way back to the parameters that made the times, and what is kept of runs is what was decided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from bench.model_fit import fitted, predictions
from bench.model_runs import decisions_of, read_runs
from bench.tile_names import tile_names

from tilewright.synth.cost.time_model import parameters_of
from tilewright.targets import target

STORED = Path(__file__).parents[2] / "bench" / "results" / "model.json"


def test_times_of_other_parameters_are_explained() -> None:
    _, runs = read_runs(STORED)
    few = [run for run in runs if run.shape == (128, 4096, 4096)][:8]
    few += [run for run in runs if run.shape == (2048, 2048, 2048)][:8]
    decisions = [decisions_of(run) for run in few]
    for run, decided in zip(few, decisions, strict=True):
        names = tile_names(decided)
        assert all(names[name] == value for name, value in run.kept.items() if name != "direct_stores")
    begin = parameters_of(target("sm_90a"))
    made = predictions(
        list(zip(few, decisions, strict=True)),
        replace(begin, fetch_bytes_per_kilocycle=45_000.0, latency_cycles=2500.0),
    )
    told = [replace(run, microseconds=float(time)) for run, time in zip(few, made, strict=True)]
    known = list(zip(told, decisions, strict=True))

    def off(parameters: object) -> float:
        assert isinstance(parameters, type(begin))
        return float(np.abs(np.log(predictions(known, parameters) / made)).mean())

    assert off(begin) > 0.1
    assert off(fitted(known, begin)) < 0.2 * off(begin)
