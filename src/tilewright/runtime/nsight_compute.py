"""Where is Nsight Compute's command line? Checked by: tests/driver/views/test_profile.py."""

from __future__ import annotations

import glob
import shutil

from tilewright.base.error import TilewrightError

_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda-*/bin/ncu")


def find_ncu() -> str:
    """Its path. Raises TilewrightError where there is none."""
    found = shutil.which("ncu")
    places = [path for pattern in _PLACES for path in sorted(glob.glob(pattern), reverse=True)]
    if found is None and not places:
        raise TilewrightError(
            "Nsight Compute (ncu) is not installed",
            remedy="install NVIDIA Nsight Compute, or read a stored table with --from FILE.csv",
        )
    return found or places[0]
