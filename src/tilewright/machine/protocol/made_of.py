"""What is a store made of, and what had its warp read and executed before?

What a store's address and data are made of, by registers, and which branches decide about that, is a question about the
text. Who wrote the bytes that a warp reads is one about a run. `value_identity` and `same_loads` ask both.
Not handled: values that pass through memory; a load is where they come from.
Checked by: tests/machine/protocol/test_value_identity.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.machine.core.event import Access, WarpActor
from tilewright.machine.core.state import Cluster
from tilewright.machine.protocol.slicing.slice import Slice, Text, closure

DECISIONS = frozenset({"bra", "brx.idx", "ret", "exit"})


@dataclass(frozen=True, slots=True)
class IdentifiedStore:
    """A store that a warp made. needed: what some launch executes, and another does not, to compute what is stored or
    what decides about that, but for what is the same in all threads; seen: what of it the warp had executed before."""

    span: Span
    actor: WarpActor
    needed: frozenset[int]
    seen: frozenset[int]


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What a store's address and data are made of, and the registers that decide about that."""

    positions: frozenset[int]
    deciding: frozenset[str]


def made_of(sliced: Slice, stores: Collection[int]) -> dict[int, MadeOf]:
    """Of each store."""
    text = sliced.text
    missing = sorted(store for store in stores if store not in text.made_of)
    if missing:
        branches = [at for at, each in enumerate(text.flow.instructions) if each.row in DECISIONS]
        decided = {at: text.flow.region(at) for at in branches}
        text.made_of.update((store, _made_of(text, store, decided)) for store in missing)
    return {
        store: MadeOf(text.made_of[store][0] & sliced.executed, text.made_of[store][1]) for store in sorted(stores)
    }  # fmt: skip


def _made_of(
    text: Text, store: int, decided: Mapping[int, frozenset[int]]
) -> tuple[frozenset[int], frozenset[str]]:  # fmt: skip
    """Positions, and registers that decide. decided: blocks by the branches that decide about them."""
    names, before = text.facts[store].reads, frozenset[str]()
    positions, deciding = frozenset[int](), frozenset[str]()
    while names != before:
        before = names
        _, positions, _ = closure(text, names, ())
        blocks = {text.flow.block_of[at] for at in (*positions, store)}
        deciding = frozenset(
            name for at, each in decided.items() if not blocks.isdisjoint(each) for name in text.facts[at].reads
        )
        names |= deciding
    return positions, deciding


class WrittenBytes:
    """Who wrote the bytes of shared memory last, and how often global memory was written. reads: accesses of the step
    at hand."""

    def __init__(self) -> None:
        self.reads: list[Access] | None = None
        self.global_writes = 0
        self._bytes: dict[int, npt.NDArray[np.uint64]] = {}
        self._writes = 0

    def start(self, cluster: Cluster) -> None:
        """Another cluster starts."""
        self._bytes = {cta.linear: np.zeros(cta.shared.size_bytes, np.uint64) for cta in cluster.ctas}

    def note(self, event: Access) -> None:
        """An access has been made."""
        if not event.write:
            if self.reads is not None:
                self.reads.append(event)
        elif event.space == "global":
            self.global_writes += 1
        elif event.cta in self._bytes:
            for begin, end in event.ranges:
                self._bytes[event.cta][begin:end] = self.fresh() + np.arange(end - begin, dtype=np.uint64)

    def content(self) -> list[bytes]:
        """What the step at hand has read: which bytes of shared memory, by whom they were written, and when."""
        reads = self.reads or []
        moment = [f"after {self.global_writes}".encode()] if any(each.space == "global" for each in reads) else []
        return moment + [
            part
            for access in reads
            if access.space != "global"
            for low, high in access.ranges
            for part in (f"{access.cta} {low}-{high}".encode(), self._bytes[access.cta][low:high].tobytes())
        ]

    def fresh(self) -> np.uint64:
        """What is like nothing else."""
        self._writes += 1
        return name_of(f"write {self._writes}")


@lru_cache(maxsize=1 << 14)
def name_of(text: str) -> np.uint64:
    """A hash of a text."""
    return np.uint64(int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little"))


def hash_of(*parts: bytes) -> np.uint64:
    """Of parts of any length."""
    return np.uint64(int.from_bytes(blake2b(b"|".join(parts), digest_size=8).digest(), "little"))
