"""When does an instruction touch a register that an operation in flight still owns, and what then?

Registers of a wgmma (accumulator and A) belong to it from its issue to a `wait_group`; registers that a tcgen05.ld
writes, or a tcgen05.st reads, until `wait::ld` or `wait::st`. Observed runs yield an event and go on with the
register's old value (a load's: the loaded one). Unobserved strict runs stop at a wgmma's register; at a load's they do
not, since hardware makes an instruction wait for the register, and shipped compilers rely on it. Source: PTX ISA,
`wgmma.wait_group`, `wgmma.fence`, `tcgen05.wait`. Checked by: tests/machine/tensor_core/test_wgmma.py, test_tcgen05.py.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.base.span import Span
from tilewright.machine.core.event import RegisterHazard, TensorCoreActor, TensorMemoryRegisterUse
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import FULL, predicate_mask
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Step

Slots = frozenset[int] | set[int]


def report_step_hazard(warp: Warp, step: Step, mask: int) -> None:
    """The step touches registers of an operation in flight: an event, or a fault where nobody observes."""
    if step.guard >= 0:
        holds = predicate_mask(warp.r[step.guard])
        if step.negated:
            holds ^= FULL
        if not mask & holds:
            return
    reads, writes = step.reads & warp.in_flight, step.writes & warp.in_flight
    if warp.tensor is not None and warp.tensor.uses:
        report_tensor_register_use(warp, step.span, reads, writes)
        held = _wgmma_slots(warp)
        reads, writes = reads & held, writes & held
    report_register_hazard(warp, step.span, reads, writes)


def report_register_hazard(warp: Warp, span: Span, reads: Slots, writes: Slots, *, after_fence: bool = False) -> None:
    """Report registers (slots) of wgmmas in flight that are touched. Raises MachineFault if strict and unobserved.

    after_fence: accumulators written between the fence and the operation, which is no fault: hardware's assembler
    orders them.
    """
    cluster = warp.cta.cluster
    names = cluster.program.names
    for slot in sorted(reads | writes):
        operation = warp.wgmma.operation_of(slot)
        if cluster.observe is not None:
            cluster.observe(
                RegisterHazard(warp.actor, TensorCoreActor(operation), names[slot], slot in writes, span, after_fence)
            )
        elif cluster.strict and not after_fence:
            raise MachineFault(
                "MF004",
                "register-in-flight",
                f"{names[slot]} belongs to wgmma {operation}, which is still in flight, and is "
                f"{'written' if slot in writes else 'read'}; wgmma.wait_group must come first",
                span,
                "PTX ISA, wgmma.wait_group",
            )


def report_tensor_register_use(warp: Warp, span: Span, reads: Slots, writes: Slots) -> None:
    """Report touched registers (slots) of tcgen05 loads and stores that no wait covers. Reading a store's is fine."""
    observe, state = warp.cta.cluster.observe, warp.tensor
    if observe is None or state is None:
        return
    names = warp.cta.cluster.program.names
    for use in state.uses:
        touched = (writes if use.kind == "st" else reads | writes) & use.slots
        for slot in sorted(touched):
            observe(TensorMemoryRegisterUse(warp.actor, use.operation, names[slot], slot in writes, span))


def settle(warp: Warp) -> None:
    """Recompute which registers are in flight."""
    held = _wgmma_slots(warp)
    if warp.tensor is not None:
        held = held.union(*[use.slots for use in warp.tensor.uses])
    warp.in_flight = held


def _wgmma_slots(warp: Warp) -> frozenset[int]:
    texts = [operation.instruction for operation in warp.wgmma.in_flight] if warp.wgmma is not None else []
    return _slots_of(tuple(dict.fromkeys([slots for each in texts for slots in (each.accumulator, each.a_registers)])))


@lru_cache(maxsize=256)
def _slots_of(parts: tuple[tuple[int, ...], ...]) -> frozenset[int]:
    return frozenset(slot for part in parts for slot in part)
