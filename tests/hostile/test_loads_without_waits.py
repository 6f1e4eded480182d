"""Loads of tensor memory in a loop that never waits for them: each is judged, and each register reported once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.base.diagnostic import Level
from tilewright.base.plan import Launch, PointerParam
from tilewright.driver.check.check import check_text
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import Event, TensorMemoryRegisterUse
from tilewright.machine.core.memory import VirtualBuffer
from tilewright.machine.protocol.protocol_run import run_protocol

_BUGGY = Path(__file__).parents[2] / "docs" / "bugs" / "released-before-a-load-is-waited-for" / "buggy.ptx"
_LOAD = "\ttcgen05.ld.sync.aligned.32x32b.x1.b32 {%r33}, [%r32]; // here\n"
_WAIT = "\ttcgen05.wait::ld.sync.aligned;\n"
_STORE = "\tst.global.b32 [%rd3], %r33;\n"


def _kernel(body: str, after: str = "") -> str:
    """The buggy kernel, whose load is `body` in a loop of so many iterations."""
    text = _BUGGY.read_text("utf-8")
    assert text.count(_LOAD) == 1 and text.count(_WAIT) == 1 and text.count(_STORE) == 1
    loop = (
        "\tmov.u32 %r50, 0;\n\t$again:\n"
        f"{body}\tadd.u32 %r50, %r50, 1;\n\tsetp.lt.u32 %p7, %r50, COUNT;\n\t@%p7 bra $again;\n"
    )
    return text.replace(_WAIT, "").replace(_STORE, "").replace(_LOAD, loop + after)


def _uses(text: str) -> int:
    found: list[Event] = []
    buffers = {"a": VirtualBuffer(4096), "b": VirtualBuffer(4096)}
    launch = Launch("kernel", (1, 1, 1), (128, 1, 1), (PointerParam("a"), PointerParam("b")), (1, 1, 1), 0)
    run_protocol(read(text, "loads.ptx"), launch, buffers, observe=found.append)
    return sum(isinstance(each, TensorMemoryRegisterUse) for each in found)


def test_each_use_of_a_register_is_reported_once_however_often_its_load_came() -> None:
    few, many = (_uses(_kernel(_LOAD + _STORE).replace("COUNT", str(count))) for count in (4, 32))
    assert few > 0 and many <= 9 * few


@pytest.mark.parametrize("count", [2, 9])
def test_what_the_same_load_overwrites_unread_is_an_error(count: int) -> None:
    (report,) = check_text(_kernel(_LOAD, _WAIT + _STORE).replace("COUNT", str(count)), "loads.ptx").kernels
    assert any(each.code == "TC112" and each.level is Level.ERROR for each in report.findings)


def test_what_another_load_overwrites_unread_is_an_error() -> None:
    body = _LOAD + _STORE + _LOAD.replace(" // here", "") + _LOAD.replace(" // here", "")
    (report,) = check_text(_kernel(body, _WAIT + _STORE).replace("COUNT", "3"), "loads.ptx").kernels
    assert any(each.code == "TC112" and each.level is Level.ERROR for each in report.findings)


@pytest.mark.parametrize("read", [_STORE, ""], ids=["read in the loop", "not read"])
def test_a_release_before_the_last_load_is_waited_for_is_refuted(read: str) -> None:
    last = _LOAD.replace(" // here", "") + "\ttcgen05.fence::before_thread_sync;\n"
    (report,) = check_text(_kernel(_LOAD + read, last).replace("COUNT", "5"), "loads.ptx").kernels
    assert report.verdict == "refuted" and any(each.code == "TC109" for each in report.findings)
