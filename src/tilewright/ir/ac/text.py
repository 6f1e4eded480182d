"""What is the text of `ac` kernels in a file? One module that names its target, with all kernels in launch order.

    builtin.module attributes {ac.target = "sm_90a"} {
      ac.kernel @matmul [...] { ... }
    }

Every value has a name (`ac.names`); names of one kernel do not count for another. Reading such a text is for
`frontends.ac`. Checked by: tests/frontends/test_ac_reader.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp

from tilewright.ir.ac.names import name_values

TARGET_ATTRIBUTE = "ac.target"
"""Of a module: the architecture that its kernels are proven and lowered for."""


def ac_text(modules: Iterable[ModuleOp], target: str) -> str:
    """The kernels of these modules as one text. Their values get names, where they have none."""
    lines = [f'builtin.module attributes {{{TARGET_ATTRIBUTE} = "{target}"}} {{']
    for module in modules:
        for op in module.ops:
            name_values(op)
            lines += [f"  {line}" if line else line for line in str(op).split("\n")]
    return "\n".join([*lines, "}", ""])
