"""What do the buffers of a launch hold, as far as somebody gave it?

Data that is given counts as known in a check: a branch or an address that depends on it is decided. Bytes that are not
given stay unknown to a check, and are zero in a run. How a launch file gives them: `launch_data`.
Checked by: tests/driver/launch/test_launch_buffers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from tilewright.base.value import dataclass

if TYPE_CHECKING:  # a report that was kept is shown without either
    import numpy as np
    import numpy.typing as npt

    from tilewright.machine.core.memory import VirtualBuffer

    Bytes = npt.NDArray[np.uint8]

CONTENT_BYTES_MOST = 1 << 28
"""Bytes of a buffer whose contents are given."""

Refuse = Callable[[str, str, str], NoReturn]
"""Raises the error of a place in the file: where, what is wrong there, what to write instead."""
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class BufferContents:
    """What a buffer holds when the kernel starts. data: its first bytes; known: the byte ranges of it that somebody
    gave, pointers among them included; shift_bytes: from the buffer's start to its first byte."""

    name: str
    data: Bytes
    known: Ranges
    shift_bytes: int = 0


def shifted(contents: Sequence[BufferContents], shifts: Mapping[str, int]) -> tuple[BufferContents, ...]:
    """The contents of buffers whose first bytes are moved."""
    return tuple(replace(each, shift_bytes=each.shift_bytes + shifts.get(each.name, 0)) for each in contents)


def filled(
    sizes: Mapping[str, int], contents: Sequence[BufferContents]
) -> tuple[dict[str, Bytes | VirtualBuffer], dict[str, Ranges]]:
    """The buffers of a launch, of which those whose contents are given have bytes, and which of these are known.

    sizes: bytes by name."""
    import numpy as np

    from tilewright.machine.core.memory import VirtualBuffer  # of the machine, which who only reads a launch spares

    buffers: dict[str, Bytes | VirtualBuffer] = {name: VirtualBuffer(size) for name, size in sizes.items()}
    known: dict[str, Ranges] = {}
    for each in contents:
        whole = np.zeros(sizes[each.name], np.uint8)
        whole[each.shift_bytes : each.shift_bytes + each.data.size] = each.data
        buffers[each.name] = whole
        known[each.name] = tuple((begin + each.shift_bytes, end + each.shift_bytes) for begin, end in each.known)
    return buffers, known
