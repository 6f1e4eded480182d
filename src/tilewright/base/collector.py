"""When does Python look for garbage that refers to itself? Not while a run makes millions of short-lived objects.

The collector of cycles looks at all that was made since it looked last, whenever enough was; a run of a kernel makes
events, vectors and records that refer to nothing in a circle, among a compiler's many operations that live on. Pausing
it saves a tenth of the time. Counting references goes on freeing what is no longer used.
Checked by: tests/base/test_collector.py.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Generator
from contextlib import contextmanager

_RARELY = 100


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """No garbage is looked for inside the block; after it, whether any is is as it was."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def collector_rare() -> Generator[None, None, None]:
    """Garbage is looked for a hundred times less often inside the block, and not when Python ends: of a program that is
    done before long, nearly all that it loads and makes lives on."""
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    first, *others = gc.get_threshold()
    gc.set_threshold(_RARELY * first, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


def collect_young() -> None:
    """Free what refers to itself and was made since the collector was paused, or since this was called last."""
    gc.collect(0)
