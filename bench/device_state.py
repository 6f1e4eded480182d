"""What state was the GPU in while something was timed? Clock, power and temperature, read every few milliseconds.

A thread asks NVML (`libnvidia-ml`, which comes with the driver) through ctypes; nothing on the GPU is changed. Where
NVML is not to be had, the summary says so instead of a number. Source: NVML API reference, device queries.
Not handled: several GPUs; MIG.
"""

from __future__ import annotations

import ctypes
import statistics
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

_LIBRARIES = ("libnvidia-ml.so.1", "libnvidia-ml.so", "/usr/local/nvidia/lib64/libnvidia-ml.so.1")
_SM_CLOCK = 1
_CORE_TEMPERATURE = 0
_SLOWED_BY = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of NVML's clocks-event reasons that mean a clock below what was asked for."""


@dataclass(frozen=True, slots=True)
class State:
    """One reading: megahertz, watts, degrees Celsius, and NVML's bits of why the clock is not higher."""

    sm_megahertz: int
    watts: float
    celsius: int
    reasons: int


@dataclass
class Sampler:
    """Samples while it is entered: `with sampler: ...`, then `sampler.summary()`. Enter it again for the next."""

    ordinal: int = 0
    period_seconds: float = 0.005
    _library: Any = None
    _handle: Any = None
    _why_not: str = ""
    _samples: list[State] = field(default_factory=list[State])
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        for name in _LIBRARIES:
            try:
                library = ctypes.CDLL(name)
                break
            except OSError as error:
                self._why_not = str(error)
        else:
            return
        handle = ctypes.c_void_p()
        if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByIndex_v2(self.ordinal, ctypes.byref(handle)):
            self._why_not = "NVML does not answer"
            return
        self._library, self._handle, self._why_not = library, handle, ""

    def __enter__(self) -> Sampler:
        self._samples = []
        if self._library is not None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def _sample(self) -> None:
        while not self._stop.wait(self.period_seconds):
            self._samples.append(self.read())

    def read(self) -> State:
        """The state now."""
        clock, power, temperature = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
        reasons = ctypes.c_ulonglong()
        library, handle = self._library, self._handle
        library.nvmlDeviceGetClockInfo(handle, _SM_CLOCK, ctypes.byref(clock))
        library.nvmlDeviceGetPowerUsage(handle, ctypes.byref(power))
        library.nvmlDeviceGetTemperature(handle, _CORE_TEMPERATURE, ctypes.byref(temperature))
        library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons))
        return State(clock.value, power.value / 1000, temperature.value, reasons.value)

    def summary(self) -> dict[str, object]:
        """Of the last time it was entered: how many samples; lowest, median and highest of each; what slowed it."""
        if not self._samples:
            return {"samples": 0, "why": self._why_not or "too short for a sample"}
        bits = 0
        for sample in self._samples:
            bits |= sample.reasons
        return {
            "samples": len(self._samples),
            "sm_megahertz": _spread([sample.sm_megahertz for sample in self._samples]),
            "watts": _spread([sample.watts for sample in self._samples]),
            "celsius": _spread([sample.celsius for sample in self._samples]),
            "slowed_by": [words for bit, words in _SLOWED_BY.items() if bits & bit],
        }


def _spread(values: list[int] | list[float]) -> list[float]:
    """Lowest, median, highest."""
    return [min(values), statistics.median(values), max(values)]
