"""Where the lowering keeps what each `ac` value stands for: registers, fixed addresses, or work put off to its user.

Checked by: tests/lower/test_ptx_text.py and test_values.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from xdsl.ir import SSAValue

from tilewright.base.error import TilewrightError
from tilewright.base.size import Size, number_of


@dataclass(frozen=True, slots=True)
class RingPlace:
    """full[s] at base + address + 8 s; empty[s] behind the full barriers."""

    stages: int
    address: int
    full_arrivals: int
    empty_arrivals: int


@dataclass(frozen=True, slots=True)
class BufferPlace:
    address: int
    slots: int
    slot_bytes: int
    instances: int
    swizzle: str
    element: str


@dataclass(frozen=True, slots=True)
class TensorMemoryPlace:
    """A CTA's tensor memory: where in shared memory the units' barriers are, of which there are `barriers`; columns, of
    all together, of each unit's part, and of each slot of a ring; first_part: the column where parts begin; pair:
    whether two CTAs have them together; asserts: whether what is done to it is asserted at run time
    (`tensor_asserts`); first_factor: the column where those of factors begin."""

    address: int
    columns: int
    barriers: int
    part_columns: int
    slot_columns: int
    first_part: int = 0
    pair: bool = False
    asserts: bool = False
    first_factor: int = 0

    @property
    def cta_group(self) -> str:
        """The modifier of all instructions that have to do with it."""
        return f"cta_group::{2 if self.pair else 1}"

    @property
    def word_address(self) -> int:
        """Of the word that has the address of the columns: behind the barriers."""
        return self.address + 8 * self.barriers


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """A tensor map's parameter address, or a pointer loaded to a 64-bit register."""

    register: str


@dataclass(frozen=True, slots=True)
class GlobalPlace:
    """An array reached by plain accesses. shape: its extents, a register for one that a launch passes. apart: its
    strides, a size for one that a launch passes, or a register where that has been read. load: its opcode up to the
    type: through the read-only cache, but for kernels that begin while the one before still writes."""

    register: str
    element: str
    shape: tuple[int | str, ...]
    apart: tuple[Size | str, ...]
    load: str = "ld.global.nc"

    @property
    def steps(self) -> tuple[int | str, ...]:
        """Strides as accesses of elements take them: numbers, or registers."""
        return tuple(each if isinstance(each, str) else number_of(each) for each in self.apart)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides of an array that has numbers."""
        return tuple(each if isinstance(each, int) else _refused(each) for each in self.apart)


def _refused(stride: Size | str) -> int:
    raise TilewrightError(
        f"a distance of {stride} elements, which only a launch knows, stands where a number is needed",
        remedy="give the strides of the array",
    )


@dataclass(frozen=True, slots=True)
class CursorPlace:
    stage: str
    parity: str


@dataclass(frozen=True, slots=True)
class SlotPlace:
    """A held slot of `ring`: its stage index."""

    ring: RingPlace
    stage: str


@dataclass(frozen=True, slots=True)
class FactorsPlace:
    """Factors of a held slot in tensor memory: addresses of the first column of each of a row's cells."""

    slot: SlotPlace
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexPlace:
    register: str


@dataclass(frozen=True, slots=True)
class AccumulatorPlace:
    """blocks[b][v]: value v of the 64-row block b, in wgmma's fragment order."""

    blocks: tuple[tuple[str, ...], ...]
    n: int


@dataclass(frozen=True, slots=True)
class LoadedFragmentPlace:
    """Global values at the accumulator's places, loaded where they are used. values: those already loaded, by row and
    column from this thread's first place, 0 along an axis that the array does not have. blocks: for each axis, how many
    places have one number in common; nothing where each has its own. pairs: two columns are loaded at once. shared:
    of a vector whose numbers the warp has in shared memory, an address, and how far behind it its first is."""

    source: GlobalPlace
    row: str
    column: str
    axes: str
    values: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    blocks: tuple[int, ...] = ()
    pairs: bool = False
    shared: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DeferredFragmentPlace:
    """A fragment over rows and columns whose numbers are computed where they are used. number: emits one, in float32,
    by 64-row block and value of it."""

    element: str
    columns: int
    row_blocks: int
    number: Callable[[int, int], str]


PACKED_ELEMENTS = ("bf16", "f16")
OPERAND_AXES = "mk"
"""Of a fragment of 8-bit elements that is a product's left operand."""


@dataclass(frozen=True, slots=True)
class FragmentPlace:
    """A fragment in registers. blocks[b]: of the 64-row block b. Axes "mn": its values in wgmma's fragment order, those
    of 16 bits two to a register, which is the order of A's registers; others are float32. Axes "mk": the same of 8
    bits, four to a register (`fragment.narrow_operand`). Axes "m": a float32 for each row that the thread has, rows 0
    and 8 of its own."""

    blocks: tuple[tuple[str, ...], ...]
    columns: int
    axes: str
    element: str

    @property
    def row_blocks(self) -> int:
        """Blocks of 64 rows."""
        return len(self.blocks)

    @property
    def is_packed(self) -> bool:
        return self.axes == OPERAND_AXES or (self.axes == "mn" and self.element in PACKED_ELEMENTS)


@dataclass(frozen=True, slots=True)
class ScalesPlace:
    """Numbers at an accumulator's places, loaded. values: by row and column of this thread's first places that have
    them, row 0 for all unless `by_row`; run: columns that share one, 1 for pairs of a thread's own, 0 for all."""

    values: dict[tuple[int, int], str]
    by_row: bool
    run: int


@dataclass(frozen=True, slots=True)
class ScalesBase:
    """Where scales of slice 0 are. places: address and guard (empty: always inside) by row and column as in
    `ScalesPlace`; along: extent, stride in bytes, elements that share a number, of the contracted axis, if any."""

    places: dict[tuple[int, int], tuple[str, str]]
    by_row: bool
    run: int
    along: tuple[int | str, int, int] | None


@dataclass(frozen=True, slots=True)
class ComputedPlace:
    """An operand of a slot computed in registers. blocks[b][s]: registers of 64-row block b and step s, two elements in
    each, in the order of wgmma's A."""

    slot: SlotPlace
    blocks: tuple[tuple[tuple[str, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """Numbers along the contracted axis, by element from this thread's first one."""

    values: dict[int, str]


@dataclass(frozen=True, slots=True)
class ScalarPlace:
    register: str


@dataclass(frozen=True, slots=True)
class NoPlace:
    """A token with no run-time content."""


Place = (
    RingPlace
    | BufferPlace
    | TensorMemoryPlace
    | ParameterPlace
    | GlobalPlace
    | CursorPlace
    | SlotPlace
    | FactorsPlace
    | IndexPlace
    | AccumulatorPlace
    | LoadedFragmentPlace
    | DeferredFragmentPlace
    | FragmentPlace
    | ScalesPlace
    | ComputedPlace
    | VectorPlace
    | ScalarPlace
    | NoPlace
)

Places = dict[SSAValue, Place]


def registers_of(place: Place) -> tuple[tuple[str, str], ...]:
    """(kind, register) pairs that carry a value around a loop."""
    match place:
        case CursorPlace(stage, parity):
            return (("b32", stage), ("b32", parity))
        case SlotPlace(_, stage):
            return (("b32", stage),)
        case IndexPlace(register):
            return (("b32", register),)
        case AccumulatorPlace(blocks, _):
            return tuple(("f32", register) for block in blocks for register in block)
        case FragmentPlace(blocks):
            kind = "b32" if place.is_packed else "f32"
            return tuple((kind, register) for block in blocks for register in block)
        case ScalesPlace(values):
            return tuple(("f32", register) for register in values.values())
        case _:
            return ()


def with_registers(place: Place, registers: tuple[str, ...]) -> Place:
    """`place` with its registers replaced, in the order of `registers_of`."""
    match place:
        case CursorPlace():
            return CursorPlace(registers[0], registers[1])
        case SlotPlace(ring, _):
            return SlotPlace(ring, registers[0])
        case IndexPlace():
            return IndexPlace(registers[0])
        case AccumulatorPlace(blocks, n):
            return AccumulatorPlace(_split_alike(registers, blocks), n)
        case FragmentPlace(blocks):
            return replace(place, blocks=_split_alike(registers, blocks))
        case ScalesPlace(values, by_row, run):
            return ScalesPlace(dict(zip(values, registers, strict=True)), by_row, run)
        case _:
            return place


def _split_alike(registers: tuple[str, ...], blocks: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Registers in blocks as long as these, which are all as long as the first."""
    width = len(blocks[0])
    return tuple(registers[index * width : (index + 1) * width] for index in range(len(blocks)))
