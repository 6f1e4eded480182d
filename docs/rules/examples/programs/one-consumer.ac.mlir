builtin.module {
  ac.kernel @gemm [
      symbols = {K = 64, tiles = 8}, minima = {K = 1, tiles = 0}, grid = [128, 1, 1],
      cluster = [1, 1, 1], block = [256, 1, 1], dynamic_smem_bytes = 114752, launch_registers = 168] {
    %ab = ac.ring @ab [stages = 4, full_arrivals = 1, empty_arrivals = 1, address = 114688]
    %a = ac.buffer @a [address = 0, instances = 1, ring = ab] -> !tier.mem<SMEM, bf16, slots = 4, slot_bytes = 8192, "128B">
    %b = ac.buffer @b [address = 32768, instances = 1, ring = ab] -> !tier.mem<SMEM, bf16, slots = 4, slot_bytes = 16384, "128B">
    %a_map = ac.tensor_map @a_map [
        buffer = A, element = bf16, dims = [4096, 4096], strides_bytes = [8192], box = [64, 64],
        l2_promotion = none] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %b_map = ac.tensor_map @b_map [
        buffer = B, element = bf16, dims = [4096, 4096], strides_bytes = [8192], box = [64, 128],
        l2_promotion = none] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %staging = ac.buffer @staging [address = 98304, instances = 1] -> !tier.mem<SMEM, bf16, slots = 2, slot_bytes = 8192, "128B">
    %c_map = ac.tensor_map @c_map [
        buffer = C, element = bf16, dims = [4096, 4096], strides_bytes = [8192], box = [64, 64],
        l2_promotion = none] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    ac.mbarrier.init %ab
    ac.fence.mbarrier_init
    ac.cta.sync
    ac.role @producer [
        execution = #tier.exec<thread1, count = 1, first_thread = 0>, registers = 40] (%unit) {
      %cursor = ac.cursor.start empty %ab
      %cursor_1 = ac.tiles over tiles [tiles_m = 32, tiles_n = 32, raster_group = 8] (%m, %n) carrying (%cursor_2 = %cursor) {
        %cursor_3 = ac.loop over K [begin = 0] (%k) carrying (%cursor_4 = %cursor_2) {
          %phase = ac.mbarrier.wait empty ring(%ab) cursor(%cursor_4) [invert_parity = 1]
          %tx = ac.mbarrier.arrive_expect_tx %phase [bytes = 24576] -> !ac.tx<ab, bytes = 24576>
          %at = ac.affine 64 * %k
          %at_1 = ac.affine 64 * %m
          %at_2 = ac.affine 128 * %n
          %tx_1 = ac.tma.issue descriptor(%a_map) buffer(%a) tx(%tx) coordinates(%at, %at_1) [
              offset_bytes = 0, rank_offset_bytes = 0, box_bytes = 8192, multicast = 1] -> !ac.tx<ab, bytes = 16384>
          %tx_2 = ac.tma.issue descriptor(%b_map) buffer(%b) tx(%tx_1) coordinates(%at, %at_2) [
              offset_bytes = 0, rank_offset_bytes = 0, box_bytes = 16384, multicast = 1] -> !ac.tx<ab, bytes = 0>
          ac.tx.close %tx_2
          %cursor_5 = ac.advance %cursor_4
          ac.yield %cursor_5
        }
        ac.yield %cursor_3
      }
    }
    ac.role @consumer [
        execution = #tier.exec<warpgroup128, count = 1, first_thread = 128>, registers = 232] (%unit_1) {
      %cursor_6 = ac.cursor.start full %ab
      %cursor_7 = ac.tiles over tiles [tiles_m = 32, tiles_n = 32, raster_group = 8] (%m_1, %n_1) carrying (%cursor_8 = %cursor_6) {
        %phase_1 = ac.mbarrier.wait full ring(%ab) cursor(%cursor_8) [invert_parity = 0]
        ac.wgmma.fence
        %inflight, %reading = ac.wgmma.issue phase(%phase_1) a(%a) b(%b) unit(%unit_1) [
            m = 64, n = 128, steps = 4, element = bf16, a_major = K, a_leading_bytes = 16,
            a_stride_bytes = 1024, a_step_bytes = [0, 32, 64, 96], a_block_bytes = 8192,
            a_instance_bytes = 8192, b_major = K, b_leading_bytes = 16, b_stride_bytes = 1024,
            b_step_bytes = [0, 32, 64, 96]]
        ac.wgmma.commit
        %cursor_9 = ac.advance %cursor_8
        %cursor_10, %inflight_1, %reading_1 = ac.loop over K [begin = 1] (%k_1) carrying (%cursor_11 = %cursor_9, %inflight_2 = %inflight, %reading_2 = %reading) {
          %phase_2 = ac.mbarrier.wait full ring(%ab) cursor(%cursor_11) [invert_parity = 0]
          ac.wgmma.fence
          %inflight_3, %reading_3 = ac.wgmma.issue phase(%phase_2) a(%a) b(%b) unit(%unit_1) accumulator(%inflight_2) [
              m = 64, n = 128, steps = 4, element = bf16, a_major = K, a_leading_bytes = 16,
              a_stride_bytes = 1024, a_step_bytes = [0, 32, 64, 96], a_block_bytes = 8192,
              a_instance_bytes = 8192, b_major = K, b_leading_bytes = 16, b_stride_bytes = 1024,
              b_step_bytes = [0, 32, 64, 96]]
          ac.wgmma.commit
          %retired = ac.wgmma.wait reading(%reading_2) [pending = 1] -> retired !ac.phase<ab, retired>
          ac.mbarrier.arrive %retired [peers = 1]
          %cursor_12 = ac.advance %cursor_11
          ac.yield %cursor_12, %inflight_3, %reading_3
        }
        %retired_1, %settled = ac.wgmma.wait reading(%reading_1) accumulator(%inflight_1) [pending = 0] -> retired !ac.phase<ab, retired>, settled !ac.acc<m = 64, n = 128>
        ac.mbarrier.arrive %retired_1 [peers = 1]
        %values = ac.fragment.map inputs(%settled) [deferred = 1] (%x) -> !ac.fragment<m = 64, n = 128, mn, bf16> {
          %x_1 = ac.round to bf16 %x
          ac.yield %x_1
        }
        %at_3 = ac.affine 64 * %m_1 + 64 * %unit_1
        ac.bulk.wait_group %unit_1 [pending = 1, read = 1]
        ac.named_barrier.sync unit(%unit_1) [first_barrier = 1, threads = 128]
        %staged = ac.stage.write fragment(%values) buffer(%staging) unit(%unit_1) [column_begin = 0, column_end = 64, slot = 0] -> !ac.staged<staging, written>
        %staged_1 = ac.fence.proxy_async %staged -> !ac.staged<staging, fenced>
        %staged_2 = ac.named_barrier.sync unit(%unit_1) staged(%staged_1) [first_barrier = 1, threads = 128] -> !ac.staged<staging, ready>
        %at_4 = ac.affine 128 * %n_1
        ac.tma.store descriptor(%c_map) buffer(%staging) unit(%unit_1) staged(%staged_2) coordinates(%at_4, %at_3) [slot = 0, box_bytes = 8192]
        ac.bulk.commit_group %unit_1
        ac.bulk.wait_group %unit_1 [pending = 1, read = 1]
        ac.named_barrier.sync unit(%unit_1) [first_barrier = 1, threads = 128]
        %staged_3 = ac.stage.write fragment(%values) buffer(%staging) unit(%unit_1) [column_begin = 64, column_end = 128, slot = 1] -> !ac.staged<staging, written>
        %staged_4 = ac.fence.proxy_async %staged_3 -> !ac.staged<staging, fenced>
        %staged_5 = ac.named_barrier.sync unit(%unit_1) staged(%staged_4) [first_barrier = 1, threads = 128] -> !ac.staged<staging, ready>
        %at_5 = ac.affine 128 * %n_1 + 64
        ac.tma.store descriptor(%c_map) buffer(%staging) unit(%unit_1) staged(%staged_5) coordinates(%at_5, %at_3) [slot = 1, box_bytes = 8192]
        ac.bulk.commit_group %unit_1
        ac.yield %cursor_10
      }
      ac.bulk.wait_group %unit_1 [pending = 0, read = 0]
    }
  }
}
