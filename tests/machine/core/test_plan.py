"""Launch plans: launches in order, workspace that begins as poison, and what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.small_kernels import as_bytes, launch, module

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer, LaunchPlan, PointerParam
from tilewright.machine.core.plan import run_plan

ADD_ONE = """
ld.param.u64 %rd1, [from];
ld.param.u64 %rd2, [to];
mov.u32 %r1, %tid.x;
mad.wide.u32 %rd3, %r1, 4, %rd1;
mad.wide.u32 %rd4, %r1, 4, %rd2;
ld.global.u32 %r2, [%rd3];
add.u32 %r2, %r2, 1;
st.global.u32 [%rd4], %r2;
ret;
"""
PARAMETERS = ".param .u64 from, .param .u64 to"
BUFFERS = (
    Buffer("x", Element.U32, (32,), (1,), "input"),
    Buffer("scratch", Element.U32, (32,), (1,), "workspace"),
    Buffer("y", Element.U32, (32,), (1,), "output"),
)
MODULES = {name: module(ADD_ONE, parameters=PARAMETERS, name=name) for name in ("first", "second")}


def test_two_launches_share_a_workspace() -> None:
    plan = LaunchPlan(
        BUFFERS,
        (
            launch(PointerParam("x"), PointerParam("scratch"), name="first"),
            launch(PointerParam("scratch"), PointerParam("y"), name="second"),
        ),
    )
    x, y = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    fractions: list[float] = []
    report = run_plan(MODULES, plan, {"x": as_bytes(x), "y": as_bytes(y)}, progress=fractions.append)
    assert np.array_equal(y, x + 2)
    assert fractions == [0.5, 1.0]
    assert report.instructions == 18


def test_workspace_begins_as_poison() -> None:
    plan = LaunchPlan(BUFFERS, (launch(PointerParam("scratch"), PointerParam("y"), name="second"),))
    y = np.zeros(32, np.uint32)
    run_plan(MODULES, plan, {"x": np.zeros(128, np.uint8), "y": as_bytes(y)})
    assert (y == 0xCCCC_CCCD).all()


def test_what_is_missing_is_named() -> None:
    plan = LaunchPlan(BUFFERS, (launch(PointerParam("x"), PointerParam("y"), name="third"),))
    arrays = {"x": np.zeros(128, np.uint8), "y": np.zeros(128, np.uint8)}
    with pytest.raises(TilewrightError, match="third"):
        run_plan(MODULES, plan, arrays)
    with pytest.raises(TilewrightError, match="no array was given for buffer y"):
        run_plan(MODULES, plan, {"x": arrays["x"]})
    with pytest.raises(TilewrightError, match="has 64 bytes, it needs 128"):
        run_plan(MODULES, plan, {"x": arrays["x"], "y": np.zeros(64, np.uint8)})
