"""Small kernels of bodies with readable register names, in pairs that differ in one mistake; what the checker says.

Every kernel has `%r_tid`, `%r_warp`, `%r_lane`, predicates for thread 0 and 32 (`%p_t0`, `%p_t32`) and warp 0
(`%p_w0`), 16 KiB `slots` and 128 bytes `bars` of shared memory; in a cluster `%r_rank`, and `%p_c0` to `%p_c1t0`.
Checked by: the tests of this folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_NAME = re.compile(r"%(rd|rs|r|p|f)_(\w+)")
_TYPES = {"p": ".pred", "rs": ".b16", "r": ".b32", "f": ".f32", "rd": ".b64"}
_BEGIN = """
mov.u32 %r_tid, %tid.x;
shr.u32 %r_warp, %r_tid, 5;
and.b32 %r_lane, %r_tid, 31;
setp.eq.u32 %p_t0, %r_tid, 0;
setp.eq.u32 %p_t32, %r_tid, 32;
setp.eq.u32 %p_w0, %r_warp, 0;
"""
_IN_A_CLUSTER = """
mov.u32 %r_rank, %cluster_ctarank;
setp.eq.u32 %p_c0, %r_rank, 0;
setp.eq.u32 %p_c1, %r_rank, 1;
and.pred %p_c0w0, %p_c0, %p_w0;
and.pred %p_c0t0, %p_c0, %p_t0;
and.pred %p_c1t0, %p_c1, %p_t0;
"""
MEET = "bar.sync 0;\n"
CLUSTER_MEET = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"


def wait(barrier: str = "bars", parity: str = "0", *, name: str = "W", form: str = "") -> str:
    """A blocking wait. name: of its label, unique in a kernel; form: modifiers, as `.acquire.cluster`."""
    return (
        f"{name}: mbarrier.try_wait.parity{form}.shared::cta.b64 %p_done{name}, [{barrier}], {parity};\n"
        f"@!%p_done{name} bra {name};\n"
    )


@dataclass(frozen=True, slots=True)
class Pair:
    """A body with `@@` where a mistake stands or what is right. parameters: names, 32 bits wide but for those in
    capitals; launch: a launch file's contents, if the pair is about one."""

    name: str
    body: str
    buggy: str
    fixed: str
    threads: int = 64
    cluster: int = 1
    target: str = "sm_90a"
    parameters: Sequence[str] = ("SOURCE", "RESULT")
    launch: Mapping[str, Any] | None = field(default=None, compare=False)

    def report(self, part: str) -> KernelReport:
        """What the checker says of the kernel that has `part` in its body."""
        given = None if self.launch is None else launch_from_json(dict(self.launch), "launch.json")
        (kernel,) = check_text(self._text(part), "kernel.ptx", launch=given).kernels
        return kernel

    def verdicts(self) -> tuple[str, str]:
        """Of the buggy kernel and of the fixed one."""
        return self.report(self.buggy).verdict, self.report(self.fixed).verdict

    def _text(self, part: str) -> str:
        loads = ""
        declared: list[str] = []
        for name in self.parameters:
            width, kind = ("64", "rd") if name.isupper() else ("32", "r")
            declared.append(f".param .u{width} {name}")
            loads += f"ld.param.u{width} %{kind}_{name}, [{name}];\n"
        begin = loads + _BEGIN + (_IN_A_CLUSTER if self.cluster > 1 else "")
        numbers: dict[str, dict[str, int]] = {}

        def number(match: re.Match[str]) -> str:
            known = numbers.setdefault(match[1], {})
            return f"%{match[1]}{known.setdefault(match[2], len(known))}"

        body = _NAME.sub(number, begin + self.body.replace("@@", part))
        registers = "\n".join(f".reg {_TYPES[kind]} %{kind}<{len(known)}>;" for kind, known in numbers.items())
        cluster = f".explicitcluster\n.reqnctapercluster {self.cluster}\n" if self.cluster > 1 else ""
        return (
            f".version 8.8\n.target {self.target}\n.address_size 64\n.visible .entry kernel({', '.join(declared)})\n"
            f".reqntid {self.threads}\n{cluster}{{\n{registers}\n.shared .align 1024 .b8 slots[16384];\n"
            f".shared .align 8 .b8 bars[128];\n{body}\nret;\n}}\n"
        )
