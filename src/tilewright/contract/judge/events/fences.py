"""Proxy fences: which ordinary accesses do they order before which engine's?

A fence orders what its threads have done before it. Under one reading it also orders what they know of others': the
snapshots that are kept for that are looked at only where the writers themselves executed none. The one-way
fence.proxy.async::generic needs both halves: a release by who used the generic proxy counts once an issuer that knows
it has acquired. Source: PTX ISA 9.7.13.4, 8.9.5. Checked by: tests/contract/judge/test_happens_before_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.run_state import ALL_LANES, ClusterState, Space, WarpState
from tilewright.machine.core.event import ProxyFence

_SNAPSHOTS_KEPT = 4096


def proxy_fence(state: LaunchState, event: ProxyFence) -> None:
    """fence.proxy.async by some lanes of a warp."""
    cluster, warp = state.step(event.actor)
    spaces: tuple[Space, ...] = ("shared", "global") if event.space == "all" else (event.space,)
    for space in spaces:
        match event.order:
            case "both":
                _mark(cluster, warp, space, event.lanes)
                _snapshot(warp, space)
            case "release":
                cluster.advance(warp.clock, ("fence release", space, warp.access_track), warp.epoch)
            case "acquire":
                for other in cluster.warps.values():
                    released = cluster.at(warp.clock, ("fence release", space, other.access_track))
                    if released:
                        warp.clock.advance(cluster.fence_track(space, other.access_track), released)
        for other in cluster.warps.values():
            if other.async_copies is not None:
                track = other.async_copies.track
                cluster.advance(warp.clock, ("copy fence", space, track), warp.clock.at(track))


def _mark(cluster: ClusterState, warp: WarpState, space: Space, lanes: int) -> None:
    if lanes == ALL_LANES:
        warp.clock.advance(cluster.fence_track(space, warp.access_track), warp.epoch)
        return
    for lane in range(32):
        if lanes >> lane & 1:
            cluster.advance(warp.clock, ("fence", space, warp.access_track, lane), warp.epoch)


def _snapshot(warp: WarpState, space: Space) -> None:
    kept = warp.fences.setdefault(space, [])
    kept.append((warp.epoch, warp.clock.copy()))
    if len(kept) > _SNAPSHOTS_KEPT:
        del kept[: _SNAPSHOTS_KEPT // 2]


HANDLERS: dict[type, Callable[[LaunchState, Any], None]] = {ProxyFence: proxy_fence}
