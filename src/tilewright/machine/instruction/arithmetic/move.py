"""Moves: register to register, packing and unpacking, addresses of variables, address conversion, selection.

`cvta` of `.const` and `.global` is the identity here: those windows are already generic. Source: PTX
ISA, `mov`, `cvta`, `mapa`, `getctarank`, `isspacep`, `selp`, `createpolicy`.
Checked by: tests/machine/instruction/test_instructions.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Instruction, Register, Vector
from tilewright.machine.core.decoder import (
    PREDICATE,
    WORD32,
    Decoder,
    Modifiers,
    TypeName,
    expect_operands,
    unsupported,
)
from tilewright.machine.core.lanes import UNINITIALISED, WARP_SIZE, Lanes, Registers, merge
from tilewright.machine.core.memory import (
    CONST_WINDOW,
    FUNCTION_WINDOW,
    LOCAL_WINDOW,
    OFFSET_MASK,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
)
from tilewright.machine.core.special import CLOCKS
from tilewright.machine.core.step import Plain, compute, compute_many

_SPACES = (
    "shared", "shared::cta", "shared::cluster", "global", "const", "param", "param::entry", "param::func", "local",
)  # fmt: skip


def _mov(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    target, value = expect_operands(instruction, 2)
    if isinstance(value, Vector):
        return _pack(decoder, instruction, declared, target, value)
    if isinstance(target, Vector):
        return _unpack(decoder, instruction, declared, target, value)
    if isinstance(value, Register) and value.name in CLOCKS:
        return _clock(decoder, instruction, declared, target, value.name)
    to = decoder.destination(instruction, target, declared)
    at = decoder.source(instruction, value, declared)
    decoder.remember(instruction, (declared, declared), _move)
    return _move(to, (at,))


def _move(to: int, sources: tuple[int, ...]) -> Plain:
    (at,) = sources

    def full(r: Registers) -> None:
        r[to] = r[at]

    def masked(r: Registers, mask: int) -> None:
        # A move of an undefined register is no use of it: compilers emit such moves for undefined phi values.
        if r[at] is not UNINITIALISED:
            r[to] = merge(r[to], r[at], mask)

    return Plain(full, masked)


def _clock(decoder: Decoder, instruction: Instruction, declared: TypeName, target: Any, name: str) -> Plain:
    if CLOCKS[name].width_bits != declared.width_bits:
        raise unsupported(instruction, f"{name} is .{CLOCKS[name].name}")
    to = decoder.destination(instruction, target, declared)
    dtype = declared.raw

    def full(r: Registers) -> None:
        warp = r[0]
        ticks = warp.cta.cluster.counts.instructions + warp.steps
        r[to] = np.full(WARP_SIZE, 0 if name.endswith("_hi") else ticks & 0xFFFF_FFFF, dtype)

    def masked(r: Registers, mask: int) -> None:
        old = r[to]
        full(r)
        r[to] = merge(old, r[to], mask)

    return Plain(full, masked)


def _part_type(instruction: Instruction, declared: TypeName, items: int) -> TypeName:
    """The type of one of `items` equal parts."""
    width, rest = divmod(declared.width_bits, items)
    if rest or width not in (8, 16, 32, 64):
        raise unsupported(instruction, f"{items} parts of {declared.width_bits} bits")
    return TypeName(f"b{width}", width)


def _pack(decoder: Decoder, instruction: Instruction, declared: TypeName, target: Any, value: Vector) -> Plain:
    part = _part_type(instruction, declared, len(value.items))
    sources = tuple(decoder.source(instruction, item, part) for item in value.items)
    to = decoder.destination(instruction, target, declared)
    dtype, count = part.raw, len(sources)

    def pack(*parts: Lanes) -> Lanes:
        together = np.empty((len(parts[0]), count), dtype)
        for index, item in enumerate(parts):
            together[:, index] = item
        return together.view(declared.raw)[:, 0]

    return compute(pack, to, sources)


def _unpack(decoder: Decoder, instruction: Instruction, declared: TypeName, target: Vector, value: Any) -> Plain:
    part = _part_type(instruction, declared, len(target.items))
    source = decoder.source(instruction, value, declared)
    targets = tuple(decoder.destination(instruction, item, part) for item in target.items)
    dtype, count = part.raw, len(targets)

    def unpack(whole: Lanes) -> tuple[Lanes, ...]:
        columns = np.ascontiguousarray(np.ascontiguousarray(whole).view(dtype).reshape(len(whole), count).T)
        return tuple(columns)

    return compute_many(unpack, targets, (source,))


def _cvta(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    to_space = modifiers.flag("to")
    space = modifiers.take(*_SPACES)
    declared = modifiers.take_type()
    target, value = expect_operands(instruction, 2)
    if declared.width_bits != 64 or space is None:
        raise unsupported(instruction, "only 64-bit addresses are converted")
    source = decoder.source(instruction, value, declared)
    to = decoder.destination(instruction, target, declared)
    if space == "param" and not to_space:
        # `mov.b32 %r, parameter` keeps the offset in the parameter block; the window's own low bits are zero. The
        # parameters of calls stand in local memory, whose addresses are generic already.
        parameters, low = np.uint64(PARAM_WINDOW), np.uint64(0xFFFF_FFFF)

        def generic(address: Lanes) -> Lanes:
            return np.where(address > low, address, address | parameters)

        return compute(generic, to, (source,))
    if not space.startswith("shared"):
        return compute(lambda a: a + np.uint64(0), to, (source,))
    window = np.uint64(SHARED_WINDOW)
    if to_space:
        return compute(lambda a: a - window, to, (source,))
    return compute(lambda a: a + window, to, (source,))


def _isspacep(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    space = modifiers.take(*_SPACES)
    target, value = expect_operands(instruction, 2)
    if space is None:
        raise unsupported(instruction, "it names no state space")
    source = decoder.source(instruction, value, TypeName("b64", 64))
    to = decoder.destination(instruction, target, PREDICATE)
    low, high = {
        "shared": (SHARED_WINDOW, 1 << 48),
        "shared::cta": (SHARED_WINDOW, 1 << 48),
        "shared::cluster": (SHARED_WINDOW, 1 << 48),
        "param": (PARAM_WINDOW, SHARED_WINDOW),
        "param::entry": (PARAM_WINDOW, SHARED_WINDOW),
        "local": (LOCAL_WINDOW, PARAM_WINDOW),
        "const": (CONST_WINDOW, LOCAL_WINDOW),
    }.get(str(space), (0, FUNCTION_WINDOW))
    if space in ("shared", "shared::cta"):

        def own(r: Registers) -> Lanes:
            base = SHARED_WINDOW + r[0].rank_base
            return (r[source] >= np.uint64(base)) & (r[source] < np.uint64(base + OFFSET_MASK + 1))

        def full(r: Registers) -> None:
            r[to] = own(r)

        def masked(r: Registers, mask: int) -> None:
            r[to] = merge(r[to], own(r), mask)

        return Plain(full, masked)
    return compute(lambda a: (a >= np.uint64(low)) & (a < np.uint64(high)), to, (source,))


def _mapa(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    shared = modifiers.take("shared::cluster")
    declared = modifiers.take_type()
    target, value, rank = expect_operands(instruction, 3)
    to = decoder.destination(instruction, target, declared)
    source = decoder.source(instruction, value, declared)
    rank_slot = decoder.source(instruction, rank, WORD32)
    kept = np.array([OFFSET_MASK if shared is not None else OFFSET_MASK | SHARED_WINDOW], declared.raw)[0]
    dtype = declared.raw

    def map_address(address: Lanes, ranks: Lanes) -> Lanes:
        return (address & kept) | (ranks.astype(dtype) << dtype.type(RANK_SHIFT))

    return compute(map_address, to, (source, rank_slot))


def _getctarank(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    modifiers.take("shared::cluster")
    declared = modifiers.take_type()
    target, value = expect_operands(instruction, 2)
    to = decoder.destination(instruction, target, WORD32)
    source = decoder.source(instruction, value, declared)
    shift = declared.raw.type(RANK_SHIFT)
    return compute(lambda a: (a >> shift).astype(np.uint32) & np.uint32(0xFF), to, (source,))


def select(first: Lanes, second: Lanes, condition: Lanes) -> Lanes:
    """Lane by lane `condition ? first : second`; every operand must have been written."""
    if first is UNINITIALISED or second is UNINITIALISED or condition is UNINITIALISED:
        raise TypeError("uninitialised register")
    return np.where(condition, first, second)


def _selp(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    target, first, second, condition = expect_operands(instruction, 4)
    to = decoder.destination(instruction, target, declared)
    sources = (
        decoder.source(instruction, first, declared),
        decoder.source(instruction, second, declared),
        decoder.source(instruction, condition, PREDICATE),
    )
    decoder.remember(instruction, (declared, declared, declared, PREDICATE), partial(compute, select))
    return compute(select, to, sources)


def _createpolicy(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """A cache policy is opaque: zero here, and nothing depends on it."""
    modifiers.left.clear()
    to = decoder.destination(instruction, instruction.operands[0], TypeName("b64", 64))
    zero = decoder.constant(0, TypeName("b64", 64))
    return compute(lambda a: a, to, (zero,))


HANDLERS = {
    "createpolicy": _createpolicy,
    "mov": _mov,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "mapa": _mapa,
    "getctarank": _getctarank,
    "selp": _selp,
}
