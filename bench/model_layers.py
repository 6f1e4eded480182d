"""Which linear layers do public models have? Output and input features of each, by the model's name.

The widths are those of the models' published configurations. Products that a decoder shares an input of are fused, as
inference engines fuse them: query, key and value; gate and up. Left out: output heads over vocabularies, which are
multiplied with few rows alone, and the experts of mixtures, which are grouped products (`bench.moe_shapes`).
Checked by: tests/benchmarks/test_random_gemm.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layer:
    """A weight of n output and k input features."""

    model: str
    name: str
    n: int
    k: int


_DECODERS = (
    ("Command R+", 12288, 33792, 96, 8, 128),
    ("Gemma 2 2B", 2304, 9216, 8, 4, 256),
    ("Gemma 2 9B", 3584, 14336, 16, 8, 256),
    ("Gemma 2 27B", 4608, 36864, 32, 16, 128),
    ("Gemma 3 12B", 3840, 15360, 16, 8, 256),
    ("Gemma 3 27B", 5376, 21504, 32, 16, 128),
    ("Llama 2 7B", 4096, 11008, 32, 32, 128),
    ("Llama 2 13B", 5120, 13824, 40, 40, 128),
    ("Llama 3.2 1B", 2048, 8192, 32, 8, 64),
    ("Llama 3.2 3B", 3072, 8192, 24, 8, 128),
    ("Llama 3 8B", 4096, 14336, 32, 8, 128),
    ("Llama 3 70B", 8192, 28672, 64, 8, 128),
    ("Mistral Nemo 12B", 5120, 14336, 32, 8, 128),
    ("Mistral Small 24B", 5120, 32768, 32, 8, 128),
    ("Phi 3 mini", 3072, 8192, 32, 32, 96),
    ("Phi 4 14B", 5120, 17920, 40, 10, 128),
    ("Qwen 2.5 0.5B", 896, 4864, 14, 2, 64),
    ("Qwen 2.5 1.5B", 1536, 8960, 12, 2, 128),
    ("Qwen 2.5 7B", 3584, 18944, 28, 4, 128),
    ("Qwen 2.5 14B", 5120, 13824, 40, 8, 128),
    ("Qwen 2.5 32B", 5120, 27648, 40, 8, 128),
    ("Qwen 2.5 72B", 8192, 29568, 64, 8, 128),
    ("Qwen 3 0.6B", 1024, 3072, 16, 8, 128),
    ("Qwen 3 4B", 2560, 9728, 32, 8, 128),
    ("Qwen 3 8B", 4096, 12288, 32, 8, 128),
    ("SmolLM 2 135M", 576, 1536, 9, 3, 64),
)
"""(model, width, width between gate and down, heads, heads of keys, width of a head) of decoders with gated layers."""

_OTHERS = (
    Layer("BERT large", "QKV", 3072, 1024),
    Layer("BERT large", "up", 4096, 1024),
    Layer("BERT large", "down", 1024, 4096),
    Layer("DeepSeek V3", "QKV down", 2112, 7168),
    Layer("DeepSeek V3", "query up", 24576, 1536),
    Layer("DeepSeek V3", "key and value up", 32768, 512),
    Layer("DeepSeek V3", "attention out", 7168, 16384),
    Layer("DeepSeek V3", "shared expert gate and up", 4096, 7168),
    Layer("DeepSeek V3", "shared expert down", 7168, 2048),
    Layer("Falcon 7B", "QKV", 4672, 4544),
    Layer("Falcon 7B", "up", 18176, 4544),
    Layer("Falcon 7B", "down", 4544, 18176),
    Layer("GPT-2 XL", "QKV", 4800, 1600),
    Layer("GPT-2 XL", "attention out", 1600, 1600),
    Layer("GPT-2 XL", "up", 6400, 1600),
    Layer("GPT-2 XL", "down", 1600, 6400),
    Layer("GPT-OSS 20B", "QKV", 5120, 2880),
    Layer("GPT-OSS 20B", "attention out", 2880, 4096),
    Layer("Whisper large", "attention out", 1280, 1280),
    Layer("Whisper large", "up", 5120, 1280),
    Layer("Whisper large", "down", 1280, 5120),
)


def _of_decoder(model: str, width: int, inner: int, heads: int, keys: int, head: int) -> tuple[Layer, ...]:
    return (
        Layer(model, "QKV", (heads + 2 * keys) * head, width),
        Layer(model, "attention out", width, heads * head),
        Layer(model, "gate and up", 2 * inner, width),
        Layer(model, "down", width, inner),
    )


LAYERS = (*(layer for decoder in _DECODERS for layer in _of_decoder(*decoder)), *_OTHERS)
"""All of them."""
