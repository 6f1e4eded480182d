"""Tiles that overlap in what they load: values, both proofs, and texts and decisions that are refuted."""

import re
from dataclasses import replace

import pytest
from tests.lower.lowered_programs import (
    Lowered,
    assert_close,
    lower,
    lower_decided,
    matmul,
    matmul_bias_relu,
    random_inputs,
    residual,
    two_results,
)
from xdsl.dialects.builtin import IntAttr

from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.reproof.address_proof import OtherAddress, SameAddresses, staged_stores
from tilewright.driver.reproof.reproof import reprove
from tilewright.driver.reproof.small import small_extents
from tilewright.frontends.ptx.reader import read
from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import to_attribute, turned_arrays
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")
C = frozenset({"c"})
TURNED = {"tile": (128, 72), "steps": (0, 67), "swapped": True}
PLAIN = {"tile": (128, 64), "steps": (122, 0)}


def made(wanted, dims, kernel=matmul, strides=None) -> Lowered:
    lowered = lower(kernel, dict(zip("MNK", dims, strict=True)), None, strides, Wanted(**wanted))
    assert isinstance(lowered.decisions, CascadeDecisions)
    return lowered


def reproved(lowered: Lowered, text: str | None = None):
    return reprove(lowered.module, text or lowered.ptx, "sm_90a", "matmul")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("wanted", "dims", "strides"),
    [
        # One more and one fewer than whole steps, a prime, one row in the last tile.
        (TURNED, (134, 136, 96), None),
        (TURNED, (133, 136, 96), None),
        (TURNED, (131, 136, 96), None),
        (TURNED, (68, 136, 96), None),
        (TURNED, (135, 136, 96), {"b": (1, 96)}),
        # A last box of one column, tails, several blocks of rows, sums shared in both ways.
        ({"tile": (64, 40), "steps": (0, 33), "swapped": True}, (67, 64, 64), None),
        ({"tile": (64, 104), "steps": (0, 101), "swapped": True}, (199, 64, 64), None),
        ({"tile": (128, 40), "steps": (0, 39), "swapped": True, "consumers": 1}, (79, 136, 64), None),
        ({"tile": (64, 40), "steps": (0, 39), "swapped": True, "teams": 2}, (77, 64, 256), None),
        ({"tile": (128, 112), "steps": (0, 106), "swapped": True, "split": 2}, (211, 128, 256), None),
        ({"tile": (128, 80), "steps": (0, 75), "swapped": True, "turns": True}, (88, 264, 192), None),
        ({"tile": (128, 96), "steps": (0, 91), "swapped": True, "cluster": (2, 1)}, (181, 256, 128), None),
        # Units of one block and of several, whole tiles, one tile alone.
        (PLAIN, (243, 136, 96), None),
        (PLAIN, (245, 136, 96), None),
        (PLAIN, (123, 136, 96), None),
        ({"tile": (192, 64), "steps": (183, 0), "consumers": 3}, (365, 136, 96), None),
        ({"tile": (128, 64), "steps": (100, 0), "consumers": 1}, (199, 136, 96), None),
        ({"tile": (64, 64), "steps": (33, 0)}, (65, 136, 96), None),
        ({"tile": (128, 64), "steps": (68, 0)}, (67, 136, 96), None),
        ({"tile": (128, 64), "steps": (101, 0), "turns": True}, (404, 264, 192), None),
        ({"tile": (64, 64), "steps": (61, 0), "teams": 2}, (150, 264, 256), None),
        ({"tile": (128, 96), "steps": (122, 0), "split": 2}, (240, 192, 256), None),
        ({"tile": (128, 128), "steps": (120, 0), "cluster": (2, 1)}, (470, 256, 128), None),
    ],
)  # fmt: skip
def test_values_and_proofs(wanted, dims, strides) -> None:
    lowered = made(wanted, dims, strides=strides)
    assert lowered.decisions.steps == wanted["steps"]
    assert isinstance(verify(lowered.kernels[-1], HOPPER), Proven)
    assert_close(lowered, random_inputs(lowered))
    assert isinstance(reproved(lowered), Proven)
    if not {"split", "teams"} & wanted.keys():
        turned = turned_arrays(lowered.decisions)
        staged = staged_stores(lowered.parsed, lowered.plan.launches, turned)
        assert staged and all(isinstance(each.verdict, SameAddresses) for each in staged)


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        (matmul_bias_relu, TURNED),
        (two_results, TURNED),
        (matmul_bias_relu, PLAIN),
        (two_results, PLAIN),
        (residual, PLAIN),
    ],
)  # fmt: skip
def test_elementwise_work_and_two_results(kernel, wanted) -> None:
    lowered = made(wanted, (200, 136, 64), kernel)
    assert lowered.decisions.steps == wanted["steps"]
    assert isinstance(verify(lowered.kernels[-1], HOPPER), Proven)
    assert_close(lowered, random_inputs(lowered))


def test_what_is_stored_stands_in_the_program() -> None:
    turned, plain = made(TURNED, (134, 136, 96)), made(PLAIN, (243, 136, 96))
    stores = [op for op in turned.kernels[-1].walk() if isinstance(op, ac.CopyStoreOp)]
    assert [None if op.lines is None else op.lines.data for op in stores] == [None, None, 3]
    assert "lines = 3" in str(stores[-1])
    (store,) = (op for op in plain.kernels[-1].walk() if isinstance(op, ac.CopyStoreOp))
    assert store.lines == IntAttr(61)


@pytest.mark.parametrize("lines", [None, 0, 2, 4, 9])
def test_a_store_of_other_lines_is_not_proven(lines: int | None) -> None:
    module = made(TURNED, (134, 136, 96)).kernels[-1].clone()
    store = next(op for op in module.walk() if isinstance(op, ac.CopyStoreOp) and op.lines is not None)
    if lines is None:
        del store.properties["lines"]
    else:
        store.properties["lines"] = IntAttr(lines)
    assert not isinstance(verify(module, HOPPER), Proven)


def with_boxes(lowered: Lowered, by: int) -> Lowered:
    """Every result stored in boxes of so many lines more."""
    decisions = lowered.decisions
    assert isinstance(decisions, CascadeDecisions)

    def longer(each):
        return replace(each, box=(each.box[0], each.box[1] + by))

    stores = tuple(
        replace(each, cut=tuple(map(longer, each.cut)), map=each.map if each.cut else longer(each.map))
        for each in decisions.stores
    )
    module = lowered.module.clone()
    changed = replace(decisions, stores=stores)
    the_program(module).attributes["decisions"] = to_attribute(changed)
    return lower_decided(module, changed)


@pytest.mark.parametrize(("wanted", "dims"), [(TURNED, (141, 136, 96)), (PLAIN, (300, 136, 96))])
def test_boxes_that_overlap_or_leave_something_out(wanted, dims) -> None:
    """What two tiles store is seen in the program, what none stores where the text runs."""
    lowered = made(wanted, dims)
    assert isinstance(verify(lowered.kernels[-1], HOPPER), Proven) and isinstance(reproved(lowered), Proven)
    more, fewer = with_boxes(lowered, 1), with_boxes(lowered, -1)
    assert not isinstance(verify(more.kernels[-1], HOPPER), Proven)
    verdict = reproved(fewer)
    assert isinstance(verdict, Refuted) and "UM103" in {finding.code for finding in verdict.findings}


@pytest.mark.parametrize(("wanted", "dims", "step"), [(TURNED, (141, 136, 96), 67), (PLAIN, (300, 136, 96), 122)])
def test_a_role_that_goes_another_step_is_refuted(wanted, dims, step: int) -> None:
    lowered = made(wanted, dims)
    places = [found.span() for found in re.finditer(rf"(?<=, ){step}(?=[;,])", lowered.ptx)]
    assert len(places) > 1
    for begin, end in places:
        for other in (step - 1, step + 1):
            text = lowered.ptx[:begin] + str(other) + lowered.ptx[end:]
            assert isinstance(reproved(lowered, text), Refuted), lowered.ptx[begin - 40 : end]


def test_a_unit_s_rows_and_a_part_s_columns_elsewhere_are_refuted() -> None:
    """61 rows from one unit to the next, and 53 columns from one part to the next."""
    split = {"tile": (64, 112), "steps": (0, 106), "swapped": True, "split": 2}
    for wanted, dims, step in ((PLAIN, (300, 136, 96), 61), (split, (250, 64, 256), 53)):
        lowered = made(wanted, dims)
        places = [found.span() for found in re.finditer(rf"(?<=, ){step}(?=[;,])", lowered.ptx)]
        assert places
        for begin, end in places:
            text = lowered.ptx[:begin] + str(step + 3) + lowered.ptx[end:]
            assert isinstance(reproved(lowered, text), Refuted), lowered.ptx[begin - 40 : end]


def test_lines_that_are_staged_elsewhere_are_refuted() -> None:
    lowered = made(TURNED, (134, 136, 96))
    line = [line for line in lowered.ptx.splitlines() if "stmatrix" in line][-1]
    place = line.split("[")[1].split("]")[0]
    moved = lowered.ptx.replace(line, line.replace(f"[{place}]", f"[{place}+1024]"), 1)
    staged = staged_stores(read(moved), lowered.plan.launches, C)
    assert any(isinstance(each.verdict, OtherAddress) for each in staged)


@pytest.mark.parametrize(("wanted", "dims"), [(TURNED, (734, 256, 512)), (PLAIN, (734, 256, 512))])
def test_the_small_instance_has_a_whole_tile_and_its_neighbour(wanted, dims) -> None:
    program = the_program(made(wanted, dims).module)
    assert small_extents(program)["M"] > max(wanted["steps"])


@pytest.mark.sample(1)
@pytest.mark.parametrize(("m", "n", "k"), [(145, 3072, 3072), (530, 1536, 8960), (597, 1024, 4096)])
def test_choices_are_proven(m: int, n: int, k: int) -> None:
    dims, wanted = {"M": m, "N": n, "K": k}, Wanted()
    made_ = compile_kernel(matmul_kernel, dims=dims, strides={"b": (1, k)}, wanted=wanted, assembled=False)
    decisions = made_.parts[0].decisions
    assert isinstance(decisions, CascadeDecisions) and any(decisions.steps)
    assert made_.text_proof is not None
