"""Is there a GPU here that a program for some target runs on? What "auto" means, wherever it is offered."""

from __future__ import annotations

from functools import cache

from tilewright.base.error import TilewrightError
from tilewright.runtime.device import open_device, probe_libcuda, runs_on


@cache
def gpu_runs(target: str) -> bool:
    """Whether GPU 0 exists, can be used and runs machine code for `target`.

    A driver without a GPU, or a GPU of another architecture, is an answer and no error: the CPU machine is then the
    place. Raises TilewrightError for what is no target at all.
    """
    runs_on(target, (0, 0))
    if probe_libcuda() is not None:
        return False
    try:
        device = open_device(0)
    except TilewrightError:
        return False
    return runs_on(target, device.compute_capability)
