"""Views agree with NumPy about every element, through DLPack capsules of both versions; pitfalls are errors."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.runtime import arrays
from tilewright.runtime.arrays import (
    CARRIERS,
    contiguous_strides,
    current_stream,
    empty_like_device,
    numpy_dtype,
    view_array,
    view_capsule,
)


class Exporter:
    """Another library's array: NumPy's memory behind nothing but the DLPack protocol."""

    def __init__(self, array: np.ndarray[Any, Any], *, versioned: bool = True) -> None:
        self.array = array
        self.versioned = versioned

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> object:
        if not self.versioned and keywords:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**keywords)


DLPACK_ELEMENTS = [
    element
    for element in Element
    if element is not Element.BF16 and not (element.is_float8 or element.is_factor or element.is_pair)
]


@pytest.mark.parametrize("element", list(Element))
def test_every_element_of_numpy_is_known(element: Element) -> None:
    view = view_array(np.zeros((2, 3), numpy_dtype(element)))
    assert (view.element, view.shape, view.strides) == (CARRIERS.get(element, element), (2, 3), (3, 1))
    assert (view.device, view.library, view.writable) == ("cpu", "numpy", True)
    assert numpy_dtype(element).itemsize == element.bytes


def test_two_numbers_of_four_bits_make_a_byte() -> None:
    array = np.array([[1.0, -6.0, 0.5, 0.0], [2.0, 3.0, -0.5, 4.0]]).astype(ml_dtypes.float4_e2m1fn)
    for each, bits in ((array, [[0xF2, 0x01], [0x54, 0x69]]), (array[:, ::-1], [[0x10, 0x2F], [0x96, 0x45]])):
        view = view_array(each)
        assert (view.element, view.shape, view.strides) == (Element.F4E2M1X2, (2, 2), (2, 1))
        assert view.numpy().tolist() == bits and not view.writable
    with pytest.raises(TilewrightError, match="3 numbers of 4 bits in a row, of which two make a byte"):
        view_array(array[:, :3])


@st.composite
def sliced_arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    shape = draw(st.lists(st.integers(1, 5), max_size=4))
    element = draw(st.sampled_from(DLPACK_ELEMENTS))
    array = np.arange(int(np.prod(shape)), dtype=np.int64).astype(numpy_dtype(element)).reshape(shape)
    array = array.transpose(draw(st.permutations(range(len(shape)))))
    steps = st.sampled_from([slice(None), slice(None, None, 2), slice(1, None), slice(None, None, -1)])
    return array[(..., *(draw(steps) for _ in shape))]


@given(sliced_arrays(), st.booleans())
def test_a_dlpack_view_reads_the_same_elements(array: np.ndarray[Any, Any], versioned: bool) -> None:
    view = view_array(Exporter(array, versioned=versioned))
    assert view.shape == array.shape
    assert view.element.bytes == array.itemsize
    read = view.numpy()
    assert read.dtype == array.dtype
    assert np.array_equal(read, array)
    if array.size:
        assert view.pointer == array.ctypes.data
        assert np.shares_memory(read, array)
        direct = view_array(array)
        assert (direct.pointer, direct.element) == (view.pointer, view.element)
        for extent, mine, other in zip(array.shape, direct.strides, view.strides, strict=True):
            assert extent <= 1 or mine == other


def test_writes_through_a_view_arrive() -> None:
    array = np.zeros((3, 4), np.float32)
    view_array(Exporter(array[:, ::-1])).numpy()[...] = np.arange(12).reshape(3, 4)
    assert array[0].tolist() == [3, 2, 1, 0]


def test_a_view_keeps_the_memory_alive_and_then_lets_it_go() -> None:
    array = np.arange(4, dtype=np.float32)
    alive = weakref.ref(array)
    read = view_array(Exporter(array)).numpy()
    del array
    gc.collect()
    assert alive() is not None
    assert read.tolist() == [0, 1, 2, 3]
    del read
    gc.collect()
    assert alive() is None


def test_read_only_arrays_are_marked() -> None:
    array = np.arange(4, dtype=np.float32)
    array.flags.writeable = False
    assert not view_array(array).writable
    view = view_array(Exporter(array))
    assert not view.writable
    assert not view.numpy().flags.writeable


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(2, np.complex64), "x has elements of type complex64"),
        (np.zeros(2, bool), "type bool"),
        (np.zeros(2, np.int16), "type int16"),
        (np.zeros(2, ml_dtypes.float8_e4m3b11fnuz), "type float8_e4m3b11fnuz"),
        (np.zeros(2, ">f4"), "foreign byte order"),
        (np.array(["a"], object), "type object"),
        (np.zeros(4, [("a", "i4"), ("b", "i2")])["a"], "no multiples of its 4-byte elements"),
        (Exporter(np.zeros(2, np.complex64)), "type complex64"),
        (Exporter(np.zeros(2, bool)), "type bool8"),
        (Exporter(np.zeros(2, np.int16)), "type int16"),
        ([1, 2], "x is list, no array"),
        (None, "x is NoneType, no array"),
    ],
)
def test_unsupported_arrays_are_named(array: object, message: str) -> None:
    with pytest.raises(TilewrightError, match=message) as caught:
        view_array(array, name="x")
    assert caught.value.remedy


class Refusing:
    """Like a PyTorch tensor that requires gradients."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> object:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")


class Elsewhere(Refusing):
    def __dlpack_device__(self) -> tuple[int, int]:
        return (10, 0)  # kDLROCM


def test_a_library_that_will_not_share_is_quoted() -> None:
    with pytest.raises(TilewrightError, match="require gradient") as caught:
        view_array(Refusing(), name="x")
    assert "detach" in caught.value.remedy
    with pytest.raises(TilewrightError, match="device type 10"):
        view_array(Elsewhere(), name="x")


class OnGpu:
    """Records the stream asked for, and describes device memory without having any."""

    def __init__(self) -> None:
        self.streams: list[object] = []
        self.shape = (ctypes.c_int64 * 2)(4, 8)
        self.tensor = arrays._DLTensor(0x7000, 2, 3, 2, 4, 16, 1, self.shape, None, 32)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 3)

    def __dlpack__(self, *, stream: object, max_version: object) -> object:
        self.streams.append(stream)
        return capsule(self.tensor, b"dltensor")


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_new_capsule.restype = ctypes.py_object


def capsule(content: ctypes.Structure, name: bytes) -> Any:
    return _new_capsule(ctypes.addressof(content), name, None)


def test_a_gpu_array_is_viewed_without_touching_it() -> None:
    array = OnGpu()
    view = view_array(array)
    assert (view.device, view.ordinal, view.element) == ("cuda", 3, Element.BF16)
    assert (view.pointer, view.shape, view.strides) == (0x7000 + 32, (4, 8), (8, 1))
    with pytest.raises(TilewrightError, match="no NumPy view"):
        view.numpy()
    view_array(array, stream=0)
    view_array(array, stream=5)
    assert array.streams == [-1, 1, 5]
    assert current_stream(view) == 0
    with pytest.raises(TilewrightError, match="how to make another"):
        empty_like_device(view, (2,), Element.F32)


def test_capsules_that_are_none_or_too_new_are_refused() -> None:
    for bad in (object(), 3, capsule(OnGpu().tensor, b"used_dltensor")):
        with pytest.raises(TilewrightError, match="no DLPack capsule, or one used before"):
            view_capsule(bad)
    managed = arrays._DLManagedTensorVersioned(2, 0)
    with pytest.raises(TilewrightError, match=r"DLPack 2\.0"):
        view_capsule(capsule(managed, b"dltensor_versioned"))
    array = OnGpu()
    array.tensor.lanes = 4
    with pytest.raises(TilewrightError, match="bfloat16x4"):
        view_array(array)


def test_new_arrays_follow_the_argument() -> None:
    view = view_array(np.zeros(2, np.float32))
    made = empty_like_device(view, (3, 2), Element.BF16)
    assert isinstance(made, np.ndarray)
    assert (made.shape, made.dtype) == ((3, 2), np.dtype(ml_dtypes.bfloat16))


def test_row_major_strides() -> None:
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert contiguous_strides(()) == ()
    assert contiguous_strides((2, 0, 4)) == (4, 4, 1)
