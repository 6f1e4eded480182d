"""Tensor maps of a launch: what the driver refuses is an error, what the device dislikes is for review."""

from __future__ import annotations

import dataclasses

import pytest

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.element import Element
from tilewright.base.plan import Launch, OpaqueParam, Param, PointerParam, TensorMap, TensorMapParam
from tilewright.driver.launch.map_findings import map_findings, target_of
from tilewright.frontends.ptx.reader import read
from tilewright.legal import Im2colMap

MAP = TensorMap(Element.BF16, (64, 32), (128,), (64, 8), swizzle="128B")


def text(target: str = "sm_90a") -> str:
    head = f".version 8.6\n.target {target}\n.address_size 64\n"
    return f"{head}.visible .entry k(.param .align 64 .b8 m[128]) {{ ret; }}"


def codes(param: Param, target: str = "sm_90a") -> list[tuple[str, str]]:
    module = read(text(target), "k.ptx", tolerant=True)
    launch = Launch("k", (1, 1, 1), (32, 1, 1), (param,))
    return [(each.code[:2], each.level.value) for each in map_findings(module, module.kernels[0], launch.params)]


def test_a_legal_map_is_no_finding() -> None:
    assert codes(TensorMapParam("x", MAP)) == []


def test_maps_that_the_driver_refuses_are_errors_in_structures_and_buffers_too() -> None:
    wrong = TensorMapParam("x", dataclasses.replace(MAP, strides_bytes=(120,)))
    assert codes(wrong) == [("TM", "error")]
    assert codes(OpaqueParam(256, fields=((128, wrong),))) == [("TM", "error")]
    assert codes(PointerParam("maps", 0, ((0, wrong), (128, TensorMapParam("x", MAP))))) == [("TM", "error")]


def findings(map: TensorMap) -> tuple[Diagnostic, ...]:
    module = read(text(), "k.ptx", tolerant=True)
    return map_findings(module, module.kernels[0], (TensorMapParam("x", map),))


def test_an_error_comes_with_a_repair_that_leaves_the_kernel_as_it_is() -> None:
    """One map of the same rank and box: whoever allocates the tensor pads its rows."""
    (finding,) = findings(dataclasses.replace(MAP, strides_bytes=(136,)))
    assert finding.repair is not None and finding.repair.title == "pad the row stride from 136 to 144 bytes"
    assert finding.repair.cost.endswith("bytes of padding") and not finding.repair.rechecked


def test_where_the_kernel_must_change_too_the_cheapest_repair_is_told() -> None:
    first, *others = findings(dataclasses.replace(MAP, box=(64, 512), dims=(64, 1024), strides_bytes=(136,)))
    assert first.repair is not None and "split dimension 1 of 1024 into 256 x 4" in first.repair.title
    assert others and all(each.repair is None for each in others)


def test_im2col_maps_have_repairs_too() -> None:
    map = Im2colMap("f16", (128, 8, 8, 1), (256, 2048, 16384), (-1, -1), (-1, -1), 128, 16, swizzle="128B")
    (finding,) = findings(map.to_plan())
    assert finding.code == "TM016" and finding.repair is not None
    assert finding.repair.title == "channels_per_pixel 64 instead of 128"


def test_nothing_to_copy_has_no_repair() -> None:
    (finding,) = findings(dataclasses.replace(MAP, dims=(64, 0)))
    assert finding.code == "TM011" and finding.repair is None


def test_a_box_that_shared_memory_cannot_hold_is_for_review() -> None:
    huge = TensorMap(Element.U8, (4096,) * 3, (4096, 1 << 24), (16, 100, 100), swizzle="128B")
    assert codes(TensorMapParam("x", huge)) == [("TM", "review")]


@pytest.mark.parametrize(
    ("name", "known"),
    [("sm_90a", "sm_90a"), ("sm_90", "sm_90a"), ("sm_100f", "sm_100a"), ("sm_100a", "sm_100a"), ("sm_80", None)],
)
def test_the_nearest_table(name: str, known: str | None) -> None:
    found = target_of(read(text(name), "k.ptx", tolerant=True))
    assert (found.name if found else None) == known
