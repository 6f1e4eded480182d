"""Correct matrix products are proven, what is not understood stays unknown, and claims say what the program does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.gemm_program import Shape, gemm, reparsed
from xdsl.dialects import test as unknown_dialect
from xdsl.dialects.builtin import DictionaryAttr, IntAttr, ModuleOp, StringAttr, UnregisteredOp
from xdsl.ir import Block, Operation, Region

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.claims import RingClaim
from tilewright.contract.typestate.polynomial import variable
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentMapOp
from tilewright.ir.tier import ExecutionAttr, int_array
from tilewright.targets import target

HOPPER = target("sm_90a")

SHAPES = [
    Shape(),
    Shape(stages=2),
    Shape(stages=7, consumers=1),
    Shape(stages=3, consumers=3),
    Shape(stages=3, blocks=2),
    Shape(store="plain"),
    Shape(staging=1),
    Shape(cluster=2),
    Shape(cluster=4, stages=3),
    Shape(cluster=2, consumers=1, store="plain"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_correct_program_is_proven_for_all_trip_counts(shape: Shape) -> None:
    module = gemm(shape)
    module.verify()
    for candidate in (module, reparsed(module)):
        verdict = verify(candidate, HOPPER)
        assert isinstance(verdict, Proven), verdict
        assert verdict.scope == "all trip counts"


@given(
    stages=st.integers(2, 4),
    consumers=st.integers(1, 3),
    store=st.sampled_from(["bulk", "plain"]),
    staging=st.integers(1, 2),
    cluster=st.sampled_from([1, 2]),
)
@settings(max_examples=15, deadline=None)
def test_every_shape_with_two_stages_or_more_is_proven(**fields: Any) -> None:
    assert isinstance(verify(gemm(Shape(**fields)), HOPPER), Proven)


def test_staging_slots_that_do_not_divide_the_chunks_race_in_the_next_tile() -> None:
    """Two chunks on slots 0 and 1 of three: the next tile begins with slot 0 again, one store sooner than it may."""
    verdict = verify(gemm(Shape(staging=3, stages=3)), HOPPER)
    assert isinstance(verdict, Refuted)
    assert {finding.code for finding in verdict.findings} == {"BG001"}


def test_one_stage_hangs_and_the_run_shows_it() -> None:
    verdict = verify(gemm(Shape(stages=1)), HOPPER)
    assert isinstance(verdict, Refuted)
    (finding,) = verdict.findings
    assert finding.code == "LV005"
    assert finding.interleaving[0] == "with K = 2, tiles = 1:"
    assert "producer: waits forever" in finding.interleaving


def test_places_come_from_the_caller() -> None:
    module = gemm(Shape(stages=1))
    verdict = verify(module, HOPPER, lambda op: Span("matmul.py", 7, text=op.name))
    assert isinstance(verdict, Refuted)
    assert verdict.findings[0].primary == Span("matmul.py", 7, text="ac.mbarrier.wait")


# ---------------------------------------------------------------- what is not understood


def _role(module: ModuleOp, number: int) -> ac.RoleOp:
    return [op for op in module.walk() if isinstance(op, ac.RoleOp)][number]


def _unknown(module: ModuleOp) -> tuple[str, ...]:
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown), verdict
    return verdict.reasons


def test_unknown_operations_are_never_proven() -> None:
    for place in range(3):
        module = gemm()
        kernel = module.body.block.first_op
        assert isinstance(kernel, ac.KernelOp)
        blocks: list[Block] = [module.body.block, kernel.body.block, _role(module, 1).body.block]
        first = blocks[place].first_op
        assert first is not None
        blocks[place].insert_op_before(unknown_dialect.TestOp(), first)
        assert any("not understood" in reason for reason in _unknown(module))


def test_unknown_operation_inside_an_elementwise_region() -> None:
    module = gemm()
    (region,) = [op for op in module.walk() if isinstance(op, FragmentMapOp)]
    first = region.body.block.first_op
    assert first is not None
    region.body.block.insert_op_before(unknown_dialect.TestOp(), first)
    assert any("not understood inside ac.fragment.map" in reason for reason in _unknown(module))


def test_unregistered_operation_is_unknown() -> None:
    module = gemm()
    op = UnregisteredOp.with_name("ac.newer").create(attributes={"op_name__": StringAttr("ac.newer")})
    block = _role(module, 0).body.block
    assert block.first_op is not None
    block.insert_op_before(op, block.first_op)
    assert _unknown(module)


def test_unknown_attribute_is_unknown() -> None:
    module = gemm()
    _role(module, 0).attributes["priority"] = IntAttr(1)
    assert any("priority" in reason for reason in _unknown(module))


def test_missing_property_is_unknown() -> None:
    module = gemm()
    loop = next(op for op in module.walk() if isinstance(op, ac.TilesOp))
    del loop.properties["raster_group"]
    assert any("malformed" in reason for reason in _unknown(module))


def test_symbol_without_a_minimum_is_unknown() -> None:
    module = gemm()
    kernel = module.body.block.first_op
    assert isinstance(kernel, ac.KernelOp)
    kernel.properties["minima"] = DictionaryAttr({"tiles": IntAttr(0)})
    assert any("no symbol" in reason for reason in _unknown(module))


def test_minimum_below_the_first_index_is_refuted_by_the_run() -> None:
    """With K = 0 the producer fills nothing and the consumer's first wait never returns."""
    module = gemm()
    kernel = module.body.block.first_op
    assert isinstance(kernel, ac.KernelOp)
    kernel.properties["minima"] = DictionaryAttr({"K": IntAttr(0), "tiles": IntAttr(0)})
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted)
    assert verdict.findings[0].code in ("LV004", "LV005")


def test_symbol_below_its_minimum() -> None:
    module = gemm()
    kernel = module.body.block.first_op
    assert isinstance(kernel, ac.KernelOp)
    kernel.properties["minima"] = DictionaryAttr({"K": IntAttr(65), "tiles": IntAttr(0)})
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted)
    assert [finding.code for finding in verdict.findings] == ["LV009"]


def test_a_second_ring_that_is_used_once_is_proven_beside_the_first() -> None:
    module = gemm(Shape(store="plain"))
    kernel = module.body.block.first_op
    assert isinstance(kernel, ac.KernelOp)
    ring = next(op for op in module.walk() if isinstance(op, ac.RingOp))
    name, address = StringAttr("other"), ring.address.data + 16 * ring.stages.data
    other = ac.RingOp.create(
        properties={**ring.properties, "sym_name": name, "address": IntAttr(address)},
        result_types=[ac.RingType(name, ring.stages)],
    )
    kernel.body.block.insert_op_after(other, ring)
    init = next(op for op in module.walk() if isinstance(op, ac.BarrierInitOp))
    kernel.body.block.insert_op_after(ac.BarrierInitOp.create(operands=[other.result]), init)
    kernel.properties["dynamic_smem_bytes"] = IntAttr(address + 16 * ring.stages.data)
    for number, side in enumerate(("empty", "full")):
        block = _role(module, number).body.block
        cursor = ac.CursorStartOp.create(
            operands=[other.result], properties={"side": StringAttr(side)}, result_types=[ac.CursorType(name)]
        )
        wait = ac.BarrierWaitOp.create(
            operands=[other.result, cursor.result],
            properties={"side": StringAttr(side), "invert_parity": IntAttr(1 - number)},
            result_types=[ac.PhaseType(name, StringAttr(side))],
        )
        if side == "empty":
            announce = ac.ArriveExpectOp.create(
                operands=[wait.result],
                properties={"bytes": IntAttr(0)},
                result_types=[ac.TransactionType(name, IntAttr(0))],
            )
            ends: list[Operation] = [announce, ac.TransactionCloseOp.create(operands=[announce.result])]
        else:
            ends = [ac.ArriveOp.create(operands=[wait.result], properties={"peers": IntAttr(1)})]
        assert block.first_op is not None
        block.insert_ops_before([cursor, wait, *ends], block.first_op)
    (claims,) = protocol_claims(module, HOPPER)
    assert {ring.name: str(ring.fills) for ring in claims.rings} == {"ab": "K*tiles", "other": "1"}


def test_fragments_do_not_outlive_their_tile() -> None:
    """A fragment's registers are overwritten by the next tile's wgmma."""
    module = gemm(Shape(store="plain"))
    tiles = [op for op in module.walk() if isinstance(op, ac.TilesOp)][1]
    fragment = next(op for op in module.walk() if isinstance(op, FragmentMapOp)).outputs[0]
    start = tiles.carried[0]
    made = ac.FragmentLoadOp.create(
        operands=[next(op for op in module.walk() if isinstance(op, ac.GlobalOp)).result],
        result_types=[fragment.type],
    )
    row = ac.AffineOp.create(
        properties={"coefficients": int_array([]), "constant": IntAttr(0)}, result_types=[ac.IndexType()]
    )
    made.operands = [made.operands[0], row.result, row.result]
    block, last = tiles.parent_block(), tiles.body.block.last_op
    assert block is not None and last is not None
    block.insert_ops_before([row, made], tiles)
    tiles.body.block.insert_arg(fragment.type, len(tiles.body.block.args))
    last.operands = [*last.operands, fragment]
    wider = ac.TilesOp.create(
        operands=[start, made.result],
        result_types=[start.type, fragment.type],
        properties=tiles.properties,
        regions=[tiles.detach_region(tiles.body)],
    )
    block.insert_op_after(wider, tiles)
    tiles.detach()
    assert any("from one iteration to the next" in reason for reason in _unknown(module))


def test_output_that_is_also_an_input_is_unknown() -> None:
    module = gemm()
    for op in module.walk():
        if isinstance(op, ac.TensorMapOp) and op.sym_name.data == "c_map":
            op.properties["buffer"] = StringAttr("A")
    assert any("A is read and stored" in reason for reason in _unknown(module))


def test_tiles_that_overlap_in_the_output_are_unknown() -> None:
    module = gemm()
    affine = [op for op in module.walk() if isinstance(op, ac.AffineOp)][-1]
    affine.properties["coefficients"] = int_array([64])
    assert any("store an element of C twice" in reason for reason in _unknown(module))


def test_empty_module_is_unknown() -> None:
    assert _unknown(ModuleOp([])) == ("the module has no ac.kernel",)


# ---------------------------------------------------------------- element-by-element kernels


def elementwise(*, indices: tuple[int, ...] = (0, 1), same_buffer: bool = False, shifted: bool = False) -> ModuleOp:
    """y[i, j] = x[i, j] over 8 x 8; indices: which of the region's arguments the store uses."""
    kernel_block, role_block = Block(), Block(arg_types=[ac.IndexType()])
    region = Block(arg_types=[ac.IndexType(), ac.IndexType()])
    arrays: list[Operation] = []
    for name in ("x", "y"):
        properties = {
            "sym_name": StringAttr(name),
            "buffer": StringAttr("x" if same_buffer else name),
            "shape": int_array([8, 8]),
            "strides": int_array([8, 1]),
        }
        kind = ac.GlobalType(StringAttr("f32"), IntAttr(2))
        arrays.append(ac.GlobalOp.create(properties=properties, result_types=[kind]))
    places = list(region.args)
    if shifted:
        shift = ac.AffineOp.create(
            operands=[region.args[1]],
            properties={"coefficients": int_array([1]), "constant": IntAttr(1)},
            result_types=[ac.IndexType()],
        )
        region.add_op(shift)
        places[1] = shift.result
    load = ac.ElementLoadOp.create(
        operands=[arrays[0].results[0], *places], properties={"fill": IntAttr(1)}, result_types=[ac.ScalarType()]
    )
    store = ac.ElementStoreOp.create(
        operands=[load.result, arrays[1].results[0], *(region.args[number] for number in indices)]
    )
    region.add_ops([load, store])
    role_block.add_op(ac.ElementwiseOp.create(properties={"extents": int_array([8, 8])}, regions=[Region(region)]))
    role = ac.RoleOp.create(
        properties={
            "sym_name": StringAttr("threads"),
            "execution": ExecutionAttr(StringAttr("warp32"), IntAttr(2), IntAttr(0)),
            "registers": IntAttr(0),
        },
        regions=[Region(role_block)],
    )
    kernel_block.add_ops([*arrays, role])
    kernel = ac.KernelOp.create(
        properties={
            "sym_name": StringAttr("copy"),
            "symbols": DictionaryAttr({}),
            "minima": DictionaryAttr({}),
            "grid": int_array([4, 1, 1]),
            "cluster": int_array([1, 1, 1]),
            "block": int_array([64, 1, 1]),
            "dynamic_smem_bytes": IntAttr(0),
            "launch_registers": IntAttr(0),
        },
        regions=[Region(kernel_block)],
    )
    return ModuleOp([kernel])


def test_elementwise_kernel_is_proven() -> None:
    assert isinstance(verify(elementwise(), HOPPER), Proven)
    assert isinstance(verify(elementwise(same_buffer=True), HOPPER), Proven), "each thread reads only what it writes"


def test_threads_that_share_an_element_are_unknown() -> None:
    assert any("an index of the region is missing" in reason for reason in _unknown(elementwise(indices=(0, 0))))
    reasons = _unknown(elementwise(same_buffer=True, shifted=True))
    assert any("other threads store" in reason for reason in reasons)


# ---------------------------------------------------------------- claims


def test_claims_of_the_default_program() -> None:
    shape = Shape()
    (claims,) = protocol_claims(gemm(shape), HOPPER)
    (ring,) = claims.rings
    assert (ring.stages, ring.full_arrivals, ring.empty_arrivals) == (4, 1, 2)
    assert ring.transaction_bytes == shape.a_bytes + shape.b_bytes
    assert ring.full_addresses == tuple(shape.barrier_address + 8 * stage for stage in range(4))
    assert ring.empty_addresses == tuple(shape.barrier_address + 32 + 8 * stage for stage in range(4))
    b_begin = 4 * shape.a_bytes
    for stage, ranges in enumerate(ring.slot_ranges):
        a_slot = (stage * shape.a_bytes, (stage + 1) * shape.a_bytes)
        b_slot = (b_begin + stage * shape.b_bytes, b_begin + (stage + 1) * shape.b_bytes)
        assert ranges == (a_slot, b_slot)
    (store,) = claims.stores
    assert store.store_bytes == (8192, 8192)
    assert store.stores.at({"K": 5, "tiles": 3}) == 6
    assert [(role.name, role.first_thread, role.threads, role.registers) for role in claims.roles] == [
        ("producer", 0, 128, 40),
        ("consumer", 128, 256, 232),
    ]


@given(fills=st.integers(0, 40), stages=st.integers(1, 8))
def test_phases_of_all_stages_add_up_to_the_fills(fills: int, stages: int) -> None:
    claim = RingClaim("r", stages, (), (), 1, 1, 16, variable("K"), ())
    phases = [claim.phases(stage, {"K": fills}) for stage in range(stages)]
    assert sum(phases) == fills
    assert phases == sorted(phases, reverse=True)


def test_claims_of_an_unproven_program_are_refused() -> None:
    with pytest.raises(TilewrightError, match="LV005"):
        protocol_claims(gemm(Shape(stages=1)), HOPPER)
    with pytest.raises(TilewrightError, match="not proven"):
        protocol_claims(ModuleOp([]), HOPPER)
