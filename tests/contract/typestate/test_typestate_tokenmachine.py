"""Running roles at concrete counts: it agrees with the proof, and it finds by itself what a run can show."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.contract.gemm_program import Shape, gemm
from tests.contract.typestate.typestate_edits import (
    announced_bytes,
    consumer_begins_late,
    copy_dropped,
    edit,
    late_retire,
    no_advance,
    producer_begins_late,
)
from xdsl.dialects.builtin import ModuleOp

from tilewright.contract.typestate.finding import Findings, ordinal_places
from tilewright.contract.typestate.program import Kernel
from tilewright.contract.typestate.read_program import read_kernel
from tilewright.contract.typestate.runs.boundary_counts import boundary_counts, run_boundary_counts
from tilewright.ir.ac import operations as ac
from tilewright.targets import target

HOPPER = target("sm_90a")


def kernel_of(module: ModuleOp) -> tuple[Kernel, Findings]:
    op = module.body.block.first_op
    assert isinstance(op, ac.KernelOp)
    findings = Findings(ordinal_places(module))
    return read_kernel(op, HOPPER, findings), findings


@pytest.mark.parametrize("shape", [Shape(), Shape(stages=2, consumers=3), Shape(cluster=2)], ids=str)
def test_correct_programs_run_to_the_end(shape: Shape) -> None:
    kernel, findings = kernel_of(gemm(shape))
    run_boundary_counts(kernel, findings)
    assert not findings.found and not findings.doubts


def test_boundary_counts_hold_what_they_promise() -> None:
    kernel, _ = kernel_of(gemm())
    points = boundary_counts(kernel)
    assert {point["K"] for point in points} == {1, 3, 4, 5, 9}
    assert {point["tiles"] for point in points} == {0, 1, 2, 3}
    assert all(point["K"] >= 1 for point in points)


@pytest.mark.parametrize(
    ("code", "mutate"),
    [
        ("LV005", edit(ac.BarrierWaitOp, 0, invert_parity=0)),
        ("LV005", edit(ac.BarrierWaitOp, 1, invert_parity=1)),
        ("LV005", edit(ac.RingOp, full_arrivals=2)),
        ("LV005", edit(ac.RingOp, empty_arrivals=3)),
        ("LV005", edit(ac.RingOp, empty_arrivals=1)),
        ("LV005", announced_bytes(1 << 16)),
        ("LV005", copy_dropped),
        ("WG002", late_retire),
        ("LV005", producer_begins_late),
        ("LV004", consumer_begins_late),
    ],
)
def test_a_run_alone_finds(code: str, mutate: Callable[[ModuleOp], None]) -> None:
    """Without the proof: only the run reports here."""
    module = gemm()
    mutate(module)
    kernel, findings = kernel_of(module)
    run_boundary_counts(kernel, findings)
    assert [finding.code for finding in findings.found] == [code]
    steps = findings.found[0].interleaving
    assert steps[0].startswith("with K = ")
    assert 3 <= len(steps) <= 14


def test_a_producer_that_stays_on_its_slot_is_found() -> None:
    module = gemm()
    no_advance(module)
    kernel, findings = kernel_of(module)
    run_boundary_counts(kernel, findings)
    assert findings.found
