"""How a function of `tilewright` becomes an operator of PyTorch: a schema, both devices, a fake result, a gradient.

Checked by: tests/integrations/test_torch_operators.py and test_torch_layers.py.
"""

# PyTorch is no dependency, so its types are unknown where it is not installed.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.base.error import TilewrightError

NAMESPACE = "tilewright"
_DEVICES = ("CPU", "CUDA")


@dataclass(frozen=True, slots=True)
class Operator:
    """real: what runs; fake: the same of shapes alone; backward, keep: its gradient, and what is kept for that."""

    name: str
    schema: str
    real: Callable[..., Any]
    fake: Callable[..., Any]
    backward: Callable[..., Any]
    keep: Callable[..., None] | None = None


def register(*operators: Operator) -> Any:
    """Define operators in the namespace. The library object returned must live as long as they are used."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    for each in operators:
        library.define(each.name + each.schema, tags=(torch.Tag.pt2_compliant_tag,))
        for key in _DEVICES:
            library.impl(each.name, each.real, key)
        qualified = f"{NAMESPACE}::{each.name}"
        torch.library.register_fake(qualified, each.fake, lib=library)
        torch.library.register_autograd(qualified, each.backward, setup_context=each.keep, lib=library)
    return library


def plain(tensor: Any) -> Any:
    """The tensor itself without what autograd adds: gradients are autograd's, and are recorded above the operator."""
    if tensor is None or (type(tensor) is torch.Tensor and not tensor.requires_grad):
        return tensor
    return tensor.detach()


def require(holds: Any, *parts: Any) -> None:
    """Raises RuntimeError, as PyTorch's own operators do where shapes do not fit, while a graph is traced."""
    torch._check(holds, lambda: " ".join(str(part) for part in parts))


def no_gradient(name: str) -> Callable[..., None]:
    """What is called to go back through an operator without gradients. Where nothing is registered, PyTorch only warns
    and gives none."""

    def backward(ctx: Any, *gradients: Any) -> None:
        raise TilewrightError(
            f"tilewright::{name} has no gradient", remedy="detach its operands, or write an autograd function around it"
        )

    return backward
