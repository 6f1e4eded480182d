"""What energy does one implementation take for a product, when it runs alone for a while?

At the power cap a GPU lowers its clock until it keeps the cap, so there energy is time. In an interleaved race all
contenders have one clock, which they lower together; who saves energy does not gain by it there. Here each runs alone,
first until the clock has followed it, then between two ticks of the GPU's energy counter.
Source: NVML API reference, nvmlDeviceGetTotalEnergyConsumption (millijoules since the driver was loaded).
Not handled: several GPUs; MIG.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
SETTLING_MILLISECONDS = 200.0
MEASURED_MILLISECONDS = 400.0
"""At the least; then on to the counter's next tick."""
_MOST_TICK_MILLISECONDS = 1000.0
"""A counter that does not move for so long, under load, does not count."""


@dataclass(frozen=True, slots=True)
class Alone:
    """One implementation by itself: of one call the energy and the time, and the mean power."""

    millijoules: float
    microseconds: float
    watts: float


@dataclass(frozen=True, slots=True)
class EnergyCounter:
    """The counter of one GPU."""

    library: Any
    handle: Any

    def millijoules(self) -> int:
        """Since the driver was loaded. Raises OSError where the GPU does not count."""
        value = ctypes.c_ulonglong()
        status = self.library.nvmlDeviceGetTotalEnergyConsumption(self.handle, ctypes.byref(value))
        if status:
            raise OSError(f"NVML counts no energy here (status {status})")
        return value.value


def open_counter(ordinal: int = 0) -> EnergyCounter:
    """Raises OSError where NVML is not there or does not answer."""
    library = ctypes.CDLL(_LIBRARY)
    handle = ctypes.c_void_p()
    if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByIndex_v2(ordinal, ctypes.byref(handle)):
        raise OSError("NVML does not answer")
    return EnergyCounter(library, handle)


def run_alone(
    replay: Callable[[], float],
    calls: int,
    millijoules: Callable[[], int],
    seconds: Callable[[], float] = time.perf_counter,
) -> Alone:
    """Repeat replays of `calls` calls each. replay: runs one to its end, and says how many milliseconds that took;
    millijoules: reads the counter; seconds: reads a clock.

    Raises OSError where the counter stands still.
    """
    spent = 0.0
    while spent < SETTLING_MILLISECONDS:
        spent += replay()
    before, _ = _tick(replay, millijoules)
    begin, replays, spent = seconds(), 0, 0.0
    while spent < MEASURED_MILLISECONDS:
        spent += replay()
        replays += 1
    after, more = _tick(replay, millijoules)
    took = seconds() - begin
    products = (replays + more) * calls
    return Alone((after - before) / products, 1e6 * took / products, (after - before) / 1000 / took)


def _tick(replay: Callable[[], float], millijoules: Callable[[], int]) -> tuple[int, int]:
    """What the counter says when it has just moved, and the replays until then."""
    before, replays, spent = millijoules(), 0, 0.0
    while (now := millijoules()) == before:
        if spent > _MOST_TICK_MILLISECONDS:
            raise OSError("the GPU's energy counter stands still")
        spent += replay()
        replays += 1
    return now, replays
