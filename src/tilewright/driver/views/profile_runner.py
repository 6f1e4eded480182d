"""Run a bundle on the GPU for a profiler to watch: `python -m tilewright.driver.views.profile_runner FILE LAUNCHES`.

Inputs are random, as the caller of a real program would have them: floats standard normal; integers that stand for
places, such as where groups end, random numbers that the program can use. The program runs as often as asked, the first
time to warm up; whoever watches counts launches from the first. Nothing is printed.
Checked by: tests/driver/views/test_profile_runner.py; on a GPU by `tilewright profile` itself.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer
from tilewright.base.run_time import largest_extents
from tilewright.driver.run.random_integers import random_integers
from tilewright.runtime import device as gpu
from tilewright.runtime.arrays import numpy_dtype
from tilewright.runtime.bundle import Bundle, load
from tilewright.runtime.launch import load_bundle

_BLOCK_ELEMENTS = 1 << 20


def require_gpu(bundle: Bundle) -> None:
    """Raises TilewrightError unless GPU 0 runs the program."""
    gpu.require_target(gpu.open_device(), bundle.target, bundle.name)


def random_image(buffer: Buffer, seed: int) -> np.ndarray[Any, np.dtype[Any]]:
    """The buffer's whole span as a row of random elements: a block of 2^20 drawn once and repeated, each time rolled by
    another odd number, which is quick and leaves no two tiles alike."""
    random = np.random.default_rng(seed)
    dtype = numpy_dtype(buffer.element)
    count = min(buffer.span_elements, _BLOCK_ELEMENTS)
    if buffer.element.is_float:
        block = random.standard_normal(count).astype(np.float32).astype(dtype)
    else:
        block = random.integers(0, 8, count).astype(dtype)
    image = np.empty(buffer.span_elements, dtype)
    for place, begin in enumerate(range(0, buffer.span_elements, _BLOCK_ELEMENTS)):
        end = min(begin + _BLOCK_ELEMENTS, buffer.span_elements)
        image[begin:end] = np.roll(block, 7919 * place)[: end - begin]
    return image


def run_for_profiler(bundle: Bundle, launches: int) -> None:
    """Run `bundle` `launches` times, the first as a warm-up. Raises TilewrightError as loading and launching do."""
    loaded = load_bundle(bundle, gpu.open_device())
    integers = random_integers(bundle, bundle.plan.buffers)
    pointers: dict[str, int] = {}
    with gpu.current(loaded.device):
        for seed, buffer in enumerate(bundle.plan.buffers):
            if buffer.role == "workspace":
                continue
            image = integers[buffer.name] if buffer.name in integers else random_image(buffer, seed)
            pointers[buffer.name] = gpu.allocate(image.nbytes, buffer.name)
            gpu.copy_to_device(pointers[buffer.name], image.ctypes.data, image.nbytes)
    for _ in range(launches):
        loaded.run(pointers, extents=largest_extents(bundle.plan))
    loaded.synchronize()


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 with the message where the bundle or the GPU is at fault."""
    try:
        run_for_profiler(load(arguments[0]), int(arguments[1]))
    except TilewrightError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
