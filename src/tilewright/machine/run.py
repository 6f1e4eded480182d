"""How is one launch run? Buffers get addresses, the kernel is decoded, then cluster after cluster runs to its end.

CTAs of different clusters are independent, so clusters run one at a time, in a seeded order; within a cluster
`scheduler` interleaves warps and engines. A kernel whose CTAs wait for one another through global memory may therefore
reach the step limit, which is reported as such and never as a proof of a hang.

Not handled: `.func` calls, `.local` variables, device-side tensor maps, kernels that synchronize across clusters.
Checked by: tests/machine/test_run.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Launch, Param, PointerParam, ScalarParam, TensorMapParam
from tilewright.frontends.ptx.ast import (
    Address,
    Instruction,
    Kernel,
    Module,
    Operand,
    Parameter,
    Symbol,
    TensorAddress,
    Variable,
    Vector,
)
from tilewright.machine.decoder import Decoder, Observer
from tilewright.machine.lanes import UNINITIALISED, WARP_SIZE, Registers
from tilewright.machine.memory import PARAM_WINDOW, POISON, GlobalMemory, region
from tilewright.machine.model import MODEL
from tilewright.machine.program import Program, decode
from tilewright.machine.scheduler import run_cluster
from tilewright.machine.state import Cluster, Counts, Cta, Warp
from tilewright.machine.warpgroup import WARPS, Warpgroup, WarpMatrixState

STEP_LIMIT = 2_000_000_000


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run did: warp instructions, bulk copies, wgmma operations, mbarrier phases that ended."""

    instructions: int
    copies: int
    wgmmas: int
    phases: int


def run_launch(
    module: Module,
    launch: Launch,
    buffers: Mapping[str, npt.NDArray[np.uint8]],
    *,
    seed: int = 0,
    observe: Observer | None = None,
    step_limit: int = STEP_LIMIT,
    strict: bool = True,
    progress: Callable[[float], None] | None = None,
) -> RunReport:
    """Run one launch; `buffers` (1-D, contiguous bytes, by name) are changed in place.

    seed: picks one interleaving among those the ISA permits. observe: gets every `event`. step_limit: warp
    instructions. strict: touching a register of a wgmma in flight is a fault if nobody observes. progress: gets the
    fraction of clusters done. Raises MachineFault, MachineHang; TilewrightError for what the machine cannot run.
    """
    kernel = _kernel(module, launch.entry)
    _check_shape(kernel, launch)
    memory = GlobalMemory()
    for name, data in buffers.items():
        if data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous:
            raise TilewrightError(f"buffer {name} must be contiguous bytes, one dimension")
        memory.place(name, data)
    parameters, tensor_maps, symbols = _parameters(kernel, launch, memory)
    memory.place_at("the kernel's parameters", PARAM_WINDOW, parameters)
    shared_symbols, shared_bytes = _shared_layout(module, kernel, launch)
    for variable in module.variables:
        if variable.space in ("global", "const"):
            symbols[variable.name] = memory.place(variable.name, _initial_bytes(variable)).base
    for variable in kernel.variables:
        if variable.space == "local":
            raise TilewrightError("the machine has no .local memory", span=variable.span)
    decoder = Decoder(
        kernel, symbols | shared_symbols, frozenset(shared_symbols), tensor_maps, parameters, observe, strict
    )
    program = decode(decoder)
    random = Random(seed)
    counts = Counts()
    clusters = _cluster_origins(launch)
    random.shuffle(clusters)
    with np.errstate(all="ignore"):
        for done, (index, origin) in enumerate(clusters):
            cluster = Cluster(launch, program, memory, random, observe, counts, index, strict)
            _populate(cluster, kernel, origin, shared_bytes)
            run_cluster(cluster, step_limit)
            if progress is not None:
                progress((done + 1) / len(clusters))
    return RunReport(counts.instructions, counts.copies, counts.wgmmas, counts.phases)


def _kernel(module: Module, entry: str) -> Kernel:
    for kernel in module.kernels:
        if kernel.name == entry:
            return kernel
    names = ", ".join(kernel.name for kernel in module.kernels) or "none"
    raise TilewrightError(f"the module has no kernel {entry}", remedy=f"it has: {names}")


def _check_shape(kernel: Kernel, launch: Launch) -> None:
    """The launch must fit the kernel's performance directives and the hardware's limits."""

    def refuse(message: str) -> TilewrightError:
        return TilewrightError(f"launch of {kernel.name}: {message}", span=kernel.span)

    if min(*launch.grid, *launch.block, *launch.cluster) < 1:
        raise refuse("grid, block and cluster extents start at 1")
    threads = prod(launch.block)
    most = MODEL.limit("cta.threads_max")
    if threads > most:
        raise refuse(f"{threads} threads a CTA, more than {most}")
    required = kernel.directives.get("reqntid")
    if required is not None and _three(required) != launch.block:
        raise refuse(f"block {launch.block}, but .reqntid is {required}")
    allowed = kernel.directives.get("maxntid")
    if allowed is not None and threads > prod(allowed):
        raise refuse(f"{threads} threads, but .maxntid is {allowed}")
    cluster = kernel.directives.get("reqnctapercluster")
    if cluster is not None and _three(cluster) != launch.cluster:
        raise refuse(f"cluster {launch.cluster}, but .reqnctapercluster is {cluster}")
    if any(extent % step for extent, step in zip(launch.grid, launch.cluster, strict=True)):
        raise refuse(f"grid {launch.grid} is not a multiple of cluster {launch.cluster}")
    most = MODEL.limit("cluster.ctas_max")
    if prod(launch.cluster) > most:
        raise refuse(f"{prod(launch.cluster)} CTAs a cluster, more than {most}")


def _three(extents: tuple[int, ...]) -> tuple[int, ...]:
    return extents + (1,) * (3 - len(extents))


def _cluster_origins(launch: Launch) -> list[tuple[int, tuple[int, int, int]]]:
    """Every cluster's linear index and the index of its first CTA."""
    x, y, z = (extent // step for extent, step in zip(launch.grid, launch.cluster, strict=True))
    sx, sy, sz = launch.cluster
    origins = [(i * sx, j * sy, k * sz) for k in range(z) for j in range(y) for i in range(x)]
    return list(enumerate(origins))


def _parameters(
    kernel: Kernel, launch: Launch, memory: GlobalMemory
) -> tuple[npt.NDArray[np.uint8], dict[int, TensorMapParam], dict[str, int]]:
    """The parameter block's bytes, tensor maps by generic address, and parameter symbols."""
    if len(kernel.parameters) != len(launch.params):
        raise TilewrightError(
            f"kernel {kernel.name} takes {len(kernel.parameters)} parameters, the launch gives {len(launch.params)}",
            span=kernel.span,
        )
    tensor_maps: dict[int, TensorMapParam] = {}
    symbols: dict[str, int] = {}
    block = bytearray()
    for parameter, given in zip(kernel.parameters, launch.params, strict=True):
        block.extend(bytes(-len(block) % parameter.align))
        address = PARAM_WINDOW + len(block)
        symbols[parameter.name] = address
        if isinstance(given, TensorMapParam):
            tensor_maps[address] = given
        block.extend(_parameter_bytes(parameter, given, memory))
    return np.frombuffer(bytes(block), np.uint8), tensor_maps, symbols


def _parameter_bytes(parameter: Parameter, given: Param, memory: GlobalMemory) -> bytes:
    match given:
        case PointerParam(buffer, offset):
            value = np.array([_buffer(memory, buffer, parameter) + offset], np.uint64).tobytes()
        case ScalarParam("i32", value):
            value = np.array([int(value) & 0xFFFF_FFFF], np.uint32).tobytes()
        case ScalarParam("i64", value):
            value = np.array([int(value) & 0xFFFF_FFFF_FFFF_FFFF], np.uint64).tobytes()
        case ScalarParam(_, value):
            value = np.array([value], np.float32).tobytes()
        case TensorMapParam(buffer, _):
            _buffer(memory, buffer, parameter)
            alignment = MODEL.limit("tensor_map.alignment_bytes")
            if parameter.align % alignment:
                raise TilewrightError(
                    f"parameter {parameter.name} holds a tensor map and is aligned to {parameter.align} bytes",
                    span=parameter.span,
                    remedy=f"declare it .align {alignment}",
                )
            value = bytes([POISON]) * MODEL.limit("tensor_map.bytes")
    if len(value) != parameter.size_bytes:
        raise TilewrightError(
            f"parameter {parameter.name} has {parameter.size_bytes} bytes, the launch gives {len(value)}",
            span=parameter.span,
        )
    return value


def _buffer(memory: GlobalMemory, name: str, parameter: Parameter) -> int:
    found = memory.by_name.get(name)
    if found is None:
        raise TilewrightError(f"parameter {parameter.name} names buffer {name}, which was not given")
    return found.base


def _initial_bytes(variable: Variable) -> npt.NDArray[np.uint8]:
    data = np.zeros(variable.size_bytes or 0, np.uint8)
    if variable.initial is not None:
        data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
    return data


def _shared_layout(module: Module, kernel: Kernel, launch: Launch) -> tuple[dict[str, int], int]:
    """Offsets of the shared variables that the kernel mentions (static first, then the dynamic array), bytes in all."""
    symbols: dict[str, int] = {}
    end = 0
    used = {variable.name for variable in kernel.variables} | symbols_of(kernel)
    variables = [
        each for each in (*module.variables, *kernel.variables) if each.space == "shared" and each.name in used
    ]
    for variable in variables:
        if variable.size_bytes is not None:
            end += -end % max(variable.align, 1)
            symbols[variable.name] = end
            end += variable.size_bytes
    dynamic = [variable for variable in variables if variable.size_bytes is None]
    if dynamic:
        end += -end % max(variable.align for variable in dynamic)
        symbols |= {variable.name: end for variable in dynamic}
    end += launch.dynamic_smem_bytes
    most = MODEL.limit("cta.shared_bytes_max")
    if end > most:
        raise TilewrightError(
            f"kernel {kernel.name} takes {end} bytes of shared memory, more than {most}", span=kernel.span
        )
    return symbols, end


def symbols_of(kernel: Kernel) -> set[str]:
    """The names of variables, labels and parameters that a kernel's instructions mention."""
    found: set[str] = set()
    waiting: list[Operand] = [
        operand for item in kernel.body if isinstance(item, Instruction) for operand in item.operands
    ]
    while waiting:
        match waiting.pop():
            case Symbol(name) | Address(Symbol(name)):
                found.add(name)
            case TensorAddress(base, coordinates):
                waiting.extend((base, *coordinates))
            case Vector(items):
                waiting.extend(items)
            case _:
                pass
    return found


def _registers_at_launch(kernel: Kernel, launch: Launch) -> int:
    """Registers a thread at launch: `.maxnreg`, or the most that lets the CTAs a multiprocessor must hold fit."""
    given = kernel.directives.get("maxnreg")
    if given is not None:
        return given[0]
    threads = -(-prod(launch.block) // WARP_SIZE) * WARP_SIZE
    resident = kernel.directives.get("minnctapersm", (1,))[0]
    share = MODEL.limit("multiprocessor.registers") // (threads * max(resident, 1))
    step = MODEL.limit("setmaxnreg.registers_step")
    return min(MODEL.limit("thread.registers_max"), share // step * step)


def _populate(cluster: Cluster, kernel: Kernel, origin: tuple[int, int, int], shared_bytes: int) -> None:
    """Create the cluster's CTAs and warps."""
    launch = cluster.launch
    sx, sy, sz = launch.cluster
    budget = _registers_at_launch(kernel, launch)
    for rank in range(sx * sy * sz):
        x, y, z = (
            origin[0] + rank % sx,
            origin[1] + rank // sx % sy,
            origin[2] + rank // (sx * sy),
        )
        linear = x + launch.grid[0] * (y + launch.grid[1] * z)
        data = np.full(shared_bytes, POISON, np.uint8)
        cta = Cta(cluster, linear, (x, y, z), rank, region(f"shared memory of CTA {linear}", 0, data, linear), 0)
        cluster.ctas.append(cta)
    for cta in cluster.ctas:
        _start_warps(cta, cluster.program, budget)


def _start_warps(cta: Cta, program: Program, budget: int) -> None:
    cluster = cta.cluster
    threads = prod(cluster.launch.block)
    template: list[Any] = [UNINITIALISED] * len(program.names)
    for slot, values in program.decoder.static:
        template[slot] = values
    count = -(-threads // WARP_SIZE)
    for index in range(count):
        lanes = min(WARP_SIZE, threads - index * WARP_SIZE)
        live = int.from_bytes(b"\x01" * lanes, "little")
        registers: Registers = list(template)
        warp = Warp(cta, index, live, registers, budget)
        warp.wgmma = WarpMatrixState()
        cta.warps.append(warp)
    for warp in cta.warps:
        for slot, function in program.decoder.dynamic:
            warp.r[slot] = function(cta, warp.index)
    for first in range(0, count - WARPS + 1, WARPS):
        members = cta.warps[first : first + WARPS]
        group = Warpgroup(cta, members)
        for warp in members:
            warp.group = group
    cluster.runnable.extend(cta.warps)
    cluster.live_warps += count
