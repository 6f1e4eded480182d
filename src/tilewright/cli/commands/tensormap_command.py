"""`tilewright tensormap`: is this tensor map legal, why not, and what is the nearest legal plan?"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    from tilewright.cli.tensormap.judge import Driver, Judged, Question
    from tilewright.cli.tensormap.text import Line
    from tilewright.legal.symbolic.symbolic import SymbolicLegality
    from tilewright.legal.symbolic.symbolic_map import SymbolicMap
    from tilewright.legal.tensor_map.im2col_map import AnyMap

FORMATS = ("text", "json", "sarif", "html")

EXAMPLES = """examples:
  tilewright tensormap --dtype bf16 --dims 4096,100 --strides 8192 --box 64,100 --swizzle 128B
  tilewright tensormap --dtype bf16 --dims 100,4096 --strides 200 --box 64,128 --synthesize
  tilewright tensormap --dtype bf16 --dims K,M --strides 2*K --box 64,128 --where "K % 8 == 0, 1 <= M <= 65536"
  tilewright tensormap --from-bytes map.bin
  tilewright tensormap --json maps.json --format json
  tilewright tensormap --dtype bf16 --dims 4096,100 --strides 8192 --box 64,100 --coords 3,0 --shared-address 1024
  tilewright tensormap --dtype bf16 --dims 64,56,56,32 --strides 128,7168,401408 --lower-corner=-1,-1 \\
      --upper-corner=-1,-1 --channels-per-pixel 64 --pixels-per-column 128

Dimensions are innermost first, strides in bytes. Exit codes: 0 legal, or a plan was found with --synthesize; 1 illegal;
3 legal for some sizes only; 2 the input is no tensor map.
"""

_STYLES = {"heading": "bold", "good": "green", "bad": "bold red", "doubt": "yellow", "quiet": "dim", "plain": ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_argument_group("a map in numbers")
    source.add_argument("--dtype", metavar="NAME", help="element type, such as bf16, or the driver's number")
    source.add_argument("--dims", metavar="N,...", help="extents in elements")
    source.add_argument("--strides", metavar="N,...", help="bytes between entries of dimensions 1, 2, ...")
    source.add_argument("--box", metavar="N,...", help="elements that one copy takes of each dimension")
    source.add_argument("--element-strides", metavar="N,...", help="elements from one taken to the next (default: 1)")
    source.add_argument("--interleave", default="none", metavar="MODE", help="none, 16B or 32B (default: none)")
    source.add_argument("--swizzle", default="none", metavar="MODE", help="none, 32B, 64B, 128B, ... (default: none)")
    promotions = "none, 64B, 128B or 256B (default: none)"
    source.add_argument("--l2-promotion", default="none", metavar="MODE", help=promotions)
    source.add_argument("--oob-fill", default="zero", metavar="FILL", help="zero or nan (default: zero)")
    source.add_argument("--address", metavar="N", help="address of the first element (default: any that is aligned)")
    source.add_argument("--where", metavar="CONDITIONS", help="what holds of sizes that options name")
    convolution = parser.add_argument_group("an im2col map instead of a tiled one")
    convolution.add_argument("--lower-corner", metavar="N,...", help="of the box of pixels, from the first pixel")
    convolution.add_argument("--upper-corner", metavar="N,...", help="of the box of pixels, from the last pixel")
    convolution.add_argument("--channels-per-pixel", metavar="N")
    convolution.add_argument("--pixels-per-column", metavar="N")
    convolution.add_argument("--wide-mode", choices=("w", "w128"), help="an im2col-wide map (sm_100a)")
    others = parser.add_argument_group("other sources")
    others.add_argument("--from-bytes", metavar="FILE", help="decode encoded maps, 128 bytes each (- for stdin)")
    others.add_argument("--json", metavar="FILE", help="one map or a list of them, by Python names (- for stdin)")
    one = parser.add_argument_group("one copy through the map")
    one.add_argument("--coords", metavar="N,...", help="start coordinates, innermost first")
    one.add_argument("--shared-address", metavar="N", help="where the box lies in shared memory, in bytes")
    one.add_argument("--shared-bytes", metavar="N", help="how large the buffer there is")
    one.add_argument("--direction", choices=("load", "store", "reduce", "prefetch"), help="default: load")
    one.add_argument("--reduction", metavar="OP", help="what a reduce does: add, min, max, ...")
    one.add_argument("--mode", metavar="MODE", help="as PTX writes it, such as tile::gather4 (default: the map's)")
    one.add_argument("--offsets", metavar="N,...", help="of an im2col copy")
    one.add_argument("--multicast", metavar="N", help="how many blocks of a cluster load a slice each for all")
    asked = parser.add_argument_group("what to answer")
    asked.add_argument("--target", default="sm_90a", metavar="NAME", help="architecture (default: sm_90a)")
    asked.add_argument("--driver", metavar="VERSION", help="the driver API's version, such as 13.0")
    asked.add_argument("--error", metavar="N", help="what the encoder answered, such as 1 or 700")
    asked.add_argument("--map-address", metavar="N", help="where the 128 bytes of the map itself stand")
    asked.add_argument("--synthesize", action="store_true", help="answer with the nearest legal plans, written out")
    asked.add_argument("--want-box", metavar="N,...", help="elements that a step of the kernel needs")
    asked.add_argument("--keep", action="append", default=[], metavar="FIELD", help="a field that must not change")
    asked.add_argument("--no-copy", action="store_true", help="the tensor may not be copied beforehand")
    asked.add_argument("--consumer", metavar="NAME", help="who reads the box: wgmma, tcgen05 or ldmatrix")
    asked.add_argument("--all", action="store_true", help="show every repair, not the first five")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.cli.tensormap.json import judged_to_json, symbolic_to_json
    from tilewright.cli.tensormap.judge import judge
    from tilewright.cli.tensormap.text import REPAIRS_SHOWN, judged_lines, symbolic_lines
    from tilewright.legal.symbolic.symbolic import prove
    from tilewright.legal.symbolic.symbolic_map import SymbolicMap

    maps = _maps(arguments)
    question = _question(arguments)
    entries: list[dict[str, Any]] = []
    reports: list[list[Line]] = []
    answers: list[Judged | SymbolicLegality] = []
    codes: list[int] = []
    for index, (map, remarks) in enumerate(maps):
        if isinstance(map, SymbolicMap):
            _refuse_for_sizes(arguments)
            answer = prove(map, arguments.target, question.driver)
            codes.append({"legal": 0, "illegal": 1, "maybe": 3}[answer.answer])
            entries.append(symbolic_to_json(map, arguments.target, answer, index))
            reports.append(list(symbolic_lines(map, arguments.target, answer)))
        else:
            answer = judge(map, question, remarks)
            codes.append(answer.exit_code)
            if arguments.format == "json":
                entries.append(judged_to_json(answer, index))
            else:
                limit = None if arguments.all else REPAIRS_SHOWN
                decoded = arguments.from_bytes is not None
                reports.append(list(judged_lines(answer, limit=limit, command=decoded)))
        answers.append(answer)
    _print(arguments, entries, reports, answers)
    return next((code for code in (1, 3) if code in codes), 0)


def _print(
    arguments: argparse.Namespace,
    entries: list[dict[str, Any]],
    reports: list[list[Line]],
    answers: list[Judged | SymbolicLegality],
) -> None:
    match arguments.format:
        case "json":
            from tilewright.cli.tensormap.json import document

            print(json.dumps(document(entries), indent=2))
        case "sarif":
            from tilewright.cli.tensormap.log import tensormap_log

            source = arguments.json or arguments.from_bytes or "-"
            print(json.dumps(tensormap_log(answers, source), indent=2))
        case "html":
            from tilewright.cli.tensormap.page import tensormap_page

            print(tensormap_page(reports))
        case _:
            _say(reports)


def _say(reports: list[list[Line]]) -> None:
    from tilewright.cli.terminal.printing import say
    from tilewright.report.text import printable

    for number, report in enumerate(reports):
        if number:
            say("")
        for tone, line in report:
            say(printable(line), _STYLES[tone])


def _maps(arguments: argparse.Namespace) -> list[tuple[AnyMap | SymbolicMap, tuple[str, ...]]]:
    from tilewright.cli.tensormap.input import map_of_options, maps_of_bytes, maps_of_json
    from tilewright.cli.tensormap.judge import null_remarks
    from tilewright.legal.symbolic.symbolic_map import SymbolicMap

    sources = [name for name in ("from_bytes", "json") if getattr(arguments, name) is not None]
    spelled = [name for name in ("dtype", "dims", "strides", "box") if getattr(arguments, name) is not None]
    if len(sources) + bool(spelled) > 1:
        flags = ", ".join("--" + name.replace("_", "-") for name in (*sources, *spelled[:1]))
        raise TilewrightError(f"{flags}: more than one source of a map", remedy="give one of them")
    if arguments.from_bytes is not None:
        return [(each.map, (*each.remarks, *null_remarks(each.map))) for each in maps_of_bytes(arguments.from_bytes)]
    if arguments.json is not None:
        return [(map, ()) for map in maps_of_json(arguments.json)]
    map = map_of_options(arguments)
    return [(map, () if arguments.address is None or isinstance(map, SymbolicMap) else null_remarks(map))]


def _refuse_for_sizes(arguments: argparse.Namespace) -> None:
    """A copy and a plan are of a map in numbers."""
    if arguments.synthesize:
        raise TilewrightError("--synthesize needs a map in numbers", remedy="give numbers for every size")
    for name in _COPY_OPTIONS:
        if getattr(arguments, name) is not None:
            raise TilewrightError(f"{_flag(name)} needs a map in numbers", remedy="give numbers for every size")


_COPY_OPTIONS = ("coords", "shared_address", "shared_bytes", "direction", "reduction", "mode", "offsets", "multicast",
                 "want_box", "error", "map_address")  # fmt: skip


def _question(arguments: argparse.Namespace) -> Question:
    from tilewright.cli.tensormap.input import number, numbers
    from tilewright.cli.tensormap.judge import Question
    from tilewright.legal.plan.want import Want

    def listed(name: str) -> tuple[int, ...] | None:
        text = getattr(arguments, name)
        return None if text is None else numbers(name, text)

    def single(name: str) -> int | None:
        text = getattr(arguments, name)
        return None if text is None else number(name, text)

    asked: dict[str, Any] = {
        "coords": listed("coords"),
        "shared_address": single("shared_address"),
        "buffer_bytes": single("shared_bytes"),
        "direction": arguments.direction,
        "reduction": arguments.reduction,
        "mode": arguments.mode,
        "offsets": listed("offsets"),
        "multicast_ctas": single("multicast"),
    }
    want = Want(
        listed("want_box"),
        frozenset(arguments.keep),
        not arguments.no_copy,
        arguments.direction in ("store", "reduce"),
        arguments.consumer,
    )
    copy = {name: value for name, value in asked.items() if value is not None}
    return Question(
        arguments.target,
        _driver(arguments.driver),
        copy,
        want,
        arguments.synthesize,
        single("error"),
        single("map_address"),
    )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _driver(text: str | None) -> Driver:
    """13.0 as (13, 0); 13000, as the driver answers, as it is."""
    if text is None:
        return None
    parts = text.split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts) or len(parts) > 2:
        raise TilewrightError(f"--driver {text!r} is no version", remedy="write it as 13.0")
    return (int(parts[0]), int(parts[1])) if len(parts) == 2 else int(parts[0])
