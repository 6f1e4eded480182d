"""`tilewright compile FILE.py:KERNEL`: a bundle, and on request the text of every stage on the way."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tilewright.base.error import TilewrightError
from tilewright.cli.source import load_kernel, parse_dtypes, parse_shape, parse_tile

STAGES = ("tile", "ac", "nvgpu", "ptx", "cubin", "plan")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="FILE.py:KERNEL", help="a kernel declared with @tw.kernel")
    parser.add_argument("--target", default="sm_90a", help="architecture (default: sm_90a)")
    parser.add_argument("--shape", default="", metavar="M=4096,...", help="extent of every axis")
    parser.add_argument(
        "--dtype", default="bf16", metavar="DTYPE", help="bf16, f16 or f32; or by parameter, as in a=bf16,c=f32"
    )
    parser.add_argument("-o", "--output", metavar="FILE.twb", help="bundle to write (default: KERNEL.twb)")
    parser.add_argument(
        "--emit",
        default="",
        metavar="STAGES",
        help=f"also write these stages beside the bundle, comma-separated: {', '.join(STAGES)}",
    )
    parser.add_argument("--tile", default="", metavar="128x256", help="fix the tile instead of choosing it")
    parser.add_argument("--stages", type=int, help="fix the number of pipeline stages")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to report (default: text)")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.driver.compile import compile_kernel
    from tilewright.runtime.bundle import save
    from tilewright.synth.decide import Wanted

    wanted_stages = [stage for stage in arguments.emit.split(",") if stage]
    for stage in wanted_stages:
        if stage not in STAGES:
            raise TilewrightError(f"unknown stage {stage!r} in --emit", remedy=f"choose from {', '.join(STAGES)}")
    kernel = load_kernel(arguments.program)
    compilation = compile_kernel(
        kernel,
        target=arguments.target,
        dims=parse_shape(arguments.shape),
        dtype=parse_dtypes(arguments.dtype),
        wanted=Wanted(parse_tile(arguments.tile), arguments.stages),
        progress=_progress if arguments.format == "text" else None,
    )
    bundle_path = Path(arguments.output or f"{kernel.name}.twb")
    texts = emitted(compilation, wanted_stages)
    save(compilation.bundle(), bundle_path)
    written = [str(bundle_path)]
    for suffix, content in texts.items():
        path = bundle_path.with_suffix(f".{suffix}")
        path.write_bytes(content)
        written.append(str(path))
    if arguments.format == "json":
        print(json.dumps(summary(compilation, written), indent=2))
    else:
        from tilewright.cli.show import show_compilation

        show_compilation(compilation, written)
    return 0


def _progress(step: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{step} ...", end="", file=sys.stderr, flush=True)


def emitted(compilation: object, stages: list[str]) -> dict[str, bytes]:
    """Contents by file suffix, all made before anything is written."""
    from tilewright.base.plan_json import plan_to_json
    from tilewright.driver.compile import Compilation
    from tilewright.lower.ac_to_nvgpu import lower_to_nvgpu

    assert isinstance(compilation, Compilation)

    def cubin() -> bytes:
        assert compilation.assembly is not None
        return compilation.assembly.cubin

    makers: Mapping[str, tuple[str, Callable[[], bytes]]] = {
        "tile": ("tile.mlir", lambda: f"{compilation.tile}\n".encode()),
        "ac": ("ac.mlir", lambda: "".join(f"{module}\n" for module in compilation.modules.values()).encode()),
        "nvgpu": ("nvgpu.mlir", lambda: lower_to_nvgpu(list(compilation.modules.values())).encode()),
        "ptx": ("ptx", compilation.ptx.encode),
        "cubin": ("cubin", cubin),
        "plan": ("plan.json", lambda: (json.dumps(plan_to_json(compilation.plan), indent=2) + "\n").encode()),
    }
    return {makers[stage][0]: makers[stage][1]() for stage in stages}


def summary(compilation: object, written: list[str]) -> dict[str, object]:
    """What `--format json` prints."""
    from tilewright.driver.compile import Compilation

    assert isinstance(compilation, Compilation)
    bundle = compilation.bundle()
    return {
        "name": compilation.name,
        "target": compilation.target,
        "decisions": dict(bundle.decisions),
        "proof": {"verdict": "proven", "scope": compilation.proof.scope, "claims": list(compilation.proof.claims)},
        "text_proof": None
        if compilation.text_proof is None
        else {"verdict": "proven", "scope": compilation.text_proof.scope},
        "ptx_bytes": len(compilation.ptx.encode()),
        "cubin_bytes": len(compilation.assembly.cubin) if compilation.assembly is not None else None,
        "seconds": dict(compilation.seconds),
        "written": written,
    }
