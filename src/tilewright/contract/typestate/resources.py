"""Do a kernel's static resources fit: shared-memory ranges, alignment, thread ranges, the register pool?

Everything here is arithmetic on declared numbers, independent of what the roles do. The theory is interval
disjointness, and one sum: registers per thread after `setmaxnreg`, over all warpgroups, must not exceed what the launch
allocated (PTX ISA 9.7.19.5: `inc` blocks until the pool has them). The pool is counted in multiples of 8 per thread.

Not handled: static shared memory.
Checked by: tests/contract/typestate/test_typestate_mutations.py.
"""

from __future__ import annotations

from itertools import pairwise

from xdsl.ir import Operation

from tilewright.base.plural import counted
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.program import SWIZZLE_PERIOD_BYTES, SWIZZLE_SPAN_BYTES, Kernel, Role
from tilewright.ir.tier import UNITS


def check_resources(kernel: Kernel, findings: Findings) -> None:
    """Report every static resource of `kernel` that is misplaced, shared or overdrawn."""
    _check_shared_memory(kernel, findings)
    _check_threads(kernel, findings)
    _check_registers(kernel, findings)


def _check_shared_memory(kernel: Kernel, findings: Findings) -> None:
    ranges: list[tuple[int, int, str, Operation]] = []
    facts = kernel.facts
    barrier_alignment, most_arrivals = facts.limit("mbarrier.alignment_bytes"), facts.limit("mbarrier.count_max")
    most_bytes = facts.limit("cta.shared_bytes_max")
    if not 0 <= kernel.dynamic_smem_bytes <= most_bytes:
        findings.report("AL004", kernel.op, f"asks for {kernel.dynamic_smem_bytes} bytes; a CTA can have {most_bytes}")
    for ring in kernel.rings.values():
        ranges.append((ring.address, ring.address + ring.bytes, f"ring {ring.name}", ring.op))
        if ring.address % barrier_alignment:
            findings.report("AL001", ring.op, f"ring {ring.name} is at byte {ring.address}")
        for side, count in (("full", ring.full_arrivals), ("empty", ring.empty_arrivals)):
            if not 1 <= count <= most_arrivals:
                findings.report(
                    "MB010", ring.op, f"ring {ring.name}: {side} barriers count {counted(count, 'arrival')}"
                )
    if (memory := kernel.tensor_memory) is not None:
        ranges.append((memory.address, memory.address + memory.bytes, "the barriers of tensor memory", memory.op))
        if memory.address % barrier_alignment:
            findings.report("AL001", memory.op, f"the barriers of tensor memory are at byte {memory.address}")
    for buffer in kernel.buffers.values():
        ranges.append((buffer.address, buffer.address + buffer.bytes, f"buffer {buffer.name}", buffer.op))
        alignment = SWIZZLE_PERIOD_BYTES[buffer.swizzle]
        if buffer.address % alignment:
            findings.report(
                "AL002", buffer.op, f"buffer {buffer.name} is at byte {buffer.address}, no multiple of {alignment}"
            )
        elif buffer.instances * buffer.slots > 1 and buffer.slot_bytes % alignment:
            findings.report(
                "AL002",
                buffer.op,
                f"slots of {buffer.slot_bytes} bytes put slot 1 of {buffer.name} off the {alignment}-byte period",
            )
        elif (span := SWIZZLE_SPAN_BYTES[buffer.swizzle]) and buffer.slot_bytes % span:
            findings.report("AL002", buffer.op, f"a slot of {buffer.slot_bytes} bytes ends inside a swizzled row")
        if buffer.instances < 1:
            findings.doubt(f"a buffer of {buffer.instances} instances", buffer.op)
        if not buffer.ring:
            continue
        guard = kernel.rings.get(buffer.ring)
        if guard is None:
            findings.doubt(f"the buffer is guarded by {buffer.ring!r}, which is no ring", buffer.op)
        elif guard.stages != buffer.slots:
            code = "AL004" if buffer.slots < guard.stages else "LV006"
            findings.report(
                code,
                buffer.op,
                f"{counted(buffer.slots, 'slot')} under ring {guard.name} of {counted(guard.stages, 'stage')}",
                against=guard.op,
            )
        if buffer.instances != 1:
            findings.doubt(f"a buffer of {buffer.instances} instances under a ring", buffer.op)
    ranges.sort(key=lambda item: item[:2])
    for (_, first_end, first, _), (second_begin, second_end, second, op) in pairwise(ranges):
        if second_begin < first_end:
            findings.report(
                "AL003", op, f"{second} at byte {second_begin} begins inside {first}, which ends at {first_end}"
            )
        # Keep the widest end for the next pair: an object inside another must not hide a third one.
        if second_end < first_end:
            findings.doubt(f"{second} lies wholly inside {first}", op)
    for begin, end, name, op in ranges:
        if begin < 0 or end > kernel.dynamic_smem_bytes:
            findings.report("AL004", op, f"{name} ends at byte {end} of {kernel.dynamic_smem_bytes}")


def _check_threads(kernel: Kernel, findings: Findings) -> None:
    for role in kernel.roles:
        whole_warpgroups = role.unit != "warp32" or role.registers
        alignment = kernel.facts.limit("warpgroup.threads") if whole_warpgroups else UNITS["warp32"]
        if role.count < 1 or role.first_thread < 0 or role.first_thread % alignment:
            findings.report(
                "SR004", role.op, f"role {role.name} begins at thread {role.first_thread}, no multiple of {alignment}"
            )
        if role.threads % alignment:
            findings.report("SR004", role.op, f"role {role.name} has {role.threads} threads, no whole warpgroups")
        if role.first_thread + role.threads > kernel.block_threads:
            end = role.first_thread + role.threads
            findings.report("SR004", role.op, f"role {role.name} ends at thread {end} of {kernel.block_threads}")
        if role.unit == "thread1" and role.count != 1:
            findings.doubt(f"{role.count} elected threads in one role", role.op)
    ordered = sorted(kernel.roles, key=lambda role: (role.first_thread, role.threads))
    for first, second in pairwise(ordered):
        if second.first_thread < first.first_thread + first.threads:
            findings.report(
                "SR003",
                second.op,
                f"roles {first.name} and {second.name} both claim thread {second.first_thread}",
                against=first.op,
            )


def _check_registers(kernel: Kernel, findings: Findings) -> None:
    changed = [role for role in kernel.roles if role.registers]
    least, most = kernel.facts.limit("setmaxnreg.registers_min"), kernel.facts.limit("setmaxnreg.registers_max")
    step = kernel.facts.limit("setmaxnreg.registers_step")
    for role in changed:
        if role.registers % step or not least <= role.registers <= most:
            findings.report("SR001", role.op, f"role {role.name} asks for {role.registers} registers per thread")
    launch, registers = kernel.launch_registers, kernel.facts.limit("cta.registers_max")
    if launch < 0 or (changed and launch == 0):
        findings.doubt("setmaxnreg without a known number of registers at launch", kernel.op)
        return
    if kernel.block_threads * launch > registers:
        findings.report(
            "SR002", kernel.op, f"{kernel.block_threads} threads of {launch} registers exceed {registers} at launch"
        )
    if not changed:
        return
    pool = kernel.block_threads * (launch // step * step)
    claimed = sum(role.threads for role in kernel.roles)
    wanted = sum(_registers(role, launch) for role in kernel.roles) + (kernel.block_threads - claimed) * launch
    if wanted > pool:
        largest = max(changed, key=lambda role: role.registers)
        steps = tuple(f"{role.name}: setmaxnreg {role.registers} for {role.threads} threads" for role in changed)
        findings.report(
            "SR002",
            largest.op,
            f"after setmaxnreg the roles want {wanted} registers; the launch allocates {pool}",
            steps=(*steps, f"{largest.name} blocks: the pool of {pool} registers is spent"),
        )


def _registers(role: Role, launch: int) -> int:
    return role.threads * (role.registers or launch)
