"""Fences: which event each spelling yields."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.small_kernels import as_bytes, launch

from tilewright.base.plan import PointerParam
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import Event, MemoryFence, ProxyFence, TensorMapFence
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.run import run_launch

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
START = ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x;\n"


def events_of(text: str) -> list[Event]:
    events: list[Event] = []
    out = np.zeros(256, np.uint8)
    run_launch(
        read(HEADER + START + text + " ret; }", "k.ptx"),
        launch(PointerParam("out")),
        {"out": as_bytes(out)},
        observe=events.append,
    )
    return [event for event in events if isinstance(event, MemoryFence | ProxyFence | TensorMapFence)]


@pytest.mark.parametrize(
    ("text", "order", "scope", "restricted_to"),
    [
        ("fence.sc.gpu;", "sc", "gpu", ""),
        ("fence.acq_rel.cluster;", "acq_rel", "cluster", ""),
        ("fence.acquire.cta;", "acquire", "cta", ""),
        ("fence.release.sys;", "release", "sys", ""),
        ("membar.gl;", "sc", "gpu", ""),
        ("fence.acquire.sync_restrict::shared::cluster.cluster;", "acquire", "cluster", "shared::cluster"),
        ("fence.release.sync_restrict::shared::cta.cluster;", "release", "cluster", "shared::cta"),
    ],
)
def test_memory_fences(text: str, order: str, scope: str, restricted_to: str) -> None:
    (fence,) = events_of(text)
    assert isinstance(fence, MemoryFence) and fence.kind == "fence"
    assert (fence.order, fence.scope, fence.restricted_to) == (order, scope, restricted_to)


def test_the_fence_after_initializing_barriers() -> None:
    (fence,) = events_of("fence.mbarrier_init.release.cluster;")
    assert isinstance(fence, MemoryFence) and (fence.kind, fence.scope) == ("mbarrier_init", "cluster")


@pytest.mark.parametrize(
    ("text", "space", "order"),
    [
        ("fence.proxy.async;", "all", "both"),
        ("fence.proxy.async.shared::cta;", "own", "both"),
        ("fence.proxy.async.shared::cluster;", "shared", "both"),
        ("fence.proxy.async.global;", "global", "both"),
        ("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;", "shared", "acquire"),
        ("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;", "own", "release"),
    ],
)
def test_fences_to_the_async_proxy(text: str, space: str, order: str) -> None:
    (fence,) = events_of("setp.lt.u32 %p1, %r1, 8; @%p1 " + text)
    assert isinstance(fence, ProxyFence)
    assert (fence.space, fence.order, fence.lanes) == (space, order, 0xFF)


def test_fences_of_tensor_maps() -> None:
    (release,) = events_of("fence.proxy.tensormap::generic.release.gpu;")
    assert release == TensorMapFence(release.actor, "release", None, "gpu", release.span)
    acquires = events_of(
        "and.b32 %r2, %r1, 1; mad.wide.u32 %rd1, %r2, 128, %rd1; add.s64 %rd1, %rd1, 0;"
        "fence.proxy.tensormap::generic.acquire.sys [%rd1], 128;"
    )
    found = [(event.kind, event.scope, event.lanes) for event in acquires if isinstance(event, TensorMapFence)]
    assert found == [("acquire", "sys", 0x5555_5555), ("acquire", "sys", 0xAAAA_AAAA)]
    with pytest.raises(MachineFault, match="MF002"):
        events_of("fence.proxy.tensormap::generic.acquire.gpu [%rd1+64], 128;")


@pytest.mark.parametrize("text", ["fence.proxy.alias;", "membar.proxy.alias;"])
def test_aliases_do_not_exist_here(text: str) -> None:
    assert events_of(text) == []
