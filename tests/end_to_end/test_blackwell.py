# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs for sm_100a, end to end: proved twice, assembled, and run by the CPU machine with NumPy's numbers.

No GPU of that architecture was at hand: the assembler, the exact machine and both proofs stand in for one.
"""

from collections.abc import Mapping
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from tests.end_to_end import kernels
from tests.end_to_end.blackwell_programs import (
    AFTER,
    ALLOCATE,
    ANY,
    COMMIT,
    FREE,
    GO_ON,
    MEET,
    READ,
    RELEASE,
    TARGET,
    WAIT,
    OfOneMultiprocessor,
    below_the_diagonal,
    both_ways,
    check_edit,
    check_numbers,
    gated,
    line,
    of_byte_columns,
    of_bytes,
    of_columns,
    of_matrices,
    of_neighbours,
    rejudged,
    with_epilogue,
)
from tests.lower import cascade_programs, gathered_programs, row_programs

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted
from tilewright.cli.arrays import random_inputs
from tilewright.contract.typestate.typestate import judge
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.runtime.device import runs_on
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target, target


@tw.kernel
def scaled(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N", tw.f32], z: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    z[i, j] = tw.gelu(x[i, j] * y[i, j] + 0.5)


@tw.kernel
def transposed(x: tw.Tensor["M", "N"], z: tw.Tensor["N", "M"]):
    i, j = tw.grid("M", "N")
    z[j, i] = x[i, j].T


@tw.kernel
def narrowed(x: tw.Tensor["M", "N", tw.f32], z: tw.Tensor["M", "N", tw.f8e4m3]):
    i, j = tw.grid("M", "N")
    z[i, j] = x[i, j]


def compiled(kernel: Kernel, dims: Mapping[str, int]) -> Compilation:
    return compile_kernel(kernel, target=TARGET, dims=dims)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (scaled, {"M": 33, "N": 70}),
        (transposed, {"M": 40, "N": 136}),
        (narrowed, {"M": 17, "N": 64}),
        (row_programs.softmax, {"M": 5, "N": 100}),
        (row_programs.rms_norm, {"M": 9, "N": 131}),
        (row_programs.quantize, {"M": 6, "N": 256}),
        (row_programs.of_four_axes, {"A": 2, "B": 3, "M": 2, "N": 40}),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else "x".join(map(str, value.values())),
)
def test_elements_and_rows(kernel: Kernel, dims: Mapping[str, int]) -> None:
    compilation = compiled(kernel, dims)
    assert compilation.text_proof is not None and compilation.assembly is not None
    assert compilation.ptx.startswith(".version 8.6\n.target sm_100a\n")
    check_numbers(compilation)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (cascade_programs.matmul_softmax, {"M": 100, "K": 72, "N": 40}),
        (cascade_programs.attention, {"B": 1, "H": 2, "Q": 70, "T": 136, "E": 64, "F": 64}),
        (cascade_programs.causal, {"B": 1, "Q": 100, "T": 150, "E": 64, "F": 72}),
        (cascade_programs.grouped_heads, {"H": 4, "Q": 40, "T": 70, "E": 64, "F": 64}),
        (cascade_programs.window, {"Q": 130, "T": 130, "E": 64, "F": 64}),
        (cascade_programs.rms_norm_matmul, {"M": 70, "K": 192, "N": 104}),
        (cascade_programs.attention, {"B": 1, "H": 1, "Q": 200, "T": 100, "E": 128, "F": 128}),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else "x".join(map(str, value.values())),
)
def test_products_with_folds(kernel: Kernel, dims: Mapping[str, int]) -> None:
    """Accumulators in tensor memory, operands that threads compute among them."""
    compilation = compiled(kernel, dims)
    assert compilation.text_proof is not None and compilation.assembly is not None
    assert "tcgen05.mma" in compilation.ptx and "wgmma" not in compilation.ptx
    assert compilation.assembly.spill_bytes == 0
    check_numbers(compilation)


@tw.kernel
def of_scaled_rows(x: tw.Tensor["M", "K"], s: tw.Tensor["M"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((x[i, k] * s[i]).to(tw.bf16), w[j, k].T)
    y[i, j] = acc


@tw.kernel
def rounded_on_the_way(
    x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], s: tw.Tensor["M", tw.f32], y: tw.Tensor["M", "N"]
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k].to(tw.f8e4m3), w[j, k].to(tw.f8e4m3).T)
    y[i, j] = acc * s[i]


@tw.kernel
def exponentials(x: tw.Tensor["M", "K"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.exp(x[i, k]).to(tw.bf16), w[k, j])
    y[i, j] = acc


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("kernel", "dims", "tile"),
    [
        (of_neighbours, {"M": 130, "N": 72, "K": 72}, (128, 80)),
        (of_neighbours, {"M": 64, "N": 33, "K": 70}, None),
        (rounded_on_the_way, {"M": 70, "N": 40, "K": 160}, None),
        (exponentials, {"M": 70, "N": 40, "K": 72}, None),
        (kernels.operand_expression, {"M": 70, "N": 40, "K": 72}, None),
        (of_bytes, {"M": 66, "N": 40, "K": 160}, None),
        (of_byte_columns, {"M": 160, "N": 272, "K": 200}, (128, 96)),
        (gated, {"M": 136, "N": 72, "K": 136}, (128, 80)),
        (below_the_diagonal, {"M": 150, "N": 140, "K": 72}, (128, 144)),
        (of_byte_columns, {"M": 80, "N": 48, "K": 70}, None),
        (of_bytes, {"M": 140, "N": 200, "K": 272}, (128, 208)),
        (gated, {"M": 136, "N": 152, "K": 72}, (128, 160)),
        (of_matrices, {"B": 2, "M": 66, "N": 40, "K": 72}, None),
        (with_epilogue, {"M": 130, "N": 136, "K": 136}, (128, 128)),
        (of_columns, {"M": 136, "N": 72, "K": 130}, (128, 48)),
        (with_epilogue, {"M": 300, "N": 8, "K": 8}, None),
        (of_columns, {"M": 64, "N": 520, "K": 64}, (64, 256)),
        (of_matrices, {"B": 3, "M": 1, "N": 1, "K": 264}, None),
        (of_scaled_rows, {"M": 70, "N": 40, "K": 136}, None),
        (both_ways, {"M": 136, "N": 40, "K": 72}, (128, 48)),
        (of_matrices, {"B": 2, "M": 65, "N": 37, "K": 51}, None),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else "x".join(map(str, value or ())),
)
def test_products(kernel: Kernel, dims: Mapping[str, int], tile: tuple[int, int] | None) -> None:
    """Sums in tensor memory, of 64 or 128 rows a tile."""
    compilation = compile_kernel(kernel, target=TARGET, dims=dims, wanted=Wanted(tile=tile))
    assert compilation.text_proof is not None and compilation.assembly is not None
    assert "tcgen05.mma" in compilation.ptx and compilation.assembly.spill_bytes == 0
    check_numbers(compilation)


@tw.kernel
def scaled_by_blocks(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/128", tw.f32],
    t: tw.Tensor["N/128", "K/128", tw.f32],
    b: tw.Tensor["N"],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, k // 128] * t[j // 128, k // 128]
    y[i, j] = tw.relu(acc + b[j])


@tw.kernel
def scaled_by_expressions(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["K", "N"],
    s: tw.Tensor["M", "K/256", tw.f32],
    t: tw.Tensor["K/64", "N", tw.f32],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[k, j]) * (tw.exp(s[i, k // 256]) * 0.5) * t[k // 64, j]
    y[i, j] = acc


NARROW = {"x": "f8e4m3", "w": "f8e4m3"}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "dims", "dtype"),
    [
        (scaled_by_blocks, {"M": 70, "N": 200, "K": 400}, NARROW),
        (scaled_by_blocks, {"M": 300, "N": 136, "K": 1040}, NARROW),
        (scaled_by_blocks, {"M": 130, "N": 136, "K": 328}, "bf16"),
        (scaled_by_blocks, {"M": 1, "N": 1, "K": 16}, NARROW),
        (scaled_by_expressions, {"M": 129, "N": 72, "K": 520}, "f16"),
        (scaled_by_expressions, {"M": 65, "N": 40, "K": 127}, "bf16"),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else "x".join(map(str, value)),
)
def test_products_scaled_in_the_loop(kernel: Kernel, dims: Mapping[str, int], dtype: str | dict[str, str]) -> None:
    """Each tile's product by itself into tensor memory, scaled by the numbers of its block and added by threads."""
    made = compile_kernel(kernel, target=TARGET, dims=dims, dtype=dtype)
    assert made.text_proof is not None and made.assembly is not None and made.assembly.spill_bytes == 0
    assert "tcgen05.mma" in made.ptx
    check_numbers(made)


@pytest.mark.parametrize("lengths", [(33, 64), (1, 16)])
def test_keys_in_pages(lengths: tuple[int, int]) -> None:
    """Read where a table says, some twice, some nowhere: both proofs, and the values."""
    kernel, dims = gathered_programs.paged(16), {"B": 2, "H": 2, "Q": 1, "T": 64, "E": 64, "F": 64, "P": 5, "S": 16}
    dims = {axis: dims[axis] for axis in kernel.axes}
    made = compiled(kernel, dims)
    assert made.text_proof is not None and made.assembly is not None and "tcgen05.mma" in made.ptx
    bundle = made.bundle()
    inputs = random_inputs([each for each in bundle.plan.buffers if each.role == "input"], 0)
    inputs["table"][...] = [[3, 3, -1, 4], [5, 0, 2**31 - 1, 1]]
    inputs["lengths"][...] = lengths
    (found,) = [run_on_machine(bundle, tuple(inputs.values()))]
    kinds = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    exact = evaluate(trace(kernel, dims, kinds), inputs, rounded=False)["O"]
    assert np.linalg.norm(np.asarray(found, np.float64) - exact) <= 1e-2 * np.linalg.norm(exact)


MEETING = line("bar.warp.sync") + line("tcgen05.fence::b") + line("bar.sync 0;") + AFTER
MUTANTS: dict[str, tuple[str, str, int]] = {
    "sums are never handed over": (COMMIT, "", -1),
    "a slot is not released": (COMMIT, "", 0),
    "sums are handed over twice": (rf"({COMMIT})", r"\1\1", -1),
    "products do not wait for a free slot of sums": (WAIT, GO_ON, -6),
    "products do not wait for their operands": (WAIT, GO_ON, -5),
    "no wait for the sums": (WAIT, GO_ON, -1),
    "no wait for what is loaded": (line("tcgen05.wait::ld"), "", 0),
    "no fence before products overwrite what was read": (AFTER, "", 1),
    "no fence before sums are read": (AFTER, "", 2),
    "a slot of sums is released before all have read it": (MEET, "", 0),
    "a slot of sums is released before it is read": (rf"({READ})((?:{ANY}){{1,8}}?{RELEASE})", r"\2\1", 0),
    "a slot of sums is never released": (RELEASE, "", -1),
    "freed before the CTA meets": (rf"({MEETING})({ANY}{ANY}{FREE})", r"\2\1", -1),
    "never freed": (FREE, "", 0),
    "too few columns": (r"(tcgen05\.alloc[^\n]*, )\d+;", r"\g<1>32;", 0),
    "columns that are no power of two": (r"(tcgen05\.alloc[^\n]*, )\d+;", r"\g<1>96;", 0),
    "fewer columns are freed": (r"(tcgen05\.dealloc[^\n]*, )\d+;", r"\g<1>32;", 0),
    "another warp's lanes": (r"(mad\.lo\.u32 %r\d+, %r\d+, )2097152,", r"\g<1>4194304,", 0),
    "another unit's lanes": (r"(mad\.lo\.u32 %r\d+, %r\d+, )1048576,", r"\g<1>2097152,", 0),
    "every thread of the warpgroup issues": (line("bra role_end", True).replace("!?", "!"), "", 1),
    "allocated after the permit was given up": (
        rf"({ALLOCATE})({ANY})({line('tcgen05.relinq', True)})",
        r"\2\3\1",
        0,
    ),
}


@cache
def small_product() -> Compilation:
    """Of 128 rows a tile, of which a CTA has more than slots for sums."""
    facts = target(TARGET)
    one = Target(facts.name, facts.title, OfOneMultiprocessor(facts.facts.rows, facts.facts.estimates))
    dims = {"B": 4, "M": 66, "N": 24, "K": 72}
    with patch("tilewright.driver.compile.compile.target_named", return_value=one):
        return compile_kernel(of_matrices, target=TARGET, dims=dims, wanted=Wanted(tile=(128, 32)))


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", MUTANTS)
def test_each_edit_of_the_text_is_refuted(name: str) -> None:
    check_edit(small_product(), MUTANTS[name])


def test_the_text_itself_is_proven() -> None:
    compilation = small_product()
    found = rejudged(compilation, compilation.ptx)
    assert isinstance(found, Proven), found
    assert not any("wgmma" in line for line in compilation.assumptions), "there is none to assume anything of"


@cache
def small_scaled_product() -> Compilation:
    return compile_kernel(scaled_by_blocks, target=TARGET, dims={"M": 300, "N": 136, "K": 1040}, dtype=NARROW)


SCALED_MUTANTS: dict[str, tuple[str, str, int]] = {
    "nobody waits for the products": (WAIT, GO_ON, -1),
    "products do not wait for their operands": (WAIT, GO_ON, -2),
    "products are not committed": (line("tcgen05.commit", True), "", -1),
    "a slot is not released": (line("tcgen05.commit", True), "", 0),
    "no wait for what is loaded": (line("tcgen05.wait::ld"), "", 0),
    "products are issued before all have read the last sums": (MEET, "", 0),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SCALED_MUTANTS)
def test_each_edit_of_a_scaled_product_is_refuted(name: str) -> None:
    check_edit(small_scaled_product(), SCALED_MUTANTS[name])


def test_all_threads_that_wait_for_a_slot_meet_before_its_product() -> None:
    """Else the tensor core frees it, and its barrier passes the phase that a late warp still waits for."""
    compilation = small_scaled_product()
    (module,) = (each.clone() for each in compilation.modules.values())
    assert isinstance(judge(module, target(TARGET))[0], Proven)
    waits = [op for op in module.walk() if isinstance(op, ac.BarrierWaitOp) and op.issuer is not None]
    assert len(waits) >= 2
    del waits[-1].properties["issuer"]
    verdict = judge(module, target(TARGET))[0]
    assert isinstance(verdict, Refuted) and {each.code for each in verdict.findings} == {"TC003"}, verdict


def test_of_the_family_another_architecture_and_none_of_consumers() -> None:
    made = compile_kernel(with_epilogue, target="sm_103a", dims={"M": 130, "N": 72, "K": 136})
    assert ".target sm_103a" in made.ptx and "tcgen05.mma" in made.ptx
    assert made.text_proof is not None and made.assembly is not None
    check_numbers(made)
    with pytest.raises(TilewrightError, match="not compiled for sm_120a"):
        compile_kernel(scaled, target="sm_120a", dims={"M": 33, "N": 70})


def test_a_bundle_is_for_its_own_architecture() -> None:
    assert runs_on(TARGET, (10, 0)) and not runs_on(TARGET, (9, 0)) and not runs_on("sm_90a", (10, 0))
