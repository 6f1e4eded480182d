"""Does every tensor that must be reached by a tensor map of its own have one, in every call that keeps the promises?

    @tw.kernel(by_map=("a", "b"), where="K % 8 == 0, N % 8 == 0")

An author who names a parameter in `by_map` wants no hidden copy: neither in the program that is compiled now, nor,
where something is promised of its axes (`tilewright.ir.refinement`), in another that the promise allows. The first is
read off the decisions; the second is proved for all sizes at once by `tilewright.legal.prove`, the extents' names being
the program's axes. What fails is an error at the line of the load or store, and says what to promise.

Taken for the same in every call: strides of arrays that are not dense, the box and the swizzle that were decided. Not
handled: operands computed elementwise, which are always copied. Checked by tests/synth/operand/test_demanded_maps.py.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import first_alike, load_number
from tilewright.ir.decisions import Decisions, ElementwiseDecisions, MapDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loads, parameter_name, stores
from tilewright.ir.tile.gather import read_tensor
from tilewright.ir.tile.types import MAX_TENSOR_ELEMENTS, TensorType, tensor_type
from tilewright.layout.numbers.condition import Condition, condition_text, every, is_zero, names_of, parts_of
from tilewright.layout.numbers.condition_facts import simplify
from tilewright.layout.numbers.integer_expression import variable
from tilewright.legal.symbolic.symbolic import prove
from tilewright.legal.symbolic.symbolic_map import Dim, SymbolicMap
from tilewright.targets import Target

_STORED_MULTIPLE_BYTES = 16
"""The copy engine clips what it stores in units of 16 bytes (`synth.cascade.boxed_store`)."""


@dataclass(frozen=True, slots=True)
class _Use:
    """One tensor as the kernel reaches it. map: None where it goes another way, for `reasons`."""

    name: str
    tensor: TensorType
    place: str
    map: MapDecision | None
    stored: bool


def check_demanded_maps(
    program: tile.ProgramOp, decisions: Decisions, target: Target, demanded: Collection[str]
) -> None:
    """Raises TilewrightError, at the author's line, where a demanded parameter has no tensor map of its own in this
    program, or may have none in another that keeps the promises."""
    if not demanded:
        return
    uses = _uses(program, decisions)
    for name in demanded:
        of_name = [use for use in uses if use.name == name]
        if not of_name:
            raise _error(
                program.place.data, f"{name} is read and written without the copy engine", "drop it from by_map"
            )
        for use in of_name:
            if use.map is None:
                why = "; ".join(decisions.reasons) or "the program has no product"
                raise _error(
                    use.place, f"{name} has no tensor map of its own: {why}", "change it, or drop it from by_map"
                )
            _require_for_all(use, use.map, target)


def _uses(program: tile.ProgramOp, decisions: Decisions) -> list[_Use]:
    """How each load of an operand and each store was decided."""
    uses: list[_Use] = []
    walk = decisions if isinstance(decisions, CascadeDecisions) else None
    brought = {} if walk is None else {slot.load: slot for slot in walk.slots if not slot.lookups}
    for load in loads(program):
        source = read_tensor(load.tensor)
        name = parameter_name(program, source)
        slot = brought.get(load_number(program, first_alike(program, load)))
        map = None if slot is None or slot.piece_bytes else slot.map
        uses.append(_Use(name, tensor_type(source), load.place.data, map, False))
    leaving = () if isinstance(decisions, ElementwiseDecisions) else decisions.stores
    stored = {item.parameter: item for item in leaving}
    for store in stores(program):
        name = parameter_name(program, store.tensor)
        decided = stored.get(name)
        map = None if decided is None else decided.map
        uses.append(_Use(name, tensor_type(store.tensor), store.place.data, map, True))
    return uses


def _require_for_all(use: _Use, map: MapDecision, target: Target) -> None:
    tensor = use.tensor
    facts = tensor.facts
    if facts.where is True:
        return
    axes = _axes_of(tensor, map)
    if axes is None:
        raise _error(
            use.place,
            f"{use.name} is reached by a tensor map of other dimensions than its own: not shown for other sizes",
            f"drop {use.name} from by_map, or promise nothing of its axes",
        )
    inner, outer = (tensor.axis_names.index(axis) for axis in axes)
    width = tensor.element_kind.bytes
    # The stride of a single row says nothing; row by row without gaps is what such an array has otherwise.
    dense = tensor.extents[outer] == 1 or tensor.stride_elements[outer] == tensor.extents[inner]
    sizes = tuple(Dim(axis, 1, MAX_TENSOR_ELEMENTS) for axis in axes)
    address = Dim(f"{use.name}_address", 0, 2**56, facts.address.modulus)
    symbolic = SymbolicMap(
        map.element,
        sizes,
        (sizes[0] * width if dense else tensor.stride_elements[outer] * width,),
        map.box,
        swizzle=map.swizzle,
        l2_promotion=map.l2_promotion,
        address=address,
        where=facts.where,
    )
    found = prove(symbolic, target)
    if found.guard is None:
        raise _error(use.place, f"{use.name} has no legal tensor map: {found.violated[0].message}", "promise otherwise")
    open_conditions = list(found.guard.conditions)
    if use.stored:
        whole = is_zero(variable(axes[0]) * width % _STORED_MULTIPLE_BYTES)
        open_conditions += parts_of(simplify(whole, facts.extents, frozenset(open_conditions)))
    if open_conditions:
        raise _open(use, every(open_conditions), facts.address.modulus)


def _axes_of(tensor: TensorType, map: MapDecision) -> tuple[str, str] | None:
    """The axes along the map's two dimensions, where it describes the array as it stands."""
    if len(tensor.axis_names) != 2 or len(map.dims) != 2:
        return None
    for inner, outer in ((1, 0), (0, 1)):
        contiguous = tensor.stride_elements[inner] == 1
        if contiguous and (tensor.extents[inner], tensor.extents[outer]) == map.dims:
            return tensor.axis_names[inner], tensor.axis_names[outer]
    return None


def _open(use: _Use, condition: Condition, alignment_bytes: int) -> TilewrightError:
    address = f"{use.name}_address"
    promised = condition_text(use.tensor.facts.where) if use.tensor.facts.where is not True else "nothing"
    on_axes = every(part for part in parts_of(condition) if address not in names_of(part))
    if on_axes is True:
        needs, remedy = (
            f"its address to be a multiple of more than {alignment_bytes} bytes",
            f"align={{{use.name!r}: 16}}",
        )
    else:
        needs, remedy = str(on_axes), f"where={condition_text(on_axes)!r}"
    return _error(
        use.place,
        f"a tensor map of {use.name} needs {needs} in every call; promised of its axes is {promised}",
        f"promise it, as in @tw.kernel({remedy}, ...), or drop {use.name} from by_map",
    )


def _error(place: str, message: str, remedy: str) -> TilewrightError:
    file, _, line = place.rpartition(":")
    return TilewrightError(message, span=Span(file, int(line)), remedy=remedy)
