"""Where does local memory hold unknown data? A number for each byte of every thread's frame, in one protocol run.

Registers are tracked by warp, local memory by byte and thread, so that a phase that a thread keeps beside unknown data
stays known. The numbers are those of `Tracker.identity`; a byte starts as never written. Frames hold `.local` variables
and the parameters of calls. A store that a tainted guard, branch or address may move elsewhere is not seen here: the
tracker keeps one flag a warp for those.

Source: PTX ISA 5.1.5 (local state space). Not handled: the elements of a vector load apart; its registers share their
origins. Checked by: tests/machine/taint/test_taint_local.py.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilewright.base.value import dataclass
from tilewright.machine.core.distinct import distinct
from tilewright.machine.core.lanes import Lanes
from tilewright.machine.core.state import Cta


@dataclass(frozen=True, slots=True, eq=False)
class LocalAccess:
    """Bytes of local memory that lanes of one warp read or wrote: of a CTA, by offset from its first frame."""

    cta: int
    offsets: npt.NDArray[np.int64]
    write: bool


class LocalShadow:
    """The numbers of all bytes of the local memory of a cluster's CTAs. fresh: that of a byte which nobody wrote."""

    def __init__(self, fresh: int) -> None:
        self._fresh = fresh
        self._numbers: dict[int, npt.NDArray[np.int32]] = {}

    def clear(self) -> None:
        """Another cluster starts: nobody has written anything."""
        self._numbers.clear()

    def access(self, cta: Cta, offsets: Lanes, size_bytes: int, write: bool) -> LocalAccess:
        """An access by lanes to `size_bytes` bytes each."""
        if cta.linear not in self._numbers:
            size = cta.local.size_bytes if cta.local is not None else 0
            self._numbers[cta.linear] = np.full(size, self._fresh, np.int32)
        return LocalAccess(cta.linear, (offsets[:, None] + np.arange(size_bytes)).ravel(), write)

    def mark(self, access: LocalAccess, number: int) -> None:
        """Give the bytes of an access a number."""
        self._numbers[access.cta][access.offsets] = number

    def numbers(self, access: LocalAccess) -> list[int]:
        """The numbers that the bytes of an access have, each once."""
        found: list[int] = distinct(self._numbers[access.cta][access.offsets]).tolist()
        return found
