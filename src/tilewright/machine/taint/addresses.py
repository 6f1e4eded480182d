"""May an access to global memory whose address is unknown meet another one?

Such an access happens at the address that zeros in place of data lead to, which says nothing of where it really goes.
It is taken to stay in the buffer that it falls into. If another warp or an engine accesses the same buffer, and one of
the two writes, they may meet: then the order of both matters, and nothing here knows it. Atomic operations may meet one
another, and so may the accesses of one warp.

Not handled: accesses that really lie in another buffer than their base. Checked by:
tests/machine/protocol/test_protocol_run.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.base.span import Span
from tilewright.machine.core.event import Access, Actor, WarpActor
from tilewright.machine.core.memory import GlobalMemory


@dataclass(frozen=True, slots=True)
class Astray:
    """An access at an unknown address: its place, who made it, and how."""

    span: Span
    actor: Actor | None
    write: bool
    atomic: bool


@dataclass(slots=True, eq=False)
class BufferUse:
    """Who uses one buffer. readers, writers: plain accesses, None for any engine; atomics: atomic ones."""

    readers: set[WarpActor | None] = field(default_factory=set[WarpActor | None])
    writers: set[WarpActor | None] = field(default_factory=set[WarpActor | None])
    atomics: set[WarpActor | None] = field(default_factory=set[WarpActor | None])
    astray: dict[Astray, frozenset[int]] = field(default_factory=dict[Astray, frozenset[int]])


class UnknownAddresses:
    """Uses of every buffer in a run. `everyone`: whether all clusters of the launch run."""

    def __init__(self, memory: GlobalMemory, *, everyone: bool) -> None:
        self.memory = memory
        self.everyone = everyone
        self.uses: dict[int, BufferUse] = {}

    def note(self, event: Access, origin: frozenset[int]) -> None:
        """Take in a global access; origin: of its address, empty if that is known."""
        if not event.ranges:
            return
        found = self.memory.find(event.ranges[0][0])
        use = self.uses.setdefault(-1 if found is None else found.base, BufferUse())
        actor = event.actor if isinstance(event.actor, WarpActor) else None
        if origin:
            astray = Astray(event.span, actor, event.write, event.atomic)
            use.astray[astray] = use.astray.get(astray, frozenset()) | origin
        group = use.atomics if event.atomic else use.writers if event.write else use.readers
        group.add(actor)

    def meetings(self) -> list[tuple[Span, frozenset[int]]]:
        """Accesses at unknown addresses that may meet another one, with the origin of their addresses."""
        found: list[tuple[Span, frozenset[int]]] = []
        for use in self.uses.values():
            for astray, origin in use.astray.items():
                if self._meets(use, astray):
                    found.append((astray.span, origin))
        return found

    def _meets(self, use: BufferUse, astray: Astray) -> bool:
        others = set(use.writers)
        if not astray.atomic:
            others |= use.atomics
        if astray.write:
            others |= use.readers
        if astray.actor is not None:
            others.discard(astray.actor)
        elsewhere = not self.everyone and astray.write and not astray.atomic
        return bool(others) or elsewhere
