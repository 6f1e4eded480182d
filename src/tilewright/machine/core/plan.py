"""How is a whole compiled program run? Workspace is allocated, then every launch runs in order.

Workspace begins as 0xCC bytes, so that reading what nobody wrote shows. Checked by: tests/machine/core/test_plan.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from tilewright.base.error import TilewrightError
from tilewright.base.plan import LaunchPlan
from tilewright.frontends.ptx.ast import Module
from tilewright.machine.core.memory import POISON
from tilewright.machine.core.run import RunReport, run_launch


def run_plan(
    modules: Mapping[str, Module],
    plan: LaunchPlan,
    arrays: Mapping[str, npt.NDArray[np.uint8]],
    *,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> RunReport:
    """Run every launch of `plan` in order; `modules` by kernel entry.

    arrays: the bytes of each input and output buffer, by name, changed in place. progress: gets fractions from 0 to 1.
    Raises what `run_launch` raises, and TilewrightError for a missing array, module or a wrong size.
    """
    buffers: dict[str, npt.NDArray[np.uint8]] = {}
    for buffer in plan.buffers:
        if buffer.role == "workspace":
            buffers[buffer.name] = np.full(buffer.span_bytes, 0 if buffer.zeroed else POISON, np.uint8)
            continue
        given = arrays.get(buffer.name)
        if given is None:
            raise TilewrightError(f"no array was given for buffer {buffer.name}")
        if given.size < buffer.span_bytes:
            raise TilewrightError(
                f"the array for buffer {buffer.name} has {given.size} bytes, it needs {buffer.span_bytes}"
            )
        buffers[buffer.name] = given
    total = RunReport(0, 0, 0, 0)
    launches = len(plan.launches)
    for index, launch in enumerate(plan.launches):
        module = modules.get(launch.entry)
        if module is None:
            raise TilewrightError(f"no module was given for kernel {launch.entry}")

        def advance(fraction: float, index: int = index) -> None:
            if progress is not None:
                progress((index + fraction) / launches)

        report = run_launch(module, launch, buffers, seed=seed + index, progress=advance)
        total = RunReport(
            total.instructions + report.instructions,
            total.copies + report.copies,
            total.wgmmas + report.wgmmas,
            total.phases + report.phases,
        )
    return total
