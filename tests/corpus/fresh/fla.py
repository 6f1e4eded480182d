"""Calls of flash-linear-attention, forward and backward: one of each of its operations."""

import importlib
import sys

import torch
from library_modules import checkout, tried

sys.path.insert(0, str(checkout("flash-linear-attention")))

BATCH, TOKENS, HEADS, WIDTH = 2, 512, 4, 64
CALLS = {
    ("gla", "chunk_gla"): "x x x g",
    ("gated_delta_rule", "chunk_gated_delta_rule"): "x x x s b",
    ("delta_rule", "chunk_delta_rule"): "x x x b",
    ("kda", "chunk_kda"): "x x x g b",
    ("gated_oja_rule", "chunk_gated_oja_rule"): "x x x g b",
    ("comba", "chunk_comba"): "x x x x s b",
    ("simple_gla", "chunk_simple_gla"): "x x x s",
    ("simple_gla", "parallel_simple_gla"): "x x x s",
    ("gsa", "chunk_gsa"): "x x x x g",
    ("rwkv6", "chunk_rwkv6"): "x x x g u",
    ("rwkv7", "chunk_rwkv7"): "x g x x x x",
    ("attn", "parallel_attn"): "w w w",
    ("forgetting_attn", "parallel_forgetting_attn"): "x x x s",
    ("path_attn", "parallel_path_attn"): "x x x x b s",
    ("deltaformer", "deltaformer_attn"): "x x x b",
    ("linear_attn", "chunk_linear_attn"): "x x x",
    ("retention", "parallel_retention"): "x x x",
    ("based", "parallel_based"): "n n x",
    ("rebased", "parallel_rebased"): "n n x",
    ("generalized_delta_rule", "chunk_iplr_delta_rule"): "x x x x x",
    ("generalized_delta_rule", "chunk_dplr_delta_rule"): "x x x x x g",
    ("parallax", "parallel_parallax"): "w w w w",
}
"""Arguments of each function. x: rows of the head's width; w, n: wider and narrower ones; g, s: logarithms of gates,
for each number or each row; b: factors between 0 and 1; u: a row for each head."""


def argument(kind):
    rows = (BATCH, TOKENS, HEADS)
    match kind:
        case "x" | "w" | "n":
            made = torch.randn(*rows, {"x": WIDTH, "w": 128, "n": 16}[kind]).to(torch.bfloat16)
        case "g":
            made = -torch.rand(*rows, WIDTH)
        case "s":
            made = -torch.rand(*rows)
        case "b":
            made = torch.rand(*rows).to(torch.bfloat16)
        case _:
            made = torch.randn(HEADS, WIDTH).to(torch.bfloat16)
    return made.requires_grad_()


def call(module, function, kinds):
    made = getattr(importlib.import_module(f"fla.ops.{module}"), function)(*map(argument, kinds.split()))
    (made[0] if isinstance(made, tuple) else made).sum().backward()


for (module, function), kinds in CALLS.items():
    tried(function, lambda module=module, function=function, kinds=kinds: call(module, function, kinds))
