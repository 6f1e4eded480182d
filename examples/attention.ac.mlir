// o = softmax(q k^T / 8) v, and the logarithm of each row's sum, with q and o of 512 x 64, k and v of 512 x 64 bf16
// elements. A tile is 128 rows of q, 64 for each of two warpgroups; T counts tiles of 128 rows of k and v.
// A tile of q stays in its slot, which a product reads in every iteration and which is released after the last.
// The scores become fragments in registers; the largest and the sum of each row are carried along, and what was summed
// so far is corrected when a larger score comes. The weights, rounded, are the left operand of the product with v.
// T and tiles are trip counts: the proof is for all of them.
builtin.module attributes {ac.target = "sm_90a"} {
  ac.kernel @attention [
      symbols = {T = 4, tiles = 2}, minima = {T = 1, tiles = 0}, grid = [2, 1, 1],
      cluster = [1, 1, 1], block = [384, 1, 1], dynamic_smem_bytes = 82000, launch_registers = 168] {
    %q_map = ac.tensor_map @q_map [
        buffer = q, element = bf16, dims = [64, 512], strides_bytes = [128], box = [64, 128],
        l2_promotion = "128B"] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %k_map = ac.tensor_map @k_map [
        buffer = k, element = bf16, dims = [64, 512], strides_bytes = [128], box = [64, 128],
        l2_promotion = "128B"] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %v_map = ac.tensor_map @v_map [
        buffer = v, element = bf16, dims = [64, 512], strides_bytes = [128], box = [64, 128],
        l2_promotion = "128B"] -> !ac.tma_desc<rank = 2, "128B", none, align = 1024>
    %o = ac.global @o [buffer = o, shape = [512, 64], strides = [64, 1]]
        -> !ac.global_type<bf16, rank = 2>
    %l = ac.global @l [buffer = l, shape = [512], strides = [1]]
        -> !ac.global_type<f32, rank = 1>
    %q_ring = ac.ring @q_ring [stages = 1, full_arrivals = 1, empty_arrivals = 2, address = 81920]
    %k_ring = ac.ring @k_ring [stages = 2, full_arrivals = 1, empty_arrivals = 2, address = 81936]
    %v_ring = ac.ring @v_ring [stages = 2, full_arrivals = 1, empty_arrivals = 2, address = 81968]
    %q = ac.buffer @q [address = 0, instances = 1, ring = q_ring]
        -> !tier.mem<SMEM, bf16, slots = 1, slot_bytes = 16384, "128B">
    %k = ac.buffer @k [address = 16384, instances = 1, ring = k_ring]
        -> !tier.mem<SMEM, bf16, slots = 2, slot_bytes = 16384, "128B">
    %v = ac.buffer @v [address = 49152, instances = 1, ring = v_ring]
        -> !tier.mem<SMEM, bf16, slots = 2, slot_bytes = 16384, "128B">
    ac.mbarrier.init %q_ring
    ac.mbarrier.init %k_ring
    ac.mbarrier.init %v_ring
    ac.fence.mbarrier_init
    ac.cta.sync
    ac.role @producer [execution = #tier.exec<thread1, count = 1, first_thread = 0>, registers = 40] (%unit) {
      %q_start = ac.cursor.start empty %q_ring
      %k_start = ac.cursor.start empty %k_ring
      %v_start = ac.cursor.start empty %v_ring
      %q_end, %k_end, %v_end = ac.tiles over tiles [tiles_m = 4, tiles_n = 1, raster_group = 8] (%m, %n)
          carrying (%q_at = %q_start, %k_first = %k_start, %v_first = %v_start) {
        %zero = ac.affine 0
        %row = ac.affine 128 * %m
        %q_free = ac.mbarrier.wait empty ring(%q_ring) cursor(%q_at) [invert_parity = 1]
        %q_tx = ac.mbarrier.arrive_expect_tx %q_free [bytes = 16384] -> !ac.tx<q_ring, bytes = 16384>
        %q_whole = ac.tma.issue descriptor(%q_map) buffer(%q) tx(%q_tx) coordinates(%zero, %row) [
            offset_bytes = 0, rank_offset_bytes = 0, box_bytes = 16384, multicast = 1] -> !ac.tx<q_ring, bytes = 0>
        ac.tx.close %q_whole
        %k_last, %v_last = ac.loop over T [begin = 0] (%t) carrying (%k_at = %k_first, %v_at = %v_first) {
          %origin = ac.affine 0
          %key = ac.affine 128 * %t
          %k_free = ac.mbarrier.wait empty ring(%k_ring) cursor(%k_at) [invert_parity = 1]
          %k_tx = ac.mbarrier.arrive_expect_tx %k_free [bytes = 16384] -> !ac.tx<k_ring, bytes = 16384>
          %k_whole = ac.tma.issue descriptor(%k_map) buffer(%k) tx(%k_tx) coordinates(%origin, %key) [
              offset_bytes = 0, rank_offset_bytes = 0, box_bytes = 16384, multicast = 1] -> !ac.tx<k_ring, bytes = 0>
          ac.tx.close %k_whole
          %v_free = ac.mbarrier.wait empty ring(%v_ring) cursor(%v_at) [invert_parity = 1]
          %v_tx = ac.mbarrier.arrive_expect_tx %v_free [bytes = 16384] -> !ac.tx<v_ring, bytes = 16384>
          %v_whole = ac.tma.issue descriptor(%v_map) buffer(%v) tx(%v_tx) coordinates(%origin, %key) [
              offset_bytes = 0, rank_offset_bytes = 0, box_bytes = 16384, multicast = 1] -> !ac.tx<v_ring, bytes = 0>
          ac.tx.close %v_whole
          %k_next = ac.advance %k_at
          %v_next = ac.advance %v_at
          ac.yield %k_next, %v_next
        }
        %q_next = ac.advance %q_at
        ac.yield %q_next, %k_last, %v_last
      }
    }
    ac.role @consumer [
        execution = #tier.exec<warpgroup128, count = 2, first_thread = 128>, registers = 232] (%unit) {
      %q_start = ac.cursor.start full %q_ring
      %k_start = ac.cursor.start full %k_ring
      %v_start = ac.cursor.start full %v_ring
      %q_end, %k_end, %v_end = ac.tiles over tiles [tiles_m = 4, tiles_n = 1, raster_group = 8] (%m, %n)
          carrying (%q_at = %q_start, %k_first = %k_start, %v_first = %v_start) {
        %queries = ac.mbarrier.wait full ring(%q_ring) cursor(%q_at) [invert_parity = 0]
        // -infinity; 0; 0
        %no_most = ac.fragment.full [bits = 4286578688] -> !ac.fragment<m = 64, n = 128, m, f32>
        %no_sum = ac.fragment.full [bits = 0] -> !ac.fragment<m = 64, n = 128, m, f32>
        %nothing = ac.fragment.full [bits = 0] -> !ac.fragment<m = 64, n = 64, mn, f32>
        %read, %k_last, %v_last, %most, %sum, %total = ac.loop over T [begin = 0] (%t)
            carrying (%held : !ac.phase<q_ring, retired> = %queries, %k_at = %k_first, %v_at = %v_first,
                %most_before = %no_most, %sum_before = %no_sum, %total_before = %nothing) {
          %keys = ac.mbarrier.wait full ring(%k_ring) cursor(%k_at) [invert_parity = 0]
          ac.wgmma.fence
          %products, %k_reading, %q_reading = ac.wgmma.issue
              phase(%keys) a(%q) b(%k) unit(%unit) a_phase(%held) [
              m = 64, n = 128, steps = 4, element = bf16,
              a_major = K, a_leading_bytes = 16, a_stride_bytes = 1024, a_step_bytes = [0, 32, 64, 96],
              a_block_bytes = 8192, a_instance_bytes = 8192,
              b_major = K, b_leading_bytes = 16, b_stride_bytes = 1024, b_step_bytes = [0, 32, 64, 96]]
          ac.wgmma.commit
          %k_done, %scores = ac.wgmma.wait reading(%k_reading) accumulator(%products) [pending = 0]
              -> retired !ac.phase<k_ring, retired>, settled !ac.acc<m = 64, n = 128>
          ac.mbarrier.arrive %k_done [peers = 1]
          %still_held = ac.wgmma.wait reading(%q_reading) [pending = 0] -> retired !ac.phase<q_ring, retired>
          %scaled = ac.fragment.map inputs(%scores) (%x) -> !ac.fragment<m = 64, n = 128, mn, f32> {
            %eighth = ac.constant [bits = 1040187392]
            %y = ac.scalar mul %x, %eighth
            ac.yield %y
          }
          %row_most = ac.fragment.fold max %scaled
          %most_now, %correction = ac.fragment.map inputs(%most_before, %row_most) (%before, %row)
              -> !ac.fragment<m = 64, n = 128, m, f32>, !ac.fragment<m = 64, n = 128, m, f32> {
            %larger = ac.scalar max %before, %row
            %change = ac.scalar sub %before, %larger
            %factor = ac.scalar exp %change
            ac.yield %larger, %factor
          }
          %weights, %rounded = ac.fragment.map inputs(%scaled, %most_now) (%x, %largest)
              -> !ac.fragment<m = 64, n = 128, mn, f32>, !ac.fragment<m = 64, n = 128, mn, bf16> {
            %below = ac.scalar sub %x, %largest
            %weight = ac.scalar exp %below
            ac.yield %weight, %weight
          }
          %row_sum = ac.fragment.fold add %weights
          %sum_now = ac.fragment.map inputs(%sum_before, %correction, %row_sum) (%before, %factor, %row)
              -> !ac.fragment<m = 64, n = 128, m, f32> {
            %y = ac.scalar fma %before, %factor, %row
            ac.yield %y
          }
          %corrected = ac.fragment.map inputs(%total_before, %correction) (%before, %factor)
              -> !ac.fragment<m = 64, n = 64, mn, f32> {
            %y = ac.scalar mul %before, %factor
            ac.yield %y
          }
          %values = ac.mbarrier.wait full ring(%v_ring) cursor(%v_at) [invert_parity = 0]
          %begun = ac.accumulator.start %corrected
          %sums, %v_reading = ac.wgmma.issue_fragment a(%rounded) phase(%values) b(%v) accumulator(%begun) [
              m = 64, n = 64, steps = 8, element = bf16,
              b_major = MN, b_leading_bytes = 16384, b_stride_bytes = 1024,
              b_step_bytes = [0, 2048, 4096, 6144, 8192, 10240, 12288, 14336]]
          ac.wgmma.commit
          %v_done, %settled = ac.wgmma.wait reading(%v_reading) accumulator(%sums) [pending = 0]
              -> retired !ac.phase<v_ring, retired>, settled !ac.acc<m = 64, n = 64>
          ac.mbarrier.arrive %v_done [peers = 1]
          %total_now = ac.fragment.map inputs(%settled) (%x) -> !ac.fragment<m = 64, n = 64, mn, f32> {
            ac.yield %x
          }
          %k_next = ac.advance %k_at
          %v_next = ac.advance %v_at
          ac.yield %still_held, %k_next, %v_next, %most_now, %sum_now, %total_now
        }
        ac.mbarrier.arrive %read [peers = 1]
        %result = ac.fragment.map inputs(%total, %sum) (%x, %whole) -> !ac.fragment<m = 64, n = 64, mn, bf16> {
          %y = ac.scalar div %x, %whole
          ac.yield %y
        }
        %logarithm = ac.fragment.map inputs(%most, %sum) (%largest, %whole) -> !ac.fragment<m = 64, n = 128, m, f32> {
          %small = ac.scalar log %whole
          %y = ac.scalar add %largest, %small
          ac.yield %y
        }
        %row = ac.affine 128 * %m + 64 * %unit
        %column = ac.affine 0
        ac.global.store fragment(%result) destination(%o) row(%row) column(%column)
        ac.global.store fragment(%logarithm) destination(%l) row(%row) column(%column)
        %q_next = ac.advance %q_at
        ac.yield %q_next, %k_last, %v_last
      }
    }
  }
}
