"""What did the copy engine do? Runs tensor copies on GPU 0 and brings back what each of them left.

Cases of one kernel and one source go into one launch, a CTA each. A copy that the hardware refuses kills the context,
and with it this process's hold on the GPU: whoever asks about risky copies does so in a process of its own.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.probes.tma_cases import ARENA_BYTES, WINDOW_BYTES, Case
from bench.probes.tma_contents import BUFFER_BYTES, arena_before, content, hashed
from bench.probes.tma_kernels import ARGUMENT_WORDS, EXPECTED, PLACE, RESULT_WORDS, THREADS, module_text
from tilewright.base.error import TilewrightError
from tilewright.machine.copy.copy_engine import transaction_bytes
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.runtime import device as gpu
from tilewright.runtime.tensormap import encode
from tilewright.targets import target

HOPPER = target("sm_90a")

Bytes = NDArray[np.uint8]
_GUESS_BYTES = 16


@dataclass(frozen=True, eq=False, slots=True)
class Observation:
    """What one copy left. image: the window of a load, the arena of a store; words: what a load found of its
    mbarrier, as `tma_kernels` says; expected_bytes: what it was told to expect."""

    index: int
    case: Case
    image: Bytes
    words: tuple[int, ...]
    expected_bytes: int


class Prober:
    """The GPU with the kernels and buffers of the probe."""

    def __init__(self, special: Bytes) -> None:
        self.cuda = gpu.driver()
        self.special = special
        device = gpu.open_device(0)
        gpu.check(self.cuda.cuCtxSetCurrent(self.cuda.CUcontext(device.context)), "making the context current")
        text = module_text().encode() + b"\0"
        self.module = gpu.check(self.cuda.cuModuleLoadData(text), "compiling the kernels")
        self.buffers: dict[str, int] = {}

    def buffer(self, source: str) -> int:
        """The address of the buffer that loads read."""
        if source not in self.buffers:
            data = hashed(BUFFER_BYTES) if source == "hash" else np.resize(self.special, BUFFER_BYTES)
            self.buffers[source] = self.upload(data, f"the {source} buffer")
        return self.buffers[source]

    def upload(self, data: NDArray[np.generic], purpose: str) -> int:
        pointer = gpu.allocate(data.nbytes, purpose)
        gpu.copy_to_device(pointer, data.ctypes.data, data.nbytes)
        return pointer

    def run(self, cases: list[tuple[int, Case]]) -> tuple[list[Observation], list[tuple[int, str]]]:
        """Observations, and the cases whose map the driver refuses, by index."""
        groups: dict[tuple[str, str, str], list[tuple[int, Case]]] = defaultdict(list)
        for index, case in cases:
            groups[case.kernel, case.source, case.map.element.value].append((index, case))
        found: list[Observation] = []
        refused: list[tuple[int, str]] = []
        for (kernel, source, _), members in groups.items():
            for begin in range(0, len(members), 512):
                self._launch(kernel, source, members[begin : begin + 512], found, refused)
        return found, refused

    def _launch(
        self, kernel: str, source: str, members: list[tuple[int, Case]], found: list[Observation],
        refused: list[tuple[int, str]],
    ) -> None:  # fmt: skip
        load = kernel.startswith("load")
        arena = 0
        if not load:
            before = np.concatenate([arena_before(case, self.special) for _, case in members])
            arena = self.upload(before, "arenas")
        maps: list[bytes] = []
        accepted: list[tuple[int, Case, int]] = []
        for position, (index, case) in enumerate(members):
            base = self.buffer(source) if load else arena + position * ARENA_BYTES
            try:
                maps.append(encode(case.map, base, "the probe"))
            except TilewrightError as error:
                refused.append((index, error.message))
                continue
            accepted.append((index, case, position))
        if accepted:
            expected = [_expected_bytes(case) for _, case, _ in accepted]
            self._execute(kernel, maps, accepted, expected, arena, len(members), found)
        if arena:
            gpu.free(arena)

    def _execute(
        self, kernel: str, maps: list[bytes], accepted: list[tuple[int, Case, int]], expected: list[int], arena: int,
        arenas: int, found: list[Observation],
    ) -> None:  # fmt: skip
        count, load = len(accepted), not arena
        arguments = np.zeros((count, ARGUMENT_WORDS), np.int64)
        for row, (_, case, _) in enumerate(accepted):
            arguments[row, : len(case.coordinates)] = case.coordinates
            arguments[row, 5 : 5 + len(case.offsets)] = case.offsets
            arguments[row, PLACE], arguments[row, EXPECTED] = case.place, expected[row]
        words = np.zeros((count, RESULT_WORDS), np.uint64)
        images = np.zeros((count, WINDOW_BYTES), np.uint8)
        pointers = [
            self.upload(np.frombuffer(b"".join(maps), np.uint8), "maps"),
            self.upload(arguments.astype(np.uint32), "arguments"),
            self.upload(images if load else content(accepted[0][1], WINDOW_BYTES, 1, self.special), "images"),
            self.upload(words, "results"),
        ]
        values = [*(ctypes.c_uint64(pointer) for pointer in pointers), ctypes.c_uint32(WINDOW_BYTES)]
        array = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        function = gpu.check(self.cuda.cuModuleGetFunction(self.module, kernel.encode()), kernel)
        shared = WINDOW_BYTES + 2048
        launched = self.cuda.cuLaunchKernel(function, count, 1, 1, THREADS, 1, 1, shared, 0, ctypes.addressof(array), 0)
        gpu.check(launched, f"launching {kernel}")
        gpu.check(self.cuda.cuCtxSynchronize(), f"running {kernel}")
        if load:
            gpu.copy_from_device(images.ctypes.data, pointers[2], images.nbytes)
            gpu.copy_from_device(words.ctypes.data, pointers[3], words.nbytes)
        else:
            images = np.empty((arenas, ARENA_BYTES), np.uint8)
            gpu.copy_from_device(images.ctypes.data, arena, images.nbytes)
        for pointer in pointers:
            gpu.free(pointer)
        for row, (index, case, position) in enumerate(accepted):
            image = images[row if load else position]
            found.append(Observation(index, case, image, tuple(words[row].tolist()), expected[row]))


def _expected_bytes(case: Case) -> int:
    if not case.kernel.startswith("load"):
        return 0
    try:
        return transaction_bytes(case.map, HOPPER)
    except EngineFault:
        return _GUESS_BYTES
