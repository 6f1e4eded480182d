"""The asynchronous contract: a kernel as roles that exchange linear tokens over barriers, copies and tensor-core
groups.

What a value of each type means:

- `!ac.ring_type<ring, stages>`: `stages` slots guarded by pairs of mbarriers, full[s] and empty[s].
- `!ac.cursor<ring>`: a position in a ring, the pair (stage, parity). `advance` moves it one slot.
- `!ac.phase<ring, side>`: the right to a slot, obtained by waiting. side "empty": may be filled; "full": may be read;
  "retired": was read and nothing reads it any more. Linear: used exactly once.
- `!ac.tx<ring, bytes>`: a slot being filled, of which `bytes` bytes are announced and not yet issued. Linear.
- `!ac.reading<ring>`: a slot that a wgmma in flight reads. Linear.
- `!ac.inflight<m, n>` and `!ac.acc<m, n>`: an accumulator owned by the tensor core (linear), and by the
  threads (read as often as they like).
- `!ac.fragment<m, n, axes, element>`: values distributed over a warpgroup's registers like an accumulator.
- `!ac.staged<buffer, state>`: bytes of an output tile in shared memory: "written" by generic stores, "fenced" towards
  the async proxy, "ready" for the copy engine. Linear.

Loops, types, epilogues, two-level accumulation, operands from registers, copies by threads and tiles that CTAs share
through memory stand in `ac.loops`, `ac.types`, `ac.epilogue`, `ac.promotion`, `ac.register_operand`, `ac.async_copy`
and `ac.stream`; they belong to the same dialect (`ac.dialect`). What most kernels have is named here too, as
`ac.LoopOp`.

Types make most misuse unrepresentable within one block; what crosses loops, groups and roles (phases, parities, counts,
reuse before release, deadlock) is proved by `contract`. `ac.format` says how ops are written. Emission is
`lower`'s. Checked by: tests/ir/ac/test_text.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyOf,
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from tilewright.ir.ac.affine import AffineOp, ExtentOp, IndexDivideOp, IndexLoadOp, IndexNumberOp
from tilewright.ir.ac.epilogue import (
    BulkCommitOp,
    BulkWaitOp,
    ConstantOp,
    CopyStoreOp,
    FenceProxyOp,
    FragmentLoadOp,
    GlobalStoreOp,
    NamedBarrierSyncOp,
    RoundOp,
    RowsStoreOp,
    ScalarOp,
    StageWriteOp,
)
from tilewright.ir.ac.format import AcOperation, Values, types_of
from tilewright.ir.ac.loops import (
    TILE_INDICES,
    GroupTilesOp,
    LoopOp,
    NextGroupTileOp,
    RangeOp,
    TilesOp,
    TurnGroupTilesOp,
    TurnPassOp,
    TurnTilesOp,
    UnitPassOp,
    UnitRangeOp,
    YieldOp,
)
from tilewright.ir.ac.types import (
    PHASE_SIDES,
    AccumulatorType,
    CursorType,
    DescriptorType,
    FragmentType,
    GlobalType,
    IndexType,
    InflightType,
    PhaseType,
    ReadingType,
    RingType,
    ScalarType,
    StagedType,
    TransactionType,
    issued_types,
)
from tilewright.ir.sizes import AnySize
from tilewright.ir.tier import ExecutionAttr, MemoryType

__all__ = [
    "TILE_INDICES", "AffineOp", "BulkCommitOp", "BulkWaitOp", "ConstantOp", "CopyStoreOp", "ExtentOp", "FenceProxyOp",
    "FragmentLoadOp", "FragmentType", "GlobalStoreOp", "IndexDivideOp", "IndexLoadOp", "IndexNumberOp", "LoopOp",
    "NamedBarrierSyncOp", "NextGroupTileOp", "RangeOp", "RoundOp", "RowsStoreOp", "ScalarOp", "StageWriteOp",
    "StagedType", "TilesOp", "TurnPassOp", "UnitPassOp", "UnitRangeOp", "YieldOp",
]  # fmt: skip
"""Named here besides what this module defines."""

# ---------------------------------------------------------------- structure


@irdl_op_definition
class KernelOp(AcOperation):
    """One kernel. symbols: trip counts by name (`{K = 64, tiles = 128}`), for which `contract` proves *all* values
    from their declared minimum (`minima`). grid, cluster, block: three integers each. ranges: of axes whose extents
    only a launch knows; sizes that depend on them (`#ac.size`) stand in the grid, in extents of arrays and maps and in
    counts of tiles, and `symbols` has what these make of the largest extents. counts: of symbols that loops run to
    (`ac.loop`), sizes that their values are where a run-time extent has a part in them."""

    name = "ac.kernel"
    sym_name = prop_def(StringAttr)
    symbols = prop_def(DictionaryAttr)
    minima = prop_def(DictionaryAttr)
    ranges = opt_prop_def(DictionaryAttr)
    counts = opt_prop_def(DictionaryAttr)
    grid = prop_def(ArrayAttr[AnySize])
    cluster = prop_def(ArrayAttr[IntAttr])
    block = prop_def(ArrayAttr[IntAttr])
    dynamic_smem_bytes = prop_def(IntAttr)
    launch_registers = prop_def(IntAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())


@irdl_op_definition
class RingOp(AcOperation):
    """full[s] at `address + 8 s`, empty[s] at `address + 8 (stages + s)`, in bytes of dynamic shared memory.

    full_arrivals and empty_arrivals are the counts that `init` gives them.
    """

    name = "ac.ring"
    sym_name = prop_def(StringAttr)
    stages = prop_def(IntAttr)
    full_arrivals = prop_def(IntAttr)
    empty_arrivals = prop_def(IntAttr)
    address = prop_def(IntAttr)
    result = result_def(RingType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        name, stages = properties.get("sym_name"), properties.get("stages")
        if not isinstance(name, StringAttr) or not isinstance(stages, IntAttr):
            return {}
        return {"result": RingType(name, cast("IntAttr", stages))}


@irdl_op_definition
class BufferOp(AcOperation):
    """Shared memory at `address`: `slots` slots, `instances` times (one per warpgroup of the role that uses it).

    ring: the ring whose slot s guards slot s of this buffer; absent for staging buffers. first_thread: of slots in
    which each thread from there on has a word of its own, for registers (`lower.ptx.spill_slots`); no op names them.
    """

    name = "ac.buffer"
    sym_name = prop_def(StringAttr)
    address = prop_def(IntAttr)
    instances = prop_def(IntAttr)
    ring = opt_prop_def(StringAttr)
    first_thread = opt_prop_def(IntAttr)
    result = result_def(MemoryType)


@irdl_op_definition
class TensorMapOp(AcOperation):
    """A kernel parameter that is a tensor map of global buffer `buffer`. Index 0 is the innermost dimension."""

    name = "ac.tensor_map"
    sym_name = prop_def(StringAttr)
    buffer = prop_def(StringAttr)
    element = prop_def(StringAttr)
    dims = prop_def(ArrayAttr[AnySize])
    strides_bytes = prop_def(ArrayAttr[AnySize])
    box = prop_def(ArrayAttr[IntAttr])
    l2_promotion = prop_def(StringAttr)
    result = result_def(DescriptorType)


@irdl_op_definition
class GlobalOp(AcOperation):
    """A kernel parameter that is a pointer. shape and strides in elements, outermost first."""

    name = "ac.global"
    sym_name = prop_def(StringAttr)
    buffer = prop_def(StringAttr)
    shape = prop_def(ArrayAttr[AnySize])
    strides = prop_def(ArrayAttr[AnySize])
    result = result_def(GlobalType)


@irdl_op_definition
class GlobalPartOp(AcOperation):
    """What lies at an index along one dimension (0 the outermost) of a declared array, as an array without it."""

    name = "ac.global.part"
    dimension = prop_def(IntAttr)
    source = operand_def(GlobalType)
    index = operand_def(IndexType)
    result = result_def(GlobalType)


@irdl_op_definition
class RoleOp(AcOperation):
    """What `execution` units do, in parallel with the other roles. registers: per thread after setmaxnreg (0: keep).

    The region's argument is the unit's index in its role. A role of unit thread1 is one thread of the
    warpgroup that begins at its first thread; the warpgroup's other threads do nothing. elected: 1 if it is whichever
    thread of the first warp `elect.sync` gives, else the first one. warp_rows: how many rows after
    those of a warp the next one's begin, in fragments and whatever is stored of them; 16 where it is left out. leader:
    1 if only the first CTA of each pair has the role, which does its work for both (`ir.ac.tensor_memory`).
    """

    name = "ac.role"
    ARGUMENT_NAMES: ClassVar[tuple[str, ...]] = ("unit",)
    sym_name = prop_def(StringAttr)
    execution = prop_def(ExecutionAttr)
    registers = prop_def(IntAttr)
    warp_rows = opt_prop_def(IntAttr)
    leader = opt_prop_def(IntAttr)
    elected = opt_prop_def(IntAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())


GroupLoop = GroupTilesOp | TurnGroupTilesOp
TurnLoop = TurnTilesOp | TurnGroupTilesOp
GROUP_INDICES = 4
"""Region arguments of `ac.group_tiles` before the carried ones."""
GROUP_INDEX = 2
"""Which of them is the group."""


# ---------------------------------------------------------------- set-up and whole-CTA synchronization


@irdl_op_definition
class BarrierInitOp(AcOperation):
    """One thread initialises every barrier of a ring."""

    name = "ac.mbarrier.init"
    ring = operand_def(RingType)


@irdl_op_definition
class FenceBarrierInitOp(AcOperation):
    """fence.mbarrier_init.release.cluster by the thread that initialised."""

    name = "ac.fence.mbarrier_init"


@irdl_op_definition
class CtaSyncOp(AcOperation):
    """All threads of the CTA."""

    name = "ac.cta.sync"


@irdl_op_definition
class GridWaitOp(AcOperation):
    """The threads that execute it wait for the launches before, whose results the whole grid may then see
    (griddepcontrol.wait): every thread, before any role, or those of a role. A kernel that has one is launched while
    the one before may still run; in a first kernel it does nothing."""

    name = "ac.grid.wait"


@irdl_op_definition
class PrefetchOp(AcOperation):
    """Ask for slices of the CTA's first tile to be brought into the L2 cache: a hint, which no thread waits for.

    Thread t of the first `slices` asks for slice t * s + r of the contracted axis, of `slice_depth` elements, where s
    is the cluster's extent along z and r the CTA's place there. The tile is the first of `ac.tiles` of the same counts;
    its boxes begin at `extent` times its index along `dimension` (0 for m) plus each of `outer_offsets`, and at each of
    `depth_offsets` in the slice. depth_inner: 1 if the contracted axis is the map's innermost.
    """

    name = "ac.tma.prefetch"
    tiles_m = prop_def(AnySize)
    tiles_n = prop_def(AnySize)
    raster_group = prop_def(IntAttr)
    order = opt_prop_def(StringAttr)
    dimension = prop_def(IntAttr)
    extent = prop_def(IntAttr)
    slices = prop_def(IntAttr)
    slice_depth = prop_def(IntAttr)
    outer_offsets = prop_def(ArrayAttr[IntAttr])
    depth_offsets = prop_def(ArrayAttr[IntAttr])
    depth_inner = prop_def(IntAttr)
    descriptor = operand_def(DescriptorType)


@irdl_op_definition
class BoxPrefetchOp(AcOperation):
    """Ask for a box to be brought into the L2 cache: a hint, which no thread waits for. coordinates: innermost first,
    in elements."""

    name = "ac.tma.prefetch_box"
    descriptor = operand_def(DescriptorType)
    coordinates = var_operand_def(IndexType)


@irdl_op_definition
class GridReleaseOp(AcOperation):
    """The next launch may begin once every CTA has said so, by whichever thread, or has ended; what this one writes is
    still seen only by those who wait (griddepcontrol.launch_dependents)."""

    name = "ac.grid.release"


@irdl_op_definition
class ClusterSyncOp(AcOperation):
    """All threads of the cluster: arrive (release) and wait (acquire)."""

    name = "ac.cluster.sync"


# ---------------------------------------------------------------- rings


@irdl_op_definition
class CursorStartOp(AcOperation):
    """Slot 0, first round. side: "empty" for a filler, whose first waits pass at once; "full" for a reader."""

    name = "ac.cursor.start"
    LEAD: ClassVar[tuple[str, ...]] = ("side",)
    side = prop_def(StringAttr)
    ring = operand_def(RingType)
    result = result_def(CursorType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        rings = types_of(RingType, operands, "ring")
        return {"result": CursorType(rings[0].ring)} if rings else {}


@irdl_op_definition
class AdvanceOp(AcOperation):
    name = "ac.advance"
    cursor = operand_def(CursorType)
    result = result_def(CursorType)


@irdl_op_definition
class BarrierWaitOp(AcOperation):
    """Wait on full[stage] or empty[stage] of the cursor, for the parity that the cursor holds (`invert_parity` waits
    for the other one, as a filler's cursor must on empty barriers). issuer: 1 if a unit's first warp alone waits, for a
    slot that is only multiplied from tensor memory's side (`ac.tensor`; 0 where absent)."""

    name = "ac.mbarrier.wait"
    LEAD: ClassVar[tuple[str, ...]] = ("side",)
    side = prop_def(StringAttr)
    invert_parity = prop_def(IntAttr)
    issuer = opt_prop_def(IntAttr)
    ring = operand_def(RingType)
    cursor = operand_def(CursorType)
    result = result_def(PhaseType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        side, rings = properties.get("side"), types_of(RingType, operands, "ring")
        if not rings or not isinstance(side, StringAttr) or side.data not in PHASE_SIDES:
            return {}
        return {"result": PhaseType(rings[0].ring, side)}


@irdl_op_definition
class DrainOp(AcOperation):
    """A filler waits at its end until every slot of the ring is free. cursor: behind the last slot that it filled.

    Whoever releases a slot by the tensor core (`ac.tensor.release`) waits for no arrival: that comes at any later time,
    and must find the barrier still there."""

    name = "ac.mbarrier.drain"
    ring = operand_def(RingType)
    cursor = operand_def(CursorType)


@irdl_op_definition
class ArriveExpectOp(AcOperation):
    """mbarrier.arrive.expect_tx on the slot's full barrier. elected: 1 if the first thread of a warpgroup does it for
    its unit (0 where absent). leader: 1 if on that of the first CTA of the pair, which both CTAs of it do."""

    name = "ac.mbarrier.arrive_expect_tx"
    bytes = prop_def(IntAttr)
    elected = opt_prop_def(IntAttr)
    leader = opt_prop_def(IntAttr)
    phase = operand_def(PhaseType)
    result = result_def(TransactionType)


@irdl_op_definition
class CopyIssueOp(AcOperation):
    """One bulk tensor load of a box into the slot, at `offset_bytes` (plus `rank_offset_bytes` times the CTA's rank in
    the cluster).

    multicast: 1 for this CTA alone; c for all c CTAs of the cluster, where by symmetry each slot receives c such boxes
    and the token pays for all of them. coordinates: innermost first, in elements; where the
    CTAs share a box's axis, the rank times `rank_elements` is added to coordinate `rank_dimension`. elected: 1 if the
    first thread of a warpgroup issues it for its unit (0 where absent). evict_first: 1 if the L2 cache may give the
    bytes up first, a hint (0 where absent). leader: 1 if the bytes count on the full barrier of the pair's first CTA.
    """

    name = "ac.tma.issue"
    elected = opt_prop_def(IntAttr)
    evict_first = opt_prop_def(IntAttr)
    offset_bytes = prop_def(IntAttr)
    rank_offset_bytes = prop_def(IntAttr)
    rank_dimension = opt_prop_def(IntAttr)
    rank_elements = opt_prop_def(IntAttr)
    box_bytes = prop_def(IntAttr)
    multicast = prop_def(IntAttr)
    leader = opt_prop_def(IntAttr)
    descriptor = operand_def(DescriptorType)
    buffer = operand_def(MemoryType)
    tx = operand_def(TransactionType)
    coordinates = var_operand_def(IndexType)
    result = result_def(TransactionType)

    def verify_(self) -> None:
        paid = self.box_bytes.data * self.multicast.data
        before, after = self.tx.type, self.result.type
        assert isinstance(before, TransactionType) and isinstance(after, TransactionType)
        if before.bytes.data - paid != after.bytes.data:
            raise VerifyException(
                f"the copy moves {paid} bytes, so {before.bytes.data} announced bytes leave "
                f"{before.bytes.data - paid}, not {after.bytes.data}"
            )


@irdl_op_definition
class TransactionCloseOp(AcOperation):
    """The slot is filled as far as its issuer is concerned: no announced byte is left to issue."""

    name = "ac.tx.close"
    tx = operand_def(TransactionType)


@irdl_op_definition
class ArriveOp(AcOperation):
    """Release a slot: one arrival on its empty barrier, in each of `peers` CTAs of the cluster. first: 1 if arithmetic
    that follows may not be moved before it. leader: 1 if it is one arrival, on the barrier of the pair's first CTA."""

    name = "ac.mbarrier.arrive"
    peers = prop_def(IntAttr)
    first = opt_prop_def(IntAttr)
    leader = opt_prop_def(IntAttr)
    phase = operand_def(PhaseType)


# ---------------------------------------------------------------- tensor core


@irdl_op_definition
class WgmmaFenceOp(AcOperation):
    name = "ac.wgmma.fence"


@irdl_op_definition
class WgmmaIssueOp(AcOperation):
    """Multiply the slot's A and B tiles into an accumulator: `steps` wgmma of depth 16 for each 64-row block.

    No accumulator operand means that the first step overwrites (scale-d 0). A's rows for warpgroup w begin at
    `a_instance_bytes * w`. Strides in bytes: leading and stride offsets of the matrix descriptors, the advance
    from one 16-deep step to the next, and from one 64-row block to the next.

    a_phase: of the slot that A lies in, where that is another than B's, of another ring; a_reading is then what
    `reading` is of B's. Slots may be full, or retired: what was multiplied and waited for may be multiplied again.
    """

    name = "ac.wgmma.issue"
    m = prop_def(IntAttr)
    n = prop_def(IntAttr)
    steps = prop_def(IntAttr)
    element = prop_def(StringAttr)
    a_major = prop_def(StringAttr)
    a_leading_bytes = prop_def(IntAttr)
    a_stride_bytes = prop_def(IntAttr)
    a_step_bytes = prop_def(ArrayAttr[IntAttr])
    a_block_bytes = prop_def(IntAttr)
    a_instance_bytes = prop_def(IntAttr)
    b_major = prop_def(StringAttr)
    b_leading_bytes = prop_def(IntAttr)
    b_stride_bytes = prop_def(IntAttr)
    b_step_bytes = prop_def(ArrayAttr[IntAttr])
    phase = operand_def(PhaseType)
    a = operand_def(MemoryType)
    b = operand_def(MemoryType)
    unit = operand_def(IndexType)
    accumulator = opt_operand_def(InflightType)
    a_phase = opt_operand_def(PhaseType)
    inflight = result_def(InflightType)
    reading = result_def(ReadingType)
    a_reading = opt_result_def(ReadingType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        issued = issued_types(properties, [kind.ring for kind in types_of(PhaseType, operands, "phase")])
        resident = types_of(PhaseType, operands, "a_phase")
        return {**issued, "a_reading": ReadingType(resident[0].ring)} if issued and resident else issued


@irdl_op_definition
class WgmmaCommitOp(AcOperation):
    name = "ac.wgmma.commit"


@irdl_op_definition
class WgmmaWaitOp(AcOperation):
    """Wait until at most `pending` committed groups are in flight; hand back what is then known to be done. A slot that
    was retired is still held: it may be multiplied again, and is refilled only once it was released."""

    name = "ac.wgmma.wait"
    pending = prop_def(IntAttr)
    reading = opt_operand_def(ReadingType)
    accumulator = opt_operand_def(InflightType)
    retired = opt_result_def(PhaseType)
    settled = opt_result_def(AccumulatorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True), AttrSizedResultSegments(as_property=True))


# ---------------------------------------------------------------- split products


@irdl_op_definition
class SplitIndexOp(AcOperation):
    """Which of the CTAs that share one output tile this one is: its place along z in the cluster, whose extent along z
    is how many there are. Tiles are dealt out to clusters and to their CTAs along x and y (`ac.tiles`)."""

    name = "ac.split.index"
    result = result_def(IndexType)


@irdl_op_definition
class ClusterReduceOp(AcOperation):
    """Sum the accumulators of the same unit of every CTA of the cluster, in the order of their ranks; each CTA gets an
    equal part of the columns, that of its rank along z. How many parts there are follows from the result's columns;
    where fewer than CTAs, those past the first get nothing, and what they hold as their sum may not be used
    (`ac.split`).

    The ring has one slot, and so has the buffer that it guards: room for the parts of this CTA's columns from each CTA,
    or from the other one of two (`ac_split.contributions`).
    Each unit waits until its cursor's slot is empty in every CTA, that is, until all units of the cluster have released
    this CTA's empty barrier; announces on its own CTA's full barrier what will come for it, which is the arrival that
    this barrier counts; writes every part into the buffer of the CTA that it belongs to, whose full barrier counts the
    bytes; waits for its own CTA's full barrier, reads and sums; its threads meet on named barrier `first_barrier` +
    unit, and one arrives on the empty barrier of every CTA. Writes and arrivals are released, and waits
    acquire, at cluster scope. Every unit of the role in every CTA of the cluster takes part.
    """

    name = "ac.cluster.reduce"
    first_barrier = prop_def(IntAttr)
    ring = operand_def(RingType)
    cursor = operand_def(CursorType)
    accumulator = operand_def(AccumulatorType)
    buffer = operand_def(MemoryType)
    unit = operand_def(IndexType)
    following = result_def(CursorType)
    sum = result_def(AccumulatorType)


# ---------------------------------------------------------------- plain element-by-element kernels


@irdl_op_definition
class ElementwiseOp(AcOperation):
    """Every thread of the grid runs the body for its share of the points of `extents` (outermost first).

    run: neighbouring points of the last extent, which it divides, that one thread takes together; 1 where there is
    none. Stores are dense along the last extent then, and each run begins at a multiple of 16 bytes of its array.
    Region arguments: one index per extent.

    rows: how units of threads share rows of points along the last extent (`ir.rows`); then `ac.fold` may stand in the
    region. What does not depend on the last index may be stored without it, by one thread of the unit. Units of several
    warps meet in the buffer `through`.

    transpose: how warps turn tiles of points, so that loads and stores run along different axes (`ir.transpose`); each
    goes through a part of its own of the buffer `through`. kept: 1 where the launch after it reads what it stores, and
    the L2 cache is to keep that rather than what it loads in runs.
    """

    name = "ac.elementwise"
    extents = prop_def(ArrayAttr[AnySize])
    run = opt_prop_def(IntAttr)
    transpose = opt_prop_def(DictionaryAttr)
    rows = opt_prop_def(DictionaryAttr)
    kept = opt_prop_def(IntAttr)
    through = var_operand_def(MemoryType)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())


@irdl_op_definition
class ElementLoadOp(AcOperation):
    """One element as float32. `fill` 1 gives 0 outside the array; `fill` 0 promises that the indices lie inside."""

    name = "ac.element.load"
    fill = prop_def(IntAttr)
    source = operand_def(GlobalType)
    indices = var_operand_def(IndexType)
    result = result_def(ScalarType)


@irdl_op_definition
class FoldOp(AcOperation):
    """A scalar at every point of a row, folded by a function of `ir.function.REDUCERS`: the same at each of them."""

    name = "ac.fold"
    LEAD: ClassVar[tuple[str, ...]] = ("function",)
    function = prop_def(StringAttr)
    value = operand_def(ScalarType)
    result = result_def(ScalarType)


@irdl_op_definition
class ArgFoldOp(AcOperation):
    """Where along its row a scalar is largest (`max`) or smallest (`min`): the least index, the same at each point of
    the row. NaN counts as larger and as smaller than all numbers."""

    name = "ac.argfold"
    LEAD: ClassVar[tuple[str, ...]] = ("function",)
    function = prop_def(StringAttr)
    value = operand_def(ScalarType)
    result = result_def(IndexType)


@irdl_op_definition
class ElementStoreOp(AcOperation):
    """A scalar, rounded to the array's element; or an index, in an array of integers."""

    name = "ac.element.store"
    value = operand_def(AnyOf((base(ScalarType), base(IndexType))))
    destination = operand_def(GlobalType)
    indices = var_operand_def(IndexType)


def kernel_of(op: Operation) -> KernelOp:
    """The kernel that an op stands in."""
    parent = op.parent_op()
    while not isinstance(parent, KernelOp):
        assert parent is not None, "an op of this dialect stands in a kernel"
        parent = parent.parent_op()
    return parent
