"""Small kernels whose consumers hold fragments in registers, written as `ac` texts: what they compute stands beside.

A producer brings tiles of a (m x 64) and of b (64 x 64, a matrix by rows that is multiplied transposed) into a slot;
each unit reads its rows of a as a fragment, computes on, and stores y (rows x columns) and r (one number for each row).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WIDTH = 64
Store = Literal["plain", "through", "staged", "rows"]

MULTIPLY = """
%sums, %reading = ac.wgmma.issue_fragment a({a}) phase(%held) b(%b){accumulator} [
    m = {m}, n = 64, steps = 4, element = bf16, b_major = K, b_leading_bytes = 16, b_stride_bytes = 1024,
    b_step_bytes = [0, 32, 64, 96]]
ac.wgmma.commit
%done, %product = ac.wgmma.wait reading(%reading) accumulator(%sums) [pending = 0]
    -> retired !ac.phase<ab, retired>, settled !ac.acc<m = {m}, n = 64>
ac.mbarrier.arrive %done [peers = 1]
"""
RELEASE = "ac.mbarrier.arrive %held [peers = 1]\n"


@dataclass(frozen=True)
class Shape:
    """blocks of 64 rows of each of `units` warpgroups; rows and columns of y; elements of y; how y is stored."""

    blocks: int = 1
    units: int = 1
    rows: int = 100
    columns: int = WIDTH
    element: str = "f32"
    store: Store = "plain"

    @property
    def m(self) -> int:
        return 64 * self.blocks

    @property
    def tile(self) -> int:
        return self.m * self.units

    @property
    def padded(self) -> int:
        """Rows of whole tiles."""
        return 2 * self.tile


def multiply(shape: Shape, a: str, accumulator: str = "") -> str:
    """The product of fragment `a` with the slot's b, as `%product`; the slot is released."""
    given = f" accumulator({accumulator})" if accumulator else ""
    return MULTIPLY.format(a=a, m=shape.m, accumulator=given)


def kernel_text(shape: Shape, body: str) -> str:
    """body: takes `%x`, the fragment of a, and the held slot; gives `%y_values`, which is stored, and `%r`. F, R, X
    and Y stand for types of fragments: float32 over rows and columns, over rows; of a's elements, of y's."""
    meant = {"F": ("mn", "f32"), "R": ("m", "f32"), "X": ("mn", "bf16"), "Y": ("mn", shape.element)}
    kinds = {
        name: f"!ac.fragment<m = {shape.m}, n = {WIDTH}, {axes}, {element}>" for name, (axes, element) in meant.items()
    }
    for name, kind in kinds.items():
        body = body.replace(f"-> {name},", f"-> {kind},").replace(f", {name} {{", f", {kind} {{")
        body = body.replace(f"-> {name} {{", f"-> {kind} {{").replace(f"-> {name}\n", f"-> {kind}\n")
    a_bytes, b_bytes = shape.tile * 128, WIDTH * 128
    size = {"f32": 4, "bf16": 2, "f16": 2, "f8e4m3": 1}[shape.element]
    staging, row_bytes = a_bytes + b_bytes, WIDTH * size
    end = staging + shape.units * max(shape.m * row_bytes, 8192)
    swizzle = {128: "128B", 64: "64B"}.get(row_bytes, "none")
    output = f"""
    %y_map = ac.tensor_map @y_map [
        buffer = y, element = {shape.element}, dims = [{shape.columns}, {shape.rows}],
        strides_bytes = [{shape.columns * size}], box = [{WIDTH}, {shape.m}], l2_promotion = "128B"]
        -> !ac.tma_desc<rank = 2, "{swizzle}", none, align = 1024>
    %staging = ac.buffer @staging [address = {staging}, instances = {shape.units}]
        -> !tier.mem<SMEM, {shape.element}, slots = 1, slot_bytes = {shape.m * row_bytes}, "{swizzle}">"""
    if shape.store != "staged":
        output = f"""
    %y = ac.global @y [buffer = y, shape = [{shape.rows}, {shape.columns}], strides = [{shape.columns}, 1]]
        -> !ac.global_type<{shape.element}, rank = 2>"""
    if shape.store in ("through", "rows"):
        output += f"""
    %parts = ac.buffer @parts [address = {staging}, instances = {shape.units}]
        -> !tier.mem<SMEM, {shape.element}, slots = 1, slot_bytes = 8192, none>"""
    store = {
        "plain": "ac.global.store fragment(%y_values) destination(%y) row(%row) column(%column)",
        "through": "ac.global.store fragment(%y_values) destination(%y) row(%row) column(%column) "
        "through(%parts, %unit)",
        "rows": f"%end = ac.affine {shape.rows}\n"
        "ac.rows.store fragment(%y_values) destination(%y) row(%row) column(%column) row_end(%end) buffer(%parts) "
        "unit(%unit) [vectors = 1]",
        "staged": f"""ac.bulk.wait_group %unit [pending = 0, read = 1]
        ac.named_barrier.sync unit(%unit) [first_barrier = 1, threads = 128]
        %written = ac.stage.write fragment(%y_values) buffer(%staging) unit(%unit) [
            column_begin = 0, column_end = {WIDTH}, slot = 0] -> !ac.staged<staging, written>
        %fenced = ac.fence.proxy_async %written -> !ac.staged<staging, fenced>
        %ready = ac.named_barrier.sync unit(%unit) staged(%fenced) [first_barrier = 1, threads = 128]
            -> !ac.staged<staging, ready>
        ac.tma.store descriptor(%y_map) buffer(%staging) unit(%unit) staged(%ready) coordinates(%column, %row) [
            slot = 0, box_bytes = {shape.m * row_bytes}]
        ac.bulk.commit_group %unit""",
    }[shape.store]
    last = "ac.bulk.wait_group %unit [pending = 0, read = 0]" if shape.store == "staged" else ""
    return f"""
builtin.module attributes {{ac.target = "sm_90a"}} {{
  ac.kernel @fragments [
      symbols = {{tiles = 2}}, minima = {{tiles = 0}}, grid = [1, 1, 1], cluster = [1, 1, 1],
      block = [{128 + 128 * shape.units}, 1, 1], dynamic_smem_bytes = {end + 16}, launch_registers = 168] {{
    %a_map = ac.tensor_map @a_map [
        buffer = a, element = bf16, dims = [64, {shape.rows}], strides_bytes = [128], box = [64, {shape.tile}],
        l2_promotion = "128B"] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %b_map = ac.tensor_map @b_map [
        buffer = b, element = bf16, dims = [64, 64], strides_bytes = [128], box = [64, 64],
        l2_promotion = "128B"] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %c = ac.global @c [buffer = c, shape = [{shape.rows}, 64], strides = [64, 1]] -> !ac.global_type<f32, rank = 2>
    %d = ac.global @d [buffer = d, shape = [{shape.rows}], strides = [1]] -> !ac.global_type<f32, rank = 1>
    %e = ac.global @e [buffer = e, shape = [64], strides = [1]] -> !ac.global_type<f32, rank = 1>{output}
    %r_array = ac.global @r [buffer = r, shape = [{shape.rows}], strides = [1]] -> !ac.global_type<f32, rank = 1>
    %ab = ac.ring @ab [stages = 1, full_arrivals = 1, empty_arrivals = {shape.units}, address = {end}]
    %a = ac.buffer @a [address = 0, instances = 1, ring = ab]
        -> !tier.mem<SMEM, bf16, slots = 1, slot_bytes = {a_bytes}, "128B">
    %b = ac.buffer @b [address = {a_bytes}, instances = 1, ring = ab]
        -> !tier.mem<SMEM, bf16, slots = 1, slot_bytes = {b_bytes}, "128B">
    ac.mbarrier.init %ab
    ac.fence.mbarrier_init
    ac.cta.sync
    ac.role @producer [execution = #tier.exec<thread1, count = 1, first_thread = 0>, registers = 40] (%unit) {{
      %start = ac.cursor.start empty %ab
      %last = ac.tiles over tiles [tiles_m = 2, tiles_n = 1, raster_group = 8] (%m, %n) carrying (%at = %start) {{
        %zero = ac.affine 0
        %row = ac.affine {shape.tile} * %m
        %free = ac.mbarrier.wait empty ring(%ab) cursor(%at) [invert_parity = 1]
        %tx = ac.mbarrier.arrive_expect_tx %free [bytes = {a_bytes + b_bytes}]
            -> !ac.tx<ab, bytes = {a_bytes + b_bytes}>
        %half = ac.tma.issue descriptor(%a_map) buffer(%a) tx(%tx) coordinates(%zero, %row) [
            offset_bytes = 0, rank_offset_bytes = 0, box_bytes = {a_bytes}, multicast = 1]
            -> !ac.tx<ab, bytes = {b_bytes}>
        %whole = ac.tma.issue descriptor(%b_map) buffer(%b) tx(%half) coordinates(%zero, %zero) [
            offset_bytes = 0, rank_offset_bytes = 0, box_bytes = {b_bytes}, multicast = 1] -> !ac.tx<ab, bytes = 0>
        ac.tx.close %whole
        %next = ac.advance %at
        ac.yield %next
      }}
    }}
    ac.role @consumer [
        execution = #tier.exec<warpgroup128, count = {shape.units}, first_thread = 128>, registers = 232] (%unit) {{
      %start = ac.cursor.start full %ab
      %last = ac.tiles over tiles [tiles_m = 2, tiles_n = 1, raster_group = 8] (%m, %n) carrying (%at = %start) {{
        %row = ac.affine {shape.tile} * %m + {shape.m} * %unit
        %column = ac.affine 0
        %full = ac.mbarrier.wait full ring(%ab) cursor(%at) [invert_parity = 0]
        %x, %held = ac.fragment.read phase(%full) a(%a) unit(%unit) [
            step_bytes = [0, 32, 64, 96], block_bytes = 8192, instance_bytes = {shape.m * 128}, first_barrier = 1]
            -> {kinds["X"]}, !ac.phase<ab, full>
        {body.strip()}
        {store}
        ac.global.store fragment(%r) destination(%r_array) row(%row) column(%column)
        %next = ac.advance %at
        ac.yield %next
      }}
      {last}
    }}
  }}
}}
"""
