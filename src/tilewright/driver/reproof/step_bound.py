"""How many warp instructions may a run of a program's text take, before it is said not to end?

A text that does not end is wrong, and the machine would follow it for hours. What a program gives a warp to do is
known: a slice of a tile's sum, or a tile's end, or a point of an array for each thread, takes no more steps than the
text has instructions, since nothing but loops over these (and over groups of rows, of which an instance has few) goes
back in a text of this compiler. That bound, some times over, is far above what right texts take (a tenth of it at the
most) and is reached in seconds. A run that reaches it proves nothing, and says so.

Not handled: a right text that goes back more often; it would be called unknown, never proven or refuted.
Checked by: tests/driver/reproof/test_step_bound.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilewright.base.plan import Launch, LaunchPlan, PointerParam, TensorMapParam
from tilewright.contract.typestate.claims import ProtocolClaims
from tilewright.frontends.ptx.ast import Module

_WARP_THREADS = 32
_SPARE = 2
_PARTS = (("tiles", "K"), ("heads", "head"), ("tails", "tail"))
"""Symbols of claims: parts of tiles that a CTA takes, and slices of each."""


def steps_most(module: Module, launch: Launch, plan: LaunchPlan, claims: ProtocolClaims | None) -> int:
    """Warp instructions of one launch of a plan's text. claims: of its program, if they are known."""
    length = sum(len(kernel.body) for kernel in module.kernels if kernel.name == launch.entry)
    warps = prod(launch.grid) * -(-prod(launch.block) // _WARP_THREADS)
    symbols = dict(claims.symbols) if claims is not None else {}
    return _SPARE * length * warps * (1 + _rounds(symbols, launch, plan))


def _rounds(symbols: Mapping[str, int], launch: Launch, plan: LaunchPlan) -> int:
    """How often a warp may go through the text."""
    if "tiles" in symbols:
        return sum(symbols.get(parts, 0) * (1 + symbols.get(slices, 0)) for parts, slices in _PARTS)
    written = {param.buffer for param in launch.params if isinstance(param, PointerParam | TensorMapParam)}
    points = sum(prod(each.shape) for each in plan.buffers if each.name in written and each.role != "input")
    return -(-points // (prod(launch.grid) * prod(launch.block)))
