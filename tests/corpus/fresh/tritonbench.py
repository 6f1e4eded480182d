"""Products and an attention of TritonBench's operators: by pointers, by descriptors, persistent, grouped, split."""

import torch
import triton.language as tl
from library_modules import absent, checkout, file_module, launch, tried
from library_products import K, M, N, product, random
from triton.tools.tensor_descriptor import TensorDescriptor

OPERATORS = checkout("tritonbench") / "tritonbench" / "operators"
absent("tritonbench")


def module(path):
    return file_module(OPERATORS / path)


def of_pointers():
    a, b, c = random(M, K), random(K, N), random(M, N)
    tables = torch.zeros(4, dtype=torch.int64)
    sizes = torch.zeros(12, dtype=torch.int32)
    q = torch.zeros(16, 16, 4096, 64, dtype=torch.float16)  # The kernel's own constants.
    launch(
        module("int4_gemm/kernel.py").matmul_kernel, (16,), **product(a, torch.zeros(K // 2, N, dtype=torch.int8), c)
    )
    sums = torch.rand(M, N, 4)
    launch(
        module("gemm/partition_k.py")._matmul_partition_k, (64,), **product(a, b, c), c_buf_ptr=sums, PK=4,
        PK_SIZE=K // 4, stride_cb_m=sums.stride(0), stride_cb_n=sums.stride(1), stride_cb_k=1,
    )  # fmt: skip
    launch(
        module("bf16xint16_gemm/kernel.py").bf16xint16_matmul_kernel, (16,), TRANSPOSE=False,
        **product(a, torch.zeros(K, N, dtype=torch.int16), c),
    )  # fmt: skip
    launch(
        module("template_attention/triton_attention.py").triton_tem_fused_with_exp2, (32, 256), arg_Q=q,
        arg_K=q.clone(), arg_V=q.clone(), out_ptr0=q.clone(), num_queries=4096, BLOCK_M=128,
        BLOCK_N=64, BLOCK_DMODEL=64,
    )  # fmt: skip
    launch(
        module("grouped_gemm/kernels.py").grouped_matmul_kernel, (132,), group_a_ptrs=tables,
        group_b_ptrs=tables.clone(), group_c_ptrs=tables.clone(), group_gemm_sizes=sizes, g_lds=sizes.clone(),
        group_size=4, NUM_SM=132, BLOCK_SIZE_M=64, BLOCK_SIZE_N=64, BLOCK_SIZE_K=64,
    )  # fmt: skip


def of_descriptors():
    a, b, c = (random(*shape, dtype=torch.float16) for shape in ((M, K), (N, K), (M, N)))

    def descriptor(array, *block):
        return TensorDescriptor(array, list(array.shape), list(array.stride()), list(block))

    named = dict(
        a_desc=descriptor(a, 128, 64), b_desc=descriptor(b, 128, 64), c_desc=descriptor(c, 128, 128), M=M, N=N, K=K,
        BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, GROUP_SIZE_M=8, WARP_SPECIALIZE=False, DTYPE=tl.float16,
        TRANSPOSE_A=False, TRANSPOSE_B=True, EPILOGUE_SUBTILE=False, NUM_SMS=132, FLATTEN=True, a_ptr=a, b_ptr=b,
        c_ptr=c, a_stride=K, b_stride=K, c_stride=N,
    )  # fmt: skip
    kernels = module("gemm/warp_spec_persistent_matmul.py")
    for name in ("matmul_kernel_tma", "matmul_kernel_tma_persistent", "matmul_kernel_descriptor_persistent"):
        tried(name, lambda name=name: launch(getattr(kernels, name), (8,), **named))


tried("pointers", of_pointers)
of_descriptors()
