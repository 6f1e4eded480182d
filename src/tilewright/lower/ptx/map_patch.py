"""How a kernel gives a tensor map another group's address, extents and strides, and lets the copy engine see it.

One warp does it, for one map: it keeps a copy of the template in shared memory (`stage_template`, once); for each
group one lane replaces the fields that differ (`replace_fields`), then the whole warp copies the 128 bytes to a slot in
global memory and releases them to the tensormap proxy (`publish`), and whoever issues copies through the slot acquires
them (`acquire`). A slot may be written again when every copy that used it is complete. The warp synchronizes between
`stage_template`, `replace_fields` and `publish`.

Sources: PTX ISA 9.7.9.28 (tensormap.replace; strides in bytes from PTX 8.5 on), 9.7.13.12 (tensormap.cp_fenceproxy),
9.7.13.4 (fence.proxy.tensormap). Checked by tests/lower/ptx/test_map_patch.py: the emitted text is proved, run on the
machine and, with a fence left out, refuted.
"""

from __future__ import annotations

from tilewright.ir.map_patch import MapPatch, Replacement
from tilewright.layout.numbers.condition import Comparison, Condition, Either, Every, names_of, sides
from tilewright.layout.numbers.integer_expression import IntegerExpression, Quotient
from tilewright.lower.ptx.emit import Text

PTX_VERSION = "8.5"
"""The first in which `tensormap.replace.global_stride` counts bytes."""

MAP_BYTES = 128
_LANE_BYTES = MAP_BYTES // 32


def stage_template(text: Text, parameter: str, staged: str, lane: str) -> None:
    """The warp copies the template, a parameter, to shared memory at `staged` (b32, aligned to 128); then synchronize.

    lane: b32 register, 0 to 31.
    """
    source = text.into("b64", "cvta.param.u64", text.into("b64", "mov.b64", parameter))
    offset = text.into("b32", "mul.lo.u32", lane, _LANE_BYTES)
    word = text.into(
        "b32", "ld.u32", f"[{text.into('b64', 'add.u64', source, text.into('b64', 'cvt.u64.u32', offset))}]"
    )
    text.emit("st.shared.u32", f"[{text.into('b32', 'add.u32', staged, offset)}]", word)


def replace_fields(text: Text, patch: MapPatch, record: str, staged: str) -> None:
    """One lane gives the staged map this group's fields. record: b64 register, generic address of the group's sizes.

    A group that breaks one of the patch's conditions is a trap, before anything is replaced.
    """
    sizes = {
        name: text.into("b64", "ld.u64", f"[{record}+{patch.offset_bytes(name)}]") for name in sorted(_names(patch))
    }
    for condition in patch.conditions:
        kept = _condition(text, condition, sizes)
        text.emit("trap", guard=f"!{kept}")
    for item in patch.replacements:
        _replace(text, item, staged, _value(text, item.value, sizes))


def _names(patch: MapPatch) -> set[str]:
    names = {name for item in patch.replacements for name in item.value.names}
    for condition in patch.conditions:
        names |= names_of(condition)
    return names


def _replace(text: Text, item: Replacement, staged: str, value: str) -> None:
    opcode = f"tensormap.replace.tile.{item.field}.shared::cta.b1024"
    match item.field:
        case "global_address":
            text.emit(f"{opcode}.b64", f"[{staged}]", value)
        case "global_stride":
            text.emit(f"{opcode}.b64", f"[{staged}]", item.index, value)
        case "global_dim":
            text.emit(f"{opcode}.b32", f"[{staged}]", item.index, text.into("b32", "cvt.u32.u64", value))


def publish(text: Text, slot: str, staged: str) -> None:
    """The whole warp, converged, copies the staged map to global memory and releases it to the tensormap proxy.

    slot: b64 register, global address, aligned to 128.
    """
    opcode = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
    text.emit(opcode, f"[{slot}]", f"[{staged}]", MAP_BYTES)


def acquire(text: Text, slot: str) -> None:
    """Who issues copies through the slot sees what was published there."""
    text.emit("fence.proxy.tensormap::generic.acquire.gpu", f"[{slot}]", MAP_BYTES)


def _value(text: Text, expression: IntegerExpression, sizes: dict[str, str]) -> str:
    """A b64 register with the value. `synth.operand.map_patch` has seen to it that nothing overflows or rounds
    otherwise."""
    total = ""
    for monomial, coefficient in expression.terms:
        product = ""
        for atom in monomial:
            match atom:
                case str():
                    factor = sizes[atom]
                case _:
                    opcode = "div.s64" if isinstance(atom, Quotient) else "rem.s64"
                    dividend, divisor = (_value(text, part, sizes) for part in (atom.dividend, atom.divisor))
                    factor = text.into("b64", opcode, dividend, divisor)
            product = factor if not product else text.into("b64", "mul.lo.s64", product, factor)
        if not product:
            product = text.into("b64", "mov.b64", coefficient)
        elif coefficient != 1:
            product = text.into("b64", "mul.lo.s64", product, coefficient)
        total = product if not total else text.into("b64", "add.s64", total, product)
    return total or text.into("b64", "mov.b64", 0)


def _condition(text: Text, condition: Condition, sizes: dict[str, str]) -> str:
    """A predicate register that says whether the condition holds."""
    match condition:
        case bool():
            return text.into("pred", "setp.eq.s32", int(condition), 1)
        case Comparison(expression, relation):
            left, symbol, right = sides(expression, relation)
            word = {"==": "eq", "!=": "ne", ">=": "ge", "<=": "le"}[symbol]
            return text.into("pred", f"setp.{word}.s64", _value(text, left, sizes), _value(text, right, sizes))
        case Every(parts) | Either(parts):
            opcode = "and.pred" if isinstance(condition, Every) else "or.pred"
            whole = _condition(text, parts[0], sizes)
            for part in parts[1:]:
                whole = text.into("pred", opcode, whole, _condition(text, part, sizes))
            return whole
