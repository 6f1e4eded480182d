"""The NVIDIA driver: is there one, which GPU, and what exactly failed.

Everything that needs a GPU goes through `driver()`, which first asks the loader for `libcuda` itself, so that a machine
without a driver gets one plain sentence. Every driver call goes through `check`, so that an error says what was being
attempted, the driver's own name for the failure, and what to do about it.

The primary context is used, the one that PyTorch, CuPy and the CUDA runtime share, so their pointers and streams are
ours. Not handled: several contexts on one device, MIG enumeration, managed memory.
Source: CUDA Driver API, "Error Handling", "Primary Context Management", "Tensor Map Object Management".
Checked by: tests/runtime/test_device.py without a GPU, tests/runtime/test_gpu.py with one.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from tilewright.base.error import TilewrightError
from tilewright.base.extra import MissingExtra, install

LIBCUDA = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

_ADVICE: dict[str, str] = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": (
        "a kernel touched memory outside its buffers; the context is lost, so start a new process, "
        "and look for the access with compute-sanitizer, or run the program on the CPU machine, which names the line"
    ),
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a kernel's access is not aligned to its width; the context is lost, restart",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": (
        "a kernel ran an instruction with illegal operands (a bad matrix descriptor, a wgmma outside one warpgroup); "
        "the context is lost, restart"
    ),
    "CUDA_ERROR_LAUNCH_FAILED": (
        "a kernel faulted (often an asynchronous copy with a bad tensor map, or an mbarrier misused); "
        "the context is lost, restart, and run the program on the CPU machine, which names the line"
    ),
    "CUDA_ERROR_LAUNCH_TIMEOUT": "a kernel hung or ran too long: the CPU machine says who waits for what",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "too many registers times threads, or too much shared memory, for one block",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": "the cluster is larger than the GPU can place: make it smaller",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the machine code is for another GPU: compile for this one's target",
    "CUDA_ERROR_INVALID_IMAGE": "the machine code is damaged, or newer than the driver: update it, or compile again",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the PTX is newer than the driver: update it, or assemble with ptxas",
    "CUDA_ERROR_INVALID_PTX": "assemble the text with ptxas to see the line",
    "CUDA_ERROR_NOT_FOUND": "the name is not in the module: check the launch's entry",
    "CUDA_ERROR_NO_DEVICE": "no GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the kernel module and libcuda differ: reboot, or reinstall the driver",
    "CUDA_ERROR_TENSOR_MEMORY_LEAK": "a kernel exited without deallocating tensor memory",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": "call once before capturing, so that everything is loaded",
}


@cache
def probe_libcuda() -> str | None:
    """None if the driver's library loads; otherwise the loader's reason why not."""
    try:
        ctypes.CDLL(LIBCUDA)
    except OSError as error:
        return str(error)
    return None


@cache
def driver() -> ModuleType:
    """The module `cuda.bindings.driver`, with the driver loaded and initialized.

    Raises TilewrightError: no driver on this machine, cuda-bindings missing, or no usable GPU.
    """
    reason = probe_libcuda()
    if reason is not None:
        raise TilewrightError(
            f"no NVIDIA driver on this machine: {reason}",
            remedy="run the program on the CPU machine, or install the driver",
        )
    try:
        module = importlib.import_module("cuda.bindings.driver")
    except ModuleNotFoundError as error:
        raise MissingExtra("cuda-bindings", "running on a GPU", "run on the CPU machine") from error
    except ImportError as error:
        raise TilewrightError(
            f"cuda-bindings cannot be imported: {error}", remedy=f"install it again: {install('gpu')}"
        ) from error
    _check(module, module.cuInit(0), "initializing the driver")
    return module


def check(result: tuple[Any, ...], attempted: str, *, advice: str = "") -> Any:
    """The value or values of a driver call that succeeded.

    result: what the binding returned, the status first; attempted: a phrase such as "loading module vadd".
    Raises TilewrightError with the attempt, the driver's name of the failure, and advice.
    """
    return _check(driver(), result, attempted, advice)


def _check(module: ModuleType, result: tuple[Any, ...], attempted: str, advice: str = "") -> Any:
    status = result[0]
    if int(status) == 0:
        return result[1] if len(result) == 2 else result[1:] or None
    name = str(getattr(status, "name", f"CUresult {int(status)}"))
    remedy = advice or _ADVICE.get(name, "")
    if not remedy:
        error, text = module.cuGetErrorString(status)
        if int(error) == 0:
            remedy = text.decode() if isinstance(text, bytes) else str(text)
    raise TilewrightError(f"{attempted}: {name}", remedy=remedy)


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU. ordinal: its index among the visible ones; context: address of its primary context, retained.

    shared_bytes_per_block: the opt-in limit, static and dynamic together; l2_bytes: size of the L2 cache.
    """

    ordinal: int
    name: str
    compute_capability: tuple[int, int]
    sm_count: int
    shared_bytes_per_block: int
    l2_bytes: int
    context: int


@cache
def open_device(ordinal: int = 0) -> Device:
    """The GPU with this ordinal, its primary context retained for the life of the process.

    Raises TilewrightError where there is no driver or no such GPU.
    """
    cuda = driver()
    count = check(cuda.cuDeviceGetCount(), "counting GPUs")
    if not 0 <= ordinal < count:
        raise TilewrightError(
            f"there is no GPU {ordinal}: {count} visible", remedy="check nvidia-smi and CUDA_VISIBLE_DEVICES"
        )
    handle = check(cuda.cuDeviceGet(ordinal), f"opening GPU {ordinal}")

    def attribute(name: str) -> int:
        which = getattr(cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(check(cuda.cuDeviceGetAttribute(which, handle), f"asking GPU {ordinal} for {name}"))

    raw_name: bytes = check(cuda.cuDeviceGetName(128, handle), f"asking GPU {ordinal} for its name")
    context = check(cuda.cuDevicePrimaryCtxRetain(handle), f"retaining the context of GPU {ordinal}")
    return Device(
        ordinal=ordinal,
        name=raw_name.split(b"\0", 1)[0].decode(errors="replace"),
        compute_capability=(attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")),
        sm_count=attribute("MULTIPROCESSOR_COUNT"),
        shared_bytes_per_block=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        l2_bytes=attribute("L2_CACHE_SIZE"),
        context=int(context),
    )


@contextmanager
def current(device: Device) -> Generator[None]:
    """Makes the device's primary context current on this thread, and restores what was current before."""
    cuda = driver()
    if int(check(cuda.cuCtxGetCurrent(), "asking for the current context")) == device.context:
        yield
        return
    check(cuda.cuCtxPushCurrent(cuda.CUcontext(device.context)), f"entering the context of {device.name}")
    try:
        yield
    finally:
        check(cuda.cuCtxPopCurrent(), f"leaving the context of {device.name}")


def runs_on(target: str, compute_capability: tuple[int, int]) -> bool:
    """Whether machine code for `target` runs on a GPU of this compute capability.

    `sm_90a` runs on exactly 9.0; `sm_100f` on its family (same major, this minor or newer); plain `sm_90` on the same
    major, this minor or newer. Source: PTX ISA, "PTX Module Directives: .target"; NVCC, "GPU feature list".
    """
    digits, suffix = target.removeprefix("sm_"), ""
    if digits[-1:] in ("a", "f"):
        digits, suffix = digits[:-1], digits[-1]
    if not target.startswith("sm_") or not digits.isdigit() or len(digits) < 2:
        raise TilewrightError(f"{target!r} is no target", remedy="write it as sm_90a or sm_100a")
    wanted = int(digits[:-1]), int(digits[-1])
    if suffix == "a":
        return compute_capability == wanted
    return compute_capability[0] == wanted[0] and compute_capability[1] >= wanted[1]


def require_target(device: Device, target: str, name: str) -> None:
    """Raises TilewrightError unless a program compiled for `target` runs on `device`. `name` is the program's."""
    if not runs_on(target, device.compute_capability):
        major, minor = device.compute_capability
        raise TilewrightError(
            f"{name} is compiled for {target}, and {device.name} has compute capability {major}.{minor}",
            remedy=f"compile it for this GPU, run it on one that {target} names, or on the CPU machine",
        )


def allocate(size_bytes: int, purpose: str) -> int:
    """Device memory in the current context: its address, 256-byte aligned. At least one byte is taken.

    Raises TilewrightError naming the purpose, the bytes asked for and the bytes free.
    """
    cuda = driver()
    result = cuda.cuMemAlloc(max(size_bytes, 1))
    if int(result[0]) == int(cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY):
        free, total = check(cuda.cuMemGetInfo(), "asking for free memory")
        raise TilewrightError(
            f"allocating {size_bytes} bytes for {purpose}: CUDA_ERROR_OUT_OF_MEMORY, {free} of {total} bytes are free",
            remedy="free other arrays or caches on this GPU, or use a smaller problem",
        )
    return int(check(result, f"allocating {size_bytes} bytes for {purpose}"))


def allocate_zeroed(size_bytes: int, purpose: str) -> int:
    """As `allocate`, with every byte zero on return. May be called while a stream is being captured into a CUDA graph.

    The work is done on a stream of its own, so that no zeroing is recorded into the graph.
    """
    cuda = driver()
    # Allocating is forbidden during capture unless this thread says that it means it.
    relaxed = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    previous = check(cuda.cuThreadExchangeStreamCaptureMode(relaxed), "relaxing stream capture")
    try:
        pointer = allocate(size_bytes, purpose)
        flags = int(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)
        stream = check(cuda.cuStreamCreate(flags), "creating a stream")
        try:
            check(cuda.cuMemsetD8Async(cuda.CUdeviceptr(pointer), 0, max(size_bytes, 1), stream), f"zeroing {purpose}")
            synchronize(int(stream), f"zeroing {purpose}")
        except TilewrightError:
            free(pointer)
            raise
        finally:
            cuda.cuStreamDestroy(stream)
        return pointer
    finally:
        cuda.cuThreadExchangeStreamCaptureMode(previous)


def free(pointer: int) -> None:
    """Gives back what `allocate` gave. Never raises: after a fault every free fails, and the fault is what to show."""
    cuda = driver()
    cuda.cuMemFree(cuda.CUdeviceptr(pointer))


def copy_to_device(pointer: int, host_address: int, size_bytes: int) -> None:
    """Copies from host memory; returns when done."""
    cuda = driver()
    if size_bytes:
        check(cuda.cuMemcpyHtoD(cuda.CUdeviceptr(pointer), host_address, size_bytes), f"copying {size_bytes} bytes in")


def copy_from_device(host_address: int, pointer: int, size_bytes: int) -> None:
    """Copies to host memory, after the work already on the default stream; returns when done."""
    cuda = driver()
    if size_bytes:
        check(cuda.cuMemcpyDtoH(host_address, cuda.CUdeviceptr(pointer), size_bytes), f"copying {size_bytes} bytes out")


def synchronize(stream: int, attempted: str) -> None:
    """Waits for the stream. Faults of kernels launched earlier surface here, hence `attempted`."""
    cuda = driver()
    check(cuda.cuStreamSynchronize(cuda.CUstream(stream)), attempted)
