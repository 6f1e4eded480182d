"""Upstream's own tools, where they are installed: what verifies our text of its dialects, and compiles it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PASSES = (
    "convert-vector-to-scf,convert-nvgpu-to-nvvm,convert-scf-to-cf,"
    "gpu.module(convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=1}),convert-vector-to-llvm,convert-math-to-llvm,"
    "convert-nvvm-to-llvm,expand-strided-metadata,finalize-memref-to-llvm,convert-cf-to-llvm,convert-index-to-llvm,"
    "convert-arith-to-llvm,canonicalize,reconcile-unrealized-casts"
)


def upstream_tool(name):
    """Path of an upstream tool, or None. Others stand beside `mlir-opt`, under its version."""
    given = os.environ.get("TILEWRIGHT_MLIR_OPT")
    found = given or shutil.which("mlir-opt-22") or shutil.which("mlir-opt")
    if found is None:
        return None
    beside = Path(found).with_name(Path(found).name.replace("mlir-opt", name))
    return str(beside) if beside.exists() else None


needs_mlir = pytest.mark.skipif(
    upstream_tool("mlir-opt") is None, reason="no mlir-opt on the path and none in TILEWRIGHT_MLIR_OPT"
)
needs_llc = pytest.mark.skipif(
    any(upstream_tool(name) is None for name in ("mlir-opt", "mlir-translate", "llc")),
    reason="mlir-opt, mlir-translate and llc are not all installed",
)


def upstream(name, text, *options):
    done = subprocess.run([upstream_tool(name), *options, "-"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    return done.stdout


def compiled_by_upstream(text, chip="sm_90a", features="+ptx80"):
    """PTX from upstream's passes and LLVM's back end.

    What the dialects cannot say is added between them: tensor maps are by-value grid constants, and dynamic shared
    memory is external and begins at a multiple of 1024.
    """
    lowered = upstream("mlir-opt", text, f"--pass-pipeline=builtin.module({PASSES})")
    body = lowered[lowered.index("{", lowered.index("gpu.module")) + 1 : lowered.rindex("}", 0, lowered.rindex("}"))]
    constant = "{llvm.byval = !llvm.array<16 x i64>, llvm.align = 64 : i64, nvvm.grid_constant}"
    body = body.replace("{llvm.align = 64 : i64}", constant)
    bitcode = upstream("mlir-translate", f"module {{{body}}}", "--mlir-to-llvmir")
    options = ("-O2", "-mtriple=nvptx64-nvidia-cuda", f"-mcpu={chip}", f"-mattr={features}", "-o", "-")
    ptx = upstream("llc", bitcode, *options)
    ptx = re.sub(r"\t\.shared \.align 16 \.b8 __dynamic_shmem__\d+;\n", "", ptx)
    return re.sub(r"// (__dynamic_shmem__\d+) has been demoted", r".extern .shared .align 1024 .b8 \1[];", ptx)
