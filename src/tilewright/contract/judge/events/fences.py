"""Proxy fences: which ordinary accesses do they order before which engine's?

A fence orders what its threads have done before it. Under one reading it also orders what they know of others': the
snapshots that are kept for that are looked at only where the writers themselves executed none. The one-way
fence.proxy.async::generic needs both halves: a release by who used the generic proxy counts once an issuer that knows
it has acquired; which of its lanes acquires is not asked. A fence of shared::cta orders nothing in the memory of peers.
Source: PTX ISA 9.7.13.4, 8.9.5. Checked by: tests/contract/judge/test_happens_before_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.run_state import ALL_LANES, ClusterState, Fenced, WarpState, published_by
from tilewright.machine.core.event import ProxyFence

_SNAPSHOTS_KEPT = 4096
_WARP_LANES = 32
_ORDERED: dict[str, tuple[Fenced, ...]] = {
    "all": ("shared", "peers", "global"),
    "shared": ("shared", "peers"),
    "own": ("shared",),
    "global": ("global",),
}


def proxy_fence(state: LaunchState, event: ProxyFence) -> None:
    """fence.proxy.async by some lanes of a warp."""
    cluster, warp = state.step(event.actor)
    for space in _ORDERED[event.space]:
        match event.order:
            case "both":
                if event.lanes == ALL_LANES:
                    warp.clock.advance(cluster.fence_track(space, warp.access_track), warp.epoch)
                else:
                    _mark_lanes(cluster, warp, ("fence", space, warp.access_track), event.lanes)
                _snapshot(cluster, warp, space, event.lanes)
                for copies in _copy_tracks(cluster):
                    cluster.advance(warp.clock, ("copy fence", space, copies), warp.clock.at(copies))
            case "release":
                _mark_lanes(cluster, warp, ("fence release", space, warp.access_track), event.lanes)
                for copies in _copy_tracks(cluster):
                    cluster.advance(warp.clock, ("copy fence release", space, copies), warp.clock.at(copies))
            case "acquire":
                _acquire(cluster, warp, space)


def _mark_lanes(cluster: ClusterState, warp: WarpState, key: tuple[Hashable, ...], lanes: int) -> None:
    """Note a fence for each of the lanes that execute it."""
    for lane in range(_WARP_LANES):
        if lanes >> lane & 1:
            cluster.advance(warp.clock, (*key, lane), warp.epoch)


def _acquire(cluster: ClusterState, warp: WarpState, space: Fenced) -> None:
    """What the warp knows to be released, by lanes of whichever warp, is fenced."""
    for other in cluster.warps.values():
        track = other.access_track
        for lane in range(_WARP_LANES):
            released = cluster.at(warp.clock, ("fence release", space, track, lane))
            if released:
                cluster.advance(warp.clock, ("fence", space, track, lane), released)
    for copies in _copy_tracks(cluster):
        released = cluster.at(warp.clock, ("copy fence release", space, copies))
        if released:
            cluster.advance(warp.clock, ("copy fence", space, copies), released)


def _copy_tracks(cluster: ClusterState) -> list[int]:
    """Along which the cp.asyncs of each warp are counted."""
    return [warp.async_copies.track for warp in cluster.warps.values() if warp.async_copies is not None]


def _snapshot(cluster: ClusterState, warp: WarpState, space: Fenced, lanes: int) -> None:
    kept = warp.fences.setdefault(space, [])
    kept.append((warp.epoch, published_by(cluster, warp, lanes).copy()))
    if len(kept) > _SNAPSHOTS_KEPT:
        del kept[: _SNAPSHOTS_KEPT // 2]


HANDLERS: dict[type, Callable[[LaunchState, Any], None]] = {ProxyFence: proxy_fence}
