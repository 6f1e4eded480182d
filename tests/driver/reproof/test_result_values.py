# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What walks store is the program's expression of their sums; in kernels broken in one place it is not."""

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.builtin import StringAttr as Name

import tilewright as tw
from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.kernels import gated_kernel
from tilewright.driver.compile.walked import walked
from tilewright.driver.reproof import reproof
from tilewright.driver.reproof.result_values import misvalued_results
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorPartsOp, FragmentMapOp
from tilewright.ir.tile.facts import the_program
from tilewright.lower.cascade import consumer
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")
gated = gated_kernel("silu")
SIZES = {"M": 256, "N": 256, "K": 256}


@tw.kernel
def several(
    x: tw.Tensor["M", "K"],
    u: tw.Tensor["K", "N"],
    v: tw.Tensor["K", "N"],
    b: tw.Tensor["N"],
    c: tw.Tensor["N"],
    y: tw.Tensor["M", "N"],
    z: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    one, two = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        two += tw.dot(x[i, k], v[k, j])
        one += tw.dot(x[i, k], u[k, j])
    y[i, j] = tw.exp((one - b[j]) * 0.125) + two * c[j]
    z[i, j] = tw.maximum(two, one + 1)


def lowered(kernel: Kernel) -> tuple[ModuleOp, ModuleOp]:
    """The decided program, and its kernel."""
    module = walked(trace(kernel, SIZES, elements_of(kernel, "bf16")), HOPPER, Wanted())
    decide(the_program(module), HOPPER, Wanted())
    (made,) = lower_program(the_program(module)).kernels
    return module, made.module


def exchange_parts(module: ModuleOp) -> None:
    (op,) = [op for op in module.walk() if isinstance(op, AccumulatorPartsOp)]
    first, second = op.parts
    users = [list(part.uses) for part in (first, second)]
    for part, uses in zip((second, first), users, strict=True):
        for use in uses:
            use.operation.operands[use.index] = part


def exchange_maps(module: ModuleOp) -> None:
    """Each weight is copied to where the other belongs."""
    maps = {op.buffer.data: op for op in module.walk() if isinstance(op, ac.TensorMapOp)}
    names = [name for name in maps if name in ("w_gate", "w_up", "u", "v")]
    for name, other in zip(names, reversed(names), strict=True):
        maps[name].properties["buffer"] = Name(other)


def exchange_vectors(module: ModuleOp) -> None:
    arrays = {op.buffer.data: op for op in module.walk() if isinstance(op, ac.GlobalOp)}
    arrays["b"].properties["buffer"], arrays["c"].properties["buffer"] = Name("c"), Name("b")


def another_function(module: ModuleOp) -> None:
    maps = [op for op in module.walk() if isinstance(op, FragmentMapOp)]
    op = next(each for each in maps[-1].body.walk() if isinstance(each, ac.ScalarOp))
    op.properties["function"] = Name("min" if op.function.data != "min" else "max")


@pytest.mark.parametrize("kernel", [gated, several], ids=lambda kernel: kernel.name)
def test_nothing_is_found_in_kernels_as_they_are(kernel: Kernel) -> None:
    program, module = lowered(kernel)
    assert misvalued_results(the_program(program), [module]) == ()


@pytest.mark.parametrize(
    ("kernel", "edit", "result"),
    [
        (gated, exchange_parts, "y"),
        (gated, exchange_maps, "y"),
        (several, exchange_parts, "y"),
        (several, exchange_maps, "y"),
        (several, exchange_vectors, "y"),
        (several, another_function, "z"),
    ],
)
def test_another_expression_is_found(kernel: Kernel, edit: Callable[[ModuleOp], None], result: str) -> None:
    program, module = lowered(kernel)
    edit(module)
    found = misvalued_results(the_program(program), [module])
    assert found and f"stores in {result} " in found[0].message


def test_a_lowering_that_exchanges_weights_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """No access, barrier or product shows it: the text is proved in all other respects."""
    kept = consumer.sums_of_walk

    def exchanged(*arguments: object) -> object:
        found = kept(*arguments)  # pyright: ignore[reportArgumentType]
        return dict(zip(found, reversed(found.values()), strict=True))

    verdicts: list[object] = []
    for broken in (False, True):
        if broken:
            monkeypatch.setattr(consumer, "sums_of_walk", exchanged)
        program, module = lowered(gated)
        verdicts.append(reproof.reprove(program, lower_to_ptx([module], "sm_90a"), "sm_90a", "gated"))
    assert isinstance(verdicts[0], Proven) and isinstance(verdicts[1], Refuted)
