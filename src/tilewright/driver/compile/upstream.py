"""Which choices are left out where a program is to be written in the upstream dialects, which do not have them all?

`lower.mlir.ac_to_nvgpu` writes less than `lower.ptx.ac_to_ptx`. What it lacks is in part the program's own (groups of
rows, floats of 8 bits), which ends in its error; in part a choice that has another, which is taken instead: then the
bundle and every text beside it are of one and the same program. Programs are decided until nothing of the kind is left:
with one choice gone, another may have become the better one.
Checked by: tests/driver/compile/test_upstream.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import aligned, elements_of
from tilewright.driver.compile.sequence import uncut
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.shapes import Dims
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import Decisions, ElementwiseDecisions
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target as target_named


@dataclass(frozen=True, slots=True)
class _Choice:
    """What has no form upstream. words: what it is called; chosen: whether decisions have it; wished: whether a wish
    demands it; without: the wish that it be left out."""

    words: str
    chosen: Callable[[Decisions], bool]
    wished: Callable[[Wanted], bool]
    without: Callable[[Wanted], Wanted]


_CHOICES = (
    _Choice(
        "tiles that idle CTAs help with (stream-K)",
        lambda decisions: not isinstance(decisions, ElementwiseDecisions) and decisions.stream is not None,
        lambda wanted: wanted.stream_k is True,
        lambda wanted: replace(wanted, stream_k=False),
    ),
    _Choice(
        "clusters that share a contracted axis (global split-K)",
        lambda decisions: not isinstance(decisions, ElementwiseDecisions) and decisions.teams > 1,
        lambda wanted: wanted.teams is not None and wanted.teams > 1,
        lambda wanted: replace(wanted, teams=1),
    ),
    _Choice(
        "CTAs that share a contracted axis (split-K)",
        lambda decisions: not isinstance(decisions, ElementwiseDecisions) and decisions.split > 1,
        lambda wanted: wanted.split is not None and wanted.split > 1,
        lambda wanted: replace(wanted, split=1),
    ),
    _Choice(
        "tiles that the hardware hands out",
        lambda decisions: isinstance(decisions, CascadeDecisions) and bool(decisions.handed),
        lambda wanted: wanted.handed is True,
        lambda wanted: replace(wanted, handed=False),
    ),
    _Choice(
        "a left operand computed in registers",
        lambda decisions: isinstance(decisions, CascadeDecisions) and decisions.computed > 0,
        lambda wanted: wanted.computed == "registers",
        lambda wanted: replace(wanted, computed="workspace"),
    ),
    _Choice(
        "operands that threads copy",
        lambda decisions: not isinstance(decisions, ElementwiseDecisions) and decisions.copies_by_threads,
        lambda wanted: wanted.unmapped == "threads",
        lambda wanted: replace(wanted, unmapped="workspace"),
    ),
)


def writable(
    kernel: Kernel,
    wanted: Wanted,
    *,
    target: str,
    dims: Dims,
    dtype: str | Element | Mapping[str, str | Element] = "bf16",
    strides: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[Wanted, tuple[str, ...]]:
    """The wishes with which `driver.compile.compile.compile_kernel`, of the same arguments, makes a program without
    choices that have no form upstream; and what was left out for it, in words. As they are for a target for which
    nothing is compiled, which `compile_kernel` says.

    Raises TilewrightError where such a choice is itself wished for, and as `compile_kernel` does.
    """
    left_out: list[str] = []
    facts = target_named(target)
    if not (facts.supports("wgmma") or facts.supports("tensor_memory")):
        return wanted, ()
    while True:
        elements = elements_of(kernel, dtype)
        there, wishes = aligned(kernel, elements, wanted)
        demanded = tuple(item.name for item in there.parameters if item.by_map)
        # Of kernels that a program is cut into nothing is known to be writable.
        parts = uncut(trace(there, dims, elements, strides), facts, replace(wishes, mapped=demanded))
        found = next((each for each in _CHOICES if any(each.chosen(part.decisions) for part in parts)), None)
        if found is None:
            return replace(wanted, cut=False), tuple(left_out)
        if found.wished(wanted) or found.words in left_out:
            raise TilewrightError(
                f"{found.words} have no form in the upstream dialects here",
                remedy="do not ask for them, or leave nvgpu out of --emit",
            )
        wanted = found.without(wanted)
        left_out.append(found.words)
