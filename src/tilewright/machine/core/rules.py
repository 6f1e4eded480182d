"""Which rules does a run on the machine enforce, and what fixes a violation? One row per code that a fault can carry.

Codes of the machine's own family are `MF`; those of a protocol family are numbered from 201, apart from the numbers of
the proofs, since here an instruction broke the rule in one run. Checked by: tests/machine/core/test_rules.py (every
code that the machine's source raises has a row, and every row is raised).
"""

from __future__ import annotations

from tilewright.base.value import dataclass
from tilewright.machine.copy.copy_rules import COPY_RULES
from tilewright.machine.tensor_core.tensor_rules import TENSOR_RULES


@dataclass(frozen=True, slots=True)
class MachineRule:
    """name: kebab-case; summary: one line; rule: what the hardware demands; source: where that is said; example: a
    failing kernel in words; remedy: the usual fix. The same fields as the proofs' rules."""

    code: str
    name: str
    summary: str
    rule: str
    source: str
    example: str
    remedy: str


_MBARRIER = "PTX ISA 9.7.13.15 (mbarrier)"
_NAMED = "PTX ISA 9.7.13.1 (bar, barrier)"
_CLUSTER = "PTX ISA 9.7.13.3 (barrier.cluster)"
_ADDRESSES = "PTX ISA 6.4.1 (addresses as operands), 5.1 (state spaces)"

MACHINE_RULES: dict[str, MachineRule] = {
    rule.code: rule
    for rule in (
        MachineRule(
            "MF001",
            "out-of-bounds",
            "an access leaves its buffer, or shared memory",
            "Every byte accessed must belong to one allocation.",
            _ADDRESSES,
            "The last CTA stores rows past the end of the output.",
            "Guard the access, or enlarge the buffer.",
        ),
        MachineRule(
            "MF002",
            "misaligned-address",
            "an address is not a multiple of what its access needs",
            "Addresses are naturally aligned; bulk copies need 16 bytes, tensor copies 128 in shared memory.",
            _ADDRESSES,
            "ld.global.v4.f32 at an address that is a multiple of 8.",
            "Align the address, or access narrower elements.",
        ),
        MachineRule(
            "MF003",
            "uninitialised-register",
            "a register is read that no lane ever wrote",
            "The value of a register before its first write is undefined.",
            "PTX ISA 5.1.1 (registers)",
            "A loop adds to an accumulator that nobody set to zero.",
            "Initialise the register.",
        ),
        MachineRule(
            "MF004",
            "register-in-flight",
            "a register of a wgmma in flight is touched",
            "Accumulator and A registers belong to the operation until wait_group; a fence must stand between "
            "writing them and the operation.",
            "PTX ISA 9.7.15.7 (wgmma.fence, wait_group)",
            "The epilogue reads the accumulator before wgmma.wait_group 0.",
            "Wait for the group first; fence after writing accumulators.",
        ),
        MachineRule(
            "MF005",
            "lanes-disagree",
            "lanes or warps that must act together do not",
            "Aligned instructions need every live lane of the warp (or all warps of the warpgroup) at the same "
            "instruction with the same operands; lanes that come to a .uni branch together must go one way.",
            "PTX ISA: .aligned, .sync, membermask, .uni",
            "bar.sync stands inside a branch that half of the warp takes.",
            "Let the lanes converge before the instruction.",
        ),
        MachineRule(
            "MF007",
            "illegal-operand",
            "an operand has a value that the instruction does not allow",
            "Descriptors, tensor maps, shapes, masks and coordinates have legal values; others are undefined.",
            "PTX ISA, the instruction's section",
            "A tensor copy starts at a coordinate that is not 16-byte aligned.",
            "Correct the operand.",
        ),
        MachineRule(
            "MF008",
            "trap",
            "the kernel executed trap or brkpt",
            "trap aborts execution.",
            "PTX ISA 9.7.19.3 (trap)",
            "An assertion in the kernel failed.",
            "Find out why the kernel came there.",
        ),
        MachineRule(
            "MB201",
            "mbarrier-range",
            "a count is outside what an mbarrier holds",
            "Counts and transaction counts range up to 2^20 - 1.",
            _MBARRIER,
            "mbarrier.init with count 0.",
            "Use a legal count; expect fewer bytes in a phase.",
        ),
        MachineRule(
            "MB202",
            "mbarrier-not-initialized",
            "an mbarrier operation on memory that holds no object",
            "Every operation but init needs an initialised object.",
            _MBARRIER,
            "A warp waits before another has initialised the barrier.",
            "Initialise it, and synchronise before the first use.",
        ),
        MachineRule(
            "MB203",
            "mbarrier-initialized-twice",
            "mbarrier.init on a live object",
            "An object must be invalidated before it is initialised again.",
            _MBARRIER,
            "All 32 lanes execute the init.",
            "Let one thread initialise it.",
        ),
        MachineRule(
            "MB209",
            "mbarrier-over-arrival",
            "more arrivals than the phase still takes",
            "The pending count must not go below zero.",
            _MBARRIER,
            "A whole warp arrives on a barrier of count 1.",
            "Let one lane arrive, or count all arrivals.",
        ),
        MachineRule(
            "MB210",
            "mbarrier-no-complete",
            "an arrival with .noComplete completes the phase",
            "An arrive.noComplete must not complete the phase.",
            _MBARRIER,
            "The last arrival is .noComplete.",
            "Use a plain arrive.",
        ),
        MachineRule(
            "MB211",
            "remote-barrier",
            "an operation that is for the CTA's own barriers names another CTA's",
            "On another CTA's mbarrier only arrive (without state), expect_tx and complete_tx are legal.",
            _MBARRIER,
            "A warp waits on the barrier of a peer CTA.",
            "Wait on the own CTA's barrier; let the peer signal it.",
        ),
        MachineRule(
            "MB212",
            "mbarrier-parity",
            "a phase parity that is neither 0 nor 1",
            "phaseParity is 0 or 1.",
            _MBARRIER,
            "The stage index is passed as parity.",
            "Pass phase & 1.",
        ),
        MachineRule(
            "MB217",
            "mbarrier-dropped-to-zero",
            "arrive_drop leaves no expected arrival",
            "The expected arrival count must stay positive.",
            _MBARRIER,
            "All participants drop out.",
            "Invalidate the barrier instead.",
        ),
        MachineRule(
            "MB219",
            "mbarrier-stale-state",
            "a state of an older phase, or of another mbarrier, is waited for",
            "A state names the current or the preceding phase of the mbarrier that it was taken from.",
            _MBARRIER,
            "A warp keeps the state of its first arrival.",
            "Wait with the state of the last arrival.",
        ),
        MachineRule(
            "TX202",
            "barrier-elsewhere",
            "a copy's mbarrier is not in the CTA that it writes",
            "The mbarrier lies in the same CTA as the destination.",
            "PTX ISA 9.7.9.25.4.1 (cp.async.bulk)",
            "The destination is mapped to a peer, the barrier is not.",
            "Map both with mapa.",
        ),
        MachineRule(
            "NB201",
            "named-barrier-operand",
            "a named barrier's number or thread count is illegal",
            "Barriers are 0 to 15; thread counts are positive multiples of 32.",
            _NAMED,
            "bar.sync 16.",
            "Use a legal number and count.",
        ),
        MachineRule(
            "NB202",
            "named-barrier-count-differs",
            "warps enter a named barrier with different thread counts",
            "All participants of a barrier name the same number of threads.",
            _NAMED,
            "bar.arrive 1, 64 meets bar.sync 1, 96.",
            "Use one count for all participants.",
        ),
        MachineRule(
            "NB203",
            "named-barrier-overrun",
            "more threads arrive at a named barrier than it counts",
            "A barrier completes when exactly its thread count has arrived.",
            _NAMED,
            "Two warps arrive at a barrier of 32 threads before it completes.",
            "Count all participants.",
        ),
        MachineRule(
            "CL201",
            "cluster-barrier-order",
            "barrier.cluster arrive and wait do not alternate",
            "Each thread arrives once, then waits once, for every phase.",
            _CLUSTER,
            "A warp waits without having arrived.",
            "Pair every arrive with one wait.",
        ),
        MachineRule(
            "SR201",
            "setmaxnreg-direction",
            "setmaxnreg goes against its direction",
            "`.dec` may not raise and `.inc` may not lower a warp's registers.",
            "PTX ISA 9.7.19.5 (setmaxnreg)",
            "setmaxnreg.inc 40 in a warp that has 168.",
            "Use the other direction.",
        ),
        MachineRule(
            "SR202",
            "setmaxnreg-operand",
            "setmaxnreg names a register count that it does not take",
            "The count is a multiple of 8 from 24 to 256.",
            "PTX ISA 9.7.19.5 (setmaxnreg)",
            "setmaxnreg.inc.sync.aligned.u32 100.",
            "Use the nearest multiple of 8.",
        ),
        MachineRule(
            "LV201",
            "hang",
            "nobody can ever move again",
            "Every wait must be answered: no warp can run and nothing is in flight.",
            _MBARRIER,
            "A consumer never releases a slot, and the producer waits for it.",
            "See who waits for what; supply the arrival, the bytes or the threads that are missing.",
        ),
        MachineRule(
            "LV202",
            "step-limit",
            "the run reached its limit, or only polls",
            "No proof of a hang: the limit was reached, or every warp that can run polls a barrier that nothing "
            "in flight can complete.",
            "derived",
            "A loop that waits for a flag in global memory.",
            "Raise the limit, or let the kernel wait with try_wait.",
        ),
    )
} | {row[0]: MachineRule(*row) for row in (*TENSOR_RULES, *COPY_RULES)}
