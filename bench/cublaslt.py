"""The best of cublasLt's heuristics list for a product: not the algorithm that it would take first, but the fastest
of all that it offers, each timed.

The library is called through ctypes (the `libcublasLt` that PyTorch itself has loaded). Row-major `c = a @ b` is asked
for as its column-major transpose: cublasLt's A is our b, its B our a. Everything it may do is allowed: 64 MB of
workspace, every reduction scheme, up to 32 algorithms. Source: cuBLAS documentation, section "Using the cublasLt API";
values of the enumerations from `cublasLt.h` of CUDA 13.

The lists hold algorithms that, of odd strides, take thousands of times as long as the best, and some that do not
return; and a kernel that runs cannot be stopped. So each is called first on a corner of the same matrices
(`corner_extents`: the same pointers, rows apart and remainders, a few tiles), and one that takes far longer there than
the quickest did is not called on the whole. Before each is called, whoever can end this process may be told (`Watch`).
Tuning may also be given a number of seconds, after which what is left of the list, in the heuristics' order, is not
tried. What was tried, and how long that took, is in the contender's notes.
Not handled: batches, epilogues.
"""

from __future__ import annotations

import ctypes
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.interleaved import (
    LOADING_MILLISECONDS,
    LONG_MILLISECONDS,
    NEAR,
    NEAR_MILLISECONDS,
    SLOW,
    Contender,
    calls_for,
    captured,
    event_milliseconds,
    replay_milliseconds,
)

WORKSPACE_BYTES = 64 << 20
MOST_ALGORITHMS = 32
CORNER_EXTENT = 256
"""About how many rows and columns, and contracted elements, of the corner that is tried before the whole."""
SLOW_CORNER = 30.0
"""An algorithm that takes so many times the quickest's time on the corner is not tried on the whole: on so few tiles
all that are any good take about as long as a launch."""
MOST_STOPPED = 2
"""So many algorithms of a list that do not return are met before the rest is given up."""
CALL_SECONDS = 2.0
"""The longest that an algorithm's first calls may take, loading it included."""
FIRST_SECONDS = 10.0
"""The longest that a contender's first calls in a race may take."""
RACE_SECONDS = 40.0
"""The longest that the tuning of other peers may take, and a race's turns, and comparisons of answers."""
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


class DidNotReturn(CublasError):
    """An algorithm that is known not to return."""


Calling = Callable[[int | None, float], object]
"""Told, before an algorithm is called, its place and the longest that it, and what follows, may take; and None, where
cublasLt is not called from then on."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Who can end this process. stopped: places of algorithms for which it was ended before, not to be called again."""

    stopped: frozenset[int]
    calling: Calling


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
    """One algorithm: a call on the whole, one on a corner of input set 0, and its configuration."""

    call: Callable[[int], object]
    corner: Callable[[int], object]
    configuration: dict[str, int]


def corner_extents(m: int, n: int, k: int) -> tuple[int, int, int]:
    """Extents of a corner: what is past CORNER_EXTENT is cut, and the remainder by 16 stays."""
    m, n, k = (extent if extent <= CORNER_EXTENT + 15 else CORNER_EXTENT + extent % 16 for extent in (m, n, k))
    return m, n, k


@dataclass(frozen=True, slots=True)
class _Layouts:
    """cublasLt's descriptions of a, b and the result."""

    a: ctypes.c_void_p
    b: ctypes.c_void_p
    c: ctypes.c_void_p


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

        def layouts(m: int, n: int, k: int) -> _Layouts:
            return _Layouts(
                self._layout(a, (m, k) if a_transposed else (k, m), a_rows),
                self._layout(b, (k, n) if b_transposed else (n, k), b_rows),
                self._layout(output, (n, m), output.stride(0)),
            )

        self._whole, self._corner = layouts(m, n, k), layouts(*corner_extents(m, n, k))
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
            self._handle, self._operation, self._whole.b, self._whole.a, self._whole.c, self._whole.c, preference,
            MOST_ALGORITHMS, results, ctypes.byref(count),
        )  # fmt: skip
        library.cublasLtMatmulPreferenceDestroy(preference)
        _check(status, "cublasLtMatmulAlgoGetHeuristic")
        return [
            Candidate(
                self._caller(result.algorithm, self._whole),
                self._caller(result.algorithm, self._corner),
                self._configuration(result.algorithm),
            )
            for result in results[: count.value]
            if not result.state
        ]

    def _caller(self, algorithm: _Algorithm, layouts: _Layouts) -> Callable[[int], object]:
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
                self._handle, self._operation, one, b, layouts.b, a, layouts.a, zero, output, layouts.c, output,
                layouts.c, chosen, workspace, ctypes.c_size_t(WORKSPACE_BYTES), stream,
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


Timer = Callable[[int, bool, float], float]
"""Milliseconds of one call of the algorithm at a place of a list, on the whole or on the corner: the shorter of two, or
the first where that took longer than the last argument. Raises CublasError, or DidNotReturn."""


def best(
    torch: Any,
    pairs: Sequence[tuple[Any, Any]],
    output: Any,
    *,
    sets: int,
    scales: Scales | None = None,
    fast_accumulation: bool = False,
    name: str = "cublasLt",
    seconds: float = math.inf,
    watch: Watch | None = None,
) -> Contender:
    """The fastest of the list as a contender. Each is timed on its own, and the three fastest again in turns.

    seconds: no algorithm is begun that long after the first one; watch: told of every call. Raises CublasError where
    none runs.
    """
    begin = time.perf_counter()
    watch = watch or Watch(frozenset(), lambda place, seconds: None)
    if len(watch.stopped) > MOST_STOPPED:
        raise CublasError(f"{len(watch.stopped)} algorithms of cublasLt's list did not return")
    plan = Plan(torch, pairs, output, scales=scales, fast_accumulation=fast_accumulation)
    offered = plan.candidates()

    def timer(place: int, whole: bool, hopeless: float) -> float:
        if place in watch.stopped:
            raise DidNotReturn(f"algorithm {place} did not return")
        watch.calling(place, CALL_SECONDS)
        candidate = offered[place]
        return event_milliseconds(torch, candidate.call if whole else candidate.corner, hopeless)

    found = tried_in_order(len(offered), timer, seconds=seconds, clock=time.perf_counter)
    batch = max(2, min(sets, 8))
    timed: list[tuple[float, int, Candidate]] = []
    for place, once in found.worthy.items():
        milliseconds = once
        if once < LONG_MILLISECONDS:
            # Some return when called alone, and do not when called in a row.
            watch.calling(place, CALL_SECONDS)
            graph = captured(torch, offered[place].call, batch)
            milliseconds = min(replay_milliseconds(torch, graph) for _ in range(3)) / batch
        timed.append((milliseconds, place, offered[place]))
    if not timed:
        raise CublasError(f"cublasLt offers no algorithm that runs: {sorted(set(found.refusals))}")
    timed.sort(key=lambda entry: entry[:2])
    finalists = timed[:3]
    batch = calls_for(finalists[0][0], sets)
    graphs: list[Any] = []
    for _, place, candidate in finalists:
        watch.calling(place, CALL_SECONDS)
        graphs.append(captured(torch, candidate.call, batch))
        torch.cuda.synchronize()
    seen: list[list[float]] = [[] for _ in finalists]
    for _ in range(5):
        for times, graph, (_, place, _) in zip(seen, graphs, finalists, strict=True):
            watch.calling(place, CALL_SECONDS)
            times.append(replay_milliseconds(torch, graph) / batch)
    _, (_, place, chosen) = min(
        ((sorted(times)[2], entry) for times, entry in zip(seen, finalists, strict=True)), key=lambda pair: pair[0]
    )
    notes: dict[str, object] = {
        "offered": len(offered),
        "chosen": place,
        "tried": found.tried,
        "slow_on_the_corner": found.slow_on_the_corner,
        "stopped": [offered[place].configuration for place in found.stopped],
        "tuning_seconds": round(time.perf_counter() - begin, 2),
        "configuration": chosen.configuration,
        "library": version(),
        "first_over_best": next((time for time, at, _ in timed if at == 0), 0.0) / timed[0][0],
    }
    if fast_accumulation:
        notes["accumulation"] = "fast"
    watch.calling(None, RACE_SECONDS)
    return Contender(name, chosen.call, output, notes)


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of calling a list's algorithms once. worthy: milliseconds of those worth timing, by place; tried: how
    many were called at all; slow_on_the_corner: how many of them on the corner alone; stopped: places of those that did
    not return; refusals: cublasLt's words."""

    worthy: Mapping[int, float]
    tried: int
    slow_on_the_corner: int
    stopped: tuple[int, ...]
    refusals: tuple[str, ...]


def tried_in_order(count: int, timer: Timer, *, seconds: float, clock: Callable[[], float]) -> Tried:
    """Call each of a list of `count` on the corner and then, where it was not slow there, on the whole; keep what takes
    little longer than the best. The first is tried in any case; after MOST_STOPPED that do not return, or after
    `seconds` by `clock`, the rest is left out."""
    times: dict[int, float] = {}
    refusals: list[str] = []
    quickest = fastest = math.inf
    stopped: list[int] = []
    tried = slow = 0
    begin = clock()
    for place in range(count):
        if len(stopped) == MOST_STOPPED or (place and clock() - begin > seconds):
            break
        tried += 1
        try:
            try:
                corner = timer(place, False, math.inf)
            except DidNotReturn:
                raise
            except CublasError:
                # A split of the contracted axis may be too fine for so short a one.
                corner = 0.0
            quickest = min(quickest, corner or math.inf)
            if corner > SLOW_CORNER * quickest:
                slow += 1
                continue
            times[place] = timer(place, True, SLOW * fastest + LOADING_MILLISECONDS)
            fastest = min(fastest, times[place])
        except DidNotReturn:
            stopped.append(place)
        except CublasError as error:
            refusals.append(str(error))
    worthy = {place: taken for place, taken in times.items() if taken <= NEAR * fastest + NEAR_MILLISECONDS}
    return Tried(worthy, tried, slow, tuple(stopped), tuple(refusals))
