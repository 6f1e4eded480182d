"""A stand-in for `cuda.bindings.driver`: the binding's real structs and enums, functions that record and succeed.

It lets tests read back exactly what a launch would have handed the driver. Device memory is host memory, so that what
is copied in can be computed on, by `kernel`, and copied out.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from cuda.bindings import driver as real

from tilewright.runtime import device as gpu
from tilewright.runtime.device import Device

SUCCESS = real.CUresult.CUDA_SUCCESS
CONTEXT = 0xC0
H200 = Device(0, "NVIDIA H200", (9, 0), 132, 232448, 60 << 20, CONTEXT)


@dataclass
class Launched:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] | None
    shared_bytes: int
    stream: int
    function: int
    parameters: list[bytes]
    programmatic: bool = False


@dataclass
class RecordingDriver:
    """functions: the modules' entries and their parameters' sizes in bytes; fail: the status that a call is to give."""

    functions: dict[str, list[int]]
    static_shared_bytes: int = 0
    max_threads: int = 1024
    resident_ctas: int = 1
    resident_clusters: int = 8
    fail: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    launches: list[Launched] = field(default_factory=list)
    live: dict[int, Any] = field(default_factory=dict)
    stack: list[int] = field(default_factory=list)
    kernel: Callable[[Launched], None] | None = None
    capture_mode: Any = real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu") or name.startswith("cuuint"):
            return getattr(real, name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, arguments))
            if name in self.fail:
                only_status = name in ("cuLaunchKernelEx", "cuStreamSynchronize", "cuMemsetD8Async")
                return (self.fail[name],) if only_status else (self.fail[name], 0)
            return (SUCCESS, *getattr(self, f"do_{name}", lambda *_: ())(*arguments))

        return call

    def count(self, name: str) -> int:
        return sum(called == name for called, _ in self.calls)

    def do_cuCtxGetCurrent(self) -> Sequence[Any]:
        return (real.CUcontext(self.stack[-1] if self.stack else 0),)

    def do_cuCtxPushCurrent(self, context: Any) -> Sequence[Any]:
        self.stack.append(int(context))
        return ()

    def do_cuCtxPopCurrent(self) -> Sequence[Any]:
        return (real.CUcontext(self.stack.pop()),)

    def do_cuModuleLoadData(self, image: bytes) -> Sequence[Any]:
        return (real.CUmodule(0x10),)

    def do_cuModuleGetFunction(self, module: Any, name: bytes) -> Sequence[Any]:
        return (real.CUfunction(0x100 + list(self.functions).index(name.decode())),)

    def do_cuFuncGetAttribute(self, attribute: Any, function: Any) -> Sequence[Any]:
        kinds = real.CUfunction_attribute
        return (
            {
                kinds.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: self.max_threads,
                kinds.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: self.static_shared_bytes,
            }[attribute],
        )

    def cuFuncGetParamInfo(self, function: Any, index: int) -> tuple[Any, ...]:
        sizes = list(self.functions.values())[int(function) - 0x100]
        if index >= len(sizes):
            return (real.CUresult.CUDA_ERROR_INVALID_VALUE, 0, 0)
        return (SUCCESS, 0, sizes[index])

    def do_cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function: Any, threads: int, size: int) -> Sequence[Any]:
        return (self.resident_ctas,)

    def do_cuOccupancyMaxActiveClusters(self, function: Any, config: Any) -> Sequence[Any]:
        return (self.resident_clusters,)

    def do_cuMemAlloc(self, size_bytes: int) -> Sequence[Any]:
        memory = ctypes.create_string_buffer(size_bytes)
        self.live[ctypes.addressof(memory)] = memory
        return (real.CUdeviceptr(ctypes.addressof(memory)),)

    def do_cuMemFree(self, pointer: Any) -> Sequence[Any]:
        del self.live[int(pointer)]
        return ()

    def do_cuMemcpyHtoD(self, pointer: Any, host_address: int, size_bytes: int) -> Sequence[Any]:
        ctypes.memmove(int(pointer), host_address, size_bytes)
        return ()

    def do_cuMemcpyDtoH(self, host_address: int, pointer: Any, size_bytes: int) -> Sequence[Any]:
        ctypes.memmove(host_address, int(pointer), size_bytes)
        return ()

    def do_cuMemGetInfo(self) -> Sequence[Any]:
        return (1000, 2000)

    def do_cuStreamCreate(self, flags: int) -> Sequence[Any]:
        return (real.CUstream(0x300 + self.count("cuStreamCreate")),)

    def do_cuThreadExchangeStreamCaptureMode(self, mode: Any) -> Sequence[Any]:
        self.capture_mode, previous = mode, self.capture_mode
        return (previous,)

    def do_cuEventCreate(self, flags: int) -> Sequence[Any]:
        return (real.CUevent(0x200 + self.count("cuEventCreate")),)

    def do_cuEventElapsedTime(self, begin: Any, end: Any) -> Sequence[Any]:
        return (float(int(end) - int(begin)),)

    def do_cuGetErrorString(self, status: Any) -> Sequence[Any]:
        return (b"the driver's own words",)

    def do_cuTensorMapEncodeTiled(self, *arguments: Any) -> Sequence[Any]:
        encoded = real.CUtensorMap()
        encoded.opaque = [real.cuuint64_t(int(arguments[2]) + index) for index in range(16)]
        return (encoded,)

    def do_cuTensorMapEncodeIm2col(self, *arguments: Any) -> Sequence[Any]:
        return self.do_cuTensorMapEncodeTiled(*arguments)

    def do_cuTensorMapEncodeIm2colWide(self, *arguments: Any) -> Sequence[Any]:
        return self.do_cuTensorMapEncodeTiled(*arguments)

    def do_cuLaunchKernelEx(self, config: Any, function: Any, parameters: int, extra: int) -> Sequence[Any]:
        sizes = list(self.functions.values())[int(function) - 0x100]
        addresses = (ctypes.c_void_p * len(sizes)).from_address(parameters)
        attributes = {attribute.id.name: attribute.value for attribute in config.attrs[: config.numAttrs]}
        clustered = attributes.get("CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION")
        cluster = clustered.clusterDim if clustered is not None else None
        serial = attributes.get("CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION")
        self.launches.append(
            Launched(
                (config.gridDimX, config.gridDimY, config.gridDimZ),
                (config.blockDimX, config.blockDimY, config.blockDimZ),
                (cluster.x, cluster.y, cluster.z) if cluster else None,
                config.sharedMemBytes,
                int(config.hStream),
                int(function),
                [ctypes.string_at(address or 0, size) for address, size in zip(addresses, sizes, strict=True)],
                serial is not None and bool(serial.programmaticStreamSerializationAllowed),
            )
        )
        for address, size in zip(addresses, sizes, strict=True):
            # The driver copies the bytes; a structure (neither a scalar nor a tensor map) may lie anywhere.
            assert (address or 0) % (64 if size == 128 else size if size <= 8 else 1) == 0
        if self.kernel:
            self.kernel(self.launches[-1])
        return ()


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RecordingDriver]:
    """Puts a recording driver with the given functions in the driver's place, with one H200, and returns it."""

    def put(functions: dict[str, list[int]], kernel: Callable[[Launched], None] | None = None) -> RecordingDriver:
        driver = RecordingDriver(functions, kernel=kernel)
        monkeypatch.setattr(gpu, "driver", lambda: driver)
        monkeypatch.setattr(gpu, "open_device", lambda ordinal=0: H200)
        return driver

    return put
