builtin.module {
  "ac.kernel"() <{sym_name = "gemm", symbols = {K = #builtin.int<64>, tiles = #builtin.int<8>}, minima = {K = #builtin.int<1>, tiles = #builtin.int<0>}, grid = [#builtin.int<128>, #builtin.int<1>, #builtin.int<1>], cluster = [#builtin.int<1>, #builtin.int<1>, #builtin.int<1>], block = [#builtin.int<384>, #builtin.int<1>, #builtin.int<1>], dynamic_smem_bytes = #builtin.int<163904>, launch_registers = #builtin.int<168>}> ({
    %v0 = "ac.ring"() <{sym_name = "ab", stages = #builtin.int<4>, full_arrivals = #builtin.int<1>, empty_arrivals = #builtin.int<2>, address = #builtin.int<163840>}> : () -> !ac.ring_type<"ab", #builtin.int<4>>
    %v1 = "ac.buffer"() <{sym_name = "a", address = #builtin.int<0>, instances = #builtin.int<1>, ring = "ab"}> : () -> !tier.mem<"SMEM", "bf16", #builtin.int<4>, #builtin.int<16384>, "128B">
    %v2 = "ac.buffer"() <{sym_name = "b", address = #builtin.int<65536>, instances = #builtin.int<1>, ring = "ab"}> : () -> !tier.mem<"SMEM", "bf16", #builtin.int<4>, #builtin.int<16384>, "128B">
    %v3 = "ac.tensor_map"() <{sym_name = "a_map", buffer = "A", element = "bf16", dims = [#builtin.int<4096>, #builtin.int<4096>], strides_bytes = [#builtin.int<8192>], box = [#builtin.int<64>, #builtin.int<128>], l2_promotion = "none"}> : () -> !ac.tma_desc<#builtin.int<2>, "128B", "none", #builtin.int<1024>>
    %v4 = "ac.tensor_map"() <{sym_name = "b_map", buffer = "B", element = "bf16", dims = [#builtin.int<4096>, #builtin.int<4096>], strides_bytes = [#builtin.int<8192>], box = [#builtin.int<64>, #builtin.int<128>], l2_promotion = "none"}> : () -> !ac.tma_desc<#builtin.int<2>, "128B", "none", #builtin.int<1024>>
    %v5 = "ac.buffer"() <{sym_name = "staging", address = #builtin.int<131072>, instances = #builtin.int<2>}> : () -> !tier.mem<"SMEM", "bf16", #builtin.int<2>, #builtin.int<8192>, "128B">
    %v6 = "ac.tensor_map"() <{sym_name = "c_map", buffer = "C", element = "bf16", dims = [#builtin.int<4096>, #builtin.int<4096>], strides_bytes = [#builtin.int<8192>], box = [#builtin.int<64>, #builtin.int<64>], l2_promotion = "none"}> : () -> !ac.tma_desc<#builtin.int<2>, "128B", "none", #builtin.int<1024>>
    "ac.mbarrier.init"(%v0) : (!ac.ring_type<"ab", #builtin.int<4>>) -> ()
    "ac.fence.mbarrier_init"() : () -> ()
    "ac.cta.sync"() : () -> ()
    "ac.role"() <{sym_name = "producer", execution = #tier.exec<"thread1", #builtin.int<1>, #builtin.int<0>>, registers = #builtin.int<40>}> ({
    ^bb0(%v7: !ac.index):
      %v8 = "ac.cursor.start"(%v0) <{side = "empty"}> : (!ac.ring_type<"ab", #builtin.int<4>>) -> !ac.cursor<"ab">
      %v9 = "ac.tiles"(%v8) <{symbol = "tiles", tiles_m = #builtin.int<32>, tiles_n = #builtin.int<32>, raster_group = #builtin.int<8>}> ({
      ^bb0(%v10: !ac.index, %v11: !ac.index, %v12: !ac.cursor<"ab">):
        %v13 = "ac.loop"(%v12) <{symbol = "K", begin = #builtin.int<0>}> ({
        ^bb0(%v14: !ac.index, %v15: !ac.cursor<"ab">):
          %v16 = "ac.mbarrier.wait"(%v0, %v15) <{side = "empty", invert_parity = #builtin.int<1>}> : (!ac.ring_type<"ab", #builtin.int<4>>, !ac.cursor<"ab">) -> !ac.phase<"ab", "empty">
          %v17 = "ac.mbarrier.arrive_expect_tx"(%v16) <{bytes = #builtin.int<32768>}> : (!ac.phase<"ab", "empty">) -> !ac.tx<"ab", #builtin.int<32768>>
          %v18 = "ac.affine"(%v14) <{coefficients = [#builtin.int<64>], constant = #builtin.int<0>}> : (!ac.index) -> !ac.index
          %v19 = "ac.affine"(%v10) <{coefficients = [#builtin.int<128>], constant = #builtin.int<0>}> : (!ac.index) -> !ac.index
          %v20 = "ac.affine"(%v11) <{coefficients = [#builtin.int<128>], constant = #builtin.int<0>}> : (!ac.index) -> !ac.index
          %v21 = "ac.tma.issue"(%v3, %v1, %v17, %v18, %v19) <{offset_bytes = #builtin.int<0>, rank_offset_bytes = #builtin.int<0>, box_bytes = #builtin.int<16384>, multicast = #builtin.int<1>}> : (!ac.tma_desc<#builtin.int<2>, "128B", "none", #builtin.int<1024>>, !tier.mem<"SMEM", "bf16", #builtin.int<4>, #builtin.int<16384>, "128B">, !ac.tx<"ab", #builtin.int<32768>>, !ac.index, !ac.index) -> !ac.tx<"ab", #builtin.int<16384>>
          %v22 = "ac.tma.issue"(%v4, %v2, %v21, %v18, %v20) <{offset_bytes = #builtin.int<0>, rank_offset_bytes = #builtin.int<0>, box_bytes = #builtin.int<16384>, multicast = #builtin.int<1>}> : (!ac.tma_desc<#builtin.int<2>, "128B", "none", #builtin.int<1024>>, !tier.mem<"SMEM", "bf16", #builtin.int<4>, #builtin.int<16384>, "128B">, !ac.tx<"ab", #builtin.int<16384>>, !ac.index, !ac.index) -> !ac.tx<"ab", #builtin.int<0>>
          "ac.tx.close"(%v22) : (!ac.tx<"ab", #builtin.int<0>>) -> ()
          %v23 = "ac.advance"(%v15) : (!ac.cursor<"ab">) -> !ac.cursor<"ab">
          "ac.yield"(%v23) : (!ac.cursor<"ab">) -> ()
        }) : (!ac.cursor<"ab">) -> !ac.cursor<"ab">
        "ac.yield"(%v13) : (!ac.cursor<"ab">) -> ()
      }) : (!ac.cursor<"ab">) -> !ac.cursor<"ab">
    }) : () -> ()
    "ac.role"() <{sym_name = "consumer", execution = #tier.exec<"warpgroup128", #builtin.int<2>, #builtin.int<128>>, registers = #builtin.int<232>}> ({
    ^bb0(%v24: !ac.index):
      %v25 = "ac.cursor.start"(%v0) <{side = "full"}> : (!ac.ring_type<"ab", #builtin.int<4>>) -> !ac.cursor<"ab">
      %v26 = "ac.tiles"(%v25) <{symbol = "tiles", tiles_m = #builtin.int<32>, tiles_n = #builtin.int<32>, raster_group = #builtin.int<8>}> ({
      ^bb0(%v27: !ac.index, %v28: !ac.index, %v29: !ac.cursor<"ab">):
        %v30 = "ac.mbarrier.wait"(%v0, %v29) <{side = "full", invert_parity = #builtin.int<0>}> : (!ac.ring_type<"ab", #builtin.int<4>>, !ac.cursor<"ab">) -> !ac.phase<"ab", "full">
        "ac.wgmma.fence"() : () -> ()
        %v31, %v32 = "ac.wgmma.issue"(%v30, %v1, %v2, %v24) <{m = #builtin.int<64>, n = #builtin.int<128>, steps = #builtin.int<4>, a_leading_bytes = #builtin.int<16>, a_stride_bytes = #builtin.int<1024>, a_block_bytes = #builtin.int<8192>, a_instance_bytes = #builtin.int<8192>, b_leading_bytes = #builtin.int<16>, b_stride_bytes = #builtin.int<1024>, element = "bf16", a_major = "K", b_major = "K", a_step_bytes = [#builtin.int<0>, #builtin.int<32>, #builtin.int<64>, #builtin.int<96>], b_step_bytes = [#builtin.int<0>, #builtin.int<32>, #builtin.int<64>, #builtin.int<96>]}> : (!ac.phase<"ab", "full">, !tier.mem<"SMEM", "bf16", #builtin.int<4>, #builtin.int<16384>, "128B">, !tier.mem<"SMEM", "bf16", #builtin.int<4>, #builtin.int<16384>, "128B">, !ac.index) -> (!ac.inflight<#builtin.int<64>, #builtin.int<128>>, !ac.reading<"ab">)
        "ac.wgmma.commit"() : () -> ()
        %v33 = "ac.advance"(%v29) : (!ac.cursor<"ab">) -> !ac.cursor<"ab">
        %v34, %v35, %v36 = "ac.loop"(%v33, %v31, %v32) <{symbol = "K", begin = #builtin.int<1>}> ({
        ^bb0(%v37: !ac.index, %v38: !ac.cursor<"ab">, %v39: !ac.inflight<#builtin.int<64>, #builtin.int<128>>, %v40: !ac.reading<"ab">):
          %v41 = "ac.mbarrier.wait"(%v0, %v38) <{side = "full", invert_parity = #builtin.int<0>}> : (!ac.ring_type<"ab", #builtin.int<4>>, !ac.cursor<"ab">) -> !ac.phase<"ab", "full">
          "ac.wgmma.fence"() : () -> ()
          %v42, %v43 = "ac.wgmma.issue"(%v41, %v1, %v2, %v24, %v39) <{m = #builtin.int<64>, n = #builtin.int<128>, steps = #builtin.int<4>, a_leading_bytes = #builtin.int<16>, a_stride_bytes = #builtin.int<1024>, a_block_bytes = #builtin.int<8192>, a_instance_bytes = #builtin.int<8192>, b_leading_bytes = #builtin.int<16>, b_stride_bytes = #builtin.int<1024>, element = "bf16", a_major = "K", b_major = "K", a_step_bytes = [#builtin.int<0>, #builtin.int<32>, #builtin.int<64>, #builtin.int<96>], b_step_bytes = [#builtin.int<0>, #builtin.int<32>, #builtin.int<64>, #builtin.int<96>]}> : (!ac.phase<"ab", "full">, !tier.mem<"SMEM", "bf16", #builtin.int<4>, #builtin.int<16384>, "128B">, !tier.mem<"SMEM", "bf16", #builtin.int<4>, #builtin.int<16384>, "128B">, !ac.index, !ac.inflight<#builtin.int<64>, #builtin.int<128>>) -> (!ac.inflight<#builtin.int<64>, #builtin.int<128>>, !ac.reading<"ab">)
          "ac.wgmma.commit"() : () -> ()
          %v44 = "ac.wgmma.wait"(%v40) <{pending = #builtin.int<1>, operandSegmentSizes = array<i32: 1, 0>, resultSegmentSizes = array<i32: 1, 0>}> : (!ac.reading<"ab">) -> !ac.phase<"ab", "retired">
          "ac.mbarrier.arrive"(%v44) <{peers = #builtin.int<1>}> : (!ac.phase<"ab", "retired">) -> ()
          %v45 = "ac.advance"(%v38) : (!ac.cursor<"ab">) -> !ac.cursor<"ab">
          "ac.yield"(%v45, %v42, %v43) : (!ac.cursor<"ab">, !ac.inflight<#builtin.int<64>, #builtin.int<128>>, !ac.reading<"ab">) -> ()
        }) : (!ac.cursor<"ab">, !ac.inflight<#builtin.int<64>, #builtin.int<128>>, !ac.reading<"ab">) -> (!ac.cursor<"ab">, !ac.inflight<#builtin.int<64>, #builtin.int<128>>, !ac.reading<"ab">)
        %v46, %v47 = "ac.wgmma.wait"(%v36, %v35) <{pending = #builtin.int<0>, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> : (!ac.reading<"ab">, !ac.inflight<#builtin.int<64>, #builtin.int<128>>) -> (!ac.phase<"ab", "retired">, !ac.acc<#builtin.int<64>, #builtin.int<128>>)
        "ac.mbarrier.arrive"(%v46) <{peers = #builtin.int<1>}> : (!ac.phase<"ab", "retired">) -> ()
        %v48 = "ac.map"(%v47) ({
        ^bb0(%v49: !ac.scalar_type):
          %v50 = "ac.round"(%v49) <{element = "bf16"}> : (!ac.scalar_type) -> !ac.scalar_type
          "ac.yield"(%v50) : (!ac.scalar_type) -> ()
        }) : (!ac.acc<#builtin.int<64>, #builtin.int<128>>) -> !ac.fragment<#builtin.int<64>, #builtin.int<128>, "mn", "bf16">
        %v51 = "ac.affine"(%v27, %v24) <{coefficients = [#builtin.int<128>, #builtin.int<64>], constant = #builtin.int<0>}> : (!ac.index, !ac.index) -> !ac.index
        "ac.bulk.wait_group"(%v24) <{pending = #builtin.int<1>, read = #builtin.int<1>}> : (!ac.index) -> ()
        "ac.named_barrier.sync"(%v24) <{first_barrier = #builtin.int<1>, threads = #builtin.int<128>}> : (!ac.index) -> ()
        %v52 = "ac.stage.write"(%v48, %v5, %v24) <{column_begin = #builtin.int<0>, column_end = #builtin.int<64>, slot = #builtin.int<0>}> : (!ac.fragment<#builtin.int<64>, #builtin.int<128>, "mn", "bf16">, !tier.mem<"SMEM", "bf16", #builtin.int<2>, #builtin.int<8192>, "128B">, !ac.index) -> !ac.staged<"staging", "written">
        %v53 = "ac.fence.proxy_async"(%v52) : (!ac.staged<"staging", "written">) -> !ac.staged<"staging", "fenced">
        %v54 = "ac.named_barrier.sync"(%v24, %v53) <{first_barrier = #builtin.int<1>, threads = #builtin.int<128>}> : (!ac.index, !ac.staged<"staging", "fenced">) -> !ac.staged<"staging", "ready">
        %v55 = "ac.affine"(%v28) <{coefficients = [#builtin.int<128>], constant = #builtin.int<0>}> : (!ac.index) -> !ac.index
        "ac.tma.store"(%v6, %v5, %v24, %v54, %v55, %v51) <{slot = #builtin.int<0>, box_bytes = #builtin.int<8192>}> : (!ac.tma_desc<#builtin.int<2>, "128B", "none", #builtin.int<1024>>, !tier.mem<"SMEM", "bf16", #builtin.int<2>, #builtin.int<8192>, "128B">, !ac.index, !ac.staged<"staging", "ready">, !ac.index, !ac.index) -> ()
        "ac.bulk.commit_group"(%v24) : (!ac.index) -> ()
        "ac.bulk.wait_group"(%v24) <{pending = #builtin.int<1>, read = #builtin.int<1>}> : (!ac.index) -> ()
        "ac.named_barrier.sync"(%v24) <{first_barrier = #builtin.int<1>, threads = #builtin.int<128>}> : (!ac.index) -> ()
        %v56 = "ac.stage.write"(%v48, %v5, %v24) <{column_begin = #builtin.int<64>, column_end = #builtin.int<128>, slot = #builtin.int<1>}> : (!ac.fragment<#builtin.int<64>, #builtin.int<128>, "mn", "bf16">, !tier.mem<"SMEM", "bf16", #builtin.int<2>, #builtin.int<8192>, "128B">, !ac.index) -> !ac.staged<"staging", "written">
        %v57 = "ac.fence.proxy_async"(%v56) : (!ac.staged<"staging", "written">) -> !ac.staged<"staging", "fenced">
        %v58 = "ac.named_barrier.sync"(%v24, %v57) <{first_barrier = #builtin.int<1>, threads = #builtin.int<128>}> : (!ac.index, !ac.staged<"staging", "fenced">) -> !ac.staged<"staging", "ready">
        %v59 = "ac.affine"(%v28) <{coefficients = [#builtin.int<128>], constant = #builtin.int<64>}> : (!ac.index) -> !ac.index
        "ac.tma.store"(%v6, %v5, %v24, %v58, %v59, %v51) <{slot = #builtin.int<1>, box_bytes = #builtin.int<8192>}> : (!ac.tma_desc<#builtin.int<2>, "128B", "none", #builtin.int<1024>>, !tier.mem<"SMEM", "bf16", #builtin.int<2>, #builtin.int<8192>, "128B">, !ac.index, !ac.staged<"staging", "ready">, !ac.index, !ac.index) -> ()
        "ac.bulk.commit_group"(%v24) : (!ac.index) -> ()
        "ac.yield"(%v34) : (!ac.cursor<"ab">) -> ()
      }) : (!ac.cursor<"ab">) -> !ac.cursor<"ab">
      "ac.bulk.wait_group"(%v24) <{pending = #builtin.int<0>, read = #builtin.int<0>}> : (!ac.index) -> ()
    }) : () -> ()
  }) : () -> ()
}
