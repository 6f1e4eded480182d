"""Real operands of matrix products, attention and convolutions, as views of the arrays that frameworks hold.

Sizes come from published configurations (the `config.json` of each model on its model card; field names as there) and
from the papers of the convolutional networks. Each case names model and fields. Views are innermost first, strides in
bytes; a tile is what one step of a kernel takes, and the consumer is who reads it from shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.base.element import Element
from tilewright.layout.view.strided_view import StridedView
from tilewright.legal.plan.want import Consumer


@dataclass(frozen=True)
class Transformer:
    """Published sizes. fused_qkv: one projection holds Q, K and V; ids as on the model card."""

    name: str
    family: str
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    fused_qkv: bool = False
    tokens: int = 1000


TRANSFORMERS = (
    Transformer("Llama-2-7B", "Llama", 4096, 11008, 32, 32, 128, 32000),
    Transformer("Llama-2-70B", "Llama", 8192, 28672, 64, 8, 128, 32000, tokens=777),
    Transformer("Llama-3-8B", "Llama", 4096, 14336, 32, 8, 128, 128256, tokens=4001),
    Transformer("Llama-3-405B", "Llama", 16384, 53248, 128, 8, 128, 128256),
    Transformer("Mistral-7B-v0.3", "Mistral", 4096, 14336, 32, 8, 128, 32768, tokens=333),
    Transformer("Mixtral-8x7B", "Mistral", 4096, 14336, 32, 8, 128, 32000, tokens=129),
    Transformer("Qwen2-0.5B", "Qwen", 896, 4864, 14, 2, 64, 151936, tokens=1501),
    Transformer("Qwen2-7B", "Qwen", 3584, 18944, 28, 4, 128, 152064, tokens=95),
    Transformer("Qwen3-8B", "Qwen", 4096, 12288, 32, 8, 128, 151936),
    Transformer("Gemma-2-2B", "Gemma", 2304, 9216, 8, 4, 256, 256000, tokens=4097),
    Transformer("Gemma-2-9B", "Gemma", 3584, 14336, 16, 8, 256, 256000),
    Transformer("Gemma-3-1B", "Gemma", 1152, 6912, 4, 1, 256, 262144, tokens=1023),
    Transformer("Phi-3-mini", "Phi", 3072, 8192, 32, 32, 96, 32064, True, 515),
    Transformer("Phi-3-medium", "Phi", 5120, 17920, 40, 10, 128, 32064, True),
    Transformer("DeepSeek-V2-Lite", "DeepSeek", 2048, 10944, 16, 16, 192, 102400, tokens=61),
    Transformer("DeepSeek-V3", "DeepSeek", 7168, 18432, 128, 128, 192, 129280, tokens=4095),
    Transformer("GPT-2", "GPT-2", 768, 3072, 12, 12, 64, 50257, True, 1023),
    Transformer("GPT-2-XL", "GPT-2", 1600, 6400, 25, 25, 64, 50257, True, 511),
    Transformer("Falcon-7B", "Falcon", 4544, 18176, 71, 1, 64, 65024, True, 2047),
    Transformer("Falcon-40B", "Falcon", 8192, 32768, 128, 8, 64, 65024, True),
    Transformer("BLOOM-560M", "BLOOM", 1024, 4096, 16, 16, 64, 250880, True, 999),
    Transformer("BLOOM-7B1", "BLOOM", 4096, 16384, 32, 32, 128, 250880, True),
    Transformer("Whisper-tiny", "Whisper", 384, 1536, 6, 6, 64, 51865, tokens=1500),
    Transformer("Whisper-large-v3", "Whisper", 1280, 5120, 20, 20, 64, 51866, tokens=1500),
    Transformer("T5-small", "T5", 512, 2048, 8, 8, 64, 32128, tokens=509),
    Transformer("Flan-T5-XL", "T5", 2048, 5120, 32, 32, 64, 32128, tokens=381),
    Transformer("BERT-base", "BERT", 768, 3072, 12, 12, 64, 30522, tokens=383),
)

_TILE_K, _TILE_ROWS = 64, 128
_MODEL_FIELDS = "hidden_size, intermediate_size, num_attention_heads, num_key_value_heads, vocab_size"


@dataclass(frozen=True)
class Operand:
    """One operand. group: the class that the suite reports by; source: model and the fields that its sizes are from."""

    name: str
    group: str
    family: str
    source: str
    element: Element
    view: StridedView
    tile: tuple[int, ...]
    consumer: Consumer | None


def operands() -> list[Operand]:
    """The whole suite, in a fixed order."""
    found: list[Operand] = []
    for model in TRANSFORMERS:
        found += _weights(model)
        found += _activations(model)
        found += _attention(model)
        found += _slices(model)
    return [*found, *_vision(), *_convolutions(), *_windows(), *_ragged(), *_oddities()]


def dense(extents: tuple[int, ...], element: Element, offset_elements: int = 0) -> StridedView:
    """A dense view, innermost first, that begins so many elements after an aligned address."""
    strides, reach = list[int](), element.bytes
    for extent in extents:
        strides.append(reach)
        reach *= extent
    return StridedView(extents, tuple(strides), offset_elements * element.bytes, element.bytes)


def _operand(
    model: Transformer, name: str, group: str, view: StridedView, tile: tuple[int, ...], consumer: Consumer | None
) -> Operand:
    source = f"{model.name} config.json: {_MODEL_FIELDS}"
    return Operand(f"{model.name} {name}", group, model.family, source, Element.BF16, view, tile, consumer)


def _weights(model: Transformer) -> Iterator[Operand]:
    projected = (model.heads + 2 * model.kv_heads) * model.head if model.fused_qkv else model.heads * model.head
    sizes = {
        "qkv" if model.fused_qkv else "q": (model.hidden, projected),
        "gate": (model.hidden, model.intermediate),
        "down": (model.intermediate, model.hidden),
        "lm_head": (model.hidden, model.vocabulary),
    }
    for name, (columns, rows) in sizes.items():
        view = dense((columns, rows), Element.BF16)
        yield _operand(model, f"weight {name}", "weights", view, (_TILE_K, _TILE_ROWS), "wgmma")
    head = dense((model.hidden, model.vocabulary), Element.BF16).permute((1, 0))
    yield _operand(model, "lm_head transposed", "transposed", head, (_TILE_ROWS, _TILE_K), "wgmma")


def _activations(model: Transformer) -> Iterator[Operand]:
    tokens = model.tokens
    hidden = dense((model.hidden, tokens), Element.BF16)
    yield _operand(model, f"hidden of {tokens} tokens", "activations", hidden, (_TILE_K, _TILE_ROWS), "wgmma")
    logits = dense((model.vocabulary, tokens), Element.BF16)
    yield _operand(model, f"logits of {tokens} tokens", "vocabulary", logits, (_TILE_K, _TILE_ROWS), "wgmma")
    gradient = logits.permute((1, 0))
    yield _operand(model, "logit gradients transposed", "vocabulary", gradient, (_TILE_K, _TILE_ROWS), "wgmma")


def _attention(model: Transformer) -> Iterator[Operand]:
    batch, tokens, heads = 4, model.tokens, model.kv_heads
    width = min(model.head, _TILE_K)
    keys = StridedView(
        (model.head, tokens, heads, batch),
        (2, 2 * heads * model.head, 2 * model.head, 2 * heads * model.head * tokens),
        0,
        2,
    )
    yield _operand(model, "keys, heads permuted", "head permutes", keys, (width, _TILE_ROWS, 1, 1), "wgmma")
    queries = model.heads // heads
    grouped = StridedView(
        (model.head, tokens, queries, heads, batch),
        (*keys.strides_bytes[:2], 0, *keys.strides_bytes[2:]),
        0,
        2,
    )
    yield _operand(model, "keys, repeated for grouped queries", "head permutes", grouped, (width, 64, 1, 1, 1), "wgmma")
    scores = dense((tokens, tokens, model.heads), Element.BF16)
    yield _operand(model, f"scores of {tokens} tokens", "attention scores", scores, (_TILE_K, 64, 1), "wgmma")


def _slices(model: Transformer) -> Iterator[Operand]:
    tokens, head = model.tokens, model.head
    total = (model.heads + 2 * model.kv_heads) * head
    row = total * 2
    width = min(head, _TILE_K)
    values = StridedView(
        (head, tokens, model.kv_heads), (2, row, 2 * head), 2 * (model.heads + model.kv_heads) * head, 2
    )
    yield _operand(model, "values inside fused QKV", "slices", values, (width, _TILE_ROWS, 1), "wgmma")
    first, half = 2 * head // 2, head // 2
    rotated = StridedView((half, tokens, model.heads), (2, row, 2 * head), first, 2)
    yield _operand(model, "upper half of each query head", "slices", rotated, (32, 64, 1), "ldmatrix")
    if model.family in ("GPT-2", "Llama", "Qwen", "Whisper"):
        pairs = StridedView((half, tokens, model.heads), (4, row, 2 * head), 0, 2)
        yield _operand(model, "even elements of each query head", "strided elements", pairs, (16, 32, 1), None)
    shifted = StridedView((model.vocabulary - 1, tokens), (2, 2 * model.vocabulary), 2, 2)
    yield _operand(model, "logits without the first column", "misaligned bases", shifted, (_TILE_K, 64), None)


_VISION = (
    ("ViT-B/16", 768, 12, 197, "hidden_size, image_size 224, patch_size 16"),
    ("ViT-L/16", 1024, 16, 577, "hidden_size, image_size 384, patch_size 16"),
    ("CLIP ViT-L/14", 1024, 16, 257, "hidden_size, image_size 224, patch_size 14"),
    ("DINOv2-g/14", 1536, 24, 1370, "hidden_size, image_size 518, patch_size 14"),
    ("SigLIP-so400m", 1152, 16, 729, "hidden_size, image_size 384, patch_size 14"),
)


def _vision() -> Iterator[Operand]:
    for name, hidden, heads, tokens, fields in _VISION:
        source = f"{name} config.json: {fields}"
        scores = dense((tokens, tokens, heads), Element.F16)
        yield Operand(
            f"{name} attention scores", "attention scores", "vision", source, Element.F16, scores, (64, 64, 1), "wgmma"
        )
        patches = dense((hidden, tokens), Element.F16)
        rest = StridedView((hidden, tokens - 1), patches.strides_bytes, hidden * 2, 2)
        yield Operand(
            f"{name} patches without the class token", "slices", "vision", source, Element.F16, rest, (64, 128), "wgmma"
        )
    for patch, image in ((14, 224), (16, 224), (14, 518), (32, 384)):
        count = image // patch
        pixel = dense((image, image, 3, 8), Element.F16)
        row, plane, whole = pixel.strides_bytes[1:]
        view = StridedView((patch, patch, 3, count, count, 8), (2, row, plane, 2 * patch, row * patch, whole), 0, 2)
        yield Operand(
            f"patches of {patch} in images of {image}",
            "windows",
            "vision",
            "Dosovitskiy et al. 2020: patch embedding",
            Element.F16,
            view,
            (patch, patch, 3, 1, 1, 1),
            None,
        )


_RESNET = ((112, 64), (56, 64), (56, 256), (28, 128), (28, 512), (14, 256), (14, 1024), (7, 512), (7, 2048))
_UNET = ((64, 4), (64, 320), (32, 640), (16, 1280), (8, 1280), (96, 4), (96, 320), (48, 640), (128, 4), (64, 1280))
_CONVNEXT = ((56, 96), (28, 192), (14, 384), (7, 768))


def _convolutions() -> Iterator[Operand]:
    networks = (
        ("ResNet-50", "He et al. 2015, table 1", _RESNET),
        ("Stable Diffusion UNet", "unet/config.json: block_out_channels, sample_size, in_channels", _UNET),
        ("ConvNeXt-T", "Liu et al. 2022: dims, depths", _CONVNEXT),
    )
    for name, source, layers in networks:
        for size, channels in layers:
            for layout, extents in (("NHWC", (channels, size, size, 8)), ("NCHW", (size, size, channels, 8))):
                tile = (min(64, channels), 8, 4, 1) if layout == "NHWC" else (min(32, size), 8, 8, 1)
                yield Operand(
                    f"{name} {channels} x {size} x {size} {layout}",
                    f"convolutions {layout}",
                    name,
                    source,
                    Element.F16,
                    dense(extents, Element.F16),
                    tile,
                    None,
                )
    for size in (224, 299, 384):
        for element in (Element.U8, Element.F16):
            yield Operand(
                f"image 3 x {size} x {size} {element.value} NHWC",
                "convolutions NHWC",
                "images",
                "ResNet, Inception and ConvNeXt inputs",
                element,
                dense((3, size, size, 8), element),
                (3, 32, 4, 1),
                None,
            )
    for taps, channels, filters in ((49, 3, 64), (16, 3, 96), (9, 4, 320), (9, 320, 4), (49, 1, 768), (9, 512, 512)):
        depth = taps * channels
        yield Operand(
            f"filter of {taps} taps, {channels} to {filters} channels",
            "filters",
            "convolutions",
            "conv1, stem and conv_in of the networks above",
            Element.F16,
            dense((depth, filters), Element.F16),
            (64, 64),
            "wgmma",
        )


def _windows() -> Iterator[Operand]:
    for channels, size in ((96, 56), (192, 28), (384, 14), (768, 7)):
        row = 2 * channels * size
        count = size // 7
        view = StridedView(
            (32, 7, 7, channels // 32, count, count, 8),
            (2, 2 * channels, row, 64, 2 * channels * 7, row * 7, row * size),
            0,
            2,
        )
        yield Operand(
            f"Swin-T windows at {size} x {size} x {channels}",
            "windows",
            "vision",
            "Liu et al. 2021: window 7, heads of 32",
            Element.F16,
            view,
            (32, 7, 7, 1, 1, 1, 1),
            None,
        )
    for patch, merge, steps in ((14, 2, 2), (16, 2, 2)):
        side = patch * merge * 8
        row, plane, frame = 2 * side, 2 * side * side, 2 * side * side * 3
        view = StridedView(
            (patch, patch, steps, 3, merge, 8, merge, 8, 4),
            (2, row, frame, plane, 2 * patch, 2 * patch * merge, row * patch, row * patch * merge, frame * steps),
            0,
            2,
        )
        yield Operand(
            f"Qwen2-VL patches of {patch}",
            "windows",
            "vision",
            "preprocessor_config.json: patch_size, merge_size, temporal_patch_size",
            Element.F16,
            view,
            (patch, patch, steps, 3, 1, 1, 1, 1, 1),
            None,
        )
    for channels, factor, size in ((64, 2, 64), (3, 4, 64), (32, 2, 128)):
        wide = channels * factor * factor
        view = StridedView(
            (channels, factor, factor, size, size, 4),
            (2, 2 * channels, 2 * channels * factor, 2 * wide, 2 * wide * size, 2 * wide * size * size),
            0,
            2,
        )
        yield Operand(
            f"pixel shuffle by {factor} of {wide} channels",
            "windows",
            "vision",
            "Shi et al. 2016: depth to space",
            Element.F16,
            view,
            (channels, factor, 1, 8, 1, 1),
            None,
        )
    for channels, taps, size in ((64, 3, 56), (320, 3, 64), (256, 5, 28)):
        row = 2 * channels * size
        out = size - taps + 1
        view = StridedView(
            (channels, taps, taps, out, out, 8),
            (2, 2 * channels, row, 2 * channels, row, row * size),
            0,
            2,
        )
        yield Operand(
            f"taps of a {taps} x {taps} convolution of {channels} channels",
            "windows",
            "convolutions",
            "ResNet and UNet layers as overlapping views",
            Element.F16,
            view,
            (64, 1, 1, 2, 1, 1),
            None,
        )


def _ragged() -> Iterator[Operand]:
    starts = (0, 37, 61, 190, 511, 1023, 2777)
    for name, hidden in (("Llama-3-8B", 4096), ("Qwen2-0.5B", 896), ("Falcon-7B", 4544), ("Phi-2", 2560)):
        for start in starts[1:4]:
            view = dense((hidden, 300), Element.BF16, start * hidden)
            yield Operand(
                f"{name} sequence at token {start}",
                "ragged batches",
                name,
                f"{name} config.json: hidden_size",
                Element.BF16,
                view,
                (64, 128),
                "wgmma",
            )
    for start in starts:
        scores = dense((333, 333), Element.BF16, start * 333)
        yield Operand(
            f"scores of 333 tokens packed at row {start}",
            "ragged batches",
            "packed attention",
            "variable-length batches",
            Element.BF16,
            scores,
            (64, 64),
            "wgmma",
        )
    for experts, width in ((8, 1377), (64, 1408), (128, 768), (160, 1536)):
        view = dense((width, 2048, experts), Element.BF16)
        yield Operand(
            f"{experts} experts of width {width}",
            "ragged batches",
            "mixture of experts",
            "config.json: moe_intermediate_size, num_experts",
            Element.BF16,
            view,
            (64, 128, 1),
            "wgmma",
        )


def _oddities() -> Iterator[Operand]:
    for offset in (1, 2, 3, 4, 5, 8):
        view = StridedView((4096 - offset, 4096), (2, 8192), 2 * offset, 2)
        yield Operand(
            f"columns from {offset} on",
            "misaligned bases",
            "slices",
            "x[:, k:]",
            Element.BF16,
            view,
            (64, 128),
            "wgmma",
        )
        yield Operand(
            f"columns from {offset} on, read by threads",
            "misaligned bases",
            "slices",
            "x[:, k:]",
            Element.BF16,
            view,
            (64, 64),
            None,
        )
    for channel in (0, 1, 2):
        view = StridedView((224, 224, 8), (3, 672, 150528), channel, 1)
        yield Operand(
            f"colour {channel} of packed pixels",
            "strided elements",
            "images",
            "x[..., c] of NHWC",
            Element.U8,
            view,
            (64, 32, 1),
            None,
        )
    for leading in (4097, 4100, 4104, 1001, 50257):
        view = StridedView((leading - leading % 8, 2048), (2, 2 * leading), 0, 2)
        yield Operand(
            f"leading dimension {leading}",
            "odd leading dimensions",
            "slices",
            "x[:, :k] of odd rows",
            Element.BF16,
            view,
            (64, 128),
            "wgmma",
        )
        single = StridedView((leading, 2048), (4, 4 * leading), 0, 4)
        yield Operand(
            f"leading dimension {leading}, f32",
            "odd leading dimensions",
            "slices",
            "odd rows",
            Element.F32,
            single,
            (32, 64),
            "ldmatrix",
        )
    for page in (16, 17, 64):
        view = dense((128, page, 8, 2, 1000), Element.BF16)
        yield Operand(
            f"KV pages of {page} tokens",
            "head permutes",
            "paged attention",
            "vLLM block_size; (blocks, 2, heads, page, head)",
            Element.BF16,
            view,
            (64, page, 1, 1, 1),
            "wgmma",
        )
    for width in (1, 3, 7):
        view = dense((width, 100000), Element.F32)
        yield Operand(
            f"table of {width} columns",
            "odd leading dimensions",
            "tables",
            "bounding boxes, weights, boxes",
            Element.F32,
            view,
            (width, 256),
            None,
        )
