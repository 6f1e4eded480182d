"""Kernels that hang where a predicate `%p_bug` holds, which a body computes from parameters in some roundabout way.

Checked by: tests/coverage_attacks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.guarded.text import kernel_text, wait
from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_text

_SHARED = ".shared .align 8 .b64 bar[4];\n.shared .align 16 .b8 buf[1024];\n.local .align 16 .b8 frame[256];"
_BEGIN = """
mov.u32 %r_tid, %tid.x;
mov.u32 %r_bar, bar;
mov.u32 %r_buf, buf;
setp.ne.u32 %p_other, %r_tid, 0;
@%p_other bra INITED;
mbarrier.init.shared::cta.b64 [%r_bar], 1;
mbarrier.init.shared::cta.b64 [%r_bar+8], 1;
fence.mbarrier_init.release.cluster;
INITED:
bar.sync 0;
"""
_LABEL = re.compile(r"\b([A-Z]\w*): ")


def hanging(body: str, names: Sequence[str] = ("n",), *, structured: bool = False, module: str = "") -> str:
    """A kernel of two warps; where the body sets `%p_bug`, they wait for a barrier at which nobody arrives.
    structured: the names are members of one parameter; module: declarations before the kernel."""
    lines = _LABEL.sub(r"\n\1:\n", body.replace("; ", ";\n"))
    end = f"\n@!%p_bug bra $L__END;\n{wait('%r_bar', '0')}\nbra.uni $L__END;\n"
    text = kernel_text("k", _BEGIN + lines + end, names, shared=_SHARED, structured=structured)
    return text.replace(".address_size 64\n", f".address_size 64\n{module}\n", 1)


def checked(text: str) -> KernelReport:
    """The report of the only kernel of a text."""
    (report,) = check_text(text, "attack.ptx").kernels
    return report
