"""Does a repair deliver what it says? Followed element by element: where it goes, and which copied box has it."""

from itertools import product

from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.repair_plan import Repair
from tilewright.legal.tensor_map.tensor_map import TensorMap

WIDTH_BYTES = {"u8": 1, "u16": 2, "bf16": 2, "f16": 2, "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8}


def address_of(index: tuple[int, ...], stored: Reading) -> int:
    return stored.address + sum(i * stride for i, stride in zip(index, stored.strides_bytes, strict=True))


def starts_of(stored: Reading) -> list[tuple[int, ...]]:
    """Every coordinate at which a box may begin inside the tensor."""
    return list(
        product(
            *(
                (0,) if step == 0 else range(0, extent, step)
                for extent, step in zip(stored.dims, stored.starts, strict=True)
            )
        )
    )


def faults_of(repair: Repair, starts: list[tuple[int, ...]]) -> list[str]:
    """What is wrong with a repair that has maps, for boxes that begin at `starts`; empty where all is right."""
    wrong: list[str] = []
    stored = repair.stored
    for start in starts:
        copies = repair.copies(start)
        for copy in copies:
            wrong += _misaligned(repair.maps[copy.map_index], copy.coords)
        wanted = product(
            *(
                range(at, at + extent, step)
                for at, extent, step in zip(start, stored.box, stored.element_strides, strict=True)
            )
        )
        for index in wanted:
            inside = all(i < extent for i, extent in zip(index, stored.dims, strict=True))
            place = repair.locate(index)
            if place is None:
                if inside:
                    wrong.append(f"{index} has no place")
                continue
            map = repair.maps[place.map_index]
            there = all(0 <= i < extent for i, extent in zip(place.coords, map.dims, strict=True))
            if inside:
                if not there:
                    wrong.append(f"{index} is past the end of its map at {place.coords}")
                    continue
                width = WIDTH_BYTES[str(map.dtype)]
                strides = (width, *map.strides)
                address = map.address + sum(i * stride for i, stride in zip(place.coords, strides, strict=True))
                ahead = address_of(index, stored) - address
                if not 0 <= ahead <= max(0, width - stored.element_bytes):
                    wrong.append(f"{index} is read from {ahead} bytes before itself")
                if not any(
                    copy.map_index == place.map_index and _in_box(place.coords, copy.coords, map) for copy in copies
                ):
                    wrong.append(f"{index} at {place.coords} is in none of the boxes at {[c.coords for c in copies]}")
            elif there and any(
                copy.map_index == place.map_index and _in_box(place.coords, copy.coords, map) for copy in copies
            ):
                wrong.append(f"{index} is past the end and yet read from {place.coords}")
    return wrong


def _in_box(index: tuple[int, ...], start: tuple[int, ...], map: TensorMap) -> bool:
    steps = (1, *map.steps[1:])
    return all(
        0 <= i - at < extent and (i - at) % step == 0
        for i, at, extent, step in zip(index, start, map.box, steps, strict=True)
    )


def _misaligned(map: TensorMap, coords: tuple[int, ...]) -> list[str]:
    if coords[0] * WIDTH_BYTES[str(map.dtype)] % 16:
        return [f"a copy begins at {coords}, no multiple of 16 bytes"]
    return []
