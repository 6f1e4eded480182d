"""Is this tensor map of a launch plan legal, and which rules does it break?

`violations` are the rules that the driver enforces when the map is encoded: it is empty exactly where the driver
accepts. `cautions` are what the driver lets pass and what then fails on the device.

A thin reading of `legality.check` for `base.plan.TensorMap`, tiled or im2col. Not handled: start coordinates and
shared-memory addresses, that belong to the copy and not to the map (`copy_check`). Checked by
tests/legal/tensor_map/test_tensormap.py and, against a driver, tests/legal/tensor_map/test_tensormap_driver.py.
"""

from __future__ import annotations

from tilewright.base.plan import TensorMap
from tilewright.legal.tensor_map.cautions import FAILING
from tilewright.legal.tensor_map.im2col_map import any_from_plan
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.violation import Violation
from tilewright.targets import Target


def violations(map: TensorMap, target: Target, *, global_address: int = 0) -> tuple[Violation, ...]:
    """Every rule of the driver that `map` breaks, for a buffer at `global_address`; empty where it would be encoded.

    `map.offset_bytes` is added to the address. Raises TilewrightError where the fields' lengths contradict each other.
    """
    return check(any_from_plan(map, global_address), target).violations


def cautions(map: TensorMap, target: Target) -> tuple[Violation, ...]:
    """What the driver accepts and the device does not: rules with `enforced` false. Judged for legal maps only.

    Raises TilewrightError where the fields' lengths contradict each other.
    """
    return tuple(warning for warning in check(any_from_plan(map), target).warnings if warning.code in FAILING)
