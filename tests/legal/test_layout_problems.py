"""Forty published tiles: every one gets a placement that enumeration confirms, proved minimal, in under 10 ms."""

import numpy as np
import pytest
from bench.layout_problems import Problem, problems

from tilewright.legal.bank.bank_linear import lane_count
from tilewright.legal.bank.banks import wavefronts
from tilewright.legal.bank.placement import Buffer, BufferAccess, Placement, positions
from tilewright.legal.bank.swizzle_choice import choose_placement
from tilewright.targets import target

PROBLEMS = problems()
NOT_AT_THE_BOUND = {"FFT: 4096 complex numbers, radix 4"}
WITH_CONFLICTS = NOT_AT_THE_BOUND | {
    # 16 bytes a lane one way and less the other: words at one place of their vectors have eight banks between them.
    "transpose: f32 64x64, rows of 16 bytes a lane",
    "transpose: int8 128x128, rows of 16 bytes a lane",
    "transpose: f16 64x64, rows of 16 bytes a lane",
}


def enumerated(access: BufferAccess, buffer: Buffer, placement: Placement, name: str) -> int:
    rows, columns = positions((*access.lanes, *access.loops))
    addresses = placement.addresses(rows, columns, buffer)
    assert len(np.unique(rows * buffer.row_bytes + columns)) == len(np.unique(addresses)), "a placement loses nothing"
    lanes = lane_count(access.kind, target(name))
    table = np.zeros((len(addresses) // lanes, target(name).limit("warp.threads")), np.int64)
    table[:, :lanes] = addresses.reshape(-1, lanes)
    return int(wavefronts(access.kind, table, name).sum())


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_a_published_tile(problem: Problem) -> None:
    choice = choose_placement(problem.buffer, problem.target)
    assert choice.conflict_free == (problem.name not in WITH_CONFLICTS)
    assert choice.proof == ("exhausted" if problem.name in NOT_AT_THE_BOUND else "bound")
    for judged in (choice.best, choice.plain):
        found = [enumerated(each, problem.buffer, judged.placement, problem.target) for each in problem.buffer.accesses]
        assert found == list(judged.by_access[: len(found)])
    assert choice.best.wavefronts < choice.plain.wavefronts
