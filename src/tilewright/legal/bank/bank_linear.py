"""How many wavefronts do all accesses through a layout take, without visiting each of them?

Theory. A group of lanes that is served together takes as many wavefronts as its busiest bank has distinct words
(`legal.bank.banks`), and that count does not change when all the group's addresses move by the same amount, as long as
the move keeps or permutes the banks:

    linear    addresses are XORs of the contributions of lane bits and loop counters. A loop only XORs a constant, which
              permutes banks and keeps apart what was apart. With U the matrix of the group's word addresses and B its
              rows of bank bits, the group reads 2^rank(U) words from 2^rank(B) banks, as many from each:
              2^(rank(U) - rank(B)) wavefronts, for every group and every iteration.
    affine    addresses are sums. A loop adds a constant, which rotates the banks: one warp answers for all iterations.
    swizzled  a swizzle after sums that carry commutes with adding multiples of its period alone. So iterations are
              counted by the residue of their base modulo the period, loop by loop (each turns the counts by a window
              sum, in time that depends on the period and not on the loop), and one warp is judged for each residue.

A layout here takes the number of an access to its address: the first 32 elements (64 on gfx942 and gfx950; 8 for each
matrix) are the lanes of the first access, and so on. Where its extents do not part into lanes and loops, for instance
lanes that run over rows of 257 elements, the layout is enumerated, up to 2^22 elements; the last access may then have
lanes that take no part.

Not handled: symbolic sizes; the periods of several swizzles beyond 2^20 bytes. Checked by
tests/legal/bank/test_bank_linear.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.layout.layout import Layout
from tilewright.layout.numbers import bit_matrix
from tilewright.layout.swizzle import Swizzle
from tilewright.legal.bank.access_kind import AccessKind, access_kind, lane_groups, lanes_together, pair_distances
from tilewright.legal.bank.banks import wavefronts
from tilewright.targets import Target
from tilewright.targets import target as target_by_name

_MOST_ELEMENTS = 1 << 22
_LONGEST_PERIOD = 1 << 20
_EXACT = 1 << 61
"""Below it, sums of two are exact in 64 bits."""

Steps = tuple[tuple[int, int], ...]
"""(count, bytes from one to the next) of each digit of a lane number or of each loop, the fastest first."""


@dataclass(frozen=True, slots=True)
class AffineAccess:
    """Accesses at `swizzles(start + lane + loops)`. lanes: counts are powers of two whose product is the lanes that
    give addresses; swizzles: all applied to the sum, none to what another made of it. All in bytes."""

    kind: str
    lanes: Steps
    loops: Steps = ()
    start_bytes: int = 0
    swizzles: tuple[Swizzle, ...] = ()

    @property
    def iterations(self) -> int:
        return prod(count for count, _ in self.loops)


def lane_count(kind: int | str, target: Target) -> int:
    """Lanes whose addresses count in one access. Raises TilewrightError for kinds that the target lacks."""
    groups = lane_groups(access_kind(kind), target)
    return len(groups) * len(groups[0])


def layout_wavefronts(kind: int | str, layout: Layout, target: Target | str, element_bytes: int = 1) -> int:
    """Wavefronts of all accesses that the layout's elements make, in elements of `element_bytes`.

    Raises TilewrightError for symbolic layouts, negative or misaligned addresses, a swizzle of elements whose bytes are
    no power of two, kinds that the target lacks, and layouts that must be enumerated and are too large for it.
    """
    facts = _facts(target)
    name = access_kind(kind).name
    access = affine_access(name, layout, facts, element_bytes)
    if access is not None:
        return affine_wavefronts(access, facts)
    if layout.least < 0:
        raise TilewrightError(f"the layout {layout} has negative offsets")
    size, lanes = prod(count for count, _ in layout.constant_flat()), lane_count(kind, facts)
    if size > _MOST_ELEMENTS:
        raise TilewrightError(
            f"undecided: {size} elements are too many to enumerate, and the layout {layout} does not part into lanes",
            remedy=f"give leading extents whose product is {lanes}",
        )
    addresses = np.zeros((-(-size // lanes), facts.limit("warp.threads")), np.int64)
    active = np.zeros(addresses.shape, np.bool_)
    _fill(addresses, lanes, layout.offsets() * element_bytes)
    _fill(active, lanes, np.ones(size, np.bool_))
    return int(wavefronts(name, addresses, facts, active).sum())


def _fill(table: NDArray[np.generic], lanes: int, values: NDArray[np.generic]) -> None:
    whole = len(values) // lanes
    table[:whole, :lanes] = values[: whole * lanes].reshape(whole, lanes)
    if whole < len(table):
        table[whole, : len(values) - whole * lanes] = values[whole * lanes :]


def affine_access(kind: str, layout: Layout, target: Target, element_bytes: int = 1) -> AffineAccess | None:
    """The layout's elements as lanes and loops; None where its extents do not part so. Raises TilewrightError."""
    left = lane_count(kind, target)
    lanes: list[tuple[int, int]] = []
    loops: list[tuple[int, int]] = []
    for count, stride in layout.constant_flat():
        step = stride * element_bytes
        taken = gcd(count, left) if left > 1 else 1
        if taken not in (count, left):
            return None
        if taken > 1:
            lanes.append((taken, step))
        if count > taken:
            loops.append((count // taken, step * taken))
        left //= taken
    if left > 1:
        return None
    swizzles: tuple[Swizzle, ...] = ()
    if layout.swizzle is not None and not layout.swizzle.is_identity:
        if element_bytes & (element_bytes - 1):
            raise TilewrightError(f"a swizzle of elements of {element_bytes} bytes does not act on bits of addresses")
        swizzles = (layout.swizzle.scaled(element_bytes.bit_length() - 1),)
    start = layout.offset
    if not isinstance(start, int):
        raise TilewrightError(f"the offset {start} is symbolic", remedy="give it a value")
    return AffineAccess(kind, tuple(lanes), tuple(loops), start * element_bytes, swizzles)


def affine_wavefronts(access: AffineAccess, target: Target | str) -> int:
    """Wavefronts of all the access's iterations.

    Raises TilewrightError for lanes that are no warp, negative or misaligned addresses, and kinds the target lacks.
    """
    facts, kind = _facts(target), access_kind(access.kind)
    _check(access, kind, facts)
    bits = _lane_bits(access)
    if access.swizzles and _disjoint(access, bits):
        images = [swizzled(bit, access.swizzles) for bit in bits]
        moved = [swizzled(step, access.swizzles) for count, step in access.loops if count > 1]
        _check_alignment(kind, [*images, *moved, swizzled(access.start_bytes, access.swizzles)])
        return access.iterations * group_wavefronts(kind, images, facts)
    # Without a swizzle, a multiple of a bank's bytes rotates the banks, and any base of that residue does.
    period = max([facts.limit("multiprocessor.shared_bank_bytes"), *(1 << each.top for each in access.swizzles)])
    return _by_residue(access, kind, bits, max(period, kind.lane_bytes), facts)


def group_wavefronts(kind: AccessKind, lane_images: Sequence[int], target: Target) -> int:
    """Wavefronts of one access whose lane n is at the XOR of the images, in bytes, of n's bits: by rank alone."""
    basis = group_basis(lanes_together(kind, target))
    groups = len(lane_groups(kind, target))
    if any(lane_images[distance.bit_length() - 1] == 0 for distance in pair_distances(kind, target)):
        basis, groups = [*basis, 1 << len(basis)], groups // 2
    served_bytes = max(kind.lane_bytes, target.limit("multiprocessor.shared_bank_bytes"))
    row_bytes = target.limit("multiprocessor.shared_banks") * target.limit("multiprocessor.shared_bank_bytes")
    words = [bit_matrix.apply(lane_images, lane) // served_bytes for lane in basis]
    banks = [word & (row_bytes // served_bytes - 1) for word in words]
    return groups << (bit_matrix.rank(words) - bit_matrix.rank(banks))


def swizzled(address: int, swizzles: Sequence[Swizzle]) -> int:
    """The address after all swizzles, each of which reads the address as it was."""
    found = address
    for swizzle in swizzles:
        found ^= address ^ swizzle(address)
    return found


def group_basis(lanes: tuple[int, ...]) -> list[int]:
    """Lane numbers whose XORs are exactly `lanes`. Raises TilewrightError where they are no linear group."""
    basis: list[int] = []
    reached = {0}
    for lane in lanes:
        if lane not in reached:
            basis.append(lane)
            reached |= {lane ^ other for other in reached}
    if reached != set(lanes):
        raise TilewrightError(f"the lanes {lanes} are no linear group", remedy="fix the target's facts")
    return basis


def _facts(target: Target | str) -> Target:
    return target_by_name(target) if isinstance(target, str) else target


def _lane_bits(access: AffineAccess) -> list[int]:
    """What each bit of the lane number adds to the address."""
    return [step << bit for count, step in access.lanes for bit in range(count.bit_length() - 1)]


def _check(access: AffineAccess, kind: AccessKind, target: Target) -> None:
    wanted = lane_count(access.kind, target)
    if any(count < 1 or count & (count - 1) for count, _ in access.lanes) or any(n < 1 for n, _ in access.loops):
        raise TilewrightError("the digits of lane numbers are powers of two, and loops have iterations")
    if prod(count for count, _ in access.lanes) != wanted:
        raise TilewrightError(
            f"{prod(count for count, _ in access.lanes)} lanes; {kind.name} takes addresses from {wanted}"
        )
    steps = [(count, step) for count, step in (*access.lanes, *access.loops) if count > 1]
    least = access.start_bytes + sum(min(0, (count - 1) * step) for count, step in steps)
    if least < 0:
        raise TilewrightError(f"an access begins at address {least}")
    _check_alignment(kind, [access.start_bytes, *(step for _, step in steps)])


def _check_alignment(kind: AccessKind, addresses: Sequence[int]) -> None:
    for address in addresses:
        if address % kind.lane_bytes:
            raise TilewrightError(
                f"{kind.name}: an address is {address} bytes from a multiple of {kind.lane_bytes}",
                remedy="a swizzle must keep what a lane moves together" if address >= kind.lane_bytes else "",
            )


def _disjoint(access: AffineAccess, lane_bits: list[int]) -> bool:
    """Whether no sum ever carries, so that adding is XORing."""
    masks = [access.start_bytes, *lane_bits]
    for count, step in access.loops:
        if count > 1:
            masks.extend(step << bit for bit in range((count - 1).bit_length()))
    seen = 0
    for mask in masks:
        if mask < 0 or mask & seen:
            return False
        seen |= mask
    return True


def _by_residue(access: AffineAccess, kind: AccessKind, lane_bits: list[int], period: int, target: Target) -> int:
    if period > _LONGEST_PERIOD:
        raise TilewrightError(f"undecided: the swizzle repeats after {period} bytes, and the addresses carry")
    counted = residues(access.start_bytes, access.loops, period, kind.lane_bytes)
    below = -sum(min(0, (count - 1) * step) for count, step in access.lanes)
    above = sum(max(0, (count - 1) * step) for count, step in access.lanes)
    if max(below, above) >= _EXACT:
        raise TilewrightError(
            f"the lanes of an access lie {max(below, above)} bytes apart",
            remedy="shared memory has less than 2^20 bytes: give the layout of what lies there",
        )
    starts = [start + -(-below // period) * period for start, _ in counted]
    found = _judged(kind, starts, lane_bits, access.swizzles, target).tolist()
    return sum(each * times for each, (_, times) in zip(found, counted, strict=True))


def residues(start: int, loops: Sequence[tuple[int, int]], period: int, unit: int) -> list[tuple[int, int]]:
    """Residues modulo `period` of start plus loop counters times steps, and how many iterations meet each.

    unit: divides the period, the start and all steps of loops that run more than once.
    """
    iterations = prod(max(1, count) for count, _ in loops)
    # Counts that no 64-bit integer holds are kept as Python's.
    counts = np.zeros(max(1, period // unit), np.int64 if iterations < _EXACT else object)
    counts[start // unit % len(counts)] = 1
    for count, step in loops:
        if count > 1:
            counts = _turned(counts, count, step // unit % len(counts))
    met = np.flatnonzero(counts)
    return list(zip((met * unit).tolist(), counts[met].tolist(), strict=True))


def _turned(counts: NDArray[Any], times: int, step: int) -> NDArray[Any]:
    """How often each residue occurs after adding 0, 1, ..., times - 1 steps to everything counted."""
    size = len(counts)
    orbit = size // gcd(step, size)
    places = (np.arange(size // orbit)[:, None] + np.arange(orbit)[None, :] * step) % size
    along = counts[places]
    whole, rest = divmod(times, orbit)
    found = np.repeat(along.sum(axis=1, keepdims=True) * whole, orbit, axis=1)
    if rest:
        sums = np.cumsum(np.concatenate([np.zeros((len(along), 1), counts.dtype), along, along], axis=1), axis=1)
        ends = np.arange(orbit) + orbit + 1
        found += sums[:, ends] - sums[:, ends - rest]
    turned = np.empty_like(counts)
    turned[places] = found
    return turned


def _judged(
    kind: AccessKind, starts: Sequence[int] | NDArray[np.int64], lane_bits: Sequence[int],
    swizzles: Sequence[Swizzle], target: Target,
) -> NDArray[np.int64]:  # fmt: skip
    """Wavefronts of one access from each start."""
    lanes = np.zeros(1, np.int64)
    for bit in lane_bits:
        lanes = np.concatenate([lanes, lanes + bit])
    sums = np.asarray(starts, np.int64)[:, None] + lanes
    placed = sums.copy()
    for swizzle in swizzles:
        placed ^= (sums >> swizzle.source & (1 << swizzle.bits) - 1) << swizzle.target
    addresses = np.zeros((len(sums), target.limit("warp.threads")), np.int64)
    addresses[:, : len(lanes)] = placed
    return wavefronts(kind.name, addresses, target)
