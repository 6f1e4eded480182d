"""Launch plans survive a round trip through JSON text, and damaged documents are refused by path."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import (
    Buffer,
    ElementVariant,
    Im2col,
    Im2colMode,
    Launch,
    LaunchPlan,
    LaunchSizes,
    NullPointerParam,
    OpaqueParam,
    Param,
    PointerParam,
    RunTimeSizes,
    ScalarParam,
    TensorMap,
    TensorMapParam,
    UnknownTensorMapParam,
)
from tilewright.base.plan_json import plan_from_json, plan_to_json
from tilewright.base.run_time import plan_at
from tilewright.base.size import Extent, Range, ceil_div, chosen, computed

_extents = st.integers(1, 2**31)
_grids = st.tuples(_extents, _extents, _extents)
_names = st.text("abcxyz_0", min_size=1, max_size=4)


@st.composite
def tensor_maps(draw: st.DrawFn) -> TensorMap:
    rank = draw(st.integers(1, 5))

    def tuples(size: int, low: int = 1) -> tuple[int, ...]:
        return draw(st.tuples(*[st.integers(low, 2**32)] * size))

    corners = st.tuples(*[st.integers(-(2**15), 2**15)] * draw(st.integers(0, 3)))
    im2col = st.builds(
        lambda both, channels, pixels, mode: Im2col(both[0], both[1], channels, pixels, mode),
        st.tuples(corners, corners),
        st.integers(1, 256),
        st.integers(0, 1024),
        st.sampled_from(get_args(Im2colMode)),
    )
    columns = draw(st.one_of(st.none(), im2col))
    return TensorMap(
        element=draw(st.sampled_from(list(Element))),
        dims=tuples(rank),
        strides_bytes=tuples(rank - 1, 0),
        box=tuples(rank) if columns is None else (),
        variant=draw(st.sampled_from(get_args(ElementVariant))),
        im2col=columns,
        element_strides=tuples(rank) if draw(st.booleans()) else (),
        swizzle=draw(st.sampled_from(["none", "32B", "64B", "128B"])),
        interleave=draw(st.sampled_from(["none", "16B", "32B"])),
        l2_promotion=draw(st.sampled_from(["none", "64B", "128B", "256B"])),
        out_of_bounds=draw(st.sampled_from(["zero", "nan"])),
        offset_bytes=draw(st.integers(0, 2**40)),
    )


def _scalars() -> st.SearchStrategy[ScalarParam]:
    return st.one_of(
        st.builds(ScalarParam, st.just("i32"), st.integers(-(2**31), 2**32 - 1)),
        st.builds(ScalarParam, st.just("i64"), st.integers(-(2**63), 2**64 - 1)),
        st.builds(ScalarParam, st.just("f32"), st.floats(width=32, allow_nan=False)),
    )


@st.composite
def _opaques(draw: st.DrawFn, some_buffer: st.SearchStrategy[str]) -> OpaqueParam:
    size_bytes = draw(st.integers(1, 256))
    members = st.one_of(
        st.builds(PointerParam, some_buffer, st.integers(0, 2**40)),
        st.builds(UnknownTensorMapParam, st.none()),
        st.builds(TensorMapParam, some_buffer, tensor_maps()),
    )
    fields = draw(st.lists(st.tuples(st.integers(0, 200), members), max_size=2))
    return OpaqueParam(size_bytes, draw(st.binary(max_size=size_bytes)), tuple(fields))


@st.composite
def plans(draw: st.DrawFn) -> LaunchPlan:
    names = draw(st.lists(_names, min_size=1, max_size=4, unique=True))
    buffers = tuple(
        Buffer(
            name,
            draw(st.sampled_from(list(Element))),
            shape := tuple(draw(st.lists(st.integers(0, 2**40), max_size=4))),
            tuple(draw(st.integers(0, 2**40)) for _ in shape),
            draw(st.sampled_from(["input", "output", "workspace"])),
            draw(st.booleans()),
        )
        for name in names
    )
    some_buffer = st.sampled_from(names)
    params: st.SearchStrategy[Param] = st.one_of(
        st.builds(PointerParam, some_buffer, st.integers(0, 2**40)),
        st.builds(TensorMapParam, some_buffer, tensor_maps()),
        st.just(NullPointerParam()),
        st.builds(UnknownTensorMapParam, st.none() | st.integers(1, 2**20)),
        _opaques(some_buffer),
        _scalars(),
    )
    launches = st.builds(
        Launch,
        _names,
        _grids,
        _grids,
        st.lists(params, max_size=5).map(tuple),
        _grids,
        st.integers(0, 2**20),
        st.booleans(),
        st.booleans(),
    )
    return LaunchPlan(buffers, tuple(draw(st.lists(launches, max_size=3))))


@settings(max_examples=60, deadline=None)
@given(plans())
def test_a_plan_read_back_equals_the_plan_written(plan: LaunchPlan) -> None:
    text = json.dumps(plan_to_json(plan), allow_nan=False)
    assert plan_from_json(json.loads(text)) == plan


RUN_TIME = LaunchPlan(
    (
        Buffer("x", Element.BF16, (512, 32), (32, 1), "input"),
        Buffer("y", Element.F32, (512,), (1,), "output"),
        Buffer("w", Element.F32, (8,), (1,), "workspace"),
    ),
    (
        Launch(
            "k",
            (4, 1, 1),
            (128, 1, 1),
            (
                TensorMapParam("x", TensorMap(Element.BF16, (32, 512), (64,), (32, 64))),
                PointerParam("y"),
                ScalarParam("i32", 8),
                ScalarParam("f32", 0.5),
            ),
        ),
    ),
    RunTimeSizes(
        (("M", Range(0, 512, 8)),),
        ((Extent("M"), 32), (Extent("M"),), (8,)),
        (
            LaunchSizes(
                (computed("min", ceil_div(Extent("M"), 64), 4), 1, 1),
                ((32, Extent("M")), (), (ceil_div(Extent("M"), 64),), ()),
            ),
        ),
    ),
)


def test_a_plan_with_run_time_axes_survives() -> None:
    document = json.loads(json.dumps(plan_to_json(RUN_TIME), allow_nan=False))
    assert plan_from_json(document) == RUN_TIME
    assert document["axes"] == [{"name": "M", "least": 0, "most": 512, "multiple_of": 8}]
    assert document["buffers"][0]["shape"] == ["M", 32]
    assert document["launches"][0]["grid"] == ["min(ceil_div(M, 64), 4)", 1, 1]
    assert document["launches"][0]["params"][0]["map"]["dims"] == [32, "M"]
    assert document["launches"][0]["params"][2]["value"] == "ceil_div(M, 64)"


def test_what_is_launched_at_some_extents_survives() -> None:
    assert RUN_TIME.run_time is not None
    (sizes,) = RUN_TIME.run_time.launches
    some = replace(RUN_TIME, run_time=replace(
        RUN_TIME.run_time, launches=(replace(sizes, launched=chosen(Extent("M"), (0, 1))),)
    ))  # fmt: skip
    document = json.loads(json.dumps(plan_to_json(some), allow_nan=False))
    assert plan_from_json(document) == some and document["launches"][0]["launched"] == "choose(M, 0, 1)"
    document["launches"][0]["launched"] = "T"
    with pytest.raises(TilewrightError, match=r"launches\[0\].launched names T, which is no axis"):
        plan_from_json(document)


def test_strides_that_follow_from_extents_survive() -> None:
    apart, bytes_apart = computed("*", Extent("M"), 32), computed("*", computed("*", Extent("M"), 32), 2)
    described = TensorMapParam("x", TensorMap(Element.BF16, (32, 512, 4), (64, 32768), (32, 64, 1)))
    plan = LaunchPlan(
        (Buffer("x", Element.BF16, (4, 512, 32), (16384, 32, 1), "input"),),
        (Launch("k", (1, 1, 1), (128, 1, 1), (described,)),),
        RunTimeSizes(
            (("M", Range(0, 512, 8)),), ((4, Extent("M"), 32),),
            (LaunchSizes((1, 1, 1), ((32, Extent("M"), 4, 64, bytes_apart),)),), ((apart, 32, 1),),
        ),
    )  # fmt: skip
    document = json.loads(json.dumps(plan_to_json(plan), allow_nan=False))
    assert plan_from_json(document) == plan
    assert document["buffers"][0]["strides"] == ["M * 32", 32, 1]
    assert document["launches"][0]["params"][0]["map"]["strides_bytes"] == [64, "(M * 32) * 2"]
    (launch,) = plan_at(plan, {"M": 24}).launches
    (param,) = launch.params
    assert isinstance(param, TensorMapParam)
    assert (param.map.dims, param.map.strides_bytes) == ((32, 24, 4), (64, 1536))
    assert plan_at(plan, {"M": 24}).buffers[0].strides == (768, 32, 1)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("axes",), [], "plan.axes is no list of axes"),
        (("axes", 0, "most"), 511, "plan.axes[0] has"),
        (("axes", 0, "name"), 7, "plan.axes[0] is no axis"),
        (("axes",), [{"name": "M", "least": 0, "most": 512}], "plan.axes[0] is no axis"),
        (("buffers", 0, "shape", 0), "Q", "plan.buffers[0].shape[0] names Q, which is no axis of the plan"),
        (("buffers", 0, "shape", 0), "M +", "plan.buffers[0].shape[0] is no size"),
        (("buffers", 0, "shape", 0), 1.5, "plan.buffers[0].shape[0] is the number 1.5"),
        (("buffers", 0, "strides", 0), "Q", "plan.buffers[0].strides[0] names Q, which is no axis of the plan"),
        (("launches", 0, "grid", 0), "8 // (M // 64)", "plan.launches[0].grid[0] is no size at every extent"),
        (("launches", 0, "grid"), ["M", 1], "plan.launches[0].grid has 2 entries"),
        (("launches", 0, "block", 0), "M", "plan.launches[0].block[0] is the string 'M'"),
        (("launches", 0, "params", 2, "value"), "M * 16777216", "outside"),
        (("launches", 0, "params", 3, "value"), "M", "not a number"),
        (("launches", 0, "params"), "M", "plan.launches[0].params is the string 'M'"),
    ],
)
def test_sizes_that_are_none_are_refused_by_path(path: tuple[str | int, ...], value: object, words: str) -> None:
    document: Any = plan_to_json(RUN_TIME)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(TilewrightError) as caught:
        plan_from_json(document)
    assert words in caught.value.message, caught.value.message


def test_a_size_in_a_plan_without_axes_is_refused() -> None:
    document: Any = plan_to_json(RUN_TIME)
    del document["axes"]
    with pytest.raises(TilewrightError, match="is the string 'M'"):
        plan_from_json(document)


def test_nan_survives() -> None:
    plan = LaunchPlan((), (Launch("k", (1, 1, 1), (1, 1, 1), (ScalarParam("f32", math.nan),)),))
    read = plan_from_json(json.loads(json.dumps(plan_to_json(plan), allow_nan=False)))
    param = read.launches[0].params[0]
    assert isinstance(param, ScalarParam) and math.isnan(param.value)


def sample_document() -> dict[str, Any]:
    plan = LaunchPlan(
        (Buffer("x", Element.BF16, (64, 64), (64, 1), "input"), Buffer("y", Element.F32, (64,), (1,), "output")),
        (
            Launch(
                "k",
                (2, 1, 1),
                (128, 1, 1),
                (
                    TensorMapParam("x", TensorMap(Element.BF16, (64, 64), (128,), (64, 64), swizzle="128B")),
                    PointerParam("y"),
                    ScalarParam("i32", 7),
                ),
            ),
        ),
    )
    return json.loads(json.dumps(plan_to_json(plan)))


_DAMAGE = [
    (("buffers", 0, "shape", 0), "64", "plan.buffers[0].shape[0]"),
    (("buffers", 0, "shape", 0), True, "plan.buffers[0].shape[0]"),
    (("buffers", 0, "shape", 0), 64.0, "plan.buffers[0].shape[0]"),
    (("buffers", 0, "shape", 0), -1, "plan.buffers[0].shape[0]"),
    (("buffers", 0, "strides"), [1], "plan.buffers[0].strides"),
    (("buffers", 0, "element"), "bfloat16", "plan.buffers[0].element"),
    (("buffers", 0, "role"), "scratch", "plan.buffers[0].role"),
    (("buffers", 1, "name"), "x", "plan.buffers[1].name"),
    (("launches", 0, "grid"), [2, 1], "plan.launches[0].grid"),
    (("launches", 0, "grid", 0), 0, "plan.launches[0].grid[0]"),
    (("launches", 0, "dynamic_smem_bytes"), None, "plan.launches[0].dynamic_smem_bytes"),
    (("launches", 0, "params", 0, "param"), "texture", "plan.launches[0].params[0].param"),
    (("launches", 0, "params", 0, "map", "box"), [64], "plan.launches[0].params[0].map.box"),
    (("launches", 0, "params", 0, "map", "dims"), [], "plan.launches[0].params[0].map.dims"),
    (("launches", 0, "params", 0, "map", "strides_bytes"), [128, 1], "plan.launches[0].params[0].map.strides_bytes"),
    (("launches", 0, "params", 0, "map", "element_strides"), [1], "plan.launches[0].params[0].map.element_strides"),
    (("launches", 0, "params", 0, "map", "swizzle"), "128", "plan.launches[0].params[0].map.swizzle"),
    (("launches", 0, "params", 1, "buffer"), "z", "plan.launches[0].params[1].buffer"),
    (("launches", 0, "params", 2, "value"), 2**32, "plan.launches[0].params[2].value"),
    (("launches", 0, "params", 2, "value"), 1.5, "plan.launches[0].params[2].value"),
    (("launches", 0, "params", 2, "kind"), "u32", "plan.launches[0].params[2].kind"),
    (("launches",), {}, "plan.launches"),
    (("format",), 2, "plan.format"),
]


@pytest.mark.parametrize(("path", "value", "where"), _DAMAGE)
def test_a_wrong_value_is_refused_by_its_path(path: tuple[Any, ...], value: object, where: str) -> None:
    document = sample_document()
    assert plan_from_json(document)
    parent: Any = document
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    with pytest.raises(TilewrightError) as caught:
        plan_from_json(document)
    assert caught.value.message.startswith(where + " ")
    assert caught.value.remedy


def _objects(value: Any) -> list[dict[str, Any]]:
    match value:
        case dict():
            return [value] + [found for item in value.values() for found in _objects(item)]
        case list():
            return [found for item in value for found in _objects(item)]
        case _:
            return []


def test_every_field_is_needed_and_no_other_is_known() -> None:
    count = len(_objects(sample_document()))
    assert count > 5
    for index in range(count):
        extended = copy.deepcopy(sample_document())
        _objects(extended)[index]["surprise"] = 1
        with pytest.raises(TilewrightError, match="surprise is no field"):
            plan_from_json(extended)
        for key in list(_objects(sample_document())[index]):
            shortened = sample_document()
            del _objects(shortened)[index][key]
            with pytest.raises(TilewrightError, match=rf"{key} (is missing|is None)"):
                plan_from_json(shortened)


@pytest.mark.parametrize("document", [None, [], "plan", 3])
def test_a_document_that_is_no_object_is_refused(document: object) -> None:
    with pytest.raises(TilewrightError, match="not an object"):
        plan_from_json(document)


@pytest.mark.parametrize("value", [1e300, 10**400, "infinity", True, None])
def test_a_scalar_outside_f32_is_refused(value: object) -> None:
    document = sample_document()
    document["launches"][0]["params"][2] = {"param": "scalar", "kind": "f32", "value": value}
    with pytest.raises(TilewrightError, match=r"params\[2\]\.value"):
        plan_from_json(document)
