"""Consumers of attention that issue in order: proved twice, with the numbers of those that do not."""

import ml_dtypes
import numpy as np
import pytest
from tests.lower.cascade_programs import attention, causal

from tilewright.base.verdict import Proven
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.tile.kernel import Kernel
from tilewright.synth.tile.wanted import Wanted

EXTENTS = {"B": 1, "H": 1, "Q": 200, "T": 300, "E": 64, "F": 64}


def compiled(kernel: Kernel, consumers: int, *, ordered: bool) -> Compilation:
    dims = {axis: EXTENTS[axis] for axis in {axis for each in kernel.parameters for axis in each.axes}}
    return compile_kernel(kernel, dims=dims, wanted=Wanted(consumers=consumers, depth=64, ordered=ordered))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("kernel", "consumers"), [(attention, 2), (attention, 3), (causal, 3), (causal, 2)])
def test_an_order_changes_no_bit(kernel: Kernel, consumers: int) -> None:
    """Nor does it that consumers out of order end their walks by their own rows."""
    generator = np.random.default_rng(0)
    results: list[bytes] = []
    for ordered in (False, True):
        made = compiled(kernel, consumers, ordered=ordered)
        assert isinstance(made.proof, Proven) and isinstance(made.text_proof, Proven)
        buffers = [each for each in made.bundle().plan.buffers if each.role == "input"]
        if not results:
            arrays = [generator.standard_normal(each.shape).astype(ml_dtypes.bfloat16) for each in buffers]
        (found,) = run_on_machine(made.bundle(), tuple(arrays))
        assert np.isfinite(found.astype(np.float32)).all()
        results.append(found.tobytes())
    assert results[0] == results[1]
