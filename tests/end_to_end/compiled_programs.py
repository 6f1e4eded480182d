"""Programs decided and lowered for the mutation tests: every path of the compiler, at small tiles and few slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from tests.end_to_end import kernels
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.element import Element
from tilewright.base.plan import LaunchPlan
from tilewright.contract.typestate.claims import ProtocolClaims
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.sequence import Part, uncut
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import decisions_of, to_attribute
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

TARGET = "sm_90a"
# Three tiles or more for each CTA, of slices that are no multiple of the stages, so that each slot begins a tile.
PROGRAMS: dict[str, tuple[Kernel, dict[str, int], Wanted]] = {
    "plain": (kernels.matmul, {"M": 120, "N": 136, "K": 256}, Wanted(tile=(128, 64), stages=3)),
    "one-group": (kernels.matmul, {"M": 60, "N": 136, "K": 192}, Wanted(tile=(64, 64), stages=2)),
    "bias-gelu": (kernels.matmul_bias_gelu, {"M": 72, "N": 136, "K": 256}, Wanted(tile=(64, 128), stages=3)),
    "direct-store": (kernels.matmul, {"M": 60, "N": 131, "K": 250}, Wanted(tile=(64, 64), stages=3)),
    "materialised": (
        kernels.operand_expression,
        {"M": 60, "N": 136, "K": 256},
        Wanted(tile=(64, 64), stages=3, computed="workspace"),
    ),
    "cluster-2x1": (kernels.matmul, {"M": 72, "N": 264, "K": 256}, Wanted(tile=(64, 128), cluster=(2, 1), stages=3)),
    "cluster-2x1-direct": (
        kernels.matmul,
        {"M": 72, "N": 261, "K": 256},
        Wanted(tile=(64, 128), cluster=(2, 1), stages=3),
    ),
    "cluster-1x2": (kernels.matmul, {"M": 120, "N": 328, "K": 256}, Wanted(tile=(128, 64), cluster=(1, 2), stages=3)),
    "cluster-1x2-direct": (
        kernels.matmul,
        {"M": 120, "N": 325, "K": 256},
        Wanted(tile=(128, 64), cluster=(1, 2), stages=3),
    ),
}
CLUSTERS = tuple(name for name in PROGRAMS if name.startswith("cluster"))
DIRECT = tuple(name for name in PROGRAMS if name.startswith("direct") or name.endswith("direct"))
STAGED = tuple(name for name in PROGRAMS if name not in DIRECT)


@cache
def parts(name: str) -> tuple[Part, ...]:
    """The programs of it in launch order, decided; the last is the product. Shared: clone before changing them."""
    kernel, dims, wanted = PROGRAMS[name]
    module = trace(kernel, dims, dict.fromkeys((each.name for each in kernel.parameters), Element.BF16), None)
    # Slots released one product late, in every program: there is a wait that leaves a product pending, to be spoiled.
    return uncut(module, HOPPER, replace(wanted, release_distance=1))


def decided(name: str) -> ModuleOp:
    """The product with its decisions. Shared: clone before changing it."""
    return parts(name)[-1].module


@cache
def lowered(name: str) -> tuple[ModuleOp, ...]:
    """The `ac` kernels in launch order; the last one is the product. Shared: clone before changing them."""
    return tuple(kernel.module for part in parts(name) for kernel in lower_program(the_program(part.module)).kernels)


def product_of(name: str) -> ModuleOp:
    """A copy of the product's `ac` program, to be changed at will."""
    return lowered(name)[-1].clone()


@dataclass(frozen=True)
class Emitted:
    """The text of a program's product for one cluster that does all tiles; its plan, and what was proven."""

    text: str
    plan: LaunchPlan
    claims: ProtocolClaims


@cache
def emitted(name: str) -> Emitted:
    """One cluster does all tiles, so that every slot begins a tile, ends one, and is refilled."""
    module = decided(name).clone()
    alone(module)
    program = lower_program(the_program(module))
    (product,) = program.kernels
    (claims,) = protocol_claims(product.module, HOPPER)
    return Emitted(lower_to_ptx([product.module], TARGET), launch_plan(program), claims)


def alone(module: ModuleOp) -> None:
    """One cluster does all tiles of a decided product."""
    decisions = decisions_of(the_program(module).attributes["decisions"])
    assert isinstance(decisions, CascadeDecisions)
    one = replace(decisions, ctas=decisions.cluster_ctas, releases_first=1)
    the_program(module).attributes["decisions"] = to_attribute(one)
