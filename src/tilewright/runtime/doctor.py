"""Which pieces of the environment are here, at which version, and what to do about those that are not.

Nothing heavy is imported: Python packages are asked through their metadata, the driver through three calls by ctypes,
`ptxas` by running it. Used by `tilewright doctor`.
Not handled: whether versions fit each other beyond the driver being there; several GPUs are listed one by one.
Checked by: tests/runtime/test_doctor.py.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import platform
import sys
from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.base.extra import EXTRA_OF, install
from tilewright.runtime.assemble import find_ptxas
from tilewright.runtime.bundle import tilewright_version
from tilewright.runtime.device import LIBCUDA, probe_libcuda

# Distribution, and what needs it.
_PACKAGES = (
    ("numpy", "everything"),
    ("ml_dtypes", "bfloat16"),
    ("xdsl", "the IR: check, run, compile"),
    ("rich", "the command line"),
    ("islpy", "layouts compared for all sizes"),
    ("egglog", "plans of tensor maps that no short chain of changes reaches"),
    ("z3-solver", "proofs without a launch, where ways through a kernel must be shown to be impossible"),
    ("ortools", "optimal schedules"),
    ("cuda-bindings", "running on a GPU"),
    ("triton", "checking kernels from Triton's source"),
)
# cuda.h, CUdevice_attribute.
_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76


@dataclass(frozen=True, slots=True)
class Component:
    """One piece of the environment. version, path and remedy are empty where they do not apply.

    needed_for: what does not work without it.
    """

    name: str
    present: bool
    version: str
    path: str
    remedy: str
    needed_for: str


def inspect() -> list[Component]:
    """Every component, in a fixed order: Python, Tilewright, packages, ptxas, driver, GPUs. Never raises."""
    return [
        Component("python", True, platform.python_version(), sys.executable, "", "everything"),
        Component("tilewright", True, tilewright_version(), "", "", "everything"),
        *(_package(name, needed_for) for name, needed_for in _PACKAGES),
        _ptxas(),
        *_driver_and_gpus(),
    ]


def _package(name: str, needed_for: str) -> Component:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        extra = EXTRA_OF.get(name)
        return Component(name, False, "", "", install(extra) if extra else f"pip install {name}", needed_for)
    return Component(name, True, distribution.version, str(distribution.locate_file("")), "", needed_for)


def _ptxas() -> Component:
    needed_for = "turning PTX into machine code"
    try:
        found = find_ptxas()
    except TilewrightError as error:
        return Component("ptxas", False, "", "", error.remedy, needed_for)
    return Component("ptxas", True, found.version, str(found.path), "", needed_for)


def _driver_and_gpus() -> list[Component]:
    needed_for = "running on a GPU"
    reason = probe_libcuda()
    if reason is not None:
        install = "nothing to do for checking and CPU runs; to run on a GPU, install the NVIDIA driver"
        return [
            Component("driver", False, "", "", f"{install} ({reason})", needed_for),
            Component("gpu", False, "", "", "it is asked through the driver", needed_for),
        ]
    library = ctypes.CDLL(LIBCUDA)
    number = ctypes.c_int()
    version = ""
    if library.cuDriverGetVersion(ctypes.byref(number)) == 0:
        version = f"{number.value // 1000}.{number.value % 1000 // 10}"
    driver = Component("driver", True, version, LIBCUDA, "", needed_for)
    count = ctypes.c_int()
    status = library.cuInit(0)
    if status == 0:
        status = library.cuDeviceGetCount(ctypes.byref(count))
    if status != 0 or count.value == 0:
        remedy = f"no GPU is visible (CUresult {status}): check nvidia-smi and CUDA_VISIBLE_DEVICES"
        return [driver, Component("gpu", False, "", "", remedy, needed_for)]
    return [driver, *(_gpu(library, ordinal) for ordinal in range(count.value))]


def _gpu(library: ctypes.CDLL, ordinal: int) -> Component:
    handle, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(128)
    library.cuDeviceGet(ctypes.byref(handle), ordinal)
    library.cuDeviceGetName(name, len(name), handle)
    library.cuDeviceGetAttribute(ctypes.byref(major), _COMPUTE_CAPABILITY_MAJOR, handle)
    library.cuDeviceGetAttribute(ctypes.byref(minor), _COMPUTE_CAPABILITY_MINOR, handle)
    version = f"{name.value.decode(errors='replace')}, compute capability {major.value}.{minor.value}"
    return Component("gpu", True, version, f"cuda:{ordinal}", "", "running on a GPU")
