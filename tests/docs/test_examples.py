"""Are the kernels of examples/ what their pages say: proven for all trip counts, and right when they run?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16
from tests.docs.pages import ROOT, text_of

from tilewright.base.verdict import Proven
from tilewright.cli.main import main
from tilewright.cli.source import load_kernel, load_kernel_or
from tilewright.contract.schedule.schedule_check import check_schedule
from tilewright.driver.check.check import check_file, check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.driver.views.bank_report import bank_report_of_ptx
from tilewright.ir.loop_body import LoopBody
from tilewright.synth.schedule.role_assignment import schedule_body
from tilewright.targets import target

EXAMPLES = ROOT / "examples"
RING = EXAMPLES / "ring.ptx"
LAUNCH = EXAMPLES / "ring.launch.json"
TRANSPOSE = EXAMPLES / "transpose.ptx"
TRANSPOSE_LAUNCH = EXAMPLES / "transpose.launch.json"
PRODUCT = EXAMPLES / "product.ac.mlir"
PRODUCT_LAUNCH = EXAMPLES / "product.launch.json"
ATTENTION = EXAMPLES / "attention.ac.mlir"
ATTENTION_LAUNCH = EXAMPLES / "attention.launch.json"


def test_every_example_is_tested() -> None:
    kernels = {"ring.ptx", "ring.launch.json", "transpose.ptx", "transpose.launch.json"}
    kernels |= {"product.ac.mlir", "product.launch.json", "attention.ac.mlir", "attention.launch.json"}
    programs = {"linear.py", "matmul.py", "attention.py", "rows.py", "fused.py"}
    models = {"transformer.py"}  # tests/integrations/test_torch_layers.py and tests/gpu/test_attention_gpu.py
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == {*kernels, *programs, *models, "README.md"}


@pytest.mark.parametrize(("name", "page"), [("linear", "README.md"), ("matmul", "docs/life-of-a-kernel.md")])
def test_programs_are_those_that_pages_show(name: str, page: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text("utf-8")
    assert text[text.index("@tw.kernel") :] in text_of(page)
    kernel = load_kernel(str(EXAMPLES / f"{name}.py") + f":{name}")
    dims = {"M": 96, "N": 200, "K": 136}
    assert compile_kernel(kernel, dims=dims, rerun=False, assembled=False).proof.scope == "all trip counts"


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "rms_norm", "layer_norm", "quantize"])
def test_programs_that_fold_rows_are_proven_twice(name: str) -> None:
    kernel = load_kernel(str(EXAMPLES / "rows.py") + f":{name}")
    made = compile_kernel(kernel, dims={"M": 9, "N": 300}, assembled=False)
    assert made.proof.scope == "all trip counts" and isinstance(made.text_proof, Proven)


def test_attention_is_scheduled() -> None:
    body = load_kernel_or(str(EXAMPLES / "attention.py") + ":attention", LoopBody)
    assert isinstance(body, LoopBody)
    graph, schedule = schedule_body(body, target("sm_90a"), "heuristic", "ping-pong")
    assert schedule.interval_cycles == 2048 and isinstance(check_schedule(graph, schedule), Proven)


@pytest.mark.parametrize("isa", ["tolerant", "strict"])
def test_ring_is_proven_for_all_trip_counts(isa: str) -> None:
    """The producer's loop is one lane's: the registers of the 31 that left stand still."""
    (kernel,) = check_file(str(RING), options=CheckOptions(isa)).kernels
    assert (kernel.verdict, kernel.scope) == ("proven", "all trip counts")
    repeated = [line.rpartition(" every ")[2] for line in kernel.claims if "repeats itself" in line]
    assert repeated == ["6 iterations", "6 iterations"]
    assert "15 of 15 instructions of the protocol" in kernel.claims[-1]


def test_ring_is_proven_for_its_launch() -> None:
    (kernel,) = check_file(str(RING), launch=read_launch_file(str(LAUNCH))).kernels
    assert (kernel.verdict, kernel.scope, kernel.findings) == ("proven", "this launch", ())


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("mbarrier.init.shared::cta.b64 [%r5+8], 32;", "mbarrier.init.shared::cta.b64 [%r5+8], 1;", "MB"),
        ("xor.b32 %r14, %r8, 1;", "mov.b32 %r14, %r8;", "MB"),
        ("_, [%r10], 1024;", "_, [%r10], 512;", "TX"),
        ("add.u32 %r13, %r13, %r22;", "add.u32 %r13, %r3, %r22;", "TM"),  # always the first slot
    ],
)
def test_edits_of_ring_are_refuted(old: str, new: str, code: str) -> None:
    text = RING.read_text("utf-8")
    assert text.count(old) == 1
    (kernel,) = check_text(text.replace(old, new), launch=read_launch_file(str(LAUNCH))).kernels
    assert kernel.verdict == "refuted" and kernel.errors[0].code.startswith(code), kernel.errors


def test_ring_adds_up(tmp_path: Path) -> None:
    tiles = np.arange(80 * 32, dtype=np.uint32).reshape(80, 32)
    np.savez(tmp_path / "in.npz", tiles=tiles)
    arguments = ["--launch", str(LAUNCH), "--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    assert main(["run", str(RING), *arguments]) == 0
    sums = np.load(tmp_path / "out.npz")["sums"].view(np.uint32)
    assert (sums == tiles[::8].sum(axis=0)).all()  # a lane reads its column of a tile's first row


def mended_transpose() -> str:
    """The transpose with the swizzle that docs/how-to/lay-out-a-tile.md finds: word ^ row."""
    text = TRANSPOSE.read_text("utf-8")
    for old, new in (
        ("st.shared.u32 [%r2], %r5;", "shl.b32 %r6, %r4, 2; xor.b32 %r6, %r6, %r2; st.shared.u32 [%r6], %r5;"),
        ("ld.shared.u32 %r5, [%r3];", "shl.b32 %r6, %r0, 2; xor.b32 %r6, %r6, %r3; ld.shared.u32 %r5, [%r6];"),
        (".align 128", ".align 4096"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("mended", [False, True])
def test_transpose_is_proven_and_transposes(tmp_path: Path, mended: bool) -> None:
    text = mended_transpose() if mended else TRANSPOSE.read_text("utf-8")
    (kernel,) = check_text(text).kernels
    assert (kernel.verdict, kernel.scope) == ("proven", "all trip counts")
    launch = read_launch_file(str(TRANSPOSE_LAUNCH))
    report = bank_report_of_ptx(text, "transpose.ptx", launch)
    assert (report.wavefronts, report.ideal) == (64 if mended else 1056, 64)
    (tmp_path / "kernel.ptx").write_text(text, "utf-8")
    source = np.arange(1024, dtype=np.uint32).reshape(32, 32)
    np.savez(tmp_path / "in.npz", source=source)
    arguments = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    assert main(["run", str(tmp_path / "kernel.ptx"), "--launch", str(TRANSPOSE_LAUNCH), *arguments]) == 0
    found = np.load(tmp_path / "out.npz")["destination"].view(np.uint32).reshape(32, 32)
    assert (found == source.T).all()


def test_product_is_proven_lowered_and_right(tmp_path: Path) -> None:
    (kernel,) = check_file(str(PRODUCT)).kernels
    assert (kernel.verdict, kernel.scope) == ("proven", "all trip counts")
    text = tmp_path / "product.ptx"
    assert main(["lower", str(PRODUCT), "-o", str(text)]) == 0
    (again,) = check_file(str(text), launch=read_launch_file(str(PRODUCT_LAUNCH))).kernels
    assert (again.verdict, again.scope) == ("proven", "this launch")
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal((rows, 256)).astype(bfloat16) for rows in (256, 512))
    np.savez(tmp_path / "in.npz", a=a.view(np.uint16), b=b.view(np.uint16))
    arguments = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz"), "--on", "cpu"]
    assert main(["run", str(text), "--launch", str(PRODUCT_LAUNCH), *arguments]) == 0
    c = np.load(tmp_path / "out.npz")["c"].view(bfloat16).reshape(256, 512).astype(np.float64)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.all(np.abs(c - exact) <= 2.0**-8 * np.abs(exact) + 1e-4)


def test_attention_in_ac_is_proven_lowered_and_right(tmp_path: Path) -> None:
    (kernel,) = check_file(str(ATTENTION)).kernels
    assert (kernel.verdict, kernel.scope) == ("proven", "all trip counts")
    text = tmp_path / "attention.ptx"
    assert main(["lower", str(ATTENTION), "-o", str(text)]) == 0
    (again,) = check_file(str(text), launch=read_launch_file(str(ATTENTION_LAUNCH))).kernels
    assert (again.verdict, again.scope) == ("proven", "this launch")
    generator = np.random.default_rng(0)
    q, k, v = (2 * generator.standard_normal((512, 64)).astype(bfloat16) for _ in range(3))
    # A row whose largest score comes last, and one of scores so far apart that all weights but one vanish.
    k[511], q[7] = q[5], 30 * q[7]
    np.savez(tmp_path / "in.npz", q=q.view(np.uint16), k=k.view(np.uint16), v=v.view(np.uint16))
    arguments = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz"), "--on", "cpu"]
    assert main(["run", str(text), "--launch", str(ATTENTION_LAUNCH), *arguments]) == 0
    found = np.load(tmp_path / "out.npz")
    o, logarithms = found["o"].view(bfloat16).reshape(512, 64).astype(np.float64), found["l"].view(np.float32)
    scores = q.astype(np.float64) @ k.astype(np.float64).T / 8
    most = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - most)
    sums = weights.sum(axis=1, keepdims=True)
    # Weights and results are rounded to 8 bits: half a unit in the last place of each.
    bound = 2.0**-8 * ((weights / sums) @ np.abs(v.astype(np.float64))) + 1e-4
    exact = (weights / sums) @ v.astype(np.float64)
    assert np.all(np.abs(o - exact) <= bound + 2.0**-8 * np.abs(exact))
    np.testing.assert_allclose(logarithms, (most + np.log(sums))[:, 0], rtol=2e-6, atol=2e-5)
