"""How is work bounded in time, wherever it hangs? An alarm ends it with `BudgetSpent`.

Time is this process's on the processor, so that a check comes as far on a machine that others use as on an idle one;
what waits without computing (for another process, say) is not bounded. The alarm is the operating system's interval
timer, which interrupts Python code between two instructions of its own, so that a loop nobody thought of is ended too.
Where it rings inside a callback whose exceptions Python drops (of the garbage collector, or a destructor), it rings
again, and Python does not print what it dropped. It works in the main thread of a Unix process; elsewhere nothing is
bounded but by the limits that the work itself has, and `bounded` says so by its result.
Checked by: tests/driver/check/limits/test_budget.py.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

_AGAIN_SECONDS = 0.5
"""Until the alarm rings again, where its exception was dropped."""


class BudgetSpent(Exception):
    """The processor time that was given is over. Raised inside `bounded`, to be caught around it. open: what was not
    decided by then, in words, as far as whom the alarm interrupted has written it down."""

    open: tuple[str, ...] = ()


@contextmanager
def bounded(seconds: float | None) -> Generator[bool, None, None]:
    """Raise BudgetSpent inside the block once it has computed for `seconds` (None: never). Gives whether the block has
    an alarm of its own; else a BudgetSpent that comes out of it is not for who set `seconds`, and must be let through.

    An alarm that was set before keeps ringing when it should: inside the block where it comes first, else after it.
    """
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if seconds is None or not usable:
        yield False
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise BudgetSpent

    print_dropped = sys.unraisablehook

    def print_others(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, BudgetSpent):
            print_dropped(dropped)

    around, interval = signal.getitimer(signal.ITIMER_PROF)
    if 0 < around <= seconds:
        yield False  # the alarm of the block around this one rings first
        return
    before = signal.signal(signal.SIGPROF, ring)
    sys.unraisablehook = print_others
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-3), _AGAIN_SECONDS)
    try:
        yield True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        sys.unraisablehook = print_dropped
        if around:
            signal.setitimer(signal.ITIMER_PROF, max(around - (time.process_time() - begin), 1e-3), interval)
