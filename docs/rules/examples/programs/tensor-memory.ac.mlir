builtin.module attributes {ac.target = "sm_100a"} {
  ac.kernel @rms_norm_matmul [
      symbols = {K = 2, tiles = 1}, minima = {K = 1, tiles = 0}, grid = [1, 1, 1],
      cluster = [1, 1, 1], block = [256, 1, 1], dynamic_smem_bytes = 139408, launch_registers = 168] {
    %w_map = ac.tensor_map @w_map [
        buffer = w, element = bf16, dims = [64, 192], strides_bytes = [128], box = [64, 128],
        l2_promotion = "128B"] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %x_map = ac.tensor_map @x_map [
        buffer = x, element = bf16, dims = [192, 64], strides_bytes = [384], box = [64, 64],
        l2_promotion = "128B"] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %w_ring = ac.ring @w_ring [stages = 4, full_arrivals = 1, empty_arrivals = 1, address = 139264]
    %w_slots = ac.buffer @w_slots [address = 0, instances = 1, ring = w_ring] -> !tier.mem<SMEM, bf16, slots = 4, slot_bytes = 16384, "128B">
    %x_ring = ac.ring @x_ring [stages = 4, full_arrivals = 1, empty_arrivals = 1, address = 139328]
    %x_slots = ac.buffer @x_slots [address = 65536, instances = 1, ring = x_ring] -> !tier.mem<SMEM, bf16, slots = 4, slot_bytes = 16384, "128B">
    %g = ac.global @g [buffer = g, shape = [192], strides = [1]] -> !ac.global_type<bf16, rank = 1>
    %y = ac.global @y [buffer = y, shape = [64, 64], strides = [64, 1]] -> !ac.global_type<bf16, rank = 2>
    %rows = ac.buffer @rows [address = 131072, instances = 1] -> !tier.mem<SMEM, u8, slots = 1, slot_bytes = 8192, none>
    %tensor_memory = ac.tensor.memory @tensor_memory [address = 139392] -> !ac.tensor_memory<columns = 128, units = 1>
    ac.mbarrier.init %w_ring
    ac.mbarrier.init %x_ring
    ac.tensor.init %tensor_memory
    ac.tensor.alloc %tensor_memory
    ac.tensor.relinquish %tensor_memory
    ac.fence.mbarrier_init
    ac.cta.sync
    ac.role @producer [
        execution = #tier.exec<thread1, count = 1, first_thread = 0>, registers = 40] (%unit) {
      %cursor = ac.cursor.start empty %w_ring
      %cursor_1 = ac.cursor.start empty %x_ring
      %cursor_2, %cursor_3 = ac.tiles over tiles [tiles_m = 1, tiles_n = 1, raster_group = 8] (%m, %n) carrying (%cursor_4 = %cursor, %cursor_5 = %cursor_1) {
        %cursor_6, %cursor_7 = ac.loop over K [begin = 0] (%k) carrying (%cursor_8 = %cursor_4, %cursor_9 = %cursor_5) {
          %at = ac.affine 0
          %at_1 = ac.affine 64 * %n
          %at_2 = ac.affine 128 * %k
          %phase = ac.mbarrier.wait empty ring(%w_ring) cursor(%cursor_8) [invert_parity = 1]
          %tx = ac.mbarrier.arrive_expect_tx %phase [bytes = 16384] -> !ac.tx<w_ring, bytes = 16384>
          %tx_1 = ac.tma.issue descriptor(%w_map) buffer(%w_slots) tx(%tx) coordinates(%at_1, %at_2) [
              offset_bytes = 0, rank_offset_bytes = 0, box_bytes = 16384, multicast = 1] -> !ac.tx<w_ring, bytes = 0>
          ac.tx.close %tx_1
          %cursor_10 = ac.advance %cursor_8
          %at_3 = ac.affine 0
          %at_4 = ac.affine 128 * %k
          %at_5 = ac.affine 64 * %m
          %at_6 = ac.affine 1 * %at_4 + 64
          %phase_1 = ac.mbarrier.wait empty ring(%x_ring) cursor(%cursor_9) [invert_parity = 1]
          %tx_2 = ac.mbarrier.arrive_expect_tx %phase_1 [bytes = 16384] -> !ac.tx<x_ring, bytes = 16384>
          %tx_3 = ac.tma.issue descriptor(%x_map) buffer(%x_slots) tx(%tx_2) coordinates(%at_4, %at_5) [
              offset_bytes = 0, rank_offset_bytes = 0, box_bytes = 8192, multicast = 1] -> !ac.tx<x_ring, bytes = 8192>
          %tx_4 = ac.tma.issue descriptor(%x_map) buffer(%x_slots) tx(%tx_3) coordinates(%at_6, %at_5) [
              offset_bytes = 8192, rank_offset_bytes = 0, box_bytes = 8192, multicast = 1] -> !ac.tx<x_ring, bytes = 0>
          ac.tx.close %tx_4
          %cursor_11 = ac.advance %cursor_9
          ac.yield %cursor_10, %cursor_11
        }
        ac.yield %cursor_6, %cursor_7
      }
    }
    ac.role @consumer [
        execution = #tier.exec<warpgroup128, count = 1, first_thread = 128>, registers = 240] (%unit_1) {
      %cursor_12 = ac.cursor.start full %w_ring
      %cursor_13 = ac.cursor.start full %x_ring
      %cursor_14, %cursor_15 = ac.tiles over tiles [tiles_m = 1, tiles_n = 1, raster_group = 8] (%m_1, %n_1) carrying (%cursor_16 = %cursor_12, %cursor_17 = %cursor_13) {
        %values = ac.fragment.full [bits = 0] -> !ac.fragment<m = 64, n = 8, m, f32>
        %values_1 = ac.fragment.full [bits = 0] -> !ac.fragment<m = 64, n = 64, mn, f32>
        %cursor_18, %cursor_19, %values_2, %values_3 = ac.loop over K [begin = 0] (%k_1) carrying (%cursor_20 = %cursor_16, %cursor_21 = %cursor_17, %values_4 = %values, %values_5 = %values_1) {
          %phase_2 = ac.mbarrier.wait full ring(%x_ring) cursor(%cursor_21) [invert_parity = 0]
          %cursor_22 = ac.advance %cursor_21
          %values_6, %held = ac.fragment.read phase(%phase_2) a(%x_slots) unit(%unit_1) [
              step_bytes = [0, 32, 64, 96, 8192, 8224, 8256, 8288], block_bytes = 8192, instance_bytes = 8192,
              first_barrier = 1] -> !ac.fragment<m = 64, n = 128, mn, bf16>, !ac.phase<x_ring, full>
          ac.mbarrier.arrive %held [peers = 1]
          %at_7 = ac.affine 64 * %m_1 + 64 * %unit_1
          %at_8 = ac.affine 128 * %k_1
          %values_7 = ac.fragment.map inputs(%values_6) places(%at_7, %at_8) (%x, %x_1: !ac.index, %x_2: !ac.index) -> !ac.fragment<m = 64, n = 128, mn, f32> {
            %x_3 = ac.scalar mul %x, %x
            %x_4 = ac.index.number %x_2
            %x_5 = ac.constant [bits = 1128267776]
            %x_6 = ac.scalar lt %x_4, %x_5
            %x_7 = ac.constant [bits = 0]
            %x_8 = ac.scalar where %x_6, %x_3, %x_7
            ac.yield %x_8
          }
          %values_8 = ac.fragment.fold add %values_7
          %at_9 = ac.affine 64 * %m_1 + 64 * %unit_1
          %at_10 = ac.affine 0
          %at_11 = ac.affine 128 * %k_1
          %values_9 = ac.fragment.load source(%g) row(%at_9) column(%at_11) -> !ac.fragment<m = 64, n = 128, n, bf16>
          %at_12 = ac.affine 64 * %m_1 + 64 * %unit_1
          %at_13 = ac.affine 128 * %k_1
          %values_10 = ac.fragment.map inputs(%values_6, %values_9) places(%at_12, %at_13) (%x_9, %x_10, %x_11: !ac.index, %x_12: !ac.index) -> !ac.fragment<m = 64, n = 128, mn, bf16> {
            %x_13 = ac.scalar mul %x_9, %x_10
            %x_14 = ac.index.number %x_12
            %x_15 = ac.constant [bits = 1128267776]
            %x_16 = ac.scalar lt %x_14, %x_15
            %x_17 = ac.constant [bits = 0]
            %x_18 = ac.scalar where %x_16, %x_13, %x_17
            ac.yield %x_18
          }
          %phase_3 = ac.mbarrier.wait full ring(%w_ring) cursor(%cursor_20) [invert_parity = 0, issuer = 1]
          %cursor_23 = ac.advance %cursor_20
          %tensor_operand = ac.tensor.store memory(%tensor_memory) fragment(%values_10) unit(%unit_1) [column = 64]
          ac.tensor.fence %unit_1 [first_barrier = 1]
          %inflight, %reading = ac.tensor.issue_stored memory(%tensor_memory) a(%tensor_operand) phase(%phase_3) b(%w_slots) unit(%unit_1) [
              m = 64, n = 64, column = 0, steps = 8, element = bf16, b_major = MN, b_leading_bytes = 16384,
              b_stride_bytes = 1024, b_step_bytes = [0, 2048, 4096, 6144, 8192, 10240, 12288, 14336]]
          ac.tensor.release %reading
          ac.tensor.commit memory(%tensor_memory) unit(%unit_1)
          %settled = ac.tensor.wait memory(%tensor_memory) unit(%unit_1) inflight(%inflight)
          %values_11 = ac.tensor.load memory(%tensor_memory) accumulator(%settled) unit(%unit_1)
          %values_12 = ac.fragment.map inputs(%values_4, %values_8) (%x_19, %x_20) -> !ac.fragment<m = 64, n = 8, m, f32> {
            %x_21 = ac.scalar add %x_19, %x_20
            ac.yield %x_21
          }
          %values_13 = ac.fragment.map inputs(%values_5, %values_11) (%x_22, %x_23) -> !ac.fragment<m = 64, n = 64, mn, f32> {
            %x_24 = ac.scalar add %x_22, %x_23
            ac.yield %x_24
          }
          ac.yield %cursor_23, %cursor_22, %values_12, %values_13
        }
        %values_14 = ac.fragment.map inputs(%values_3, %values_2) (%x_25, %x_26) -> !ac.fragment<m = 64, n = 64, mn, bf16> {
          %x_27 = ac.constant [bits = 1128267776]
          %x_28 = ac.scalar div %x_26, %x_27
          %x_29 = ac.constant [bits = 897988541]
          %x_30 = ac.scalar add %x_28, %x_29
          %x_31 = ac.scalar rsqrt %x_30
          %x_32 = ac.scalar mul %x_25, %x_31
          ac.yield %x_32
        }
        %at_14 = ac.affine 64 * %n_1
        %at_15 = ac.affine 64 * %m_1 + 64 * %unit_1
        ac.global.store fragment(%values_14) destination(%y) row(%at_15) column(%at_14) through(%rows, %unit_1)
        ac.yield %cursor_18, %cursor_19
      }
    }
    ac.cta.sync
    ac.tensor.dealloc %tensor_memory
  }
}
