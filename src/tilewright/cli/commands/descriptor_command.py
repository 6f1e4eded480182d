"""`tilewright descriptor`: what do the 64 bits say by which a matrix instruction finds an operand in shared memory?

Bits are decoded and fields encoded; `--row-bytes` looks for the descriptors of an operand whose rows lie so far apart.
Where the operand's role and rows are given, the rules of its instruction are judged; with a tensor map, whether its
loads put every element where the instruction reads it. Checked by: tests/cli/commands/test_descriptor_command.py.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    from tilewright.legal.descriptor.shared_operand import OperandDescriptor
    from tilewright.targets import Target

EXAMPLES = """examples:
  tilewright descriptor 0x4000004000010040
  tilewright descriptor 0x4000404000010040 --target sm_100a
  tilewright descriptor --start 0x400 --leading 16 --stride 1024 --swizzle 128B
  tilewright descriptor 0x4000004000010040 --dtype bf16 --role A --rows 64
  tilewright descriptor 0x4000004000010040 --dtype bf16 --rows 128 --map map.json --destinations 0x400
  tilewright descriptor --start 0x400 --row-bytes 128 --swizzle 128B --dtype bf16 --rows 64 --depth 64

The first two decode, the third encodes; with a map (as for `tilewright tensormap --json`) the fifth says whether its
loads to these addresses are what the instruction reads; the last looks for the descriptor of rows that lie 128 bytes
apart. Exit codes: 0 legal, fed or found; 1 a rule is broken, an element is elsewhere, or there is no descriptor.
"""

_ELEMENTS = {"bf16": "bf16", "f16": "f16", "tf32": "f32", "u8": "u8", "s8": "u8", "e4m3": "f8e4m3", "e5m2": "f8e5m2"}
_FIELDS = ("start", "leading", "stride")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bits", nargs="?", metavar="BITS", help="a descriptor, such as 0x4000004000010040")
    fields = parser.add_argument_group("fields instead of bits, in bytes")
    fields.add_argument("--start", metavar="N", help="shared address of the first element")
    fields.add_argument("--leading", metavar="N", help="leading dimension byte offset")
    fields.add_argument("--stride", metavar="N", help="stride dimension byte offset")
    fields.add_argument("--swizzle", metavar="MODE", help="none, 32B, 64B, 128B, ... (default: none)")
    fields.add_argument("--base-offset", default="0", metavar="N", help="line at which the pattern begins (default: 0)")
    operand = parser.add_argument_group("the operand")
    operand.add_argument("--dtype", choices=tuple(_ELEMENTS), help="its elements (default: bf16)")
    operand.add_argument("--role", choices=("A", "B"), help="judge it by the rules for A (M x K) or B (N x K)")
    operand.add_argument("--major", choices=("K", "MN"), default="K", help="which dimension is contiguous (default: K)")
    operand.add_argument("--rows", metavar="N", help="its M or N")
    operand.add_argument("--depth", metavar="N", help="its K, to look for descriptors (default: of one instruction)")
    operand.add_argument("--row-bytes", metavar="N", help="look for descriptors of rows that lie so far apart")
    loaded = parser.add_argument_group("what was loaded")
    loaded.add_argument("--map", metavar="FILE.json", help="the tensor map of the loads (- for stdin)")
    loaded.add_argument("--destinations", metavar="N,...", help="shared addresses of the boxes (default: the start)")
    loaded.add_argument("--first", default="0,0", metavar="ROW,K", help="where in them the operand begins")
    parser.add_argument("--target", default="sm_90a", metavar="NAME", help="architecture (default: sm_90a)")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.cli.terminal.printing import say
    from tilewright.targets import target

    device = target(arguments.target)
    if arguments.row_bytes is not None:
        document, lines = _found(arguments, device)
    else:
        document, lines = _judged(arguments, device)
    if arguments.format == "json":
        print(json.dumps({"target": device.name, **document}, indent=2))
    else:
        for line in lines:
            say(line)
    return 0 if document["ok"] else 1


def _judged(arguments: argparse.Namespace, device: Target) -> tuple[dict[str, Any], list[str]]:
    """A descriptor that is given, by its bits or its fields."""
    from tilewright.legal.descriptor.shared_operand import encode, field_problems, instruction_of, major_problem

    descriptor = _given(arguments, device)
    instruction = instruction_of(device)
    problems = [*field_problems(descriptor, device), *_rules(arguments, descriptor, device)]
    unreadable = major_problem(descriptor.swizzle, arguments.major, _element_bytes(arguments), device)
    if unreadable is not None:
        problems.append(unreadable)
    bits = None if field_problems(descriptor, device) else f"{encode(descriptor, device):#018x}"
    lines = [f"{instruction} descriptor {bits}" if bits else f"no {instruction} descriptor", f"  {_words(descriptor)}"]
    lines += [f"  {problem}" for problem in problems]
    document: dict[str, Any] = {"bits": bits, "fields": asdict(descriptor), "problems": problems, "ok": not problems}
    if arguments.map is not None:
        feeds = _feeds(arguments, descriptor, device)
        document |= {"feeds": feeds, "ok": not problems and feeds["ok"]}
        fed = f"the loads put every element where the instruction reads it ({feeds['proof']})"
        lines.append(f"  {fed if feeds['ok'] else 'the loads do not feed it: ' + feeds['why']}")
    return document, lines


def _found(arguments: argparse.Namespace, device: Target) -> tuple[dict[str, Any], list[str]]:
    """The descriptors of an operand whose rows lie `--row-bytes` apart."""
    from tilewright.legal.descriptor.shared_operand import depth_step, encode
    from tilewright.legal.descriptor.shared_operand_fit import NotEncodable, descriptor_for, strided_layout

    if arguments.bits is not None or arguments.leading is not None or arguments.stride is not None:
        raise TilewrightError("--row-bytes looks for a descriptor, and one is given", remedy="give one of the two")
    size = _element_bytes(arguments)
    rows, depth = _number(arguments, "rows"), _optional(arguments, "depth") or depth_step(size, device)
    start, pitch = _optional(arguments, "start") or 0, _number(arguments, "row_bytes")
    if not (1 <= rows <= 1024 and 1 <= depth <= 4096):
        raise TilewrightError(f"an operand of {rows} x {depth}", remedy="give 1 to 1024 rows and a K of 1 to 4096")
    steps = (pitch, size) if arguments.major == "K" else (size, pitch)
    layout = strided_layout(rows, depth, *steps, start, _swizzle(arguments, device), device)
    found = descriptor_for(layout, size, device)
    if isinstance(found, NotEncodable):
        lines = ["no descriptor means this layout", *(f"  {reason}" for reason in found.reasons)]
        if found.swizzle_instead is not None:
            lines.append(f"  help: with swizzle {found.swizzle_instead} there is one")
        return {"descriptors": [], "reasons": list(found.reasons), "ok": False}, lines
    bits = [f"{encode(each, device):#018x}" for each in found.descriptors]
    lines = [f"{rows} x {depth}, {found.major}-major, swizzle {found.swizzle}: {len(bits)} step(s) of K"]
    lines += [f"  {each}: {_words(field)}" for each, field in zip(bits, found.descriptors, strict=True)]
    return {"descriptors": bits, "fields": [asdict(each) for each in found.descriptors], "ok": True}, lines


def _given(arguments: argparse.Namespace, device: Target) -> OperandDescriptor:
    from tilewright.legal.descriptor.shared_operand import OperandDescriptor, decode

    spelled = [name for name in _FIELDS if getattr(arguments, name) is not None]
    if arguments.bits is not None:
        if spelled or arguments.swizzle is not None:
            raise TilewrightError("bits and fields: more than one descriptor", remedy="give one of them")
        return decode(_whole("BITS", arguments.bits), device)
    if not spelled:
        raise TilewrightError("no descriptor is given", remedy="give its bits, or --start, --leading and --stride")
    start, leading, stride = (_number(arguments, name) for name in _FIELDS)
    return OperandDescriptor(start, leading, stride, _swizzle(arguments, device), _number(arguments, "base_offset"))


def _swizzle(arguments: argparse.Namespace, device: Target) -> Any:
    from tilewright.legal.descriptor.shared_operand import instruction_of
    from tilewright.legal.tensor_map.swizzle_code import operand_swizzles

    mode, known = arguments.swizzle or "none", operand_swizzles(instruction_of(device), device)
    if mode not in known:
        raise TilewrightError(f"--swizzle {mode!r} is no swizzle of {device.name}", remedy=f"use {', '.join(known)}")
    return mode


def _rules(arguments: argparse.Namespace, descriptor: OperandDescriptor, device: Target) -> list[str]:
    """The rules that an operand breaks, where its role says which hold."""
    from tilewright.base.element import Element
    from tilewright.legal.descriptor.matrix_descriptor import MatrixDescriptor, violations

    if arguments.role is None:
        return []
    asked = MatrixDescriptor(
        arguments.role, Element(_ELEMENTS[arguments.dtype or "bf16"]), arguments.major, descriptor.swizzle,
        _number(arguments, "rows"), descriptor.start_address, descriptor.leading_bytes, descriptor.stride_bytes,
        descriptor.base_offset,
    )  # fmt: skip
    return [f"{each.code} {each.name}: {each.message}" for each in violations(asked, device)]


def _feeds(arguments: argparse.Namespace, descriptor: OperandDescriptor, device: Target) -> dict[str, Any]:
    from tilewright.cli.tensormap.input import maps_of_json, numbers
    from tilewright.legal.descriptor.operand_feed import tma_feeds_mma
    from tilewright.legal.tensor_map.im2col_map import Im2colMap
    from tilewright.legal.tensor_map.tensor_map import TensorMap

    map, *others = maps_of_json(arguments.map)
    if others or not isinstance(map, TensorMap | Im2colMap):
        raise TilewrightError(f"{arguments.map}: not one tiled or im2col map in numbers", remedy="give one of them")
    given = arguments.destinations
    destinations = (descriptor.start_address,) if given is None else numbers("destinations", given)
    first = numbers("first", arguments.first)
    if len(first) != 2:
        raise TilewrightError(f"--first {arguments.first!r} is no ROW,K", remedy="write two numbers")
    return asdict(
        tma_feeds_mma(
            map, descriptor, device, major=arguments.major, destinations=destinations, first=(first[0], first[1]),
            rows=_optional(arguments, "rows"),
            element_bytes=None if arguments.dtype is None else _element_bytes(arguments),
        )
    )  # fmt: skip


def _element_bytes(arguments: argparse.Namespace) -> int:
    from tilewright.base.element import Element

    return Element(_ELEMENTS[arguments.dtype or "bf16"]).bytes


def _words(descriptor: OperandDescriptor) -> str:
    return (
        f"start address {descriptor.start_address:#x}, leading offset {descriptor.leading_bytes}, stride offset "
        f"{descriptor.stride_bytes}, swizzle {descriptor.swizzle}, base offset {descriptor.base_offset}"
    )


def _number(arguments: argparse.Namespace, name: str) -> int:
    found = _optional(arguments, name)
    if found is None:
        raise TilewrightError(f"--{name.replace('_', '-')} missing", remedy="give it, in bytes or elements")
    return found


def _optional(arguments: argparse.Namespace, name: str) -> int | None:
    text = getattr(arguments, name)
    return None if text is None else _whole(f"--{name.replace('_', '-')}", text)


def _whole(option: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise TilewrightError(f"{option} {text!r} is no whole number", remedy="write 1024 or 0x400") from None
