"""Would the driver encode the tensor maps of a launch, and does the device take them?

A map that the driver refuses means that the kernel can't be launched so: an error at the parameter. What the driver
passes and the device does not is for review. Rules and numbers are `legal`'s. The buffer is taken to lie as its pointer
parameters say, 256-byte aligned where they say nothing.

The first error of a map comes with the cheapest repair: one that leaves the kernel's text as it is (rank, box, element,
swizzle), else any. The map was judged again; the kernel was not. Checked by: tests/driver/launch/test_map_findings.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.plan import OpaqueParam, Param, PointerParam, TensorMapParam
from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.targets import TARGET_NAMES, Target, target

if TYPE_CHECKING:
    from tilewright import legal
    from tilewright.legal.tensor_map.im2col_map import AnyMap

_TAGS = ("a", "f")


def map_findings(module: Module, kernel: Kernel, params: Sequence[Param | None]) -> tuple[Diagnostic, ...]:
    """What is wrong with the tensor maps of a launch; empty for a target that is not known. params: None where nothing
    is known of one."""
    facts = target_of(module)
    if facts is None:
        return ()
    found: list[Diagnostic] = []
    for parameter, param in zip(kernel.parameters, params, strict=False):
        for each in _maps(param):
            found += _of_map(each, f"parameter {parameter.name}", parameter.span, facts)
    return tuple(found)


def target_of(module: Module) -> Target | None:
    """The target table nearest to the module's `.target`: the same architecture, whatever its suffix."""
    for name in module.target:
        base = name.rstrip("".join(_TAGS))
        for known in TARGET_NAMES:
            if base == known.rstrip("".join(_TAGS)):
                return target(known)
    return None


def _maps(param: Param | None) -> Iterator[TensorMapParam]:
    match param:
        case TensorMapParam():
            yield param
        case OpaqueParam(fields=fields):
            for _, member in fields:
                yield from _maps(member)
        case PointerParam(maps=maps):
            for _, member in maps:
                yield from _maps(member)
        case _:
            return


def _of_map(param: TensorMapParam, what: str, span: Span, facts: Target) -> Iterator[Diagnostic]:
    from tilewright.legal.tensor_map.tensormap import cautions, violations  # few launches have maps

    repair = None
    for number, violation in enumerate((*violations(param.map, facts), *cautions(param.map, facts))):
        message = f"the tensor map of {what}: {violation.message}"
        level = Level.ERROR if violation.enforced else Level.REVIEW
        if number == 0 and violation.enforced:
            repair = _repair(param, facts)
        yield Diagnostic(
            violation.code,
            violation.name,
            message,
            span,
            source=violation.source,
            level=level,
            repair=repair if number == 0 else None,
        )


_READ_BY_THE_KERNEL = frozenset(("dtype", "box", "swizzle", "interleave"))
"""Fields of which the kernel's text depends: bytes, shared memory, the instruction's rank."""


def _repair(param: TensorMapParam, facts: Target) -> Repair | None:
    """The cheapest map in its place, for whoever makes it; None where no tensor map serves."""
    from tilewright.legal.plan.repairs import repair_as_installed
    from tilewright.legal.plan.want import Want
    from tilewright.legal.tensor_map.im2col_map import any_from_plan

    map = any_from_plan(param.map)
    kept, missing = repair_as_installed(map, Want(keep=_READ_BY_THE_KERNEL), target=facts)
    found = next((each for each in kept if _same_copies(each, map)), None)
    if found is None:
        others, missing = repair_as_installed(map, target=facts)
        found = next((each for each in others if each.maps or each.im2col is not None), None)
    if found is None:
        return None
    lacking = f"perhaps not the cheapest: {missing.message} ({missing.remedy})" if missing is not None else ""
    return Repair(found.title, cost="; ".join(filter(None, (found.cost.line, lacking))))


def _same_copies(found: legal.Repair, map: AnyMap) -> bool:
    return len(found.maps) == 1 and found.maps[0].rank == map.rank
