"""Which part does a warp play in a kernel? Read off what it issues, so that findings name roles instead of numbers.

A warp that issues wgmma is a consumer (of the warpgroup it belongs to), one that issues tcgen05.mma the mma warp, one
that issues bulk loads and multiplies nothing a producer, one that reads tensor memory an epilogue warp, one that issues
bulk stores alone a store warp. A warp that does several of these by itself has no role. Checked by:
tests/contract/judge/test_roles.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from tilewright.base.diagnostic import Diagnostic
from tilewright.machine.core.event import WarpActor

Task = Literal["load", "store", "wgmma", "mma", "tensor load"]
_WARPGROUP_WARPS = 4
_WARP = re.compile(r"\bCTA (\d+) warp (\d+)\b")


class Roles:
    """What each warp of a launch was seen to issue."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: dict[WarpActor, set[Task]] = {}

    def note(self, actor: WarpActor, task: Task) -> None:
        """A warp issues an operation of a sort."""
        tasks = self._tasks.get(actor)
        if tasks is None:
            tasks = self._tasks[actor] = set()
        tasks.add(task)

    @property
    def tasks(self) -> Mapping[WarpActor, set[Task]]:
        return self._tasks

    def role(self, actor: WarpActor) -> str:
        """The role of a warp in words, empty if it has none."""
        tasks = self._tasks.get(actor, set[Task]())
        if "load" in tasks and tasks & {"wgmma", "mma"}:
            return ""
        if "wgmma" in tasks:
            return f"consumer warpgroup {actor.warp // _WARPGROUP_WARPS}"
        if "mma" in tasks:
            return "mma" if "tensor load" not in tasks else ""
        if "load" in tasks:
            return "producer" if "tensor load" not in tasks else ""
        if "tensor load" in tasks:
            return "epilogue"
        return "store" if "store" in tasks else ""

    def named(self, finding: Diagnostic) -> Diagnostic:
        """A finding whose words name roles."""
        return replace(
            finding,
            message=self.text(finding.message),
            interleaving=tuple(self.text(step) for step in finding.interleaving),
        )

    def text(self, words: str) -> str:
        """Words that name warps by number, with their roles added."""
        return _WARP.sub(self._word, words)

    def _word(self, match: re.Match[str]) -> str:
        cta, warp = int(match[1]), int(match[2])
        role = self.role(WarpActor(cta, warp))
        return f"CTA {cta} {role} warp {warp}" if role else match[0]
