"""What should a tensor copy of the probe leave? The copy engine's model, and the archives of what a GPU's left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.probes.tma_cases import ARENA_BYTES, WINDOW_BYTES, Case
from bench.probes.tma_contents import BUFFER_BYTES, Bytes, arena_before, content, hashed
from bench.probes.tma_kernels import POISON
from tilewright.base.plan_json import tensor_map_from_json
from tilewright.machine.copy.copy_engine import CopyMode, load_box, store_box
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.numbers.reduction import reduction
from tilewright.targets import target

HOPPER = target("sm_90a")


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """One copy of an archive. image: the window or arena afterwards; counted_bytes: what a load's barrier was told."""

    name: str
    case: Case
    image: Bytes
    counted_bytes: int


def read_archive(path: Path) -> Iterator[Measured]:
    """The copies of an archive that the probe wrote."""
    with np.load(path) as archive:
        special = archive["special"]
        for key in archive.files:
            if not key.endswith(".cases"):
                continue
            name, data, at = key.removesuffix(".cases"), archive[key.removesuffix("cases") + "data"], 0
            for row in json.loads(str(archive[key])):
                changed = data[at : at + row["bytes"]]
                at += row["bytes"]
                yield _measured(name, row, changed, special)


def _measured(name: str, row: dict[str, Any], changed: Bytes, special: Bytes) -> Measured:
    case = Case(
        row["kernel"],
        tensor_map_from_json(row["map"]),
        tuple(row["coordinates"]),
        tuple(row["offsets"]),
        row["place"],
        row["source"],
    )
    load = case.kernel.startswith("load")
    image = np.full(WINDOW_BYTES, POISON, np.uint8) if load else arena_before(case, special)
    image[row["begin"] : row["begin"] + row["bytes"]] = changed
    return Measured(name, case, image, row["counted_bytes"])


class Judge:
    """The model's answers. special: the words of the source of that name."""

    def __init__(self, special: Bytes) -> None:
        self.special = special
        self.buffers: dict[str, Bytes] = {}

    def buffer(self, source: str) -> Bytes:
        """What loads read."""
        if source not in self.buffers:
            made = hashed(BUFFER_BYTES) if source == "hash" else np.resize(self.special, BUFFER_BYTES)
            self.buffers[source] = made
        return self.buffers[source]

    def afterwards(self, case: Case) -> tuple[Bytes | None, str]:
        """The window or arena afterwards, and what the model says where it says none."""
        mode: CopyMode = "tile" if case.map.im2col is None else "im2col"
        begin = case.map.offset_bytes
        try:
            if case.kernel.startswith("load"):
                window = np.full(WINDOW_BYTES, POISON, np.uint8)
                buffer = self.buffer(case.source)[begin:]
                load = load_box(case.map, case.coordinates, buffer, case.place, HOPPER, mode, case.offsets)
                window[load.shared_offsets] = load.values
                return window, ""
            window = content(case, WINDOW_BYTES, 1, self.special)
            store = store_box(case.map, case.coordinates, window, case.place, HOPPER, mode)
        except EngineFault as fault:
            return None, fault.message
        arena = arena_before(case, self.special)
        assert arena.size == ARENA_BYTES
        at, values = store.global_offsets + begin, store.values
        if case.kernel.startswith("reduce"):
            flush = case.map.variant == "f32_ftz"
            combine = reduction(case.kernel.split("_")[1], case.map.element.value, flush=flush)
            if combine is None:
                return None, f"no {case.kernel} of {case.map.element.value}"
            values = combine(arena[at], values)
        arena[at] = values
        return arena, ""
