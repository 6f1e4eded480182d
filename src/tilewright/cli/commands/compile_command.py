"""`tilewright compile FILE.py:KERNEL`: a bundle, and on request the text of every stage on the way."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError
from tilewright.cli.terminal.repeated_option import Joined

if TYPE_CHECKING:
    from tilewright.driver.compile.compile import Compilation
    from tilewright.ir.decisions import Decisions

_SUFFIXES = {
    "tile": "tile.mlir", "ac": "ac.mlir", "nvgpu": "nvgpu.mlir", "ptx": "ptx", "cubin": "cubin", "plan": "plan.json",
}  # fmt: skip
"""Of a stage's file beside the bundle."""

STAGES = tuple(_SUFFIXES)

EXAMPLES = """examples:
  tilewright compile gemm.py:matmul --shape M=4096,N=4096,K=4096 -o gemm.twb
  tilewright compile gemm.py:matmul --shape M=512,N=512,K=512 --dtype a=bf16,b=bf16,c=f32 --emit ac,ptx
  tilewright compile gemm.py:matmul --shape M=4096,N=4096,K=4096 --tile 128x128 --stages 3 --format json
  tilewright compile gemm.py:matmul --shape M=1..8192,N=4096,K=4096
  tilewright compile gemm.py:matmul --shape M=700,N=4096,K=4096 --tune

Stages read again: `tilewright check KERNEL.ac.mlir` proves what --emit ac writes, as it is or after an edit, and
`tilewright lower KERNEL.ac.mlir -o KERNEL.ptx` lowers it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="FILE.py:KERNEL", help="a kernel declared with @tw.kernel")
    parser.add_argument("--target", default="sm_90a", help="architecture (default: sm_90a)")
    parser.add_argument(
        "--shape",
        action=Joined,
        default="",
        metavar="M=4096,...",
        help="extent of every axis; M=1..8192 is a range of them",
    )
    parser.add_argument(
        "--dtype",
        action=Joined,
        default="bf16",
        metavar="DTYPE",
        help="bf16 (the default), f16, f32, f8e4m3, f8e5m2 or i8; or by parameter, as in a=bf16,c=f32",
    )
    parser.add_argument("-o", "--output", metavar="FILE.twb", help="bundle to write (default: KERNEL.twb)")
    parser.add_argument(
        "--emit",
        default="",
        metavar="STAGES",
        help=f"also write these stages beside the bundle, comma-separated: {', '.join(STAGES)}; for nvgpu nothing is "
        "chosen that upstream's dialects cannot say",
    )
    parser.add_argument("--tile", default="", metavar="128x256", help="fix the tile instead of choosing it")
    parser.add_argument("--stages", type=int, metavar="N", help="fix the number of pipeline stages")
    parser.add_argument(
        "--stream-k",
        action=argparse.BooleanOptionalAction,
        help="let idle CTAs help with the tiles left over after whole waves, or never (default: where it pays)",
    )
    parser.add_argument(
        "--asserts",
        action="store_true",
        help="assert at run time what the kernel does to tensor memory, as a debug build",
    )
    parser.add_argument(
        "--schedule",
        choices=("heuristic", "optimal"),
        default="heuristic",
        help="how loops are scheduled (default: heuristic)",
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="time the most promising tiles on this machine's GPU and take the quickest, which is kept in the cache",
    )


def run(arguments: argparse.Namespace) -> int:
    from tilewright.cli.source import load_kernel, parse_dtypes, parse_ranged_shape, parse_tile
    from tilewright.cli.terminal.files import require_writable, write_files
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.runtime.bundle import to_bytes
    from tilewright.synth.decide import Wanted

    stages = parse_stages(arguments.emit)
    if arguments.tune:
        _require_free(arguments)
    wanted = Wanted(
        parse_tile(arguments.tile), arguments.stages, schedule=arguments.schedule, stream_k=arguments.stream_k,
        asserts=arguments.asserts,
    )  # fmt: skip
    dims, dtype = parse_ranged_shape(arguments.shape), parse_dtypes(arguments.dtype)
    kernel = load_kernel(arguments.program)
    bundle_path = Path(f"{kernel.name}.twb" if arguments.output is None else arguments.output)
    if bundle_path.suffix != ".twb":
        # Stages are named after the bundle, and nothing that is no bundle should be written over.
        raise TilewrightError(f"--output {bundle_path} does not end in .twb", remedy="name the bundle FILE.twb")
    require_writable(
        (bundle_path, *(bundle_path.with_suffix(f".{_SUFFIXES[stage]}") for stage in dict.fromkeys(stages)))
    )
    if "nvgpu" in stages:
        from tilewright.driver.compile.upstream import writable

        wanted, left_out = writable(kernel, wanted, target=arguments.target, dims=dims, dtype=dtype)
        if left_out:
            print(f"compiled without {' and '.join(left_out)}: --emit nvgpu cannot write that", file=sys.stderr)
    with Progress(wanted=arguments.format == "text") as progress:
        if arguments.tune:
            from tilewright.driver.compile.ready import tuned_for

            wanted = tuned_for(kernel, dims, arguments.target, dtype, None, wanted, progress=progress.step)
        compilation = compile_kernel(
            kernel, target=arguments.target, dims=dims, dtype=dtype, wanted=wanted, progress=progress.step
        )
    if not any(_has_tile(part.decisions) for part in compilation.parts):
        options = {"--tile": arguments.tile or None, "--stages": arguments.stages, "--stream-k": arguments.stream_k}
        given = " and ".join(option for option, value in options.items() if value is not None)
        if given:
            raise TilewrightError(
                f"{kernel.name} has no product, of which {given} could say how", remedy="leave it out"
            )
    contents = {bundle_path: to_bytes(compilation.bundle())}
    for suffix, content in emitted(compilation, stages).items():
        contents[bundle_path.with_suffix(f".{suffix}")] = content
    written = write_files(contents)
    if arguments.format == "json":
        print(json.dumps(summary(compilation, written), indent=2))
    else:
        from tilewright.cli.terminal.show import show_compilation

        show_compilation(compilation, written)
    return 0


def _has_tile(decisions: Decisions) -> bool:
    """Whether a kernel multiplies by tiles of rows and columns, out of one ring."""
    from tilewright.ir.cascade import CascadeDecisions

    return isinstance(decisions, CascadeDecisions) and any(slot.joined for slot in decisions.slots)


def _require_free(arguments: argparse.Namespace) -> None:
    """Raises TilewrightError where an option fixes what --tune is to find."""
    given = {"--tile": arguments.tile, "--stages": arguments.stages, "--stream-k": arguments.stream_k}
    fixed = [option for option, value in given.items() if value not in (None, "")]
    if fixed:
        raise TilewrightError(f"--tune chooses what {' and '.join(fixed)} would fix", remedy="leave one of them out")


def parse_stages(text: str) -> list[str]:
    """`ac,ptx` as stages. Raises TilewrightError, naming the nearest, for one that does not exist."""
    from difflib import get_close_matches

    stages = [stage.strip() for stage in text.split(",") if stage.strip()]
    for stage in stages:
        if stage not in STAGES:
            near = get_close_matches(stage, STAGES, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"choose from {', '.join(STAGES)}"
            raise TilewrightError(f"unknown stage {stage!r} in --emit", remedy=remedy)
    return stages


def emitted(compilation: Compilation, stages: list[str]) -> dict[str, bytes]:
    """Contents by file suffix."""
    from tilewright.base.plan_json import plan_to_json
    from tilewright.ir.ac.text import ac_text

    def nvgpu() -> bytes:
        from tilewright.lower.mlir.ac_to_nvgpu import lower_to_nvgpu

        return lower_to_nvgpu(list(compilation.modules.values()), compilation.target).encode()

    def cubin() -> bytes:
        if compilation.assembly is None:
            raise TilewrightError(
                f"no cubin comes of {compilation.name}, which launches nothing", remedy="leave it out of --emit"
            )
        return compilation.assembly.cubin

    makers: Mapping[str, Callable[[], bytes]] = {
        "tile": lambda: (str(compilation.tile) + "\n").encode(),
        "ac": lambda: ac_text(compilation.modules.values(), compilation.target).encode(),
        "nvgpu": nvgpu,
        "ptx": compilation.ptx.encode,
        "cubin": cubin,
        "plan": lambda: (json.dumps(plan_to_json(compilation.plan), indent=2) + "\n").encode(),
    }
    return {_SUFFIXES[stage]: makers[stage]() for stage in stages}


def summary(compilation: Compilation, written: list[str]) -> dict[str, object]:
    """What `--format json` prints."""
    from tilewright.report.findings.findings_json import verdict_to_json

    bundle = compilation.bundle()
    text_proof, assembly = compilation.text_proof, compilation.assembly
    return {
        "name": compilation.name,
        "target": compilation.target,
        "decisions": dict(bundle.decisions),
        "proof": verdict_to_json(compilation.proof),
        "text_proof": verdict_to_json(text_proof) if text_proof is not None else None,
        "ptx_bytes": len(compilation.ptx.encode()),
        "cubin_bytes": len(assembly.cubin) if assembly is not None else None,
        "registers": assembly.registers if assembly is not None else None,
        "spill_bytes": assembly.spill_bytes if assembly is not None else None,
        "warnings": list(assembly.warnings) if assembly is not None else [],
        "seconds": dict(compilation.seconds),
        "written": written,
    }
