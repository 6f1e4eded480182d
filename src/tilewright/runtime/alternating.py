"""How long do several programs of the same arrays take, alternately, on a GPU that nobody else uses?

Each is captured in a CUDA graph of many calls, so that the host's launching does not count, and the graphs are
replayed one after the other, in an order that rotates. Calls rotate through sets of random inputs that together exceed
the L2 cache twice over: a product's weights lie in device memory when a model comes to them, and on zeros a GPU under
its power cap runs faster. The GPU is warmed up first.

Integers that mean something (lengths, ends of groups, rows of tables) are the caller's; every set has the same.

Not handled: several GPUs.
Source: CUDA Driver API, "Graph Management", "Stream Management: cuStreamBeginCapture".
Checked by: tests/runtime/test_alternating.py against a recording driver.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer
from tilewright.runtime import device as gpu
from tilewright.runtime.arrays import numpy_dtype
from tilewright.runtime.bundle import Bundle
from tilewright.runtime.launch import LoadedPlan, load_bundle

Array = np.ndarray[Any, np.dtype[Any]]
NO_INTEGERS: Mapping[str, Array] = MappingProxyType({})
_MOST_SETS = 64
_MOST_CALLS = 256
_REPLAY_MILLISECONDS = 0.6
_WARM_MILLISECONDS = 100.0
_BLOCK_ELEMENTS = 1 << 20
"""Random values that are drawn; longer arrays repeat them."""


def alternating_times(
    bundles: Sequence[Bundle], integers: Mapping[str, Array] = NO_INTEGERS, rounds: int = 15, ordinal: int = 0
) -> list[list[float]]:
    """Microseconds of one call of every program, one number a round; none of one, but the first, that does not load:
    this GPU may have no room for its grid or cluster.

    bundles: programs of the same inputs and outputs; integers: the inputs that stand for places, by name. Raises
    TilewrightError where there is no GPU, or it is another than they are compiled for; where the first does not load;
    for inputs of 32-bit integers that are not given; and for a fault of a kernel.
    """
    device = gpu.open_device(ordinal)
    for bundle in bundles:
        gpu.require_target(device, bundle.target, bundle.name)
    cuda = gpu.driver()
    with ExitStack() as stack:
        stack.enter_context(gpu.current(device))
        stream = gpu.check(cuda.cuStreamCreate(int(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)), "creating a stream")
        stack.callback(cuda.cuStreamDestroy, stream)
        plans: dict[int, LoadedPlan] = {}
        for place, bundle in enumerate(bundles):
            try:
                plans[place] = load_bundle(bundle, device)
            except TilewrightError:
                if place == 0:
                    raise
                continue
            stack.callback(plans[place].close)
        sets = _input_sets(bundles[0], integers, device, stack)
        begin, end = (stack.enter_context(_event(cuda)) for _ in range(2))

        def milliseconds(work: Callable[[], None]) -> float:
            gpu.check(cuda.cuEventRecord(begin, stream), "recording an event")
            work()
            gpu.check(cuda.cuEventRecord(end, stream), "recording an event")
            gpu.synchronize(int(stream), "timing candidates")
            return float(gpu.check(cuda.cuEventElapsedTime(begin, end), "reading a pair of events"))

        def call_all(plan: LoadedPlan) -> None:
            for pointers in sets:
                plan.run(pointers, int(stream))

        # First runs prepare every set of addresses, which is not allowed during capture.
        for plan in plans.values():
            call_all(plan)
        single = min(milliseconds(lambda plan=plan: call_all(plan)) for plan in plans.values())
        calls = _calls(single / len(sets), len(sets))
        replays = {
            place: stack.enter_context(_captured(cuda, stream, _repeatedly(plan, sets, calls, int(stream))))
            for place, plan in plans.items()
        }
        spent = 0.0
        while spent < _WARM_MILLISECONDS:
            spent += sum(milliseconds(replay) for replay in replays.values())
        times: list[list[float]] = [[] for _ in bundles]
        places = list(replays)
        for number in range(rounds):
            for at in range(len(places)):
                place = places[(number + at) % len(places)]
                times[place].append(1000 * milliseconds(replays[place]) / calls)
        return times


def _calls(single_milliseconds: float, sets: int) -> int:
    """Calls in a graph: a multiple of the sets, unless that are too many."""
    wanted = max(1, math.ceil(_REPLAY_MILLISECONDS / max(single_milliseconds, 1e-4)))
    return min(_MOST_CALLS, -(-wanted // sets) * sets)


def _repeatedly(plan: LoadedPlan, sets: Sequence[dict[str, int]], calls: int, stream: int) -> Callable[[], None]:
    def work() -> None:
        for pointers in itertools.islice(itertools.cycle(sets), calls):
            plan.run(pointers, stream)

    return work


@contextmanager
def _event(cuda: Any) -> Generator[Any]:
    event = gpu.check(cuda.cuEventCreate(int(cuda.CUevent_flags.CU_EVENT_DEFAULT)), "creating an event")
    try:
        yield event
    finally:
        cuda.cuEventDestroy(event)


@contextmanager
def _captured(cuda: Any, stream: Any, work: Callable[[], None]) -> Generator[Callable[[], None]]:
    """A function that replays what `work` queues on the stream."""
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    gpu.check(cuda.cuStreamBeginCapture(stream, mode), "capturing candidates")
    try:
        work()
    finally:
        status = cuda.cuStreamEndCapture(stream)
    graph = gpu.check(status, "capturing candidates")
    try:
        made = gpu.check(cuda.cuGraphInstantiate(graph, 0), "instantiating a graph of candidates")
    finally:
        cuda.cuGraphDestroy(graph)
    try:
        yield lambda: gpu.check(cuda.cuGraphLaunch(made, stream), "replaying candidates")
    finally:
        cuda.cuGraphExecDestroy(made)


def _input_sets(
    bundle: Bundle, integers: Mapping[str, Array], device: gpu.Device, stack: ExitStack
) -> list[dict[str, int]]:
    """Addresses by name: random inputs of every set, and the outputs, which all of them share."""
    inputs = [buffer for buffer in bundle.plan.buffers if buffer.role == "input"]
    outputs = [buffer for buffer in bundle.plan.buffers if buffer.role == "output"]
    for buffer in inputs:
        if buffer.element is Element.S32 and buffer.name not in integers:
            raise TilewrightError(
                f"{bundle.name} reads {buffer.name} of {buffer.element.value}, whose values a tuner cannot make up",
                remedy="tune programs whose integers stand for places, or fix the tile yourself",
            )

    def allocated(buffer: Buffer) -> int:
        pointer = gpu.allocate(buffer.span_bytes, f"timing {bundle.name}")
        stack.callback(gpu.free, pointer)
        return pointer

    shared = {buffer.name: allocated(buffer) for buffer in outputs}
    together = sum(buffer.span_bytes for buffer in inputs)
    count = max(2, min(_MOST_SETS, math.ceil(2 * device.l2_bytes / max(1, together))))
    sets = [{**shared, **{buffer.name: allocated(buffer) for buffer in inputs}} for _ in range(count)]
    for buffer in inputs:
        given = integers.get(buffer.name)
        block = _random_block(buffer) if given is None else _laid_out(given, buffer)
        for each in sets:
            for at in range(0, buffer.span_bytes, block.nbytes):
                size = min(block.nbytes, buffer.span_bytes - at)
                gpu.copy_to_device(each[buffer.name] + at, block.ctypes.data, size)
    return sets


def _random_block(buffer: Buffer) -> Array:
    """Bytes of random elements."""
    random = np.random.default_rng(0)
    if buffer.element is Element.S8:
        return random.integers(0, 256, _BLOCK_ELEMENTS).astype(np.uint8)
    values = random.standard_normal(_BLOCK_ELEMENTS, np.float32)
    return np.ascontiguousarray(values.astype(numpy_dtype(buffer.element))).view(np.uint8)


def _laid_out(array: Array, buffer: Buffer) -> Array:
    """The bytes of an array as the buffer has its elements."""
    room = np.zeros(buffer.span_elements, array.dtype)
    steps = [stride * array.itemsize for stride in buffer.strides]
    np.lib.stride_tricks.as_strided(room, buffer.shape, steps)[...] = array
    return room.view(np.uint8)
