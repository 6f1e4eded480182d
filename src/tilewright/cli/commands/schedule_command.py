"""`tilewright schedule FILE.py:NAME`: when does each task of a loop run, and why is no iteration shorter?

Options are read and results printed here; the answers are those of `driver.compile.schedule_loop`,
`synth.schedule.role_assignment` and `contract.schedule.schedule_check`. Checked by:
tests/cli/commands/test_schedule_command.py.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError
from tilewright.cli.terminal.repeated_option import Joined

if TYPE_CHECKING:
    from tilewright.base.verdict import Proven
    from tilewright.ir.schedule import Method, Schedule
    from tilewright.ir.task_graph import TaskGraph

FORMATS = ("text", "json", "html", "perfetto")

EXAMPLES = """examples:
  tilewright schedule gemm.py:matmul --shape M=4096,N=4096,K=4096
  tilewright schedule gemm.py:matmul --shape M=4096,N=4096,K=4096 --tile 128x256 --stages 3 --optimal
  tilewright schedule attention.py:forward --assignment ping-pong --optimal --format html > schedule.html
  tilewright schedule gemm.py:matmul --shape M=512,N=512,K=512 --format perfetto > schedule.json
  tilewright schedule gemm.py:matmul --shape M=4096,N=4096,K=4096 --tile 128x128 --epilogue-cycles 2500

NAME is a kernel declared with @tw.kernel, whose decided loop is scheduled, or a tilewright.ir.loop_body.LoopBody. Every
schedule is checked before it is shown. Exit codes: 0 done, 2 the input has no schedule, 3 no optimum in the time given.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="FILE.py:NAME", help="a kernel, or a described loop body")
    parser.add_argument("--target", default="sm_90a", help="architecture (default: sm_90a)")
    parser.add_argument("--optimal", action="store_true", help="the optimum with its certificate, not the heuristic's")
    kernels = parser.add_argument_group("a kernel")
    kernels.add_argument("--shape", action=Joined, default="", metavar="M=4096,...", help="extent of every axis")
    kernels.add_argument("--dtype", action=Joined, default="bf16", metavar="DTYPE", help="as for compile")
    kernels.add_argument("--tile", default="", metavar="128x256", help="fix the tile instead of choosing it")
    kernels.add_argument("--stages", type=int, metavar="N", help="fix the number of pipeline stages")
    kernels.add_argument(
        "--release-distance", type=int, metavar="N", help="products issued after a slot's own before it is released"
    )
    kernels.add_argument(
        "--epilogue-cycles",
        type=int,
        metavar="N",
        help="schedule the loop over whole tiles instead, whose results take so long to store",
    )
    bodies = parser.add_argument_group("a loop body")
    bodies.add_argument(
        "--assignment",
        choices=("cooperative", "ping-pong"),
        help="whether consumers go together or each by itself (default: the cheaper)",
    )
    bodies.add_argument("--helpers", type=int, default=0, metavar="N", help="warpgroups that may take over work")
    drawing = parser.add_argument_group("a picture")
    drawing.add_argument(
        "--iterations", dest="turns", type=int, default=4, metavar="N", help="iterations to draw (default: 4)"
    )
    drawing.add_argument("--graph", action="store_true", help="list the tasks and dependences too")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.reproof.schedule_proof import prove_schedule
    from tilewright.driver.views.schedule_picture import MOST_TURNS, schedule_chart

    if not 1 <= arguments.turns <= MOST_TURNS:
        raise TilewrightError(f"{arguments.turns} iterations cannot be drawn", remedy=f"draw 1 to {MOST_TURNS}")
    with Progress(wanted=arguments.format == "text") as progress:
        progress.step(f"scheduling {arguments.program}")
        graph, schedule, remarks = _scheduled(arguments)
        proof = prove_schedule(graph, schedule)
    chart = schedule_chart(graph, schedule, arguments.turns)
    match arguments.format:
        case "json":
            print(json.dumps(_document(graph, schedule, proof), indent=2))
        case "perfetto":
            from tilewright.report.figures.schedule_figure import chart_to_trace

            print(json.dumps(chart_to_trace(chart)))
        case "html":
            from tilewright.cli.schedule_page import schedule_page

            print(schedule_page(graph, schedule, proof, chart))
        case _:
            from tilewright.cli.terminal.printing import console, say
            from tilewright.ir.schedule import schedule_text
            from tilewright.ir.task_graph import graph_text
            from tilewright.report.figures.schedule_figure import chart_text

            for remark in remarks:
                say(remark)
            if arguments.graph:
                say(graph_text(graph))
            first, *rest = schedule_text(graph, schedule).splitlines()
            say(first, "bold")
            for line in rest:
                say(line)
            say("")
            names = max(len(lane.name) for lane in chart.lanes)
            say(chart_text(chart, console().width - names - 3))
            say("")
            say(f"proven for {proof.scope}; assuming that {'; '.join(proof.assumptions)}", "green")
    return 0


def _document(graph: TaskGraph, schedule: Schedule, proof: Proven) -> dict[str, object]:
    from tilewright.ir.schedule import channels, registers_of_roles, schedule_to_json
    from tilewright.ir.task_graph import graph_to_json

    return {
        "version": 1,
        "graph": graph_to_json(graph),
        "schedule": schedule_to_json(schedule),
        "registers": registers_of_roles(graph, schedule),
        "channels": [list(channel) for channel in channels(graph, schedule)],
        "verdict": "proven",
        "assumptions": list(proof.assumptions),
    }


def _scheduled(arguments: argparse.Namespace) -> tuple[TaskGraph, Schedule, list[str]]:
    """The graph, its schedule, and what is to be said first."""
    from tilewright.cli.source import load_kernel_or
    from tilewright.ir.loop_body import LoopBody
    from tilewright.targets import target as target_named

    facts = target_named(arguments.target)
    if not facts.supports("wgmma"):
        raise TilewrightError(f"no costs of tasks are known for {arguments.target}", remedy="use --target sm_90a")
    named = load_kernel_or(arguments.program, LoopBody)
    method: Method = "optimal" if arguments.optimal else "heuristic"
    if isinstance(named, LoopBody):
        from tilewright.synth.schedule.role_assignment import schedule_body

        for option in ("shape", "tile", "stages", "release_distance", "epilogue_cycles"):
            if getattr(arguments, option) not in (None, ""):
                raise TilewrightError(
                    f"--{option.replace('_', '-')} with a loop body", remedy="its extents stand in it"
                )
        return *schedule_body(named, facts, method, arguments.assignment, helpers=arguments.helpers), []
    from tilewright.cli.source import parse_dtypes, parse_shape, parse_tile
    from tilewright.driver.compile.schedule_loop import decided_schedule, decided_tiles
    from tilewright.synth.tile.wanted import Wanted

    if arguments.assignment is not None or arguments.helpers:
        raise TilewrightError("--assignment and --helpers are for loop bodies", remedy="leave a kernel's roles to it")
    wanted = Wanted(
        parse_tile(arguments.tile),
        arguments.stages,
        schedule=method,
        release_distance=arguments.release_distance,
    )
    dims, dtype = parse_shape(arguments.shape), parse_dtypes(arguments.dtype)
    if arguments.epilogue_cycles is None:
        return *decided_schedule(named, facts, dims, dtype, wanted), []
    tiles = decided_tiles(named, facts, dims, dtype, wanted, arguments.epilogue_cycles)
    remarks = [f"{each.assignment}: {each.cycles_of_a_tile:.0f} cycles a tile" for each in tiles]
    return tiles[0].graph, tiles[0].schedule, remarks
