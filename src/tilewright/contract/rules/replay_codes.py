"""Which rules does the judge of runs enforce, why, and what fixes a violation? One row per code, numbered from 101.

The rows are of the same kind as the typestate proof's (`codes`); numbers are disjoint, since the same hardware rule is
broken by a program in one and by two events in the other. Section numbers are of PTX ISA 9.1.
Checked by: tests/contract/judge/test_happens_before_rules.py (each code has a stream of events that breaks it).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.rules.tensor_codes import TENSOR_RULES
from tilewright.contract.rules.typestate_codes import Rule

_MBARRIER = "PTX ISA 9.7.13.15 (mbarrier)"
_TRACKING = "PTX ISA 9.7.13.15 (mbarrier: tracking asynchronous operations)"
_PHASES = "PTX ISA 9.7.13.15 (mbarrier: phases, parity waits)"
_BULK_GROUP = "PTX ISA 9.7.9.25.1, 9.7.9.27.2 (bulk async-groups)"
_PROXY = "PTX ISA 9.7.9.25.2, 8.6, 8.9.5 (async proxy, fence.proxy.async)"
_WGMMA = "PTX ISA 9.7.15.7 (wgmma.fence, commit_group, wait_group)"
_NAMED = "PTX ISA 9.7.13.1 (bar, barrier)"
_CLUSTER = "PTX ISA 9.7.13.3 (barrier.cluster), 2.2.2 (clusters)"
_MODEL = "PTX ISA 8.9 (memory consistency model, causality order)"
_ASYNC_COPY = "PTX ISA 9.7.9.25.3 (cp.async, cp.async.wait_group)"
_GRID = "PTX ISA 9.7.13.13 (griddepcontrol)"
_REGISTERS = "PTX ISA 9.7.19.5 (setmaxnreg)"

REPLAY_RULES: dict[str, Rule] = {
    rule.code: rule
    for rule in (
        Rule("MB101", "barrier-not-live", "an mbarrier is used that was not initialised",
             "Any mbarrier operation except init on an uninitialised object is undefined.", _MBARRIER + ": lifecycle",
             "A warp waits at an address that no mbarrier.init named.", "Initialise the barrier before its first use."),
        Rule("MB102", "barrier-bytes-touched", "an ordinary access touches the bytes of a live mbarrier",
             "Non-mbarrier operations on a live mbarrier object are undefined.", _MBARRIER + ": init, inval",
             "st.shared writes the eight bytes of a barrier.", "Place barriers apart from data, or invalidate first."),
        Rule("MB103", "barrier-ended-in-use", "an mbarrier is initialised again or invalidated while in use",
             "init on a live object is undefined; inval must come after every other use of the object.",
             _MBARRIER + ": inval", "A warp invalidates a barrier on which another may still wait.",
             "Synchronize all users before the invalidation."),
        Rule("MB104", "init-not-ordered", "an mbarrier may be used before it is initialised",
             "The first use by another thread must be ordered after init.", _MBARRIER + ": init",
             "No bar.sync stands between init and the consumers' first wait.",
             "Synchronize the CTA (the cluster, if peers use it) after the inits."),
        Rule("MB105", "init-not-fenced", "initialisation is not made visible to the agent that uses the barrier",
             "fence.mbarrier_init by the initialising thread, then a cluster barrier, publish inits to peer CTAs and "
             "the engines that signal for them.", "PTX ISA 9.7.13.4 (fence.mbarrier_init)",
             "A peer arrives on a barrier whose init was followed by a relaxed cluster barrier alone.",
             "Put fence.mbarrier_init.release.cluster after the inits."),
        Rule("MB106", "phase-arrivals", "a phase ends with another number of arrivals than its count",
             "A phase completes when exactly the expected arrivals have come.", _MBARRIER + ": arrive",
             "Two threads arrive in a phase of count 1.", "Initialise the barrier with the number of arrivals."),
        Rule("MB107", "arrival-phase-ambiguous", "an arrival may count in an earlier phase",
             "An arrival counts in whatever phase is current: it must be ordered after the end of the phase before.",
             _PHASES, "A consumer releases a slot twice without waiting in between.",
             "Wait for the phase before (directly, or for something that follows it)."),
        Rule("MB108", "phase-parity-aliased", "a wait may see a phase two away from the one it means",
             "A parity names the current or the preceding phase: a waiter must know all phases before the one it waits "
             "for, and the next phase must not end before the wait.", _PHASES,
             "A producer laps a consumer that has not waited yet; the consumer then waits forever.",
             "Let the waiter's release be part of the next phase of what it waits for."),
        Rule("MB109", "phase-not-waited", "a phase is followed by arrivals though nobody waited for it",
             "At least one wait must return true for each phase before an arrival of the next.", _PHASES,
             "A thread arrives on its own barrier again and again.", "Wait once per phase."),
        Rule("MB110", "phase-incomplete-at-exit", "a barrier is left with some of a phase's arrivals",
             "Some participants signalled a phase that never ended; whoever waits for it would wait forever.", _PHASES,
             "One of two consumers does not release the last slot.", "Let every participant arrive, or none."),
        Rule("MB111", "copy-not-awaited", "bytes of a copy are used before the phase that reports them",
             "A bulk copy's writes are visible to who waited for the phase in which it completed.", _TRACKING,
             "A consumer reads a slot without waiting on its full barrier, or waits with the wrong parity.",
             "Wait for the copy's phase before the use."),
        Rule("TX101", "transaction-bytes", "bytes expected and bytes completed differ",
             "A phase completes only when its transaction count is zero again.", _TRACKING,
             "16384 bytes are expected and copies bring 8192.", "Expect the sum of the copies' bytes."),
        Rule("TX102", "transaction-phase-ambiguous", "a copy's bytes may count in an earlier phase",
             "complete_tx counts in whatever phase is current: the copy must be issued after the phase before ended.",
             _TRACKING, "A copy for the next fill is issued before the fill before was complete.",
             "Issue the copy after waiting for the slot to be released."),
        Rule("TX103", "expect-after-end", "a phase may end before its bytes, or its copies, are expected",
             "A pending arrival must hold the phase open until expect_tx has been performed, and until "
             "cp.async.mbarrier.arrive without .noinc has added its arrivals.", _TRACKING,
             "One thread performs expect_tx while another, unordered, makes the last arrival.",
             "Use arrive.expect_tx or .noinc, or order what adds to the phase before an arrival of the same phase."),
        Rule("BG101", "bulk-group-not-committed", "a bulk copy is in no committed group when its thread exits",
             "wait_group covers committed groups only.", _BULK_GROUP,
             "A store is issued and the thread exits.", "Commit the group and wait for it."),
        Rule("BG102", "bulk-source-at-exit", "a thread exits while its bulk stores may still read shared memory",
             "Shared memory must stay until wait_group.read has reported that the sources were read.", _BULK_GROUP,
             "The last wait leaves one group pending.", "End with cp.async.bulk.wait_group.read 0."),
        Rule("BG103", "bulk-bytes-in-use", "bytes of a bulk store are used before its group is waited for",
             "The source may be overwritten after wait_group.read, the destination be used after wait_group, by the "
             "issuing thread; other threads need a synchronization after it.", _BULK_GROUP,
             "A staging buffer is rewritten while the store before may still read it.",
             "Wait for the group, then synchronize, then rewrite."),
        Rule("TM101", "async-access-unordered", "an ordinary access and an engine's of the same bytes are unordered",
             "A bulk copy or wgmma is ordered after what its issuing thread knows, and nothing else.", _MODEL,
             "A warp writes a tile and another issues its store, with no barrier between.",
             "Signal a barrier after the last of the earlier accesses, and wait for it before the later one."),
        Rule("TM102", "overlapping-copies", "two bulk copies use the same bytes and are unordered",
             "Copies are ordered only by waiting for the first one's completion.", _TRACKING,
             "Two boxes of one fill overlap.", "Give each copy bytes of its own, or wait in between."),
        Rule("TM103", "copy-in-flight-at-exit", "a copy may touch the shared memory of a CTA that has ended",
             "A CTA must not end before it knows that every copy into it, or from it to a peer, is done.", _TRACKING,
             "The producer fills one slot more than the consumers read.", "Wait for every fill before the CTA ends."),
        Rule("PX101", "write-not-fenced", "an engine reads bytes of ordinary stores without a proxy fence",
             "Each writer executes fence.proxy.async after its writes and before the synchronization with the issuer.",
             _PROXY, "st.shared, bar.sync, then a bulk store, with no fence.",
             "Put fence.proxy.async.shared::cta between the writes and the barrier."),
        Rule("PX102", "access-not-fenced-before-refill", "an engine overwrites bytes in ordinary use without a fence",
             "Ordinary accesses are ordered before a later asynchronous write by fence.proxy.async.",
             _PROXY, "ld.shared, release of the slot, then a bulk copy into it.",
             "Put fence.proxy.async between the accesses and the release."),
        Rule("WG101", "wgmma-not-fenced", "a warp starts a wgmma without wgmma.fence",
             "wgmma.fence comes before the first wgmma and whenever ordinary instructions touched its registers.",
             _WGMMA, "A kernel without wgmma.fence.", "Put wgmma.fence.sync.aligned before the first wgmma."),
        Rule("WG102", "wgmma-not-committed", "a wgmma is in no committed group when its warp exits",
             "wait_group covers committed groups only.", _WGMMA, "No wgmma.commit_group follows the last wgmma.",
             "Commit, then wait."),
        Rule("WG103", "wgmma-not-awaited", "a wgmma may be in flight when its warps exit",
             "Operands and accumulators belong to the wgmma until wait_group covers it.", _WGMMA,
             "The last wait leaves one group pending.", "End with wgmma.wait_group 0."),
        Rule("WG104", "register-in-flight", "a register of a wgmma in flight is touched",
             "Accumulators and A fragments may be touched only after wait_group covers their wgmma.", _WGMMA,
             "The epilogue reads accumulators after wait_group 1.", "Wait with pending 0."),
        Rule("WG105", "operand-overwritten", "shared memory is overwritten while a wgmma may still read it",
             "Operands may be overwritten after wait_group covers the wgmma, by whoever learnt of that.", _WGMMA,
             "A slot is released before wait_group covers the wgmma that reads it.",
             "Wait for the wgmma, then arrive on the empty barrier."),
        Rule("WG106", "register-after-fence", "a register is touched between wgmma.fence and the wgmma that uses it",
             "wgmma.fence orders ordinary register accesses before it, not after it, with the wgmma.", _WGMMA,
             "wgmma.fence, mov of zero into the accumulators, wgmma.",
             "Put wgmma.fence after the last access of the registers."),
        Rule("NB101", "shared-race", "two warps touch the same shared memory, one writes, and nothing orders them",
             "Conflicting ordinary accesses must be ordered by a barrier or an mbarrier.", _MODEL,
             "A warp reads what another wrote, with no bar.sync between.", "Synchronize between write and read."),
        Rule("NB102", "barrier-generation-ambiguous", "an arrival at a named barrier may count in the use before",
             "A barrier must have completed, as far as the arriving warp knows, before it takes part again.", _NAMED,
             "A warp runs bar.arrive twice on one barrier without waiting in between.",
             "Alternate two barriers, or synchronize between the uses."),
        Rule("CL101", "global-race", "two CTAs touch the same global memory, one writes",
             "CTAs of one launch are unordered, unless they are of one cluster and synchronize.", _MODEL,
             "Two CTAs write the same tile of the output.", "Give each CTA its own output, or use two launches."),
        Rule("CL102", "remote-before-start", "a CTA reaches into a peer that may not have started",
             "A peer's shared memory exists from its start: synchronize the cluster before the first remote access.",
             _CLUSTER, "A remote arrive without a barrier.cluster before it.", "Synchronize the cluster at entry."),
        Rule("CL103", "remote-after-exit", "a CTA reaches into a peer that may have ended",
             "A CTA's shared memory exists until its exit, which must come after every remote access.", _CLUSTER,
             "A consumer releases a slot of a peer whose producer has returned.",
             "Synchronize the cluster before the CTAs return."),
        Rule("SR101", "register-budgets-differ", "warps of one warpgroup execute different setmaxnreg",
             "All warps of a warpgroup execute the same setmaxnreg.", _REGISTERS,
             "Three warps raise to 240, one to 232.", "Execute setmaxnreg by the whole warpgroup."),
        Rule("MB112", "elected-arrive", "one lane signals for what other lanes of its warp did",
             "An arrival publishes its own thread's accesses, and others' only after a barrier of those lanes.", _MODEL,
             "All lanes store; lane 0 arrives on a barrier of count 1, with no bar.warp.sync before.",
             "Put bar.warp.sync before the arrival, or let every lane arrive."),
        Rule("MB113", "arrivals-missing", "a wait never returns, since arrivals of its phase never come",
             "A phase ends when as many arrivals have come as its count says.", _MBARRIER + ": init, arrive",
             "A barrier of count 2 on which one thread arrives.",
             "Initialise the barrier with the number of arrivals that come, or add the missing arrival."),
        Rule("MB114", "wrong-parity", "a wait never returns, since it names the parity of a phase that has not begun",
             "A wait by parity returns for the phase before the current one; a fresh barrier passes parity 1.",
             _PHASES, "A producer's first wait on an empty barrier names parity 0.",
             "Begin with the parity of the phase that is meant, and flip it once per use of the barrier."),
        Rule("MB115", "init-repeated", "an mbarrier is initialised again with the same count before its first use",
             "init on memory that holds a valid object is undefined, even with the same count.", _MBARRIER + ": init",
             "All 32 lanes of a warp execute the init of one barrier.", "Initialise it once, by one thread."),
        Rule("MB116", "unused-barrier-overwritten", "data overwrites an mbarrier that nobody has used",
             "The bytes of a valid object may be used otherwise only after mbarrier.inval.", _MBARRIER + ": inval",
             "A barrier is initialised and never used; a copy's destination covers its 8 bytes.",
             "Do not initialise it, or execute mbarrier.inval before the bytes hold data."),
        Rule("MB117", "parity-sign", "a wait names parity -1",
             "phaseParity is 0 or 1; other values are not defined.", _PHASES,
             "A phase bit is extended by its sign, so that the odd phase is -1.",
             "Take the lowest bit: and.b32 with 1."),
        Rule("TX104", "bytes-missing", "a wait never returns, since its phase expects other bytes than copies bring",
             "A phase ends when the bytes expected in it have been completed.", _TRACKING,
             "arrive.expect_tx of 32768 bytes, and copies that bring 16384.",
             "Expect the sum of the bytes of the phase's copies."),
        Rule("BG104", "async-copy-at-exit", "a thread exits with a cp.async that nobody waits for",
             "A cp.async writes shared memory at any time until its group is waited for.", _ASYNC_COPY,
             "The last prefetch of a loop is not waited for.", "End with cp.async.wait_all."),
        Rule("BG105", "async-copy-not-awaited", "bytes of a cp.async are used before it is waited for",
             "A thread's cp.asyncs are visible to it after cp.async.wait_group, and to others after a synchronization "
             "that follows.", _ASYNC_COPY, "cp.async.wait_group 2 where one group may remain.",
             "Wait for the group, then synchronize, then use the bytes."),
        Rule("TM104", "tensor-map-not-fenced", "a copy uses a tensor map that the kernel writes, without its fences",
             "Tensor maps are read through the tensormap proxy: who writes one releases it, and who issues the copy "
             "acquires it, by fence.proxy.tensormap::generic.", "PTX ISA 9.7.13.4 (fence.proxy.tensormap)",
             "tensormap.replace, then the copy, with no fence.proxy.tensormap::generic.acquire.",
             "Release (tensormap.cp_fenceproxy), synchronize, acquire the 128 bytes, then issue the copy."),
        Rule("TM105", "tensor-map-changed-in-use", "a tensor map is written while a copy may still read it",
             "A tensor map may change once every copy that uses it is complete.", _TRACKING,
             "The next group's tensor map is written before the copies of the group before are waited for.",
             "Wait for the copies, or alternate between two tensor maps."),
        Rule("PX103", "async-copy-not-fenced", "an engine uses bytes of a cp.async without a proxy fence",
             "cp.async writes through the generic proxy: a proxy fence follows its completion.", _PROXY,
             "cp.async, wait_group, bar.sync, wgmma, with no fence.proxy.async.",
             "Put fence.proxy.async after the wait and before the synchronization with the issuer."),
        Rule("PX105", "reuse-not-fenced", "ordinary writes reuse an engine's bytes without a proxy fence",
             "A completion is followed by an implicit proxy fence; some ask for an explicit one.", _PROXY,
             "st.shared into a slot that a bulk copy has filled and wgmma has read.",
             "Put fence.proxy.async before the writes."),
        Rule("NB103", "participants-missing", "a named barrier never completes",
             "As many threads must come as the barrier is used with.", _NAMED,
             "bar.sync 0 by 384 threads' kernel in a branch that 128 take.",
             "Name the number of threads that come, or let all of them come."),
        Rule("NB104", "same-value-race", "threads store the same value to the same bytes, unordered",
             "Conflicting weak stores race, whatever they store.", _MODEL,
             "st.shared of a constant, or of a parameter, by all warps, to one address.", "Let one thread store."),
        Rule("NB105", "arrives-twice", "a warp takes part twice in one use of a named barrier",
             "A warp that has arrived uses the barrier again only once it has completed.", _NAMED,
             "bar.arrive 9, 256; bar.sync 9, 256, by the same warps.",
             "Let other warps make the first arrival, or use mbarriers."),
        Rule("NB106", "lane-race", "lanes of one warp touch the same memory, one writes, and nothing orders them",
             "Lanes are threads of their own: bar.warp.sync orders memory among those that take part, as wider "
             "barriers do; converged execution, shfl.sync, vote.sync and elect.sync do not.",
             "PTX ISA 9.7.13.2 (bar.warp.sync), 8.9",
             "Each lane stores a row's element and loads its neighbour's, with no bar.warp.sync between.",
             "Put bar.warp.sync between the accesses."),
        Rule("NB107", "arrival-left-over", "an arrival at a named barrier is left over when its CTA ends",
             "Of a program in which arrivals and waits make up whole uses of a barrier, none is left.",
             "derived: the program's protocol",
             "A consumer passes its turn on after its last tile, too.",
             "Report this: the emitted text is wrong."),
        Rule("CL104", "scope-too-narrow", "synchronization between CTAs names too narrow a scope",
             "Atomic or strong accesses do not race, and a release and an acquire order memory, only if each scope "
             "includes the other thread. An mbarrier's arrivals and waits have .cta scope unless they name another.",
             _MODEL,
             "atom.relaxed.cta on a counter of all CTAs; st.shared::cluster, then mbarrier.arrive.shared::cluster.",
             "Use .gpu (.release.cluster and .acquire.cluster in a cluster)."),
        Rule("CL105", "cluster-barrier-incomplete", "a cluster barrier never completes",
             "All threads of all CTAs of the cluster that have not exited take part.", _CLUSTER,
             "barrier.cluster in a branch that one warp of each CTA takes.", "Let every warp execute it."),
        Rule("CL106", "awaited-word-overwritten", "a word is overwritten before those who wait for it have seen it",
             "Who writes a word of global memory again must know that the waits for what it held are over.", _MODEL,
             "Two CTAs wait for one flag to be 1, and each sets it back to 0 when it has seen that.",
             "Let one CTA wait for each flag, or count those who have seen it before it is set back."),
        Rule("CL107", "stale-read", "a non-coherent load reads what the same launch writes",
             "ld.global.nc and ldu are for bytes that do not change while the kernel runs; no fence or acquire makes "
             "others' writes visible to them.", "PTX ISA 9.7.9.9 (ld.global.nc), 9.7.9.10 (ldu)",
             "A CTA waits for another's flag and loads its partial sums by ld.global.nc.", "Load by ld.global."),
        Rule("SR102", "registers-never-free", "setmaxnreg.inc waits for registers that nobody gives back",
             "The CTA's registers, as launched, must suffice for all that its warps ask for.", _REGISTERS,
             "232 * 256 + 24 * 128 registers of a launch with 168 * 384.", "Lower the increase, or give back more."),
        Rule("GD101", "read-before-grid-wait", "global memory is touched before griddepcontrol.wait",
             "Results of the grids before are visible after griddepcontrol.wait only.", _GRID,
             "A tile is loaded, then griddepcontrol.wait.", "Put griddepcontrol.wait before the access."),
        Rule("GD102", "grid-wait-missing", "dependents may begin early and the kernel itself never waits",
             "A kernel in a chain of dependent launches waits before it touches what the grids before it use.", _GRID,
             "griddepcontrol.launch_dependents without griddepcontrol.wait.", "Execute griddepcontrol.wait."),
        Rule("LV102", "deadlock", "warps wait for each other",
             "Of the warps that wait, one must be able to go on.", "derived: progress",
             "Two warps each wait for the other's arrival before they arrive.",
             "Let one of them arrive before it waits."),
        Rule("LV103", "workspace-not-restored", "a launch does not leave words that CTAs wait for as it found them",
             "The next launch with the same workspace must find what this one found.", "derived: launches are repeated",
             "A flag is set for another CTA, which never sets it back: in the next launch it waits for nothing.",
             "Let whoever has waited for a flag set it back, or clear the workspace before each launch."),
        Rule("LV104", "word-never-set", "a wait for a word of global memory never returns",
             "Some write must give the word what the loop waits for, and be made by someone who can go on.",
             "derived: progress",
             "Two CTAs each wait for the other's flag before they set their own.",
             "Set one's own flag before waiting, or wait in one direction only."),
        Rule("LV101", "claim-differs", "the text does something else than its proof says",
             "What was proven of the program must be what its text does.", "derived: the proof's claims",
             "The proof says 4 stages and the text uses 3 barriers.", "Report this: the emitted text is wrong."),
        Rule("UM101", "shared-memory-unwritten", "shared memory is read that nobody has written",
             "Shared memory holds nothing when a CTA begins: what is read there before it is written is whatever an "
             "earlier CTA left.", "PTX ISA 5.1.6 (.shared)",
             "A warp reads a row of its staging buffer that no lane has stored.",
             "Write every byte before it is read, or read no more than was written."),
        Rule("UM102", "buffer-unwritten", "a workspace or an output is read before anybody has written it",
             "Neither holds anything when the first launch begins, unless the plan says that it is zeroed.",
             "CUDA Driver API, cuMemAlloc (the memory is not cleared)",
             "A CTA adds a partial sum that its helper never stores.",
             "Store before the synchronization that the reader waits for, or clear the buffer before the launch."),
        Rule("UM103", "result-unwritten", "an element of a result is never written",
             "A program whose grid covers a result defines each of its elements; its text has to store them all.",
             "derived: the program's meaning", "The last tile of each CTA is not stored.",
             "Report this: the emitted text is wrong."),
        Rule("UM104", "operands-apart", "a wgmma multiplies parts of operands that do not belong together",
             "A product of the program pairs elements of two arrays at the same place along each axis that both have.",
             "derived: the program's meaning",
             "One operand's slices are loaded one further along the contracted axis than the other's.",
             "Report this: the emitted text is wrong."),
        Rule("UM105", "sum-not-whole", "a product of a sum is left out or added twice",
             "An element of a result is the sum of the products at every place along the contracted axis, once each.",
             "derived: the program's meaning",
             "Every CTA loads and multiplies the first one's tiles, and stores them as its own.",
             "Report this: the emitted text is wrong."),
        Rule("UM106", "sum-stored-elsewhere", "what a warp stores is not of the tile that it has summed",
             "The products that one accumulator sums are of one tile, which is stored at its own place.",
             "derived: the program's meaning",
             "The producer numbers tiles otherwise than the consumers, who store them.",
             "Report this: the emitted text is wrong."),
        Rule("UM108", "sum-not-begun", "a sum begins with what its accumulator held, or is lost or counted twice",
             "The first wgmma of a sum has scale-d false and all others true; it is read once, after the last of them.",
             "PTX ISA 9.7.15.5.2 (scale-d); derived: the program's meaning",
             "The first slice of a tile adds to what the tile before left in the accumulator.",
             "Report this: the emitted text is wrong."),
        Rule("UM109", "stored-twice", "a bulk store sends bytes that another one has sent and nobody has written since",
             "Results are staged anew for each store, so that what one store left is not taken for the next one's.",
             "derived: the program's meaning",
             "One lane's stmatrix is left out: its rows are those of the tile before.",
             "Report this: the emitted text is wrong."),
        *TENSOR_RULES,
    )
}  # fmt: skip
"""Every rule of the judge by its code."""

FINDINGS_KEPT = 200
CONFLICTS_KEPT = 3


@dataclass(slots=True)
class RunFindings:
    """Findings of a run, one per rule and pair of places, in the order of discovery; and reasons for doubt.

    A place is told of a few of its conflicts by one rule, since one missing synchronization shows at many instructions.
    What asks for review is counted apart, and gives way to an error of the same rule and places: it never hides one.
    released_init, narrow_release: how grave it is that a release, and no fence, publishes an init to peers, and that
    arrivals and inits are ordered by arrivals of too narrow a scope alone; lanes_in_step: that nothing orders lanes of
    one warp, None to say nothing (`interpretations`).
    """

    found: dict[tuple[str, Span | None, Span | None], Diagnostic] = field(
        default_factory=dict[tuple[str, Span | None, Span | None], Diagnostic]
    )
    told: Counter[tuple[str, Span, Level]] = field(default_factory=Counter[tuple[str, Span, Level]])
    kept: Counter[Level] = field(default_factory=Counter[Level])
    doubts: list[str] = field(default_factory=list[str])
    released_init: Level = Level.ERROR
    narrow_release: Level = Level.ERROR
    lanes_in_step: Level | None = Level.ERROR

    def knows(self, code: str, primary: Span | None, other: Span | None, level: Level) -> bool:
        """Would a report of this be dropped, since it or a graver one of the same places is there already?"""
        known = self.found.get((code, primary, other))
        return known is not None and (known.level is level or level is Level.REVIEW)

    def report(
        self,
        code: str,
        message: str,
        primary: Span | None,
        other: Span | None = None,
        steps: tuple[str, ...] = (),
        level: Level = Level.ERROR,
        contested: str = "",
    ) -> None:
        """Record that rule `code` is broken at `primary`, in conflict with `other`; steps: a run that shows it;
        contested: the point that decides the level, where several points govern the rule."""
        key = (code, primary, other)
        if self.knows(code, primary, other, level):
            return
        if self.kept[level] >= FINDINGS_KEPT:
            return
        if primary is not None:
            if self.told[code, primary, level] >= CONFLICTS_KEPT:
                return
            self.told[code, primary, level] += 1
        self.kept[level] += 1
        rule = REPLAY_RULES[code]
        self.found[key] = Diagnostic(
            code=code,
            name=rule.name,
            message=message,
            primary=primary,
            conflicts_with=other,
            interleaving=steps,
            source=rule.source,
            repair=Repair(rule.remedy),
            level=level,
            contested=contested,
        )

    def doubt(self, reason: str) -> None:
        """Record why the run can't stand for all interleavings."""
        if reason not in self.doubts:
            self.doubts.append(reason)
