"""Calls of Mamba's state-space duality, forward and backward, chunk by chunk."""

import importlib

import torch
from library_modules import absent, checkout, package, tried

absent("causal_conv1d", "causal_conv1d_cuda", "selective_scan_cuda", "transformers")
package("mamba_ssm", checkout("mamba") / "mamba_ssm")
bmm, state, scan = (
    importlib.import_module(f"mamba_ssm.ops.triton.ssd_{name}") for name in ("bmm", "chunk_state", "chunk_scan")
)
c = torch.randn(2, 512, 1, 128).to(torch.bfloat16)
x = torch.randn(2, 512, 8, 64).to(torch.bfloat16)
dt = torch.rand(2, 8, 8, 64)
states = torch.rand(2, 8, 8, 64, 128)
cb = torch.rand(2, 8, 1, 64, 64)
for call in (
    lambda: bmm._bmm_chunk_fwd(c, c.clone(), 64),
    lambda: bmm._bmm_chunk_bwd(c, cb),
    lambda: state._chunk_state_fwd(c, x, dt, dt.clone()),
    lambda: state._chunk_state_bwd_dx(c, x, dt, dt.clone(), states),
    lambda: state._chunk_state_bwd_db(x, dt, dt.clone(), states),
    lambda: scan._chunk_scan_fwd(cb, x, dt, dt.clone(), c, states),
    lambda: scan._chunk_scan_bwd_dC(states, dt, x),
    lambda: scan._chunk_scan_bwd_dstates(c, dt, x),
    lambda: scan._chunk_scan_bwd_dcb(x, dt, dt.clone(), x.clone()),
):
    tried("mamba", call)
