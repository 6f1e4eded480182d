# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products that compute an operand on the way, as walks: proved twice, and the machine's numbers are NumPy's."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.end_to_end.walked_programs import check_numbers
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.dialects.builtin import StringAttr as Name

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.driver.compile.compile import Compilation, compile_kernel, elements_of
from tilewright.driver.compile.walked import walked
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.result_values import misvalued_results
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.register_operand import OperandReadOp
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.lower.ptx.ac_to_ptx import the_kernel
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


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
        acc += tw.dot((a[i, k] * s[i] - g[k]).to(tw.bf16), b[k, j])
    c[i, j] = tw.relu(acc)


@tw.kernel
def activated(
    a: tw.Tensor["M", "K"], s: tw.Tensor["M"], b: tw.Tensor["N", "K"], r: tw.Tensor["N"], c: tw.Tensor["M", "N"]
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((tw.silu(a[i + 2, k]) - s[i]).to(tw.f16), b[j, k].T)
    c[i, j] = acc + r[j]


@tw.kernel
def right(a: tw.Tensor["M", "K"], s: tw.Tensor["N"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], (b[j, k] * s[j]).to(tw.bf16).T)
    c[i, j] = acc


@tw.kernel
def widened(a: tw.Tensor["M", "K"], s: tw.Tensor["M"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * s[i]).to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def narrowed(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * 0.5).to(tw.f8e4m3), b[j, k].T)
    c[i, j] = acc


@tw.kernel
def batched(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "K", "N"], c: tw.Tensor["B", "M", "N"]):
    h, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(h, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.relu(a[h, i, k]).to(tw.bf16), b[h, k, j])
    c[h, i, j] = acc


@tw.kernel
def positive(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.where(a[i, k] > 0.25, a[i, k], 0.0).to(tw.bf16), b[k, j])
    c[i, j] = acc


Case = tuple[Kernel, dict[str, int], dict[str, str], dict[str, Any]]
IN_REGISTERS: dict[str, Case] = {
    "cast": (cast, {"M": 333, "N": 72, "K": 1536}, {"a": "f16"}, {}),
    "scaled": (scaled, {"M": 601, "N": 131, "K": 1280}, {"s": "f32", "g": "f16"}, {}),
    "one slot": (scaled, {"M": 65, "N": 33, "K": 64}, {}, {"tile": (64, 64)}),
    "two blocks": (scaled, {"M": 770, "N": 200, "K": 640}, {}, {"tile": (256, 64), "consumers": 2}),
    "two consumers": (scaled, {"M": 390, "N": 264, "K": 1088}, {}, {"tile": (128, 128), "consumers": 2}),
    "deep slots": (scaled, {"M": 300, "N": 200, "K": 1024}, {}, {"tile": (64, 64), "depth": 128}),
    "shared depth": (scaled, {"M": 300, "N": 136, "K": 2048}, {}, {"tile": (64, 64), "split": 2}),
    "teams": (cast, {"M": 300, "N": 136, "K": 2048}, {"a": "f16"}, {"tile": (64, 64), "teams": 2}),
    "activated": (activated, {"M": 260, "N": 130, "K": 768}, {"a": "f16", "b": "f16"}, {"tile": (64, 64)}),
    "right": (right, {"M": 171, "N": 390, "K": 704}, {}, {}),
}


def compiled(case: Case, **more: Any) -> Compilation:
    kernel, dims, elements, wishes = case
    return compile_kernel(kernel, dims=dims, dtype=elements, wanted=Wanted(**(wishes | more)))


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", IN_REGISTERS)
def test_in_registers(name: str) -> None:
    compilation = compiled(IN_REGISTERS[name], computed="registers")
    decisions = compilation.decisions
    assert isinstance(decisions, CascadeDecisions) and decisions.computed
    assert compilation.text_proof is not None
    check_numbers(compilation)


def test_what_no_threads_are_to_compute_a_kernel_before_computes() -> None:
    for kernel, dims, elements, wishes in (
        (scaled, {"M": 200, "N": 136, "K": 328}, {}, {}),  # no whole slots
        (scaled, {"M": 200, "N": 136, "K": 256}, {}, {"computed": "workspace"}),
        (widened, {"M": 130, "N": 72, "K": 272}, {"a": "f8e4m3"}, {}),
        (narrowed, {"M": 131, "N": 72, "K": 272}, {"b": "f8e4m3"}, {}),
        (batched, {"B": 3, "M": 70, "N": 72, "K": 136}, {}, {}),
        (positive, {"M": 131, "N": 72, "K": 136}, {}, {}),
    ):
        compilation = compiled((kernel, dims, elements, wishes))
        decisions = compilation.decisions
        assert not (isinstance(decisions, CascadeDecisions) and decisions.computed)
        assert len(compilation.bundle().plan.launches) > 1 or kernel is positive
        check_numbers(compilation)


def lowered(case: Case, **more: Any) -> tuple[ModuleOp, ModuleOp]:
    """The decided program, and its kernel."""
    kernel, dims, elements, wishes = case
    wanted = Wanted(computed="registers", **(wishes | more))
    module = walked(trace(kernel, dims, elements_of(kernel, elements or "bf16")), HOPPER, wanted)
    decide(the_program(module), HOPPER, wanted)
    (made,) = lower_program(the_program(module)).kernels
    return module, made.module


SMALL: Case = (scaled, {"M": 64, "N": 64, "K": 640}, {}, {"tile": (64, 64), "stages": 2})


@pytest.mark.parametrize(
    ("removed", "which"),
    [
        # A slot is released one iteration late, so that the loop's own fence and meeting cover the slot before too.
        ("fence.proxy.async.shared::cta;", 1),
        ("bar.sync ", 2),
        ("wgmma.wait_group.sync.aligned 0;", 0),
        ("wgmma.fence.sync.aligned;", 1),
    ],
)
def test_the_proof_of_the_text_notices_what_is_left_out(removed: str, which: int) -> None:
    kernel, dims, elements, wishes = SMALL
    wanted = Wanted(computed="registers", **wishes)
    compilation = compile_kernel(kernel, dims=dims, dtype=elements or "bf16", wanted=wanted, assembled=False)
    _, module = lowered(SMALL)
    claims = {the_kernel(module).sym_name.data: protocol_claims(module, HOPPER)[0]}
    plan, lines = compilation.bundle().plan, compilation.ptx.splitlines()
    assert isinstance(replay_plan(read(compilation.ptx), plan, claims, (0,)), Proven)
    place = [number for number, line in enumerate(lines) if removed in line][which]
    broken = "\n".join([*lines[:place], *lines[place + 1 :], ""])
    assert isinstance(replay_plan(read(broken), plan, claims, (0,)), Refuted)


def _not_released(module: ModuleOp) -> None:
    op = next(op for op in module.walk() if isinstance(op, ac.ArriveOp))
    op.detach()
    op.erase()


def _waited_for_late(module: ModuleOp) -> None:
    """A's registers are written while the product before may read them."""
    op = next(op for op in module.walk() if isinstance(op, ac.WgmmaWaitOp))
    op.properties["pending"] = IntAttr(1)


def _behind_the_slot(module: ModuleOp) -> None:
    """Units read rows that lie further apart than those of a slot."""
    for op in module.walk():
        if isinstance(op, OperandReadOp):
            op.properties["instance_bytes"] = IntAttr(op.instance_bytes.data * 4)


@pytest.mark.parametrize("edit", [_not_released, _waited_for_late, _behind_the_slot])
def test_the_proof_of_the_program_notices_mutants(edit: Callable[[ModuleOp], None]) -> None:
    _, module = lowered(IN_REGISTERS["two consumers"])
    assert isinstance(verify(module, HOPPER), Proven)
    edit(module)
    assert isinstance(verify(module, HOPPER), Refuted)


def _exchanged_vectors(module: ModuleOp) -> None:
    arrays = {op.buffer.data: op for op in module.walk() if isinstance(op, ac.GlobalOp)}
    arrays["s"].properties["buffer"], arrays["g"].properties["buffer"] = Name("g"), Name("s")


def _another_function(module: ModuleOp) -> None:
    read_op = [op for op in module.walk() if isinstance(op, OperandReadOp)][-1]
    op = next(each for each in read_op.body.walk() if isinstance(each, ac.ScalarOp))
    op.properties["function"] = Name("add" if op.function.data != "add" else "mul")


@pytest.mark.parametrize("edit", [_exchanged_vectors, _another_function])
def test_another_operand_than_the_program_s_is_found(edit: Callable[[ModuleOp], None]) -> None:
    program, module = lowered(IN_REGISTERS["two consumers"])
    assert misvalued_results(the_program(program), [module]) == ()
    edit(module)
    found = misvalued_results(the_program(program), [module])
    assert found and "multiplies is another expression" in found[0].message


def test_a_wish_that_no_tile_grants_is_refused() -> None:
    with pytest.raises(TilewrightError, match="no whole slots"):
        compiled((scaled, {"M": 200, "N": 136, "K": 328}, {}, {}), computed="registers")
