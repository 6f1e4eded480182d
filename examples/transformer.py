"""A small transformer whose attention, norms, products and softmax are Tilewright's: it learns a text and goes on with
it.

    python examples/transformer.py    # needs a GPU and PyTorch; most of its time is the first compilation

The functions stand where PyTorch's stood: `scaled_dot_product_attention` for `torch.nn.functional`'s, `rms_norm` for
`torch.nn.functional.rms_norm`, `torch.ops.tilewright.matmul` and `gated_matmul` for `torch.nn.Linear`. Shapes are the
same in every step, also when text is written, so that every kernel is compiled once. There is no other path: without a
GPU the CPU machine would run the kernels, exactly and far too slowly to learn anything.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

from tilewright.integrations.torch_operators import rms_norm, scaled_dot_product_attention, softmax

TEXT = "the quick brown fox jumps over the lazy dog; " * 4
VOCABULARY = 128
WIDTH, HEADS, SHARED_HEADS, LAYERS = 256, 4, 2, 2
LENGTH, BATCH, STEPS = 128, 16, 100
RATE = 3e-3

products = torch.ops.tilewright


class Block(nn.Module):
    """Attention over earlier places, by heads of which two share keys and values, then a gated product."""

    def __init__(self) -> None:
        super().__init__()
        head = WIDTH // HEADS
        shapes = {
            "queries": (WIDTH, WIDTH), "keys": (SHARED_HEADS * head, WIDTH), "values": (SHARED_HEADS * head, WIDTH),
            "out": (WIDTH, WIDTH), "gate": (2 * WIDTH, WIDTH), "up": (2 * WIDTH, WIDTH), "down": (WIDTH, 2 * WIDTH),
        }  # fmt: skip
        for name, shape in shapes.items():
            weight = torch.randn(shape) * shape[1] ** -0.5
            self.register_parameter(name, nn.Parameter(weight.to(torch.bfloat16)))
        for name in ("before", "between"):
            self.register_parameter(name, nn.Parameter(torch.ones(WIDTH, dtype=torch.bfloat16)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = rms_norm(x, (WIDTH,), self.before, 1e-6)
        q, k, v = (self.in_heads(normed, weight) for weight in (self.queries, self.keys, self.values))
        attended = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = products.matmul(attended.transpose(1, 2).flatten(2), self.out.t(), None, x)
        inner = products.gated_matmul(rms_norm(x, (WIDTH,), self.between, 1e-6), self.gate.t(), self.up.t())
        return products.matmul(inner, self.down.t(), None, x)

    def in_heads(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """x times a weight, over (batch, heads, places, head size)."""
        return products.matmul(x, weight.t()).unflatten(2, (-1, WIDTH // HEADS)).transpose(1, 2)


class Transformer(nn.Module):
    """From numbers of characters to the logits of those that follow."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(VOCABULARY, WIDTH, dtype=torch.bfloat16)
        self.places = nn.Embedding(LENGTH, WIDTH, dtype=torch.bfloat16)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        for table in (self.characters, self.places):
            nn.init.normal_(table.weight, std=WIDTH**-0.5)
        self.last = nn.Parameter(torch.ones(WIDTH, dtype=torch.bfloat16))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        x = self.characters(numbers) + self.places.weight[: numbers.shape[1]]
        return products.matmul(rms_norm(self.blocks(x), (WIDTH,), self.last, 1e-6), self.characters.weight.t())


def train(model: Transformer, numbers: torch.Tensor, steps: int) -> list[float]:
    """Take some steps on windows of a text; the loss before each."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    losses: list[float] = []
    for _ in range(steps):
        begins = torch.randint(len(numbers) - LENGTH, (BATCH,)).tolist()
        windows = torch.stack([numbers[begin : begin + LENGTH + 1] for begin in begins])
        logits = model(windows[:, :-1].contiguous())
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def generate(model: Transformer, numbers: torch.Tensor, count: int) -> torch.Tensor:
    """The numbers, and as many more, each the likeliest. What stands behind the last one is masked, whatever it is."""
    for _ in range(count):
        window = numbers[-LENGTH:]
        padded = nn.functional.pad(window, (0, LENGTH - len(window))).expand(BATCH, LENGTH).contiguous()
        likely: Any = softmax(model(padded)[:, len(window) - 1])
        numbers = torch.cat([numbers, likely[0].argmax()[None]])
    return numbers


def main() -> int:
    if not torch.cuda.is_available():
        print("this example needs a GPU", file=sys.stderr)
        return 1
    torch.manual_seed(0)
    numbers = torch.tensor([ord(each) for each in TEXT], device="cuda")
    model = Transformer().cuda()
    losses = train(model, numbers, STEPS)
    print(f"loss {losses[0]:.2f}, after {STEPS} steps {losses[-1]:.2f}")
    print("".join(chr(each) for each in generate(model, numbers[:20], 45).tolist()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
