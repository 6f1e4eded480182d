"""A product in CuTe DSL for tcgen05 (sm_100a), compiled without a GPU: `python cute_blackwell.py FOLDER`.

With nvidia-cutlass-dsl installed (the corpus: 4.8.1) it writes FOLDER/cute/sm_100a/NAME.ptx and NAME.launch.json. One
warp loads a ring and multiplies, four warps read the sums. Written after the library's own tutorial of such a product.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

os.environ.update(CUTE_DSL_ARCH="sm_100a", CUTE_DSL_KEEP="ptx", CUTE_DSL_DUMP_DIR=tempfile.mkdtemp())

import cutlass
from cutlass import cute, pipeline, utils
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.cute.runtime import make_fake_compact_tensor
from cutlass.utils import blackwell_helpers

TILE = (128, 64, 64)
STAGES = 3
THREADS = 128
M, N, K = 256, 128, 320


@cute.struct
class Barriers:
    ring: cute.struct.MemRange[cutlass.Int64, STAGES * 2]
    sums: cute.struct.MemRange[cutlass.Int64, 2]
    columns: cutlass.Int32


@cute.kernel
def product_kernel(
    mma: cute.TiledMma,
    load_a: cute.CopyAtom,
    a: cute.Tensor,
    load_b: cute.CopyAtom,
    b: cute.Tensor,
    c: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
):
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    row, column, _ = cute.arch.block_idx()
    at = (row, column, None)
    memory = utils.SmemAllocator()
    barriers = memory.allocate(Barriers)
    slots_a = memory.allocate_tensor(cutlass.Float16, layout_a.outer, 128, layout_a.inner)
    slots_b = memory.allocate_tensor(cutlass.Float16, layout_b.outer, 128, layout_b.inner)
    columns = utils.TmemAllocator(
        barriers.columns.ptr, barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS)
    )
    columns.allocate(64)
    slot_bytes = cute.size_in_bytes(cutlass.Float16, cute.select(layout_a, mode=[0, 1, 2]))
    slot_bytes += cute.size_in_bytes(cutlass.Float16, cute.select(layout_b, mode=[0, 1, 2]))
    one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
    loader, user = pipeline.PipelineTmaUmma.create(
        num_stages=STAGES, producer_group=one, consumer_group=one, tx_count=slot_bytes,
        barrier_storage=barriers.ring.data_ptr(),
    ).make_participants()  # fmt: skip
    adder, reader = pipeline.PipelineUmmaAsync.create(
        num_stages=1, producer_group=one,
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, THREADS),
        barrier_storage=barriers.sums.data_ptr(),
    ).make_participants()  # fmt: skip
    part = mma.get_slice(0)
    tile_a = part.partition_A(cute.local_tile(a, TILE, at, proj=(1, None, 1)))
    tile_b = part.partition_B(cute.local_tile(b, TILE, at, proj=(None, 1, 1)))
    tile_c = part.partition_C(cute.local_tile(c, TILE, at, proj=(1, 1, None)))
    operand_a, operand_b = mma.make_fragment_A(slots_a), mma.make_fragment_B(slots_b)
    flat = cute.make_layout(1)
    to_a, from_a = cpasync.tma_partition(
        load_a, 0, flat, cute.group_modes(slots_a, 0, 3), cute.group_modes(tile_a, 0, 3)
    )
    to_b, from_b = cpasync.tma_partition(
        load_b, 0, flat, cute.group_modes(slots_b, 0, 3), cute.group_modes(tile_b, 0, 3)
    )
    columns.wait_for_alloc()
    pointer = columns.retrieve_ptr(cutlass.Float32)
    sums = cute.make_tensor(pointer, mma.make_fragment_C(mma.partition_shape_C(TILE[:2])).layout)
    if warp == 0:
        empty = adder.acquire_and_advance()
        for _ in cutlass.range(K // TILE[2], prefetch_stages=STAGES - 1):
            slot = loader.acquire_and_advance()
            cute.copy(load_a, from_a[(None, slot.count)], to_a[(None, slot.index)], tma_bar_ptr=slot.barrier)
            cute.copy(load_b, from_b[(None, slot.count)], to_b[(None, slot.index)], tma_bar_ptr=slot.barrier)
            full = user.wait_and_advance()
            for step in cutlass.range_constexpr(cute.size(operand_a, mode=[2])):
                here = (None, None, step, full.index)
                cute.gemm(mma, sums, operand_a[here], operand_b[here], sums)
                mma.set(tcgen05.Field.ACCUMULATE, True)
            full.release()
        empty.commit()
    columns.relinquish_alloc_permit()
    done = reader.wait_and_advance()
    tiles = ((cute.size(sums, mode=[0, 0]), cute.size(sums, mode=[0, 1]) // 2),)
    sums, tile_c = cute.zipped_divide(sums, tiles), cute.zipped_divide(tile_c, tiles)
    atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), cutlass.Float32)
    mine = tcgen05.make_tmem_copy(atom, sums[None, 0]).get_slice(thread)
    read, written = mine.partition_S(sums), mine.partition_D(tile_c)
    values = cute.make_rmem_tensor(written[None, None, 0].shape, cutlass.Float32)
    for half in cutlass.range(cute.size(read, mode=[2])):
        cute.copy(mine, read[None, None, half], values)
        cute.autovec_copy(values, written[None, None, half])
    done.release()
    pipeline.sync(barrier_id=1)
    columns.free(pointer)


@cute.jit
def product(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    op = tcgen05.MmaF16BF16Op(
        cutlass.Float16, cutlass.Float32, (*TILE[:2], 16), tcgen05.CtaGroup.ONE, tcgen05.OperandSource.SMEM,
        tcgen05.OperandMajorMode.K, tcgen05.OperandMajorMode.K,
    )  # fmt: skip
    mma = cute.make_tiled_mma(op)
    layout_a = blackwell_helpers.make_smem_layout_a(mma, TILE, a.element_type, STAGES)
    layout_b = blackwell_helpers.make_smem_layout_b(mma, TILE, b.element_type, STAGES)
    load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    a_atom, a_tensor = cute.nvgpu.make_tiled_tma_atom_A(load, a, cute.select(layout_a, mode=[0, 1, 2]), TILE, mma)
    b_atom, b_tensor = cute.nvgpu.make_tiled_tma_atom_B(load, b, cute.select(layout_b, mode=[0, 1, 2]), TILE, mma)
    product_kernel(mma, a_atom, a_tensor, b_atom, b_tensor, c, layout_a, layout_b).launch(
        grid=(M // TILE[0], N // TILE[1], 1), block=(THREADS, 1, 1)
    )


def write(folder: Path, name: str) -> None:
    def tensor(element, rows, columns):
        return make_fake_compact_tensor(element, (rows, columns), stride_order=(1, 0), assumed_align=32)

    arrays = tensor(cutlass.Float16, M, K), tensor(cutlass.Float16, N, K), tensor(cutlass.Float32, M, N)
    text = cute.compile(product, *arrays).__ptx__
    text = re.sub(r"\n\t\.section\s+\.debug_\w+\s*\{.*?\n?\t?\}", "", text, flags=re.S).rstrip("\x00\n ") + "\n"
    text = text.replace(re.search(r"\.entry\s+(\w+)", text)[1], name)  # The compiler's name has 300 letters.
    path = folder / "cute" / "sm_100a" / f"{name}.ptx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")

    def loaded(buffer, rows, box):
        return {
            "kind": "tensormap", "dtype": "f16", "dims": [K, rows], "strides": [K * 2], "box": [TILE[2], box],
            "element_strides": [1, 1], "swizzle": "128B", "interleave": "none", "oob": "zero", "buffer": buffer,
        }  # fmt: skip

    launch = {
        "entry": name,
        "grid": [M // TILE[0], N // TILE[1], 1], "block": [THREADS, 1, 1], "cluster": [1, 1, 1],
        "dynamic_smem": STAGES * 2 * TILE[2] * (TILE[0] + TILE[1]) + 1024,
        "params": [
            # The tiled product's state: accumulate, negate A, negate B, and a mask of lanes that are kept; all zero.
            {"kind": "bytes", "size": 32, "data": "00" * 32},
            loaded("da", M, TILE[0]), loaded("db", N, TILE[1]),
            {"kind": "ptr", "bytes": M * N * 4, "align": 256, "buffer": "dc"},
        ],
    }  # fmt: skip
    words = json.dumps(launch, separators=(", ", ": ")).replace('{"kind"', '\n  {"kind"')
    path.with_suffix(".launch.json").write_text(words + "\n", encoding="utf-8")


write(Path(sys.argv[1]), "product_s3")
