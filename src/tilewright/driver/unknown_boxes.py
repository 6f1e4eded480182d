"""How many bytes does a copy through an unknown tensor map transfer?

The kernel's own phases are sums of it: what a run expected and which copies signalled (`copied_bytes`). The kernel is
run with one made-up choice of numbers after another until its phases say something.
Checked by: tests/driver/test_judge_unlaunched.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.driver.copied_bytes import PhaseEquation, Place, copied_bytes, proportional
from tilewright.driver.explore import Values
from tilewright.driver.unknown_launch import UnknownLaunch, member_name
from tilewright.frontends.ptx.ast import Kernel
from tilewright.machine.memory import PARAM_WINDOW
from tilewright.machine.protocol_run import ProtocolReport

_SIZING_VALUES = (256, 1024, 64, 4096, 1)
"""Values of all numbers at which the bytes of copies are looked for, in turn."""


def unknown_boxes(
    unknown: UnknownLaunch, run: Callable[[Values], ProtocolReport]
) -> tuple[dict[Place, int], tuple[str, ...]]:
    """Bytes that a copy through each tensor map transfers, and the assumptions in words.

    run: what a launch with these numbers and no box does."""
    if not unknown.tensor_maps:
        return {}, ()
    offsets = _block_offsets(unknown.kernel)
    equations: list[PhaseEquation] = []
    landmarks: list[int] = []
    for value in _SIZING_VALUES:
        report = run((value,) * len(unknown.numbers))
        equations = _equations(report, offsets, unknown)
        landmarks = [phase.address for phase in report.unknown_phases]
        if any(equation.expected_bytes for equation in equations):
            break
    equations = [equation for equation in equations if equation.expected_bytes > 0]
    known = copied_bytes(equations, landmarks)
    boxes = proportional(equations, known)
    words: list[str] = []
    for member in unknown.tensor_maps:
        place = (member.parameter, member.offset_bytes)
        name = member_name(unknown.kernel, member)
        if place in known:
            words.append(f"{name}'s box is {known[place]:,} bytes")
        elif place in boxes:
            words.append(f"{name}'s box is such that its phase expects the right bytes (taken: {boxes[place]:,})")
        else:
            words.append(f"{name} is a legal tensor map")
            boxes[place] = 16
    return boxes, tuple(words)


def _equations(report: ProtocolReport, offsets: list[tuple[int, int]], unknown: UnknownLaunch) -> list[PhaseEquation]:
    found: list[PhaseEquation] = []
    for phase in report.unknown_phases:
        copies = tuple(
            (place, share.offset)
            for share in phase.shares
            if (place := _place(share.origin - PARAM_WINDOW, offsets, unknown)) is not None
        )
        if len(copies) == len(phase.shares):
            found.append(PhaseEquation(phase.expected_bytes, copies))
    return found


def _place(offset: int, offsets: list[tuple[int, int]], unknown: UnknownLaunch) -> Place | None:
    """The tensor map that begins at an offset in the parameter block."""
    for member in unknown.tensor_maps:
        if offsets[member.parameter][0] + member.offset_bytes == offset:
            return member.parameter, member.offset_bytes
    return None


def _block_offsets(kernel: Kernel) -> list[tuple[int, int]]:
    """Where each parameter begins and ends in the parameter block."""
    found: list[tuple[int, int]] = []
    end = 0
    for parameter in kernel.parameters:
        begin = end + -end % parameter.align
        end = begin + parameter.size_bytes
        found.append((begin, end))
    return found
