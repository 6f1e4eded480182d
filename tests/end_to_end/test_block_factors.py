"""Products with factors of blocks: proved twice, assembled, run by the machine with NumPy's numbers.

On sm_100a the tensor core takes the factors. No GPU of that architecture was at hand: the assembler, the exact machine
and both proofs stand in for one. Edits of the text must be refuted by the machine and judge of the second proof, or,
where they break no rule of the protocol, by its numbers.
"""

from collections.abc import Mapping
from functools import cache
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from tests.end_to_end.blackwell_programs import (
    COMMIT,
    GO_ON,
    TARGET,
    WAIT,
    OfOneMultiprocessor,
    check_edit,
    check_numbers,
    line,
    rejudged,
    replaced,
)
from tests.end_to_end.factor_programs import (
    gated,
    of_added_pairs,
    of_bare_pairs,
    of_columns,
    of_experts,
    of_experts_rows,
    of_fine_blocks,
    of_fine_blocks_of_one,
    of_fine_numbers,
    of_four_bits,
    of_matrices,
    of_numbers,
    of_one_operand,
    of_other_operand,
    of_wide_blocks,
    scaled,
    stored,
)

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted
from tilewright.cli.arrays import random_inputs
from tilewright.cli.commands.run_command import relative_errors
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.reproof.drawn_numbers import misnumbered_results
from tilewright.driver.reproof.program_sums import program_sums
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.run.run import run_on_machine
from tilewright.driver.views.portability import portability
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.tile import operations as tile
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target, target

F8, FACTOR = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e8m0fnu)
NARROW = (Element.F8E4M3, Element.F8E5M2)
F4 = np.dtype(ml_dtypes.float4_e2m1fn)
COPY = line(r"tcgen05\.cp")
MULTIPLY = r"tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X"


def narrow(kernel: Kernel, element: str = "f8e4m3") -> dict[str, str]:
    """The elements of parameters that have none of their own."""
    return {each.name: element for each in kernel.parameters if each.element is None}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "dims", "element", "wanted"),
    [
        (scaled, {"M": 300, "N": 136, "K": 640}, "f8e4m3", Wanted()),
        (scaled, {"M": 1, "N": 8, "K": 128}, "f8e5m2", Wanted()),
        (scaled, {"M": 129, "N": 33, "K": 384}, "f8e4m3", Wanted(tile=(128, 48))),
        (scaled, {"M": 130, "N": 300, "K": 256}, "f8e4m3", Wanted(tile=(128, 256))),
        (scaled, {"M": 128, "N": 200, "K": 512}, "f8e5m2", Wanted(tile=(128, 192), asserts=True)),
        (of_matrices, {"B": 3, "M": 130, "N": 41, "K": 256}, "f8e4m3", Wanted()),
        (gated, {"M": 136, "N": 72, "K": 384}, "f8e4m3", Wanted()),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else str(value)[:60],
)
def test_the_tensor_core_takes_factors(kernel: Kernel, dims: Mapping[str, int], element: str, wanted: Wanted) -> None:
    made = compile_kernel(kernel, target=TARGET, dims=dims, dtype=narrow(kernel, element), wanted=wanted)
    assert isinstance(made.text_proof, Proven) and made.assembly is not None and made.assembly.spill_bytes == 0
    assert MULTIPLY in made.ptx and "tcgen05.cp.cta_group::1.32x128b.warpx4" in made.ptx
    check_numbers(made)


def test_rows_of_factors_that_are_padded() -> None:
    """Then the contracted axis may end anywhere, in a block too."""
    dims, strides = {"M": 130, "N": 40, "K": 176}, {"s": (8, 1), "t": (12, 1)}
    made = compile_kernel(scaled, target=TARGET, dims=dims, dtype=narrow(scaled), strides=strides)
    assert isinstance(made.text_proof, Proven) and MULTIPLY in made.ptx
    check_numbers(made)


KINDS = {
    of_four_bits: ("kind::mxf4.block_scale.scale_vec::2X", {"M": 130, "N": 72, "K": 448}),
    of_fine_blocks: ("kind::mxf4nvf4.block_scale.scale_vec::4X", {"B": 2, "M": 130, "N": 200, "K": 160}),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize(("kernel", "wanted"), [
    (of_four_bits, Wanted()), (of_four_bits, Wanted(tile=(128, 160), asserts=True)), (of_fine_blocks, Wanted()),
    (of_fine_blocks, Wanted(tile=(128, 208))),
])  # fmt: skip
def test_products_of_four_bits(kernel: Kernel, wanted: Wanted) -> None:
    kind, dims = KINDS[kernel]
    made = compile_kernel(kernel, target=TARGET, dims=dims, wanted=wanted)
    assert isinstance(made.text_proof, Proven) and made.assembly is not None and made.assembly.spill_bytes == 0
    assert kind in made.ptx
    check_numbers(made)


def test_numbers_of_four_bits_are_those_of_numpy() -> None:
    """Arrays of ml_dtypes, of which two numbers go to a byte, against their own products."""
    run = tw.compile(of_four_bits, M=20, N=24, K=192, target=TARGET)
    random = np.random.default_rng(3)
    x, w = (random.integers(0, 16, (rows, 384), np.uint8).view(F4) for rows in (20, 24))
    s, t = (np.exp2(random.integers(-4, 5, (rows, 12))).astype(FACTOR) for rows in (20, 24))
    wide = [
        each.astype(np.float64) * np.repeat(factors.astype(np.float64), 32, 1) for each, factors in ((x, s), (w, t))
    ]
    expected = wide[0] @ wide[1].T
    np.testing.assert_allclose(np.asarray(run(x, w, s, t)), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_fine_factors_of_four_bits_are_those_of_numpy() -> None:
    """A sign of theirs counts for nothing."""
    run = tw.compile(of_fine_blocks, B=1, M=20, N=24, K=96, target=TARGET)
    random = np.random.default_rng(3)
    x, w = (random.integers(0, 16, (1, rows, 192), np.uint8).view(F4) for rows in (20, 24))
    s, t = (random.uniform(-4.0, 4.0, (1, rows, 12)).astype(F8) for rows in (20, 24))
    bias = random.standard_normal(24).astype(np.float32)
    wide = [
        each.astype(np.float64) * np.repeat(abs(factors.astype(np.float64)), 16, 2)
        for each, factors in ((x, s), (w, t))
    ]
    expected = wide[0] @ wide[1].transpose(0, 2, 1) + bias
    np.testing.assert_allclose(np.asarray(run(x, w, s, t, bias)), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("kernel", "on", "message", "remedy"),
    [
        (of_four_bits, "sm_90a", "which sm_90a does not multiply", "f8e4m3"),
        (of_bare_pairs, TARGET, "without factors of blocks", "ue8m0 factors of 16 bytes along K, or ue4m3 ones of 8"),
        (of_added_pairs, TARGET, "numbers of 4 bits in arithmetic", "by tw.dot, with factors"),
        (of_added_pairs, "sm_90a", "numbers of 4 bits in arithmetic", "by tw.dot, with factors"),
    ],
)
def test_pairs_are_multiplied_alone(kernel: Kernel, on: str, message: str, remedy: str) -> None:
    with pytest.raises(TilewrightError, match=message) as refusal:
        compile_kernel(kernel, target=on, dims={"M": 64, "N": 64, **({} if kernel is of_added_pairs else {"K": 128})})
    assert refusal.value.span is not None and remedy in refusal.value.remedy


@pytest.mark.parametrize("least", [1, 0])
def test_rows_that_only_a_launch_knows(least: int) -> None:
    rows = tw.dynamic(least, 300)
    run = tw.compile(scaled, M=rows, N=48, K=256, dtype=narrow(scaled), target=TARGET)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal((extent, 256)).astype(F8) for extent in (77, 48))
    s, t = (np.exp2(random.integers(-4, 5, (extent, 8))).astype(FACTOR) for extent in (77, 48))
    wide = [np.repeat(each.astype(np.float64), 32, 1) for each in (s, t)]
    expected = (x.astype(np.float64) * wide[0]) @ (w.astype(np.float64) * wide[1]).T
    np.testing.assert_allclose(np.asarray(run(x, w, s, t)), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_rows_with_factors_that_only_a_launch_knows() -> None:
    """The other operand has those of one."""
    run = tw.compile(of_one_operand, M=tw.dynamic(1, 300), N=48, K=256, dtype=narrow(of_one_operand), target=TARGET)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal((extent, 256)).astype(F8) for extent in (77, 48))
    s = np.exp2(random.integers(-4, 5, (77, 8))).astype(FACTOR)
    expected = (x.astype(np.float64) * np.repeat(s.astype(np.float64), 32, 1)) @ w.astype(np.float64).T
    np.testing.assert_allclose(np.asarray(run(x, w, s)), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(("kernel", "depth"), [(of_experts, 256), (of_experts, 288), (of_experts_rows, 256)])
def test_rows_in_groups(kernel: Kernel, depth: int) -> None:
    """Also of factors that are laid out first, and of rows that have none."""
    dims = {"M": 200, "G": 3, "N": 40, "K": depth}
    made = compile_kernel(kernel, target=TARGET, dims=dims, dtype=narrow(kernel))
    assert isinstance(made.text_proof, Proven) and MULTIPLY in made.ptx
    bundle, random = made.bundle(), np.random.default_rng(0)
    inputs = random_inputs([each for each in bundle.plan.buffers if each.role == "input"], 0)
    inputs["ends"] = np.sort(random.integers(0, 200, 3, endpoint=True)).astype(np.int32)
    result = run_on_machine(bundle, tuple(inputs.values()))
    errors = relative_errors(bundle, inputs, {"y": result})
    assert errors is not None and errors["y"] <= 1e-2


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "dims", "on"),
    [
        (scaled, {"M": 100, "N": 40, "K": 160}, "sm_90a"),
        (of_columns, {"M": 70, "N": 48, "K": 128}, "sm_90a"),
        (of_wide_blocks, {"M": 100, "N": 40, "K": 256}, TARGET),
        (of_wide_blocks, {"M": 100, "N": 40, "K": 256}, "sm_90a"),
        (of_fine_numbers, {"M": 70, "N": 40, "K": 256}, TARGET),
        (of_fine_numbers, {"M": 70, "N": 40, "K": 256}, "sm_90a"),
    ],
)  # fmt: skip
def test_threads_scale_by_factors_that_no_tensor_core_takes(kernel: Kernel, dims: Mapping[str, int], on: str) -> None:
    made = compile_kernel(kernel, target=on, dims=dims, dtype=narrow(kernel))
    assert isinstance(made.text_proof, Proven) and "block_scale" not in made.ptx
    check_numbers(made)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "dims", "element"),
    [
        (scaled, {"M": 200, "N": 72, "K": 160}, "f8e4m3"),
        (scaled, {"M": 30, "N": 72, "K": 20}, "f8e5m2"),
        (gated, {"M": 136, "N": 72, "K": 224}, "f8e4m3"),
        (of_columns, {"M": 70, "N": 48, "K": 128}, "f8e4m3"),
        (of_columns, {"M": 70, "N": 33, "K": 352}, "f8e5m2"),
        (of_four_bits, {"M": 130, "N": 72, "K": 336}, "f4e2m1x2"),
        (of_fine_blocks, {"B": 2, "M": 130, "N": 40, "K": 200}, "f4e2m1x2"),
    ],
)
def test_factors_that_threads_cannot_copy_are_laid_out_first(
    kernel: Kernel, dims: Mapping[str, int], element: str
) -> None:
    """Rows of no multiple of four, the last block short, or factors along columns. The copy is of bytes."""
    made = compile_kernel(kernel, target=TARGET, dims=dims, dtype=narrow(kernel, element))
    assert isinstance(made.text_proof, Proven) and ".block_scale." in made.ptx and len(made.parts) > 1
    assert {each.element for each in made.plan.buffers if each.role == "workspace"} <= {Element.S8, *NARROW}
    check_numbers(made)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (of_one_operand, {"M": 200, "N": 72, "K": 256}),
        (of_other_operand, {"M": 130, "N": 41, "K": 176}),
        (of_fine_blocks_of_one, {"M": 130, "N": 40, "K": 200}),
    ],
)
def test_an_operand_without_factors_has_those_of_one(kernel: Kernel, dims: Mapping[str, int]) -> None:
    made = compile_kernel(kernel, target=TARGET, dims=dims, dtype=narrow(kernel))
    assert isinstance(made.text_proof, Proven) and ".block_scale." in made.ptx
    assert [each.name for each in made.plan.buffers if each.name.endswith("_ones")] == [f"{kernel.name}_ones"]
    check_numbers(made)


def test_factors_that_are_no_number_stay_so() -> None:
    """0xff is no number, and 0x7f is 1: a copy changes neither."""
    run = tw.compile(scaled, M=40, N=24, K=160, dtype=narrow(scaled), target=TARGET)
    random = np.random.default_rng(0)
    x, w = (np.ones((rows, 160), F8) for rows in (40, 24))
    s, t = (random.integers(125, 130, (rows, 5), np.uint8) for rows in (40, 24))
    s[7, 4], t[5, 0] = 0xFF, 0xFF
    result = np.asarray(run(x, w, s.view(FACTOR), t.view(FACTOR)))
    assert np.array_equal(np.isnan(result), (np.arange(40)[:, None] == 7) | (np.arange(24) == 5))
    expected = 32 * np.exp2(s.astype(np.float64) - 127) @ np.exp2(t.astype(np.float64) - 127).T
    finite = ~np.isnan(result)
    np.testing.assert_array_equal(result[finite], expected[finite])


REFUSED = {
    "factors of float32": (of_numbers, 128, "scaled by blocks of 32 elements of K", 184),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_compiled_is_refused_at_its_line(name: str) -> None:
    kernel, depth, message, place = REFUSED[name]
    with pytest.raises(TilewrightError, match=message) as refusal:
        compile_kernel(kernel, target=TARGET, dims={"M": 64, "N": 64, "K": depth}, dtype=narrow(kernel))
    assert refusal.value.span is not None and refusal.value.span.line == place
    assert refusal.value.remedy


def test_sixteen_bits_have_no_factors_of_32() -> None:
    with pytest.raises(TilewrightError, match="scaled by blocks of 32") as refusal:
        compile_kernel(scaled, target=TARGET, dims={"M": 64, "N": 64, "K": 128}, dtype=narrow(scaled, "bf16"))
    assert "8-bit operands by ue8m0 factors of 32" in refusal.value.remedy


def test_nothing_is_rounded_to_a_factor() -> None:
    with pytest.raises(TilewrightError, match="stored to y, a tensor of factors"):
        compile_kernel(stored, target="sm_90a", dims={"M": 64, "N": 64})


def test_the_report_names_both_ways() -> None:
    report = portability(scaled, [target("sm_90a"), target(TARGET)], {"M": 256, "N": 256, "K": 512}, narrow(scaled))
    older, newer = (" ".join(line for each in row.decisions for line in each) for row in report.rows)
    assert "factors" not in older
    assert "the tensor core takes s and t, factors of 32 elements, out of 32 columns of tensor memory" in newer


# ---------------------------------------------------------------- edits of the text


@cache
def small() -> Compilation:
    """Few tiles of five slices, which go round a ring of four slots, all by one CTA."""
    facts = target(TARGET)
    alone = Target(facts.name, facts.title, OfOneMultiprocessor(facts.facts.rows, facts.facts.estimates))
    dims = {"M": 200, "N": 72, "K": 640}
    with patch("tilewright.driver.compile.compile.target_named", return_value=alone):
        return compile_kernel(scaled, target=TARGET, dims=dims, dtype=narrow(scaled), wanted=Wanted(tile=(128, 48)))


def numbered(made: Compilation, ptx: str) -> bool:
    """Whether a text computes what the program says, at drawn numbers."""
    return not misnumbered_results(made.tile, read(ptx, "edited.ptx"), made.plan, {})


ARRIVE = line(r"cp\.async\.mbarrier\.arrive")
COLUMNS = r"(mad\.lo\.u32 %r\d+, %r\d+), 4, (%r\d+;\n\ttcgen05\.cp)"
PROTOCOL: dict[str, tuple[str, str, int]] = {
    "factors are not fenced": (line(r"fence\.proxy\.async"), "", 0),
    "factors of columns are not fenced": (line(r"fence\.proxy\.async"), "", 1),
    "factors are not waited for": (WAIT, GO_ON, 8),
    "factors of columns are not waited for": (WAIT, GO_ON, 9),
    "copies do not wait for a free slot": (WAIT, GO_ON, 2),
    "copies of columns' factors do not wait for a free slot": (WAIT, GO_ON, 3),
    "no thread says that its copy is done": (ARRIVE, "", 0),
    "a copy is said to be done before it is asked for": (
        rf"({line(r'cp.async.ca')})((?:[^\n]*\n){{2}})({ARRIVE})", r"\2\3\1", 0
    ),
    "a slot of factors is not released": (COMMIT, "", 2),
    "a slot of columns' factors is not released": (COMMIT, "", 3),
    "factors are released before they are copied": (
        rf"({COPY})((?:[^\n]*\n){{1,75}}?)((?:[^\n]*\n){{4}}{COMMIT}(?:[^\n]*\n){{2}}{COMMIT})", r"\3\1\2", 0
    ),
    "slots share columns": (COLUMNS, r"\1, 0, \2", 0),
    "slots of the loop share columns": (COLUMNS, r"\1, 0, \2", 2),
    "columns of neighbouring slots overlap": (COLUMNS, r"\1, 2, \2", 2),
    "factors of both operands share columns": (r"(add\.u32 %r\d+, %r\d+), 112;", r"\1, 96;", 0),
    "factors go to columns of sums": (r"(add\.u32 %r\d+, %r\d+), 96(;\n[^\n]*\n\ttcgen05\.cp)", r"\1, 0\2", 0),
    "factors go past the columns": (r"(add\.u32 %r\d+, %r\d+), 112(;\n[^\n]*\n\ttcgen05\.cp)", r"\1, 124\2", 0),
    "factors are never copied": (COPY, "", 0),
    "factors of columns are never copied": (COPY, "", 1),
    "factors of another slot": (r"(mad\.lo\.u32 %r\d+, %r\d+), 512(, [^\n]*\n[^\n]*, 262143)", r"\1, 1024\2", 0),
    "products before the factors": (rf"({COPY})((?:[^\n]*\n){{20,75}}?)({line('tcgen05.mma')})", r"\3\1\2", 1),
    "a pair copies": (r"(tcgen05\.cp\.cta_group)::1", r"\1::2", 0),
    "four rows are copied": (r"(tcgen05\.cp\.cta_group::1)\.32x128b\.warpx4", r"\1.4x256b", 0),
    "no number for the sums": (r"(mov\.b32 %r\d+), 143392768;", r"\1, 143392769;", 0),
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", PROTOCOL)
def test_each_edit_of_the_protocol_is_refuted(name: str) -> None:
    check_edit(small(), PROTOCOL[name])


FACTORS = r"(\[%r\d+\], %rd\d+, %rd\d+, %r\d+), (\[%r\d+\]), (\[%r\d+\])"
NUMBERS: dict[str, tuple[str, str, int]] = {
    "operands take each other's factors": (FACTORS, r"\1, \3, \2", 0),
    "both operands take one's factors": (FACTORS, r"\1, \2, \2", 4),
    "each step takes the first factors": (r"(mov\.b32 %r\d+), 680263696;", r"\1, 143392768;", 0),
    "steps take each other's factors": (r"(mov\.b32 %r\d+), 1217134624;", r"\1, 1754005552;", 1),
    "one operand's factor of another step": (r"(mov\.b32 %r\d+), 680263696;", r"\1, 680263680;", 0),
    "factors of the next 32 rows": (r"(mad\.lo\.u32 %r\d+, %r\d+), 4(, %r\d+;\n\tadd)", r"\1, 8\2", 0),
    "rows of a unit in their own order": (r"(shl\.b32 %r\d+, %r\d+), 4;", r"\1, 2;", 0),
    "factors of a slice before": (r"(mad\.wide\.s32 %rd\d+, %r\d+), 1, (%rd\d+;\n\tmad\.wide)", r"\1, 0, \2", 0),
    "factors of the row below": (r"(mad\.wide\.s32 %rd\d+, %r\d+), 20,", r"\1, 24,", 0),
    "factors past the end are not zero": (r"(setp\.le\.s32 %p\d+, %r\d+), 0;", r"\1, 60;", 0),
    "lanes as they lie": (r"70403103916032", r"70437463654400", 0),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", NUMBERS)
def test_each_edit_of_the_numbers_is_refuted(name: str) -> None:
    """Nothing is in disorder: what is multiplied is wrong, or what is read is not the array's."""
    made = small()
    edited = replaced(made.ptx, *NUMBERS[name])
    assert edited != made.ptx
    assert not numbered(made, edited), name


@cache
def small_of_four_bits(kernel: Kernel) -> Compilation:
    dims = {"M": 130, "N": 40, "K": 384, **({"B": 1} if kernel is of_fine_blocks else {})}
    return compile_kernel(kernel, target=TARGET, dims=dims, wanted=Wanted(tile=(128, 48)))


OF_FOUR_BITS: dict[str, tuple[str, str, int]] = {
    "operands take each other's factors": (FACTORS, r"\1, \3, \2", 0),
    "a step takes the first cell": (
        rf"{FACTORS}(.*?){FACTORS}(.*?){FACTORS}", r"\1, \2, \3\4\5, \6, \7\8\9, \2, \3", 0
    ),
    "a cell is copied for another": (
        r"(\ttcgen05\.cp[^\n]*, )(%rd\d+);(.*?\ttcgen05\.cp[^\n]*, )%rd\d+;", r"\1\2;\3\2;", 0
    ),
    "pieces of a row change places": (r"(mad\.lo\.u32 %r\d+, %r\d+), 512, (%r\d+;\n\tadd)", r"\1, 516, \2", 0),
    "a row's second four are its first": (r"(mad\.lo\.s32 %r\d+, %r\d+), 4,", r"\1, 0,", 0),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("kernel", [of_four_bits, of_fine_blocks])
def test_operands_of_four_bits_are_followed(kernel: Kernel) -> None:
    """By the events of a run, without its numbers: a step multiplies A of the step behind."""
    made = small_of_four_bits(kernel)
    (program,) = [op for op in made.tile.ops if isinstance(op, tile.ProgramOp)]
    sums = program_sums(program, {})
    assert sums is not None
    for old, new in ((r"(add\.s64 %rd\d+, %rd\d+), 2;", r"\1, 4;"), ("", "")):
        text = replaced(made.ptx, old, new, 0) if old else made.ptx
        found = replay_plan(read(text, "edited.ptx"), made.plan, dict(made.claims), (0,), sums=sums)
        assert isinstance(found, Refuted if old else Proven), found
        assert not isinstance(found, Refuted) or {each.code for each in found.findings} <= {"UM104", "UM105"}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", OF_FOUR_BITS)
@pytest.mark.parametrize("kernel", [of_four_bits, of_fine_blocks])
def test_each_edit_of_the_numbers_of_four_bits_is_refuted(kernel: Kernel, name: str) -> None:
    made = small_of_four_bits(kernel)
    edited = replaced(made.ptx, *OF_FOUR_BITS[name])
    assert edited != made.ptx
    assert not numbered(made, edited), name


def test_the_text_itself_is_proven() -> None:
    made = small()
    found = rejudged(made, made.ptx)
    assert isinstance(found, Proven), found
    assert numbered(made, made.ptx)
