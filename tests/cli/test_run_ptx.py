"""`tilewright run KERNEL.ptx`: bytes in, bytes out, and a fault, a race or a hang reported with its line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.checked_texts import BAD_EXPECT, NO_FENCE, STEPS, launch_document
from tests.cli.conftest import Tilewright
from tests.contract.replay_kernels import COLUMNS, ROWS, copy_text

from tilewright.runtime.device import probe_libcuda


@pytest.fixture
def source(folder: Path) -> np.ndarray:
    """The kernel that doubles its input, how it is launched, and the input."""
    (folder / "double.ptx").write_text(copy_text(), encoding="utf-8")
    (folder / "launch.json").write_text(json.dumps(launch_document()), encoding="utf-8")
    values = np.arange(STEPS * ROWS * COLUMNS, dtype=np.float32)
    np.savez(folder / "in.npz", source=values.view(np.uint8))
    return values


RUN = ("run", "double.ptx", "--launch", "launch.json")


def test_bytes_go_in_and_come_out_by_name(folder: Path, tilewright: Tilewright, source: np.ndarray) -> None:
    answer = tilewright(*RUN, "--inputs", "in.npz", "--outputs", "out.npz")
    assert answer.code == 0 and "ran to its end" in answer.out and "wrote out.npz" in answer.out
    with np.load(folder / "out.npz") as results:
        assert set(results.files) == {"source", "target"} and results["target"].dtype == np.uint8
        assert np.array_equal(results["target"].view(np.float32), 2 * source)
        assert np.array_equal(results["source"].view(np.float32), source)


def test_missing_inputs_are_zero_and_other_types_are_taken_as_bytes(
    folder: Path, tilewright: Tilewright, source: np.ndarray
) -> None:
    tilewright(*RUN, "--outputs", "out.npz")
    with np.load(folder / "out.npz") as results:
        assert not results["target"].any()
    np.savez(folder / "floats.npz", source=source)
    tilewright(*RUN, "--inputs", "floats.npz", "--outputs", "out.npz")
    with np.load(folder / "out.npz") as results:
        assert np.array_equal(results["target"].view(np.float32), 2 * source)


@pytest.mark.parametrize("seed", ["0", "5"])
def test_the_result_does_not_depend_on_the_seed(
    folder: Path, tilewright: Tilewright, source: np.ndarray, seed: str
) -> None:
    tilewright(*RUN, "--inputs", "in.npz", "--outputs", "out.npz", "--seed", seed)
    with np.load(folder / "out.npz") as results:
        assert np.array_equal(results["target"].view(np.float32), 2 * source)


def test_a_pointer_that_is_aligned_worse_than_its_use_is_a_fault(
    folder: Path, tilewright: Tilewright, source: np.ndarray
) -> None:
    text = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry wide(.param .u64 x, .param .u64 y) .reqntid 1
{
.reg .b32 %r<5>; .reg .b64 %rd<3>;
ld.param.u64 %rd1, [x];
ld.param.u64 %rd2, [y];
ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
st.global.u32 [%rd2], %r4;
ret;
}
"""
    (folder / "wide.ptx").write_text(text, encoding="utf-8")
    np.savez(folder / "numbers.npz", x=np.arange(4, dtype=np.uint32))
    for align, code in ((16, 0), (8, 1)):
        pointers = [{"kind": "ptr", "bytes": 16, "align": align, "buffer": name} for name in ("x", "y")]
        (folder / "wide.json").write_text(json.dumps({"params": pointers}), encoding="utf-8")
        given = ("--launch", "wide.json")
        answer = tilewright("run", "wide.ptx", *given, "--inputs", "numbers.npz", "--outputs", "out.npz")
        assert answer.code == code, answer.out
        assert tilewright("check", "wide.ptx", *given).code == code
    assert "wide.ptx:9" in answer.out
    with np.load(folder / "out.npz") as results:
        assert results["y"].view(np.uint32)[0] == 3


def test_a_race_and_a_hang_are_reported_with_their_lines(
    folder: Path, tilewright: Tilewright, source: np.ndarray
) -> None:
    (folder / "double.ptx").write_text(copy_text(**NO_FENCE), encoding="utf-8")
    answer = tilewright(*RUN, "--inputs", "in.npz", "--format", "json")
    assert answer.code == 1 and answer.document["finished"] is True
    assert any(finding["code"].startswith("PX") and finding["line"] for finding in answer.document["findings"])
    (folder / "double.ptx").write_text(copy_text(expect=BAD_EXPECT), encoding="utf-8")
    answer = tilewright(*RUN, "--outputs", "out.npz")
    assert answer.code == 1 and "did not end" in answer.out and "--> double.ptx:" in answer.out
    assert not (folder / "out.npz").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "double.ptx"), "--launch"),
        (("run", "missing.ptx", "--launch", "launch.json"), "cannot read 'missing.ptx'"),
        (("run", "double.ptx", "--launch", "missing.json"), "cannot read missing.json"),
        ((*RUN, "--inputs", "short.npz"), "source in short.npz has 4 bytes"),
        ((*RUN, "--inputs", "other.npz"), "has an array other"),
        ((*RUN, "--inputs", "launch.json"), "no .npz file"),
    ],
)
def test_mistakes_are_messages(
    folder: Path, tilewright: Tilewright, source: np.ndarray, arguments: tuple[str, ...], message: str
) -> None:
    np.savez(folder / "short.npz", source=np.zeros(4, np.uint8))
    np.savez(folder / "other.npz", other=np.zeros(4, np.uint8))
    answer = tilewright(*arguments)
    assert answer.code == 2 and message in answer.err and answer.err.count("error:") == 1


def test_a_map_of_which_only_the_box_is_known_is_not_run(
    folder: Path, tilewright: Tilewright, source: np.ndarray
) -> None:
    document = launch_document()
    document["params"][0] = {"kind": "tensormap", "box_bytes": 64}
    (folder / "launch.json").write_text(json.dumps(document), encoding="utf-8")
    answer = tilewright(*RUN)
    assert answer.code == 2 and "params[0]: box_bytes is not enough for a run" in answer.err


@pytest.mark.skipif(probe_libcuda() is None, reason="there is a driver here")
def test_no_gpu(folder: Path, tilewright: Tilewright, source: np.ndarray) -> None:
    answer = tilewright(*RUN, "--on", "gpu")
    assert answer.code == 2 and "no NVIDIA driver" in answer.err
