"""Gluon kernels of the tests' own. A plain module: Gluon reads a kernel's source from its file."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma


@gluon.jit
def load_half_expected(d, out, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    rows = gl.arange(0, N, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, layout))
    tile = gl.allocate_shared_memory(d.dtype, [N, N], d.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.expect(full, d.block_type.nbytes // 2)
    tma.async_load(d, [0, 0], full, tile)
    mbarrier.wait(full, 0)
    gl.store(out + rows[:, None] * N + columns[None, :], tile.load(layout))
