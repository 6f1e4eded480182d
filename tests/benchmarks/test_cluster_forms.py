"""The probe of instructions for clusters: the machine does in every case what the GPU did."""

from __future__ import annotations

import numpy as np
import pytest
from bench.probes.cluster_forms import BYTES, ENTRY, LAUNCHES, MASKS, Case, cases, election_text, text_of

from tilewright.base.plan import Launch, PointerParam
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.run import run_launch

ILLEGAL = {"bulk_copy", "bulk_copy_by_own_addresses", "bulk_reduction", "st.async", "red.async"}
"""Without a cluster, on an H200; everything else ran in every launch."""


def ran(text: str, ctas: int, words: int) -> list[int]:
    """On the CPU machine: the results, which begin as 99. ctas: as in `LAUNCHES`."""
    if ctas:
        text = text.replace(".reqntid 32\n", f".reqntid 32\n.reqnctapercluster {ctas}\n")
    results = np.full(words, 99, np.uint32)
    buffers = {"source": np.ones(BYTES // 4, np.uint32).view(np.uint8), "results": results.view(np.uint8)}
    count = max(ctas, 1)
    params = tuple(PointerParam(name) for name in buffers)
    run_launch(read(text, "form.ptx"), Launch(ENTRY, (count, 1, 1), (32, 1, 1), params, (count, 1, 1)), buffers)
    return [int(word) for word in results]


@pytest.mark.parametrize("launch", LAUNCHES)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_machine_does_what_the_gpu_did(case: Case, launch: str) -> None:
    if case.name in ILLEGAL and not LAUNCHES[launch]:
        with pytest.raises(MachineFault) as raised:
            ran(text_of(case), 0, 1)
        assert raised.value.code == "CL203"
        return
    assert ran(text_of(case), LAUNCHES[launch], 1) == [1]


def test_an_instruction_that_does_nothing_is_seen() -> None:
    load = next(case for case in cases() if case.name == "load")
    assert ran(text_of(Case("nothing", "", 0)), 0, 1) == [0] != ran(text_of(load), 0, 1)


def test_the_lowest_lane_that_comes_to_it_is_elected() -> None:
    """As on an H200: leaders 0, 1, 16, 31, 5, 3 and 0."""
    lowest = [(mask & -mask).bit_length() - 1 for mask in MASKS]
    assert ran(election_text(), 0, len(MASKS)) == lowest == [0, 1, 16, 31, 5, 3, 0]
