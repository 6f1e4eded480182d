"""Two accesses conflict and are not in order: which rule is that, and what short run shows it?

The earlier access names the rule, since what is missing is the report of its completion. Checked by:
tests/contract/judge/test_happens_before.py.
"""

from __future__ import annotations

from typing import Literal

from tilewright.contract.history.shadow_memory import Record
from tilewright.contract.judge.run_state import Space, name_of
from tilewright.machine.core.event import CopyActor, Range, TensorCoreActor, TensorMemoryActor, WarpActor

ALLOCATES = "writes (tcgen05.alloc)"
"""The operation of the ordinary write by which tcgen05.alloc publishes an address."""
IF_BOTH_HAPPEN = "if both accesses happen; that depends on data"
"""How the doubt ends of two accesses that data decides about."""
Description = tuple[str, str, tuple[str, ...]]
"""A rule's code, the message, and the steps of a run."""


def overlap(first: Record, second: Record) -> Range:
    """A stretch of bytes that two conflicting accesses share."""
    mine, theirs = iter(first.ranges), iter(second.ranges)
    a, b = next(mine), next(theirs)
    while True:
        low, high = max(a[0], b[0]), min(a[1], b[1])
        if low < high:
            return low, high
        if a[1] <= b[1]:
            following = next(mine, None)
            if following is None:
                return b
            a = following
        else:
            following = next(theirs, None)
            if following is None:
                return a
            b = following


def describe_race(
    earlier: Record, later: Record, space: Space, *, but_for: Literal["", "lanes", "scope"] = ""
) -> Description:
    """Nothing that the later access waits for reports that the earlier one is done. but_for: nothing but a signal by
    another lane of its warp, or one of too narrow a scope."""
    code, missing = _cause(earlier, later, space)
    match but_for:
        case "lanes":
            code, missing = "MB112", "another lane of that warp signals, with no bar.warp.sync between"
        case "scope":
            code, missing = "CL104", "the mbarrier between the CTAs is arrived at or waited for at the scope of the CTA"
        case "":
            pass
    first, last = overlap(earlier, later)
    where = f"{space} bytes [{first:#x}, {last:#x})"
    one, other = name_of(earlier.actor, earlier.issuer), name_of(later.actor, later.issuer)
    message = f"{other} {later.operation} {where} while {one}, which {earlier.operation} them, may not be done"
    steps = (
        _begin(earlier, where),
        missing,
        f"{other} {later.operation} {where} ({later.span})",
        f"{one} {earlier.operation} them only now, or has done so in part",
    )
    return code, message, steps


def describe_unfenced(earlier: Record, later: Record, space: Space) -> Description:
    """The accesses are ordered, but by different proxies and without a proxy fence."""
    first, last = overlap(earlier, later)
    where = f"{space} bytes [{first:#x}, {last:#x})"
    one, other = name_of(earlier.actor, earlier.issuer), name_of(later.actor, later.issuer)
    refill = later.write
    how = "by ordinary instructions" if earlier.completion is None else "by cp.async, an ordinary access,"
    fence = "fence.proxy.async.shared::cluster" if earlier.by_peer else "fence.proxy.async"
    lacking = f"{fence} (the bytes are a peer's)" if earlier.by_peer else "proxy fence"
    message = f"{other} {later.operation} {where}, which {one} {earlier.operation} {how} with no {lacking} after it"
    steps = (
        f"{one} {earlier.operation} {where} through the generic proxy ({earlier.span})",
        f"{one} synchronizes with the issuer without {fence}",
        f"{other} {later.operation} them through the async proxy ({later.span})",
        "the engine overwrites them before the access has been performed"
        if refill
        else "the engine finds old bytes in shared memory"
        if space == "shared"
        else "the engine finds old bytes in memory",
    )
    if earlier.completion is not None:
        return "PX103", message, steps
    return "PX102" if refill else "PX101", message, steps


def describe_lanes(earlier: Record, later: Record, space: Space) -> tuple[str, tuple[str, ...]]:
    """Lanes of one warp make the accesses, with no synchronization of them between: the message, and a run."""
    first, last = overlap(earlier, later)
    where = f"{space} bytes [{first:#x}, {last:#x})"
    warp = name_of(later.issuer or later.actor)
    what = later.operation if later.issuer is None else f"issues {name_of(later.actor)}, which {later.operation}"
    message = f"a lane of {warp} {what} {where}, which another lane {earlier.operation}, with no bar.warp.sync between"
    steps = (
        f"one lane of {warp} {earlier.operation} {where} ({earlier.span}), another has not come so far or has gone on",
        f"nothing makes the lanes wait for each other before {later.span}",
        f"the other lane {what} them ({later.span}), before or after",
    )
    return message, steps


def _begin(earlier: Record, where: str) -> str:
    if earlier.issuer is None:
        return f"{name_of(earlier.actor)} is about to access {where} ({earlier.span})"
    what = f"{name_of(earlier.issuer)} issues {name_of(earlier.actor)}"
    return f"{what} that {earlier.operation} {where} ({earlier.span})"


def _cause(earlier: Record, later: Record, space: Space) -> tuple[str, str]:
    """Code, and what is missing between the two."""
    if earlier.operation.endswith("(tensor map)"):
        return "TM105", "nobody whom the writer waits for knows that the copy is complete"
    match earlier.actor:
        case TensorCoreActor():
            return "WG105", "nobody whom the later access waits for has waited for that wgmma (wgmma.wait_group)"
        case TensorMemoryActor():
            return "TC110", "nobody whom the later access waits for knows a tcgen05.commit that covers the operation"
        case CopyActor() if not earlier.by_engine:
            return "BG105", "nobody whom the later access waits for has waited for that cp.async"
        case CopyActor():
            load = earlier.operation.endswith("(load)")
            if not load:
                wait = "cp.async.bulk.wait_group" if earlier.write else "cp.async.bulk.wait_group.read"
                return "BG103", f"nobody whom the later access waits for has waited for its group ({wait})"
            if isinstance(later.actor, CopyActor) and later.operation.endswith("(load)") and later.write:
                return "TM102", "the second copy is issued without waiting for the first one's phase"
            return "MB111", "the later access does not wait for the mbarrier phase that the copy completes in"
        case WarpActor():
            if earlier.operation == ALLOCATES:
                return "TC104", "nothing orders the reader after the tcgen05.alloc that writes the address"
            if later.operation.endswith("(tensor map)"):
                return "TM104", "nothing orders the issuer of the copy after the write of the tensor map"
            if later.by_engine:
                return "TM101", "the issuer of the later access does not synchronize with that warp"
            if space == "global":
                return "CL101", "no barrier or mbarrier orders the two warps"
            return "NB101", "no barrier or mbarrier orders the two warps"
