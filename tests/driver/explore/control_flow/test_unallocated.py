"""Tensor memory that a text uses and does not allocate is an error wherever its address comes from."""

from __future__ import annotations

import pytest

from tilewright.driver.explore.control_flow.unallocated import unallocated
from tilewright.frontends.ptx.reader import read

USE = "tcgen05.wait::ld.sync.aligned; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;"
ALLOCATION = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;"


def codes(body: str, before: str = "") -> list[tuple[str, int]]:
    head = f".version 8.6\n.target sm_100a\n.address_size 64\n{before}\n"
    module = read(f"{head}.visible .entry k() {{ .reg .b32 %r<4>; {body} ret; }}", "k.ptx", tolerant=True)
    return [(each.code, each.primary.line if each.primary else 0) for each in unallocated(module, module.kernels[0])]


def test_a_use_without_any_allocation_is_found() -> None:
    assert codes(USE) == [("TC206", 5)]


def test_no_use_and_a_use_with_an_allocation_are_not() -> None:
    assert codes("") == []
    assert codes(ALLOCATION + USE) == []


@pytest.mark.parametrize(
    "before",
    [
        f".func f() {{ .reg .b32 %r<4>; {ALLOCATION} ret; }}",
        ".extern .func f();",
    ],
)
def test_a_function_may_allocate(before: str) -> None:
    assert codes(USE, before) == []


def test_what_was_not_read_may_allocate() -> None:
    assert codes("tcgen05.frobnicate %r1;" + USE) == []
