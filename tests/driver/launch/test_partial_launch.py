"""Launch files that leave parts open: what is not given may be anything, and is never taken for zero."""

from __future__ import annotations

from typing import Any

import pytest
from tests.driver.checked_kernels import pipe_text

from tilewright.base.check_report import KernelReport
from tilewright.base.error import TilewrightError
from tilewright.base.plan import OpaqueParam
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.frontends.ptx.reader import read

POINTERS = [{"kind": "ptr", "bytes": 1 << 20, "buffer": name} for name in ("source", "out")]
STRIDE = {"kind": "i32", "value": 64}
UNRELEASED = ("    mbarrier.arrive.shared::cta.b64 _, [%r8+16];\n", "")
"""The reader never gives a slot back: the third step hangs."""


def checked(text: str, document: dict[str, Any], **options: Any) -> KernelReport:
    launch = launch_from_json(document, "launch.json")
    report = check_text(text, "pipe.ptx", launch=launch, options=CheckOptions(**options))
    assert not report.error, report.error
    return report.kernels[0]


@pytest.mark.parametrize("unknown", [None, {"kind": "unknown"}])
def test_a_number_that_is_left_out_is_explored(unknown: object) -> None:
    document = {"grid": [1], "params": [*POINTERS, unknown, STRIDE]}
    kernel = checked(pipe_text(), document)
    assert (kernel.verdict, kernel.scope) == ("proven", "all trip counts"), kernel.reasons
    assert kernel.assumptions[0].startswith("the launch is as launch.json says, where it says")
    assert checked(pipe_text(*UNRELEASED), document).verdict == "refuted"


def test_a_number_that_is_given_is_not_explored() -> None:
    steps = {"kind": "i32", "value": 2}
    for params in ([*POINTERS, steps, STRIDE], [None, None, steps, None]):
        kernel = checked(pipe_text(*UNRELEASED), {"params": params})
        assert (kernel.verdict, kernel.scope) == ("proven", "this launch"), kernel.reasons


def test_nothing_but_a_shape_may_be_given() -> None:
    for document in ({}, {"grid": [3]}, {"params": None, "block": [64], "dynamic_smem": None}):
        kernel = checked(pipe_text(), document)
        assert (kernel.verdict, kernel.scope) == ("proven", "all trip counts"), kernel.reasons


def test_options_complete_a_launch() -> None:
    text = pipe_text(".reqntid 64\n", "")
    whole = {"params": [*POINTERS, {"kind": "i32", "value": 5}, STRIDE]}
    kernel = checked(text, whole, block=(64, 1, 1))
    assert (kernel.verdict, kernel.scope) == ("proven", "this launch")
    launch = launch_from_json({"block": [64], **whole}, "launch.json")
    report = check_text(text, "pipe.ptx", launch=launch, options=CheckOptions(block=(96, 1, 1)))
    assert report.error == "launch.json: block: is (64, 1, 1); --block says (96, 1, 1)"
    assert report.remedy == "leave one of them out"


# ---------------------------------------------------------------- structures

_STRUCTURE = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 8 .b8 p[32]) .reqntid 32
{{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    .shared .align 8 .b8 full[8];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.shared::cta.b64 [full], 1;
    bar.sync 0;
{load}
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra DONE;
    @!%p1 mbarrier.arrive.shared::cta.b64 _, [full];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;
    @!%p3 bra WAIT;
DONE:
    ret;
}}
"""
_BY_NAME = "ld.param.u32 %r2, [p+8];"
_BY_REGISTER = "mov.b64 %rd1, p;\nadd.s64 %rd2, %rd1, 4;\nld.param.u32 %r2, [%rd2+4];"
_ANYWHERE = "and.b32 %r3, %r1, 3;\nshl.b32 %r3, %r3, 2;\ncvt.u64.u32 %rd3, %r3;\n" + _BY_REGISTER.replace(
    "%rd1, 4", "%rd1, %rd3"
)


_ARRIVAL = "    @!%p1 mbarrier.arrive.shared::cta.b64 _, [full];\n"


def structure(load: str) -> str:
    return _STRUCTURE.format(load=load)


def hanging(load: str) -> str:
    """The wait never ends, where it is made."""
    text = structure(load)
    assert text.count(_ARRIVAL) == 1
    return text.replace(_ARRIVAL, "")


def given(**structure: Any) -> dict[str, Any]:
    return {"params": [{"kind": "bytes", "size": 32, **structure}]}


@pytest.mark.parametrize("load", [_BY_NAME, _BY_REGISTER])
@pytest.mark.parametrize(
    "known",
    [{"data": "00" * 8 + "01000000"}, {"fields": [{"kind": "i32", "value": 1, "at": 8}]}],
    ids=["data", "field"],
)
def test_a_field_next_to_missing_bytes_is_known(load: str, known: dict[str, Any]) -> None:
    kernel = checked(structure(load), given(**known))
    assert (kernel.verdict, kernel.scope) == ("proven", "this launch"), kernel.reasons
    # The branch is taken as the field says: the wait that never ends is met, or is not.
    assert checked(hanging(load), given(**known)).verdict == "refuted"
    assert checked(hanging(load).replace("setp.eq.u32 %p2", "setp.ne.u32 %p2"), given(**known)).verdict == "proven"


@pytest.mark.parametrize("load", [_BY_NAME, _BY_REGISTER])
def test_missing_bytes_are_not_zero(load: str) -> None:
    zeros, missing = given(data="00" * 32), given(data="00" * 8)
    assert checked(hanging(load), zeros).verdict == "proven"
    assert checked(hanging(load), missing).verdict == "refuted"


def test_a_load_that_may_read_missing_bytes_is_not_known() -> None:
    kernel = checked(structure(_ANYWHERE), given(data="00" * 8 + "01000000"))
    assert kernel.verdict == "unknown"
    (kernel,) = check_text(structure(_ANYWHERE), "k.ptx").kernels
    assert kernel.verdict == "unknown"


@pytest.mark.parametrize("space", [".shared", ""])
def test_a_load_from_elsewhere_does_not_read_missing_bytes(space: str) -> None:
    """What a thread stored to shared memory is known, though bytes of a parameter are missing that nobody reads."""
    load = f"""mov.u32 %r4, 1;
mov.u64 %rd1, full;
{"" if space else "cvta.shared.u64 %rd1, %rd1;"}
st.shared.u32 [full+8], %r4;
ld{space}.u32 %r2, [%rd1+8];
ld.param.u32 %r5, [p+8];"""
    text = structure(load).replace("full[8]", "full[16]")
    kernel = checked(text, given(data="00" * 8 + "01000000"))
    assert (kernel.verdict, kernel.scope) == ("proven", "this launch"), kernel.reasons


def test_numbers_among_the_fields_stand_in_the_data() -> None:
    fields = [
        {"kind": "ptr", "bytes": 0, "at": 0},
        {"kind": "f32", "value": 0.5, "at": 12},
        {"kind": "i64", "value": -1, "at": 16},
    ]
    (param,) = launch_from_json(given(fields=fields), "launch.json").params or ()
    assert isinstance(param, OpaqueParam)
    assert param.data == bytes(12) + b"\0\0\0\x3f" + b"\xff" * 8
    assert param.unknown_bytes == ((8, 12), (24, 32))


# ---------------------------------------------------------------- runs


def test_a_run_needs_every_parameter() -> None:
    launch = launch_from_json({"params": [*POINTERS, None, STRIDE]}, "launch.json")
    module = read(pipe_text(), "pipe.ptx")
    with pytest.raises(TilewrightError, match=r"launch.json: params\[2\]: is not given") as caught:
        launch.resolve(module.kernels[0])
    assert caught.value.remedy
