"""Runs the kernels of the probe of banks on a GPU, and tells the cycles of each row."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from bench.probes.bank_kernels import LAPS, SHARED_BYTES, THREADS, UNROLLED, WARPS, module_text
from tilewright.runtime import device as gpu

OFF = 1 << 31
"""Set in the address of a lane that takes no part."""

_REPEATS = 3
Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]


class Timer:
    """The GPU with the kernels of the probe."""

    def __init__(self) -> None:
        self.cuda = gpu.driver()
        device = gpu.open_device(0)
        gpu.check(self.cuda.cuCtxSetCurrent(self.cuda.CUcontext(device.context)), "making the context current")
        self.module = gpu.check(self.cuda.cuModuleLoadData(module_text().encode() + b"\0"), "compiling the kernels")

    def cycles(self, name: str, addresses: Integers, active: NDArray[np.bool_] | None = None) -> Numbers:
        """Cycles of one access of each row, the least of several launches."""
        words = addresses if active is None else np.where(active, addresses, addresses | OFF)
        given = np.ascontiguousarray(words.astype(np.uint32))
        least = np.full(len(given), np.inf)
        for _ in range(_REPEATS):
            least = np.minimum(least, self.launch(name, given, LAPS) / (WARPS * UNROLLED * LAPS))
        return least

    def launch(self, name: str, words: NDArray[np.uint32], laps: int) -> NDArray[np.uint32]:
        """Cycles of each CTA, one for each row of words, in a single launch. `words` are contiguous."""
        function = gpu.check(self.cuda.cuModuleGetFunction(self.module, name.encode()), name)
        attribute = self.cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        gpu.check(self.cuda.cuFuncSetAttribute(function, attribute, SHARED_BYTES), "asking for shared memory")
        found = np.zeros(len(words), np.uint32)
        pointers = [gpu.allocate(words.nbytes, "addresses"), gpu.allocate(found.nbytes, "cycles")]
        gpu.copy_to_device(pointers[0], words.ctypes.data, words.nbytes)
        values = [*(ctypes.c_uint64(pointer) for pointer in pointers), ctypes.c_uint32(0), ctypes.c_uint32(laps)]
        array = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        launched = self.cuda.cuLaunchKernel(
            function, len(words), 1, 1, THREADS, 1, 1, SHARED_BYTES, 0, ctypes.addressof(array), 0
        )
        gpu.check(launched, f"launching {name}")
        gpu.check(self.cuda.cuCtxSynchronize(), f"running {name}")
        gpu.copy_from_device(found.ctypes.data, pointers[1], found.nbytes)
        for pointer in pointers:
            gpu.free(pointer)
        return found
