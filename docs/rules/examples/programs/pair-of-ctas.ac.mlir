builtin.module attributes {ac.target = "sm_100a"} {
  ac.kernel @product [
      symbols = {K = 8, tiles = 1}, minima = {K = 1, tiles = 0}, grid = [16, 1, 1],
      cluster = [2, 1, 1], block = [512, 1, 1], dynamic_smem_bytes = 98472, launch_registers = 128] {
    %w_map = ac.tensor_map @w_map [
        buffer = w, element = bf16, dims = [512, 256], strides_bytes = [1024], box = [64, 32],
        l2_promotion = "128B"] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %x_map = ac.tensor_map @x_map [
        buffer = x, element = bf16, dims = [512, 512], strides_bytes = [1024], box = [64, 128],
        l2_promotion = "128B"] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %w_ring = ac.ring @w_ring [stages = 4, full_arrivals = 2, empty_arrivals = 1, address = 98304]
    %w_slots = ac.buffer @w_slots [address = 0, instances = 1, ring = w_ring] -> !tier.mem<SMEM, bf16, slots = 4, slot_bytes = 4096, "128B">
    %x_ring = ac.ring @x_ring [stages = 4, full_arrivals = 2, empty_arrivals = 1, address = 98368]
    %x_slots = ac.buffer @x_slots [address = 16384, instances = 1, ring = x_ring] -> !tier.mem<SMEM, bf16, slots = 4, slot_bytes = 16384, "128B">
    %y = ac.global @y [buffer = y, shape = [512, 256], strides = [256, 1]] -> !ac.global_type<bf16, rank = 2>
    %rows = ac.buffer @rows [address = 81920, instances = 2] -> !tier.mem<SMEM, u8, slots = 1, slot_bytes = 8192, none>
    %sums_ring = ac.ring @sums_ring [stages = 2, full_arrivals = 1, empty_arrivals = 4, address = 98432]
    %tensor_memory = ac.tensor.memory @tensor_memory [address = 98464, ring = sums_ring, pair = 1] -> !ac.tensor_memory<columns = 128, units = 2>
    ac.mbarrier.init %w_ring
    ac.mbarrier.init %x_ring
    ac.mbarrier.init %sums_ring
    ac.fence.mbarrier_init
    ac.cluster.sync
    ac.tensor.alloc %tensor_memory
    ac.tensor.relinquish %tensor_memory
    ac.cta.sync
    ac.role @producer [
        execution = #tier.exec<thread1, count = 1, first_thread = 0>, registers = 40] (%unit) {
      %cursor = ac.cursor.start empty %w_ring
      %cursor_1 = ac.cursor.start empty %x_ring
      %cursor_2, %cursor_3 = ac.tiles over tiles [tiles_m = 4, tiles_n = 4, raster_group = 8] (%m, %n) carrying (%cursor_4 = %cursor, %cursor_5 = %cursor_1) {
        %cursor_6, %cursor_7 = ac.loop over K [begin = 0] (%k) carrying (%cursor_8 = %cursor_4, %cursor_9 = %cursor_5) {
          %at = ac.affine 64 * %k
          %at_1 = ac.affine 64 * %n
          %at_2 = ac.affine 64 * %k
          %at_3 = ac.affine 128 * %m
          %phase = ac.mbarrier.wait empty ring(%w_ring) cursor(%cursor_8) [invert_parity = 1]
          %tx = ac.mbarrier.arrive_expect_tx %phase [bytes = 4096, leader = 1] -> !ac.tx<w_ring, bytes = 4096>
          %tx_1 = ac.tma.issue descriptor(%w_map) buffer(%w_slots) tx(%tx) coordinates(%at, %at_1) [
              offset_bytes = 0, rank_offset_bytes = 0, rank_dimension = 1, rank_elements = 32,
              box_bytes = 4096, multicast = 1, leader = 1] -> !ac.tx<w_ring, bytes = 0>
          ac.tx.close %tx_1
          %cursor_10 = ac.advance %cursor_8
          %phase_1 = ac.mbarrier.wait empty ring(%x_ring) cursor(%cursor_9) [invert_parity = 1]
          %tx_2 = ac.mbarrier.arrive_expect_tx %phase_1 [bytes = 16384, leader = 1] -> !ac.tx<x_ring, bytes = 16384>
          %tx_3 = ac.tma.issue descriptor(%x_map) buffer(%x_slots) tx(%tx_2) coordinates(%at_2, %at_3) [
              offset_bytes = 0, rank_offset_bytes = 0, box_bytes = 16384, multicast = 1, leader = 1] -> !ac.tx<x_ring, bytes = 0>
          ac.tx.close %tx_3
          %cursor_11 = ac.advance %cursor_9
          ac.yield %cursor_10, %cursor_11
        }
        ac.yield %cursor_6, %cursor_7
      }
    }
    ac.role @issuer [
        execution = #tier.exec<thread1, count = 1, first_thread = 128>, registers = 40, leader = 1] (%unit_1) {
      %cursor_12 = ac.cursor.start full %w_ring
      %cursor_13 = ac.cursor.start full %x_ring
      %cursor_14 = ac.cursor.start empty %sums_ring
      %cursor_15, %cursor_16, %cursor_17 = ac.tiles over tiles [tiles_m = 4, tiles_n = 4, raster_group = 8] (%m_1, %n_1) carrying (%cursor_18 = %cursor_12, %cursor_19 = %cursor_13, %cursor_20 = %cursor_14) {
        %phase_2 = ac.mbarrier.wait empty ring(%sums_ring) cursor(%cursor_20) [invert_parity = 1]
        %cursor_21 = ac.advance %cursor_20
        %phase_3 = ac.mbarrier.wait full ring(%x_ring) cursor(%cursor_19) [invert_parity = 0]
        %cursor_22 = ac.advance %cursor_19
        %phase_4 = ac.mbarrier.wait full ring(%w_ring) cursor(%cursor_18) [invert_parity = 0]
        %cursor_23 = ac.advance %cursor_18
        %filling, %a_reading, %reading = ac.tensor.fill memory(%tensor_memory) into(%phase_2) a_phase(%phase_3) a(%x_slots) phase(%phase_4) b(%w_slots) [
            m = 256, n = 64, column = 0, accumulate = 0, pair = 1, steps = 4, element = bf16, a_major = K,
            a_leading_bytes = 16, a_stride_bytes = 1024, a_step_bytes = [0, 32, 64, 96], b_major = K,
            b_leading_bytes = 16, b_stride_bytes = 1024, b_step_bytes = [0, 32, 64, 96]]
        ac.tensor.release %a_reading [pair = 1]
        ac.tensor.release %reading [pair = 1]
        %cursor_24, %cursor_25, %filling_1 = ac.loop over K [begin = 1] (%k_1) carrying (%cursor_26 = %cursor_22, %cursor_27 = %cursor_23, %filling_2 = %filling) {
          %phase_5 = ac.mbarrier.wait full ring(%x_ring) cursor(%cursor_26) [invert_parity = 0]
          %cursor_28 = ac.advance %cursor_26
          %phase_6 = ac.mbarrier.wait full ring(%w_ring) cursor(%cursor_27) [invert_parity = 0]
          %cursor_29 = ac.advance %cursor_27
          %filling_3, %a_reading_1, %reading_1 = ac.tensor.fill memory(%tensor_memory) into(%filling_2) a_phase(%phase_5) a(%x_slots) phase(%phase_6) b(%w_slots) [
              m = 256, n = 64, column = 0, accumulate = 1, pair = 1, steps = 4, element = bf16, a_major = K,
              a_leading_bytes = 16, a_stride_bytes = 1024, a_step_bytes = [0, 32, 64, 96], b_major = K,
              b_leading_bytes = 16, b_stride_bytes = 1024, b_step_bytes = [0, 32, 64, 96]]
          ac.tensor.release %a_reading_1 [pair = 1]
          ac.tensor.release %reading_1 [pair = 1]
          ac.yield %cursor_28, %cursor_29, %filling_3
        }
        ac.tensor.hand_over %filling_1 [pair = 1]
        ac.yield %cursor_25, %cursor_24, %cursor_21
      }
    }
    ac.role @consumer [
        execution = #tier.exec<warpgroup128, count = 2, first_thread = 256>, registers = 216,
        warp_rows = 32] (%unit_2) {
      %cursor_30 = ac.cursor.start full %sums_ring
      %cursor_31 = ac.tiles over tiles [tiles_m = 4, tiles_n = 4, raster_group = 8] (%m_2, %n_2) carrying (%cursor_32 = %cursor_30) {
        %phase_7 = ac.mbarrier.wait full ring(%sums_ring) cursor(%cursor_32) [invert_parity = 0]
        %cursor_33 = ac.advance %cursor_32
        %values, %held = ac.tensor.read memory(%tensor_memory) phase(%phase_7) unit(%unit_2) [column = 0] -> !ac.fragment<m = 64, n = 64, mn, f32>, !ac.phase<sums_ring, full>
        ac.tensor.fence %unit_2 [first_barrier = 1]
        ac.mbarrier.arrive %held [peers = 1, leader = 1]
        %values_1 = ac.fragment.map inputs(%values) (%x) -> !ac.fragment<m = 64, n = 64, mn, bf16> {
          %x_1 = ac.scalar relu %x
          ac.yield %x_1
        }
        %at_4 = ac.affine 64 * %n_2
        %at_5 = ac.affine 128 * %m_2 + 16 * %unit_2
        ac.global.store fragment(%values_1) destination(%y) row(%at_5) column(%at_4) through(%rows, %unit_2) [vectors = 1]
        ac.yield %cursor_33
      }
    }
    ac.cluster.sync
    ac.tensor.dealloc %tensor_memory
  }
}
