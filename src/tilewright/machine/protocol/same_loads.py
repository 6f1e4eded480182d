"""Have warps that store to the same bytes loaded the same before?

Where launches have shown that each step from what is loaded to what is stored makes the same of the same
(`value_identity`), a further launch need not follow values. Its warps store the same if they have executed the same
loads of what the store is made of, in the same order, and found the same: the same bytes of shared memory, written by
the same writes, or as many writes to global memory before. So a store's identity is a hash of the loads of its warp.

Not handled: warps that load the same in another order, or by other lanes; those need their values followed.
Checked by: tests/coverage_attacks/test_compared_stores.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.machine.core.event import Access, WarpActor
from tilewright.machine.core.state import Cluster, Warp
from tilewright.machine.core.step import Signal, Step
from tilewright.machine.protocol.made_of import IdentifiedStore, WrittenBytes, hash_of, made_of
from tilewright.machine.protocol.slicing.slice import Slice

_LOADS = ("load", "atomic")


class SameLoads:
    """The loads of one run. contested: stores that need an identity."""

    def __init__(self, sliced: Slice, contested: frozenset[int]) -> None:
        text = sliced.text
        self.contested = contested
        self._stores_of: dict[int, list[int]] = {}
        for store, made in made_of(sliced, contested).items():
            for at in made.positions:
                if text.facts[at].kind in _LOADS:
                    self._stores_of.setdefault(at, []).append(store)
        self._written = WrittenBytes()
        self._paths: dict[tuple[int, int], int] = {}
        self._stored = 0

    @property
    def stores(self) -> tuple[IdentifiedStore, ...]:
        """Nothing is said of the steps between."""
        return ()

    def start(self, cluster: Cluster) -> None:
        """Another cluster starts."""
        self._paths.clear()
        self._written.start(cluster)

    def note(self, event: Access) -> Access:
        """An access has been made; a store that needs an identity gets it."""
        self._written.note(event)
        if event.write and self._stored and isinstance(event.actor, WarpActor):
            return replace(event, identity=self._stored)
        return event

    def wrapped(self, position: int, step: Step) -> Step:
        """The step, which keeps account of what is loaded."""
        if position not in self._stores_of and position not in self.contested:
            return step
        return step.within(lambda warp, mask, call: self._run(position, warp, mask, call))

    def _run(
        self, position: int, warp: Warp, mask: int, call: Callable[[], int | Signal | None]
    ) -> int | Signal | None:
        if position in self.contested:
            path = self._paths.get((id(warp), position), 0)
            self._stored = int(hash_of(f"{position} {mask} {path}".encode())) | 1
        self._written.reads = []
        try:
            result = call()
            content = b"|".join(self._written.content())
            for store in self._stores_of.get(position, ()):
                before = self._paths.get((id(warp), store), 0)
                self._paths[id(warp), store] = int(hash_of(f"{position} {mask} {before}".encode(), content))
        finally:
            self._stored, self._written.reads = 0, None
        return result
