"""`tilewright tensormap`: is this tensor map legal, why not, and what is the nearest legal plan?"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    from tilewright.cli.tensormap_report import Judged
    from tilewright.legal.im2col_map import AnyMap
    from tilewright.legal.symbolic_map import SymbolicMap

EXAMPLES = """examples:
  tilewright tensormap --dtype bf16 --dims 4096,100 --strides 8192 --box 64,128 --swizzle 128B
  tilewright tensormap --dtype bf16 --dims 100,4096 --strides 200 --box 64,128 --synthesize
  tilewright tensormap --dtype bf16 --dims K,M --strides 2*K --box 64,128 --where "K % 8 == 0, 1 <= M <= 65536"
  tilewright tensormap --from-bytes map.bin
  tilewright tensormap --json maps.json --format json
  tilewright tensormap --dtype bf16 --dims 64,56,56,32 --strides 128,7168,401408 --lower-corner=-1,-1 \\
      --upper-corner=-1,-1 --channels-per-pixel 64 --pixels-per-column 128

Dimensions are innermost first, strides in bytes. Exit codes: 0 legal, or a plan was found with --synthesize; 1 illegal;
3 depends on sizes; 2 the input is no tensor map.
"""

_STYLES = {"heading": "bold", "good": "green", "bad": "bold red", "doubt": "yellow", "quiet": "dim", "plain": ""}
_REPAIRS_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_argument_group("a map in numbers")
    source.add_argument("--dtype", metavar="NAME", help="element type, such as bf16, or the driver's number")
    source.add_argument("--dims", metavar="N,...", help="extents in elements")
    source.add_argument("--strides", metavar="N,...", help="bytes between entries of dimensions 1, 2, ...")
    source.add_argument("--box", metavar="N,...", help="elements that one copy takes of each dimension")
    source.add_argument("--element-strides", metavar="N,...", help="elements from one taken to the next (default: 1)")
    source.add_argument("--interleave", default="none", metavar="MODE", help="none, 16B or 32B (default: none)")
    source.add_argument("--swizzle", default="none", metavar="MODE", help="none, 32B, 64B, 128B, ... (default: none)")
    source.add_argument("--l2-promotion", default="none", metavar="MODE", help="none, 64B, 128B or 256B")
    source.add_argument("--oob-fill", default="zero", metavar="FILL", help="zero or nan (default: zero)")
    source.add_argument("--address", default="0", metavar="N", help="address of the first element (default: 0)")
    source.add_argument("--where", metavar="CONDITIONS", help="what holds of sizes that options name")
    convolution = parser.add_argument_group("an im2col map instead of a tiled one")
    convolution.add_argument("--lower-corner", metavar="N,...", help="of the box of pixels, from the first pixel")
    convolution.add_argument("--upper-corner", metavar="N,...", help="of the box of pixels, from the last pixel")
    convolution.add_argument("--channels-per-pixel", type=int, metavar="N")
    convolution.add_argument("--pixels-per-column", type=int, metavar="N")
    convolution.add_argument("--wide-mode", choices=("w", "w128"), help="an im2col-wide map (sm_100a)")
    others = parser.add_argument_group("other sources")
    others.add_argument("--from-bytes", metavar="FILE", help="decode encoded maps, 128 bytes each (- for stdin)")
    others.add_argument("--json", metavar="FILE", help="one map or a list of them, by Python names (- for stdin)")
    one = parser.add_argument_group("one copy through the map")
    one.add_argument("--coords", metavar="N,...", help="start coordinates, innermost first")
    one.add_argument("--shared-address", metavar="N", help="where the box lies in shared memory")
    one.add_argument("--direction", choices=("load", "store", "reduce", "prefetch"), default="load")
    asked = parser.add_argument_group("what to answer")
    asked.add_argument("--target", default="sm_90a", metavar="NAME", help="architecture (default: sm_90a)")
    asked.add_argument("--driver", metavar="VERSION", help="the driver API's version, such as 13.0")
    asked.add_argument("--synthesize", action="store_true", help="answer with the nearest legal plans, written out")
    asked.add_argument("--want-box", metavar="N,...", help="elements that a step of the kernel needs")
    asked.add_argument("--keep", action="append", default=[], metavar="FIELD", help="a field that must not change")
    asked.add_argument("--no-copy", action="store_true", help="the tensor may not be copied beforehand")
    asked.add_argument("--consumer", metavar="NAME", help="who reads the box: wgmma, tcgen05 or ldmatrix")
    asked.add_argument("--all", action="store_true", help="show every repair, not the first five")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.legal.symbolic_map import SymbolicMap

    sources = [name for name in ("from_bytes", "json") if getattr(arguments, name) is not None]
    spelled = [name for name in ("dtype", "dims", "strides", "box") if getattr(arguments, name) is not None]
    if len(sources) + bool(spelled) > 1:
        flags = ", ".join("--" + name.replace("_", "-") for name in (*sources, *spelled[:1]))
        raise TilewrightError(f"{flags}: more than one source of a map", remedy="give one of them")
    maps = _maps(arguments)
    entries: list[dict[str, Any]] = []
    codes: list[int] = []
    for index, (map, remarks) in enumerate(maps):
        if isinstance(map, SymbolicMap):
            codes.append(_symbolic(map, arguments, index, entries))
        else:
            codes.append(_concrete(map, remarks, arguments, index, entries))
    if arguments.format == "json":
        print(json.dumps({"version": 1, "maps": entries}, indent=2))
    return next((code for code in (1, 3) if code in codes), 0)


def _maps(arguments: argparse.Namespace) -> list[tuple[AnyMap | SymbolicMap, tuple[str, ...]]]:
    from tilewright.cli.tensormap_input import map_of_options, maps_of_bytes, maps_of_json

    if arguments.from_bytes is not None:
        return [(decoded.map, decoded.remarks) for decoded in maps_of_bytes(arguments.from_bytes)]
    if arguments.json is not None:
        return [(map, ()) for map in maps_of_json(arguments.json)]
    return [(map_of_options(arguments), ())]


def _symbolic(map: SymbolicMap, arguments: argparse.Namespace, index: int, entries: list[dict[str, Any]]) -> int:
    from tilewright.cli.tensormap_report import symbolic_lines, symbolic_to_json
    from tilewright.legal.symbolic import prove

    for name in ("coords", "shared_address", "want_box"):
        if getattr(arguments, name) is not None:
            flag = "--" + name.replace("_", "-")
            raise TilewrightError(f"{flag} needs a map in numbers", remedy="give numbers for every size")
    if arguments.synthesize:
        raise TilewrightError("--synthesize needs a map in numbers", remedy="give numbers for every size")
    legality = prove(map, arguments.target, _driver(arguments.driver))
    entries.append(symbolic_to_json(map, arguments.target, legality, index))
    _say(symbolic_lines(map, arguments.target, legality), arguments)
    return {"legal": 0, "illegal": 1, "maybe": 3}[legality.answer]


def _concrete(
    map: AnyMap, remarks: tuple[str, ...], arguments: argparse.Namespace, index: int, entries: list[dict[str, Any]]
) -> int:
    from tilewright.cli.tensormap_report import judged_lines, judged_to_json

    judged = _judged(map, remarks, arguments)
    entries.append(judged_to_json(judged, index))
    _say(judged_lines(judged), arguments)
    if judged.synthesized:
        return 0 if judged.repairs else 1
    return 0 if judged.legal else 1


def _judged(map: AnyMap, remarks: tuple[str, ...], arguments: argparse.Namespace) -> Judged:
    from tilewright.cli.tensormap_input import numbers
    from tilewright.cli.tensormap_report import Judged
    from tilewright.legal.copy_check import check_copy
    from tilewright.legal.legality import check
    from tilewright.legal.repairs import repair
    from tilewright.legal.tensor_map import TensorMap
    from tilewright.legal.want import Want

    legality = check(map, arguments.target, _driver(arguments.driver))
    broken = warned = ()
    if arguments.coords is not None or arguments.shared_address is not None or arguments.direction != "load":
        shared = None if arguments.shared_address is None else numbers("shared_address", arguments.shared_address)
        if shared is not None and len(shared) != 1:
            raise TilewrightError("--shared-address is one number")
        coords = None if arguments.coords is None else numbers("coords", arguments.coords)
        copied = check_copy(
            map, coords=coords, shared_address=shared[0] if shared else None, direction=arguments.direction,
            target=arguments.target, driver=_driver(arguments.driver),
        )  # fmt: skip
        broken, warned = copied.violations, copied.warnings
        broken = tuple(each for each in broken if each not in legality.violations)
        warned = tuple(each for each in warned if each not in legality.warnings)
    repairs = ()
    if isinstance(map, TensorMap) and (arguments.synthesize or not legality.legal):
        box = None if arguments.want_box is None else numbers("want_box", arguments.want_box)
        want = Want(
            box, frozenset(arguments.keep), not arguments.no_copy, arguments.direction in ("store", "reduce"),
            arguments.consumer,
        )  # fmt: skip
        found = repair(map, want, arguments.target)
        repairs = tuple(found if arguments.all or arguments.format == "json" else found[:_REPAIRS_SHOWN])
    elif arguments.synthesize:
        raise TilewrightError("--synthesize plans tiled maps", remedy="change the fields that the answer names")
    return Judged(map, legality, broken, warned, remarks, repairs, arguments.synthesize)


def _driver(text: str | None) -> tuple[int, int] | int | None:
    """13.0 as (13, 0); 13000, as the driver answers, as it is."""
    if text is None:
        return None
    parts = text.split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts) or len(parts) > 2:
        raise TilewrightError(f"--driver {text!r} is no version", remedy="write it as 13.0")
    return (int(parts[0]), int(parts[1])) if len(parts) == 2 else int(parts[0])


def _say(lines: Any, arguments: argparse.Namespace) -> None:
    if arguments.format != "text":
        return
    from tilewright.cli.terminal import say

    for tone, words in lines:
        say(words, _STYLES[tone])
