# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products whose left operand is computed in registers: values against NumPy, both proofs, what the text looks like."""

import numpy as np
import pytest
from tests.lower.lowered_programs import assert_close, instructions, lower, random_inputs, reference, run

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.frontends.ptx.reader import read
from tilewright.lower.ptx.ac_to_ptx import the_kernel
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

BF16, F16, F32 = Element.BF16, Element.F16, Element.F32


@tw.kernel
def cast(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k].to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def scaled(
    a: tw.Tensor["M", "K"], s: tw.Tensor["M"], g: tw.Tensor["K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * s[i] * g[k]).to(tw.bf16), b[k, j])
    c[i, j] = tw.relu(acc)


@tw.kernel
def activated(a: tw.Tensor["M", "K"], s: tw.Tensor["M"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((tw.silu(a[i + 2, k]) - s[i]).to(tw.f16), b[j, k].T)
    c[i, j] = acc


@tw.kernel
def right(a: tw.Tensor["M", "K"], s: tw.Tensor["N"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], (b[j, k] * s[j]).to(tw.bf16).T)
    c[i, j] = acc


CASES = {
    "cast": (cast, {"M": 130, "N": 72, "K": 128}, {"a": F16}, {}),
    "scaled": (scaled, {"M": 200, "N": 136, "K": 192}, {"s": F32}, {}),
    "two blocks": (scaled, {"M": 256, "N": 64, "K": 320}, {}, {"tile": (256, 64), "consumers": 2}),
    "two consumers": (scaled, {"M": 300, "N": 200, "K": 128}, {"g": F16}, {"tile": (128, 128), "consumers": 2}),
    "deep slots": (scaled, {"M": 100, "N": 64, "K": 256}, {}, {"tile": (64, 64), "depth": 128}),
    "few stages": (scaled, {"M": 64, "N": 64, "K": 640}, {}, {"tile": (64, 64), "stages": 2}),
    "shared depth": (scaled, {"M": 100, "N": 64, "K": 512}, {}, {"tile": (64, 64), "split": 2}),
    "activated tiles": (activated, {"M": 260, "N": 130, "K": 128}, {"a": F16, "b": F16}, {"tile": (64, 64)}),
    "activated": (activated, {"M": 70, "N": 40, "K": 128}, {"b": F16}, {}),
    "right": (right, {"M": 70, "N": 140, "K": 128}, {}, {}),
}


def lowered(name, **more):
    kernel, dims, elements, wishes = CASES[name]
    return lower(kernel, dims, elements, wanted=Wanted(computed="registers", **(wishes | more)))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CASES)
def test_values_and_the_proof_of_the_program(name):
    program = lowered(name)
    assert program.decisions.computed == 1 and len(program.kernels) == 1
    (kernel,) = program.kernels
    assert isinstance(verify(kernel, HOPPER), Proven)
    assert_close(program, random_inputs(program, seed=3))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["scaled", "two blocks", "right", "activated tiles", "shared depth"])
def test_the_text_is_proved(name):
    kernel, dims, elements, wishes = CASES[name]
    large = {axis: (12 if axis == "K" else 3) * extent for axis, extent in dims.items()}
    done = compile_kernel(
        kernel,
        dims=large,
        dtype=elements,
        wanted=Wanted(computed="registers", **wishes),
        assembled=False,
    )
    assert done.text_proof is not None and done.decisions.computed == 1


def test_a_takes_registers_and_no_descriptor():
    rows = [item for item in instructions(lowered("scaled").parsed) if item.row.startswith(("wgmma.mma", "ldmatrix"))]
    names = {item.row for item in rows}
    assert len(names) == 2
    text = lowered("scaled").ptx
    lines = [line for line in text.splitlines() if "wgmma.mma_async" in line]
    assert lines and all(line.count("{") == 2 for line in lines)
    # A step of 16 elements is one matrix load, for one product.
    assert text.count("ldmatrix.sync") == len(lines)


def test_a_keeps_its_old_values_until_the_wait():
    """A move that the assembler must take to be conditional; it reuses registers under a product in flight else."""
    text = lowered("scaled").ptx.splitlines()
    products = [line for line in text if "wgmma.mma_async" in line]
    registers = {name for line in products for name in line.split("{")[2].split("}")[0].split(", ")}
    # Operands follow the opcode behind a space, so that the target is the last word before the first comma.
    targets = [(line.split(",")[0].split(" ")[-1], line.strip()) for line in text if "mov.b32" in line]
    moves = [line for target, line in targets if target in registers]
    assert len(moves) >= len(registers) and all(line.startswith("@%p") for line in moves)


def _verdict(program, text):
    (module,) = program.kernels
    claims = {the_kernel(module).sym_name.data: protocol_claims(module, HOPPER)[0]}
    return replay_plan(read(text), program.plan, claims, (0,))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("removed", "which", "codes"),
    [
        # A slot is released one turn late, so that the loop's own fence and meeting cover the slot before too.
        ("fence.proxy.async.shared::cta;", 1, {"PX102"}),
        ("bar.sync ", 2, {"TM101"}),
        ("wgmma.wait_group.sync.aligned 0;", 0, {"WG104", "TM101"}),
        ("wgmma.fence.sync.aligned;", 1, {"WG101", "WG104", "WG106"}),
    ],
)
def test_the_proof_of_the_text_notices_what_is_left_out(removed, which, codes):
    program = lowered("few stages")
    lines = program.ptx.splitlines()
    assert isinstance(_verdict(program, program.ptx), Proven)
    place = [number for number, line in enumerate(lines) if removed in line][which]
    verdict = _verdict(program, "\n".join([*lines[:place], *lines[place + 1 :], ""]))
    assert isinstance(verdict, Refuted) and {finding.code for finding in verdict.findings} & codes


def test_a_fence_that_only_the_first_turn_of_the_loop_passes_is_noticed():
    """Each turn moves what the same registers hold to the operand: that it was written shows in later ones, too."""
    program = lowered("few stages")
    lines = program.ptx.splitlines()
    fence = [number for number, line in enumerate(lines) if "wgmma.fence.sync.aligned;" in line][1]
    loop = max(number for number, line in enumerate(lines[:fence]) if line.startswith("loop_"))
    body = next(number for number, line in enumerate(lines) if line.strip().startswith(".reg"))
    once = ["\t@!%q0 bra fenced;", lines[fence], "fenced:", "\tsetp.ne.u32 %q0, 0, 0;"]
    begun = [*lines[:body], "\t.reg .pred %q<1>;", *lines[body:loop], "\tsetp.eq.u32 %q0, 0, 0;"]
    verdict = _verdict(program, "\n".join([*begun, *lines[loop:fence], *once, *lines[fence + 1 :], ""]))
    assert isinstance(verdict, Refuted)
    assert {finding.code for finding in verdict.findings} <= {"WG101", "WG104", "WG106"}


def test_numbers_that_are_not_finite_stay_in_their_row():
    program = lowered("scaled")
    arrays = random_inputs(program)
    arrays["a"][5, 7] = np.inf
    arrays["s"][9] = np.nan
    got, expected = run(program, arrays)["c"].astype(np.float64), reference(program, arrays)["c"]
    usual = np.ones(len(got), bool)
    usual[[5, 9]] = False
    assert np.isfinite(got[usual]).all()
    assert np.allclose(got[usual], expected[usual], rtol=2**-7, atol=1e-2)
    assert (np.isnan(got[9]).all() and not np.isfinite(got[5]).any()) or (got[5] >= 0).any()
