# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Loops over groups of rows: proven as they are made, and no longer once something that the proof rests on changes."""

from collections.abc import Callable

import pytest
from tests.end_to_end.kernels import consecutive
from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.size import Range, parse_size
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.steps.group import ASSUMPTION
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.driver.compile.sequence import uncut
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import size_attr, size_of
from tilewright.ir.tier import int_array
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def apart(x: tw.Tensor["G", "M", "K"], w: tw.Tensor["G", "K", "N"], ends: tw.Tensor["G"], y: tw.Tensor["G", "M", "N"]):
    g, i, j = tw.grid("G", tw.within("M", ends), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, k, j])
    y[g, i, j] = acc


def lowered(kernel: tw.Kernel = consecutive, turns: bool | None = None) -> ModuleOp:
    elements = {parameter.name: Element.BF16 for parameter in kernel.parameters} | {"ends": Element.S32}
    rows = {"T": 1000} if kernel is consecutive else {"M": 500}
    module = walked(trace(kernel, {**rows, "G": 8, "K": 512, "N": 512}, elements), HOPPER)
    decide(the_program(module), HOPPER, Wanted(tile=(128, 128), turns=turns))
    return only_kernel(module)


def only_kernel(program: ModuleOp) -> ModuleOp:
    (kernel,) = lower_program(the_program(program)).kernels
    return kernel.module


def rows_of_a_launch() -> ModuleOp:
    elements = {**dict.fromkeys(["x", "w", "y"], Element.BF16), "ends": Element.S32}
    ranged = {"T": Range(1, 1000), "G": 8, "K": 512, "N": 512}
    module = walked(trace(consecutive, ranged, elements), HOPPER)
    decide(the_program(module), HOPPER, Wanted(tile=(128, 128)))
    return only_kernel(module)


@pytest.mark.parametrize(("rows", "proven"), [("T", True), ("T + 1", False), ("1000", False), ("1", True)])
def test_groups_have_no_more_rows_than_the_launch_says(rows: str, proven: bool) -> None:
    module = rows_of_a_launch()
    for op in module.walk():
        if isinstance(op, ac.GroupTilesOp | ac.TurnGroupTilesOp):
            assert str(size_of(op.rows)) == "T"
            op.properties["rows"] = size_attr(parse_size(rows))
    assert isinstance(verify(module, HOPPER), Proven) == proven


def first(module: ModuleOp, kind: type) -> ac.GroupTilesOp:
    return next(op for op in module.walk() if isinstance(op, kind))


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("kernel", [consecutive, apart])
def test_a_product_over_groups_is_proven_for_every_number_of_tiles(kernel: tw.Kernel, turns: bool) -> None:
    """A tile that is taken in turn has two slots at least: the turn is passed on behind the second."""
    module = lowered(kernel, turns)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Proven)
    assert ASSUMPTION in verdict.assumptions
    (claims,) = protocol_claims(module, HOPPER)
    assert claims.minima == (("K", 2 if turns else 1), ("tiles", 0))
    assert str(claims.rings[0].fills) == "K*tiles"


def test_without_groups_nothing_is_assumed_of_them() -> None:
    @tw.kernel
    def plain(x: tw.Tensor["T", "K"], w: tw.Tensor["K", "N"], y: tw.Tensor["T", "N"]):
        i, j = tw.grid("T", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(x[i, k], w[k, j])
        y[i, j] = acc

    module = trace(plain, {"T": 256, "K": 128, "N": 256}, dict.fromkeys("xwy", Element.BF16))
    (part,) = uncut(module, HOPPER, Wanted())
    verdict = verify(only_kernel(part.module), HOPPER)
    assert isinstance(verdict, Proven)
    assert ASSUMPTION not in verdict.assumptions


def another_order(name: str, value: int) -> Callable[[ModuleOp], None]:
    def edit(module: ModuleOp) -> None:
        first(module, ac.GroupTilesOp).properties[name] = IntAttr(value)

    return edit


def everywhere(name: str, value: int) -> Callable[[ModuleOp], None]:
    def edit(module: ModuleOp) -> None:
        for op in module.walk():
            if isinstance(op, ac.GroupTilesOp):
                op.properties[name] = IntAttr(value)

    return edit


def store_to_the_array_s_end(module: ModuleOp) -> None:
    """A store that ends with the array and not with the group."""
    store = next(op for op in module.walk() if isinstance(op, ac.RowsStoreOp))
    through = [store.buffer, store.unit]
    plain = ac.GlobalStoreOp.create(operands=[store.fragment, store.destination, store.row, store.column, *through])
    block = store.parent_block()
    assert block is not None
    block.insert_op_before(plain, store)
    store.detach()


def stop_at_the_row(module: ModuleOp) -> None:
    """Its end is another index than the loop's."""
    store = next(op for op in module.walk() if isinstance(op, ac.RowsStoreOp))
    store.operands[4] = store.row


def write_the_limits(module: ModuleOp) -> None:
    limits = next(op for op in module.walk() if isinstance(op, ac.GlobalOp) and op.buffer.data == "ends")
    limits.properties["buffer"] = StringAttr("y")


def limits_of_fewer_groups(module: ModuleOp) -> None:
    limits = next(op for op in module.walk() if isinstance(op, ac.GlobalOp) and op.buffer.data == "ends")
    limits.properties["shape"] = int_array((7,))


def fewer_rows_in_the_result(module: ModuleOp) -> None:
    result = next(op for op in module.walk() if isinstance(op, ac.GlobalOp) and op.buffer.data == "y")
    rows, columns = (item.data for item in result.shape)
    result.properties["shape"] = int_array((rows - 1, columns))


def a_tile_back(module: ModuleOp) -> None:
    """Rows before the tile's first belong to the group before."""
    store = next(op for op in module.walk() if isinstance(op, ac.RowsStoreOp))
    assert isinstance(store.row.owner, ac.AffineOp)
    store.row.owner.properties["constant"] = IntAttr(-1)


def two_tiles_wide(module: ModuleOp) -> None:
    """Units twice as far apart reach into the rows of the next tile."""
    store = next(op for op in module.walk() if isinstance(op, ac.RowsStoreOp))
    assert isinstance(store.row.owner, ac.AffineOp)
    store.row.owner.properties["coefficients"] = int_array((1, 128))


@pytest.mark.parametrize(
    "edit",
    [
        another_order("tiles_n", 3),
        another_order("groups", 7),
        another_order("raster_group", 1),
        another_order("pitch", 1000),
        everywhere("tile_rows", 64),
        everywhere("tile_rows", 0),
        everywhere("groups", 9),
        everywhere("rows", 1001),
        everywhere("pitch", 3),
        store_to_the_array_s_end,
        stop_at_the_row,
        write_the_limits,
        limits_of_fewer_groups,
        fewer_rows_in_the_result,
        a_tile_back,
        two_tiles_wide,
    ],
)
def test_what_the_proof_rests_on(edit: Callable[[ModuleOp], None]) -> None:
    module = lowered()
    assert isinstance(verify(module, HOPPER), Proven)
    edit(module)
    assert isinstance(verify(module, HOPPER), Unknown | Refuted)
