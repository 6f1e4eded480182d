"""How many cycles do a kernel's CTAs count? Loading PTX, launching it with some buffers, reading the counts.

A kernel takes pointers (to inputs, then to the counts, 32 bits for each CTA) and the number of its laps. The least of
several launches is told, of each the median over the CTAs: what disturbs a launch only makes it longer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.runtime import device as gpu

REPEATS = 5


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """text: PTX of the entry `name`, header and all; shared_bytes: of each CTA, dynamic; counts: 32-bit words that each
    CTA writes, its cycles first, a plane of CTAs each."""

    name: str
    text: str
    threads: int
    ctas: int
    shared_bytes: int
    counts: int = 1


def counted(kernel: TimedKernel, pointers: Sequence[int], laps: int) -> list[float]:
    """The kernel's counts (medians over its CTAs) in the launch of fewest cycles, in the current context.

    Raises TilewrightError where the driver refuses the kernel or its launch.
    """
    cuda = gpu.driver()
    module = gpu.check(cuda.cuModuleLoadData(kernel.text.encode() + b"\0"), kernel.name)
    function = gpu.check(cuda.cuModuleGetFunction(module, kernel.name.encode()), kernel.name)
    attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    gpu.check(cuda.cuFuncSetAttribute(function, attribute, kernel.shared_bytes), "asking for shared memory")
    found = np.zeros((kernel.counts, kernel.ctas), np.uint32)
    counts = gpu.allocate(found.nbytes, "counts")
    best: list[float] = []
    for _ in range(REPEATS):
        values = [*(ctypes.c_uint64(pointer) for pointer in (*pointers, counts)), ctypes.c_uint32(laps)]
        array = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        launched = cuda.cuLaunchKernel(
            function, kernel.ctas, 1, 1, kernel.threads, 1, 1, kernel.shared_bytes, 0, ctypes.addressof(array), 0
        )
        gpu.check(launched, f"launching {kernel.name}")
        gpu.check(cuda.cuCtxSynchronize(), f"running {kernel.name}")
        gpu.copy_from_device(found.ctypes.data, counts, found.nbytes)
        middle = [float(np.median(plane)) for plane in found]
        best = min(best or middle, middle)
    gpu.free(counts)
    return best
