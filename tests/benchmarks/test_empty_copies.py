"""The probe of copies of 0 bytes: the machine does in every case what the GPU did, and other results are seen."""

import numpy as np
import pytest
from bench.probes.empty_copies import BUFFER_BYTES, COPIED_BYTES, Case, cases, judged, text_of

from tilewright.base.plan import Launch, PointerParam, ScalarParam
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.run import run_launch

DOES_NOTHING = {"completes": True, "unchanged": True, "sound": True}


def ran(case: Case, size: int) -> dict[str, object]:
    """On the CPU machine."""
    buffers = {
        "source": np.arange(BUFFER_BYTES, dtype=np.uint8),
        "out": np.full(BUFFER_BYTES, 0xEE, np.uint8),
        "results": np.zeros(8 + BUFFER_BYTES, np.uint8),
    }
    params = (*(PointerParam(name) for name in buffers), ScalarParam("i32", size))
    launch = Launch("empty_copy", (1, 1, 1), (32, 1, 1), params=params)
    run_launch(read(text_of(case), case.name), launch, buffers)
    return judged(case, buffers["source"], buffers["out"], buffers["results"])


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_machine_does_what_the_gpu_did(case: Case):
    assert ran(case, 0) == DOES_NOTHING


@pytest.mark.parametrize("case", [case for case in cases() if case.real], ids=lambda case: case.name)
def test_a_copy_that_moves_bytes_is_seen(case: Case):
    assert ran(case, COPIED_BYTES) == {**DOES_NOTHING, "unchanged": False}


def test_a_kernel_that_wrote_nothing_is_seen():
    source, out = np.arange(BUFFER_BYTES, dtype=np.uint8), np.full(BUFFER_BYTES, 0xEE, np.uint8)
    found = judged(cases()[0], source, out, np.zeros(8 + BUFFER_BYTES, np.uint8))
    assert not any(found.values())
