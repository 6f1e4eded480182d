"""Im2col columns: against the definition of a convolution's patches, through the machine, and their errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.machine.small_kernels import COPY_PARAMETERS, as_bytes, launch, module

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Im2col, Im2colMode, TensorMap, TensorMapParam
from tilewright.machine import copy_box
from tilewright.machine.copy.copy_engine import load_box, store_box, transaction_bytes
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.run import run_launch
from tilewright.targets import target

HOPPER = target("sm_90a")


def images(count: int, height: int, width: int, channels: int) -> NDArray[np.uint16]:
    return np.random.default_rng(7).integers(1, 1 << 16, (count, height, width, channels), np.uint16)


def map_of(tensor: NDArray[np.uint16], im2col: Im2col, steps: tuple[int, int] = (1, 1), **fields: object) -> TensorMap:
    """The im2col map of dense NHWC images. steps: along W and H."""
    count, height, width, channels = tensor.shape
    given: dict[str, object] = {
        "element": Element.U16,
        "dims": (channels, width, height, count),
        "strides_bytes": (channels * 2, width * channels * 2, height * width * channels * 2),
        "box": (),
        "element_strides": (1, *steps, 1),
        "im2col": im2col,
        **fields,
    }
    return TensorMap(**given)  # pyright: ignore[reportArgumentType]


@given(
    height=st.integers(3, 7),
    width=st.integers(3, 7),
    filter_height=st.integers(1, 3),
    filter_width=st.integers(1, 3),
    pad=st.integers(0, 1),
    steps=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    begin=st.integers(0, 40),
    pixels=st.integers(1, 40),
)
@settings(max_examples=60, deadline=None)
def test_columns_are_the_patches_of_a_convolution(
    height: int, width: int, filter_height: int, filter_width: int, pad: int, steps: tuple[int, int], begin: int,
    pixels: int,
) -> None:  # fmt: skip
    """Column `begin`.. of the patch matrix of a padded, strided convolution, tap by tap."""
    tensor = images(3, height, width, 8)
    upper = (pad - (filter_width - 1), pad - (filter_height - 1))
    tensor_map = map_of(tensor, Im2col((-pad, -pad), upper, 8, pixels), steps)
    padded = np.pad(tensor, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    for tap_h in range(filter_height):
        for tap_w in range(filter_width):
            rows = (height + 2 * pad - filter_height) // steps[1] + 1
            columns = (width + 2 * pad - filter_width) // steps[0] + 1
            patches = padded[
                :, tap_h : tap_h + rows * steps[1] : steps[1], tap_w : tap_w + columns * steps[0] : steps[0]
            ]
            patches = patches[:, :rows, :columns].reshape(-1, 8)
            first = begin % len(patches)
            image, rest = divmod(first, rows * columns)
            row, column = divmod(rest, columns)
            start = (0, column * steps[0] - pad, row * steps[1] - pad, image)
            found = (
                copy_box(tensor_map, as_bytes(tensor), start, (tap_w, tap_h), target="sm_90a")
                .data.view(np.uint16)
                .reshape(-1, 8)
            )
            expected = np.zeros((pixels, 8), np.uint16)
            there = patches[first : first + pixels]
            expected[: len(there)] = there
            assert np.array_equal(found, expected)


CONVOLUTION = """
.shared .align 1024 .b8 tile[1024];
.shared .align 8 .b8 bar[8];
mov.b64 %rd1, source; cvta.param.u64 %rd1, %rd1;
mov.b64 %rd2, target; cvta.param.u64 %rd2, %rd2;
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
mov.u32 %r3, bar;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra DONE;
mbarrier.init.shared::cta.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
mov.u16 %h1, 1; mov.u16 %h2, 2;
mov.u32 %r4, 0; mov.u32 %r5, -1;
cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
    [%r2], [%rd1, {%r4, %r5, %r5, %r4}], [%r3], {%h1, %h2};
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra WAIT;
cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%rd2, {%r4, %r4, %r4, %r4}], [%r2];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE: ret;
"""


def test_the_machine_loads_and_stores_columns() -> None:
    tensor = images(1, 6, 6, 16)
    target = np.zeros_like(tensor)
    source = map_of(tensor, Im2col((-1, -1), (-1, -1), 16, 16), swizzle="32B")
    onto = map_of(target, Im2col((0, 0), (-2, -2), 16, 16), swizzle="32B")
    run_launch(
        module(CONVOLUTION, parameters=COPY_PARAMETERS),
        launch(TensorMapParam("source", source), TensorMapParam("target", onto)),
        {"source": as_bytes(tensor), "target": as_bytes(target)},
    )
    # The walk spans 6 pixels a row from -1 on; the tap moves it by (1, 2). The store's box spans 4 pixels a row.
    column = tensor[0, 1:].reshape(-1, 16)[:16]
    assert np.array_equal(target[0, :4, :4].reshape(-1, 16), column)
    assert not target[0, 4:].any() and not target[0, :, 4:].any()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (".global.im2col.", ".global.tile.", "TM202"),
        ("[%rd2, {%r4, %r4, %r4, %r4}]", "[%rd2, {%r4, %r5, %r4, %r4}]", "MF007"),
        ("{%r4, %r5, %r5, %r4}], [%r3], {%h1, %h2}", "{%r3, %r5, %r5, %r4}], [%r3], {%h1, %h2}", "AL202"),
    ],
)
def test_misused_columns_are_faults(old: str, new: str, code: str) -> None:
    assert old in CONVOLUTION
    text = CONVOLUTION.replace(old, new)
    if "tile" in new:
        text = text.replace(", {%h1, %h2}", "")
    if "%r3, %r5" in new:
        text = text.replace("mov.u32 %r4, 0;", "mov.u32 %r4, 0; mov.u32 %r6, 1;").replace("{%r3, %r5", "{%r6, %r5")
    tensor = images(1, 6, 6, 16)
    source = map_of(tensor, Im2col((-1, -1), (-1, -1), 16, 16), swizzle="32B")
    onto = map_of(tensor, Im2col((0, 0), (-2, -2), 16, 16), swizzle="32B")
    with pytest.raises(MachineFault) as caught:
        run_launch(
            module(text, parameters=COPY_PARAMETERS),
            launch(TensorMapParam("source", source), TensorMapParam("target", onto)),
            {"source": as_bytes(tensor), "target": as_bytes(tensor.copy())},
        )
    assert caught.value.code == code


@pytest.mark.parametrize(("at", "name"), [((0, 5, 0, 0), "W 5"), ((0, -2, 0, 0), "W -2"), ((0, 0, 6, 0), "H 6")])
def test_a_column_begins_inside_its_bounding_box(at: tuple[int, ...], name: str) -> None:
    # An H200 answers CUDA_ERROR_ILLEGAL_INSTRUCTION otherwise; images may be any.
    tensor = images(1, 6, 6, 16)
    tensor_map = map_of(tensor, Im2col((-1, 0), (-1, 0), 16, 16))
    with pytest.raises(TilewrightError, match=f"an im2col copy starts at {name}, outside its bounding box"):
        copy_box(tensor_map, as_bytes(tensor), at, target="sm_90a")
    assert not copy_box(tensor_map, as_bytes(tensor), (0, 0, 0, 7), target="sm_90a").data.any()


@pytest.mark.parametrize("taps", [(256, 0), (0, -1)])
def test_offsets_have_limits(taps: tuple[int, ...]) -> None:
    tensor = images(1, 6, 6, 16)
    tensor_map = map_of(tensor, Im2col((-1, 0), (-1, 0), 16, 16))
    with pytest.raises(TilewrightError, match="are not in 0 to 255"):
        copy_box(tensor_map, as_bytes(tensor), (0, 0, 0, 0), taps, target="sm_90a")


def test_a_store_needs_a_bounding_box_inside_the_tensor() -> None:
    tensor_map = map_of(images(1, 6, 6, 16), Im2col((-1, 0), (0, 0), 16, 16))
    with pytest.raises(EngineFault, match="bounding box leaves the tensor"):
        store_box(tensor_map, (0, 0, 0, 0), np.zeros(512, np.uint8), 0, HOPPER, "im2col")


@pytest.mark.parametrize("mode", ["im2col::w", "im2col::w::128"])
def test_the_wide_modes_are_refused_by_name(mode: Im2colMode) -> None:
    tensor_map = map_of(images(1, 6, 6, 16), Im2col((0,), (0,), 16, 16, mode))
    with pytest.raises(EngineFault, match=f"no model of mode {mode}"):
        transaction_bytes(tensor_map, HOPPER)


@pytest.mark.parametrize(
    ("im2col", "message"),
    [
        (Im2col((0,), (0,), 8, 4), "corners of rank minus two entries"),
        (Im2col((3, 0), (-3, 0), 8, 4), "the bounding box from \\(3, 0\\) to \\(2, 5\\) is empty"),
        (Im2col((0, 0), (0, 0), 8, 0), "a column has no pixels"),
        (Im2col((0, 0), (0, 0), 4, 4), "inner row of 8 bytes is no multiple of 16"),
    ],
)
def test_fields_that_do_not_fit(im2col: Im2col, message: str) -> None:
    with pytest.raises(EngineFault, match=message):
        load_box(map_of(images(1, 6, 6, 16), im2col), (0, 0, 0, 0), np.zeros(1152, np.uint8), 0, HOPPER, "im2col")
