"""Which faults can a run on the PTX machine end with? One row for each code that `machine` raises.

A fault is what the hardware would answer with an error, undefined behaviour or a hang; the judge of runs reports it as
a finding. Checked by: tests/driver/test_rules.py, which looks for every code in the machine's sources.
"""

from __future__ import annotations

from tilewright.contract.codes import Rule

_MBARRIER = "PTX ISA 9.7.13.15 (mbarrier)"
_NAMED = "PTX ISA 9.7.13.1 (bar, barrier)"
_CLUSTER = "PTX ISA 9.7.13.3 (barrier.cluster)"

MACHINE_RULES: tuple[Rule, ...] = (
    # ------------------------------------------------------------ any instruction
    Rule("MF001", "out-of-bounds", "an access is outside what it may touch",
         "Addresses lie in a buffer, in the CTA's shared memory, or in a peer's by a cluster address.",
         "PTX ISA 5.1 (state spaces)", "ld.global at the first byte after an array.",
         "Mend the address, or guard the access."),
    Rule("MF002", "misaligned-address", "an address or size is not aligned as the access needs",
         "An access of n bytes is at a multiple of n; bulk copies move multiples of 16 bytes between such addresses, "
         "tensor copies start at multiples of 128 in shared memory.", "PTX ISA 6.4.1 (alignment of addresses)",
         "ld.shared.v4.b32 at byte 8.", "Align the buffer and the offsets."),
    Rule("MF003", "uninitialised-register", "a register is read that was never written",
         "The value is anything; the machine refuses to choose one.", "derived: no source states a value",
         "A wgmma with scale-d 1 on an accumulator that nothing set.", "Write the register first."),
    Rule("MF004", "register-in-flight", "a register of a wgmma in flight is touched",
         "Accumulators and A fragments may be touched only after wgmma.wait_group covers their wgmma.",
         "PTX ISA 9.7.15.7.3 (wgmma.wait_group)", "An accumulator is stored before wgmma.wait_group 0.",
         "Wait for the wgmma first."),
    Rule("MF005", "diverged", "threads that must execute an instruction together do not",
         "`.aligned` instructions need all threads of the warp, wgmma all warps of the warpgroup with the same "
         "instruction and operands; a shuffle reads only lanes that take part.", "PTX ISA 9.7 (.aligned, .sync)",
         "A wgmma under a branch that half of a warp takes.", "Reconverge before the instruction."),
    Rule("MF007", "illegal-operand", "an operand is outside what the instruction takes",
         "Immediates, shapes, tensor maps, matrix descriptors and masks have their ranges.", "PTX ISA, the instruction",
         "A multicast mask that names a CTA outside the cluster.", "Give a legal operand."),
    Rule("MF008", "trap", "a trap was executed", "`trap` ends the grid with an error.", "PTX ISA 9.7.19 (trap)",
         "An assertion of the kernel's author fails.", "See what the branch to the trap tests."),
    # ------------------------------------------------------------ mbarrier
    Rule("MB001", "mbarrier-range", "a count of an mbarrier is out of range",
         "Arrival counts are 1 to 2^20 - 1; the transaction count is within that many bytes of zero.",
         _MBARRIER + ": contents", "mbarrier.init with count 0.", "Give a count in range."),
    Rule("MB002", "mbarrier-not-initialized", "memory that holds no mbarrier is used as one",
         "Any mbarrier operation except init needs a valid object.", _MBARRIER + ": lifecycle",
         "mbarrier.try_wait at an address that no init named.", "Initialise the object first."),
    Rule("MB003", "mbarrier-initialized-twice", "a valid mbarrier is initialised again",
         "mbarrier.inval must come first.", _MBARRIER + ": init", "Two warps run the init.",
         "Let one elected thread initialise."),
    Rule("MB009", "mbarrier-over-arrival", "more arrivals come in a phase than it expects",
         "A phase completes when exactly its count has arrived; more is undefined.", _MBARRIER + ": arrive",
         "Two threads arrive on a barrier of count 1.", "Initialise with the number of arrivals."),
    Rule("MB010", "mbarrier-no-complete", "an arrive.noComplete completes its phase",
         "The author promised that it would not; the result is undefined.", _MBARRIER + ": arrive.noComplete",
         "The last arrival of a phase is a noComplete.", "Use a plain arrive."),
    Rule("MB011", "remote-barrier", "an operation is applied to another CTA's mbarrier that takes only its own",
         "Waits, and arrivals that return a state, are for barriers of the CTA itself.", _MBARRIER,
         "mbarrier.try_wait on an address made by mapa.", "Wait on a barrier of the own CTA."),
    Rule("MB012", "mbarrier-parity", "a phase parity is neither 0 nor 1", "phaseParity is 0 or 1.",
         _MBARRIER + ": test_wait, try_wait", "A parity register that counts up.", "Use the lowest bit."),
    Rule("MB017", "mbarrier-dropped-to-zero", "arrive_drop leaves a barrier that expects nobody",
         "The expected count stays 1 or more.", _MBARRIER + ": arrive_drop", "The only participant drops out.",
         "Invalidate the barrier instead."),
    Rule("MB019", "mbarrier-stale-state", "a wait is given a state of neither the current nor the preceding phase",
         "A state is waited for before the phase after it ends.", _MBARRIER + ": test_wait",
         "A state is kept over two phases.", "Wait on each state before the next arrival."),
    # ------------------------------------------------------------ the rest of the protocol
    Rule("TX002", "barrier-elsewhere", "a copy's mbarrier is in another CTA than the bytes it writes",
         "A bulk copy into shared memory completes on an mbarrier of the destination's CTA.",
         "PTX ISA 9.7.9.25.4 (cp.async.bulk)", "Destination by mapa, barrier of the own CTA.",
         "Name the barrier of the destination's CTA."),
    Rule("NB001", "barrier-number", "a named barrier's number or thread count is illegal",
         "Barriers are 0 to 15; thread counts positive multiples of 32.", _NAMED, "bar.sync 16.",
         "Use a barrier and count in range."),
    Rule("NB002", "barrier-count-differs", "warps enter a named barrier with different thread counts",
         "All participants of one use give the same count.", _NAMED, "bar.sync 1, 128 and bar.sync 1, 256.",
         "Give one count."),
    Rule("NB003", "barrier-overrun", "more threads arrive at a named barrier than its count",
         "Exactly the count takes part in a use.", _NAMED, "Three warps run bar.sync 1, 64.",
         "Count every warp that takes part."),
    Rule("CL001", "cluster-barrier-order", "barrier.cluster arrive and wait do not alternate",
         "Each thread arrives, then waits, then may arrive again.", _CLUSTER, "Two arrives with no wait between.",
         "Pair every arrive with a wait."),
    Rule("SR001", "setmaxnreg-direction", "setmaxnreg.inc lowers the register count, or .dec raises it",
         "The new count is at least the old one for .inc, at most for .dec.", "PTX ISA 9.7.19.5 (setmaxnreg)",
         "setmaxnreg.dec 240 in a kernel of 168 registers.", "Use .inc to raise and .dec to lower."),
    Rule("LV001", "hang", "the kernel hangs: every warp waits and nothing is in flight",
         "A wait ends only by what another warp or an engine still does.", "derived: nothing is left that could move",
         "A consumer waits for a phase that the producer never fills.",
         "See what each waiter lacks: an arrival, bytes, a group or a barrier's partner."),
    Rule("LV002", "step-limit", "the run was given up after its limit of instructions",
         "A limit decides nothing: the kernel may end later.", "derived: a run has a budget",
         "A CTA polls global memory for another that has not started.", "Run a smaller launch, or raise the limit."),
)  # fmt: skip
"""In the order of families."""
