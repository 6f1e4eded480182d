"""How does a PTX text begin: in which version, for which target, with which shared memory?

A version is the least that has all that kernels for a target are written with; factors of the finest blocks need a
newer one. Source: PTX ISA, release notes. Checked by: tests/lower/ptx/test_module_head.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.base.element import Element
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.tensor_memory import TensorFactorsOp
from tilewright.targets import target as target_named


def module_head(target: str, *, fine: bool = False) -> list[str]:
    """The first lines of a text for a target. fine: whether products have factors of the finest blocks."""
    facts = target_named(target)
    least = facts.limits("block_scales.f4_fine_ptx_version") if fine else (0, 0)
    major, minor = max(tuple(facts.limits("ptx.version")), tuple(least))
    return [f".version {major}.{minor}", f".target {target}", ".address_size 64", ""]


def head_of_kernels(target: str, kernels: Sequence[ac.KernelOp]) -> list[str]:
    """Of a text with these kernels."""
    head = module_head(target, fine=any(map(_has_fine_factors, kernels)))
    if any(kernel.dynamic_smem_bytes.data for kernel in kernels):
        head += [".extern .shared .align 1024 .b8 dynamic_smem[];", ""]
    return head


def _has_fine_factors(kernel: ac.KernelOp) -> bool:
    copies = (op for op in kernel.walk() if isinstance(op, TensorFactorsOp))
    return any(op.result.type.element.data == Element.UE4M3.value for op in copies)
