"""How upstream MLIR text is put together: indented lines, fresh names, constants gathered at the function's head.

One `NvgpuText` holds the body of one `gpu.func`. Names are SSA values such as `%stage_3`; a constant is written once,
at the head, so that every later line may use it. `Held*` say what each `ac` value stands for in this text. Types are
written as upstream prints them; whether they fit is for the upstream verifier, which tests/lower/test_nvgpu.py calls.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from xdsl.ir import Operation, SSAValue

from tilewright.base.error import TilewrightError
from tilewright.lower.ptx.lowering import WARP_ROWS
from tilewright.lower.ptx.places import TensorMemoryPlace
from tilewright.targets import Target

WORKGROUP = "#gpu.address_space<workgroup>"
SHARED = f"memref<?xi8, {WORKGROUP}>"


@dataclass(slots=True)
class NvgpuText:
    """The growing body of one function."""

    lines: list[str] = field(default_factory=list[str])
    heads: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    taken: dict[str, int] = field(default_factory=dict[str, int])
    depth: int = 0

    def name(self, stem: str) -> str:
        """A fresh SSA name that begins with `stem`."""
        number = self.taken.get(stem, 0)
        self.taken[stem] = number + 1
        return f"%{stem}_{number}"

    def line(self, words: str) -> None:
        self.lines.append("  " * self.depth + words)

    def into(self, stem: str, words: str) -> str:
        """One op with a fresh result, which is returned."""
        result = self.name(stem)
        self.line(f"{result} = {words}")
        return result

    def constant(self, value: int | str, kind: str = "index") -> str:
        """A constant of type `kind`, defined once at the function's head. value: as upstream writes it."""
        key = (str(value), kind)
        if key not in self.heads:
            self.heads[key] = self.name("c")
        return self.heads[key]

    def constants(self) -> list[str]:
        # `true` and `false` carry their type in the word.
        return [
            f"{name} = arith.constant {value}" + (f" : {kind}" if kind != "i1" else "")
            for (value, kind), name in self.heads.items()
        ]

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Generator[None]:
        """Lines of a region, between `head` and `tail`."""
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1
        self.line(tail)

    # ------------------------------------------------------------ arithmetic

    def binary(self, stem: str, opcode: str, left: str, right: str, kind: str = "index") -> str:
        return self.into(stem, f"arith.{opcode} {left}, {right} : {kind}")

    def add(self, left: str, right: int | str, stem: str = "sum") -> str:
        """left + right as an index; adding the number 0 writes nothing."""
        if right == 0:
            return left
        return self.binary(stem, "addi", left, self.constant(right) if isinstance(right, int) else right)

    def multiply(self, left: str, right: int | str, stem: str = "product") -> str:
        """left * right as an index; multiplying by the number 1 writes nothing."""
        if right == 1:
            return left
        return self.binary(stem, "muli", left, self.constant(right) if isinstance(right, int) else right)


# ---------------------------------------------------------------- what an ac value stands for


@dataclass(frozen=True, slots=True)
class HeldRing:
    """Two groups of mbarriers, full and empty, of one type."""

    full: str
    empty: str
    kind: str
    stages: int
    address: int
    full_arrivals: int
    empty_arrivals: int


@dataclass(frozen=True, slots=True)
class HeldBuffer:
    """Dynamic shared memory from `address` bytes on."""

    address: int
    slots: int
    slot_bytes: int
    swizzle: str


@dataclass(frozen=True, slots=True)
class HeldTensorMemory:
    """Columns of tensor memory. place: which they are; group: of CTAs that have them, as an attribute; barrier: the
    group of the units' barriers, of a type, where units issue by themselves."""

    place: TensorMemoryPlace
    group: str
    barrier: str
    barrier_kind: str


@dataclass(frozen=True, slots=True)
class HeldMap:
    """A tensor map; box_type: the memref type of one box."""

    name: str
    kind: str
    box_type: str


@dataclass(frozen=True, slots=True)
class HeldArray:
    """A global array as a memref of one dimension, `kind`; shape and strides in elements, outermost first."""

    name: str
    kind: str
    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HeldCursor:
    stage: str
    parity: str


@dataclass(frozen=True, slots=True)
class HeldSlot:
    ring: HeldRing
    stage: str


@dataclass(frozen=True, slots=True)
class HeldIndex:
    name: str


@dataclass(frozen=True, slots=True)
class HeldAccumulator:
    """One struct of n / 2 values for each 64-row block; or the n columns from `first` on of an accumulator of `part_of`
    columns."""

    blocks: tuple[str, ...]
    n: int
    first: int = 0
    part_of: int = 0

    @property
    def whole(self) -> int:
        """Columns of the struct."""
        return self.part_of or self.n

    @property
    def kind(self) -> str:
        return accumulator_alias(self.whole)


@dataclass(frozen=True, slots=True)
class HeldFragment:
    """A vector of float32, one value for each that the accumulator holds in a thread: block after block."""

    name: str
    blocks: int
    n: int
    element: str

    @property
    def length(self) -> int:
        return self.blocks * self.n // 2


@dataclass(frozen=True, slots=True)
class HeldScalar:
    """One float32, or a vector of them inside a map: the type is the region's."""

    name: str


@dataclass(frozen=True, slots=True)
class HeldNothing:
    """A token without run-time content."""


Held = (
    HeldRing
    | HeldBuffer
    | HeldTensorMemory
    | HeldMap
    | HeldArray
    | HeldCursor
    | HeldSlot
    | HeldIndex
    | HeldAccumulator
    | HeldFragment
    | HeldScalar
    | HeldNothing
)


def accumulator_alias(n: int) -> str:
    """The type alias of a 64-row accumulator block of n columns."""
    return f"!accumulator_n{n}"


def accumulator_definition(n: int) -> str:
    return f"{accumulator_alias(n)} = !llvm.struct<({', '.join(['f32'] * (n // 2))})>"


def carried_values(held: Held) -> tuple[tuple[str, str], ...]:
    """(name, type) pairs that carry a value around a loop."""
    match held:
        case HeldCursor(stage, parity):
            return ((stage, "index"), (parity, "i1"))
        case HeldSlot(_, stage):
            return ((stage, "index"),)
        case HeldIndex(name):
            return ((name, "index"),)
        case HeldAccumulator(blocks):
            return tuple((block, held.kind) for block in blocks)
        case _:
            return ()


def with_names(held: Held, names: Sequence[str]) -> Held:
    """`held` with its names replaced, in the order of `carried_values`."""
    match held:
        case HeldCursor():
            return HeldCursor(names[0], names[1])
        case HeldSlot(ring, _):
            return HeldSlot(ring, names[0])
        case HeldIndex():
            return HeldIndex(names[0])
        case HeldAccumulator():
            return replace(held, blocks=tuple(names))
        case _:
            return held


@dataclass(slots=True)
class Nvgpu:
    """What every op's writing shares: the text, what values stand for, and the function's fixed names."""

    text: NvgpuText
    held: dict[SSAValue, Held]
    symbols: dict[str, int]
    grid: tuple[int, ...]
    cluster: tuple[int, ...]
    launch_registers: int
    facts: Target
    thread: str = ""
    shared: str = ""
    shared_address: str = ""
    warpgroup: str = ""
    warpgroup_thread: str = ""
    is_first_thread: str = ""
    sums: str = ""
    """Address of the role's first slot of tensor memory, as i32."""
    part_columns: str = ""
    """Address of the unit's part of the columns, as i32, in a role whose units issue products by themselves."""
    own_columns: str = ""
    """The same in the lanes of each warp."""
    unit_parity: str = ""
    """Parity of the next phase of the unit's barrier, which its last commit completes."""
    warp_rows: int = WARP_ROWS
    """How many rows after a warp's of a unit those of its next warp begin."""

    @property
    def cluster_size(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    def index(self, value: SSAValue) -> str:
        place = self.held[value]
        assert isinstance(place, HeldIndex)
        return place.name

    def slot(self, value: SSAValue) -> HeldSlot:
        place = self.held[value]
        assert isinstance(place, HeldSlot)
        return place

    def buffer(self, value: SSAValue) -> HeldBuffer:
        place = self.held[value]
        assert isinstance(place, HeldBuffer)
        return place


def cannot_write(op: Operation) -> TilewrightError:
    """The error for an op that has no form in the upstream dialects."""
    return TilewrightError(
        f"{op.name} cannot be written in the upstream dialects here", remedy="emit PTX instead, which has every op"
    )
