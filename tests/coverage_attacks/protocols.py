"""Small kernels of one protocol each, and pairs of them: a right one, and one with a single mistake in it.

Registers that every kernel has: `%r_tid`, `%r_lane`, `%r_warp`, `%r_rank` (of the CTA in its cluster), `%r_bar` (eight
mbarriers), `%r_buf` (32 KB), `%r_slot` (a few words), `%p_t0` (the first thread), `%p_l0` (the first lane).
Checked by: tests/coverage_attacks/test_fences_of_lanes.py.
"""

from __future__ import annotations

import re

from tests.guarded.text import kernel_text
from tilewright.base.check_report import KernelReport
from tilewright.base.diagnostic import Level
from tilewright.base.value import dataclass
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions

_SHARED = ".shared .align 8 .b64 bar[8];\n.shared .align 1024 .b8 buf[32768];\n.shared .align 16 .b32 slot[4];"
_BEGIN = (
    "mov.u32 %r_tid, %tid.x; mov.u32 %r_bar, bar; mov.u32 %r_buf, buf; mov.u32 %r_slot, slot; shr.u32 %r_warp, "
    "%r_tid, 5; and.b32 %r_lane, %r_tid, 31; setp.eq.u32 %p_t0, %r_tid, 0; setp.eq.u32 %p_l0, %r_lane, 0; "
    "mov.u32 %r_rank, %cluster_ctarank; "
)
CLUSTER_BARRIER = "barrier.cluster.arrive; barrier.cluster.wait; "
_LABEL = re.compile(r"\b([A-Z][A-Z0-9]*): ")


@dataclass(frozen=True)
class Pair:
    """A right body; `before` is replaced by `after` in it, which is wrong, by one of `codes`. level: at which, under
    the tolerant interpretation; under the strict one it is always an error. cluster: CTAs; target: the architecture."""

    body: str
    before: str
    after: str
    codes: tuple[str, ...]
    level: Level = Level.ERROR
    threads: int = 64
    cluster: int = 1
    target: str = "sm_90a"

    @property
    def right(self) -> str:
        return self._text(self.body)

    @property
    def wrong(self) -> str:
        assert self.body.count(self.before) == 1, self.before
        return self._text(self.body.replace(self.before, self.after))

    def _text(self, body: str) -> str:
        lines = _LABEL.sub(r"\n\1:\n", (_BEGIN + body).replace("; ", ";\n"))
        cluster = f".reqnctapercluster {self.cluster}, 1, 1\n" if self.cluster > 1 else ""
        text = kernel_text("k", lines, ("n",), threads=self.threads, shared=_SHARED, directives=cluster)
        return text.replace(".target sm_90a", f".target {self.target}").replace(".version 8.6", ".version 8.8")


def wait(barrier: str, parity: str, label: str = "W", form: str = "shared::cta") -> str:
    """Waits for a phase."""
    return f"{label}: mbarrier.try_wait.parity.{form}.b64 %p_{label}, [{barrier}], {parity}; @!%p_{label} bra {label}; "


def looped(body: str) -> str:
    """The body, as often as `n` says; `%r_i` counts."""
    return (
        "mov.u32 %r_i, 0; L: setp.ge.u32 %p_end, %r_i, %r_n; @%p_end bra LEND; "
        f"{body}add.u32 %r_i, %r_i, 1; bra L; LEND: mov.u32 %r_i, 0; "
    )


def report_of(text: str, isa: str = "tolerant") -> KernelReport:
    """The report of the only kernel of a text."""
    (report,) = check_text(text, "attack.ptx", options=CheckOptions(isa=isa)).kernels
    return report


def assert_told_apart(pair: Pair) -> None:
    """The right kernel is proven, without a word about the wrong one's mistake; the wrong one is not."""
    right = report_of(pair.right)
    assert right.verdict == "proven", right.reasons or right.errors
    assert not {each.code for each in right.findings} & set(pair.codes)
    for isa, level in (("tolerant", pair.level), ("strict", Level.ERROR)):
        report = report_of(pair.wrong, isa)
        assert any(each.code in pair.codes and each.level is level for each in report.findings), (isa, report)
        assert report.verdict == "refuted" or level is Level.REVIEW, (isa, report)
