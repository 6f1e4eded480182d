"""`tilewright banks`: how many wavefronts do accesses of shared memory take, and what layout takes fewest?"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from tilewright.base.error import TilewrightError
from tilewright.cli.terminal.option_values import file_name

if TYPE_CHECKING:
    from tilewright.cli.banks.judge import TileJudged
    from tilewright.driver.views.bank_report import BankReport
    from tilewright.legal.bank.placement import Engine
    from tilewright.report.figures.layout_grid import LayoutGrid

FORMATS = ("text", "json", "svg", "html")

EXAMPLES = """examples:
  tilewright banks --layout '(64,64):(64,1)' --element-bytes 2 --access ldmatrix.x4
  tilewright banks --layout '(32,32):(32,1)' --access ld.shared.b32:columns --access st.shared.b32:rows --synthesize
  tilewright banks --layout '(64,64):(64,1)' --element-bytes 2 --access ldmatrix.x4 --engine tma --synthesize
  tilewright banks --layout '(64,32):(32,1)' --element-bytes 2 --access ds_read_b128 --target gfx942
  tilewright banks --layout '32:2' --access ld.shared.b32:lanes --show
  tilewright banks kernel.ptx --launch launch.json
  tilewright banks gemm.twb

An access is KIND[:ORDER[:WEIGHT]]: lanes take the tile's vectors in the layout's order, along rows or along columns;
with :lanes the layout says where each lane's element is. Exit codes: 0 no conflicts, or a placement was asked for; 1
conflicts; 3 some accesses could not be counted; 2 the input is at fault.
"""

_MOST_BYTES = 16
_DRAWN_ROWS = 64
"""Rows of a placement that are drawn, and four times as many columns."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kernel", nargs="?", metavar="FILE", help="count every access of a PTX kernel (- for stdin) or of a bundle"
    )
    tile = parser.add_argument_group("a tile")
    tile.add_argument("--layout", metavar="LAYOUT", help="of the tile in shared memory, in elements")
    tile.add_argument("--access", action="append", default=[], metavar="KIND[:ORDER[:WEIGHT]]", help="who accesses it")
    tile.add_argument("--element-bytes", type=int, default=4, metavar="N", help="bytes of an element (default: 4)")
    tile.add_argument("--target", default="sm_90a", metavar="NAME", help="sm_90a, sm_100a, gfx942 or gfx950")
    tile.add_argument("--sizes", action="append", default=[], metavar="N=4,...", help="values of named sizes")
    tile.add_argument("--synthesize", action="store_true", help="find the placement that takes fewest wavefronts")
    tile.add_argument(
        "--engine", action="append", default=[], metavar="NAME", help="who also accesses it: tma, wgmma, tcgen05"
    )
    tile.add_argument(
        "--show", action="store_true", help="draw which banks the first access asks, and the placement that was found"
    )
    kernel = parser.add_argument_group("a kernel")
    kernel.add_argument("--launch", type=file_name, metavar="FILE", help="how it is launched (docs/launch-file.md)")
    kernel.add_argument("--inputs", type=file_name, metavar="FILE.npz", help="its buffers' bytes (default: zeros)")
    kernel.add_argument("--clusters", type=int, metavar="N", help="run the first N clusters alone")
    kernel.add_argument("--all", action="store_true", help="show the lines without conflicts too")


def run(arguments: argparse.Namespace) -> int:
    if arguments.kernel is not None:
        return _kernel(arguments)
    if arguments.layout is None:
        raise TilewrightError("no layout and no kernel is given", remedy="give --layout and --access, or FILE.ptx")
    if not arguments.access and not arguments.engine:
        raise TilewrightError("nobody accesses the tile", remedy="say who does: --access ldmatrix.x4")
    judged = _judged(arguments)
    match arguments.format:
        case "json":
            from tilewright.cli.banks.json import tile_to_json

            print(json.dumps(tile_to_json(judged), indent=2))
        case "svg":
            from tilewright.report.figures.layout_figure import draw_grid

            print(draw_grid(_drawn(judged), alone=True))
        case "html":
            from tilewright.cli.banks.lines import tile_lines
            from tilewright.cli.layout.page import lines_page

            grids = (_drawn(judged),) if judged.costs else ()
            print(lines_page("Tilewright banks", tuple(tile_lines(judged)), (*grids, *_placed(judged))))
        case _:
            from tilewright.cli.banks.lines import tile_lines
            from tilewright.cli.terminal.printing import say, say_grid, say_lines

            say_lines(tile_lines(judged))
            if arguments.show:
                grids = (_drawn(judged),) if judged.costs or judged.choice is None else ()
                for grid in (*grids, *_placed(judged)):
                    say("")
                    say_grid(grid, rows=_DRAWN_ROWS)
    return judged.exit_code


def _judged(arguments: argparse.Namespace) -> TileJudged:
    from tilewright.cli.banks.judge import asked_of, judge_tile
    from tilewright.cli.layout.input import layout_of, sizes_of
    from tilewright.legal.bank.placement import Engine
    from tilewright.targets import target

    if not 1 <= arguments.element_bytes <= _MOST_BYTES:
        raise TilewrightError(f"--element-bytes {arguments.element_bytes}: no element's size", remedy="give 1 to 16")
    known = get_args(Engine)
    for engine in arguments.engine:
        if engine not in known:
            raise TilewrightError(f"no engine {engine[:60]!r}", remedy=f"one of {', '.join(known)}")
    if arguments.engine and not arguments.synthesize:
        raise TilewrightError("--engine restricts placements", remedy="ask for one with --synthesize")
    layout = layout_of(arguments.layout, sizes_of(arguments.sizes))
    engines = cast("tuple[Engine, ...]", tuple(arguments.engine))
    accesses = [asked_of(text) for text in arguments.access]
    return judge_tile(
        layout, accesses, arguments.element_bytes, target(arguments.target), engines=engines,
        synthesize=arguments.synthesize,
    )  # fmt: skip


def _drawn(judged: TileJudged) -> LayoutGrid:
    from tilewright.driver.views.bank_picture import bank_picture

    if not judged.costs:
        raise TilewrightError("there is no access to draw", remedy="give --access")
    cost = judged.costs[0]
    return bank_picture(cost.asked.kind, cost.first, judged.target)


def _placed(judged: TileJudged) -> tuple[LayoutGrid, ...]:
    """The placement that was found, if that was asked for and is a layout of rows and columns."""
    from tilewright.driver.views.layout_picture import WHOLE, corner, picture
    from tilewright.layout.layout import Layout

    if judged.choice is None:
        return ()
    found = judged.layout_of(judged.choice.best)
    return (picture(found, corner(WHOLE, _DRAWN_ROWS), judged.element_bytes),) if isinstance(found, Layout) else ()


def _kernel(arguments: argparse.Namespace) -> int:
    from tilewright.cli.banks.lines import kernel_lines

    if arguments.layout is not None or arguments.access:
        raise TilewrightError("a kernel and a layout: more than one source", remedy="give one of them")
    if arguments.clusters is not None and arguments.clusters < 1:
        raise TilewrightError(f"--clusters {arguments.clusters}: nothing would run", remedy="give 1 or more")
    reports = _of_bundle(arguments) if Path(arguments.kernel).suffix == ".twb" else (_of_ptx(arguments),)
    lines = [line for report in reports for line in kernel_lines(report, all_lines=arguments.all)]
    match arguments.format:
        case "json":
            from tilewright.cli.banks.json import kernels_to_json

            print(json.dumps(kernels_to_json(reports), indent=2))
        case "html":
            from tilewright.cli.layout.page import lines_page

            print(lines_page("Tilewright banks", lines, ()))
        case "svg":
            raise TilewrightError("--format svg draws one access of a layout", remedy="use text, json or html")
        case _:
            from tilewright.cli.terminal.printing import say_lines

            say_lines(lines)
    if any(report.wavefronts > report.ideal or report.ending is not None for report in reports):
        return 1
    left = any(report.uncounted or report.clusters < report.clusters_of_launch for report in reports)
    return 3 if left else 0


def _of_bundle(arguments: argparse.Namespace) -> tuple[BankReport, ...]:
    from tilewright.cli.commands.run_command import load_bundle, require_machine_target
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.views.bank_report import bank_reports_of_bundle

    if arguments.launch or arguments.inputs:
        raise TilewrightError("a bundle has its launches in it, and runs on zeros", remedy="give the bundle alone")
    bundle = load_bundle(arguments.kernel)
    require_machine_target(bundle)
    with Progress(wanted=arguments.format == "text") as progress:
        progress.step(f"running {bundle.name} on the CPU machine")
        return bank_reports_of_bundle(bundle, {}, clusters=arguments.clusters)


def _of_ptx(arguments: argparse.Namespace) -> BankReport:
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.check.sources.text_file import read_given
    from tilewright.driver.launch.launch_file import read_launch_file
    from tilewright.driver.views.bank_report import bank_report_of_ptx

    path = str(arguments.kernel)
    text, file = read_given(path)
    if not arguments.launch:
        raise TilewrightError(
            f"how {path} is launched is not known", remedy="give --launch launch.json (docs/launch-file.md)"
        )
    launch = read_launch_file(arguments.launch)
    arrays = _arrays(arguments, launch)
    with Progress(wanted=arguments.format == "text") as progress:
        progress.step(f"running {path} on the CPU machine")
        return bank_report_of_ptx(text, file, launch, arrays, clusters=arguments.clusters)


def _arrays(arguments: argparse.Namespace, launch: Any) -> Any:
    """The given bytes by buffer; None where none are."""
    if not arguments.inputs:
        return None
    from tilewright.cli.arrays import read_arrays
    from tilewright.driver.run.run_ptx import buffers_for

    return buffers_for(launch, read_arrays(arguments.inputs), arguments.inputs)
