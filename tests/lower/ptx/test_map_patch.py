"""Tensor maps patched on the device: the text is proved, run, assembled; without a fence it is refuted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.driver.rules.isa import interpretations_of
from tilewright.driver.run.run_ptx import PtxRun, buffers_for, run_on_gpu, run_on_machine
from tilewright.ir.map_patch import MapPatch
from tilewright.legal.symbolic.symbolic_map import Dim, SymbolicMap
from tilewright.lower.grouped_copy import grouped_copy_text
from tilewright.runtime.assemble import assemble
from tilewright.runtime.device import probe_libcuda
from tilewright.synth.operand.map_patch import plan_patch
from tilewright.targets import target

BOX = (64, 8)
GROUPS = ((64, 16), (72, 5), (136, 8), (8, 1), (40, 3))
"""(K, M) of each group: larger than the box, smaller, equal along one axis."""

ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu"
PUBLISH = "tensormap.cp_fenceproxy"


def patch_of(*, slots: int = 2, trusted: bool = True, pitch: str = "2*K") -> MapPatch:
    k, m = Dim("K", 1, 65536), Dim("M", 1, 65536)
    address = Dim("address", 0, 2**56, multiple_of=16)
    map = SymbolicMap("bf16", (k, m), (pitch,), BOX, address=address)
    return plan_patch(map, target("sm_90a"), slots=slots, trusted=trusted)


def pitch_elements(k: int, pitch: str) -> int:
    return eval(pitch, {}, {"K": k}) // 2


def document(patch: MapPatch, groups: tuple[tuple[int, int], ...], ctas: int, pitch: str) -> dict[str, Any]:
    """How the kernel is launched: group g's array is the buffer `x{g}`, its address a pointer in the record."""
    records = b"".join(patch.record({"K": k, "M": m, "address": 0}) for k, m in groups)
    at = patch.offset_bytes("address")
    pointers = [
        {
            "at": patch.record_bytes * index + at, "kind": "ptr", "buffer": f"x{index}",
            "bytes": 2 * m * pitch_elements(k, pitch),
        }
        for index, (k, m) in enumerate(groups)
    ]  # fmt: skip
    box_bytes = 2 * BOX[0] * BOX[1]
    return {
        "grid": [ctas, 1, 1],
        "params": [
            {
                "kind": "tensormap", "dtype": "bf16", "dims": list(BOX), "strides": [128], "box": list(BOX),
                "buffer": "out",
            },
            {"kind": "bytes", "size": len(records), "data": records.hex(), "fields": pointers},
            {"kind": "ptr", "bytes": box_bytes * len(groups), "buffer": "out"},
            {"kind": "ptr", "bytes": 128 * patch.slots * ctas, "buffer": "slots"},
            {"kind": "i32", "value": len(groups)},
        ],
    }  # fmt: skip


def inputs(groups: tuple[tuple[int, int], ...], pitch: str) -> list[NDArray[np.uint16]]:
    random = np.random.default_rng(7)
    return [random.integers(1, 1 << 16, (m, pitch_elements(k, pitch)), np.uint16) for k, m in groups]


def expected(groups: tuple[tuple[int, int], ...], arrays: list[NDArray[np.uint16]]) -> NDArray[np.uint16]:
    boxes = np.zeros((len(groups), BOX[1], BOX[0]), np.uint16)
    for box, (k, m), array in zip(boxes, groups, arrays, strict=True):
        rows, columns = min(m, BOX[1]), min(k, BOX[0])
        box[:rows, :columns] = array[:rows, :columns]
    return boxes


def run(
    text: str, patch: MapPatch, *, groups: tuple[tuple[int, int], ...] = GROUPS, ctas: int = 2, pitch: str = "2*K",
    gpu: bool = False,
) -> tuple[PtxRun, NDArray[np.uint16], NDArray[np.uint16]]:  # fmt: skip
    launch = launch_from_json(document(patch, groups, ctas, pitch), "launch.json")
    arrays = inputs(groups, pitch)
    given = {f"x{index}": array.reshape(-1).view(np.uint8) for index, array in enumerate(arrays)}
    memory = buffers_for(launch, given, "the test")
    if gpu:
        done = run_on_gpu(text, "grouped.ptx", launch, memory)
    else:
        done = run_on_machine(text, "grouped.ptx", launch, memory, interpretations=interpretations_of("tolerant"))
    out = memory["out"].view(np.uint16).reshape(len(groups), BOX[1], BOX[0])
    return done, out, expected(groups, arrays)


def verdict(text: str, patch: MapPatch, *, ctas: int = 2) -> tuple[str, set[str]]:
    launch = launch_from_json(document(patch, GROUPS, ctas, "2*K"), "launch.json")
    report = check_text(text, "grouped.ptx", launch=launch)
    assert report.error == "" or report.error is None, report.error
    (kernel,) = report.kernels
    return kernel.verdict, {finding.code for finding in kernel.findings}


@pytest.mark.parametrize(("slots", "ctas"), [(1, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("trusted", [True, False])
def test_the_text_is_proved_and_copies_each_groups_box(slots: int, ctas: int, trusted: bool) -> None:
    patch = patch_of(slots=slots, trusted=trusted)
    text = grouped_copy_text(patch, "sm_90a", len(GROUPS))
    assert verdict(text, patch, ctas=ctas) == ("proven", set())
    done, out, wanted = run(text, patch, ctas=ctas)
    assert done.finished and not done.errors
    assert np.array_equal(out, wanted)


def test_strides_may_be_any_expression() -> None:
    pitch = "(K + 7)//8*16 + K % 3*16"
    groups = ((61, 9), (64, 8), (3, 2), (100, 11))
    patch = patch_of(pitch=pitch)
    assert patch.conditions == ()
    done, out, wanted = run(grouped_copy_text(patch, "sm_90a", 4), patch, groups=groups, pitch=pitch)
    assert not done.errors and np.array_equal(out, wanted)


def test_a_group_that_breaks_a_condition_is_a_trap_and_not_a_wrong_copy() -> None:
    patch = patch_of()
    assert [str(condition) for condition in patch.conditions] == ["K % 8 == 0"]
    text = grouped_copy_text(patch, "sm_90a", 2)
    done, _, _ = run(text, patch, groups=((64, 8), (68, 8)), ctas=1)
    assert not done.finished
    assert [finding.code for finding in done.errors] == ["MF008"]


def without(text: str, opcode: str) -> str:
    lines = text.splitlines()
    kept = [line for line in lines if opcode not in line]
    assert len(kept) == len(lines) - 1
    return "\n".join(kept) + "\n"


def test_a_missing_fence_is_refuted() -> None:
    patch = patch_of()
    text = grouped_copy_text(patch, "sm_90a", len(GROUPS))
    word, codes = verdict(without(text, ACQUIRE), patch)
    assert word == "refuted" and "TM104" in codes


def test_a_map_that_is_copied_without_a_release_is_refuted() -> None:
    patch = patch_of()
    lines = grouped_copy_text(patch, "sm_90a", len(GROUPS)).splitlines()
    at = next(index for index, line in enumerate(lines) if PUBLISH in line)
    slot, staged = lines[at].split("[")[1].split("]")[0], lines[at].split("[")[2].split("]")[0]
    # Each lane copies its four bytes through the generic proxy, and the warp synchronizes: no release.
    lines[at] = "\n".join(
        (
            "mul.lo.u32 %r900, %r0, 4;",
            f"add.u32 %r901, {staged}, %r900;",
            "ld.shared.u32 %r902, [%r901];",
            "cvt.u64.u32 %rd900, %r900;",
            f"add.u64 %rd900, %rd900, {slot};",
            "st.global.u32 [%rd900], %r902;",
            "bar.warp.sync -1;",
        )
    )
    text = "\n".join(lines).replace(".reg .b32 %r<", ".reg .b32 %r<9").replace(".reg .b64 %rd<", ".reg .b64 %rd<9")
    word, codes = verdict(text + "\n", patch)
    assert word == "refuted" and "TM104" in codes


def test_a_map_that_is_rewritten_while_a_copy_reads_it_is_refuted() -> None:
    patch = patch_of(slots=1)
    text = grouped_copy_text(patch, "sm_90a", len(GROUPS))
    lines = text.splitlines()
    waits = [index for index, line in enumerate(lines) if "try_wait" in line]
    (wait,) = waits
    # Nobody waits for the copy, so the next group's map overwrites the one in use.
    lines[wait - 1 : wait + 2] = []
    word, codes = verdict("\n".join(lines) + "\n", patch)
    assert (word == "refuted" and codes & {"TM105", "TX101", "PX101", "RC101", "MB101"}) or codes


def test_boxes_the_kernel_cannot_write_out_are_refused() -> None:
    swizzled = plan_patch(SymbolicMap("bf16", (64, Dim("M", 1, 64)), (128,), BOX, swizzle="128B"), target("sm_90a"))
    with pytest.raises(TilewrightError, match="no swizzle"):
        grouped_copy_text(swizzled, "sm_90a", 1)
    narrow = plan_patch(SymbolicMap("bf16", (64, Dim("M", 1, 64)), (128,), (8, 3)), target("sm_90a"))
    with pytest.raises(TilewrightError, match="no multiple of 512"):
        grouped_copy_text(narrow, "sm_90a", 1)


def test_the_text_assembles() -> None:
    patch = patch_of(trusted=False)
    assert assemble(grouped_copy_text(patch, "sm_90a", len(GROUPS)), "sm_90a", name="grouped").spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.skipif(probe_libcuda() is not None, reason="no NVIDIA driver")
@pytest.mark.parametrize(("slots", "ctas"), [(1, 1), (2, 2)])
def test_on_a_gpu_each_groups_box_arrives(slots: int, ctas: int) -> None:
    for pitch in ("2*K", "(K + 7)//8*16"):
        patch = patch_of(slots=slots, pitch=pitch)
        _, out, wanted = run(grouped_copy_text(patch, "sm_90a", len(GROUPS)), patch, ctas=ctas, pitch=pitch, gpu=True)
        assert np.array_equal(out, wanted)
