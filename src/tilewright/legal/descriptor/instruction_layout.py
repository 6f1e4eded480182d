"""Which place holds which element of an instruction's operand, by the instruction's name?

    instruction_layout("wgmma.m64n128k16", "C").layout(register=3, lane=5, warp=1)    # {'row': 25, 'column': 3}

Registers: `mma.m16n8k16.bf16`, `wgmma.m64n128k16`, `ldmatrix.x4.trans`, `stmatrix.x2`, `tcgen05.ld.16x256b.x8` and
`mfma.32x32x8.bf16` map "register" (the element among those that a thread holds, in order; narrow ones share one
register), "lane" and "warp" (of a warpgroup) to the element's "row" and "column", of tensor memory to "tensor_lane" and
"tensor_column". Row of ldmatrix and stmatrix is the line whose address the lane of that number gives.
Memories: the accumulator of `tcgen05.mma.cta_group::1.m128n256k16`, and its A in tensor memory, map "row" and "column"
to the place; so do A and B in shared memory, `wgmma.m64n128k16` operand `B.K.128B` (major, swizzle), in bytes from the
start; `tma.swizzle.128B` operand `shared` a box's "byte" and "row"; `ds_read_b128` and other accesses operand `lanes`
"slot" and "group", lanes that are served together, to "lane".

The layout is linear over F2 where sizes are powers of two, and a hierarchy of named levels elsewhere (wgmma of N 24).
Rows: targets/data/fragments.toml, by formulas of the PTX ISA and AMD's calculator.

Not handled: sparse operands and their metadata, block scales, K of 96; integer wgmma takes fewer N than the table has
(`legal.descriptor.matrix_descriptor`). Checked by tests/legal/descriptor/test_instruction_layout.py against the
machine's fragments, of which an H200 confirmed those of sm_90a, and by bench/peers_linear.py against Triton's layouts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import cast

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Swizzle
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.hierarchy import Hierarchy, Level, Mode, linear_of
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.linear.parts import rename, transpose_inputs
from tilewright.legal.bank.access_kind import AccessKind, access_kind
from tilewright.legal.descriptor.matrix_descriptor import Major
from tilewright.legal.descriptor.shared_places import operand_places, served_lanes, swizzle_layout
from tilewright.legal.tensor_map.enumerations import SWIZZLES
from tilewright.targets import BANK_TARGET_NAMES, TARGET_NAMES, Target
from tilewright.targets import target as target_by_name
from tilewright.targets.fragment_table import FragmentRow, fragment_aliases, fragment_instructions, fragment_row

_IMMATERIAL = re.compile(r"\.(?:sync|aligned|shared|b16|b8|mma_async|row\.col)(?=\.|$)|::cta(?!_)")
_SHARED_OPERAND = re.compile(r"([AB])\.(K|MN)\.(\w+)")
_SHARED_INSTRUCTIONS = ("wgmma", "tcgen05")
_TMA = "tma.swizzle."
_ACCESSES = ("ld", "st", "ds_")
"""How accesses of shared memory begin, of which the lanes have a layout."""


@dataclass(frozen=True, slots=True)
class InstructionLayout:
    """One operand's layout. name, operand: as the table has them; source: the document; targets: those that have it.

    layout: linear over F2, or a hierarchy of levels where a size is no power of two.
    """

    name: str
    operand: str
    layout: LinearLayout | Hierarchy
    source: str
    targets: tuple[str, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the places, the innermost first."""
        return tuple(self.layout.input_sizes)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what they map to."""
        return tuple(self.layout.output_sizes)


def instruction_layout(name: str, operand: str, target: Target | str | None = None) -> InstructionLayout:
    """The layout of an operand; names and operands as `instruction_names` and `operands_of` list them.

    target: whose facts, by default of the first that has the instruction. Raises TilewrightError, naming the nearest,
    for names that are none, and where the target lacks the instruction.
    """
    facts = target_by_name(target) if isinstance(target, str) else target
    plain = _canonical(name)
    if plain.startswith(_TMA):
        return _swizzle(plain, operand, facts)
    if plain in fragment_instructions():
        return _of_instruction(plain, operand, facts)
    if operand == "lanes":
        return _of_access(name, facts)
    raise _unknown(name, plain)


def _unknown(name: str, plain: str) -> TilewrightError:
    near = get_close_matches(plain, instruction_names(), n=1, cutoff=0.5)
    return TilewrightError(
        f"no layouts of an instruction {name!r}",
        remedy=f"did you mean {near[0]!r}?" if near else "such as wgmma.m64n128k16 or ldmatrix.x4",
    )


@lru_cache(maxsize=8)
def instruction_names(target: str | None = None) -> tuple[str, ...]:
    """Every instruction with a layout, of one target or of all."""
    fragments = [each.name for each in fragment_instructions().values() if target is None or target in each.targets]
    swizzles = [f"{_TMA}{each}" for each in SWIZZLES if each != "none" and _has_swizzle(each, target)]
    return (*fragments, *swizzles)


def operands_of(name: str) -> tuple[str, ...]:
    """The operands of an instruction that have layouts. Raises TilewrightError as `instruction_layout` does."""
    plain = _canonical(name)
    if plain.startswith(_TMA):
        return ("shared",)
    instruction = fragment_instructions().get(plain)
    if instruction is None:
        if not plain.startswith(_ACCESSES):
            raise _unknown(name, plain)
        access_kind(name)
        return ("lanes",)
    own = tuple(operand for operand, _ in instruction.operands)
    if plain.partition(".")[0] == "wgmma" or plain.startswith("tcgen05.mma"):
        majors = [f"{matrix}.{major}.{swizzle}" for matrix in "AB" for major in ("K", "MN") for swizzle in SWIZZLES]
        return (*own, *(each for each in majors if _readable(plain, each)))
    return (*own, "lanes") if plain.partition(".")[0] in ("ldmatrix", "stmatrix") and "m8n8" in plain else own


@lru_cache(maxsize=512)
def _of_row(row: FragmentRow) -> LinearLayout | Hierarchy:
    outputs = tuple(name for name, _ in row.outputs)
    levels = tuple(
        Level(
            level,
            tuple(Mode(extent, tuple(step if output == name else 0 for name in outputs))
                  for extent, output, step in digits if extent > 1),
        )
        for level, digits in row.levels
    )  # fmt: skip
    hierarchy = Hierarchy(levels, row.outputs)
    linear = linear_of(hierarchy)
    return hierarchy if isinstance(linear, NotExpressible) else linear


def _of_instruction(plain: str, operand: str, facts: Target | None) -> InstructionLayout:
    instruction = fragment_instructions()[plain]
    if facts is not None and facts.name not in instruction.targets:
        raise TilewrightError(f"{facts.name} has no {plain}; {' and '.join(instruction.targets)} have it")
    if operand in dict(instruction.operands):
        row = fragment_row(plain, operand)
        return InstructionLayout(plain, operand, _of_row(row), row.source, row.targets)
    if (found := _SHARED_OPERAND.fullmatch(operand)) and plain.startswith(_SHARED_INSTRUCTIONS):
        chosen = facts or target_by_name(instruction.targets[0])
        return _in_shared_memory(plain, found, chosen)
    if operand == "lanes" and "m8n8" in plain:
        return _of_access(plain, facts)
    raise TilewrightError(
        f"{plain} has no layout of operand {operand!r}", remedy=f"it has {', '.join(operands_of(plain))}"
    )


def _in_shared_memory(plain: str, operand: re.Match[str], target: Target) -> InstructionLayout:
    matrix, major, swizzle = operand.groups()
    if swizzle not in SWIZZLES:
        raise TilewrightError(f"no swizzle {swizzle!r}", remedy=f"one of {', '.join(SWIZZLES)}")
    numbers = dict(fragment_instructions()[plain].parameters)
    depth = int(numbers["k"])
    row_of = "tcgen05.operand_row_bytes" if target.supports("tcgen05") else "wgmma.k_bytes"
    element_bytes, rest = divmod(target.limit(row_of), depth)
    if rest:
        raise TilewrightError(f"{plain}: elements below 8 bits have no layout in shared memory here")
    rows = int(numbers["m" if matrix == "A" else "n"]) // int(numbers.get("g", 1))
    places = operand_places(
        rows, depth, element_bytes, cast("Major", major), swizzle, target
    )  # fmt: skip
    if matrix == "A":
        layout = rename(places, {"depth": "column"})
    else:
        layout = transpose_inputs(rename(places, {"row": "column", "depth": "row"}), ("row", "column"))
    source = f"PTX ISA, {plain.partition('.')[0]}: Canonical layouts"
    return InstructionLayout(plain, operand[0], layout, source, (target.name,))


def _swizzle(plain: str, operand: str, facts: Target | None) -> InstructionLayout:
    swizzle = plain.removeprefix(_TMA)
    if swizzle not in SWIZZLES or operand != "shared":
        raise TilewrightError(
            f"no layout of {plain!r}, operand {operand!r}",
            remedy=f"{_TMA}128B, operand shared; the patterns are {', '.join(SWIZZLES[1:])}",
        )
    chosen = facts or _first_with(swizzle)
    layout = swizzle_layout(swizzle, chosen)
    return InstructionLayout(plain, operand, layout, "PTX ISA 5.5.7, Swizzling Modes", (chosen.name,))


def _of_access(name: str, facts: Target | None) -> InstructionLayout:
    kind = access_kind(name)
    chosen = facts or _first_that_serves(kind)
    layout = served_lanes(kind, chosen)
    if isinstance(layout, NotExpressible):
        raise TilewrightError(f"no layout of the lanes of {name}: {layout.reason}")
    return InstructionLayout(name, "lanes", layout, f"{chosen.name}: shared_access", (chosen.name,))


def _first_that_serves(kind: AccessKind) -> Target:
    """The oldest target that has instructions of the access's name."""
    data_share = kind.name.startswith("ds_")
    targets = map(target_by_name, BANK_TARGET_NAMES)
    return next(each for each in targets if each.fact("shared_access.data_share").value == data_share)


def _canonical(name: str) -> str:
    plain = _IMMATERIAL.sub("", name.strip())
    return fragment_aliases().get(plain, plain)


def _first_with(swizzle: Swizzle) -> Target:
    """The oldest target that has the pattern; the newest where none does, for its answer."""
    return target_by_name(next((name for name in TARGET_NAMES if _has_swizzle(swizzle, name)), TARGET_NAMES[-1]))


def _has_swizzle(swizzle: Swizzle, target: str | None) -> bool:
    if target is None:
        return True
    facts = target_by_name(target).facts.get("swizzle.xor_bits")
    return facts is not None and isinstance(facts.value, tuple) and SWIZZLES.index(swizzle) < len(facts.value)


def _readable(plain: str, operand: str) -> bool:
    try:
        instruction_layout(plain, operand)
    except TilewrightError:
        return False
    return True
