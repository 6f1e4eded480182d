"""How is an instruction shown whose operand list has a hundred registers? With its first ones and its last one.

A wgmma of 256 columns names 128 registers, of which a reader needs none. What stands between braces is cut in texts,
pages and messages alike; JSON and SARIF keep it. Checked by: tests/report/test_operand_lists.py.
"""

from __future__ import annotations

import re

_LIST = re.compile(r"\{[^{}]*\}?")
_SHOWN_WHOLE = 6
"""Operands of a list that is not cut."""
_FIRST = 2


def cut_operands(text: str) -> str:
    """`text` with every long list between braces cut to its first operands, the number of those left out, and the last
    one: `{%r1, %r2, ... 125 more ..., %r128}`. A list whose end is not in the text is cut likewise."""
    return _LIST.sub(_cut, text) if "{" in text else text


def _cut(found: re.Match[str]) -> str:
    whole = found[0]
    closed = whole.endswith("}")
    operands = whole[1:-1].split(",") if closed else whole[1:].split(",")
    left = len(operands) - _FIRST - 1
    if len(operands) <= _SHOWN_WHOLE:
        return whole
    end = f"{operands[-1].rstrip()}}}" if closed else operands[-1]
    return f"{{{','.join(operands[:_FIRST])}, ... {left} more ...,{end}"
