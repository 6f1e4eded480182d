"""The collector of cycles rests inside a block, and is as it was afterwards."""

from __future__ import annotations

import gc

import pytest

from tilewright.driver.check.collector import collector_paused


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
