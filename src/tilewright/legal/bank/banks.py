"""How many wavefronts does one warp-wide access of shared memory take?

Theory: banks of 4 bytes (32 of them, 64 on gfx950); a wavefront serves each bank once, and lanes that ask for the same
word share it. So a group of lanes that is served together takes as many wavefronts as the busiest bank has distinct
words asked of it, and an access takes those of all its groups. Which lanes are served together is a fact of the target
(`access_kind.lane_groups`): on NVIDIA's 32 consecutive ones for 4 bytes a lane, 16 for 8 and 8 for 16, and the eight
rows of one matrix for `ldmatrix` and `stmatrix`; AMD's groups are not all consecutive. One exception, measured: a load
of 8 or 16 bytes serves twice as many lanes together where all through the warp lanes n and n ^ 1 ask for the same
address, or all through it lanes n and n ^ 2.

Lanes that take no part ask for nothing: they add no words, and agree with any partner in that exception, so that lanes
0, 2, 4, ... alone are served like pairs. A group without active lanes takes no wavefront, but it takes time: measured,
no access is through in fewer cycles than it has groups (half as many where pairs agree), since data of all lanes moves
between registers and pipe. `access_cycles` is the larger of the two, and differs from `wavefronts` only where groups
are idle.

Since addresses are aligned to what a lane moves, the words of one lane fall into banks of their own, and counting units
of `lane_bytes` in groups of banks counts the same as counting words in banks.

sm_90a was measured; sm_100a is taken to follow the same rules, which nobody has measured; gfx942 and gfx950 are from
public documents, in which a wavefront is called a pass or a cycle.

Not handled: atomics, and the asynchronous engines, which do not conflict this way. Checked by
tests/legal/bank/test_banks.py and test_bank_masks.py against wavefronts measured on an H200, and by
bench/probes/banks.py on fresh ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.base.error import TilewrightError
from tilewright.legal.bank.access_kind import AccessKind, access_kind, lane_groups, pair_distances
from tilewright.targets import Target
from tilewright.targets import target as target_by_name

Integers = NDArray[np.int64]
_ROWS_AT_ONCE = 1 << 15
_HIGHEST = 1 << 31


def wavefronts(
    kind: int | str | Sequence[int | str] | NDArray[np.integer],
    addresses: ArrayLike,
    target: Target | str,
    active: ArrayLike | None = None,
) -> Integers:
    """Wavefronts of each of n accesses; shape (n,).

    kind: number or name (`access_kind`), one for all or n of them. addresses: shape (n, 32) in bytes, lane 0 first, 64
    lanes wide on gfx942 and gfx950; the rows of matrices come from the first 8, 16 or 32 lanes, and other addresses are
    ignored. active: same shape, false for lanes that take no part. Raises TilewrightError for other shapes, a
    misaligned or negative address of an active lane, and kinds that the target lacks.
    """
    return _counted(kind, addresses, target, active, False)


def access_cycles(
    kind: int | str | Sequence[int | str] | NDArray[np.integer],
    addresses: ArrayLike,
    target: Target | str,
    active: ArrayLike | None = None,
) -> Integers:
    """Cycles for which each of n accesses occupies the shared memory's pipe: its wavefronts, or more where groups of
    lanes are idle and the target counts them; 0 where no lane is active. Arguments and errors as for `wavefronts`.
    """
    return _counted(kind, addresses, target, active, True)


def _counted(
    kind: int | str | Sequence[int | str] | NDArray[np.integer],
    addresses: ArrayLike,
    target: Target | str,
    active: ArrayLike | None,
    idle: bool,
) -> Integers:
    """Wavefronts, and where `idle` also the cycles of idle groups."""
    facts = target_by_name(target) if isinstance(target, str) else target
    lanes = facts.limit("warp.threads")
    given = np.asarray(addresses)
    if given.ndim != 2 or given.shape[1] != lanes:
        raise TilewrightError(f"addresses of shape {given.shape}, not (n, {lanes}), for warps of {lanes} lanes")
    if not np.issubdtype(given.dtype, np.integer):
        raise TilewrightError(f"addresses of type {given.dtype}, not integers")
    taking_part = None if active is None else np.asarray(active, dtype=np.bool_)
    if taking_part is not None and taking_part.shape != given.shape:
        raise TilewrightError(f"active lanes of shape {taking_part.shape} for addresses of shape {given.shape}")
    if isinstance(kind, int | str | np.integer):
        chosen = access_kind(kind if isinstance(kind, str) else int(kind))
        return _of_kind(chosen, given, taking_part, facts, idle)
    kinds = [each if isinstance(each, str) else int(each) for each in kind]
    if len(kinds) != len(given):
        raise TilewrightError(f"{len(kinds)} kinds for {len(given)} accesses")
    found = np.zeros(len(given), np.int64)
    numbers = {each: number for number, each in enumerate(dict.fromkeys(kinds))}
    numbered = np.array([numbers[each] for each in kinds], np.int64)
    for each, number in numbers.items():
        rows = np.flatnonzero(numbered == number)
        part = None if taking_part is None else taking_part[rows]
        found[rows] = _of_kind(access_kind(each), given[rows], part, facts, idle)
    return found


def ideal_wavefronts(kind: int | str, target: Target | str) -> int:
    """Wavefronts of an access of the whole warp whose lanes ask for distinct words and conflict nowhere."""
    facts = target_by_name(target) if isinstance(target, str) else target
    return len(lane_groups(access_kind(kind), facts))


def _of_kind(
    kind: AccessKind, addresses: NDArray[np.integer], active: NDArray[np.bool_] | None, target: Target, idle: bool
) -> Integers:
    groups = lane_groups(kind, target)
    lanes = len(groups) * len(groups[0])
    return np.concatenate(
        [np.zeros(0, np.int64)]
        + [
            _of_rows(
                kind,
                addresses[begin : begin + _ROWS_AT_ONCE, :lanes],
                None if active is None else active[begin : begin + _ROWS_AT_ONCE, :lanes],
                target,
                idle,
            )
            for begin in range(0, len(addresses), _ROWS_AT_ONCE)
        ]
    )


def _of_rows(
    kind: AccessKind, addresses: NDArray[np.integer], active: NDArray[np.bool_] | None, target: Target, idle: bool
) -> Integers:
    """Of few enough accesses of one kind that the temporaries stay small."""
    units = _units(kind, addresses, active, target)
    groups = np.array(lane_groups(kind, target))
    served_bytes = max(kind.lane_bytes, target.limit("multiprocessor.shared_bank_bytes"))
    row_bytes = target.limit("multiprocessor.shared_banks") * target.limit("multiprocessor.shared_bank_bytes")
    places = row_bytes // served_bytes
    paired = _paired(units, pair_distances(kind, target), active is not None)
    if not paired.any():
        found = _busiest(units[:, groups], places)
    else:
        found = np.empty(len(units), np.int64)
        found[~paired] = _busiest(units[~paired][:, groups], places)
        found[paired] = _busiest(units[paired][:, groups.reshape(len(groups) // 2, -1)], places)
    if idle and active is not None and target.supports("idle_lanes_take_cycles"):
        least = np.where(paired, len(groups) // 2, len(groups))
        found = np.where(active.any(axis=1), np.maximum(found, least), 0)
    return found


def _paired(units: NDArray[np.integer], distances: Sequence[int], masked: bool) -> NDArray[np.bool_]:
    """Which accesses have equal units in all lanes n and n ^ distance that are both active, at one of the distances."""
    found = np.zeros(len(units), np.bool_)
    for distance in distances:
        # Lanes n and n ^ distance are the halves of every aligned block of 2 * distance lanes.
        blocks = units.reshape(len(units), -1, 2, distance)
        one, other = blocks[:, :, 0], blocks[:, :, 1]
        agree = one == other
        if masked:
            agree |= (one < 0) | (other < 0)
        found |= agree.all(axis=(1, 2))
    return found


def _units(
    kind: AccessKind, addresses: NDArray[np.integer], active: NDArray[np.bool_] | None, target: Target
) -> NDArray[np.integer]:
    """What each lane asks for, numbered by its place in memory; -1 for lanes that ask for nothing."""
    if active is not None:
        addresses = np.where(active, addresses, 0)
    wrong = (addresses < 0) | (addresses & (kind.lane_bytes - 1) != 0)
    if wrong.any():
        address = int(addresses[wrong][0])
        raise TilewrightError(f"shared address {address} is not a multiple of {kind.lane_bytes}")
    highest = int(addresses.max()) if len(addresses) else 0
    if highest >= _HIGHEST:
        raise TilewrightError(f"shared address {highest} is beyond any shared memory")
    addresses = addresses.astype(np.int32)
    served_bytes = max(kind.lane_bytes, target.limit("multiprocessor.shared_bank_bytes"))
    units = addresses >> (served_bytes.bit_length() - 1)
    return units if active is None else np.where(active, units, -1)


def _busiest(units: NDArray[np.integer], places: int) -> Integers:
    """Of units by access, group and lane: the distinct units of each group's busiest place, summed over the groups."""
    accesses, groups, _ = units.shape
    ordered = np.sort(units, axis=2)
    first = np.ones(ordered.shape, np.bool_)
    np.not_equal(ordered[:, :, 1:], ordered[:, :, :-1], out=first[:, :, 1:])
    first &= ordered >= 0
    bins = (ordered & (places - 1)) + (np.arange(accesses * groups, dtype=np.int64) * places).reshape(
        accesses, groups, 1
    )
    asked = np.bincount(bins[first], minlength=accesses * groups * places)
    return asked.reshape(accesses, groups, places).max(axis=2).sum(axis=1, dtype=np.int64)
