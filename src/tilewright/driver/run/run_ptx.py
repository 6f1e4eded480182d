"""What does a foreign PTX kernel do to its buffers? One launch, on the CPU machine with the judge, or on a GPU.

Buffers are bytes by name, as the launch file names and sizes them; who owns the text knows what they hold. On the
machine a fault or a hang ends the run, and a race is found whatever order this run had. On a GPU nothing is found: the
numbers are what the hardware makes of them.

Not handled: several launches in a row, programmatic dependent launch.
Checked by: tests/cli/test_run_ptx.py, tests/runtime/test_foreign_launch.py; on a GPU by tests/gpu/test_run_ptx_gpu.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer, Launch, LaunchPlan, OpaqueParam, PointerParam, UnknownTensorMapParam
from tilewright.contract.judge.happens_before import HappensBefore, Interpretations
from tilewright.contract.judge.waits.asking_loads import asking_loads
from tilewright.contract.replay.unwritten import Contents
from tilewright.driver.check.defect import defects_as_errors
from tilewright.driver.launch.given_launch import LaunchFile, placed
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.inline import inlined
from tilewright.machine.core.run import kernel_of, run_launch
from tilewright.machine.protocol.loops.polls import polls_of
from tilewright.runtime import device as gpu
from tilewright.runtime.assemble import assemble
from tilewright.runtime.launch import LoadedPlan

BUFFER_BYTES_MAX = 16 << 30
"""Bytes of all buffers of a run."""
Arrays = dict[str, NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class PtxRun:
    """What came of a run. arrays: every buffer as the run left it, by name; findings: what the judge of runs found;
    finished: the kernel came to its end."""

    entry: str
    arrays: Arrays
    findings: tuple[Diagnostic, ...] = ()
    finished: bool = True

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(finding for finding in self.findings if finding.level is Level.ERROR)


def buffers_for(launch: LaunchFile, given: Mapping[str, NDArray[Any]], source: str) -> Arrays:
    """Bytes for every buffer of `launch`: those given (any dtype, taken as bytes), zeros for the rest.

    source: where the arrays are from, for messages. Raises TilewrightError for an array that no parameter names, and
    for one of another size.
    """
    sizes = {buffer.name: buffer.size_bytes for buffer in launch.buffers}
    total = sum(sizes.values())
    if total > BUFFER_BYTES_MAX:
        raise TilewrightError(
            f"{launch.file}: the buffers have {total} bytes", remedy=f"a run takes at most {BUFFER_BYTES_MAX} in all"
        )
    named = ", ".join(sizes) or "none"
    for name in given:
        if name not in sizes:
            raise TilewrightError(
                f"{source} has an array {name}, which no parameter in {launch.file} names",
                remedy=f"the buffers are {named}",
            )
    arrays: Arrays = {}
    for name, size in sizes.items():
        arrays[name] = np.zeros(size, np.uint8)
        for each in launch.contents:
            if each.name == name:
                arrays[name][: each.data.size] = each.data
        if name in given:
            data = np.ascontiguousarray(given[name]).reshape(-1).view(np.uint8)
            if data.size != size:
                raise TilewrightError(
                    f"{name} in {source} has {data.size} bytes; {launch.file} gives it {size}",
                    remedy="give as many bytes as the parameter's buffer has",
                )
            arrays[name][...] = data
    return arrays


def run_on_machine(
    text: str,
    file: str,
    launch: LaunchFile,
    arrays: Arrays,
    *,
    interpretations: Interpretations,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> PtxRun:
    """Run the kernel on the CPU machine; `arrays` are changed in place.

    Raises TilewrightError for a text that is no PTX, a launch that is not this kernel's, and an instruction that the
    machine lacks; a fault or a hang is a finding.
    """
    with defects_as_errors(f"the text of {file}"):
        module = read(text, file, tolerant=True)
    resolved = launch.resolve(launch.kernel(module, file))
    _require_known_maps(resolved, launch.file)
    whole = placed(resolved, launch.buffers)
    entry = whole.launch.entry
    memory = {buffer.name: np.zeros(buffer.size_bytes, np.uint8) for buffer in whole.buffers}
    for name, data in arrays.items():
        memory[name][whole.shifts[name] :] = data
    with defects_as_errors(f"{entry} in {file}"):
        kernel = inlined(module, kernel_of(module, entry))
        polls, asking = polls_of(kernel), asking_loads(kernel)
    judge = HappensBefore(whole.launch, interpretations, polls=polls, contents=Contents(), asking=asking)
    try:
        with defects_as_errors(f"{entry} in {file}"):
            run_launch(module, whole.launch, memory, seed=seed, observe=judge.feed, progress=progress, polls=polls)
    except (MachineFault, MachineHang) as ending:
        return PtxRun(entry, arrays, (ending.diagnostic, *judge.findings), finished=False)
    for name, data in arrays.items():
        data[...] = memory[name][whole.shifts[name] :]
    return PtxRun(entry, arrays, judge.finish())


def run_on_gpu(text: str, file: str, launch: LaunchFile, arrays: Arrays) -> PtxRun:
    """Assemble the text and launch the kernel on GPU 0; `arrays` are changed in place.

    Raises TilewrightError: no `ptxas`, no GPU of the text's target, a launch that the driver refuses, a fault.
    """
    with defects_as_errors(f"the text of {file}"):
        module = read(text, file, tolerant=True)
    whole = launch.resolve(launch.kernel(module, file))
    _require_known_maps(whole, launch.file)
    if any(isinstance(param, PointerParam) and (param.maps or param.pointers) for param in whole.params):
        raise TilewrightError(
            f"{launch.file}: maps, pointers: what stands in buffers is for the CPU machine and for check",
            remedy="leave out --on gpu",
        )
    target = _target(module, file)
    plan = LaunchPlan(
        tuple(Buffer(name, Element.U8, (data.size,), (1,), "output") for name, data in arrays.items()), (whole,)
    )
    cubin = assemble(text, target, name=file).cubin
    loaded = LoadedPlan(plan, cubin, target=target, name=whole.entry)
    pointers: dict[str, int] = {}
    try:
        with gpu.current(loaded.device):
            try:
                for name, data in arrays.items():
                    pointers[name] = gpu.allocate(data.size, f"buffer {name}")
                    gpu.copy_to_device(pointers[name], data.ctypes.data, data.size)
                loaded.run(pointers)
                loaded.synchronize()
                for name, data in arrays.items():
                    gpu.copy_from_device(data.ctypes.data, pointers[name], data.size)
            finally:
                for pointer in pointers.values():
                    gpu.free(pointer)
    finally:
        loaded.close()
    return PtxRun(whole.entry, arrays)


def _require_known_maps(launch: Launch, file: str) -> None:
    """Raises TilewrightError where a tensor map is given by what a copy moves alone: a run needs all of it."""
    held = [
        (index, member)
        for index, param in enumerate(launch.params)
        for member in (
            param,
            *(member for _, member in (param.fields if isinstance(param, OpaqueParam) else ())),
            *(member for _, member in (param.maps if isinstance(param, PointerParam) else ())),
        )
    ]
    for index, member in held:
        if isinstance(member, UnknownTensorMapParam):
            raise TilewrightError(
                f"{file}: params[{index}]: box_bytes is not enough for a run",
                remedy="write dtype, dims and box instead",
            )


def _target(module: Module, file: str) -> str:
    for name in module.target:
        if name.startswith("sm_"):
            return name
    raise TilewrightError(f"{file} names no architecture", remedy="write .target sm_90a")
