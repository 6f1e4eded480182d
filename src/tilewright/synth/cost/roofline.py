"""What bounds a tile program of a shape: how much each unit must do, how much each tier must carry, and for how long?

Before any search: operations by unit (tensor cores, arithmetic, special functions) are those of the program; bytes of
device memory are every array once, whatever the kernel. A decided tile adds what it fetches from the L2 cache and what
its tensor cores read from shared memory. Over the rates of the target each gives a time that no kernel of that tile
undercuts; the longest says what dominates. Intensity is operations of the tensor cores (else of arithmetic) for each
byte of a tier.

Special functions are counted as the program has them; compiled kernels compute them by arithmetic, so their time is
that of the hardware's own units, a lower bound. Not handled: groups of rows whose sizes are only known at launch, which
count as if every row were in a group. Checked by: tests/synth/cost/test_roofline.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import Decisions
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import axes_of, gathers, loads, stores
from tilewright.ir.tile.types import read_type, tensor_type, value_type
from tilewright.synth.cost.product_kernel import ProductKernel, in_two_levels, is_summed, product_kernel
from tilewright.synth.cost.time_model import predicted_time
from tilewright.targets import Target

Kind = Literal["bytes", "operations"]
Candidate = TypeVar("Candidate")

SPECIAL = frozenset(
    {
        Function.EXP, Function.TANH, Function.SIGMOID, Function.GELU, Function.SILU, Function.SQRT, Function.RSQRT,
        Function.LOG,
    }
)  # fmt: skip
ARITHMETIC_PER_CYCLE = 256
"""Two for each fused multiply-add of 128 lanes a cycle and multiprocessor: CUDA C++ Programming Guide, Arithmetic
Instructions, compute capability 9.0."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A unit or a tier of memory. amount: operations or bytes of one launch; per_second: of the whole device."""

    name: str
    kind: Kind
    amount: float
    per_second: float

    @property
    def microseconds(self) -> float:
        """How long the amount takes at the rate."""
        return 1e6 * self.amount / self.per_second


@dataclass(frozen=True, slots=True)
class ProgramRoofline:
    """Resources in order: units, then tiers from the farthest to the nearest. predicted_microseconds: by the time
    model, None where it has no word on the program."""

    resources: tuple[Resource, ...]
    predicted_microseconds: float | None

    @property
    def dominant(self) -> Resource:
        """The resource that takes longest."""
        return max(self.resources, key=lambda each: each.microseconds)

    @property
    def least_microseconds(self) -> float:
        """A time that no kernel of this tile undercuts."""
        return self.dominant.microseconds

    @property
    def operations(self) -> float:
        """Of the tensor cores; of arithmetic and special functions where there are none."""
        units = {each.name: each.amount for each in self.resources if each.kind == "operations"}
        return units.get("tensor cores") or sum(units.values())

    def intensity(self, resource: Resource) -> float:
        """Operations for each byte of a tier."""
        return self.operations / resource.amount if resource.amount else math.inf


def program_roofline(program: tile.ProgramOp, decisions: Decisions, target: Target) -> ProgramRoofline:
    """What a decided program asks of the target. Raises KeyError for a target whose rates are not known."""
    clock = target.limit("device.clock_hertz")
    multiprocessors = target.limit("device.multiprocessors")
    everywhere = clock * multiprocessors
    tensor, arithmetic, special = _operations(program)
    units: list[Resource] = []
    if tensor:
        kind = "bf16" if _operand_bytes(program) == 2 else "f8"
        rate = target.limit(f"product.{kind}_flop_per_cycle_per_multiprocessor") * everywhere
        units.append(Resource("tensor cores", "operations", tensor, rate))
    if arithmetic or not units:
        units.append(Resource("arithmetic", "operations", arithmetic, ARITHMETIC_PER_CYCLE * everywhere))
    if special:
        rate = target.limit("device.special_results_per_cycle_per_multiprocessor") * everywhere
        units.append(Resource("special functions", "operations", special, rate))
    dram = target.limit("device.dram_bytes_per_second")
    tiers = [Resource("device memory", "bytes", compulsory_bytes(program), dram)]
    predicted: float | None = None
    if is_summed(decisions):
        kernel = product_kernel(decisions, product_extents(program, decisions), stored_bytes(program))
        l2 = target.limit("device.l2_bytes_per_cycle_per_multiprocessor") * everywhere
        stored = kernel.rows * kernel.columns * kernel.stored_bytes
        tiers.append(Resource("L2 cache", "bytes", kernel.fetched_bytes + stored, l2))
        banks = target.limit("multiprocessor.shared_banks") * target.limit("multiprocessor.shared_bank_bytes")
        read = _shared_bytes(kernel, target)
        tiers.append(Resource("shared memory", "bytes", read, banks * everywhere))
        predicted = predicted_microseconds(program, decisions, target)
    return ProgramRoofline((*units, *tiers), predicted)


def compulsory_bytes(program: tile.ProgramOp) -> int:
    """Bytes of device memory that any kernel moves: each array that is loaded, and each that is stored, once; of one
    that tables lead to, as many elements as are gathered, or all if those are fewer."""
    gathered = {op.result: op for op in gathers(program)}
    touched = {op.tensor for op in loads(program)} | {each for op in gathered.values() for each in op.tables}
    arrays = [tensor_type(value) for value in touched if value not in gathered]
    arrays += [tensor_type(op.tensor) for op in stores(program)]
    found = sum(math.prod(array.extents) * array.element_kind.bytes for array in arrays)
    for value, op in gathered.items():
        elements = math.prod(program.extents[axis] for axis in read_type(value).axis_names)
        array = tensor_type(op.tensor)
        found += min(elements, math.prod(array.extents)) * array.element_kind.bytes
    return found


def stored_bytes(program: tile.ProgramOp) -> int:
    """Of each element of the results."""
    return sum(tensor_type(op.tensor).element_kind.bytes for op in stores(program))


def predicted_microseconds(program: tile.ProgramOp, decisions: Decisions, target: Target) -> float | None:
    """Of the product's launch by the time model; None where the model is not of such programs."""
    if not is_summed(decisions) or in_two_levels(decisions):
        return None
    return predicted_time(
        decisions, product_extents(program, decisions), target, stored_bytes=stored_bytes(program)
    ).microseconds


def _operand_bytes(program: tile.ProgramOp) -> int:
    product = next(op for op in program.walk() if isinstance(op, tile.DotOp | ContractOp))
    return value_type(product.left).element_kind.bytes


def _operations(program: tile.ProgramOp) -> tuple[int, int, int]:
    """(of tensor cores, of arithmetic, of special functions): each once for every point of what it computes."""
    extents = program.extents
    tensor = arithmetic = special = 0
    for op in program.walk():
        match op:
            case tile.DotOp() | ContractOp():
                tensor += 2 * math.prod(extents[axis] for axis in {*axes_of(op.left), *axes_of(op.right)})
            case tile.UnaryOp() | tile.BinaryOp() if not _is_a_sum(op):
                points = math.prod(extents.get(axis, 1) for axis in axes_of(op.result))
                if op.function.data in SPECIAL:
                    special += points
                else:
                    arithmetic += points
            case _:
                continue
    return tensor, arithmetic, special


def _is_a_sum(op: tile.UnaryOp | tile.BinaryOp) -> bool:
    """Whether an addition is the tensor core's, to what a walk carries."""
    return isinstance(op, tile.BinaryOp) and isinstance(op.right.owner, ContractOp)


def product_extents(program: tile.ProgramOp, decisions: CascadeDecisions) -> tuple[int, int, int]:
    """Rows, columns and contracted elements, as a walk's tiles have them."""
    axes = (decisions.row, decisions.column, decisions.streamed)
    row, column, contracted = (program.extents[axis] for axis in axes)
    return row, column, contracted


def _shared_bytes(kernel: ProductKernel, target: Target) -> int:
    """Read by tensor cores: every 64 rows of a tile read all of its columns' operands. What copies write is left out,
    since it is not known to take time from the reads."""
    blocks = math.ceil(kernel.tile_rows / target.limit("product.rows"))
    slices = kernel.tiles * math.ceil(kernel.depth / kernel.tile_depth)
    return slices * (kernel.tile_rows + blocks * kernel.multiplied) * kernel.tile_depth * kernel.element_bytes


@dataclass(frozen=True, slots=True)
class Survivors(Generic[Candidate]):
    """What is left of candidates, and which one is best. estimates: microseconds of those that were estimated;
    left_out: how many cannot be better, since their least time is beyond the best one's estimate."""

    best: Candidate
    estimates: tuple[tuple[float, Candidate], ...]
    left_out: int


def survivors(
    candidates: Iterable[Candidate],
    least: Callable[[Candidate], float],
    estimate: Callable[[Candidate], float | None],
) -> Survivors[Candidate] | None:
    """The candidate with the smallest estimate, found in order of least times and given up where these pass it.

    least: a time that the estimate never undercuts; estimate: None for a candidate that cannot be built. None if none
    can.
    """
    ordered = sorted(((least(each), index, each) for index, each in enumerate(candidates)), key=lambda item: item[:2])
    found: list[tuple[float, Candidate]] = []
    best = math.inf
    for position, (floor, _, candidate) in enumerate(ordered):
        if floor > best:
            winner = min(found, key=lambda item: item[0])[1]
            return Survivors(winner, tuple(found), len(ordered) - position)
        microseconds = estimate(candidate)
        if microseconds is not None:
            found.append((microseconds, candidate))
            best = min(best, microseconds)
    if not found:
        return None
    return Survivors(min(found, key=lambda item: item[0])[1], tuple(found), 0)
