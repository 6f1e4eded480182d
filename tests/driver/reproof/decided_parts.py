"""The programs that a kernel is compiled to, decided and not lowered: the kernel's own, behind those that copy and
compute its operands."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.element import Element
from tilewright.driver.compile.sequence import Part, uncut
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.shapes import Dims
from tilewright.frontends.tile.trace import trace
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target, target

HOPPER = target("sm_90a")


def decided_parts(
    kernel: Kernel,
    dims: Dims,
    wanted: Wanted | None = None,
    elements: Mapping[str, Element] | None = None,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    facts: Target = HOPPER,
) -> tuple[Part, ...]:
    """elements: of parameters that are not as declared, or bf16."""
    kinds = {each.name: each.element or Element.BF16 for each in kernel.parameters} | dict(elements or {})
    return uncut(trace(kernel, dims, kinds, strides), facts, wanted or Wanted())


def decided_alone(
    kernel: Kernel,
    dims: Dims,
    wanted: Wanted | None = None,
    elements: Mapping[str, Element] | None = None,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    facts: Target = HOPPER,
) -> ModuleOp:
    """Of a kernel that is one program."""
    (part,) = decided_parts(kernel, dims, wanted, elements, strides, facts)
    return part.module
