"""Fences: of memory, and between proxies.

A fence yields its event and changes no value, since warps interleave at instructions. `fence.proxy.alias` and
`membar.proxy.alias` order accesses of one location through several virtual addresses; buffers have one address here, so
they yield nothing. Source: PTX ISA, `membar`, `fence`, `fence.proxy`. Checked by: tests/machine/barrier/test_fences.py.
"""

from __future__ import annotations

from typing import Literal, cast

import numpy as np

from tilewright.frontends.ptx.ast import Immediate, Instruction
from tilewright.machine.core.decoder import Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.distinct import distinct
from tilewright.machine.core.event import FenceOrder, MemoryFence, ProxyFence, TensorMapFence
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import FULL, Registers, indices, of_lanes, to_bits
from tilewright.machine.core.step import Plain, nothing

_TENSOR_MAP_BYTES = 128
_RESTRICTIONS = ("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
_FENCED: dict[str, Literal["all", "shared", "own", "global"]] = {
    "": "all", "shared::cta": "own", "shared::cluster": "shared", "global": "global",
}  # fmt: skip
"""What a proxy fence orders, by the state space that it names."""


def _fence(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    initial = instruction.row == "fence.mbarrier_init"
    if modifiers.flag("proxy"):
        modifiers.flag("alias")
        expect_operands(instruction, 0)
        return nothing()
    order = cast("FenceOrder", modifiers.take("sc", "acq_rel", "acquire", "release") or _default_order(instruction))
    restriction = modifiers.take(*_RESTRICTIONS) or ""
    scope = modifiers.take("cta", "cluster", "gpu", "sys", "gl")
    expect_operands(instruction, 0)
    if scope is None:
        raise unsupported(instruction, "it names no scope")
    observe = decoder.observe
    if observe is None:
        return nothing()
    watch = observe
    kind: Literal["fence", "mbarrier_init"] = "mbarrier_init" if initial else "fence"
    reach = "gpu" if scope == "gl" else scope
    objects = restriction.removeprefix("sync_restrict::")

    def masked(r: Registers, mask: int) -> None:
        watch(MemoryFence(r[0].actor, kind, reach, instruction.span, order, objects, to_bits(mask)))

    return Plain(lambda r: masked(r, FULL), masked)


def _default_order(instruction: Instruction) -> FenceOrder:
    """`membar` is `fence.sc`; a `fence` without order is `fence.acq_rel` (PTX ISA, membar/fence)."""
    return "sc" if instruction.row == "membar" else "acq_rel"


def _fence_proxy(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """`fence.proxy.async`, and the one-way `fence.proxy.async::generic`, which needs both sides."""
    one_way = instruction.row == "fence.proxy.async::generic"
    order = cast("Literal['both', 'acquire', 'release']", modifiers.take("acquire", "release") or "both")
    restriction = modifiers.take(*_RESTRICTIONS)
    if one_way:
        modifiers.flag("cluster")
    space = modifiers.take("global", "shared::cta", "shared::cluster")
    expect_operands(instruction, 0)
    if one_way and (order == "both" or restriction is None):
        raise unsupported(instruction, "it needs .acquire or .release, and .sync_restrict")
    observe = decoder.observe
    if observe is None:
        return nothing()
    watch = observe
    covered = _FENCED[(restriction or "").removeprefix("sync_restrict::") or space or ""]

    def masked(r: Registers, mask: int) -> None:
        watch(ProxyFence(r[0].actor, covered, instruction.span, to_bits(mask), order))

    return Plain(lambda r: masked(r, FULL), masked)


def _fence_alias(_decoder: Decoder, instruction: Instruction, _modifiers: Modifiers) -> Plain:
    expect_operands(instruction, 0)
    return nothing()


def _fence_tensor_map(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    kind = modifiers.take("acquire", "release")
    scope = modifiers.take("cta", "cluster", "gpu", "sys")
    if scope is None or kind is None:
        raise unsupported(instruction, "it needs .acquire or .release, and a scope")
    observe, span = decoder.observe, instruction.span
    if kind == "release":
        expect_operands(instruction, 0)
        if observe is None:
            return nothing()
        tell_release = observe

        def release(r: Registers, mask: int) -> None:
            tell_release(TensorMapFence(r[0].actor, "release", None, scope, span, to_bits(mask)))

        return Plain(lambda r: release(r, FULL), release)
    address, size = expect_operands(instruction, 2)
    if not isinstance(size, Immediate) or size.value != _TENSOR_MAP_BYTES:
        raise unsupported(instruction, f"it acquires {_TENSOR_MAP_BYTES} bytes")
    slot, offset = decoder.address(instruction, address)

    def acquire(r: Registers, mask: int) -> None:
        lanes = indices(mask)
        addresses = r[slot][lanes].astype(np.uint64) + np.uint64(offset & 0xFFFF_FFFF_FFFF_FFFF)
        for item in distinct(addresses).tolist():
            if item % _TENSOR_MAP_BYTES:
                raise MachineFault(
                    "MF002", "misaligned-address",
                    f"address {item:#x} of a tensor map is not a multiple of {_TENSOR_MAP_BYTES}", span,
                    "PTX ISA, fence.proxy.tensormap",
                )  # fmt: skip
            if observe is not None:
                members = to_bits(of_lanes(lanes[addresses == item], mask))
                observe(TensorMapFence(r[0].actor, "acquire", item, scope, span, members))

    return Plain(lambda r: acquire(r, FULL), acquire)


HANDLERS = {
    "membar": _fence,
    "fence": _fence,
    "fence.mbarrier_init": _fence,
    "fence.proxy.async": _fence_proxy,
    "fence.proxy.async::generic": _fence_proxy,
    "fence.proxy.alias": _fence_alias,
    "fence.proxy.tensormap::generic": _fence_tensor_map,
}
