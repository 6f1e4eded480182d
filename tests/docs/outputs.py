"""The real outputs that blocks marked `from=NAME` are held against, each made once.

Those of the compiler are of the library's bf16 matrix product at 4096 cubed with tiles of 128x256, as `tilewright
compile --tile 128x256` makes it; those of the checker of kernels of docs/bugs and examples.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.core_environment import linked_packages, run_alone
from tests.docs.pages import ROOT

from tilewright.base.plan_json import plan_to_json
from tilewright.base.verdict import Refuted, Verdict
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.listing import listing
from tilewright.driver.views.demo import VARIANTS, Broken, Specimen, break_it
from tilewright.lower.mlir.ac_to_nvgpu import lower_to_nvgpu
from tilewright.report.text import render_findings
from tilewright.synth.tile.wanted import Wanted

EXTENT = 4096


def refutation(verdict: Verdict) -> str:
    """The first finding of a refuted program or text."""
    assert isinstance(verdict, Refuted)
    return "refuted\n" + render_findings(verdict.findings, limit=1)


@cache
def compilation() -> Compilation:
    return compile_kernel(matmul_kernel, dims=dict.fromkeys("MNK", EXTENT), wanted=Wanted(tile=(128, 256)))


@cache
def broken() -> tuple[Broken, ...]:
    specimen = Specimen.of(compilation())
    return tuple(break_it(specimen, variant, lambda _: None) for variant in VARIANTS)


def command(*arguments: str, code: int = 0, columns: int = 160) -> str:
    """What `tilewright ARGUMENTS` prints on a wide terminal without colours, ending with an exit code."""
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", *arguments],
        capture_output=True, text=True, env=environment, cwd=ROOT, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout


def _demo() -> str:
    with TemporaryDirectory() as folder:
        return command("demo", "--report", str(Path(folder, "demo.html")))


def _checked(path: str, *arguments: str, code: int = 0) -> Callable[[], str]:
    return lambda: command("check", path, *arguments, code=code)


def _bug(name: str, *arguments: str, kind: str = "buggy", code: int = 1) -> Callable[[], str]:
    return _checked(f"docs/bugs/{name}/{kind}.ptx", *arguments, code=code)


_PACKED_ROWS = ("--dtype", "bf16", "--dims", "100,4096", "--strides", "200", "--box", "64,128", "--swizzle", "128B")
_FULL_ROWS = ("--dtype", "bf16", "--dims", "4096,100", "--strides", "8192", "--box", "64,100", "--swizzle", "128B")


_FRAGMENT = ("--mma", "mma.m16n8k16.bf16", "--operand", "A")
_FP8 = "wgmma.m64n32k32"
_ACCUMULATORS = ("--mma", _FP8, "--operand", "C", "--exchange", f"{_FP8}:A", "--element-bytes", "1")
_TRANSPOSE = ("--layout", "(32,32):(32,1)", "--access", "st.shared.b32:rows", "--access", "ld.shared.b32:columns")


def _judged_map(*arguments: str, code: int = 0) -> Callable[[], str]:
    return lambda: command("tensormap", *arguments, code=code)


def _proof() -> str:
    proofs = (compilation().proof, compilation().text_proof)
    return "\n".join(line for proof in proofs if proof is not None for line in (proof.scope, *proof.claims))


def _alone(*arguments: str) -> str:
    """What a command prints, on both streams, where the core is installed without extras."""
    with TemporaryDirectory() as folder:
        done = run_alone(linked_packages(Path(folder)), *arguments)
        return done.stdout + done.stderr


def _plan() -> str:
    """The plan as JSON, lists of plain values on one line."""
    text = json.dumps(plan_to_json(compilation().plan), indent=2)
    return _LIST.sub(lambda found: f"[{' '.join(found[1].split())}]", text)


_LIST = re.compile(r"\[([^][{}]*)\]")

OUTPUTS: dict[str, Callable[[], str]] = {
    "demo": _demo,
    "tile": lambda: str(compilation().tile),
    "ac": lambda: "".join(listing(module, "matmul.ac.mlir")[0] for module in compilation().modules.values()),
    "ptx": lambda: compilation().ptx,
    "nvgpu": lambda: lower_to_nvgpu(list(compilation().modules.values())),
    "plan": _plan,
    "reasons": lambda: "\n".join(compilation().decisions.reasons),
    "proof": _proof,
    "fence-dropped-program": lambda: refutation(broken()[0].program.verdict),
    "fence-dropped-text": lambda: refutation(broken()[0].ptx.verdict),
    "bytes-halved-program": lambda: refutation(broken()[1].program.verdict),
    "bytes-halved-text": lambda: refutation(broken()[1].ptx.verdict),
    "ac-product": lambda: (ROOT / "examples/product.ac.mlir").read_text("utf-8"),
    "check-product": _checked("examples/product.ac.mlir"),
    "check-ring": _checked("examples/ring.ptx"),
    "check-ring-launch": _checked("examples/ring.ptx", "--launch", "examples/ring.launch.json"),
    "check-without-solver": lambda: _alone("check", "docs/bugs/zero-trips-are-waited-for/buggy.ptx"),
    "schedule-without-solver": lambda: _alone(
        "schedule", "examples/matmul.py:matmul", "--shape", "M=512,N=512,K=512", "--optimal"
    ),
    "check-race": _bug("store-without-a-proxy-fence"),
    "check-race-fixed": _bug("store-without-a-proxy-fence", kind="fixed", code=0),
    "check-race-diff": _bug("store-without-a-proxy-fence", "--diff"),
    "check-quiet": _bug("store-without-a-proxy-fence", "--quiet"),
    "check-allowed": _bug("store-without-a-proxy-fence", "--allow", "PX101=no engine reads these bytes", code=0),
    "check-hang": _bug("expected-bytes-are-clamped"),
    "check-json": _bug("expected-bytes-are-clamped", "--format", "json"),
    "check-github": _bug("expected-bytes-are-clamped", "--format", "github"),
    "check-numbers": _bug("zero-trips-are-waited-for", code=0),
    "check-tolerant": _bug("refill-after-ordinary-reads", code=0),
    "check-strict": _bug("refill-after-ordinary-reads", "--isa", "strict"),
    "explain-rule": lambda: command("explain", "TX104"),
    "explain-race": lambda: command("explain", "PX101"),
    "explain-point": lambda: command("explain", "fence_before_refill"),
    "reduce": lambda: command("reduce", "docs/bugs/store-without-a-proxy-fence/buggy.ptx", "--code", "PX101"),
    "tensormap-illegal": _judged_map(*_PACKED_ROWS, code=1),
    "tensormap-plan": _judged_map(*_PACKED_ROWS, "--synthesize"),
    "tensormap-copy": _judged_map(*_FULL_ROWS, "--coords", "3,0", "--shared-address", "64", code=1),
    "tensormap-narrow": _judged_map(*_FULL_ROWS[:6], "--box", "16,100", "--swizzle", "128B"),
    "tensormap-conflict": _judged_map(*_FULL_ROWS[:6], "--box", "128,512", "--swizzle", "128B", code=1),
    "tensormap-symbolic": _judged_map(
        "--dtype",
        "bf16",
        "--dims",
        "K,M",
        "--strides",
        "2*K",
        "--box",
        "64,128",
        "--where",
        "1 <= K <= 65536, 1 <= M <= 65536",
        code=3,
    ),
    "layout-compose": lambda: command("layout", "(8,16):(16,1)", "--compose", "(4,32):(32,1)"),
    "layout-refused": lambda: command("layout", "(4,4):(1,8)", "--inverse", code=1),
    "layout-equal": lambda: command("layout", "equal", "(8,(4,N)):(1,(8,32))", "(32,N):(1,32)"),
    "layout-different": lambda: command("layout", "equal", "(4,N):(N,1)", "(4,N):(1,4)", code=1),
    "layout-where": lambda: command("layout", "equal", "(8,N//8):(1,8)", "N:1", "--where", "N > 0, N % 8 == 0"),
    "layout-linear": lambda: command("layout", "Sw<2,1,3> o 0 o (8,8):(8,1)", "--convert", "linear"),
    "layout-fragment": lambda: command("layout", *_FRAGMENT, "--show"),
    "layout-fragment-cute": lambda: command("layout", *_FRAGMENT, "--convert", "cute"),
    "layout-swizzled": lambda: command("layout", "(8,8):(8,1)", "--swizzle", "3,0,3", "--show"),
    "layout-exchange": lambda: command("layout", *_ACCUMULATORS),
    "banks-tile": lambda: command("banks", *_TRANSPOSE, code=1),
    "banks-plan": lambda: command("banks", *_TRANSPOSE, "--synthesize"),
    "banks-engine": lambda: command(
        "banks",
        "--layout",
        "(64,128):(128,1)",
        "--element-bytes",
        "2",
        "--access",
        "ldmatrix.x4",
        "--engine",
        "tma",
        "--synthesize",
    ),
    "banks-picture": lambda: command(
        "banks", "--layout", "(8,4):(32,1)", "--access", "st.shared.b32:lanes", "--show", code=1
    ),
    "banks-kernel": lambda: command(
        "banks", "examples/transpose.ptx", "--launch", "examples/transpose.launch.json", code=1
    ),
    "schedule": lambda: command(
        "schedule",
        "examples/matmul.py:matmul",
        "--shape",
        "M=4096,N=4096,K=4096",
        "--tile",
        "128x256",
        "--stages",
        "4",
        columns=120,
    ),
    "run-ring": lambda: command("run", "examples/ring.ptx", "--launch", "examples/ring.launch.json"),
}


@cache
def output(name: str) -> tuple[str, ...]:
    """The lines of a real output, in the form that blocks are compared in."""
    return tuple(normal_lines(OUTPUTS[name]()))


_PATH = re.compile(r'"(?:[^"\n]*/)?([^"/\n]+\.py):\d+"')
_INTEGER = re.compile(r"#builtin\.int<(-?\d+)>")
_NAME = re.compile(r"(%[a-z]*)\d+")
_LINE = re.compile(r"\bline \d+:")
_LABEL = re.compile(r"\b([a-z_]+)_\d+\b")
_PLACE = re.compile(r"(\.(?:mlir|ptx)):\d+:\d+")
_MARGIN = re.compile(r"^ *\d+ \|")
_UNDERLINE = re.compile(r"(\^|-)\1{2,}")
_SECONDS = re.compile(r"\b\d+\.\d+ s\b")


def normal_lines(text: str) -> Iterator[str]:
    """Lines without what may change while the meaning stays: widths of spaces, folders, numbers of lines, registers,
    values and labels, times. Integers of the IR stand as plain numbers."""
    for line in text.splitlines():
        line = _INTEGER.sub(r"\1", _PATH.sub(r'"\1"', line))
        line = _SECONDS.sub("s", _LABEL.sub(r"\1", _NAME.sub(r"\1", line)))
        line = _UNDERLINE.sub(r"\1", _MARGIN.sub("|", _PLACE.sub(r"\1", _LINE.sub("line:", line))))
        line = " ".join(line.split())
        if line:
            yield line


def first_missing(block: str, lines: tuple[str, ...]) -> str:
    """The first line of a block that does not stand in the real output where the block says; "" if all do.

    The lines of a block follow each other in the output. A line `...` stands for any lines; a line that ends in ` ...`
    for any line that begins so.
    """
    pieces: list[list[str]] = [[]]
    for wanted in normal_lines(block):
        if wanted == "...":
            pieces.append([])
        else:
            pieces[-1].append(wanted)
    position = 0
    for piece in pieces:
        starts = range(position, len(lines) - len(piece) + 1)
        agreements = {start: _agreement(piece, lines[start:]) for start in starts}
        found = next((start for start, agreed in agreements.items() if agreed == len(piece)), None)
        if found is None:
            return piece[max(agreements.values(), default=0)]
        position = found + len(piece)
    return ""


def _agreement(piece: list[str], lines: tuple[str, ...]) -> int:
    """How many lines of a piece agree with the output's, from the first on."""
    for number, (wanted, found) in enumerate(zip(piece, lines, strict=False)):
        prefix = wanted.removesuffix(" ...")
        if found != wanted and (prefix == wanted or not found.startswith(prefix)):
            return number
    return min(len(piece), len(lines))
