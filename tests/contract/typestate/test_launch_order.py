# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Nobody touches global memory before it knows that the launches before have ended, whoever waits for them."""

from collections.abc import Callable

import pytest
from examples.fused import variable_lengths
from tests.lower.lowered_programs import gemm
from xdsl.dialects.builtin import DictionaryAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.finding import Findings, ordinal_places
from tilewright.contract.typestate.launch_order import check_launch_order
from tilewright.contract.typestate.read_program import read_kernel
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import ExecutionAttr
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def scaled_blocks(
    a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], of_a: tw.Tensor["M", "K/128", tw.f32],
    of_b: tw.Tensor["N/128", "K/128", tw.f32], c: tw.Tensor["M", "N", tw.bf16],
):  # fmt: skip
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * of_a[i, k // 128] * of_b[j // 128, k // 128]
    c[i, j] = acc


KINDS = {
    "plain": {"tile": (128, 64)},
    "in turn": {"tile": (128, 64), "turns": True},
    "split": {"tile": (64, 32), "split": 2},
    "teams": {"tile": (64, 16), "split": 2, "teams": 3, "swapped": False, "stages": 3},
    "of pairs": {"tile": (128, 64), "cluster": (1, 2)},
    "a tile for each": {"tile": (64, 16)},
}


def product(**wishes: object) -> ModuleOp:
    return gemm(256, 128, 1024, **wishes).kernels[0]


def the(module: ModuleOp, kind: type[Operation]) -> Operation:
    (found,) = [op for op in module.walk() if isinstance(op, kind)]
    return found


def role(module: ModuleOp, name: str) -> ac.RoleOp:
    return next(op for op in module.walk() if isinstance(op, ac.RoleOp) and op.sym_name.data == name)


@pytest.mark.parametrize("wishes", KINDS.values(), ids=KINDS)
def test_the_filler_waits_at_its_tiles(wishes: dict[str, object]) -> None:
    module = product(**wishes)
    wait = the(module, ac.GridWaitOp)
    assert isinstance(wait.parent_op(), ac.TilesOp) and isinstance(wait.next_op, ac.GridReleaseOp)
    assert isinstance(verify(module, HOPPER), Proven)


def test_streamed_tiles_are_waited_for_at_each_part() -> None:
    module = gemm(1792, 1280, 2048, tile=(128, 128), turns=True, stream_k=True).kernels[0]
    assert len([op for op in module.walk() if isinstance(op, ac.GridWaitOp)]) == 3
    assert isinstance(verify(module, HOPPER), Proven)
    first = next(op for op in module.walk() if isinstance(op, ac.GridWaitOp))
    first.detach()
    assert doubts(module)


def forgotten(module: ModuleOp) -> None:
    the(module, ac.GridWaitOp).detach()


def behind_the_slices(module: ModuleOp) -> None:
    wait = the(module, ac.GridWaitOp)
    loop = next(op for op in role(module, "producer").walk() if isinstance(op, ac.LoopOp))
    wait.detach()
    loop.body.block.insert_ops_before([wait], loop.body.block.last_op)


def in_a_loop_that_may_have_no_turn(module: ModuleOp) -> None:
    """The release behind it knows nothing of it."""
    wait = the(module, ac.GridWaitOp)
    tiles = wait.parent_op()
    release = the(module, ac.GridReleaseOp)
    release.detach()
    tiles.parent_block().insert_ops_after([release], tiles)


def released_first(module: ModuleOp) -> None:
    wait, release = the(module, ac.GridWaitOp), the(module, ac.GridReleaseOp)
    release.detach()
    wait.parent_block().insert_ops_before([release], wait)


def by_the_consumers(module: ModuleOp) -> None:
    wait = the(module, ac.GridWaitOp)
    wait.detach()
    tiles = next(op for op in role(module, "consumer").walk() if isinstance(op, ac.TilesOp))
    tiles.body.block.insert_ops_before([wait], tiles.body.block.first_op)


def stored_before_the_first_slot(module: ModuleOp) -> None:
    """A store of plain kind, of whatever, at the beginning of the consumers' tiles."""
    store = next(op for op in module.walk() if isinstance(op, ac.CopyStoreOp))
    tiles = next(op for op in role(module, "consumer").walk() if isinstance(op, ac.TilesOp))
    store.detach()
    tiles.body.block.insert_ops_before([store], tiles.body.block.first_op)


def of_a_role_of_several_threads(module: ModuleOp) -> None:
    producer = role(module, "producer")
    old = producer.execution
    producer.properties["execution"] = ExecutionAttr(StringAttr("warp32"), IntAttr(1), old.first_thread)


EDITS = (
    forgotten, behind_the_slices, in_a_loop_that_may_have_no_turn, released_first, by_the_consumers,
    stored_before_the_first_slot, of_a_role_of_several_threads,
)  # fmt: skip


def doubts(module: ModuleOp) -> list[str]:
    """Of this check alone; nor is the program proven."""
    assert not isinstance(verify(module, HOPPER), Proven)
    findings = Findings(ordinal_places(module))
    check_launch_order(read_kernel(the(module, ac.KernelOp), HOPPER, Findings(ordinal_places(module))), findings)
    return findings.doubts


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_what_that_rests_on_is_looked_for(edit: Callable[[ModuleOp], None]) -> None:
    module = product(tile=(128, 64))
    edit(module)
    assert doubts(module)


def test_what_a_loop_learns_is_known_behind_it_where_it_has_an_iteration() -> None:
    """A sum in two levels waits for slots in its loop alone."""
    elements = {"a": Element.F8E4M3, "b": Element.F8E4M3, "c": Element.BF16}
    source = trace(matmul_kernel, {"M": 256, "N": 128, "K": 1024}, elements, {"b": (1, 1024)})
    wanted = Wanted(tile=(128, 64))
    decided = walked(source, HOPPER, wanted)
    decide(the_program(decided), HOPPER, wanted)
    module = lower_program(the_program(decided)).kernels[0].module
    assert isinstance(verify(module, HOPPER), Proven)
    kernel = the(module, ac.KernelOp)
    assert isinstance(kernel, ac.KernelOp)
    kernel.properties["minima"] = DictionaryAttr({**kernel.minima.data, "K": IntAttr(0)})
    assert doubts(module)


def scaled_sums(**wishes: object) -> ModuleOp:
    """Products of blocks that are scaled: consumers load scales before the first slot."""
    source = trace(scaled_blocks, {"M": 192, "N": 256, "K": 512}, elements_of(scaled_blocks, "f8e4m3"))
    wanted = Wanted(**wishes)
    decided = walked(source, HOPPER, wanted)
    decide(the_program(decided), HOPPER, wanted)
    return lower_program(the_program(decided)).kernels[0].module


def test_who_loads_scales_waits_for_himself() -> None:
    module = scaled_sums()
    waits = [op for op in module.walk() if isinstance(op, ac.GridWaitOp)]
    assert len(waits) == 2 and all(isinstance(op.parent_op(), ac.TilesOp) for op in waits)
    assert isinstance(verify(module, HOPPER), Proven)
    filler = next(op for op in role(module, "producer").walk() if isinstance(op, ac.GridWaitOp))
    (own,) = (op for op in waits if op is not filler)
    own.detach()
    assert doubts(module)


def test_a_walk_whose_consumers_load_numbers_first_waits_for_them_too() -> None:
    dims = {"B": 1, "H": 2, "Q": 128, "T": 256, "E": 64, "F": 64}
    source = trace(variable_lengths, dims, elements_of(variable_lengths, "bf16"))
    decided = walked(source, HOPPER, Wanted())
    decide(the_program(decided), HOPPER, Wanted())
    module = lower_program(the_program(decided)).kernels[0].module
    assert isinstance(verify(module, HOPPER), Proven)
    (own,) = (op for op in role(module, "consumer").walk() if isinstance(op, ac.GridWaitOp))
    own.detach()
    assert doubts(module)


def test_whose_filler_does_not_wait_knows_nothing_of_the_consumers_wait() -> None:
    module = scaled_sums()
    next(op for op in role(module, "producer").walk() if isinstance(op, ac.GridWaitOp)).detach()
    assert doubts(module)


def test_a_ring_that_another_role_fills_too_tells_nothing() -> None:
    module = product(tile=(128, 64))
    consumer = role(module, "consumer")
    wait = next(op for op in consumer.walk() if isinstance(op, ac.BarrierWaitOp))
    other = wait.clone()
    other.properties["side"] = StringAttr("empty")
    wait.parent_block().insert_ops_before([other], wait)
    assert doubts(module)
