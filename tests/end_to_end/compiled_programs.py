"""Programs decided and lowered for the mutation tests: every path of the compiler, at small tiles and few slices."""

from __future__ import annotations

from functools import cache

from tests.end_to_end import kernels
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.element import Element
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile_facts import the_program
from tilewright.lower.tile_to_ac import LoweredProgram, lower_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

TARGET = "sm_90a"
_EVEN = {"M": 200, "N": 136, "K": 192}
_ODD_COLUMNS = {"M": 200, "N": 131, "K": 192}  # rows of C begin at odd addresses: no bulk store

PROGRAMS: dict[str, tuple[Kernel, dict[str, int], Wanted]] = {
    "plain": (kernels.matmul, _EVEN, Wanted(tile=(128, 64), stages=3)),
    "one-group": (kernels.matmul, _EVEN, Wanted(tile=(64, 64), stages=2)),
    "bias-gelu": (kernels.matmul_bias_gelu, _EVEN, Wanted(tile=(64, 128), stages=3)),
    "direct-store": (kernels.matmul, _ODD_COLUMNS, Wanted(tile=(64, 64), stages=3)),
    "materialised": (kernels.operand_expression, _EVEN, Wanted(tile=(64, 64), stages=3)),
    "cluster-2x1": (kernels.matmul, {**_EVEN, "N": 264}, Wanted(tile=(64, 128), cluster=(2, 1), stages=3)),
    "cluster-2x1-direct": (kernels.matmul, {**_EVEN, "N": 261}, Wanted(tile=(64, 128), cluster=(2, 1), stages=3)),
    "cluster-1x2": (kernels.matmul, _EVEN, Wanted(tile=(128, 64), cluster=(1, 2), stages=3)),
    "cluster-1x2-direct": (kernels.matmul, _ODD_COLUMNS, Wanted(tile=(128, 64), cluster=(1, 2), stages=3)),
}
CLUSTERS = tuple(name for name in PROGRAMS if name.startswith("cluster"))
DIRECT = tuple(name for name in PROGRAMS if name.startswith("direct") or name.endswith("direct"))
STAGED = tuple(name for name in PROGRAMS if name not in DIRECT)


@cache
def decided(name: str) -> ModuleOp:
    """The tile program with its decisions. Shared: clone before changing it."""
    kernel, dims, wanted = PROGRAMS[name]
    module = trace(kernel, dims, dict.fromkeys((each.name for each in kernel.parameters), Element.BF16), None)
    decide(the_program(module), target(TARGET), wanted)
    return module


@cache
def lowered(name: str) -> LoweredProgram:
    """The `ac` kernels in launch order; the last one is the pipeline. Shared: clone before changing them."""
    return lower_program(the_program(decided(name)))


def pipeline_of(name: str) -> ModuleOp:
    """A copy of the pipeline's `ac` program, to be changed at will."""
    return lowered(name).kernels[-1].module.clone()
