"""Wavefronts of a kernel's accesses, line by line, from a run of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilewright.base.plan import Launch, PointerParam
from tilewright.driver.launch.launch_file import parse_launch
from tilewright.driver.views.bank_report import BankReport, bank_report, bank_report_of_ptx
from tilewright.frontends.ptx.reader import read
from tilewright.legal.bank.banks import wavefronts
from tilewright.machine.core.run import run_launch

HEAD = """.version 8.6
.target sm_90a
.address_size 64
"""


def transpose(pitch: int, guard: str = "") -> str:
    """One warp writes 32 rows of 32 words and reads its columns, from the second file's lines 7 and 9."""
    return f"""{HEAD}.file 1 "transpose.py"
.visible .entry transpose(.param .u64 out) .reqntid 32
{{
.reg .pred %p<3>; .reg .b32 %r<16>; .reg .b64 %rd<4>;
.shared .align 1024 .b8 tile[8192];
mov.u32 %r0, %tid.x;
mov.u32 %r1, tile;
mov.u32 %r5, 0;
setp.lt.u32 %p1, %r0, 16;
shl.b32 %r2, %r0, 2;
add.u32 %r3, %r1, %r2;
mul.lo.u32 %r4, %r0, {pitch};
add.u32 %r4, %r4, %r1;
again:
.loc 1 7 3
{guard}st.shared.u32 [%r3], %r0;
.loc 1 9 3
{guard}ld.shared.u32 %r6, [%r4];
add.u32 %r3, %r3, {pitch};
add.u32 %r4, %r4, 4;
add.u32 %r5, %r5, 1;
setp.ne.u32 %p0, %r5, 32;
@%p0 bra again;
ret;
}}
"""


LAUNCH = parse_launch('{"grid": [1], "params": [{"kind": "ptr", "buffer": "out", "bytes": 4096}]}', "launch.json")


def report(text: str, grid: int = 1, clusters: int | None = None) -> BankReport:
    return bank_report_of_ptx(text, "kernel.ptx", replace(LAUNCH, grid=(grid, 1, 1)), clusters=clusters)


def test_a_transpose_conflicts_where_it_reads_columns() -> None:
    found = report(transpose(128))
    store, load = found.lines
    assert (store.kind, store.executions, store.wavefronts, store.ideal) == ("st.shared.b32", 32, 32, 32)
    assert (load.kind, load.executions, load.wavefronts, load.ideal) == ("ld.shared.b32", 32, 1024, 32)
    assert (load.worst, load.excess) == (32, 992)
    assert int(wavefronts(load.kind, [load.worst_addresses], "sm_90a")[0]) == 32
    assert (str(store.origin), str(load.origin)) == ("transpose.py:7:3", "transpose.py:9:3")
    assert "ld.shared.u32" in load.span.text
    assert (found.clusters, found.clusters_of_launch, found.uncounted, found.ending) == (1, 1, (), None)


def test_an_access_of_an_inlined_function_has_the_line_of_its_call() -> None:
    text = transpose(128).replace(".loc 1 9 3\n", ".loc 1 4 3, function_name $L__info_string0, inlined_at 1 9 3\n")
    _, load = report(text).lines
    assert str(load.origin) == "transpose.py:9:3"


def test_padding_mends_it() -> None:
    found = report(transpose(132))
    assert found.wavefronts == found.ideal == 64


def test_lanes_that_take_no_part_are_left_out() -> None:
    load = report(transpose(128, "@%p1 ")).lines[1]
    assert (load.executions, load.wavefronts, load.worst) == (32, 512, 16)
    assert load.worst_addresses[16:] == (-1,) * 16 and min(load.worst_addresses[:16]) >= 0


@pytest.mark.parametrize(("clusters", "ran"), [(None, 3), (2, 2), (9, 3)])
def test_as_many_clusters_run_as_asked(clusters: int | None, ran: int) -> None:
    found = report(transpose(128), grid=3, clusters=clusters)
    assert (found.clusters, found.clusters_of_launch) == (ran, 3)
    assert [line.executions for line in found.lines] == [32 * ran, 32 * ran]


def test_matrices_vectors_generic_addresses_and_atomics() -> None:
    text = f"""{HEAD}.visible .entry several(.param .u64 out) .reqntid 32
{{
.reg .b32 %r<16>; .reg .b64 %rd<8>;
.shared .align 1024 .b8 tile[8192];
mov.u32 %r0, %tid.x;
mov.u32 %r1, tile;
shl.b32 %r2, %r0, 7;
add.u32 %r2, %r2, %r1;
st.shared.v4.u32 [%r2], {{%r0, %r0, %r0, %r0}};
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r2];
cvt.u64.u32 %rd0, %r2;
cvta.shared.u64 %rd1, %rd0;
ld.u32 %r8, [%rd1];
ld.param.u64 %rd2, [out];
cvta.to.global.u64 %rd2, %rd2;
mul.wide.u32 %rd3, %r0, 4;
add.s64 %rd2, %rd2, %rd3;
ld.u32 %r9, [%rd2];
st.global.u32 [%rd2], %r8;
atom.shared.add.u32 %r10, [%r1], 1;
ret;
}}
"""
    found = report(text)
    assert [(line.kind, line.wavefronts) for line in found.lines] == [
        ("st.shared.b128", 32),
        ("ldmatrix.x4", 32),
        ("ld.shared.b32", 32),
    ]
    assert [("atomics" in line.reason, line.executions) for line in found.uncounted] == [(True, 1)]


def test_a_fault_ends_the_report_and_keeps_what_was_counted() -> None:
    text = transpose(128).replace("ret;", "ld.shared.u32 %r6, [%r1+65536];\nret;")
    found = report(text)
    assert found.ending is not None and found.ending.code == "MF001"
    assert found.lines[1].wavefronts == 1024
    assert found.clusters == 0


def test_counting_changes_nothing_that_the_kernel_does() -> None:
    text = transpose(128).replace(
        "ret;", "ld.param.u64 %rd1, [out];\nmul.wide.u32 %rd2, %r0, 4;\nadd.s64 %rd1, %rd1, %rd2;\n"
        "st.global.u32 [%rd1], %r6;\nret;",
    )  # fmt: skip
    module = read(text, "kernel.ptx")
    launch = Launch("transpose", (1, 1, 1), (32, 1, 1), (PointerParam("out"),))
    counted, run = np.zeros(4096, np.uint8), np.zeros(4096, np.uint8)
    assert bank_report(module, launch, {"out": counted}).ending is None
    run_launch(module, launch, {"out": run})
    assert run.any() and (counted == run).all()
    given = np.zeros(4096, np.uint8)
    assert bank_report_of_ptx(text, "kernel.ptx", LAUNCH, {"out": given}).ending is None
    assert not given.any()
