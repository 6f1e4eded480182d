"""Do kernels in a text of the `ac` dialect keep the asynchronous protocol? Proven, refuted or unknown, for every one.

The typestate proof judges them (`contract.typestate.typestate`), as it does what `compile` makes, for all trip counts.
Findings have the lines of the text. Checked by: tests/driver/check/test_check_ac.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import judge
from tilewright.driver.check.judge_kernel import Judgement
from tilewright.frontends.ac.reader import AcKernel, read_ac
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.text import TARGET_ATTRIBUTE
from tilewright.targets import Target
from tilewright.targets import target as target_named


@dataclass(frozen=True, slots=True)
class CheckedAc:
    """A kernel of a text: its name, the target that it is judged for, its module, and what `judge` finds."""

    name: str
    target: str
    module: ModuleOp
    judge: Callable[[], Judgement]


def ac_kernels(text: str, file: str, *, entry: str | None = None, target: str | None = None) -> tuple[CheckedAc, ...]:
    """Every kernel of `text`, or `entry` alone, ready to be judged for the target that is given, else for the one that
    the text names.

    Raises TilewrightError where the text is none of the dialect, has no kernel (of that name), or the target is not
    known or not one that `ac` is for.
    """
    read = read_ac(text, file)
    name = target or read.target
    if not name:
        raise TilewrightError(
            f"{file} names no target",
            remedy=f'give --target sm_90a, or builtin.module attributes {{{TARGET_ATTRIBUTE} = "sm_90a"}}',
        )
    facts = target_named(name)
    if not facts.supports("wgmma") and not facts.supports("tensor_memory"):
        raise TilewrightError(
            f"{file} is for {name}, which lacks the products of `ac`", remedy="give --target sm_90a or sm_100a"
        )
    kernels = tuple(each for each in read.kernels if entry is None or each.name == entry)
    if not kernels:
        known = ", ".join(each.name for each in read.kernels)
        which = f"no kernel {entry}" if entry is not None else "no ac.kernel"
        raise TilewrightError(f"{file} has {which}", remedy=f"it has {known}" if known else "give it one")
    return tuple(CheckedAc(each.name, name, each.module, _judging(each, facts)) for each in kernels)


def _judging(kernel: AcKernel, facts: Target) -> Callable[[], Judgement]:
    def judged() -> Judgement:
        # The proof goes through the units of a role, of which a text may name any number.
        most = facts.limit("cta.threads_max")
        for op in kernel.module.walk():
            if isinstance(op, ac.RoleOp) and op.execution.threads > most:
                reason = f"the role has {op.execution.threads:,} threads; a block has at most {most:,}"
                return Judgement((), (f"{kernel.place(op)}: {reason}",), True)
        match judge(kernel.module, facts, kernel.place)[0]:
            case Proven(scope, assumptions, claims):
                return Judgement((), (), True, scope, assumptions, claims)
            case Refuted(findings):
                # What else there may be to doubt is not said beside findings, so the rest is not decided.
                return Judgement(findings, (), False)
            case Unknown(reasons):
                return Judgement((), reasons, True)

    return judged
