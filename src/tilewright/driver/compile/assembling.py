"""The assembler at work on a text while the text is proved: two processes, of which neither needs the other's answer.

ptxas takes as long as the proof or longer where tiles are streamed, and none of this process's time. A text whose
registers spill is proved for nothing then, which is rare: tiles are chosen so that none should.
Checked by: tests/driver/compile/test_assembling.py.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from tilewright.runtime.assemble import Assembly, assemble


@contextmanager
def assembling(ptx: str, target: str, name: str, *, wanted: bool = True) -> Generator[Future[Assembly] | None]:
    """What `runtime.assemble` will answer, or raise when it is asked for; None where it is not wanted. Left only when
    the assembler has ended."""
    if not wanted:
        yield None
        return
    with ThreadPoolExecutor(1, "ptxas") as pool:
        yield pool.submit(assemble, ptx, target, name=name)


def is_known_to_spill(pending: Future[Assembly] | None) -> bool:
    """Waits for the assembler, where there is one; False where it found nothing of the kind, or failed."""
    return pending is not None and pending.exception() is None and pending.result().spill_bytes > 0
