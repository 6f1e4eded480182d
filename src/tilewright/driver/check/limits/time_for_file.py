"""How much time may each kernel of a file take?

Two limits, in seconds of processor time, both optional: one for each kernel (`--budget`) and one for the whole file
(`--file-budget`). A kernel gets the smaller of its own limit and of what the file has left. Once nothing is left, the
kernels that remain are reported as not reached, and none is lost. Either limit only ends a check: the verdict is then
unknown, and the reason names the limit.

Not handled: fair shares. A slow kernel may take all the time of a file, unless `--budget` is set.
Checked by: tests/driver/check/limits/test_time_for_file.py.
"""

from __future__ import annotations

import time
from dataclasses import field

from tilewright.base.value import dataclass


@dataclass(frozen=True, slots=True)
class TimeForFile:
    """kernel_seconds: for each kernel; file_seconds: for all of them; begin: when the file's time began."""

    kernel_seconds: float | None
    file_seconds: float | None
    begin: float = field(default_factory=lambda: time.process_time())

    def left(self) -> float | None:
        """Seconds until the file's time is over, 0 at least; None without such a limit."""
        if self.file_seconds is None:
            return None
        return max(0.0, self.file_seconds - (time.process_time() - self.begin))

    def over(self) -> bool:
        """Is the file's time over?"""
        return self.left() == 0

    @property
    def file_stopped(self) -> str:
        """Why a kernel was stopped that had what the file had left."""
        return f"stopped: the {self.file_seconds or 0:g} s for the file are over; raise --file-budget"

    def for_kernel(self) -> tuple[float | None, str]:
        """Seconds that the next kernel may take, None for no limit, and the reason to give where it is stopped."""
        left = self.left()
        if left is not None and (self.kernel_seconds is None or left < self.kernel_seconds):
            return left, self.file_stopped
        return self.kernel_seconds, f"stopped after {self.kernel_seconds or 0:g} s; raise --budget"

    def not_reached(self, done: int, count: int) -> str:
        """Why a kernel was not looked at. done: kernels of the file that were; count: all of them."""
        return (
            f"not reached: the {self.file_seconds:g} s for the file were over after {done} of {count} kernels; "
            "raise --file-budget, or check it alone with --entry"
        )
