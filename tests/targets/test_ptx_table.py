"""The instruction table against the ISA's grammar, and against ptxas: every row's example, every form's spellings."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.ptx.reader import read
from tilewright.targets.ptx import Form, InstructionRow, OperandShape, check, instruction_row, ptx_table
from tilewright.targets.ptx_fragment import fragment_registers

ROWS = ptx_table().rows
REGISTER, ADDRESS, INTEGER = OperandShape("register"), OperandShape("address"), OperandShape("integer")


def test_every_row_has_a_source_and_its_own_example() -> None:
    assert len(ROWS) > 140
    assert max(key.count(".") + 1 for key in ROWS) <= 6
    for key, row in ROWS.items():
        assert row.source.startswith("PTX ISA "), key
        assert row.example.endswith(";"), key
        assert row.forms, key
        assert instruction_row(row.example.rstrip(";").split()[0])[0] is row, key


@pytest.mark.parametrize(
    ("opcode", "key", "modifiers"),
    [
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster",
            "cp.async.bulk.tensor",
            ("2d", "shared::cluster", "global", "tile", "mbarrier::complete_tx::bytes", "multicast::cluster"),
        ),
        ("mbarrier.arrive.expect_tx.shared::cta.b64", "mbarrier.arrive.expect_tx", ("shared::cta", "b64")),
        ("mbarrier.arrive.noComplete.shared.b64", "mbarrier.arrive", ("noComplete", "shared", "b64")),
        ("mbarrier.try_wait.parity.shared::cta.b64", "mbarrier.try_wait", ("parity", "shared::cta", "b64")),
        (
            "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
            "wgmma.mma_async",
            ("sync", "aligned", "m64n256k16", "f32", "bf16", "bf16"),
        ),
        ("cp.async.bulk.wait_group.read", "cp.async.bulk.wait_group", ("read",)),
        ("cp.async.cg.shared.global", "cp.async", ("cg", "shared", "global")),
        ("fence.proxy.async.shared::cta", "fence.proxy.async", ("shared::cta",)),
        ("fence.acq_rel.gpu", "fence", ("acq_rel", "gpu")),
    ],
)
def test_row_is_the_longest_prefix(opcode: str, key: str, modifiers: tuple[str, ...]) -> None:
    row, found = instruction_row(opcode)
    assert (row.key, found) == (key, modifiers)


@pytest.mark.parametrize(
    ("opcode", "shapes", "modifiers"),
    [
        ("atom.global.acq_rel.gpu.cas.b32", (REGISTER, ADDRESS, REGISTER, REGISTER), "acq_rel gpu global cas b32"),
        ("ld.global.acquire.gpu.b32", (REGISTER, ADDRESS), "acquire gpu global b32"),
        ("cvt.f32.s32.rn", (REGISTER, REGISTER), "rn f32 s32"),
    ],
)
def test_other_orders_are_put_in_the_isas(opcode: str, shapes: tuple[OperandShape, ...], modifiers: str) -> None:
    assert check(opcode, shapes)[1] == tuple(modifiers.split())


@pytest.mark.parametrize(
    ("opcode", "shapes", "message"),
    [
        ("mbarier.init.b64", (), "mbarier.init.b64 is not an instruction"),
        ("ld.gloabl.b32", (REGISTER, ADDRESS), "modifier .gloabl"),
        ("ld.global", (REGISTER, ADDRESS), "lacks a modifier"),
        ("cvt.s32.f32.rn", (REGISTER, REGISTER), "cvt.s32.f32.rn"),
        ("mma.sync.aligned.m16n8k16.col.row.f32.bf16.bf16.f32", (), "modifier .col"),
        ("cp.async.bulk.global.shared::cluster.bulk_group", (ADDRESS, ADDRESS, REGISTER), "modifier .shared::cluster"),
        ("add.s32", (REGISTER, REGISTER), "has 2 operands"),
        ("add.s32", (REGISTER, REGISTER, OperandShape("symbol")), "does not take operands of these kinds"),
        ("ld.shared.b32", (REGISTER, REGISTER), "does not take operands of these kinds"),
        ("ld.shared.v4.b32", (OperandShape("vector", 2), ADDRESS), "does not take operands of these kinds"),
        ("ld.shared.b32", (OperandShape("vector", 2), ADDRESS), "does not take operands of these kinds"),
        (
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes",
            (ADDRESS, OperandShape("tensor", 2), ADDRESS),
            "does not take operands of these kinds",
        ),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
            (ADDRESS, OperandShape("tensor", 2), ADDRESS),
            "has 3 operands",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16",
            (OperandShape("vector", 4), REGISTER, REGISTER, REGISTER, INTEGER, INTEGER, INTEGER, INTEGER),
            "fragment d of",
        ),
        ("mbarrier.arrive.release.cluster.shared::cluster.b64", (REGISTER, ADDRESS), "does not take operands"),
    ],
)
def test_refusals_name_what_is_wrong(opcode: str, shapes: tuple[OperandShape, ...], message: str) -> None:
    span = Span("kernel.ptx", 3, 5, "the line")
    with pytest.raises(TilewrightError, match=re.escape(message)) as caught:
        check(opcode, shapes, span=span)
    assert caught.value.span == span
    assert caught.value.remedy


def test_a_scale_factor_is_an_operand_where_a_modifier_says_so() -> None:
    scaled, plain = "cvt.rn.scaled::n2::ue8m0.bf16x2.e5m2x2", "cvt.rn.satfinite.relu.bf16x2.e4m3x2"
    assert check(scaled, (REGISTER,) * 3, (9, 2), ("sm_100a",))[0].key == "cvt"
    assert check(plain, (REGISTER,) * 2, (9, 2), ("sm_100a",))[0].key == "cvt"
    with pytest.raises(TilewrightError, match="has 2 operands"):
        check(scaled, (REGISTER,) * 2, (9, 2), ("sm_100a",))


def test_version_and_target_are_checked() -> None:
    shapes = (REGISTER, INTEGER)
    assert check("elect.sync", (OperandShape("pair"), INTEGER), (8, 0), ("sm_90a",))[0].key == "elect.sync"
    with pytest.raises(TilewrightError, match=r"needs PTX 8\.0; the module says 7\.8"):
        check("elect.sync", (OperandShape("pair"), INTEGER), (7, 8), ("sm_90",))
    with pytest.raises(TilewrightError, match="does not exist for sm_90"):
        check("setmaxnreg.dec.sync.aligned.u32", shapes[1:], (8, 0), ("sm_90",))
    with pytest.raises(TilewrightError, match="does not exist for sm_80"):
        check("mapa.u32", (REGISTER, REGISTER, REGISTER), (8, 0), ("sm_80",))
    assert check("mapa.u32", (REGISTER, REGISTER, REGISTER), (8, 0), ("sm_100",))[1] == ("u32",)


@pytest.mark.parametrize(
    ("opcode", "registers"),
    [
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", (128, 4)),
        ("wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16", (16, 4)),
        ("wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e5m2", (64, 4)),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", (4, 4, 2, 4)),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", (4, 4, 2, 4)),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", (2, 1, 1, 2)),
        ("add.s32", ()),
    ],
)
def test_fragment_registers(opcode: str, registers: tuple[int, ...]) -> None:
    row, modifiers = instruction_row(opcode)
    assert fragment_registers(row.key, modifiers) == registers


# ---------------------------------------------------------------- against ptxas


# The PTX that each release of ptxas reads.
RELEASES = {
    (12, 6): (8, 5),
    (12, 7): (8, 6),
    (12, 8): (8, 7),
    (12, 9): (8, 8),
    (13, 0): (9, 0),
    (13, 1): (9, 1),
    (13, 2): (9, 2),
    (13, 3): (9, 3),
    (13, 4): (9, 4),
}


def _assemblers() -> dict[tuple[int, int], Path]:
    """Every ptxas that is installed, in the environment or beside it, by the newest PTX version that it reads."""
    spec = find_spec("nvidia")
    roots = spec.submodule_search_locations or () if spec is not None else ()
    paths = [Path(root) / "cuda_nvcc" / "bin" / "ptxas" for root in roots]
    paths += [Path(found) for found in (shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas") if found]
    found: dict[tuple[int, int], Path] = {}
    for path in paths:
        if not path.exists():
            continue
        says = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False).stdout
        release = re.search(r"release (\d+)\.(\d+)", says)
        if release is not None and (newest := RELEASES.get((int(release[1]), int(release[2])))):
            found[newest] = path
    return found


ASSEMBLERS = _assemblers()
NEWEST = max(ASSEMBLERS, default=(0, 0))
PTXAS = ASSEMBLERS.get(NEWEST)
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")


def _module(lines: list[str], version: tuple[int, int], target: str) -> str:
    wide = ".reg .b128 %q<3>;" if version >= (8, 3) else ""
    body = "\n".join(lines)
    return f""".version {version[0]}.{version[1]}
.target {target}, texmode_independent
.address_size 64
.global .texref texture; .global .samplerref sampler; .global .surfref surface;
.func (.param .b32 out) callee(.param .b32 in) {{ .reg .b32 %r<2>; ld.param.b32 %r1, [in]; st.param.b32 [out], %r1; }}
.visible .entry kernel() .reqntid 128, 1, 1 .maxnreg 168
{{
.reg .b16 %rs<10>; .reg .b32 %r<10>; .reg .b64 %rd<10>; .reg .f32 %f<10>; .reg .f64 %fd<10>; .reg .pred %p<5>; {wide}
.param .b32 in; .param .b32 out;
table: .branchtargets done;
{body}
done:
ret;
}}
"""


def _refused_lines(text: str, target: str, folder: Path) -> dict[int, str]:
    """What ptxas says against each line of `text`."""
    source = folder / "module.ptx"
    source.write_text(text)
    done = subprocess.run(
        [str(PTXAS), f"-arch={target}", "-o", str(folder / "module.cubin"), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[int, str] = {}
    for line in (done.stdout + done.stderr).splitlines():
        match = re.search(r"line (\d+); (?:error *: |fatal *: (?=Parsing error))(.*)", line)
        if match is not None:
            found.setdefault(int(match[1]), match[2])
    return found


def _build(form: Form) -> tuple[tuple[int, int], str]:
    """The least version and a target that have a form."""
    if not form.targets or any(re.fullmatch(r"sm_[3-8]\d|sm_90a?", name) for name in form.targets):
        return max((8, 0), form.ptx), "sm_90a"
    for name, target, version in (("sm_100", "sm_100a", (8, 6)), ("sm_103", "sm_103a", (8, 8))):
        if any(wanted.startswith(name) for wanted in form.targets):
            return max(version, form.ptx), target
    return max((8, 7), form.ptx), "sm_120a"


@needs_ptxas
def test_ptxas_assembles_every_example(tmp_path: Path) -> None:
    by_build: dict[tuple[tuple[int, int], str], list[str]] = {}
    for row in ROWS.values():
        by_build.setdefault(_build(row.forms[0]), []).append(row.example)
    for (version, target), examples in by_build.items():
        # A later version than the least, so that one module holds the examples of several forms of a row.
        text = _module(examples, max(version, (8, 6)), target)
        assert read(text).kernels[0].name == "kernel"
        if version <= NEWEST:
            assert not _refused_lines(text, target, tmp_path)


_TYPE = re.compile(r"(?:pred|(?:b|u|s|f|bf|tf)(8|16|32|64|128)(?:x2)?|e[45]m[23]x2)")
_BANK = {"8": "%rs", "16": "%rs", "32": "%r", "64": "%rd", "128": "%q"}
# Rows whose addresses are those of tensor memory.
TENSOR_MEMORY = ("tcgen05.ld", "tcgen05.st", "tcgen05.cp", "tcgen05.shift", "tcgen05.mma")
# Coordinates are written in vectors of 1, 2 or 4.
TEXTURE_COORDINATES = {
    "1d": 1,
    "2d": 2,
    "3d": 4,
    "a1d": 2,
    "a2d": 4,
    "cube": 4,
    "acube": 4,
    "2dms": 4,
    "a2dms": 4,
}
TEXTURE_GRADIENTS = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2, "3d": 4, "cube": 4, "acube": 4}
# Sizes that an instruction takes as constants.
_CONSTANTS = {"cp.async": "16", "wgmma.mma_async": "1", "setmaxnreg": "128", "discard": "128", "applypriority": "128"}


def _register(kind: str, number: int) -> str:
    match = _TYPE.fullmatch(kind)
    if kind == "pred":
        return f"%p{number % 4 + 1}"
    if kind in ("f32", "f64"):
        return f"%f{'d' if kind == 'f64' else ''}{number}"
    if kind.startswith("e"):
        return f"%rs{number}"
    if kind.endswith("x2"):
        return f"%rd{number}" if kind == "f32x2" else f"%r{number}"
    width = match[1] if match is not None else "32"
    return f"{_BANK[width]}{number % 2 + 1 if width == '128' else number}"


def _spelling(row: InstructionRow, form: Form, modifiers: tuple[str, ...]) -> str:
    default = "b64" if row.key == "st.bulk" else "b32"
    types = [modifier for modifier in modifiers if _TYPE.fullmatch(modifier)] or [default]
    length = next((int(name[1]) for name in modifiers if re.fullmatch(r"[vx][1248]", name)), 0)
    sizes = fragment_registers(row.key, modifiers)
    fragments = list(sizes)
    operands: list[str] = []
    for number, group in enumerate(form.operands, 1):
        if (group.present_with and group.present_with.isdisjoint(modifiers)) or not group.required:
            continue
        match group.kinds[0]:
            case "destination" if row.key == "setp":
                operands.append("%p2|%p3" if types[0].endswith("x2") else "%p2")
            case "destination":
                operands.append(_register(types[0], number))
            case "sink":
                operands.append("_")
            case "pair":
                operands.append("_|%p1" if row.key == "elect.sync" else "%r1|%p1" if row.key != "lop3" else "%r1|%p2")
            case "source" | "symbolic" if group.present_with:
                operands.append("%rs5" if "multicast::cluster" in group.present_with else "%rd5")
            case "source" | "symbolic":
                operands.append("%rd3" if row.key.startswith("wgmma") else _register(types[-1], number))
            case "loaded" | "stored" if length:
                operands.append("{" + ", ".join(_register(types[-1], item + 1) for item in range(length)) + "}")
            case "loaded" | "stored":
                operands.append(_register(types[-1], number))
            case "registers" | "vector":
                is_first, is_last = len(fragments) == len(sizes), len(fragments) == 1
                is_gradient = row.key == "tex" and number > 2
                gradient = max(TEXTURE_GRADIENTS.get(name, 0) for name in modifiers) if is_gradient else 0
                count = fragments.pop(0) if fragments else gradient or length or 2
                is_f32 = (is_first and types[0] == "f32") or (is_last and types[-1] == "f32")
                kind = "f64" if "f64" in types else "f32" if is_f32 else "b32"
                operands.append("{" + ", ".join(_register(kind, item % 9 + 1) for item in range(count)) + "}")
            case "immediate":
                default = "128" if "proxy" in row.key else "0"
                operands.append(_CONSTANTS.get(row.key, default))
            case "part":
                operands.append(f"%r{number}")
            case "predicate" | "negatable":
                operands.append("%p1")
            case "tensor":
                if "tile::gather4" in modifiers or "tile::scatter4" in modifiers:
                    rank = 5
                else:
                    rank = next(int(name[0]) for name in modifiers if re.fullmatch(r"[1-5]d", name))
                operands.append("[%rd1, {" + ", ".join(["%r1"] * rank) + "}]")
            case "texture":
                geometry = next(name for name in modifiers if name in TEXTURE_COORDINATES)
                sampler = "sampler, " if row.key in ("tex", "tld4") else ""
                kind = "%f1" if row.key in ("tex", "tld4") and types[-1] == "f32" else "%r1"
                first = "%r1" if geometry[0] == "a" else kind
                coordinates = ", ".join([first, *[kind] * (TEXTURE_COORDINATES[geometry] - 1)])
                operands.append("[%rd1, " + sampler + "{" + coordinates + "}]")
            case "address" if "param::func" in modifiers:
                operands.append("[out]" if row.key == "st" else "[in]")
            case "address":
                operands.append("[%r1]" if row.key.startswith(TENSOR_MEMORY) else "[%rd1]")
            case kind:
                raise AssertionError(f"{row.key}: no operand of kind {kind} is made here")
    return f"{'.'.join((row.key, *modifiers))} {', '.join(operands)};"


def _samples(form: Form) -> Iterator[tuple[str, ...]]:
    """Each alternative once with the other groups at their least, and twenty spellings at random."""
    least = [min(group.alternatives) if group.required else "" for group in form.modifiers]
    choice = random.Random(len(form.modifiers))
    for index, group in enumerate(form.modifiers):
        for name in sorted(group.alternatives):
            yield tuple(word for word in (*least[:index], name, *least[index + 1 :]) if word)
    for _ in range(20):
        words = [
            choice.choice(sorted(group.alternatives)) if group.required or choice.random() < 0.5 else ""
            for group in form.modifiers
        ]
        yield tuple(word for word in words if word)


@needs_ptxas
def test_ptxas_knows_every_form(tmp_path: Path) -> None:
    """No spelling of a form draws an error about its modifiers, version or target from ptxas.

    Errors about the registers chosen here ("Arguments mismatch") say nothing of the table.
    """
    control_flow = {"bra", "brx.idx", "call"}
    wrong: list[str] = []
    by_build: dict[tuple[tuple[int, int], str], list[str]] = {}
    for key, row in ROWS.items():
        for form in row.forms if key not in control_flow else ():
            lines = by_build.setdefault(_build(form), [])
            lines += [_spelling(row, form, modifiers) for modifiers in sorted(set(_samples(form)))]
    for (version, target), lines in by_build.items():
        if version > NEWEST:
            continue
        text = _module(lines, version, target)
        first = text.split("\n").index(lines[0]) + 1
        for line, message in _refused_lines(text, target, tmp_path).items():
            if not message.startswith("Arguments mismatch"):
                wrong.append(f"{lines[line - first]}  {message}")
    assert not wrong, "\n".join(wrong[:20])
