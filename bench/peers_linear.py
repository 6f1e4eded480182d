"""Do Triton's linear layouts answer what ours do?

Triton runs as a subject in an environment of its own (`--python`, one that has the wheel): this sends it cases,
compares answers, and prints how many are alike, by kind. Three sets: operations on layouts drawn at random; Gluon's
layouts of instructions against `legal.descriptor.instruction_layout`; and, with `--tests FILE...`, Triton's own tests,
run against ours (`bench.peers_linear_tests`).

Alike means equal as maps. Where Triton chooses one of several right answers, a different one of ours is counted apart
as `also right`, after checking it on every place.

Cases outside what Triton's binding accepts (it stops the process) are not sent: inverses of what has none.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.peers_linear_tests import expressed, matrix, run_python_tests, run_unit_tests
from tilewright.layout.linear.inverse import invert, invert_and_compose, pseudo_inverse
from tilewright.layout.linear.maps import (
    LinearLayout,
    apply,
    compose,
    equal,
    is_bijective,
    is_injective,
    is_surjective,
    linear_layout,
)
from tilewright.layout.linear.parts import product, sublayout
from tilewright.layout.numbers import bit_matrix
from tilewright.legal.descriptor.instruction_layout import instruction_layout, instruction_names

SUBJECT = Path(__file__).with_name("peers_linear_subject.py")
HEADING = "## Linear layouts"
_WORDS = """
Triton's linear layouts (wheel 3.9.0), asked through its Python binding, Gluon's layouts of instructions, and the tests
of facebookexperimental/triton, which holds Triton's own and more: expectations of its unit tests are read from the C++
where they are no loops. "Also right" counts answers that differ where several are right, each checked on every place;
the last column has the first that is neither, and for tests all of them. Sizes that are no power of two are no linear
layouts here: shapes with strides, hierarchies and pieces have them.

    python -m bench.peers_linear --python PYTHON --tests FILE... --page docs/layout-peers.md

writes what follows. `PYTHON` is one that has Triton.
"""
_WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f64": 64}


@dataclass(frozen=True, slots=True)
class Tally:
    """Of one kind of case: how many, answered alike, answered otherwise but right, and the first other."""

    kind: str
    cases: int
    alike: int
    also_right: int
    first_other: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """What is sent, and how an answer is judged: `alike`, `also right` or why not."""

    kind: str
    message: dict[str, Any]
    judge: Callable[[Any], str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--python", type=Path, required=True, help="interpreter of an environment with Triton")
    parser.add_argument("--cases", type=int, default=400, help="random cases of each operation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=Path, nargs="*", default=[], help="Triton's files of tests, .py and .cpp")
    parser.add_argument("--results", type=Path, default=None, help="folder for peers_linear.json")
    parser.add_argument("--page", type=Path, default=None, help=f"page whose section {HEADING!r} is written anew")


def run(arguments: argparse.Namespace) -> int:
    cases = [*random_cases(arguments.cases, arguments.seed), *instruction_cases()]
    tallies = compared(cases, arguments.python)
    tallies += [run_tests(each) for each in arguments.tests]
    print(table(tallies))
    if arguments.results is not None:
        rows = json.dumps([asdict(each) for each in tallies], indent=1)
        (arguments.results / "peers_linear.json").write_text(rows + "\n", "utf-8")
    if arguments.page is not None:
        write_section(arguments.page, tallies)
    return 0


def compared(cases: Sequence[Case], python: Path) -> list[Tally]:
    """The subject's answers to all cases, judged and counted by kind."""
    lines = "\n".join(json.dumps(each.message) for each in cases)
    finished = subprocess.run(
        [str(python), str(SUBJECT)], input=lines, capture_output=True, text=True, timeout=600, check=False
    )  # fmt: skip
    answers = [json.loads(line) for line in finished.stdout.splitlines()]
    if len(answers) != len(cases):
        raise RuntimeError(f"{len(answers)} answers to {len(cases)} cases: {finished.stderr[-2000:]}")
    verdicts: dict[str, list[str]] = {}
    for case, answer in zip(cases, answers, strict=True):
        verdicts.setdefault(case.kind, []).append(case.judge(answer))
    return [
        Tally(
            kind, len(found), found.count("alike"), found.count("also right"),
            next((each for each in found if each not in ("alike", "also right")), ""),
        )
        for kind, found in verdicts.items()
    ]  # fmt: skip


def random_cases(count: int, seed: int) -> list[Case]:
    """Operations on layouts drawn at random: of permutations of bits, of sums of few bits, and of any."""
    source = random.Random(seed)
    cases: list[Case] = []
    for _ in range(count):
        layout = _drawn(source, ("register", "lane"), ("x", "y"))
        places = [{name: source.randrange(size) for name, size in layout.input_sizes.items()} for _ in range(8)]
        cases.append(_case("apply", layout, [apply(layout, each) for each in places], places=places))
        own = [is_injective(layout), is_surjective(layout), is_bijective(layout)]
        cases.append(_case("properties", layout, own))
        cases.append(_case("matrix", layout, matrix(layout)))
        outer = _drawn(source, ("x", "y"), ("u", "v"), [bits for _, bits in layout.output_bits])
        cases.append(_layout_case("compose", layout, compose(outer, layout), outer=_sent(outer)))
        second = _drawn(source, ("lane", "warp"), ("y", "z"))
        cases.append(_layout_case("product", layout, product(layout, second), second=_sent(second)))
        square = _bijection(source)
        inverse = invert(square)
        assert isinstance(inverse, LinearLayout)
        cases.append(_layout_case("invert", square, inverse))
        onto = _onto(source)
        right = pseudo_inverse(onto)
        cases.append(_layout_case("pseudoinvert", onto, right, check=lambda found, onto=onto: _undoes(onto, found)))
        target = _onto(source)
        between = invert_and_compose(layout := _into(source, target), target)
        assert isinstance(between, LinearLayout)
        cases.append(
            _layout_case(
                "invert_and_compose", layout, between, target=_sent(target),
                check=lambda found, a=layout, b=target: equal(compose(b, found), a),
            )
        )  # fmt: skip
    return cases


def instruction_cases() -> list[Case]:
    """Gluon's layouts of instructions, at the extents of one instruction."""
    cases: list[Case] = []
    for name in instruction_names():
        words = name.split(".")
        match words[0]:
            case "mma" if words[2] in _WIDTHS and words[1] != "m8n8k4" and words[1].startswith("m16"):
                k = int(words[1].partition("k")[2])
                bits = _WIDTHS[words[2]]
                mma = {"version": [2, 0], "warps": [1, 1], "shape": [16, 8]}
                cases.append(_gluon("mma.sync D", "mma", name, "D", {**mma, "tile": [16, 8]}))
                # Gluon's operands are those of the shapes it issues: 32 bytes along K.
                if k * bits == 256:
                    width = max(1, 32 // bits)
                    cases.append(
                        _gluon("mma.sync A", "mma", name, "A", {**mma, "operand": 0, "width": width, "tile": [16, k]})
                    )
                    cases.append(
                        _gluon("mma.sync B", "mma", name, "B", {**mma, "operand": 1, "width": width, "tile": [k, 8]})
                    )
            case "wgmma":
                n, k = (int(each) for each in words[1].removeprefix("m64n").split("k"))
                if n & n - 1:
                    continue
                wgmma = {"version": [3, 0], "warps": [4, 1], "shape": [16, n, k]}
                cases.append(_gluon("wgmma D", "mma", name, "D", {**wgmma, "tile": [64, n]}))
                if k <= 32:
                    cases.append(
                        _gluon("wgmma A", "mma", name, "A", {**wgmma, "operand": 0, "width": k // 8, "tile": [64, k]})
                    )
            case "mfma":
                m, n, k = (int(each) for each in words[1].split("x"))
                mfma = {"version": 4, "shape": [m, n, k], "result_bits": 64 if words[2] == "f64" else 32}
                cases.append(_gluon("mfma D", "mfma", name, "D", {**mfma, "tile": [m, n]}))
                width = k * m // 64
                cases.append(
                    _gluon("mfma A", "mfma", name, "A", {**mfma, "operand": 0, "width": width, "tile": [m, k]})
                )
                cases.append(
                    _gluon("mfma B", "mfma", name, "B", {**mfma, "operand": 1, "width": width, "tile": [k, n]})
                )
            case _:
                pass
    return [*cases, *_swizzle_cases(), *_tensor_memory_cases()]  # fmt: skip


def run_tests(path: Path) -> Tally:
    """Triton's own tests in a file of Python or C++; `first other` names those that ours does not pass."""
    ran = run_python_tests(path) if path.suffix == ".py" else run_unit_tests(path)
    read = len(ran.held) + len(ran.failed)
    others = ", ".join(f"{name}: {why}" for name, why in ran.failed)
    unread = f"not read: {len(ran.unread)}" if ran.unread else ""
    outside = f"of sizes that are no power of two: {len(ran.outside)}" if ran.outside else ""
    return Tally(f"tests: {path.name}", read, len(ran.held), 0, "; ".join(filter(None, (others, unread, outside))))


def table(tallies: Sequence[Tally]) -> str:
    """The counts as a Markdown table."""
    lines = ["| kind | cases | alike | also right | first other |", "| --- | ---: | ---: | ---: | --- |"]
    lines += [
        f"| {each.kind} | {each.cases} | {each.alike} | {each.also_right} | {each.first_other.replace('|', ',')} |"
        for each in tallies
    ]
    cases, alike, right = (
        sum(numbers) for numbers in zip(*((t.cases, t.alike, t.also_right) for t in tallies), strict=True)
    )
    return "\n".join([*lines, f"| all | {cases} | {alike} ({alike / cases:.1%}) | {right} | |"])


def write_section(page: Path, tallies: Sequence[Tally]) -> None:
    """Replace the page's section by the counts; added at the end where it has none."""
    text = page.read_text("utf-8") if page.exists() else "# Layouts beside their peers\n"
    before, _, rest = text.partition(HEADING + "\n")
    after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
    section = f"{HEADING}\n{_WORDS}\n{table(tallies)}\n"
    page.write_text(before.rstrip() + "\n\n" + section + ("\n" + after if after else ""), "utf-8")


def _gluon(kind: str, operation: str, name: str, operand: str, given: dict[str, Any]) -> Case:
    own = instruction_layout(name, operand).layout
    assert isinstance(own, LinearLayout)

    def judge(answer: Any) -> str:
        if "refused" in answer:
            return f"{name} {operand}: refused, {answer['refused']}"
        theirs = _distributed(answer, given["tile"], list(own.input_sizes))
        return "alike" if equal(theirs, own) else f"{name} {operand}: {answer}"

    return Case(kind, {"operation": operation, "given": given}, judge)


def _distributed(answer: Any, tile: Sequence[int], inputs: Sequence[str]) -> LinearLayout:
    keys = {"register": "reg_bases", "lane": "lane_bases", "warp": "warp_bases"}
    bases = {name: answer[keys[name]] for name in inputs}
    # A tile smaller than the layout's own is repeated; what repeats it is no part of one instruction's operand.
    bases["register"] = [image for image in bases["register"] if any(image)]
    return linear_layout(bases, {"row": tile[0], "column": tile[1]})


def _swizzle_cases() -> list[Case]:
    """Gluon's shared layouts of one period against the copy engine's swizzles, in elements of each width."""
    cases: list[Case] = []
    for span in (32, 64, 128):
        for bits in (8, 16, 32):
            own = instruction_layout(f"tma.swizzle.{span}B", "shared").layout
            assert isinstance(own, LinearLayout)
            rows, columns = own.input_sizes["row"], span * 8 // bits
            given = {"span": span, "bits": bits, "transposed": False, "tile": [max(8, rows), columns]}

            def judge(answer: Any, own: LinearLayout = own, given: dict[str, Any] = given) -> str:
                if "refused" in answer:
                    return f"{given}: refused, {answer['refused']}"
                theirs = linear_layout(
                    {"offset": answer["offset_bases"]}, dict(zip(("row", "element"), given["tile"], strict=True))
                )  # fmt: skip
                return "alike" if _same_swizzle(theirs, own, given["bits"] // 8) else f"{given}: {answer}"

            cases.append(Case("swizzles", {"operation": "shared", "given": given}, judge))
    return cases


def _same_swizzle(theirs: LinearLayout, own: LinearLayout, element_bytes: int) -> bool:
    """Does every element stand at the byte that the copy engine gives its first byte? Past the pattern's period rows
    stand one after another."""
    period = own.cosize
    for offset in range(theirs.size):
        found = apply(theirs, {"offset": offset})
        tile, row = divmod(found["row"], own.input_sizes["row"])
        place = apply(own, {"row": row, "byte": found["element"] * element_bytes})
        if tile * period + place["offset"] != offset * element_bytes:
            return False
    return True


def _tensor_memory_cases() -> list[Case]:
    """Loads of whole accumulators: the layout of a load composed with the inverse of the accumulator's."""
    cases: list[Case] = []
    for shape, least in (("32x32b", 1), ("16x64b", 2), ("16x128b", 4), ("16x256b", 8)):
        for m in (64, 128):
            for n in (16, 32, 64, 128):
                if shape == "32x32b" and m == 64:
                    continue
                own = _loaded(shape, n // least, m, n)
                given = {"block": [m, n], "shape": shape, "tile": [m, n]}

                def judge(answer: Any, own: LinearLayout = own, given: dict[str, Any] = given) -> str:
                    if "refused" in answer:
                        return f"{given}: refused, {answer['refused']}"
                    theirs = _distributed(answer, given["tile"], ["register", "lane", "warp"])
                    return "alike" if equal(theirs, own) else f"{given}: {answer}"

                cases.append(Case("tcgen05.ld of D", {"operation": "tensor_move", "given": given}, judge))
    return cases


def _loaded(shape: str, repetitions: int, m: int, n: int) -> LinearLayout:
    """Registers, lanes and warps to rows and columns of D."""
    move = instruction_layout(f"tcgen05.ld.{shape}.x{repetitions}", "fragment").layout
    held = instruction_layout(f"tcgen05.mma.cta_group::1.m{m}n{n}k16", "D").layout
    assert isinstance(move, LinearLayout) and isinstance(held, LinearLayout)
    if shape != "32x32b" and m == 128:
        # Two instructions: the second, 16 lanes on, is the registers' highest bit.
        bits = dict(move.input_bits)["register"]
        bases = {name: list(images) for name, images in move.bases.items()}
        bases["register"] = [*bases["register"], (16, 0)]
        assert len(bases["register"]) == bits + 1
        move = linear_layout(bases, move.output_sizes)
    places = sublayout(held, ["row", "column"], ["tensor_lane", "tensor_column"])
    return expressed(invert_and_compose(move, places))


def _case(operation: str, layout: LinearLayout, own: Any, **more: Any) -> Case:
    return Case(operation, _message(operation, layout, **more), lambda answer: _told(answer, own))


def _told(answer: Any, own: Any) -> str:
    return "alike" if answer == own else f"{answer}, ours {own}"


def _layout_case(
    operation: str, layout: LinearLayout, own: LinearLayout, check: Callable[[LinearLayout], bool] | None = None,
    **more: Any,
) -> Case:  # fmt: skip
    def judge(answer: Any) -> str:
        if "refused" in answer:
            return f"refused, {answer['refused']}"
        theirs = linear_layout(dict(answer["bases"]), dict(answer["outputs"]))
        if equal(theirs, own):
            return "alike"
        if check is not None and check(own) and check(theirs):
            return "also right"
        return f"{theirs}, ours {own}"

    return Case(operation, _message(operation, layout, **more), judge)


def _message(operation: str, layout: LinearLayout, **more: Any) -> dict[str, Any]:
    return {"operation": operation, "layout": _sent(layout), **more}


def _sent(layout: LinearLayout) -> dict[str, Any]:
    return {"bases": list(layout.bases.items()), "outputs": list(layout.output_sizes.items())}


def _drawn(
    source: random.Random, inputs: Sequence[str], outputs: Sequence[str], least: Sequence[int] | None = None
) -> LinearLayout:
    in_bits = tuple(
        (name, (least[at] if least is not None else 0) + source.randint(0 if least is not None else 1, 3))
        for at, name in enumerate(inputs)
    )
    out_bits = tuple((name, source.randint(1, 4)) for name in outputs)
    rows = sum(bits for _, bits in out_bits)
    count = sum(bits for _, bits in in_bits)
    style = source.randrange(3)
    columns = [
        (1 << source.randrange(rows)) if style == 0 else
        (1 << source.randrange(rows) | 1 << source.randrange(rows)) if style == 1 else source.getrandbits(rows)
        for _ in range(count)
    ]  # fmt: skip
    return LinearLayout(in_bits, out_bits, tuple(columns))


def _bijection(source: random.Random) -> LinearLayout:
    while True:
        bits = (source.randint(1, 4), source.randint(1, 4))
        split = source.randint(1, sum(bits) - 1)
        columns = tuple(source.getrandbits(sum(bits)) for _ in range(sum(bits)))
        layout = LinearLayout((("register", bits[0]), ("lane", bits[1])),
                              (("x", split), ("y", sum(bits) - split)), columns)  # fmt: skip
        if is_bijective(layout):
            return layout


def _onto(source: random.Random) -> LinearLayout:
    """A layout that is onto, with inputs that repeat."""
    square = _bijection(source)
    rows = len(square.columns)
    extra = [source.getrandbits(rows) * source.randrange(2) for _ in range(source.randint(0, 2))]
    columns = [*square.columns, *extra]
    return LinearLayout((*square.input_bits, ("warp", len(extra))), square.output_bits, tuple(columns))


def _into(source: random.Random, target: LinearLayout) -> LinearLayout:
    """Another layout with the outputs of the target."""
    rows = sum(bits for _, bits in target.output_bits)
    names = (("lane", source.randint(1, 3)), ("slot", source.randint(1, 3)))
    count = sum(bits for _, bits in names)
    return LinearLayout(names, target.output_bits, tuple(source.getrandbits(rows) for _ in range(count)))


def _undoes(onto: LinearLayout, found: LinearLayout) -> bool:
    return compose(onto, found).columns == bit_matrix.identity(_rows(onto))


def _rows(layout: LinearLayout) -> int:
    return sum(bits for _, bits in layout.output_bits)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers_linear", description=(__doc__ or "").splitlines()[0])
    add_arguments(parser)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
