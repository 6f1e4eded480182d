"""`tilewright layout`: what is this layout, what do operations make of it, what does it look like?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    from tilewright.cli.layout.steps import Chain, Value
    from tilewright.driver.views.layout_picture import Drawable, Window
    from tilewright.legal.descriptor.instruction_layout import InstructionLayout

FORMATS = ("text", "json", "svg", "html")

EXAMPLES = """examples:
  tilewright layout '(8,16):(16,1)' --compose '(4,32):(32,1)'
  tilewright layout '(16*M,64):(64,1)' --divide '<16,8>' --coalesce
  tilewright layout equal '(8,(4,N)):(1,(8,32))' '(32,N):(1,32)'
  tilewright layout 'Sw<3,4,3> o 0 o (8,128):(128,1)' --convert linear
  tilewright layout '(8,64):(64,1)' --swizzle 3,3,3 --show --element-bytes 2
  tilewright layout --mma wgmma.m64n128k16 --operand C --show
  tilewright layout --mma wgmma.m64n128k16 --operand C --show --format svg > fragment.svg
  tilewright layout --mma mma.m16n8k16.bf16 --operand A --convert cute
  tilewright layout --mma wgmma.m64n32k32 --operand C --exchange wgmma.m64n32k32:A --element-bytes 1
  tilewright layout --list tcgen05.ld

A layout is [swizzle o] [offset o] shape[:stride]; sizes may be names. Operations apply from left to right. A tiler for
each part stands in angle brackets, <4:1,_,8:2>. Exit codes: 0 done or equal, 1 different or not expressible, 3
undecided, 2 the input is no layout.
"""

_UNARY = {
    "inverse": "the layout that undoes it on both sides",
    "left-inverse": "L with L(layout(x)) = x",
    "right-inverse": "R with layout(R(i)) = i",
    "coalesce": "the same function with the fewest leaves",
    "canonical": "the one way to write the function",
}
_WITH_ARGUMENT = {
    "compose": ("L", "the layout after L"),
    "complement": ("N", "what it leaves free below N"),
    "divide": ("L", "logical divide: tile and rest"),
    "zipped-divide": ("L", "all tiles, all rests"),
    "tiled-divide": ("L", "all tiles, then each rest"),
    "flat-divide": ("L", "each tile, then each rest"),
    "product": ("L", "logical product: layout and copies"),
    "zipped-product": ("L", "all of the layout, all of the copies"),
    "tiled-product": ("L", "all of the layout, then each part of the copies"),
    "flat-product": ("L", "each part of the layout, then of the copies"),
    "blocked-product": ("L", "copies of it as blocks, part by part"),
    "raked-product": ("L", "copies of it interleaved, part by part"),
    "swizzle": ("B,M,S", "a swizzle after it"),
    "at": ("PLACE", "the value at a coordinate, such as 3,5"),
    "equal": ("L", "whether both are one function, for all sizes"),
}
_FAMILIES = ("cute", "linear", "affine", "set")
_TEXT_ROWS = 64
_EXCHANGED_BYTES = 2


class _Append(argparse.Action):
    """Notes an operation with its argument, in the order of the command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        operations: list[tuple[str, str]] = namespace.operations
        name = self.option_strings[0].removeprefix("--")  # also where the option is abbreviated
        namespace.operations = [*operations, (name, values if isinstance(values, str) else "")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(operations=[])
    parser.add_argument("layouts", nargs="*", metavar="LAYOUT", help="a layout, or: equal A B")
    instruction = parser.add_argument_group("an instruction's operand instead")
    instruction.add_argument("--mma", metavar="NAME", help="such as wgmma.m64n128k16, ldmatrix.x4, tma.swizzle.128B")
    instruction.add_argument("--operand", metavar="NAME", help="such as A, C, fragment, B.K.128B (default: the first)")
    instruction.add_argument("--target", metavar="NAME", help="whose facts (default: the first that has it)")
    instruction.add_argument(
        "--exchange", metavar="NAME:OPERAND", help="what it costs to bring the tile to that operand's registers"
    )
    instruction.add_argument(
        "--list", nargs="?", const="", metavar="PREFIX", help="list the instructions whose names begin so"
    )
    chain = parser.add_argument_group("operations, from left to right")
    for name, words in _UNARY.items():
        chain.add_argument(f"--{name}", nargs=0, action=_Append, dest="operations", help=words)
    for name, (metavar, words) in _WITH_ARGUMENT.items():
        chain.add_argument(f"--{name}", action=_Append, dest="operations", metavar=metavar, help=words)
    chain.add_argument(
        "--convert", action=_Append, dest="operations", choices=_FAMILIES, help="write it in another family"
    )
    chain.add_argument(
        "--extend", action="store_true", help="compose and divide past the domain, along the last leaf, as CuTe does"
    )
    chain.add_argument("--sizes", action="append", default=[], metavar="N=4,...", help="values of named sizes")
    chain.add_argument("--where", metavar="CONDITIONS", help="what holds of the others, for --equal: N %% 8 == 0")
    drawing = parser.add_argument_group("a picture")
    drawing.add_argument("--show", action="store_true", help="draw it (always with --format svg or html)")
    drawing.add_argument("--rows", metavar="BEGIN:END", help="draw these rows alone")
    drawing.add_argument("--columns", metavar="BEGIN:END", help="draw these columns alone")
    drawing.add_argument(
        "--element-bytes",
        type=int,
        default=0,
        metavar="N",
        help="colour by 16 bytes of a line; for --exchange: 1, 2 or 4 (default: 2)",
    )


def run(arguments: argparse.Namespace) -> int:
    from tilewright.cli.layout.input import facts_of, sizes_of, window_of
    from tilewright.cli.layout.steps import run_chain

    if arguments.list is not None:
        return _list(arguments)
    if not 0 <= arguments.element_bytes <= 1 << 16:
        raise TilewrightError(f"--element-bytes {arguments.element_bytes}: no element's size", remedy="give 1 to 16")
    sizes = facts_of(arguments.where, sizes_of(arguments.sizes))
    start, operand, operations = _start(arguments, sizes.values)
    if arguments.exchange is not None:
        return _exchange(arguments, operand)
    chain = run_chain(start, operations, sizes, extend=arguments.extend)
    drawn: Drawable = operand if operand is not None and not chain.steps else chain.result
    window = window_of(arguments.rows, arguments.columns)
    match arguments.format:
        case "json":
            from tilewright.cli.layout.json import chain_to_json

            print(json.dumps(chain_to_json(chain, operand, _grid(drawn, arguments, window)), indent=2))
        case "svg":
            from tilewright.report.figures.layout_figure import draw_grid

            _must_have_result(chain)
            print(draw_grid(_picture(drawn, window, arguments.element_bytes), alone=True))
        case "html":
            from tilewright.cli.layout.lines import chain_lines
            from tilewright.cli.layout.page import lines_page

            _must_have_result(chain)
            grid = _picture(drawn, window, arguments.element_bytes)
            print(lines_page("Tilewright layout", tuple(chain_lines(chain, operand)), (grid,)))
        case _:
            _say(chain, operand, arguments, drawn, window)
    return chain.exit_code


def _start(
    arguments: argparse.Namespace, sizes: dict[str, int]
) -> tuple[Value, InstructionLayout | None, list[tuple[str, str]]]:
    """The value to begin with, the operand that it is of, and the operations."""
    from tilewright.cli.layout.input import layout_of
    from tilewright.legal.descriptor.instruction_layout import instruction_layout

    given: list[str] = arguments.layouts
    operations: list[tuple[str, str]] = arguments.operations
    if arguments.mma is not None:
        if given:
            raise TilewrightError("a layout and --mma: more than one source", remedy="give one of them")
        operand = instruction_layout(
            arguments.mma, arguments.operand or _first_operand(arguments.mma), arguments.target
        )
        return operand.layout, operand, operations
    if arguments.operand is not None:
        raise TilewrightError("--operand without --mma", remedy="say of which instruction: --mma wgmma.m64n128k16")
    if given[:1] == ["equal"]:
        if len(given) != 3:
            raise TilewrightError(f"equal takes two layouts, and {len(given) - 1} are given", remedy="equal A B")
        return layout_of(given[1], sizes), None, [*operations, ("equal", given[2])]
    if len(given) != 1:
        raise TilewrightError(
            "no layout is given" if not given else f"{len(given)} layouts are given",
            remedy="give one, such as '(8,16):(16,1)', in quotes; or: equal A B",
        )
    return layout_of(given[0], sizes), None, operations


def _exchange(arguments: argparse.Namespace, operand: InstructionLayout | None) -> int:
    from tilewright.cli.layout.exchange import exchange_lines, exchange_plans, exchange_to_json
    from tilewright.cli.terminal.printing import say, say_lines
    from tilewright.layout.answer import NotExpressible

    if operand is None:
        raise TilewrightError("--exchange without --mma", remedy="say from which operand: --mma NAME --operand C")
    if arguments.operations or arguments.format in ("svg", "html"):
        raise TilewrightError("--exchange lists plans, as text or JSON", remedy="give it without other operations")
    target = arguments.target or operand.targets[0]
    plans = exchange_plans(operand, arguments.exchange, arguments.element_bytes or _EXCHANGED_BYTES, target)
    if arguments.format == "json":
        print(json.dumps({"version": 1, "exchange": exchange_to_json(plans)}, indent=2))
    else:
        say(f"{operand.name}, operand {operand.operand}", "bold")
        say_lines(exchange_lines(plans, arguments.exchange))
    return 1 if isinstance(plans, NotExpressible) else 0


def _first_operand(name: str) -> str:
    """Of an instruction; empty where there is no such, which `instruction_layout` then says with the nearest name."""
    from tilewright.legal.descriptor.instruction_layout import operands_of

    try:
        return operands_of(name)[0]
    except TilewrightError:
        return ""


def _list(arguments: argparse.Namespace) -> int:
    from tilewright.cli.terminal.printing import say
    from tilewright.legal.descriptor.instruction_layout import instruction_names, operands_of

    names = [name for name in instruction_names(arguments.target) if name.startswith(arguments.list)]
    if not names:
        raise TilewrightError(f"no instruction begins with {arguments.list!r}", remedy="tilewright layout --list")
    if arguments.format == "json":
        print(json.dumps({"version": 1, "instructions": names}, indent=2))
        return 0
    few = len(names) <= 12
    for name in names:
        say(f"{name}: {', '.join(operands_of(name))}" if few else name)
    return 0


def _must_have_result(chain: Chain) -> None:
    from tilewright.layout.answer import NotDecided, NotExpressible, expect

    last = chain.steps[-1].answer if chain.steps else None
    match last:
        case NotExpressible() | NotDecided():
            expect(last)
        case _:
            return


def _picture(drawn: Drawable, window: Window, element_bytes: int) -> Any:
    from tilewright.driver.views.layout_picture import picture

    return picture(drawn, window, element_bytes)


def _grid(drawn: Drawable, arguments: argparse.Namespace, window: Window) -> Any:
    """The picture if it is asked for."""
    return _picture(drawn, window, arguments.element_bytes) if arguments.show else None


def _say(
    chain: Chain,
    operand: InstructionLayout | None,
    arguments: argparse.Namespace,
    drawn: Drawable,
    window: Window,
) -> None:
    from tilewright.cli.layout.lines import chain_lines
    from tilewright.cli.terminal.printing import say, say_grid, say_lines
    from tilewright.driver.views.layout_picture import corner

    say_lines(chain_lines(chain, operand))
    if arguments.show:
        say("")
        say_grid(_picture(drawn, corner(window, _TEXT_ROWS), arguments.element_bytes), rows=_TEXT_ROWS)
