"""`tune=True` with a timer of its own: what is compiled and timed, what is kept, and what has nothing to tune."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from examples import rows

import tilewright as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.compile import kernels, ready, specialised, tuned
from tilewright.runtime.bundle import Bundle

SHAPE = {"M": 64, "N": 256, "K": 256}
MATMUL = kernels.matmul_kernel


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(ready, "_memory", {})
    monkeypatch.setattr(specialised, "_compiled", {})
    monkeypatch.setattr("tilewright.tune.candidates.MOST", 2)
    return tmp_path


class Timing:
    """A timer by which the last of the programs is the quickest, or the first."""

    def __init__(self, *, last: bool = True) -> None:
        self.timed: list[list[Bundle]] = []
        self.last = last

    def __call__(self, bundles: Sequence[Bundle]) -> list[list[float]]:
        self.timed.append(list(bundles))
        times = [[10.0 - place, 10.0 - place] for place in range(len(bundles))]
        return times if self.last else times[::-1]


@pytest.fixture
def timing(monkeypatch: pytest.MonkeyPatch) -> Timing:
    found = Timing()
    monkeypatch.setattr(tuned, "gpu_timer", lambda program: found)
    return found


def decisions(bundle: Bundle) -> dict[str, Any]:
    return {name: value for name, value in bundle.decisions.items() if name != "reasons"}


def test_the_quickest_is_taken_kept_and_not_timed_again(timing: Timing, folder: Path) -> None:
    compiled = tw.compile(MATMUL, **SHAPE, tune=True)
    bundles, once_more = timing.timed
    assert once_more == [bundles[0], bundles[-1]], "those that come near the quickest are timed again"
    assert len(bundles) >= 2 and decisions(compiled.bundle) == decisions(bundles[-1]) != decisions(bundles[0])
    assert all(bundle.facts["verdict"] == "proven" for bundle in bundles)
    assert decisions(bundles[0]) == decisions(tw.compile(MATMUL, **SHAPE).bundle), "the compiler's choice comes first"
    ready._memory.clear()
    again = tw.compile(MATMUL, **SHAPE, tune=True)
    assert len(timing.timed) == 2 and decisions(again.bundle) == decisions(compiled.bundle)
    (record,) = folder.glob("*.tuned.json")
    tile = json.loads(record.read_text())["tile"]
    assert tile == [
        compiled.bundle.decisions["unit_rows"] * compiled.bundle.decisions["consumers"],
        compiled.bundle.decisions["tile_columns"],
    ]


@pytest.mark.full
def test_another_program_another_version_and_damage_are_timed_anew(
    timing: Timing, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tw.compile(MATMUL, **SHAPE, tune=True)
    tw.compile(MATMUL, **{**SHAPE, "K": 512}, tune=True)
    assert len(timing.timed) == 4
    for record in folder.glob("*.tuned.json"):
        record.write_text("[1]")
    tw.compile(MATMUL, **SHAPE, tune=True)
    assert len(timing.timed) == 6
    for record in folder.glob("*.tuned.json"):
        record.write_text('{"tile": [128, 128], "of another version": 1}')
    tw.compile(MATMUL, **SHAPE, tune=True)
    assert len(timing.timed) == 8
    monkeypatch.setattr("tilewright.driver.compile.cache.tilewright_version", lambda: "another")
    tw.compile(MATMUL, **SHAPE, tune=True)
    assert len(timing.timed) == 10
    tw.compile(MATMUL, **SHAPE, tune=True, cached=False)
    assert len(timing.timed) == 12


def test_the_compilers_choice_stays_where_it_is_the_quickest(timing: Timing) -> None:
    timing.last = False
    assert decisions(tw.compile(MATMUL, **SHAPE, tune=True).bundle) == decisions(timing.timed[0][0])


def test_a_candidate_that_is_refused_is_left_out(timing: Timing, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ready.compile_for

    def compile_for(*arguments: Any, **options: Any) -> Any:
        request = arguments[5] if len(arguments) > 5 else options.get("wanted")
        if request is not None and request.tile is not None and not timing.timed:
            raise TilewrightError("would spill")
        return whole(*arguments, **options)

    monkeypatch.setattr(ready, "compile_for", compile_for)
    compiled = ready.compile_for(MATMUL, SHAPE, tune=True)
    assert len(timing.timed[0]) == 1 and decisions(compiled.bundle) == decisions(timing.timed[0][0])


def test_a_product_of_arrays_is_tuned_and_right(timing: Timing) -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((64, 256), (256, 256)))
    result = tw.matmul(a, b, tune=True)
    assert len(timing.timed) == 2 and np.array_equal(result, tw.matmul(a, b, tune=True))
    reference = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(result.astype(np.float64) - reference) < 5e-3 * np.linalg.norm(reference)
    tw.matmul(a, b)
    assert len(timing.timed) == 2


def test_without_a_gpu_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise TilewrightError("no NVIDIA driver on this machine")

    monkeypatch.setattr(tuned.gpu, "open_device", none)
    with pytest.raises(TilewrightError, match=r"tuning times kernels on a GPU of sm_90a: no NVIDIA driver") as error:
        tw.compile(MATMUL, **SHAPE, tune=True)
    assert "compile untuned" in str(error.value)


def test_what_has_nothing_to_tune_says_so(timing: Timing) -> None:
    with pytest.raises(TilewrightError, match="nothing to tune"):
        tw.compile(rows.softmax, M=64, N=256, tune=True)
    with pytest.raises(TilewrightError, match="chooses the tile itself"):
        tw.compile(MATMUL, **SHAPE, tune=True, tile=(128, 128))
    with pytest.raises(TilewrightError, match="tune is 'yes'"):
        tw.compile(MATMUL, **SHAPE, tune="yes")  # pyright: ignore[reportArgumentType]
    assert not timing.timed
