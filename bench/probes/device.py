"""What does the driver say of the GPU, and how fast is a plain copy in its memory?

    python -m bench.probes.device [-o device.json]

Attributes are the driver's. `dram_bytes_per_second` is of `cuMemcpyDtoD` of 1 GiB, every byte counted once as read and
once as written, by events around eight copies; the best of five such runs. A rate, and no property of one machine's
memory alone: how much it varies between GPUs of a kind is not known.

Source: CUDA Driver API, CUdevice_attribute. The rows of `[device.*]` that say so come from here.
"""

from __future__ import annotations

import sys

from bench.probes.command import run_probe
from tilewright.runtime import device as gpu

_COPY_BYTES = 1 << 30
_COPIES = 8
_REPEATS = 5


def measure() -> dict[str, int | str]:
    """What was found, by name."""
    cuda = gpu.driver()
    opened = gpu.open_device()
    handle = gpu.check(cuda.cuDeviceGet(opened.ordinal), "opening the GPU")
    which = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE
    kilohertz = int(gpu.check(cuda.cuDeviceGetAttribute(which, handle), "asking for the clock"))
    found: dict[str, int | str] = {
        "name": opened.name,
        "multiprocessors": opened.sm_count,
        "l2_bytes": opened.l2_bytes,
        "clock_hertz": 1000 * kilohertz,
    }
    with gpu.current(opened):
        source = gpu.allocate_zeroed(_COPY_BYTES, "the source of copies")
        into = gpu.allocate_zeroed(_COPY_BYTES, "what is copied into")
        begin, end = (gpu.check(cuda.cuEventCreate(0), "creating an event") for _ in range(2))
        least = float("inf")
        for _ in range(_REPEATS):
            gpu.check(cuda.cuEventRecord(begin, 0), "recording an event")
            for _ in range(_COPIES):
                copied = cuda.cuMemcpyDtoDAsync(cuda.CUdeviceptr(into), cuda.CUdeviceptr(source), _COPY_BYTES, 0)
                gpu.check(copied, "copying")
            gpu.check(cuda.cuEventRecord(end, 0), "recording an event")
            gpu.check(cuda.cuEventSynchronize(end), "waiting for copies")
            least = min(least, float(gpu.check(cuda.cuEventElapsedTime(begin, end), "reading events")))
        gpu.free(source)
        gpu.free(into)
    found["dram_bytes_per_second"] = round(2 * _COPIES * _COPY_BYTES / (least / 1000))
    for name, value in found.items():
        print(f"{name:24} {value}")
    return found


if __name__ == "__main__":
    sys.exit(run_probe("device", "Attributes, and a copy's rate.", measure))
