// c = a b, with a of 256 x 256, b transposed of 512 x 256 and c of 256 x 512 bf16 elements, in tiles of 64 x 128.
// One thread fills a ring of four slots with slices of 64 columns of a and b; one warpgroup multiplies them.
// The target stands here; `--target` takes its place. K and tiles are trip counts: the proof is for all of them.
builtin.module attributes {ac.target = "sm_90a"} {
  ac.kernel @product [
      symbols = {K = 4, tiles = 2}, minima = {K = 1, tiles = 0}, grid = [8, 1, 1],
      cluster = [1, 1, 1], block = [256, 1, 1], dynamic_smem_bytes = 98368, launch_registers = 168] {
    %a_map = ac.tensor_map @a_map [
        buffer = a, element = bf16, dims = [256, 256], strides_bytes = [512], box = [64, 64],
        l2_promotion = "128B"] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %b_map = ac.tensor_map @b_map [
        buffer = b, element = bf16, dims = [256, 512], strides_bytes = [512], box = [64, 128],
        l2_promotion = "128B"] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %c = ac.global @c [buffer = c, shape = [256, 512], strides = [512, 1]]
        -> !ac.global_type<bf16, rank = 2>
    %ab = ac.ring @ab [stages = 4, full_arrivals = 1, empty_arrivals = 1, address = 98304]
    %a = ac.buffer @a [address = 0, instances = 1, ring = ab]
        -> !tier.mem<SMEM, bf16, slots = 4, slot_bytes = 8192, "128B">
    %b = ac.buffer @b [address = 32768, instances = 1, ring = ab]
        -> !tier.mem<SMEM, bf16, slots = 4, slot_bytes = 16384, "128B">
    ac.mbarrier.init %ab
    ac.fence.mbarrier_init
    ac.cta.sync
    ac.role @producer [execution = #tier.exec<thread1, count = 1, first_thread = 0>, registers = 40] (%unit) {
      %start = ac.cursor.start empty %ab
      %end = ac.tiles over tiles [tiles_m = 4, tiles_n = 4, raster_group = 8] (%m, %n) carrying (%first = %start) {
        %last = ac.loop over K [begin = 0] (%k) carrying (%cursor = %first) {
          %free = ac.mbarrier.wait empty ring(%ab) cursor(%cursor) [invert_parity = 1]
          %announced = ac.mbarrier.arrive_expect_tx %free [bytes = 24576] -> !ac.tx<ab, bytes = 24576>
          %depth = ac.affine 64 * %k
          %row = ac.affine 64 * %m
          %column = ac.affine 128 * %n
          %half = ac.tma.issue descriptor(%a_map) buffer(%a) tx(%announced) coordinates(%depth, %row) [
              offset_bytes = 0, rank_offset_bytes = 0, box_bytes = 8192, multicast = 1] -> !ac.tx<ab, bytes = 16384>
          %whole = ac.tma.issue descriptor(%b_map) buffer(%b) tx(%half) coordinates(%depth, %column) [
              offset_bytes = 0, rank_offset_bytes = 0, box_bytes = 16384, multicast = 1] -> !ac.tx<ab, bytes = 0>
          ac.tx.close %whole
          %next = ac.advance %cursor
          ac.yield %next
        }
        ac.yield %last
      }
    }
    ac.role @consumer [
        execution = #tier.exec<warpgroup128, count = 1, first_thread = 128>, registers = 232] (%unit) {
      %start = ac.cursor.start full %ab
      %end = ac.tiles over tiles [tiles_m = 4, tiles_n = 4, raster_group = 8] (%m, %n) carrying (%first = %start) {
        %full = ac.mbarrier.wait full ring(%ab) cursor(%first) [invert_parity = 0]
        ac.wgmma.fence
        %sums, %reading = ac.wgmma.issue phase(%full) a(%a) b(%b) unit(%unit) [
            m = 64, n = 128, steps = 4, element = bf16,
            a_major = K, a_leading_bytes = 16, a_stride_bytes = 1024, a_step_bytes = [0, 32, 64, 96],
            a_block_bytes = 8192, a_instance_bytes = 8192,
            b_major = K, b_leading_bytes = 16, b_stride_bytes = 1024, b_step_bytes = [0, 32, 64, 96]]
        ac.wgmma.commit
        %second = ac.advance %first
        %last, %all, %held = ac.loop over K [begin = 1] (%k)
            carrying (%cursor = %second, %before = %sums, %in_use = %reading) {
          %slot = ac.mbarrier.wait full ring(%ab) cursor(%cursor) [invert_parity = 0]
          ac.wgmma.fence
          %after, %newly = ac.wgmma.issue phase(%slot) a(%a) b(%b) unit(%unit) accumulator(%before) [
              m = 64, n = 128, steps = 4, element = bf16,
              a_major = K, a_leading_bytes = 16, a_stride_bytes = 1024, a_step_bytes = [0, 32, 64, 96],
              a_block_bytes = 8192, a_instance_bytes = 8192,
              b_major = K, b_leading_bytes = 16, b_stride_bytes = 1024, b_step_bytes = [0, 32, 64, 96]]
          ac.wgmma.commit
          %done = ac.wgmma.wait reading(%in_use) [pending = 1] -> retired !ac.phase<ab, retired>
          ac.mbarrier.arrive %done [peers = 1]
          %next = ac.advance %cursor
          ac.yield %next, %after, %newly
        }
        %done, %settled = ac.wgmma.wait reading(%held) accumulator(%all) [pending = 0]
            -> retired !ac.phase<ab, retired>, settled !ac.acc<m = 64, n = 128>
        ac.mbarrier.arrive %done [peers = 1]
        %rounded = ac.fragment.map inputs(%settled) [deferred = 1] (%x) -> !ac.fragment<m = 64, n = 128, mn, bf16> {
          %y = ac.round to bf16 %x
          ac.yield %y
        }
        %row = ac.affine 64 * %m
        %column = ac.affine 128 * %n
        ac.global.store fragment(%rounded) destination(%c) row(%row) column(%column)
        ac.yield %last
      }
    }
  }
}
