"""What does it cost how a short kernel begins and ends, behind a launch of its own kind?

    python -m bench.probes.beginnings [-o beginnings.json]

Products of a few microseconds, launched one behind the other, each begun before the one before has ended: as they are
compiled; with a pause of no time between the release of the last slots and the epilogue, as products of several tiles a
CTA have; and, where slices are asked for ahead, with none and eight of them.
Told is each one's time over the first's, in turns with torch.mm (`bench.wished`). Needs PyTorch and a GPU.
Source of the instructions: PTX ISA, griddepcontrol, nanosleep.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import TYPE_CHECKING

from bench.probes.command import run_probe
from bench.wished import measure

if TYPE_CHECKING:
    from tilewright.runtime.bundle import Bundle

_SHAPES = (
    (1024, 1024, 1024), (1536, 1536, 1536), (16, 4096, 4096), (128, 4096, 4096), (1, 7168, 2048), (128, 7168, 2048),
    (64, 2112, 7168),
)  # fmt: skip
_ROUNDS = 12
_AS_COMPILED = "as compiled"
_LAST_RELEASE = re.compile(
    r"(wgmma\.wait_group\.sync\.aligned 0;\n(?:.*\n)*?\t@(%p\d+) mbarrier\.arrive\S* _, \[\S+\];\n)"
)


def beginnings() -> dict[str, object]:
    """By product: each way's time over that as compiled."""
    import torch

    torch.manual_seed(0)
    found: dict[str, object] = {}
    for shape in _SHAPES:
        ratios = measure(torch, shape, _ways(shape), _ROUNDS, rows_of_b=False)["ratios"]
        found["x".join(map(str, shape))] = told = {
            way: round(ratios[_AS_COMPILED] / ratio, 4) for way, ratio in ratios.items()
        }
        print(f"{shape}: {', '.join(f'{way} {time:.3f}' for way, time in told.items())}", flush=True)
        torch.cuda.empty_cache()
    return found


def _ways(shape: tuple[int, int, int]) -> dict[str, Bundle | str]:
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.driver.compile.kernels import matmul_kernel
    from tilewright.synth.tile.wanted import Wanted

    m, n, k = shape

    def compiled(wanted: Wanted) -> Bundle:
        dims, strides = {"M": m, "N": n, "K": k}, {"b": (1, k)}
        return compile_kernel(matmul_kernel, dims=dims, strides=strides, wanted=wanted).bundle()

    first = compiled(Wanted())
    ways: dict[str, Bundle | str] = {
        _AS_COMPILED: first,
        "again": first,
        "a pause": paused(first),
    }
    if first.decisions["prefetch"]:
        ways |= {f"{slices} slices ahead": compiled(Wanted(prefetch=slices)) for slices in (0, 8)}
    return ways


def paused(bundle: Bundle) -> Bundle:
    """With `nanosleep` behind the last release of a tile's slots, by the thread that releases."""
    from tilewright.runtime.assemble import assemble

    text, places = _LAST_RELEASE.subn(r"\1\t@\2 nanosleep.u32 0;\n", bundle.ptx)
    assert places == 1, "a tile's last release"
    return dataclasses.replace(bundle, ptx=text, cubin=assemble(text, bundle.target).cubin)


if __name__ == "__main__":
    sys.exit(run_probe("beginnings", (__doc__ or "").partition("\n")[0], beginnings))
