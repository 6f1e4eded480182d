"""How is one launch run? Buffers get addresses, the kernel is decoded, then cluster after cluster runs to its end.

Clusters start in a seeded order; within a cluster `scheduler` interleaves warps and engines. Where CTAs wait for words
that CTAs of other clusters write, `grid_schedule` lets those go on.

`prepare` and `start_cluster` are the two halves of a run for whoever schedules in another way (`protocol_run`).

Not handled: waits across clusters by other means than strong loads. Checked by: tests/machine/core/test_run.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from random import Random
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Immediate, Instruction, Kernel, Module, Variable
from tilewright.frontends.ptx.declaration import TYPE_BYTES
from tilewright.machine.copy.unknown_copies import UnknownPhase, leave_unknown
from tilewright.machine.core.decoder import Decoder, Observer, Places
from tilewright.machine.core.inline import inlined
from tilewright.machine.core.lanes import UNINITIALISED, WARP_SIZE, Registers
from tilewright.machine.core.memory import (
    FUNCTION_WINDOW,
    POISON,
    GlobalMemory,
    Region,
    VirtualBuffer,
    local_region,
    region,
)
from tilewright.machine.core.model import model_of
from tilewright.machine.core.parameters import parameter_block
from tilewright.machine.core.program import Program, decode
from tilewright.machine.core.shared_layout import local_frame, shared_layout
from tilewright.machine.core.state import Cluster, Counts, Cta, Warp
from tilewright.machine.events_only.dropped_values import DroppedValues
from tilewright.machine.protocol.loops.polls import Poll, polls_of
from tilewright.machine.tensor_core.warpgroup import WARPS, Warpgroup, WarpMatrixState
from tilewright.targets import Target

STEP_LIMIT = 2_000_000_000
CLUSTERS_MOST = 1 << 22
_VARIABLE_BYTES_MOST = 1 << 32


_KEPT = 0.25
"""How often a request for the work of a cluster that has not begun is refused, though there is one."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run did: warp instructions, bulk copies, wgmma operations, mbarrier phases that ended.

    unknown_phases: what phases expected that copies through unknown tensor maps had to fill.
    """

    instructions: int
    copies: int
    wgmmas: int
    phases: int
    unknown_phases: tuple[UnknownPhase, ...] = ()


Buffers = Mapping[str, npt.NDArray[np.uint8] | VirtualBuffer]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A launch whose names have addresses. kernel: without calls; shared_bytes: of one CTA, dynamic ones included, and
    the first `reserved_bytes`, which nobody may touch."""

    kernel: Kernel
    launch: Launch
    target: Target
    memory: GlobalMemory
    decoder: Decoder
    shared_bytes: int
    strict: bool
    reserved_bytes: int = 0


def run_launch(
    module: Module,
    launch: Launch,
    buffers: Buffers,
    *,
    seed: int = 0,
    observe: Observer | None = None,
    step_limit: int = STEP_LIMIT,
    strict: bool = True,
    progress: Callable[[float], None] | None = None,
    polls: Mapping[Span, Poll] | None = None,
    dropped: DroppedValues | None = None,
    shared_high: bool = False,
) -> RunReport:
    """Run one launch; `buffers` (1-D, contiguous bytes, by name) are changed in place.

    seed: picks one interleaving among those the ISA permits. observe: gets every `event`. step_limit: warp
    instructions. strict: touching a register of a wgmma in flight is a fault if nobody observes. progress: gets the
    fraction of clusters done. polls: the loads that wait for words of global memory, if the caller knows them. dropped:
    if given, an observed run does without values that decide nothing (`dropped_values`), leaves buffers without them,
    and notes which. shared_high: shared variables do not begin at address 0 (`shared_layout`). Raises MachineFault,
    MachineHang; TilewrightError for what the machine cannot run; ValueNeeded where dropped values would decide
    something.
    """
    from tilewright.machine.core.grid_schedule import run_grid  # of clusters that are run as they come

    prepared = prepare(module, launch, buffers, observe=observe, strict=strict, shared_high=shared_high)
    prepared.decoder.polls = polls_of(prepared.kernel) if polls is None else polls
    prepared.decoder.dropped = dropped if observe is not None else None
    program = decode(prepared.decoder)
    if dropped is not None and prepared.decoder.mathematics:
        dropped.kept = True
    random = Random(seed)
    counts = Counts()
    origins = cluster_origins(launch)
    if len(origins) > CLUSTERS_MOST:
        raise TilewrightError(
            f"the grid has {len(origins)} clusters; the machine runs {CLUSTERS_MOST}", remedy="run a smaller problem"
        )
    order = list(range(len(origins)))
    random.shuffle(order)
    unknown: list[UnknownPhase] = []
    done, begun, left, generous = 0, 0, deque(order), Random(seed)

    def more_work() -> tuple[int, int, int] | None:
        """The work of a cluster that has not begun, which then never does. The first cluster gets up to half of all, so
        that it goes on for long and others begin; those are refused at times."""
        nonlocal done
        if len(left) <= (len(order) // 2 if begun == 1 else 0) or (begun > 1 and generous.random() < _KEPT):
            return None
        done += 1
        return origins[left.popleft()]

    def starts() -> Iterator[Callable[[], Cluster]]:
        while left:
            yield partial(start, left.popleft())

    def start(index: int) -> Cluster:
        nonlocal begun
        begun += 1
        cluster = start_cluster(prepared, program, random, counts, index, origins[index])
        cluster.more_work = more_work
        return cluster

    def ended(cluster: Cluster) -> None:
        nonlocal done
        leave_unknown(cluster)
        unknown.extend(cluster.unknown_phases)
        cluster.let_go()
        done += 1
        if progress is not None:
            progress(done / len(order))

    with np.errstate(all="ignore"):
        run_grid(starts(), step_limit, ended)
    return RunReport(counts.instructions, counts.copies, counts.wgmmas, counts.phases, tuple(unknown))


def prepare(
    module: Module, launch: Launch, buffers: Buffers, *, observe: Observer | None = None, strict: bool = True,
    shared_high: bool = False,
) -> Prepared:  # fmt: skip
    """Give every name of a launch its address. Raises TilewrightError where the launch does not fit the kernel."""
    target = model_of(module)
    kernel = inlined(module, kernel_of(module, launch.entry))
    _check_shape(kernel, launch, target)
    memory = GlobalMemory()
    for name, data in buffers.items():
        if isinstance(data, VirtualBuffer) or (data.dtype == np.uint8 and data.ndim == 1 and data.flags.c_contiguous):
            memory.place(name, data)
        else:
            raise TilewrightError(f"buffer {name} must be contiguous bytes, one dimension")
    block = parameter_block(kernel, launch, memory, target)
    memory.place_parameters(block.data)
    shared = shared_layout(module, kernel, launch.dynamic_smem_bytes, target, high=shared_high)
    fixed = block.symbols | {
        function.name: FUNCTION_WINDOW + 16 * (index + 1) for index, function in enumerate(module.functions)
    }
    variables = [each for each in (*module.variables, *kernel.variables) if each.space in ("global", "const")]
    for variable in variables:
        fixed[variable.name] = _place(memory, variable).base
    for variable in variables:
        _relocate(memory, variable, fixed)
    places = Places(fixed, shared.symbols, local_frame(kernel), block.data)
    decoder = Decoder(kernel, places, target, observe, strict)
    return Prepared(kernel, launch, target, memory, decoder, shared.size_bytes, strict, shared.reserved_bytes)


def start_cluster(
    prepared: Prepared, program: Program, random: Random, counts: Counts, index: int, origin: tuple[int, int, int]
) -> Cluster:
    """A cluster whose warps stand at the kernel's first instruction. index: of the cluster; origin: its first CTA."""
    launch, observe = prepared.launch, prepared.decoder.observe
    cluster = Cluster(
        launch, program, prepared.memory, random, observe, counts, index, prepared.strict, prepared.target
    )
    _populate(cluster, prepared, origin)
    return cluster


def kernel_of(module: Module, entry: str) -> Kernel:
    """The kernel called `entry`. Raises TilewrightError where there is none."""
    for kernel in module.kernels:
        if kernel.name == entry:
            return kernel
    names = ", ".join(kernel.name for kernel in module.kernels) or "none"
    raise TilewrightError(f"the module has no kernel {entry}", remedy=f"it has: {names}")


def _check_shape(kernel: Kernel, launch: Launch, target: Target) -> None:
    """The launch must fit the kernel's performance directives and the hardware's limits."""

    def refuse(message: str) -> TilewrightError:
        return TilewrightError(f"launch of {kernel.name}: {message}", span=kernel.span)

    if min(*launch.grid, *launch.block, *launch.cluster) < 1:
        raise refuse("grid, block and cluster extents start at 1")
    threads = prod(launch.block)
    most = target.limit("cta.threads_max")
    if threads > most:
        raise refuse(f"{threads} threads a CTA, more than {most}")
    along = (
        ("threads a CTA along z", launch.block[2], "cta.threads_along_z_max"),
        ("CTAs along y", launch.grid[1], "grid.ctas_along_y_max"),
        ("CTAs along z", launch.grid[2], "grid.ctas_along_z_max"),
    )
    for what, extent, limit in along:
        if extent > target.limit(limit):
            raise refuse(f"{extent} {what}, more than {target.limit(limit)}")
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
    most = target.limit("cluster.ctas_max")
    if prod(launch.cluster) > most:
        raise refuse(f"{prod(launch.cluster)} CTAs a cluster, more than {most}")


def _three(extents: tuple[int, ...]) -> tuple[int, ...]:
    return extents + (1,) * (3 - len(extents))


class ClusterOrigins(Sequence[tuple[int, int, int]]):
    """The index of every cluster's first CTA, in the order of the clusters' linear indices; made when asked for."""

    def __init__(self, launch: Launch) -> None:
        self.steps = launch.cluster
        self.extents = tuple(extent // step for extent, step in zip(launch.grid, launch.cluster, strict=True))

    def __len__(self) -> int:
        return prod(self.extents)

    @overload
    def __getitem__(self, index: int) -> tuple[int, int, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, int, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, int, int] | list[tuple[int, int, int]]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        at = range(len(self))[index]
        x, y, _ = self.extents
        sx, sy, sz = self.steps
        return at % x * sx, at // x % y * sy, at // (x * y) * sz


def cluster_origins(launch: Launch) -> ClusterOrigins:
    """Where the clusters of a launch stand."""
    return ClusterOrigins(launch)


def _place(memory: GlobalMemory, variable: Variable) -> Region:
    size_bytes = variable.size_bytes or 0
    if size_bytes > _VARIABLE_BYTES_MOST:
        raise TilewrightError(
            f"variable {variable.name} has {size_bytes} bytes; the machine holds {_VARIABLE_BYTES_MOST}",
            span=variable.span,
            remedy="declare what the kernel uses of it",
        )
    data = np.zeros(size_bytes, np.uint8)
    if variable.initial is not None:
        data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
    constant = variable.space == "const"
    placed = (memory.place_constant if constant else memory.place)(variable.name, data)
    if variable.initial is None:
        left_to_host = memory.open_constants if constant else memory.open_globals
        left_to_host.append((placed.base, placed.base + size_bytes))
    return placed


def _relocate(memory: GlobalMemory, variable: Variable, fixed: dict[str, int]) -> None:
    """Write the addresses that an initial value names. Raises TilewrightError for the address of a shared variable."""
    width = TYPE_BYTES[variable.type] if variable.relocations else 0
    for link in variable.relocations:
        if link.symbol not in fixed:
            raise TilewrightError(f"the initial value of {variable.name} names {link.symbol}", span=variable.span)
        address = fixed[link.symbol] + link.addend
        if link.mask is not None:
            # `0xFF00(symbol)` is one byte of the address, moved to the bottom.
            address = (address & link.mask) >> ((link.mask & -link.mask).bit_length() - 1)
        content = (address & ((1 << (8 * width)) - 1)).to_bytes(width, "little")
        memory.by_name[variable.name].data[link.offset : link.offset + width] = np.frombuffer(content, np.uint8)


def _registers_at_launch(kernel: Kernel, launch: Launch, target: Target) -> int:
    """Registers a thread at launch: `.maxnreg`, or the most that lets the CTAs a multiprocessor must hold fit.

    An assembler gives a kernel that reallocates registers no more than the largest number it asks for (measured:
    ptxas 13.0 on kernels whose launch bounds allow more).
    """
    given = kernel.directives.get("maxnreg")
    if given is not None:
        return given[0]
    threads = -(-prod(launch.block) // WARP_SIZE) * WARP_SIZE
    resident = kernel.directives.get("minnctapersm", (1,))[0]
    share = target.limit("multiprocessor.registers") // (threads * max(resident, 1))
    step = target.limit("setmaxnreg.registers_step")
    asked = [
        operand.value
        for item in kernel.body
        if isinstance(item, Instruction) and item.row == "setmaxnreg"
        for operand in item.operands
        if isinstance(operand, Immediate)
    ]
    most = min(target.limit("thread.registers_max"), share // step * step)
    return min(most, max(asked, default=most))


def _populate(cluster: Cluster, prepared: Prepared, origin: tuple[int, int, int]) -> None:
    """Create the cluster's CTAs and warps."""
    launch, kernel = cluster.launch, prepared.kernel
    sx, sy, sz = launch.cluster
    budget = _registers_at_launch(kernel, launch, prepared.target)
    frame_bytes = prepared.decoder.places.local.size_bytes
    for rank in range(sx * sy * sz):
        x, y, z = (
            origin[0] + rank % sx,
            origin[1] + rank // sx % sy,
            origin[2] + rank // (sx * sy),
        )
        linear = x + launch.grid[0] * (y + launch.grid[1] * z)
        data = np.full(prepared.shared_bytes, POISON, np.uint8)
        own = region(f"shared memory of CTA {linear}", 0, data, linear, reserved_bytes=prepared.reserved_bytes)
        cta = Cta(cluster, linear, (x, y, z), rank, own, 0)
        if frame_bytes:
            threads = -(-prod(launch.block) // WARP_SIZE) * WARP_SIZE
            cta.local = local_region(rank, threads, frame_bytes)
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
