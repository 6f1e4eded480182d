"""Kernels that are written in parts, to be replaced one by one, and their proof by kernels that are made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tilewright.base.verdict import Proven
from tilewright.contract.rules.interpretations import Interpretations
from tilewright.driver.explore.judge_unlaunched import UnlaunchedJudgement, judge_unlaunched
from tilewright.driver.explore.segments.judge_segments import judge_segments
from tilewright.driver.launch.given_launch import PartialLaunch
from tilewright.driver.launch.launch_shapes import launch_shapes
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.frontends.ptx.reader import read

_LABEL = re.compile(r"\b([A-Z][A-Z0-9]*): ")
_KINDS = {"p": "pred", "r": "b32", "rd": "b64", "f": "f32"}


def with_parts(body: str, parts: Mapping[str, str]) -> str:
    """The declarations and the lines of a body in which words in capitals stand for parts."""
    for name, part in parts.items():
        body = re.sub(rf"\b{name} ", lambda _: part, body)  # noqa: B023
    body = _LABEL.sub(r"\n\1:\n", body.replace("; ", ";\n"))
    names = {(kind, name) for name, kind in re.findall(r"(%(p|rd|r|f)_\w+)", body)}
    return "".join(f".reg .{_KINDS[kind]} {name};\n" for kind, name in sorted(names)) + body


def is_proven_by_made_kernels(text: str) -> bool:
    """Whether a kernel is proven without a look at it as a whole."""
    module = read(text, "attack.ptx")
    (its_kernel,) = module.kernels
    (shape,) = launch_shapes(module, its_kernel).likely

    def explored(made: Module, made_kernel: Kernel) -> UnlaunchedJudgement:
        return judge_unlaunched(
            made, made_kernel, Interpretations(), shape=shape, ends=lambda _finding: True, only_proof=True
        )

    found = judge_segments(module, its_kernel, shape, PartialLaunch(), explored)
    return found is not None and isinstance(found.verdict, Proven)
