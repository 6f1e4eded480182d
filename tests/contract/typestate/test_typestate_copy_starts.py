"""Where tensor copies may start: coordinates off 16 bytes, or negative ones of a store, are never proven."""

from __future__ import annotations

import pytest
from tests.end_to_end.compiled_programs import product_of
from tests.end_to_end.program_edits import every
from xdsl.dialects.builtin import IntAttr, ModuleOp

from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import int_array
from tilewright.targets import target

HOPPER = target("sm_90a")


def affine_of(module: ModuleOp, kind: type[ac.CopyIssueOp] | type[ac.CopyStoreOp], coordinate: int) -> ac.AffineOp:
    owner = every(module, kind)[0].coordinates[coordinate].owner
    assert isinstance(owner, ac.AffineOp)
    return owner


def with_affine(
    kind: type[ac.CopyIssueOp] | type[ac.CopyStoreOp], coordinate: int, constant: int, factor: int
) -> Verdict:
    module = product_of("plain")
    op = affine_of(module, kind, coordinate)
    op.properties["constant"] = IntAttr(constant)
    if factor:
        op.properties["coefficients"] = int_array(tuple(factor for _ in op.operands_))
    return verify(module, HOPPER)


@pytest.mark.parametrize("kind", [ac.CopyIssueOp, ac.CopyStoreOp])
@pytest.mark.parametrize("constant", [1, 4, 60])
def test_a_start_off_16_bytes_is_refuted(kind: type[ac.CopyIssueOp], constant: int) -> None:
    verdict = with_affine(kind, 0, constant, 0)
    assert isinstance(verdict, Refuted)
    assert [finding.code for finding in verdict.findings] == ["TX008"]
    assert f"starts {2 * constant} bytes into a row" in verdict.findings[0].message


def test_a_step_off_16_bytes_is_not_proven() -> None:
    verdict = with_affine(ac.CopyIssueOp, 0, 0, 63)
    assert isinstance(verdict, Unknown)
    assert "no multiple of 16 bytes" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("coordinate", "constant", "factor"), [(0, 8, 0), (0, -64, 0), (0, 0, 72), (1, 1, 0), (1, 0, 63)]
)
def test_other_starts_of_a_load_keep_the_protocol(coordinate: int, constant: int, factor: int) -> None:
    """What lies outside the tensor arrives as zeros; outer coordinates have no multiple."""
    assert isinstance(with_affine(ac.CopyIssueOp, coordinate, constant, factor), Proven)


@pytest.mark.parametrize("coordinate", [0, 1])
def test_a_store_that_may_start_outside_is_not_proven(coordinate: int) -> None:
    verdict = with_affine(ac.CopyStoreOp, coordinate, -64, 0)
    assert isinstance(verdict, Unknown)
    assert any("may be negative" in reason for reason in verdict.reasons)


def shared_copy(module: ModuleOp) -> ac.CopyIssueOp:
    return next(op for op in every(module, ac.CopyIssueOp) if op.multicast.data == 2)


def test_the_rank_moves_a_start_by_whole_chunks_of_a_dimension_that_exists() -> None:
    for name, value, words in (
        ("rank_elements", 63, "no multiple of 16 bytes"),
        ("rank_dimension", 2, "moves coordinate 2 of 2"),
        ("rank_dimension", -1, "moves coordinate -1 of 2"),
        ("rank_dimension", None, "not both"),
        ("rank_elements", None, "not both"),
    ):
        # Its CTAs fetch parts of B, whole rows each; of parts within rows each begins at whole chunks.
        module = product_of("cluster-2x1-direct")
        copy = shared_copy(module)
        assert copy.rank_dimension is not None and copy.rank_dimension.data == 1
        if value == 63:
            copy.properties["rank_dimension"] = IntAttr(0)
        if value is None:
            del copy.properties[name]
        else:
            copy.properties[name] = IntAttr(value)
        verdict = verify(module, HOPPER)
        assert isinstance(verdict, Unknown)
        assert any(words in reason for reason in verdict.reasons), verdict
