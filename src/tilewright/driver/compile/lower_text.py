"""What PTX comes of a text of `ac` kernels? None, where any of them is not proven.

The same lowering as `compile`'s, applied to what the text says and to nothing else. A finding that is set aside in the
text is no proof, so nothing is lowered beside one. The proof is of the protocol: which of a thread's elements an
exchange moves is no part of it. A plan that does not fit its elements is refused here: no text comes of it, or none
that the reader of PTX takes.

Checked by: tests/driver/compile/test_lower_text.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.base.check_report import FileReport
from tilewright.base.error import TilewrightError
from tilewright.driver.check.check import check_text
from tilewright.driver.check.check_ac import ac_kernels
from tilewright.driver.check.options import DEFAULT_BUDGET_SECONDS, CheckOptions
from tilewright.driver.check.sources.text_file import is_ac
from tilewright.frontends.ptx.reader import read
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx


@dataclass(frozen=True, slots=True)
class LoweredText:
    """report: of the proof; ptx: an entry for each kernel, None where one is not proven."""

    report: FileReport
    ptx: str | None


def lower_text(
    text: str,
    file: str,
    *,
    entry: str | None = None,
    target: str | None = None,
    budget_seconds: float = DEFAULT_BUDGET_SECONDS,
) -> LoweredText:
    """Prove every kernel of an `ac` text, or `entry` alone, and lower what is proven.

    target: in place of the one that the text names; budget_seconds: for the proof of each kernel. Raises
    TilewrightError where the text is of another language.
    """
    if not is_ac(text, file):
        raise TilewrightError(
            f"{file} is no text of the `ac` dialect", remedy="`tilewright compile --emit ac` writes such a text"
        )
    report = check_text(text, file, options=CheckOptions(entry=entry, target=target, budget_seconds=budget_seconds))
    if report.error or any(kernel.verdict != "proven" or kernel.exceptions for kernel in report.kernels):
        return LoweredText(report, None)
    kernels = ac_kernels(text, file, entry=entry, target=target)
    try:
        ptx = lower_to_ptx([each.module for each in kernels], kernels[0].target)
        read(ptx, f"<{file}>")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise _not_emitted(file, repr(error)) from error
    except TilewrightError as error:
        raise _not_emitted(file, error.message) from error
    return LoweredText(report, ptx)


def _not_emitted(file: str, why: str) -> TilewrightError:
    return TilewrightError(
        f"{file} is proven, but no PTX comes of it, as where an exchange's plan does not fit its elements: {why}",
        remedy="give plans as `tilewright compile --emit ac` writes them",
    )
