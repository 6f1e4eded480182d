"""Accumulators reach staging by the plan of an exchange: its instructions, its layouts, the values that arrive."""

import numpy as np
import pytest
from tests.lower.lowered_programs import gemm, lower, matmul, random_inputs, run

from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.reproof.address_proof import SameAddresses, staged_stores
from tilewright.frontends.tile.reference import evaluate
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import decisions_of, to_attribute
from tilewright.ir.exchange import Store
from tilewright.layout.linear.maps import LinearLayout
from tilewright.legal.descriptor.instruction_layout import instruction_layout
from tilewright.synth.decide import Wanted
from tilewright.synth.store.staged_store import fragment_layout, staged_layout
from tilewright.targets import target

HOPPER = target("sm_90a")


def plan_of(lowered):
    assert isinstance(lowered.decisions, CascadeDecisions)
    (store,) = lowered.decisions.stores
    (plan,) = store.staging
    (step,) = plan.steps
    assert isinstance(step, Store)
    return plan, step.access


@pytest.mark.parametrize(
    ("element", "form", "wavefronts"),
    [(Element.BF16, "matrix", 4), (Element.F16, "matrix", 4), (Element.F32, "vector", 4)],
)
def test_values_arrive(element, form, wavefronts):
    lowered = lower(matmul, {"M": 192, "N": 136, "K": 64}, {"c": element}, wanted=Wanted((128, 128)))
    plan, access = plan_of(lowered)
    assert (access.form, access.wavefronts) == (form, wavefronts)
    assert isinstance(verify(lowered.kernels[-1], HOPPER), Proven)
    arrays = random_inputs(lowered)
    found, wanted = run(lowered, arrays)["c"], evaluate(lowered.module, arrays)["c"]
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), rtol=2e-2, atol=1e-2)
    assert decisions_of(to_attribute(lowered.decisions)) == lowered.decisions
    assert plan.shared_bytes == 64 * 128


def test_the_text_stages_where_the_map_expects():
    """And a text that does not is seen."""
    from tilewright.frontends.ptx.reader import read

    lowered = gemm(256, 128, 64, tile=(128, 128))
    plan_of(lowered)
    proved = staged_stores(read(lowered.ptx), lowered.plan.launches)
    assert proved and all(isinstance(each.verdict, SameAddresses) for each in proved)
    line = next(line for line in lowered.ptx.splitlines() if "stmatrix" in line)
    register = line.split("[")[1].split("]")[0]
    moved = lowered.ptx.replace(line, line.replace(f"[{register}]", f"[{register}+16]"), 1)
    wrong = staged_stores(read(moved), lowered.plan.launches)
    assert not all(isinstance(each.verdict, SameAddresses) for each in wrong)


@pytest.mark.parametrize("columns", [8, 64, 128])
def test_the_fragment_is_the_instruction_s(columns):
    table = instruction_layout(f"wgmma.m64n{columns}k16", "D").layout
    assert isinstance(table, LinearLayout)
    ours = fragment_layout(64, columns)
    for thread in (0, 5, 38, 127):
        for value in (0, 1, 3, columns // 2 - 1):
            here = ours(register=value, lane=thread % 32, warp=thread // 32)
            names = {"register": value, "lane": thread % 32, "warp": thread // 32}
            there = table(**{name: names[name] for name in table.input_sizes})
            assert here == there


@pytest.mark.parametrize(("swizzle", "span"), [("128B", 128), ("64B", 64), ("32B", 32)])
@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_staged_rows_are_swizzled(swizzle, span, element_bytes):
    """Pieces of 16 bytes of row r change places by exclusive-or with bits of the address."""
    columns = span // element_bytes
    layout = staged_layout(64, columns, element_bytes, swizzle)
    for row in (0, 1, 5, 9, 63):
        for column in (0, columns // 2, columns - 1):
            address = row * span + column * element_bytes
            address ^= (address >> 7 & span // 16 - 1) << 4
            assert layout(offset=address // element_bytes) == {"row": row, "column": column}
