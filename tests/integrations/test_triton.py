"""Triton kernels compiled and checked without a GPU, where Triton is installed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from tests.integrations import fake_triton

from tilewright.base.error import TilewrightError
from tilewright.base.plan import NullPointerParam, PointerParam, ScalarParam, TensorMapParam
from tilewright.integrations import triton as tw_triton

METADATA = {
    "name": "k",
    "num_ctas": 2,
    "shared": 1024,
    "global_scratch_size": 64,
    "global_scratch_align": 128,
    "profile_scratch_size": 0,
    "tensordesc_meta": [{"block_size": [64, 32], "elem_type": 6, "swizzle": 2}],
}


def test_the_launch_is_that_of_tritons_launcher() -> None:
    types = [("x", "*fp32"), ("d", "tensordesc<fp16[64, 32]>"), ("n", "i32"), ("s", "fp32")]
    launch = tw_triton.launch_of(METADATA, types, {"x": (4, 8), "d": (256, 128), "n": 5, "s": 1}, (3, 2))
    assert (launch.grid, launch.cluster, launch.dynamic_smem_bytes) == ((6, 2, 1), (2, 1, 1), 1024)
    pointer, described, *tail = launch.params
    assert pointer == PointerParam("x") and isinstance(described, TensorMapParam)
    assert (described.map.dims, described.map.strides_bytes) == ((128, 256), (256,))
    assert (described.map.box, described.map.swizzle) == ((32, 64), "64B")
    assert tail == [
        ScalarParam("i32", 256),
        ScalarParam("i32", 128),
        ScalarParam("i64", 128),
        ScalarParam("i64", 1),
        ScalarParam("i32", 5),
        ScalarParam("f32", 1.0),
        PointerParam("global_scratch"),
        NullPointerParam(),
    ]
    sizes = {buffer.name: buffer.size_bytes for buffer in launch.buffers}
    assert sizes == {"x": 128, "d": 256 * 128 * 2, "global_scratch": 64 * 12}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 5}, "has no x"),
        ({"x": 3, "n": 5}, "argument x is 3, not a shape"),
        ({"x": (4,), "n": 1.5}, "argument n is 1.5, and its type is i32"),
    ],
)
def test_an_argument_that_does_not_fit(arguments: dict[str, tw_triton.Argument], message: str) -> None:
    with pytest.raises(TilewrightError, match=message) as caught:
        tw_triton.launch_of(METADATA, [("x", "*fp32"), ("n", "i32")], arguments, (1,))
    assert caught.value.remedy


# ---------------------------------------------------------------- with Triton


@pytest.fixture(autouse=True)
def _fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))


def test_a_plain_kernel_is_proven() -> None:
    pytest.importorskip("triton")
    from tests.integrations.triton_kernels import scale

    report = tw_triton.check(
        scale,
        signature={"x": "*fp32", "y": "*fp32", "n": "i32"},
        constexprs={"BLOCK": 128},
        arguments={"x": (1024,), "y": (1024,), "n": 1000},
        grid=(8,),
    )
    (kernel,) = report.kernels
    assert (kernel.name, kernel.verdict, report.error) == ("scale", "proven", "")


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_product_by_descriptors_is_not_refuted(target: str) -> None:
    pytest.importorskip("triton")
    from tests.integrations.triton_kernels import PRODUCT_ARGUMENTS, PRODUCT_SIGNATURE, PRODUCT_TILES, product

    for arguments in (PRODUCT_ARGUMENTS, None):
        report = tw_triton.check(
            product,
            signature=PRODUCT_SIGNATURE,
            constexprs=PRODUCT_TILES,
            target=target,
            arguments=arguments,
            grid=(2, 2),
            num_stages=3,
        )
        assert report.error == "" and report.kernels[0].verdict != "refuted"


def test_findings_point_at_the_python_source() -> None:
    pytest.importorskip("triton")
    from tests.integrations.triton_kernels import PRODUCT_SIGNATURE, PRODUCT_TILES, product

    # A box that the tensor map does not have is a finding at every wait for its bytes.
    report = tw_triton.check(
        product,
        signature=PRODUCT_SIGNATURE,
        constexprs=PRODUCT_TILES,
        arguments={"a": (128, 256), "b": (256, 128), "c": (128, 128), "k_extent": 256},
        grid=(2, 2),
        isa="strict",
    )
    places = [finding.primary for finding in report.kernels[0].findings if finding.primary is not None]
    assert places and all(place.file.endswith(".py") for place in places)
    assert any("load" in place.text or "dot" in place.text or "store" in place.text for place in places)


def test_mistakes_are_messages() -> None:
    pytest.importorskip("triton")
    from tests.integrations.triton_kernels import scale

    types = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    for signature, target, message in (
        ({"x": "*fp32"}, "sm_90a", "nothing is said of parameter y"),
        ({**types, "z": "i32"}, "sm_90a", "has no parameter z"),
        (types, "gfx942", "is no NVIDIA target"),
        (types, "sm_80", "does not check kernels for sm_80"),
        ({**types, "x": "*fp99"}, "sm_90a", "Triton cannot compile scale"),
    ):
        with pytest.raises(TilewrightError, match=message) as caught:
            tw_triton.check(scale, signature=signature, constexprs={"BLOCK": 128}, target=target)
        assert caught.value.remedy
    with pytest.raises(TilewrightError, match="is no Triton kernel"):
        tw_triton.check(print, signature={})


def test_whatever_is_compiled_inside_is_checked() -> None:
    triton = pytest.importorskip("triton")
    from tests.integrations.triton_kernels import scale
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource

    heard: list[str] = []
    triton.knobs.compilation.listener = lambda **event: heard.append(event["metadata"]["name"])
    try:
        with tw_triton.checking() as found:
            for _ in range(2):
                source = ASTSource(scale, {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {(3,): 128})
                triton.compile(source, target=GPUTarget("cuda", 90, 32))
        # The second time from the cache.
        assert [report.kernels[0].name for report in found.reports] == ["scale", "scale"]
        assert heard == ["scale", "scale"]
        assert all(report.kernels[0].verdict != "refuted" for report in found.reports)
    finally:
        triton.knobs.compilation.listener = None


PTX = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry wgmma_ring()
{
newest.instruction.sync;
ret;
}
"""
TTGIR = Path(__file__).parents[1] / "data" / "ttgir" / "wgmma_ring.ttgir"


def test_the_ttgir_is_asked_where_the_ptx_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fake_triton.compiled(PTX, TTGIR.read_text(encoding="utf-8"), name="wgmma_ring")
    fake_triton.install(monkeypatch, lambda *_, **__: kernel)
    (report,) = tw_triton.check(fake_triton.Kernel(["x"]), signature={"x": "*fp32"}).kernels
    assert report.verdict == "unknown" and report.beside is not None
    assert (report.beside.path, report.beside.kernel.verdict) == ("<wgmma_ring.ttgir>", "proven")


def test_kernels_that_are_compiled_inside_have_their_ttgir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_triton.install(monkeypatch, lambda *_, **__: None)
    knobs = ModuleType("triton.knobs")
    knobs.compilation = SimpleNamespace(listener=None)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton.knobs", knobs)
    files = {"wgmma_ring.ptx": PTX, "wgmma_ring.ttgir": TTGIR.read_text(encoding="utf-8"), "wgmma_ring.json": "{}"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    group = {name: str(tmp_path / name) for name in files}
    with tw_triton.checking() as found:
        knobs.compilation.listener(metadata={"name": "wgmma_ring"}, metadata_group=group)  # type: ignore[attr-defined]
    (kernel,) = found.reports[0].kernels
    assert kernel.verdict == "unknown" and kernel.beside is not None and kernel.beside.kernel.verdict == "proven"


def test_a_repair_is_said_in_gluons_words() -> None:
    triton = pytest.importorskip("triton")
    if not hasattr(importlib.import_module("triton.experimental.gluon.language.nvidia.hopper").tma, "async_load"):
        pytest.skip(f"Triton {triton.__version__} calls its loads otherwise")
    from tests.integrations.gluon_kernels import load_half_expected

    layout = "NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)"
    (kernel,) = tw_triton.check(
        load_half_expected,
        signature={"d": f"tensordesc<fp32[64, 64],{layout}>", "out": "*fp32"},
        constexprs={"N": 64},
        arguments={"d": (64, 64), "out": (64, 64)},
        repair=True,
    ).kernels
    assert kernel.verdict == "refuted"
    repair = kernel.errors[0].repair
    assert repair is not None and repair.rechecked
    (edit,) = repair.in_source
    assert "mbarrier.expect(full" in edit.place.text and edit.words.endswith(
        "in Gluon: mbarrier.expect(barrier, 16384)"
    )
