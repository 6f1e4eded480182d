"""Which kinds of warp-wide access of shared memory are modelled, and what are they called?

A kind is an operation and the bytes that each lane moves; which lanes are served together is a fact of the target
(group `shared_access`). Ten kinds also have numbers, those of the measured rows (`NUMBERED_KINDS`). Names are PTX's
(`ld.shared.v4.b32`, `ldmatrix.x4.trans`) or the CDNA instruction set's (`ds_read_b128`), with or without the modifiers
that do not matter here (`.sync`, `.aligned`, `.m8n8`, `.volatile`, a state space's `::cta`).

Not handled: atomics and reductions, `ds_read2` and `ds_read_b96`, accesses of distributed shared memory.
Checked by tests/legal/bank/test_banks.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Literal

from tilewright.base.error import TilewrightError
from tilewright.targets import Target

Operation = Literal["load", "store", "load_matrices", "store_matrices"]

NUMBERED_KINDS = (
    "ld.shared.b32",
    "ld.shared.b64",
    "ld.shared.b128",
    "st.shared.b32",
    "st.shared.b64",
    "st.shared.b128",
    "ldmatrix.x4",
    "ldmatrix.x1",
    "stmatrix.x4",
    "ldmatrix.x4.trans",
)
"""Names of the kinds 0 to 9."""

_OTHER_NAMES = (
    "ld.shared.b8", "ld.shared.b16", "st.shared.b8", "st.shared.b16", "ldmatrix.x2", "stmatrix.x1", "stmatrix.x2",
    "ds_read_b32", "ds_read_b64", "ds_read_b128", "ds_write_b32", "ds_write_b64", "ds_write_b128",
)  # fmt: skip
_SCALAR = re.compile(r"(ld|st)\.shared(?:\.v([24]))?\.[busf](8|16|32|64|128)")
_DATA_SHARE = re.compile(r"ds_(read|write|load|store)_[bu](8|16|32|64|128)")
_MATRICES = re.compile(r"(ld|st)matrix\.x([124])(?:\.trans)?")
_IMMATERIAL = re.compile(r"\.(?:sync|aligned|m8n8|volatile|relaxed|weak|cta|gpu|sys)(?=\.)|::cta")
_MATRIX_TAIL = re.compile(r"(?:\.shared)?(?:\.b16)?$")
_WIDEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class AccessKind:
    """One kind. lane_bytes: what one address stands for; matrices: how many 8x8 matrices, 0 for loads and stores."""

    name: str
    operation: Operation
    lane_bytes: int
    matrices: int = 0

    @property
    def loads(self) -> bool:
        """Whether it reads shared memory."""
        return self.operation in ("load", "load_matrices")


@lru_cache(maxsize=256)
def access_kind(kind: int | str) -> AccessKind:
    """The kind of that number (0 to 9) or name. Raises TilewrightError, naming the nearest, where there is none."""
    if isinstance(kind, int):
        if not 0 <= kind < len(NUMBERED_KINDS):
            raise TilewrightError(f"no kind of access has number {kind}; they are 0 to {len(NUMBERED_KINDS) - 1}")
        kind = NUMBERED_KINDS[kind]
    plain = _IMMATERIAL.sub("", kind.strip())
    if found := _SCALAR.fullmatch(plain):
        lane_bytes = int(found[2] or 1) * int(found[3]) // 8
        if lane_bytes <= _WIDEST_BYTES:
            return AccessKind(kind, "load" if found[1] == "ld" else "store", lane_bytes)
    if found := _DATA_SHARE.fullmatch(plain):
        return AccessKind(kind, "load" if found[1] in ("read", "load") else "store", int(found[2]) // 8)
    if found := _MATRICES.fullmatch(_MATRIX_TAIL.sub("", plain)):
        operation = "load_matrices" if found[1] == "ld" else "store_matrices"
        return AccessKind(kind, operation, _WIDEST_BYTES, int(found[2]))
    near = get_close_matches(kind, (*NUMBERED_KINDS, *_OTHER_NAMES), n=1, cutoff=0.4)
    raise TilewrightError(
        f"no model of accesses of kind {kind!r}",
        remedy=f"did you mean {near[0]!r}?" if near else f"such as {', '.join(NUMBERED_KINDS)}",
    )


@lru_cache(maxsize=256)
def lanes_together(kind: AccessKind, target: Target) -> tuple[int, ...]:
    """The lanes that are served with lane 0, in order; every other group is this one XORed with a number.

    A lane of fewer bytes than a bank is served as one of a bank's. For matrices the lanes are those that give rows.
    Raises TilewrightError where the target has no such access, or no document states its groups.
    """
    if kind.matrices:
        if "matrix_access.rows" not in target.facts:
            raise TilewrightError(f"{target.name} has no {kind.name}", remedy="ask for ds_read or ds_write accesses")
        return tuple(range(target.limit("matrix_access.rows")))
    served_bytes = max(kind.lane_bytes, target.limit("multiprocessor.shared_bank_bytes"))
    key = f"shared_access.{kind.operation}_{served_bytes}_lanes"
    if key not in target.facts:
        raise TilewrightError(
            f"{target.name}: it is not known which lanes of {kind.name} are served together",
            remedy="no public document states them; ask for another access, or leave this one out",
        )
    return target.limits(key)


@lru_cache(maxsize=256)
def lane_groups(kind: AccessKind, target: Target) -> tuple[tuple[int, ...], ...]:
    """All groups of lanes that are served together, each once. Raises TilewrightError as `lanes_together` does."""
    first = lanes_together(kind, target)
    lanes = kind.matrices * len(first) or target.limit("warp.threads")
    groups: list[tuple[int, ...]] = []
    seen: set[int] = set()
    for lane in range(lanes):
        if lane not in seen:
            groups.append(tuple(lane ^ other for other in first))
            seen.update(groups[-1])
    return tuple(groups)


def pair_distances(kind: AccessKind, target: Target) -> tuple[int, ...]:
    """Lane distances at which equal addresses of all active lanes of the warp let twice as many be served together."""
    wide = kind.lane_bytes > target.limit("multiprocessor.shared_bank_bytes")
    if kind.operation != "load" or not wide or not target.supports("paired_loads"):
        return ()
    return target.limits("shared_access.paired_lanes")
