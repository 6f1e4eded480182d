# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products of 8-bit floats on the CPU machine against NumPy: scales, stores of every width, operands laid anew."""

import ml_dtypes
import numpy as np
import pytest
from tests.lower.lowered_programs import Lowered, instructions, lower, matmul, random_inputs, reference, run, small

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.reproof.address_proof import SameAddresses, staged_stores
from tilewright.frontends.tile.reference import DTYPES, converted
from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

E4M3, E5M2, BF16, F16, F32 = Element.F8E4M3, Element.F8E5M2, Element.BF16, Element.F16, Element.F32


@tw.kernel
def scaled(
    a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M"], t: tw.Tensor["N"], c: tw.Tensor["M", "N"]
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    c[i, j] = acc * s[i] * t[j]


@tw.kernel
def quantized(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * 0.5).to(tw.f8e4m3), b[j, k].T)
    c[i, j] = tw.relu(acc)


@tw.kernel
def shifted(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j + 1]


def lower_scaled(dims, element=E4M3, result=BF16, strides=None, **wanted) -> Lowered:
    elements = {"a": element, "b": element, "s": F32, "t": F32, "c": result}
    return lower(scaled, dict(zip("MNK", dims, strict=True)), elements, strides, Wanted(**wanted))


def copied(lowered: Lowered) -> set[str]:
    """Sides of the dot whose operand is first copied."""
    loaded = {buffer.name for each in lowered.apart[:-1] for buffer in each.plan.buffers}
    return {side for name, side in (("a", "left"), ("b", "right")) if name in loaded}


def assert_right(lowered: Lowered) -> None:
    """Sums of the machine are float32 in another order; what is stored is rounded once from them."""
    arrays = random_inputs(lowered)
    results = run(lowered, arrays)
    for name, exact in reference(lowered, arrays).items():
        got = results[name]
        element = lowered.plan.buffer(name).element
        bound = 1e-5 * np.abs(exact).max()
        low, high = (converted(exact + side, element, DTYPES[element]) for side in (-bound, bound))
        assert np.all(low.astype(np.float64) <= got.astype(np.float64))
        assert np.all(got.astype(np.float64) <= high.astype(np.float64))


@pytest.mark.sample(4)
@pytest.mark.parametrize("element", [E4M3, E5M2])
@pytest.mark.parametrize("result", [BF16, F16, F32, E4M3, E5M2])
def test_every_result_is_right_and_proved(element, result):
    lowered = lower_scaled((128, 128, 256), element, result, tile=(128, 128))
    assert lowered.decisions.stores
    for module in lowered.kernels:
        assert isinstance(verify(module, HOPPER), Proven)
    assert_right(lowered)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dims", [(100, 72, 200), (64, 16, 128), (65, 130, 272), (1, 1, 1)])
@pytest.mark.parametrize("result", [BF16, E4M3])
def test_extents_that_fill_no_tile(dims, result):
    assert_right(lower_scaled(dims, result=result))


@pytest.mark.sample(2)
@pytest.mark.parametrize("tile", [(64, 256), (128, 256), (256, 128), (128, 64)])
def test_tiles(tile):
    assert_right(lower_scaled((256, 256, 256), tile=tile, accumulation="fast"))


@pytest.mark.sample(4)
@pytest.mark.parametrize("columns", [24, 40, 72, 176])
@pytest.mark.parametrize("result", [BF16, F32, E4M3])
def test_columns_that_fill_no_span(columns, result):
    assert_right(lower_scaled((128, 2 * columns, 128), result=result, tile=(64, columns)))


def test_a_cluster_shares_operands():
    assert_right(lower_scaled((256, 256, 256), tile=(128, 128), cluster=(2, 1)))


def test_a_step_is_32_elements_deep_and_names_no_transpose():
    products = [item for item in instructions(lower_scaled((128, 128, 256)).parsed) if item.row == "wgmma.mma_async"]
    assert products
    for item in products:
        assert item.opcode.endswith("k32.f32.e4m3.e4m3")
        assert len(item.operands) == 6


@pytest.mark.sample(2)
@pytest.mark.parametrize("strides", [{"b": (1, 144)}, {"a": (1, 272)}, {"a": (1, 128), "b": (1, 144)}])
def test_operands_across_their_rows_are_laid_anew(strides):
    lowered = lower_scaled((128, 136, 208), strides=strides)
    assert copied(lowered) == {{"a": "left", "b": "right"}[name] for name in strides}
    assert {slot.inner for slot in lowered.decisions.slots} == {"K"}
    assert any("contiguous" in reason for each in lowered.apart for reason in each.decisions.reasons)
    assert_right(lowered)


def test_row_major_right_operands_are_laid_anew():
    elements = {"a": E5M2, "b": E5M2, "c": BF16}
    lowered = lower(matmul, {"M": 64, "N": 128, "K": 96}, elements)
    assert copied(lowered) == {"right"}
    assert_right(lowered)


@pytest.mark.parametrize("offset_bytes", [1, 3])
def test_rows_of_any_pitch_are_copied_first(offset_bytes):
    """Rows of 131 bytes begin at every byte of a word."""
    lowered = lower_scaled((64, 64, 128 + offset_bytes))
    assert copied(lowered) == {"left", "right"}
    assert_right(lowered)


def test_operands_quantized_on_the_way():
    lowered = lower(quantized, {"M": 64, "N": 64, "K": 160}, {"a": BF16, "b": E4M3, "c": BF16})
    assert_right(lowered)


@pytest.mark.parametrize("element", [E4M3, E5M2])
def test_copies_keep_every_value(element):
    lowered = lower(shifted, {"M": 2, "N": 256}, {"x": element, "y": element})
    values = np.arange(256, dtype=np.uint8).view(DTYPES[element])
    got = run(lowered, {"x": np.stack([values, values[::-1]])})["y"]
    np.testing.assert_array_equal(got[0, :-1].astype(np.float32), values[1:].astype(np.float32))
    np.testing.assert_array_equal(got[1, :-1].astype(np.float32), values[::-1][1:].astype(np.float32))


def test_staged_bytes_are_proved_to_stand_where_the_map_expects_them():
    lowered = lower_scaled((4096, 4096, 4096), result=E4M3, tile=(128, 256), accumulation="fast")
    found = staged_stores(lowered.parsed, lowered.plan.launches)
    assert found and all(isinstance(each.verdict, SameAddresses) for each in found)


def test_a_large_kernel_is_its_small_instance_but_for_extents():
    dtype = {"a": "f8e4m3", "b": "float8_e4m3fn", "s": "f32", "t": "f32", "c": "bf16"}
    done = compile_kernel(scaled, dims={"M": 8192, "N": 8192, "K": 8192}, dtype=dtype, assembled=False)
    assert done.text_proof is not None
    assert_right(small(lower_scaled((8192, 8192, 8192))))


@pytest.mark.parametrize("major", ["a_major", "b_major"])
def test_a_product_of_bytes_that_is_not_k_major_is_not_proved(major):
    (kernel,) = lower_scaled((128, 128, 256)).kernels
    for op in kernel.walk():
        if isinstance(op, ac.WgmmaIssueOp):
            op.properties[major] = type(op.a_major)("MN")
    assert not isinstance(verify(kernel, HOPPER), Proven)


def test_elements_of_both_kinds_do_not_multiply():
    with pytest.raises(TilewrightError, match="dot of f8E4M3FN with f8E5M2"):
        lower(matmul, {"M": 64, "N": 64, "K": 64}, {"a": E4M3, "b": E5M2})


def test_large_sums_saturate():
    lowered = lower_scaled((64, 64, 128), result=E4M3)
    arrays = random_inputs(lowered)
    arrays["s"] = np.full(64, 1e30, np.float32)
    arrays["s"][0] = np.nan
    got = run(lowered, arrays)["c"].astype(np.float32)
    assert np.isnan(got[0]).all()
    assert set(np.unique(np.abs(got[1:]))) == {np.float32(ml_dtypes.finfo(ml_dtypes.float8_e4m3fn).max)}


def test_long_sums_are_kept_in_two_levels_unless_speed_is_asked_for():
    precise, fast = lower_scaled((128, 128, 512)), lower_scaled((128, 128, 512), accumulation="fast")
    assert precise.decisions.partials > fast.decisions.partials == 0
    assert lower_scaled((128, 128, 128)).decisions.partials == 0
    assert_right(precise)
    # Each number of a slot's product is added to its total.
    added = [item for item in instructions(precise.parsed) if item.opcode.startswith("add.rn.f32")]
    assert len(added) >= precise.decisions.unit_rows * precise.decisions.tile_columns // 128
    assert not [item for item in instructions(fast.parsed) if item.opcode.startswith("add.rn.f32")]


@tw.kernel
def gated(x: tw.Tensor["M", "K"], g: tw.Tensor["N", "K"], u: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    gate, up = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[i, k], g[j, k].T)
        up += tw.dot(x[i, k], u[j, k].T)
    c[i, j] = tw.relu(gate) * up


@tw.kernel
def batched(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "N", "K"], c: tw.Tensor["B", "M", "N"]):
    h, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(h, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[h, i, k], b[h, j, k].T)
    c[h, i, j] = acc


@pytest.mark.parametrize(
    ("kernel", "dims"), [(gated, {"M": 72, "N": 136, "K": 400}), (batched, {"B": 2, "M": 72, "N": 72, "K": 272})]
)
def test_two_levels_of_products_side_by_side(kernel, dims):
    elements = {name: E4M3 for name in "xguab"} | {"c": F32}
    lowered = lower(kernel, dims, {p.name: elements[p.name] for p in kernel.parameters})
    decisions = lowered.decisions
    assert isinstance(decisions, CascadeDecisions) and decisions.partials
    assert_right(lowered)


def test_wishes_that_two_levels_do_not_grant():
    with pytest.raises(TilewrightError, match="no registers for a total and a partial product"):
        lower_scaled((256, 256, 256), tile=(128, 256))
    with pytest.raises(TilewrightError, match="ping-pong takes a plain product"):
        lower_scaled((256, 256, 256), tile=(128, 128), turns=True)


@tw.kernel
def by_one_number(
    a: tw.Tensor["M", "K"],
    b: tw.Tensor["N", "K"],
    s: tw.Tensor["M/1073741824", tw.f32],
    t: tw.Tensor["N/1073741824", tw.f32],
    c: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    c[i, j] = acc * s[i // 1073741824] * t[j // 1073741824]


@pytest.mark.sample(2)
@pytest.mark.parametrize("wanted", [{}, {"accumulation": "fast"}, {"tile": (192, 128)}])
def test_one_number_for_an_operand_is_loaded_once(wanted):
    elements = {"a": E4M3, "b": E4M3, "s": F32, "t": F32, "c": BF16}
    lowered = lower(by_one_number, {"M": 200, "N": 136, "K": 272}, elements, None, Wanted(**wanted))
    # Where products of two slots and the sum fill the registers, each chunk that leaves loads them, unconditionally.
    late = wanted.get("tile") == (192, 128)
    assert lowered.decisions.loads_ahead == (() if late else ("s", "t"))
    loads = [item for item in instructions(lowered.parsed) if item.opcode == "ld.global.f32"]
    assert len(loads) == 2 or (late and not any(item.guard for item in loads))
    assert_right(lowered)
