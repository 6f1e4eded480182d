"""The best of cublasLt's heuristics list for a product: not the algorithm that it would take first, but the fastest
of all that it offers, each timed.

The library is called through ctypes (the `libcublasLt` that PyTorch itself has loaded). Row-major `c = a @ b` is asked
for as its column-major transpose: cublasLt's A is our b, its B our a. Everything it may do is allowed: 64 MB of
workspace, every reduction scheme, up to 32 algorithms. Source: cuBLAS documentation, section "Using the cublasLt API";
values of the enumerations from `cublasLt.h` of CUDA 13.
Not handled: batches, epilogues.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.interleaved import (
    LOADING_MILLISECONDS,
    SLOW,
    Contender,
    calls_for,
    captured,
    event_milliseconds,
    replay_milliseconds,
)

WORKSPACE_BYTES = 64 << 20
MOST_ALGORITHMS = 32
_MOST_SLOW = 3
"""So many algorithms far slower than the best are met in the heuristics' order before the rest is given up: those for
odd strides are a thousand times slower than others."""
_COMPUTE_32F = 68
_R_32F = 0
_TYPES = {"bfloat16": 14, "float16": 2, "float32": 0, "float8_e4m3fn": 28, "float8_e5m2": 29}
_DESC_TRANSA, _DESC_TRANSB = 3, 4
_DESC_A_SCALE_POINTER, _DESC_B_SCALE_POINTER, _DESC_FAST_ACCUM = 17, 18, 25
_DESC_A_SCALE_MODE, _DESC_B_SCALE_MODE = 31, 32
_PREF_WORKSPACE = 1
_PREF_ALIGNMENTS = (5, 6, 7, 8)
SCALE_MODES = {"tensor": (0, 0), "row": (3, 3), "block": (5, 4)}
"""cublasLtMatmulMatrixScale_t of (cublasLt's A, its B): one scalar each; a vector each (OUTER_VEC_32F); 128 x 128
blocks of the weights with 1 x 128 blocks of the activations."""
_CONFIG = {"id": 0, "tile": 1, "split_k": 2, "reduction": 3, "swizzle": 4, "custom": 5, "stages": 6, "cluster": 8}


class CublasError(RuntimeError):
    """A call of cublasLt that did not succeed."""


class _Algorithm(ctypes.Structure):
    _fields_ = (("data", ctypes.c_uint64 * 8),)


class _Result(ctypes.Structure):
    _fields_ = (
        ("algorithm", _Algorithm),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@cache
def _library() -> tuple[Any, ctypes.c_void_p]:
    """The loaded library and a handle."""
    library = ctypes.CDLL(str(_library_path()))
    handle = ctypes.c_void_p()
    _check(library.cublasLtCreate(ctypes.byref(handle)), "cublasLtCreate")
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    return library, handle


def _library_path() -> Path:
    """Where the library that this process has loaded lies."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        found = re.search(r"(/\S*libcublasLt\.so\.\d+\S*)", line)
        if found:
            return Path(found[1])
    raise CublasError("PyTorch has loaded no libcublasLt")


def version() -> str:
    """As `13.1.0`."""
    number = int(_library()[0].cublasLtGetVersion())
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _check(status: int, attempted: str) -> None:
    if status:
        raise CublasError(f"{attempted}: cublasStatus {status}")


@dataclass(frozen=True, slots=True)
class Scales:
    """Device arrays of float32 factors, of a and of b, and how they stand ("tensor", "row", "block")."""

    a: Any
    b: Any
    mode: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One algorithm: a call, its configuration, and its time in microseconds, which is 0 until it was timed."""

    call: Callable[[int], object]
    configuration: dict[str, int]
    microseconds: float = 0.0


class Plan:
    """A product of fixed shapes and layouts, over several input sets."""

    def __init__(
        self,
        torch: Any,
        pairs: Sequence[tuple[Any, Any]],
        output: Any,
        *,
        scales: Scales | None = None,
        fast_accumulation: bool = False,
    ) -> None:
        """pairs: (a, b) of each input set; each a matrix with one stride of 1. Raises CublasError where no algorithm
        is offered."""
        self._torch, self._pairs, self._output, self._kept = torch, list(pairs), output, scales
        library, self._handle = _library()
        self._library = library
        a, b = pairs[0]
        (m, k), n = a.shape, b.shape[1]
        self._operation = ctypes.c_void_p()
        _check(library.cublasLtMatmulDescCreate(ctypes.byref(self._operation), _COMPUTE_32F, _R_32F), "descriptor")
        # A row-major matrix is its transpose in column-major order.
        b_rows, b_transposed = _leading(b)
        a_rows, a_transposed = _leading(a)
        self._set(_DESC_TRANSA, ctypes.c_int32(int(b_transposed)))
        self._set(_DESC_TRANSB, ctypes.c_int32(int(a_transposed)))
        if scales is not None:
            mode_of_b, mode_of_a = SCALE_MODES[scales.mode]
            self._set(_DESC_A_SCALE_POINTER, ctypes.c_void_p(scales.b.data_ptr()))
            self._set(_DESC_B_SCALE_POINTER, ctypes.c_void_p(scales.a.data_ptr()))
            if scales.mode != "tensor":
                self._set(_DESC_A_SCALE_MODE, ctypes.c_int32(mode_of_b))
                self._set(_DESC_B_SCALE_MODE, ctypes.c_int32(mode_of_a))
        if fast_accumulation:
            self._set(_DESC_FAST_ACCUM, ctypes.c_int8(1))
        self._b_layout = self._layout(b, (k, n) if b_transposed else (n, k), b_rows)
        self._a_layout = self._layout(a, (m, k) if a_transposed else (k, m), a_rows)
        self._c_layout = self._layout(output, (n, m), output.stride(0))
        self._workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def _set(self, attribute: int, value: Any) -> None:
        status = self._library.cublasLtMatmulDescSetAttribute(
            self._operation, attribute, ctypes.byref(value), ctypes.sizeof(value)
        )
        _check(status, f"attribute {attribute}")

    def _layout(self, matrix: Any, shape: tuple[int, int], leading: int) -> ctypes.c_void_p:
        layout = ctypes.c_void_p()
        status = self._library.cublasLtMatrixLayoutCreate(
            ctypes.byref(layout),
            _TYPES[str(matrix.dtype).rpartition(".")[2]],
            ctypes.c_uint64(shape[0]),
            ctypes.c_uint64(shape[1]),
            ctypes.c_int64(leading),
        )
        _check(status, "layout")
        return layout

    def candidates(self) -> list[Candidate]:
        """What the heuristics offer, in their order. Raises CublasError where they offer nothing."""
        library = self._library
        preference = ctypes.c_void_p()
        _check(library.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)), "preference")
        size = ctypes.c_uint64(WORKSPACE_BYTES)
        status = library.cublasLtMatmulPreferenceSetAttribute(preference, _PREF_WORKSPACE, ctypes.byref(size), 8)
        _check(status, "workspace preference")
        aligned = (
            _alignment([b for _, b in self._pairs]),
            _alignment([a for a, _ in self._pairs]),
            _alignment([self._output]),
            _alignment([self._output]),
        )
        for attribute, alignment in zip(_PREF_ALIGNMENTS, aligned, strict=True):
            bytes_ = ctypes.c_uint32(alignment)
            status = library.cublasLtMatmulPreferenceSetAttribute(preference, attribute, ctypes.byref(bytes_), 4)
            _check(status, "alignment preference")
        results = (_Result * MOST_ALGORITHMS)()
        count = ctypes.c_int()
        status = library.cublasLtMatmulAlgoGetHeuristic(
            self._handle, self._operation, self._b_layout, self._a_layout, self._c_layout, self._c_layout,
            preference, MOST_ALGORITHMS, results, ctypes.byref(count),
        )  # fmt: skip
        library.cublasLtMatmulPreferenceDestroy(preference)
        _check(status, "cublasLtMatmulAlgoGetHeuristic")
        return [
            Candidate(self._caller(result.algorithm), self._configuration(result.algorithm))
            for result in results[: count.value]
            if not result.state
        ]

    def _caller(self, algorithm: _Algorithm) -> Callable[[int], object]:
        library, torch = self._library, self._torch
        # Pointers are taken once: the arrays of an input set stay where they are.
        pointers = [(ctypes.c_void_p(b.data_ptr()), ctypes.c_void_p(a.data_ptr())) for a, b in self._pairs]
        output = ctypes.c_void_p(self._output.data_ptr())
        workspace = ctypes.c_void_p(self._workspace.data_ptr())
        one, zero, chosen = ctypes.byref(self._one), ctypes.byref(self._zero), ctypes.byref(algorithm)

        def call(index: int) -> None:
            b, a = pointers[index % len(pointers)]
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            status = library.cublasLtMatmul(
                self._handle, self._operation, one, b, self._b_layout, a, self._a_layout, zero, output,
                self._c_layout, output, self._c_layout, chosen, workspace, ctypes.c_size_t(WORKSPACE_BYTES), stream,
            )  # fmt: skip
            _check(status, "cublasLtMatmul")

        return call

    def _configuration(self, algorithm: _Algorithm) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, attribute in _CONFIG.items():
            value, written = ctypes.c_uint32(), ctypes.c_size_t()
            status = self._library.cublasLtMatmulAlgoConfigGetAttribute(
                ctypes.byref(algorithm), attribute, ctypes.byref(value), 4, ctypes.byref(written)
            )
            if not status:
                found[name] = value.value
        return found


def _leading(matrix: Any) -> tuple[int, bool]:
    """(elements from line to line, whether the matrix is column-major). Lines are rows of a row-major matrix."""
    rows, columns = matrix.stride()
    if columns == 1 and (rows >= matrix.shape[1] or matrix.shape[0] == 1):
        return max(rows, matrix.shape[1]), False
    if rows == 1:
        return max(columns, matrix.shape[0]), True
    raise CublasError(f"a matrix of strides {rows}, {columns}")


def _alignment(arrays: Sequence[Any]) -> int:
    """The largest power of two, up to 256, at multiples of which all of them begin."""
    alignment = 256
    while any(array.data_ptr() % alignment for array in arrays):
        alignment //= 2
    return alignment


def best(
    torch: Any,
    pairs: Sequence[tuple[Any, Any]],
    output: Any,
    *,
    sets: int,
    scales: Scales | None = None,
    fast_accumulation: bool = False,
    name: str = "cublasLt",
) -> Contender:
    """The fastest of the list as a contender. Each is timed on its own, and the three fastest again in turns."""
    plan = Plan(torch, pairs, output, scales=scales, fast_accumulation=fast_accumulation)
    timed: list[tuple[float, int, Candidate]] = []
    refused: list[str] = []
    offered = plan.candidates()
    slow = 0
    for place, candidate in enumerate(offered):
        if slow == _MOST_SLOW:
            break
        fastest = min((entry[0] for entry in timed), default=math.inf)
        try:
            once = event_milliseconds(torch, candidate.call, SLOW * fastest + LOADING_MILLISECONDS)
        except CublasError as error:
            refused.append(str(error))
            continue
        if once > SLOW * fastest:
            slow += 1
            continue
        graph = captured(torch, candidate.call, max(2, min(sets, 8)))
        milliseconds = min(replay_milliseconds(torch, graph) for _ in range(3)) / max(2, min(sets, 8))
        timed.append((milliseconds, place, candidate))
    if not timed:
        raise CublasError(f"cublasLt offers no algorithm that runs: {sorted(set(refused))}")
    timed.sort(key=lambda entry: entry[:2])
    finalists = timed[:3]
    batch = calls_for(finalists[0][0], sets)
    graphs = [captured(torch, candidate.call, batch) for _, _, candidate in finalists]
    seen: list[list[float]] = [[] for _ in finalists]
    for _ in range(5):
        for times, graph in zip(seen, graphs, strict=True):
            times.append(replay_milliseconds(torch, graph) / batch)
    milliseconds, (_, place, chosen) = min(
        ((sorted(times)[2], entry) for times, entry in zip(seen, finalists, strict=True)), key=lambda pair: pair[0]
    )
    notes: dict[str, object] = {
        "offered": len(offered),
        "chosen": place,
        "tried": len(timed) + len(refused) + slow,
        "configuration": chosen.configuration,
        "library": version(),
        "first_over_best": next((time for time, at, _ in timed if at == 0), 0.0) / timed[0][0],
    }
    if fast_accumulation:
        notes["accumulation"] = "fast"
    return Contender(name, chosen.call, output, notes)
