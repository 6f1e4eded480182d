"""Sums in tensor memory: a text that loads, multiplies, reads or stores other parts than its program's is refuted."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from tests.driver.reproof.judged_instances import (
    LOAD,
    PLACE,
    Instance,
    codes,
    instance_of,
    moved,
)
from tests.driver.reproof.product_kinds import KINDS, Kind
from tests.end_to_end.blackwell_programs import of_byte_columns, of_columns

from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.driver.compile.kernels import gated_kernel
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

BLACKWELL = target("sm_100a")
ONE, PAIR = (1, 1), (2, 1)


def of(kind: Kind, cluster: tuple[int, int], columns: int = 64) -> Kind:
    return replace(kind, wanted=Wanted(tile=(128, columns), cluster=cluster))


OF_BYTES = {"x": Element.F8E5M2, "w": Element.F8E5M2, "y": Element.F8E4M3}
GATED = Kind(gated_kernel("silu"), {"M": 512, "N": 512, "K": 1024}, Wanted())
MADE = {
    "one CTA": of(KINDS["plain"], ONE),
    "a pair": of(KINDS["plain"], PAIR),
    "a pair, gated": of(GATED, PAIR),
    "one CTA, gated": of(GATED, ONE),
    "a batch": of(KINDS["batch"], ONE),
    "a pair, a batch": of(KINDS["batch"], PAIR),
    "a pair, along columns": of(Kind(of_columns, {"K": 1024, "M": 512, "N": 512}, Wanted(), {"y": Element.F32}), PAIR),
    "a pair, of bytes along columns": of(
        Kind(of_byte_columns, {"K": 1024, "M": 512, "N": 512}, Wanted(), OF_BYTES), PAIR
    ),
}


@cache
def made(name: str) -> Instance:
    return instance_of(MADE[name], BLACKWELL)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", MADE)
def test_the_text_is_proven(name: str) -> None:
    it = made(name)
    assert "tcgen05.mma" in it.text and isinstance(it.judge(it.text), Proven)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", MADE)
def test_each_load_of_another_part_is_refuted(name: str) -> None:
    it = made(name)
    count = sum(LOAD.search(line) is not None for line in it.text.split("\n"))
    for number in (0, count - 1):
        for dimension, by in ((0, 64), (1, 8)):
            found = codes(it.judge(moved(it.text, LOAD, number, dimension, by)))
            assert found <= {"UM104", "UM105", "UM106"}, (number, dimension, found)


SCALE = re.compile(r"setp\.ne\.u32 (%p\d+), ([01]), 0;")


def other_scale(text: str, number: int) -> str:
    """The number-th tcgen05.mma adds where it began, or begins where it added."""
    lines = text.split("\n")
    product = [line for line in lines if "tcgen05.mma" in line][number]
    predicate = re.findall(r"%p\d+", product)[-1]
    at = next(at for at, line in enumerate(lines) if (found := SCALE.search(line)) and found[1] == predicate)
    lines[at] = SCALE.sub(lambda found: f"setp.ne.u32 {found[1]}, {1 - int(found[2])}, 0;", lines[at])
    return "\n".join(lines)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["one CTA", "a pair", "a pair, gated"])
def test_each_product_adds_or_not_as_its_place_in_the_sum_asks(name: str) -> None:
    it = made(name)
    products = it.text.count("tcgen05.mma")
    for number in (1, products - 1):
        found = codes(it.judge(other_scale(it.text, number)))
        # What nobody has written may not be read either.
        assert found & {"UM108", "TC112", "TC105", "MF003"}, found


@pytest.mark.parametrize("name", ["one CTA", "a pair"])
def test_one_role_that_takes_other_tiles_is_refuted(name: str) -> None:
    """The issuer's tiles are whatever is filled; what is filled and what is stored are places."""
    it = made(name)
    places = [found.start() for found in PLACE.finditer(it.text)]
    assert len(places) >= 3
    refuted = 0
    for at in (places[0], places[-1]):
        line = it.text.rfind("\n", 0, at) + 1
        end = it.text.index("\n", at)
        register = it.text[line:end].split()[1].rstrip(",")
        edited = f"{it.text[:end]}\n\txor.b32 {register}, {register}, 1;{it.text[end:]}"
        refuted += not isinstance(it.judge(edited), Proven)
    assert refuted == 2


def test_halves_of_the_columns_that_overlap_are_refuted() -> None:
    """What each CTA of a pair brings follows from its rank."""
    it = made("a pair")
    edited = re.sub(r"(mad\.lo\.s32 %r\d+, %r\d+), 32,", r"\1, 16,", it.text, count=1)
    assert edited != it.text
    assert {"UM105"} <= codes(it.judge(edited)) <= {"UM105", "UM106"}
