"""Tables that ncu wrote of runs on an H200, read and compared with the model.

The numbers asked for were read off those tables by eye. They are of `matmul_kernel` at 4096, 4096, 4096 in bf16, tile
128 x 256 x 64 without clusters, on 132 CTAs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.driver.views.profiled_bundles import DATA, bundle_of

from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.views.profile import METRICS, ncu_command, profile_report, read_table, run_ncu
from tilewright.report.profile import KernelProfile
from tilewright.runtime.bundle import Bundle
from tilewright.runtime.nsight_compute import find_ncu
from tilewright.synth.tile.wanted import Wanted


def table(name: str) -> str:
    return (DATA / name).read_text()


@pytest.fixture(name="kernel")
def _kernel() -> KernelProfile:
    (kernel,) = profile_report(bundle_of(4096, 4096, 4096), table("matmul_4096_h200.csv")).kernels
    return kernel


def readings(kernel: KernelProfile) -> dict[str, float | None]:
    return {reading.name: reading.value for group in kernel.groups for reading in group.readings}


def test_counters_are_read_in_base_units(kernel: KernelProfile) -> None:
    found = readings(kernel)
    assert kernel.entry == "matmul_kernel" and kernel.launches == 1
    assert found["time"] == pytest.approx(179.328)  # ns in the table, us shown
    assert found["multiprocessor clock"] == pytest.approx(1572.60658648)
    assert found["DRAM read"] == 144_769_280
    assert found["eligible warps"] == 0.11 and found["issue slots skipped"] == 90.04
    assert found["conflicts of stores"] == 102_187 and found["conflicts of loads"] == 0
    assert None not in found.values()


def test_stalls_stand_most_first_with_their_meaning(kernel: KernelProfile) -> None:
    reasons = [stall.reason for stall in kernel.stalls]
    assert reasons[:5] == ["barrier", "mio throttle", "long scoreboard", "wait", "gmma"]
    assert kernel.stalls[0].warps == 10.31
    assert "sleeping" not in reasons  # of zero
    assert all(stall.meaning for stall in kernel.stalls)


def test_predictions_stand_beside_the_counters(kernel: KernelProfile) -> None:
    rows = {row.name: row for row in kernel.compared}
    megabyte = 1 << 20
    assert rows["DRAM read"].predicted == 2 * 32 * megabyte and rows["DRAM read"].measured == 144_769_280
    # 512 tiles of 64 slices, each 384 rows of 128 bytes: what the counter says, to the byte.
    assert rows["L2 to multiprocessors"].predicted == rows["L2 to multiprocessors"].measured == 512 * 64 * 384 * 128
    assert rows["registers of a thread"].predicted == rows["registers of a thread"].measured == 168
    assert rows["cycles of tensor cores"].measured == pytest.approx(0.9014 * 284_340, rel=1e-3)


def test_the_time_that_a_compiled_program_foretells_stands_beside_the_measured_one() -> None:
    dims = {"M": 4096, "N": 4096, "K": 4096}
    compiled = compile_kernel(matmul_kernel, dims=dims, strides={"b": (1, 4096)}, rerun=False, assembled=False)
    predicted = compiled.bundle().facts["predicted_microseconds"]
    assert isinstance(predicted, float) and predicted > 2 * 4096**3 / 1e15 * 1e6

    bundle = bundle_of(4096, 4096, 4096)
    bundle = replace(bundle, facts={**bundle.facts, "predicted_microseconds": predicted})
    (found,) = profile_report(bundle, table("matmul_4096_h200.csv")).kernels
    (row,) = [each for each in found.compared if each.name == "time"]
    assert (row.predicted, row.unit) == (predicted, "us") and row.measured == pytest.approx(179.328)


def test_a_cluster_fetches_shared_operands_once() -> None:
    bundle = bundle_of(4096, 4096, 4096)
    bundle = replace(bundle, decisions={**bundle.decisions, "cluster": [2, 1]})
    (kernel,) = profile_report(bundle, table("matmul_4096_h200.csv")).kernels
    fetched = next(row.predicted for row in kernel.compared if row.name == "L2 to multiprocessors")
    assert fetched == 512 * 64 * (128 + 256 // 2) * 128


def compared_names(bundle: Bundle) -> set[str]:
    (kernel,) = profile_report(bundle, table("matmul_4096_h200.csv")).kernels
    return {row.name for row in kernel.compared}


def test_what_is_compiled_today_has_these_decisions() -> None:
    dims = {"M": 4096, "N": 4096, "K": 4096}
    made = compile_kernel(matmul_kernel, dims=dims, wanted=Wanted(tile=(128, 256)), rerun=False, assembled=False)
    bundle, then = made.bundle(), bundle_of(4096, 4096, 4096)
    assert then.decisions.keys() <= bundle.decisions.keys()
    assert compared_names(bundle) == compared_names(replace(then, facts={**then.facts, "predicted_microseconds": 1.0}))


def test_behind_a_copy_the_product_is_compared() -> None:
    bundle = bundle_of(4096, 4096, 4096)
    behind = replace(bundle, decisions={"programs": [{"ctas": 1, "threads": 256}, bundle.decisions]})
    assert compared_names(behind) == compared_names(bundle)


def test_a_split_sum_is_more_tiles_of_fewer_slices() -> None:
    bundle = bundle_of(128, 256, 1 << 16)
    bundle = replace(bundle, decisions={**bundle.decisions, "split": 4})
    (kernel,) = profile_report(bundle, table("matmul_4096_h200.csv")).kernels
    (whole,) = profile_report(bundle_of(128, 256, 1 << 16), table("matmul_4096_h200.csv")).kernels
    (quarter,) = profile_report(bundle_of(128, 256, 1 << 14), table("matmul_4096_h200.csv")).kernels

    def cycles(profile: KernelProfile) -> float:
        return next(row.predicted for row in profile.compared if row.name == "cycles")

    # Four tiles fit one wave, so a quarter of the slices takes as long as a program of a quarter of them.
    assert cycles(kernel) == cycles(quarter) < cycles(whole)


def test_what_the_model_is_not_of_is_not_compared() -> None:
    bundle = bundle_of(4096, 4096, 4096)
    bundle = replace(bundle, decisions={**bundle.decisions, "grouping": [{"axis": "G"}]})
    assert "cycles" not in compared_names(bundle)


def test_the_roof_is_the_tensor_cores_for_a_square_and_drams_for_few_rows(kernel: KernelProfile) -> None:
    roofline = kernel.roofline
    assert roofline is not None and roofline.bound_by == "tensor cores"
    assert roofline.achieved == pytest.approx(2 * 4096**3 / 179.328e-6)
    (few,) = profile_report(bundle_of(16, 4096, 4096), table("matmul_16_rows_h200.csv")).kernels
    assert few.roofline is not None and few.roofline.bound_by == "DRAM"
    assert few.roofline.intensity == pytest.approx(2 * 16 * 4096 * 4096 / (33_696_768 + 499_456))
    assert few.stalls[0].reason == "long scoreboard"


def test_several_launches_give_their_median() -> None:
    lines = table("matmul_4096_h200.csv").splitlines()
    last = lines[-1]
    slower, faster = last.replace('"179,328"', '"190,000"'), last.replace('"179,328"', '"178,000"')
    (kernel,) = profile_report(bundle_of(4096, 4096, 4096), "\n".join([*lines, slower, faster])).kernels
    assert kernel.launches == 3 and readings(kernel)["time"] == pytest.approx(179.328)


def test_a_counter_that_is_not_there_is_not_measured() -> None:
    text = table("matmul_4096_h200.csv").replace("smsp__warps_eligible.avg.per_cycle_active", "another")
    (kernel,) = profile_report(bundle_of(4096, 4096, 4096), text).kernels
    assert readings(kernel)["eligible warps"] is None


def test_units_that_ncu_scaled_are_brought_back() -> None:
    text = '"Kernel Name","dram__bytes_read.sum","gpu__time_duration.sum"\n"","Mbyte","us"\n"k","1.5","2"\n'
    assert read_table(text) == [("k", {"dram__bytes_read.sum": 1.5e6, "gpu__time_duration.sum": 2e3})]


@pytest.mark.parametrize("text", ["", "nothing here", '"ID","Kernel Name"\n"",""\n', '"a","b"\n"",""\n"1","2"\n'])
def test_another_text_is_no_table(text: str) -> None:
    with pytest.raises(TilewrightError, match="no table of ncu"):
        read_table(text)


def test_a_table_of_another_program_is_refused() -> None:
    with pytest.raises(TilewrightError, match=r"is of matmul_kernel; matmul launches other"):
        profile_report(bundle_of(4096, 4096, 4096, "other"), table("matmul_4096_h200.csv"))


def test_the_command_leaves_clocks_alone_and_skips_the_first_run() -> None:
    command = ncu_command("ncu", Path("p.twb"), Path("p.csv"), 2, 3, warm=False)
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[command.index("--launch-skip") + 1] == "2" and command[command.index("--launch-count") + 1] == "6"
    assert command[command.index("--metrics") + 1].split(",") == list(METRICS)
    assert command[-1] == "4"  # runs of the program, one to warm up


def test_no_ncu_is_said_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tilewright.runtime.nsight_compute._PLACES", (str(tmp_path / "*" / "ncu"),))
    with pytest.raises(TilewrightError, match="not installed") as caught:
        find_ncu()
    assert "--from" in caught.value.remedy
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "ncu").touch()
    assert find_ncu() == str(tmp_path / "here" / "ncu")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo '==ERROR== ERR_NVGPUCTRPERM - no permission' >&2; exit 1", "ERR_NVGPUCTRPERM"),
        ("exit 0", "it wrote no table"),
    ],
)
def test_what_ncu_complains_of_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, words: str
) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text(f"#!/bin/sh\n{script}\n")
    ncu.chmod(0o755)
    monkeypatch.setattr("tilewright.driver.views.profile.find_ncu", lambda: str(ncu))
    with pytest.raises(TilewrightError, match=words):
        run_ncu(bundle_of(64, 64, 64), 1)
