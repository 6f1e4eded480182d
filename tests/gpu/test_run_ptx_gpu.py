"""A foreign PTX kernel on a GPU and on the CPU machine, on the same bytes: the same bytes come out."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cli.checked_texts import STEPS, launch_document
from tests.contract.replay_kernels import COLUMNS, ROWS, copy_text

from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.driver.rules.isa import interpretations_of
from tilewright.driver.run.run_ptx import buffers_for, run_on_gpu, run_on_machine
from tilewright.runtime.device import probe_libcuda

pytestmark = pytest.mark.gpu


@pytest.mark.skipif(probe_libcuda() is not None, reason="no NVIDIA driver")
def test_the_same_bytes_come_out_of_the_gpu_and_of_the_machine() -> None:
    launch = launch_from_json(launch_document(), "launch.json")
    source = np.arange(STEPS * ROWS * COLUMNS, dtype=np.float32)
    given = {"source": source.view(np.uint8)}
    here = buffers_for(launch, given, "the test")
    there = buffers_for(launch, given, "the test")
    run_on_machine(copy_text(), "double.ptx", launch, here, interpretations=interpretations_of("tolerant"))
    run_on_gpu(copy_text(), "double.ptx", launch, there)
    assert np.array_equal(here["target"], there["target"])
    assert np.array_equal(there["target"].view(np.float32), 2 * source)
