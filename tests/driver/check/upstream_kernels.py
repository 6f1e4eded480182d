"""Small kernels in the idiom of upstream's nvgpu dialect: a host function that launches them, groups of mbarriers,
tensor maps that the host makes, warpgroup products, cp.async."""

TYPES = """\
!barriers = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
!left = !nvgpu.tensormap.descriptor<tensor = memref<128x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!right = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!accumulator = !nvgpu.warpgroup.accumulator<fragmented = vector<128x128xf32>>
!bytes = memref<?xi8, #gpu.address_space<workgroup>>
"""  # noqa: E501

HOST = """\
func.func @main(%a : memref<128x512xf16>, %b : memref<512x128xf16>, %d : memref<128x128xf32>) {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %threads = arith.constant THREADS : index
  %size = arith.constant 65536 : i32
  %begun = gpu.wait async
  %a_device, %a_done = gpu.alloc async [%begun] () : memref<128x512xf16>
  %b_device, %b_done = gpu.alloc async [%a_done] () : memref<512x128xf16>
  %d_device, %d_done = gpu.alloc async [%b_done] () : memref<128x128xf32>
  %a_copied = gpu.memcpy async [%d_done] %a_device, %a : memref<128x512xf16>, memref<128x512xf16>
  %b_copied = gpu.memcpy async [%a_copied] %b_device, %b : memref<512x128xf16>, memref<512x128xf16>
  gpu.wait [%b_copied]
  %a_any = memref.cast %a_device : memref<128x512xf16> to memref<*xf16>
  %b_any = memref.cast %b_device : memref<512x128xf16> to memref<*xf16>
  %a_map = nvgpu.tma.create.descriptor %a_any box[%c128, %c64] : memref<*xf16> -> !left
  %b_map = nvgpu.tma.create.descriptor %b_any box[%c64, %c64] : memref<*xf16> -> !right
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %c1, %sz = %c1)
             dynamic_shared_memory_size %size
  {
BODY    gpu.terminator
  }
  return
}
"""

CONSTANTS = """\
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c7 = arith.constant 7 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %c16384 = arith.constant 16384 : index
    %c8192 = arith.constant 8192 : index
    %c32768 = arith.constant 32768 : index
    %bytes_of_stage = arith.constant 32768 : index
    %ticks = arith.constant 10000000 : index
    %even = arith.constant 0 : i1
    %odd = arith.constant 1 : i1
    %memory = gpu.dynamic_shared_memory : !bytes
    %thread = gpu.thread_id x
    %first = arith.cmpi eq, %thread, %c0 : index
    %full = nvgpu.mbarrier.create -> !barriers
    nvgpu.tma.prefetch.descriptor %a_map, predicate = %first : !left
"""

_VIEWS = """\
PAD%a_at = arith.muli %SLOT, %c16384 : index
PAD%b_at = arith.addi %a_at, %c32768 : index
PAD%b_half_at = arith.addi %b_at, %c8192 : index
PAD%a_tile = memref.view %memory[%a_at][] : !bytes to memref<128x64xf16, #gpu.address_space<workgroup>>
PAD%b_half = memref.view %memory[%b_at][] : !bytes to memref<64x64xf16, #gpu.address_space<workgroup>>
PAD%b_other_half = memref.view %memory[%b_half_at][] : !bytes to memref<64x64xf16, #gpu.address_space<workgroup>>
PAD%b_tile = memref.view %memory[%b_at][] : !bytes to memref<64x128xf16, #gpu.address_space<workgroup>>
"""

_FILL = """\
PADnvgpu.mbarrier.arrive.expect_tx %full[%SLOT], %bytes_of_stage, predicate = %WHO : !barriers
PAD%depth = arith.muli %STEP, %c64 : index
PADnvgpu.tma.async.load %a_map[%depth, %c0], %full[%SLOT] to %a_tile, predicate = %WHO : !left, !barriers -> memref<128x64xf16, #gpu.address_space<workgroup>>
PADnvgpu.tma.async.load %b_map[%c0, %depth], %full[%SLOT] to %b_half, predicate = %WHO : !right, !barriers -> memref<64x64xf16, #gpu.address_space<workgroup>>
PADnvgpu.tma.async.load %b_map[%c64, %depth], %full[%SLOT] to %b_other_half, predicate = %WHO : !right, !barriers -> memref<64x64xf16, #gpu.address_space<workgroup>>
"""  # noqa: E501

_MULTIPLY = """\
PADnvgpu.mbarrier.try_wait.parity %full[%slot], %parity, %ticks : !barriers
PAD%a_operand = nvgpu.warpgroup.generate.descriptor %a_tile, %a_map : memref<128x64xf16, #gpu.address_space<workgroup>>, !left -> !nvgpu.warpgroup.descriptor<tensor = memref<128x64xf16, 3>>
PAD%b_operand = nvgpu.warpgroup.generate.descriptor %b_tile, %b_map : memref<64x128xf16, #gpu.address_space<workgroup>>, !right -> !nvgpu.warpgroup.descriptor<tensor = memref<64x128xf16, 3>>
PAD%sum = nvgpu.warpgroup.mma %a_operand, %b_operand, %before {transposeB, waitGroup = 0 : i32} : <tensor = memref<128x64xf16, 3>>, <tensor = memref<64x128xf16, 3>>, <fragmented = vector<128x128xf32>> -> <fragmented = vector<128x128xf32>>
"""  # noqa: E501

_TURN = """\
PAD%is_last = arith.cmpi eq, %slot, %c1 : index
PAD%flipped = arith.xori %parity, %odd : i1
PAD%next_parity = arith.select %is_last, %flipped, %parity : i1
"""

_EPILOGUE = """\
    %out = memref.view %memory[%c0][] : !bytes to memref<128x128xf32, #gpu.address_space<workgroup>>
    nvgpu.warpgroup.mma.store %result#0, %out : <fragmented = vector<128x128xf32>> to memref<128x128xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %warp = arith.divui %thread, %c32 : index
    %lane = arith.remui %thread, %c32 : index
    %column = arith.muli %lane, %c4 : index
    scf.for %row = %warp to %c128 step %c4 {
      %four = vector.load %out[%row, %column] : memref<128x128xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      vector.store %four, %d_device[%row, %column] : memref<128x128xf32>, vector<4xf32>
    }
"""  # noqa: E501


def _filled(text, pad, **words):
    for name, word in words.items():
        text = text.replace(f"%{name}", f"%{word}")
    return text.replace("PAD", " " * pad)


def launched(body, threads=128):
    return TYPES + HOST.replace("THREADS", str(threads)).replace("BODY", CONSTANTS + body)


def pipelined():
    """One warpgroup fills one slot ahead of the products that it waits for."""
    body = """\
    nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !barriers
    nvgpu.mbarrier.init %full[%c1], %c1, predicate = %first : !barriers
    gpu.barrier
    scf.for %ahead = %c0 to %c1 step %c1 {
"""
    body += _filled(_VIEWS, 6, SLOT="ahead") + _filled(_FILL, 6, SLOT="ahead", STEP="ahead", WHO="first")
    body += """\
    }
    %zero = nvgpu.warpgroup.mma.init.accumulator -> !accumulator
    %result:2 = scf.for %step = %c0 to %c8 step %c1 iter_args(%before = %zero, %parity = %even) -> (!accumulator, i1) {
      %slot = arith.remui %step, %c2 : index
"""
    body += _filled(_VIEWS, 6, SLOT="slot") + _filled(_MULTIPLY, 6)
    body += """\
      %coming = arith.addi %step, %c1 : index
      %is_any = arith.cmpi ult, %coming, %c8 : index
      %fills = arith.andi %first, %is_any : i1
      %coming_slot = arith.remui %coming, %c2 : index
"""
    coming = _filled(_VIEWS, 6, SLOT="coming_slot") + _filled(_FILL, 6, SLOT="coming_slot", STEP="coming", WHO="fills")
    for name in ("a_at", "b_at", "b_half_at", "a_tile", "b_half", "b_other_half", "b_tile"):
        coming = coming.replace(f"%{name}", f"%coming_{name}")
    body += coming + _filled(_TURN, 6)
    body += "      scf.yield %sum, %next_parity : !accumulator, i1\n    }\n"
    return launched(body + _EPILOGUE)


def specialized():
    """Thread 128 fills slots that warpgroup 0 releases."""
    body = """\
    %empty = nvgpu.mbarrier.create -> !barriers
    nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !barriers
    nvgpu.mbarrier.init %full[%c1], %c1, predicate = %first : !barriers
    nvgpu.mbarrier.init %empty[%c0], %c1, predicate = %first : !barriers
    nvgpu.mbarrier.init %empty[%c1], %c1, predicate = %first : !barriers
    gpu.barrier
    %group = arith.divui %thread, %c128 : index
    %is_consumer = arith.cmpi eq, %group, %c0 : index
    %is_filler = arith.cmpi eq, %thread, %c128 : index
    scf.if %is_filler {
      %end = scf.for %step = %c0 to %c8 step %c1 iter_args(%parity = %odd) -> (i1) {
        %slot = arith.remui %step, %c2 : index
        nvgpu.mbarrier.try_wait.parity %empty[%slot], %parity, %ticks : !barriers
"""
    body += _filled(_VIEWS, 8, SLOT="slot")
    body += _filled(_FILL, 8, SLOT="slot", STEP="step", WHO="is_filler").replace(", predicate = %is_filler", "")
    body += _filled(_TURN, 8)
    body += """\
        scf.yield %next_parity : i1
      }
    }
    scf.if %is_consumer {
      %zero = nvgpu.warpgroup.mma.init.accumulator -> !accumulator
      %result:2 = scf.for %step = %c0 to %c8 step %c1 iter_args(%before = %zero, %parity = %even) -> (!accumulator, i1) {
        %slot = arith.remui %step, %c2 : index
"""  # noqa: E501
    body += _filled(_VIEWS, 8, SLOT="slot") + _filled(_MULTIPLY, 8)
    body += """\
        scf.if %first {
          %token = nvgpu.mbarrier.arrive %empty[%slot] : !barriers -> !nvgpu.mbarrier.token
        }
"""
    body += _filled(_TURN, 8)
    body += """\
        scf.yield %sum, %next_parity : !accumulator, i1
      }
      %out = memref.view %memory[%c0][] : !bytes to memref<128x128xf32, #gpu.address_space<workgroup>>
      nvgpu.warpgroup.mma.store %result#0, %out : <fragmented = vector<128x128xf32>> to memref<128x128xf32, #gpu.address_space<workgroup>>
    }
    gpu.barrier
    %read = memref.view %memory[%c0][] : !bytes to memref<16384xf32, #gpu.address_space<workgroup>>
    %elements = arith.constant 16384 : index
    %c256 = arith.constant 256 : index
    scf.for %place = %thread to %elements step %c256 {
      %one = vector.load %read[%place] : memref<16384xf32, #gpu.address_space<workgroup>>, vector<1xf32>
      %row = arith.divui %place, %c128 : index
      %column = arith.remui %place, %c128 : index
      vector.store %one, %d_device[%row, %column] : memref<128x128xf32>, vector<1xf32>
    }
"""  # noqa: E501
    return launched(body, 256)


def stored():
    """A tile comes by a copy, each thread changes its row, and a copy takes it back."""
    return launched("""\
    %tile = memref.view %memory[%c0][] : !bytes to memref<128x64xf16, #gpu.address_space<workgroup>>
    nvgpu.mbarrier.init %full[%c0], %c128, predicate = %first : !barriers
    gpu.barrier
    scf.if %first {
      nvgpu.mbarrier.arrive.expect_tx %full[%c0], %c16384 : !barriers
      nvgpu.tma.async.load %a_map[%c0, %c0], %full[%c0] to %tile : !left, !barriers -> memref<128x64xf16, #gpu.address_space<workgroup>>
    } else {
      %token = nvgpu.mbarrier.arrive %full[%c0] : !barriers -> !nvgpu.mbarrier.token
    }
    nvgpu.mbarrier.try_wait.parity %full[%c0], %even, %ticks : !barriers
    scf.for %place = %c0 to %c64 step %c8 {
      %value = vector.load %tile[%thread, %place] : memref<128x64xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %doubled = arith.addf %value, %value : vector<8xf16>
      vector.store %doubled, %tile[%thread, %place] : memref<128x64xf16, #gpu.address_space<workgroup>>, vector<8xf16>
    }
    nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
    gpu.barrier
    scf.if %first {
      nvgpu.tma.async.store %tile to %a_map[%c0, %c0] : memref<128x64xf16, #gpu.address_space<workgroup>> -> !left
      nvvm.cp.async.bulk.commit.group
      nvvm.cp.async.bulk.wait_group 0
    }
""")  # noqa: E501


def copied():
    """Threads copy two slots ahead with cp.async and read what others copied."""
    copy = """\
PAD%STEP_slot = arith.remui %STEP, %c2 : index
PAD%STEP_row = arith.muli %STEP, %c8 : index
PAD%STEP_token = nvgpu.device_async_copy %a_device[%row_, %STEP_row], %slots[%STEP_slot, %row_, %c0], 8 {bypassL1} : memref<128x512xf16> to memref<2x128x8xf16, #gpu.address_space<workgroup>>
PAD%STEP_group = nvgpu.device_async_create_group %STEP_token
"""  # noqa: E501
    body = """\
    %slots = memref.view %memory[%c0][] : !bytes to memref<2x128x8xf16, #gpu.address_space<workgroup>>
    %row_ = arith.addi %thread, %c0 : index
    %c127 = arith.constant 127 : index
    %other = arith.subi %c127, %thread : index
    %first_step = arith.constant 0 : index
"""
    body += copy.replace("PAD", "    ").replace("%STEP", "%first_step")
    body += """\
    scf.for %step = %c0 to %c8 step %c1 {
      %coming = arith.addi %step, %c1 : index
"""
    body += copy.replace("PAD", "      ").replace("%STEP", "%coming")
    body += """\
      nvgpu.device_async_wait %coming_group {numGroups = 1 : i32}
      gpu.barrier
      %slot = arith.remui %step, %c2 : index
      %value = vector.load %slots[%slot, %other, %c0] : memref<2x128x8xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      vector.store %value, %a_device[%thread, %c0] : memref<128x512xf16>, vector<8xf16>
      gpu.barrier
    }
    nvgpu.device_async_wait %first_step_group
"""  # noqa: E501
    return launched(body)


KERNELS = {"pipelined": pipelined, "specialized": specialized, "stored": stored, "copied": copied}
