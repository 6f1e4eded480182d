"""Results whose memory runs along the accumulator's rows leave in bulk: values, proofs, and texts that are refuted."""

import numpy as np
import pytest
from tests.lower.lowered_programs import (
    Lowered,
    assert_close,
    lower,
    matmul,
    matmul_bias_relu,
    random_inputs,
    two_results,
)
from xdsl.dialects.builtin import IntAttr

from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.reproof.address_proof import OtherAddress, SameAddresses, staged_stores
from tilewright.frontends.ptx.reader import read
from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import decisions_of, to_attribute
from tilewright.layout.linear.maps import LinearLayout
from tilewright.synth.decide import Wanted
from tilewright.synth.store.staged_store import staged_layout
from tilewright.targets import target

HOPPER = target("sm_90a")

C = frozenset({"c"})


def turned(kernel=matmul, dims=(200, 136, 96), elements=None, strides=None, **wanted) -> Lowered:
    m, n, k = dims
    lowered = lower(kernel, {"M": m, "N": n, "K": k}, elements, strides, Wanted(swapped=True, **wanted))
    assert isinstance(lowered.decisions, CascadeDecisions)
    return lowered


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("wanted", "dims", "widths"),
    [
        ({"tile": (128, 64)}, (200, 136, 96), (32, 32)),
        ({"tile": (192, 96), "consumers": 3}, (100, 264, 64), (32, 32, 32)),
        # A unit has two blocks of rows, and boxes of each.
        ({"tile": (128, 80), "turns": True}, (88, 264, 192), (32, 32, 16)),
        ({"tile": (128, 40), "consumers": 1}, (41, 136, 64), (32, 8)),
        ({"tile": (128, 64), "split": 2}, (64, 136, 256), (32,)),
    ],
)
def test_values_and_proofs(wanted, dims, widths):
    lowered = turned(dims=dims, **wanted)
    (store,) = lowered.decisions.stores
    assert (store.turned, store.chunks(sum(widths))) == (1, widths)
    assert [one.box for one in (store.map, *store.tail)] == [(64, width) for width in dict.fromkeys(widths)]
    for plan in store.staging:
        assert plan.steps[0].access.form == "transposed matrix" and plan.steps[0].access.wavefronts <= 4
    assert decisions_of(to_attribute(lowered.decisions)) == lowered.decisions
    assert isinstance(verify(lowered.kernels[-1], HOPPER), Proven)
    assert_close(lowered, random_inputs(lowered))
    if "split" not in wanted:
        staged = staged_stores(lowered.parsed, lowered.plan.launches, C)
        assert staged and all(isinstance(each.verdict, SameAddresses) for each in staged)


def test_elementwise_work_and_two_results():
    lowered = turned(matmul_bias_relu, (72, 136, 64), tile=(64, 32))
    assert lowered.decisions.stores[0].turned
    assert_close(lowered, random_inputs(lowered))
    lowered = turned(two_results, (72, 136, 64), tile=(128, 32))
    assert [store.turned for store in lowered.decisions.stores] == [1, 1]
    assert isinstance(verify(lowered.kernels[-1], HOPPER), Proven)
    assert_close(lowered, random_inputs(lowered))


def test_what_leaves_by_plain_stores():
    """Elements of other sizes, and rows that no tensor map takes."""
    assert not turned(elements={"c": Element.F32}, tile=(128, 64)).decisions.stores
    assert not turned(dims=(200, 132, 96), strides={"b": (1, 96)}, tile=(128, 64)).decisions.stores


def test_a_text_that_stages_elsewhere_is_refuted():
    lowered = turned(tile=(128, 64))
    launches = lowered.plan.launches
    # As if memory ran along the columns.
    assert not any(isinstance(each.verdict, SameAddresses) for each in staged_stores(lowered.parsed, launches))
    lines = lowered.ptx.splitlines()
    line = next(line for line in lines if "stmatrix" in line)
    place = line.split("[")[1].split("]")[0]
    moved = lowered.ptx.replace(line, line.replace(f"[{place}]", f"[{place}+1024]"), 1)
    assert any(isinstance(each.verdict, OtherAddress) for each in staged_stores(read(moved), launches, C))
    untransposed = lowered.ptx.replace(line, line.replace(".trans", ""), 1)
    assert any(isinstance(each.verdict, OtherAddress) for each in staged_stores(read(untransposed), launches, C))
    # One instruction that stages another block's values with the same addresses.
    both = turned(dims=(80, 264, 128), tile=(128, 32), turns=True)
    writes = [line for line in both.ptx.splitlines() if "stmatrix" in line]
    values = [line.split("{")[1] for line in writes]
    mixed = both.ptx.replace(writes[0], writes[0].replace(values[0], values[-1]), 1)
    assert not all(
        isinstance(each.verdict, SameAddresses) for each in staged_stores(read(mixed), both.plan.launches, C)
    )


@pytest.mark.parametrize("block", [-1, 2])
def test_a_block_that_is_not_there(block):
    lowered = turned(dims=(80, 264, 128), tile=(128, 32), turns=True)
    module = lowered.kernels[-1].clone()
    write = next(op for op in module.walk() if isinstance(op, ac.StageWriteOp))
    write.properties["block"] = IntAttr(block)
    assert not isinstance(verify(module, HOPPER), Proven)


@pytest.mark.parametrize("columns", [8, 32, 64])
def test_lines_of_a_turned_box_are_swizzled(columns):
    layout = staged_layout(64, columns, 2, "128B", turned=True)
    assert isinstance(layout, LinearLayout)
    for row in (0, 1, 9, 63):
        for column in (0, 5, columns - 1):
            address = column * 128 + row * 2
            address ^= (address >> 7 & 7) << 4
            assert layout(offset=address // 2) == {"row": row, "column": column}


def test_the_same_bits_as_untransposed():
    """Sums are in one order either way."""
    lowered = turned(tile=(128, 64))
    plain = lower(matmul, {"M": 200, "N": 136, "K": 96}, wanted=Wanted(tile=(128, 64)))
    arrays = random_inputs(lowered)
    from tests.lower.lowered_programs import run

    np.testing.assert_array_equal(run(lowered, arrays)["c"], run(plain, arrays)["c"])
