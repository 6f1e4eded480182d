"""Events of strong accesses to a word of global memory."""

from __future__ import annotations

from tests.contract.event_stream import at

from tilewright.machine.core import event as ev

FLAG = ((0x4000, 0x4004),)


FAR = 1 << 40


DATA, WORD = ((FAR, FAR + 64),), ((FAR + 64, FAR + 68),)


def strong(
    w: ev.WarpActor, write: bool, order: str, line: int, *, scope: str = "gpu", space: str = "shared",
    modifies: bool = False, ranges: ev.Ranges | None = None,
) -> ev.Access:  # fmt: skip
    where = ranges or (FLAG if space == "shared" else WORD)
    cta = w.cta if space == "shared" else -1
    return ev.Access(
        w,
        space,
        cta,
        where,
        write,
        "generic",
        at(line),
        True,
        order=order,
        scope=scope,
        modifies=modifies,  # type: ignore[arg-type]
    )


def data(w: ev.WarpActor, write: bool, line: int) -> ev.Access:
    return ev.Access(w, "global", -1, DATA, write, "generic", at(line))
