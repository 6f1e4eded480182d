"""What do the modifiers of a load, store or atomic operation say, whichever registers it names?

A text has a load of one form for each element that a thread takes, so what the words say is read once
(`Decoder.form`). Source: PTX ISA, `ld`, `ldu`, `st`, `atom`; Memory Consistency Model. Not handled: textures.
Checked by: tests/machine/instruction/test_memory_access.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import Modifiers, TypeName, expect_operands, unsupported
from tilewright.machine.core.event import MemoryOrder

_SPACES = (
    "shared", "shared::cta", "shared::cluster", "global", "const", "local", "param", "param::entry", "param::func",
)  # fmt: skip
ORDERS = ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio")
SCOPES = ("cta", "cluster", "gpu", "sys")
CACHE_WORDS = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc",
    "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
    "L2::evict_last", "L2::evict_normal", "L2::evict_first",
    "L2::64B", "L2::128B", "L2::256B", "unified",
)  # fmt: skip
Space = Literal["shared::cta", "shared::cluster", "global", "const", "param", "local", "generic"]

_STRONG: dict[str, MemoryOrder] = {
    "relaxed": "relaxed",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
    "volatile": "volatile",
    "mmio": "relaxed",
}


@dataclass(frozen=True, slots=True)
class Strength:
    """Memory order of an access and, unless it is weak or volatile, its scope. read_only: by the non-coherent path."""

    order: MemoryOrder = "weak"
    scope: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class AccessForm:
    """A load's or a store's row and modifiers. operands: how many it has; count: elements that it moves."""

    strength: Strength
    space: Space
    operands: int
    count: int
    element: TypeName


def space_of(instruction: Instruction, modifiers: Modifiers) -> Space:
    """Take the state-space modifier; none means generic addresses."""
    match modifiers.take(*_SPACES):
        case None:
            return "generic"
        case "shared" | "shared::cta":
            return "shared::cta"
        case "param" | "param::entry" | "param::func":
            return "param"
        case "shared::cluster" | "global" | "const" | "local" as space:
            return space
        case space:
            raise unsupported(instruction, f"state space .{space}")


def _strength(modifiers: Modifiers) -> Strength:
    """Take the memory-order, scope and cache modifiers, wherever they stand. `.mmio` is a relaxed access here."""
    order: MemoryOrder = "weak"
    scope = ""
    read_only = False
    while (word := modifiers.take(*ORDERS, *SCOPES, *CACHE_WORDS)) is not None:
        if word in SCOPES:
            scope = word
        elif word == "nc":
            read_only = True
        elif word in _STRONG and (word != "mmio" or order == "weak"):
            order = _STRONG[word]
    return Strength(order, scope, read_only)


def load_form(instruction: Instruction, modifiers: Modifiers) -> AccessForm:
    """What a `ld` or `ldu` says."""
    strength = _strength(modifiers)
    if instruction.row == "ldu":
        strength = replace(strength, read_only=True)
    space = space_of(instruction, modifiers)
    operands = len(expect_operands(instruction, 3 if modifiers.take("L2::cache_hint") else 2))
    return AccessForm(strength, space, operands, _count(modifiers), _element(instruction, modifiers))


def store_form(instruction: Instruction, modifiers: Modifiers) -> AccessForm:
    """What a `st` says."""
    strength = _strength(modifiers)
    space = space_of(instruction, modifiers)
    if space == "const":
        raise unsupported(instruction, f"stores to .{space}")
    if space == "param":
        space = "generic"  # the parameters of a call lie in the caller's local memory
    count = _count(modifiers)
    operands = len(expect_operands(instruction, 3 if modifiers.take("L2::cache_hint") else 2))
    return AccessForm(strength, space, operands, count, _element(instruction, modifiers))


def _count(modifiers: Modifiers) -> int:
    return {None: 1, "v2": 2, "v4": 4, "v8": 8}[modifiers.take("v2", "v4", "v8")]


def _element(instruction: Instruction, modifiers: Modifiers) -> TypeName:
    element = modifiers.take_type()
    if element.name == "pred":
        raise unsupported(instruction, f".{element.name} elements")
    return element
