"""The collector of cycles rests inside a block, and is as it was afterwards."""

from __future__ import annotations

import gc
import weakref

import pytest

from tilewright.base.collector import collect_young, collector_paused, collector_rare


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(KeyError), collector_paused():
            assert not gc.isenabled()
            with collector_paused():
                pass
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


class _Cycle:
    def __init__(self) -> None:
        self.own = self


def test_what_was_made_meanwhile_is_freed_when_asked() -> None:
    with collector_paused():
        made = weakref.ref(_Cycle())
        assert made() is not None
        collect_young()
        assert made() is None


def test_garbage_is_looked_for_rarely_and_then_as_before() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), collector_rare():
        assert gc.isenabled()
        assert gc.get_threshold()[0] == 100 * before[0]
        raise KeyError
    assert gc.get_threshold() == before
