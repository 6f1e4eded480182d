"""Two programs that copy arrays as one: it means the same, and is one kernel that is proved."""

import ml_dtypes
import numpy as np
import pytest

from tilewright.driver.compile.compile import compile_kernel, elements_of
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.rules import violations
from tilewright.synth.cut.copied_together import copied_together
from tilewright.synth.cut.laid_out import laid_out
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")
DIMS = {"M": 6, "N": 5, "K": 7}


def copies():
    module = trace(matmul_kernel, DIMS, elements_of(matmul_kernel, "bf16"), None)
    first, rest = laid_out(module, "a", HOPPER)
    return first, *laid_out(rest, "b", HOPPER)


def test_both_copies_are_stored_each_over_its_own_axes() -> None:
    first, second, _ = copies()
    both = copied_together(first, second)
    assert both is not None and next(violations(the_program(both)), None) is None
    random = np.random.default_rng(0)
    arrays = {name: random.random(shape).astype(ml_dtypes.bfloat16) for name, shape in (("a", (6, 7)), ("b", (7, 5)))}
    found = evaluate(both, arrays)
    apart = evaluate(first, {"a": arrays["a"]}) | evaluate(second, {"b": arrays["b"]})
    assert found.keys() == apart.keys()
    for name, array in apart.items():
        np.testing.assert_array_equal(found[name], array)


def test_what_computes_or_reads_the_others_copy_is_not_joined() -> None:
    first, second, rest = copies()
    assert copied_together(first, rest) is None and copied_together(rest, second) is None

    module = trace(matmul_kernel, DIMS, elements_of(matmul_kernel, "bf16"), None)
    once, after = laid_out(module, "b", HOPPER)
    workspace = next(name.data for name in the_program(once).parameters if name.data != "b")
    again, _ = laid_out(after, workspace, HOPPER, "K")
    assert copied_together(once, again) is None, "the second copies the first one's copy"


@pytest.mark.sample(2)
@pytest.mark.parametrize("strides", [{}, {"b": (1, 193)}, {"a": (1, 131), "b": (1, 193)}])
def test_a_product_of_two_unmapped_arrays_is_two_kernels(strides: dict[str, tuple[int, int]]) -> None:
    dims = {"M": 131, "N": 133, "K": 193}
    compiled = compile_kernel(matmul_kernel, dims=dims, strides=strides, wanted=Wanted(), assembled=False)
    before, _ = (part.decisions for part in compiled.parts)
    assert isinstance(before, ElementwiseDecisions) and before.run == 8 and compiled.text_proof is not None
    random = np.random.default_rng(1)

    def array(shape: tuple[int, int], name: str) -> np.ndarray:
        values = random.standard_normal(shape).astype(ml_dtypes.bfloat16)
        return np.asfortranarray(values) if name in strides else values

    a, b = array((131, 193), "a"), array((193, 133), "b")
    result = CompiledKernel(compiled.bundle())(a, b).astype(np.float64)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(result - expected) <= 3e-3 * np.linalg.norm(expected)
