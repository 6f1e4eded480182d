"""The PTX machine: runs a kernel's text exactly, on a CPU, and yields values and events.

It never reaches what chose or judged a kernel. `copy_box` is the copy engine's load of one box, by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from tilewright.machine.copy.box_image import BoxImage, copy_box

__all__ = ["BoxImage", "copy_box"]

__getattr__ = lazy_names(__name__, {"tilewright.machine.copy.box_image": "BoxImage copy_box"})
