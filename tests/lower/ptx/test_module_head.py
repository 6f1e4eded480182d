"""The first lines of a text: a target's own version, and a newer one for factors of the finest blocks."""

import pytest

from tilewright.lower.ptx.module_head import module_head
from tilewright.targets import target


@pytest.mark.parametrize("name", ["sm_90a", "sm_100a", "sm_103a"])
def test_a_text_begins_in_the_version_of_its_target(name: str) -> None:
    major, minor = target(name).limits("ptx.version")
    assert module_head(name) == [f".version {major}.{minor}", f".target {name}", ".address_size 64", ""]


def test_the_finest_blocks_need_a_newer_version() -> None:
    def version(*, fine: bool) -> tuple[int, ...]:
        return tuple(map(int, module_head("sm_100a", fine=fine)[0].removeprefix(".version ").split(".")))

    least = tuple(target("sm_100a").limits("block_scales.f4_fine_ptx_version"))
    assert version(fine=True) == max(version(fine=False), least) > version(fine=False)
