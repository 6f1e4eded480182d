"""Rows in groups whose number the launch says: proven once, right whatever memory says of the groups, and rows of no
group kept; rows that tables lead to are gathered before, out of a pool of any number of rows."""

from typing import Any

import numpy as np
import pytest
from tests.end_to_end.expert_programs import experts
from tests.end_to_end.grouped_cases import HELD, gated_experts, of_gathered_rows, rows_of_groups

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.size import Range
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import buffers, the_program

TOKENS = tw.dynamic(0, 300)
DIMS = {"G": 4, "N": 72, "K": 80}
CASES: list[tuple[Kernel, dict[str, Range], list[dict[str, int]]]] = [
    (experts, {"T": TOKENS}, [{"T": each} for each in (1, 63, 64, 65, 127, 129, 300)]),
    (gated_experts, {"T": TOKENS}, [{"T": each} for each in (1, 65, 300)]),
    (of_gathered_rows, {"T": TOKENS, "R": tw.dynamic(1, 40)}, [{"T": 1, "R": 40}, {"T": 129, "R": 1}]),
]
EVERY, NONE, LESS = (1.0, 1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 0.0), (0.4, 0.4, 0.5, 0.9)
"""Of all rows, where groups end."""


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(("kernel", "ranges", "launches"), CASES, ids=[each.name for each, *_ in CASES])
def test_one_kernel_for_any_number_of_rows(
    kernel: Kernel, ranges: dict[str, Range], launches: list[dict[str, int]], target: str
) -> None:
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    made = compile_kernel(kernel, dims=DIMS | ranges, dtype=elements, target=target, assembled=False)
    assert made.proof.scope == "all trip counts" and made.text_proof is not None
    run, random = CompiledKernel(made.bundle()), np.random.default_rng(5)
    for number, extents in enumerate(launches):
        shares = (LESS, EVERY, NONE)[number % 3]
        ends = np.array([int(share * extents["T"]) for share in shares], np.int32)
        program = trace(kernel, DIMS | extents, elements)
        inputs: dict[str, Any] = {}
        results: dict[str, Any] = {}
        for each in buffers(the_program(program)):
            if each.role == "output":
                results[each.name] = np.full(each.shape, HELD, DTYPES[each.element])
            elif each.name == "ends":
                inputs[each.name] = ends
            elif each.element is Element.S32:
                inputs[each.name] = random.integers(-1, extents["R"], each.shape, np.int32, endpoint=True)
            else:
                inputs[each.name] = random.standard_normal(each.shape).astype(DTYPES[each.element])
        run(*inputs.values(), out=tuple(results.values()) if len(results) > 1 else next(iter(results.values())))
        expected = evaluate(program, inputs, rounded=False)
        kept = rows_of_groups(next(iter(results.values())).shape, ends)
        for name, found in results.items():
            assert (found[~kept].astype(np.float64) == HELD).all()
            apart = np.linalg.norm(found[kept].astype(np.float64) - expected[name][kept])
            assert apart <= 6e-3 * np.linalg.norm(expected[name][kept]), (name, extents, ends)
