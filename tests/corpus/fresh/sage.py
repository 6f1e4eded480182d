"""Calls of SageAttention's Triton kernels: 8-bit scores, full and causal."""

import torch
from library_modules import checkout, file_module

for name in ("attn_qk_int8_per_block", "attn_qk_int8_per_block_causal"):
    module = file_module(checkout("SageAttention") / "sageattention" / "triton" / f"{name}.py")
    module._attn_fwd.__name__ = name
    q = torch.zeros(2, 8, 512, 128, dtype=torch.int8)
    v = torch.randn(2, 8, 512, 128).to(torch.float16)
    module.forward(q, q.clone(), v, torch.rand(2, 8, 4, 1), torch.rand(2, 8, 8, 1))
