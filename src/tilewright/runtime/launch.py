"""A launch plan on a GPU: the module loaded, tensor maps encoded, parameters packed, kernels launched and timed.

All that depends only on the addresses of the caller's arrays is done once per set of addresses and stream, and kept:
a repeated `run` looks it up and makes one driver call per kernel. Workspaces belong to a stream, so that runs on two
streams do not share them; they are zero at the stream's first run and thereafter what the last run left. A CUDA graph
captured from `run` refers to them, so the plan must outlive the graph.

What a launch asks is compared with what the module and the GPU offer before the driver is asked, because the driver's
answer to every such mistake is the same CUDA_ERROR_INVALID_VALUE.

Not handled: launches on several GPUs at once, cooperative launch. Whether a grid whose CTAs wait for one another fits
is asked of an idle GPU: what other streams hold of its room meanwhile is not seen.
Source: CUDA Driver API, "Execution Control", cuLaunchKernelEx; PTX ISA, "Kernel Function Parameters".
Checked by: tests/runtime/test_launch.py against a recording driver; tests/runtime/test_gpu.py on a GPU.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.base.error import TilewrightError
from tilewright.base.plan import (
    Launch,
    LaunchPlan,
    NullPointerParam,
    OpaqueParam,
    Param,
    PointerParam,
    ScalarParam,
    TensorMapParam,
    UnknownTensorMapParam,
)
from tilewright.runtime import device as gpu
from tilewright.runtime.bundle import Bundle
from tilewright.runtime.image import require_whole
from tilewright.runtime.tensormap import TENSOR_MAP_BYTES, encode

# Sets of addresses kept prepared. A training loop cycles through few; a leak of fresh addresses must not grow forever.
_PREPARED_LIMIT = 512
# Beyond this many blocks a cluster needs the function's opt-in (CUDA Programming Guide, "Thread Block Clusters").
_PORTABLE_CLUSTER_BLOCKS = 8
_TENSOR_MAP_ALIGNMENT_BYTES = 64


@dataclass(slots=True)
class _Prepared:
    """One launch, ready to go. `memory` and `addresses` are what `parameters` points into, kept alive."""

    config: Any
    function: Any
    parameters: int
    memory: ctypes.Array[ctypes.c_char]
    addresses: ctypes.Array[ctypes.c_void_p]


class LoadedPlan:
    """A program loaded on one GPU. `run` launches it; `close` gives its module and workspaces back."""

    def __init__(
        self, plan: LaunchPlan, image: bytes, *, target: str, name: str = "kernel", device: gpu.Device | None = None
    ) -> None:
        """Load `image`, a cubin or PTX text, for `target` on `device` (GPU 0 where none is given).

        Raises TilewrightError: no driver or GPU; the GPU is another than `target` names; the plan does not fit the
        module or the GPU (an entry that is not there, parameters of other sizes, too much shared memory).
        """
        self.plan = plan
        self.name = name
        self.device = device or gpu.open_device()
        if not plan.launches:
            raise TilewrightError(f"{name} has no launches", remedy="compile the program again")
        gpu.require_target(self.device, target, name)
        require_whole(image, name)
        self._arguments = tuple(buffer.name for buffer in plan.buffers if buffer.role != "workspace")
        self._workspace_buffers = tuple(buffer for buffer in plan.buffers if buffer.role == "workspace")
        self._prepared: dict[tuple[int, ...], tuple[_Prepared, ...]] = {}
        self._workspaces: dict[int, dict[str, int]] = {}
        self._tensor_maps: dict[tuple[TensorMapParam, int], bytes] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._cuda = gpu.driver()
        with gpu.current(self.device):
            # The driver reads PTX up to a NUL byte; a cubin carries its own length.
            self._module = gpu.check(self._cuda.cuModuleLoadData(image + b"\0"), f"loading the module of {name}")
            try:
                self._functions = {launch.entry: self._function(launch.entry) for launch in plan.launches}
                for launch in plan.launches:
                    self._fit(launch)
                self._allow()
                for launch in plan.launches:
                    self._require_room(launch)
            except TilewrightError:
                self._cuda.cuModuleUnload(self._module)
                raise

    def run(self, pointers: Mapping[str, int], stream: int = 0) -> None:
        """Launch the plan's kernels in order on `stream` (a CUstream address; 0 is the legacy default stream).

        pointers: the device address of every input and output buffer, by name. Returns when the kernels are queued; the
        arrays must live until they are done. Raises TilewrightError: a name missing or unknown, a refused tensor map
        or launch. A fault inside a kernel surfaces at the next synchronization.
        """
        try:
            key = (stream, *[pointers[name] for name in self._arguments])
        except KeyError as error:
            raise self._wrong_names(pointers) from error
        if len(pointers) != len(self._arguments):
            raise self._wrong_names(pointers)
        self.run_at(key)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the input and output buffers, in the order in which `run_at` takes their addresses."""
        return self._arguments

    def run_at(self, key: tuple[int, ...]) -> None:
        """`run` with a stream and then the address of each of `arguments`, which is how launches are remembered."""
        launches = self._prepared.get(key)
        if launches is None:
            launches = self._prepare(dict(zip(self._arguments, key[1:], strict=True)), key[0], key)
        if int(self._cuda.cuCtxGetCurrent()[1]) == self.device.context:
            self._launch(launches)
        else:
            with gpu.current(self.device):
                self._launch(launches)

    def synchronize(self, stream: int = 0) -> None:
        """Wait for everything queued on `stream`. Raises TilewrightError if a kernel faulted."""
        with gpu.current(self.device):
            gpu.synchronize(stream, f"running {self.name}")

    def time(
        self,
        pointers: Mapping[str, int],
        repetitions: int = 20,
        *,
        warmups: int = 3,
        stream: int = 0,
        flush_l2: bool = False,
    ) -> list[float]:
        """Milliseconds of each of `repetitions` runs, by CUDA events around each run.

        flush_l2: overwrite the L2 cache before each run, outside the timed part, so that inputs come from memory. Gaps
        between the kernels of a plan are included. Raises as `run` and `synchronize` do.
        """
        if repetitions < 1:
            raise TilewrightError(f"{repetitions} repetitions measure nothing", remedy="ask for at least one")
        cuda = self._cuda
        with gpu.current(self.device):
            for _ in range(warmups):
                self.run(pointers, stream)
            flush_bytes = 2 * self.device.l2_bytes if flush_l2 else 0
            flush = gpu.allocate(flush_bytes, "flushing the L2 cache") if flush_bytes else 0
            handle = cuda.CUstream(stream)
            default = int(cuda.CUevent_flags.CU_EVENT_DEFAULT)
            events: list[Any] = []
            try:
                for _ in range(2 * repetitions):
                    events.append(gpu.check(cuda.cuEventCreate(default), "creating an event"))
                for index in range(repetitions):
                    if flush:
                        gpu.check(
                            cuda.cuMemsetD8Async(cuda.CUdeviceptr(flush), index % 256, flush_bytes, handle),
                            "flushing L2",
                        )
                    gpu.check(cuda.cuEventRecord(events[2 * index], handle), "recording an event")
                    self.run(pointers, stream)
                    gpu.check(cuda.cuEventRecord(events[2 * index + 1], handle), "recording an event")
                gpu.synchronize(stream, f"timing {self.name}")
                pairs = zip(events[::2], events[1::2], strict=True)
                return [
                    float(gpu.check(cuda.cuEventElapsedTime(begin, end), "reading a pair of events"))
                    for begin, end in pairs
                ]
            finally:
                # Statuses are dropped: after a fault everything fails, and the fault is the error to show.
                for event in events:
                    cuda.cuEventDestroy(event)
                if flush:
                    gpu.free(flush)

    def close(self) -> None:
        """Wait for the GPU, then free workspaces and unload the module. Further runs are errors."""
        if self._closed:
            return
        self._closed = True
        with gpu.current(self.device):
            self._cuda.cuCtxSynchronize()
            for workspaces in self._workspaces.values():
                for pointer in workspaces.values():
                    gpu.free(pointer)
            self._cuda.cuModuleUnload(self._module)
        self._workspaces.clear()
        self._prepared.clear()

    def _launch(self, launches: tuple[_Prepared, ...]) -> None:
        launch_kernel = self._cuda.cuLaunchKernelEx
        for index, launch in enumerate(launches):
            (status,) = launch_kernel(launch.config, launch.function, launch.parameters, 0)
            if status:
                gpu.check((status,), f"launching {self._describe(self.plan.launches[index])}")

    def _describe(self, launch: Launch) -> str:
        return (
            f"{launch.entry} of {self.name} with grid {launch.grid}, block {launch.block}, cluster {launch.cluster}, "
            f"{launch.dynamic_smem_bytes} bytes of dynamic shared memory"
        )

    def _wrong_names(self, pointers: Iterable[str]) -> TilewrightError:
        missing = [name for name in self._arguments if name not in pointers]
        unknown = [name for name in pointers if name not in self._arguments]
        parts = [
            f"{what} {', '.join(names)}" for what, names in (("lacks", missing), ("does not know", unknown)) if names
        ]
        return TilewrightError(
            f"{self.name} {' and '.join(parts)}", remedy=f"give one address for each of {', '.join(self._arguments)}"
        )

    def _function(self, entry: str) -> Any:
        result = self._cuda.cuModuleGetFunction(self._module, entry.encode())
        return gpu.check(result, f"looking up {entry} in the module of {self.name}")

    def _attribute(self, entry: str, name: str) -> int:
        which = getattr(self._cuda.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        result = self._cuda.cuFuncGetAttribute(which, self._functions[entry])
        return int(gpu.check(result, f"asking {entry} for {name}"))

    def _fit(self, launch: Launch) -> None:
        described = self._describe(launch)
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        threads_limit = self._attribute(launch.entry, "MAX_THREADS_PER_BLOCK")
        if threads > threads_limit:
            raise TilewrightError(
                f"{described}: {threads} threads, and the function allows {threads_limit}",
                remedy="use fewer threads, or raise .maxntid and lower the registers",
            )
        shared_bytes = self._attribute(launch.entry, "SHARED_SIZE_BYTES") + launch.dynamic_smem_bytes
        if shared_bytes > self.device.shared_bytes_per_block:
            raise TilewrightError(
                f"{described}: {shared_bytes} bytes of shared memory with the static part, "
                f"and {self.device.name} has {self.device.shared_bytes_per_block} for a block",
                remedy="use fewer pipeline stages or smaller tiles",
            )
        for axis, blocks, cluster in zip("xyz", launch.grid, launch.cluster, strict=True):
            if blocks % cluster:
                raise TilewrightError(
                    f"{described}: the grid's {axis} is no multiple of the cluster's", remedy="round the grid up"
                )
        self._fit_parameters(launch, described)

    def _fit_parameters(self, launch: Launch, described: str) -> None:
        """Compares the plan's parameters with the function's, where the driver can tell (12.4 and newer)."""
        function = self._functions[launch.entry]
        expected = [_parameter_bytes(param) for param in launch.params]
        actual: list[int] = []
        # One more than expected, so that a function with more parameters shows.
        for index in range(len(expected) + 1):
            try:
                result = self._cuda.cuFuncGetParamInfo(function, index)
            except RuntimeError:
                return  # the binding's way to say that this driver does not have the call
            if int(result[0]) != 0:
                break
            actual.append(int(result[2]))
        if actual != expected:
            raise TilewrightError(
                f"{described}: the plan passes parameters of {expected} bytes, and the function takes {actual}"
                + (" or more" if len(actual) > len(expected) else ""),
                remedy="the plan and the module are of different programs: compile again",
            )

    def _require_room(self, launch: Launch) -> None:
        """Raises TilewrightError for a grid whose CTAs wait for one another and that does not fit on the GPU at once,
        its own as it may be, and for clusters of more than portable size of which it holds none."""
        blocks = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        if not launch.resident and blocks <= _PORTABLE_CLUSTER_BLOCKS:
            return
        room = self.resident_ctas(launch)
        if room < blocks:
            raise TilewrightError(
                f"{self._describe(launch)}: {self.device.name} has no room for a cluster of {blocks}",
                remedy=f"compile with a split of {_PORTABLE_CLUSTER_BLOCKS} at most, and without global split-K",
            )
        if launch.resident and launch.grid[0] * launch.grid[1] * launch.grid[2] > room:
            raise TilewrightError(
                f"{self._describe(launch)}: its CTAs wait for one another, and {self.device.name} has room for {room}",
                remedy="compile with stream_k=False and without global split-K, or for fewer multiprocessors",
            )

    def resident_ctas(self, launch: Launch) -> int:
        """How many CTAs of one of the plan's launches an idle GPU holds at once, in whole clusters."""
        blocks = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        function = self._functions[launch.entry]
        if blocks > 1:
            asked = self._cuda.cuOccupancyMaxActiveClusters(function, self._config(launch, 0))
            return blocks * int(gpu.check(asked, f"asking for the room for clusters of {launch.entry}"))
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        asked = self._cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, launch.dynamic_smem_bytes)
        return int(gpu.check(asked, f"asking for the occupancy of {launch.entry}")) * self.device.sm_count

    def _allow(self) -> None:
        """Raises each function's limits to the most that the plan's launches of it ask for."""
        attributes = self._cuda.CUfunction_attribute
        for entry, function in self._functions.items():
            launches = [launch for launch in self.plan.launches if launch.entry == entry]
            dynamic_bytes = max(launch.dynamic_smem_bytes for launch in launches)
            if dynamic_bytes:
                which = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                result = self._cuda.cuFuncSetAttribute(function, which, dynamic_bytes)
                gpu.check(result, f"allowing {dynamic_bytes} bytes of dynamic shared memory for {entry}")
            blocks = max(launch.cluster[0] * launch.cluster[1] * launch.cluster[2] for launch in launches)
            if blocks > _PORTABLE_CLUSTER_BLOCKS:
                which = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
                result = self._cuda.cuFuncSetAttribute(function, which, 1)
                gpu.check(result, f"allowing clusters of {blocks} blocks for {entry}")

    def _prepare(self, pointers: Mapping[str, int], stream: int, key: tuple[int, ...]) -> tuple[_Prepared, ...]:
        if self._closed:
            raise TilewrightError(f"{self.name} is closed", remedy="load it again")
        for name in self._arguments:
            if pointers[name] == 0 and self.plan.buffer(name).span_elements:
                raise TilewrightError(f"the address of {name} is null", remedy="pass an allocated array")
        with self._lock, gpu.current(self.device):
            addresses = {**pointers, **self._workspace(stream)}
            prepared = tuple(self._pack(launch, addresses, stream) for launch in self.plan.launches)
            if len(self._prepared) >= _PREPARED_LIMIT:
                self._prepared.pop(next(iter(self._prepared)))
            self._prepared[key] = prepared
        return prepared

    def _workspace(self, stream: int) -> Mapping[str, int]:
        found = self._workspaces.get(stream)
        if found is None:
            found = {}
            # Entered at once, so that `close` frees what was allocated before one that failed.
            self._workspaces[stream] = found
        for buffer in self._workspace_buffers:
            if buffer.name not in found:
                purpose = f"workspace {buffer.name} of {self.name}"
                found[buffer.name] = gpu.allocate_zeroed(buffer.span_bytes, purpose)
        return found

    def _pack(self, launch: Launch, addresses: Mapping[str, int], stream: int) -> _Prepared:
        offsets: list[int] = []
        end = 0
        for param in launch.params:
            size = _parameter_bytes(param)
            alignment = _alignment_bytes(param)
            offsets.append(-(-end // alignment) * alignment)
            end = offsets[-1] + size
        # ctypes aligns to 8 bytes or so: room to begin at a multiple of 64.
        memory = ctypes.create_string_buffer(end + _TENSOR_MAP_ALIGNMENT_BYTES)
        base = ctypes.addressof(memory)
        begin = -base % _TENSOR_MAP_ALIGNMENT_BYTES
        for offset, param in zip(offsets, launch.params, strict=True):
            content = self._content(param, addresses, launch)
            memory[begin + offset : begin + offset + len(content)] = content
        table = (ctypes.c_void_p * max(len(offsets), 1))(*[base + begin + offset for offset in offsets])
        return _Prepared(
            self._config(launch, stream), self._functions[launch.entry], ctypes.addressof(table), memory, table
        )

    def _content(self, param: Param, addresses: Mapping[str, int], launch: Launch) -> bytes:
        match param:
            case PointerParam():
                return struct.pack("<Q", addresses[param.buffer] + param.offset_bytes)
            case ScalarParam():
                return scalar_bytes(param)
            case TensorMapParam():
                address = addresses[param.buffer]
                encoded = self._tensor_maps.get((param, address))
                if encoded is None:
                    encoded = encode(param.map, address, f"{param.buffer} of {launch.entry}")
                    if len(self._tensor_maps) >= _PREPARED_LIMIT:
                        self._tensor_maps.pop(next(iter(self._tensor_maps)))
                    self._tensor_maps[param, address] = encoded
                return encoded
            case NullPointerParam():
                return bytes(8)
            case OpaqueParam():
                content = bytearray(param.data.ljust(param.size_bytes, b"\0"))
                for offset, member in param.fields:
                    inner = self._content(member, addresses, launch)
                    if offset + len(inner) > param.size_bytes:
                        raise TilewrightError(
                            f"a member of {len(inner)} bytes at {offset} of a parameter of {launch.entry} with "
                            f"{param.size_bytes} bytes",
                            remedy="place it inside the structure",
                        )
                    content[offset : offset + len(inner)] = inner
                return bytes(content)
            case UnknownTensorMapParam():
                raise TilewrightError(
                    f"a tensor map of {launch.entry} is unknown, so the kernel can be checked but not run",
                    remedy="describe the tensor map: element, dims, strides, box, swizzle",
                )

    def _config(self, launch: Launch, stream: int) -> Any:
        cuda = self._cuda
        config = cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
        config.sharedMemBytes = launch.dynamic_smem_bytes
        config.hStream = cuda.CUstream(stream)
        attributes: list[Any] = []
        if launch.cluster != (1, 1, 1):
            attribute = cuda.CUlaunchAttribute()
            attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            value = attribute.value
            value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = launch.cluster
            attribute.value = value
            attributes.append(attribute)
        if launch.programmatic:
            attribute = cuda.CUlaunchAttribute()
            attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            value = attribute.value
            value.programmaticStreamSerializationAllowed = 1
            attribute.value = value
            attributes.append(attribute)
        if attributes:
            config.attrs = attributes
            config.numAttrs = len(attributes)
        return config


def load_bundle(bundle: Bundle, device: gpu.Device | None = None) -> LoadedPlan:
    """Load a bundle on `device` (GPU 0 where none is given): its cubin, or its PTX where it has none.

    Raises as LoadedPlan does.
    """
    image = bundle.cubin if bundle.cubin is not None else bundle.ptx.encode("utf-8")
    return LoadedPlan(bundle.plan, image, target=bundle.target, name=bundle.name, device=device)


def scalar_bytes(param: ScalarParam) -> bytes:
    """The little-endian bytes of a scalar parameter. Integers may be signed or unsigned.

    Raises TilewrightError where the value does not fit its kind.
    """
    match param.kind:
        case "i32":
            formats = ("<i", "<I")
        case "i64":
            formats = ("<q", "<Q")
        case "f32":
            formats = ("<f",)
    for layout in formats:
        try:
            return struct.pack(layout, param.value)
        except (struct.error, OverflowError):
            continue
    raise TilewrightError(f"the scalar {param.value!r} does not fit {param.kind}", remedy="use a value in range")


def _parameter_bytes(param: Param) -> int:
    match param:
        case TensorMapParam() | UnknownTensorMapParam():
            return TENSOR_MAP_BYTES
        case PointerParam() | NullPointerParam():
            return 8
        case ScalarParam():
            return 8 if param.kind == "i64" else 4
        case OpaqueParam():
            return param.size_bytes


def _alignment_bytes(param: Param) -> int:
    """Where the host keeps a parameter until the launch; the driver copies each to where the module wants it."""
    match param:
        case TensorMapParam() | UnknownTensorMapParam() | OpaqueParam():
            return _TENSOR_MAP_ALIGNMENT_BYTES
        case PointerParam() | NullPointerParam() | ScalarParam():
            return _parameter_bytes(param)
