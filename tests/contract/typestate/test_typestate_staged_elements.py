"""What is staged as one element is not stored as another, whatever the elements of operands and of other outputs."""

import pytest
from tests.end_to_end import kernels
from tests.lower.lowered_programs import lower, two_results
from xdsl.dialects.builtin import StringAttr

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.ac import operations as ac
from tilewright.targets import target

HOPPER = target("sm_90a")

DIMS = {"M": 128, "N": 128, "K": 64}


@pytest.mark.parametrize("output", [tw.bf16, tw.f16, tw.f32])
def test_an_output_of_any_element_is_proven(output: Element) -> None:
    (module,) = lower(kernels.matmul, DIMS, {"a": tw.bf16, "b": tw.bf16, "c": output}).kernels
    assert isinstance(verify(module, HOPPER), Proven)


def test_outputs_of_two_elements_share_staging_slots() -> None:
    elements = {parameter.name: tw.bf16 for parameter in two_results.parameters} | {"d": tw.f32}
    (module,) = lower(two_results, DIMS, elements).kernels
    assert isinstance(verify(module, HOPPER), Proven)


def test_bytes_staged_as_another_element_are_not_proven() -> None:
    (module,) = lower(kernels.matmul, DIMS, {"a": tw.bf16, "b": tw.bf16, "c": tw.f16}).kernels
    (output,) = (op for op in module.walk() if isinstance(op, ac.TensorMapOp) and op.buffer.data == "c")
    output.properties["element"] = StringAttr("bf16")
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown)
    assert any("stores bf16 where f16 were staged" in reason for reason in verdict.reasons)
