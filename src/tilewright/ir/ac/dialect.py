"""The dialect `ac`: every operation and type that the modules of this package define.

Checked by: tests/ir/ac/test_format.py.
"""

from __future__ import annotations

from xdsl.ir import Dialect, ParametrizedAttribute

from tilewright.ir.ac import (
    affine,
    async_copy,
    epilogue,
    fragment,
    handed,
    issue_order,
    loops,
    operations,
    promotion,
    register_operand,
    remade,
    split,
    stream,
    team,
    tensor_memory,
    types,
)
from tilewright.ir.ac.format import AcOperation
from tilewright.ir.sizes import SizeAttr

_MODULES = (
    operations, loops, affine, epilogue, promotion, register_operand, fragment, async_copy, stream, remade, split, team,
    issue_order, handed, tensor_memory, types,
)  # fmt: skip
_DEFINED = [
    each
    for module in _MODULES
    for each in vars(module).values()
    if isinstance(each, type) and each.__module__ == module.__name__ and "name" in vars(each)
]

Ac = Dialect(
    "ac",
    [each for each in _DEFINED if issubclass(each, AcOperation)],
    [*(each for each in _DEFINED if issubclass(each, ParametrizedAttribute)), SizeAttr],
)
