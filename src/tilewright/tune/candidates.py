"""Which kernels of a program are worth timing? The compiler's own choice, and others that its models hold for near it.

Every candidate is a request (`synth.tile.wanted.Wanted`), so it is decided, lowered and proven as if a user had asked
for it. One that the synthesiser refuses, or decides as another one, is left out here, before anything is compiled.
Not handled: what `synth.tile.alternatives` does not. Checked by: tests/tune/test_candidates.py.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.error import TilewrightError
from tilewright.ir.decisions import to_json
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.alternatives import alternatives
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

MOST = 14
"""Alternatives that are timed: each is compiled and proven, which takes about a second."""


def candidates(
    module: ModuleOp, target: Target, wanted: Wanted, form: Callable[[Wanted], ModuleOp] | None = None
) -> list[Wanted]:
    """Requests whose decisions differ, `wanted` itself first; it alone where a program has no tile to choose. module: a
    traced program without decisions, which stays as it is, in the form that `wanted` gives it; form: the one that
    another request does, where forms differ. Raises TilewrightError where `wanted` is refused."""
    seen = [_decided(module, target, wanted)]
    found = [wanted]
    for each in alternatives(the_program(module.clone()), target, wanted):
        if len(found) > MOST:
            break
        try:
            decided = _decided(module if form is None else form(each), target, each)
        except TilewrightError:
            continue
        if decided not in seen:
            seen.append(decided)
            found.append(each)
    return found


def _decided(module: ModuleOp, target: Target, wanted: Wanted) -> dict[str, object]:
    """The decisions without their reasons, which may differ where kernels do not."""
    decisions = to_json(decide(the_program(module.clone()), target, wanted))
    return {name: value for name, value in decisions.items() if name != "reasons"}
