"""Edits of a text that a launch gives sizes to, and of what it computes for them."""

import re
from collections.abc import Callable
from dataclasses import replace

from tilewright.base.plan import RunTimeSizes
from tilewright.base.size import Size
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import LoweredProgram

Edit = Callable[[str], str]


def emitted(lowered: LoweredProgram, target: str = "sm_90a") -> str:
    return lower_to_ptx([each.module for each in lowered.kernels], target)


def once(pattern: str, instead: str, count: int = 1) -> Edit:
    return lambda text: re.sub(pattern, instead, text, count=count)


def without(pattern: str, which: int = 0) -> Edit:
    """Without a line that has the pattern."""

    def edit(text: str) -> str:
        lines = text.split("\n")
        at = [number for number, line in enumerate(lines) if re.search(pattern, line)][which]
        return "\n".join(lines[:at] + lines[at + 1 :])

    return edit


def changed_size(at: int, change: Callable[[Size], Size]) -> Callable[[RunTimeSizes], RunTimeSizes]:
    """Another number in the place of the one that a launch passes as its at-th."""

    def edit(sizes: RunTimeSizes) -> RunTimeSizes:
        (launch,) = sizes.launches
        scalars = [number for number, each in enumerate(launch.params) if len(each) == 1]
        params = list(launch.params)
        params[scalars[at]] = (change(params[scalars[at]][0]),)
        return replace(sizes, launches=(replace(launch, params=tuple(params)),))

    return edit
