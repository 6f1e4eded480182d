"""ldmatrix, stmatrix and movmatrix of every shape: what stands where, and that stores undo loads."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.machine.small_kernels import as_bytes, launch

from tilewright.base.error import TilewrightError
from tilewright.base.plan import PointerParam
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import Access, Event
from tilewright.machine.core.run import run_launch

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {\n"
START = """
.reg .b32 %r<40>; .reg .b64 %rd<8>; .reg .pred %p<4>;
.shared .align 128 .b8 tile[1024];
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
mad.lo.u32 %r3, %r1, 16, %r2;
mad.wide.u32 %rd1, %r1, 16, %rd1;
mad.wide.u32 %rd2, %r1, 16, %rd2;
ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1];
"""
TO_TILE = "st.shared.v4.u32 [%r3], {%r10, %r11, %r12, %r13}; bar.warp.sync -1;"
TO_OUT = "st.global.v4.u32 [%rd2], {%r20, %r21, %r22, %r23}; ret; }"


def run(body: str, given: NDArray[np.uint8], observe: list[Event] | None = None) -> NDArray[np.uint32]:
    """`given` as 32 lines of 16 bytes; the registers %r20 to %r23 of each lane afterwards [lane, register]."""
    out = np.zeros((32, 4), np.uint32)
    clear = "mov.u32 %r20, 0; mov.u32 %r21, 0; mov.u32 %r22, 0; mov.u32 %r23, 0;"
    module = read(HEADER + START + clear + body + TO_OUT, "k.ptx")
    buffers = {"in": given.reshape(-1).copy(), "out": as_bytes(out)}
    run_launch(
        module,
        launch(PointerParam("in"), PointerParam("out")),
        buffers,
        observe=None if observe is None else observe.append,
    )
    return out


LINES = np.arange(512, dtype=np.uint16).astype(np.uint8).reshape(32, 16)
MANY = np.random.default_rng(5).integers(0, 256, (32, 16)).astype(np.uint8)


def test_bytes_of_a_16_by_16_matrix_are_transposed() -> None:
    """Lane l holds rows 4(l % 4) to 4(l % 4) + 3 of columns l / 4 and l / 4 + 8, two rows a register."""
    load = "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r20, %r21, %r22, %r23}, [%r3];"
    found = run(TO_TILE + load, MANY)
    for lane in range(32):
        row, column = 4 * (lane % 4), lane // 4
        for matrix in range(2):
            lines = MANY[16 * matrix : 16 * matrix + 16]
            for register in range(2):
                pair = lines[row + 2 * register : row + 2 * register + 2]
                wanted = [pair[0, column], pair[1, column], pair[0, column + 8], pair[1, column + 8]]
                word = int(found[lane, 2 * matrix + register])
                assert word == int.from_bytes(bytes(int(byte) for byte in wanted), "little")


@pytest.mark.parametrize(("number", "registers"), [("x1", 1), ("x2", 2), ("x4", 4)])
def test_bytes_stored_transposed(number: str, registers: int) -> None:
    """stmatrix m16n8: byte b of lane l goes to row 2(l % 4) + b % 2, column l / 4 + 8(b / 2) of 8 rows of 16."""
    names = ", ".join(f"%r{10 + index}" for index in range(registers))
    store = f"stmatrix.sync.aligned.m16n8.{number}.trans.shared.b8 [%r3], {{{names}}}; bar.warp.sync -1;"
    back = "ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r3];"
    clear = "mov.u32 %r30, 0; st.shared.v4.u32 [%r3], {%r30, %r30, %r30, %r30}; bar.warp.sync -1;"
    found = run(clear + store + back, MANY).view(np.uint8).reshape(32, 16)
    wanted = np.zeros((32, 16), np.uint8)
    for register in range(registers):
        for lane in range(32):
            for byte in range(4):
                row, column = 2 * (lane % 4) + byte % 2, lane // 4 + 8 * (byte // 2)
                wanted[8 * register + row, column] = MANY[lane, 4 * register + byte]
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("transposed", ["", ".trans"])
@pytest.mark.parametrize(("number", "registers"), [("x1", 1), ("x2", 2), ("x4", 4)])
def test_halves_where_the_isa_places_them(transposed: str, number: str, registers: int) -> None:
    names = ", ".join(f"%r{20 + index}" for index in range(registers))
    load = f"ldmatrix.sync.aligned.m8n8.{number}{transposed}.shared.b16 {{{names}}}, [%r3];"
    events: list[Event] = []
    found = run(TO_TILE + load, MANY, events).view(np.uint16).reshape(32, 4, 2)
    halves = np.ascontiguousarray(MANY).view(np.uint16)
    for register in range(registers):
        matrix = halves[8 * register : 8 * register + 8]
        matrix = matrix.T if transposed else matrix
        for lane in range(32):
            row, column = lane // 4, 2 * (lane % 4)
            assert found[lane, register].tolist() == matrix[row, column : column + 2].tolist()
    (access,) = [event for event in events if isinstance(event, Access) and event.space == "shared" and not event.write]
    assert access.ranges == ((0, 128 * registers),)


def test_a_matrix_moves_through_the_warp() -> None:
    found = run("movmatrix.sync.aligned.m8n8.trans.b16 %r20, %r10;", MANY)[:, 0]
    # The fragments of an 8x8 matrix: lane l holds row l / 4, elements 2(l % 4) and the next.
    words = np.ascontiguousarray(MANY[:, :4]).view(np.uint16)
    matrix = words.reshape(8, 8)
    assert np.array_equal(np.ascontiguousarray(found).view(np.uint16).reshape(8, 8), matrix.T)


def test_expanding_loads_are_refused() -> None:
    load = "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b4x16_p64 {%r20, %r21}, [%r3];"
    with pytest.raises(TilewrightError, match="the machine cannot run"):
        run(TO_TILE + load, LINES)
