"""Products scaled in their loop for sm_100a, in batches, groups and beside others: proved twice, assembled, exact.

No GPU of that architecture was at hand: the assembler, the exact machine and both proofs stand in for one.
"""

from collections.abc import Mapping, Sequence

import pytest
from tests.end_to_end.scaled_programs import (
    CASES,
    check_scaled,
)

from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.kernel import Kernel


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "dims", "limits"),
    CASES,
    ids=[f"{kernel.name}-{'x'.join(map(str, dims.values()))}" for kernel, dims, _ in CASES],
)
def test_scaled_products(kernel: Kernel, dims: Mapping[str, int], limits: Sequence[Sequence[int]]) -> None:
    """One kernel, in which threads scale each tile's product."""
    made = compile_kernel(kernel, target="sm_100a", dims=dims)
    assert "tcgen05.mma" in made.ptx
    check_scaled(made, kernel, dims, limits)
