"""Arrays of other libraries: where their bytes are, how they are laid out, and how to make one more of the kind.

NumPy arrays are read directly, since NumPy's DLPack export knows no bfloat16; plain PyTorch tensors too, for speed.
Everything else is read through DLPack's C structures by ctypes. Neither PyTorch nor CuPy nor JAX is ever imported here:
only a library that the caller has already imported is asked to allocate.

Not handled: sub-byte, complex, boolean and vector (`lanes` > 1) elements; devices other than the CPU and CUDA.
Source: DLPack, "C API (dlpack.h)" and "Python Specification for DLPack"; the array API standard, `__dlpack__`.
Checked by: tests/runtime/test_arrays.py; tests/runtime/test_gpu.py with PyTorch where it is installed.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, Literal, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError

_SUPPORTED = ", ".join(element.value for element in Element)

_NUMPY_TYPES: dict[Element, np.dtype[Any]] = {
    Element.U8: np.dtype(np.uint8),
    Element.S8: np.dtype(np.int8),
    Element.U16: np.dtype(np.uint16),
    Element.U32: np.dtype(np.uint32),
    Element.S32: np.dtype(np.int32),
    Element.U64: np.dtype(np.uint64),
    Element.S64: np.dtype(np.int64),
    Element.F16: np.dtype(np.float16),
    Element.BF16: np.dtype(ml_dtypes.bfloat16),
    Element.F32: np.dtype(np.float32),
    Element.F64: np.dtype(np.float64),
    Element.F8E4M3: np.dtype(ml_dtypes.float8_e4m3fn),
    Element.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    Element.UE8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
    # Of arrays these are what NumPy has for others: those above come first.
    Element.UE4M3: np.dtype(ml_dtypes.float8_e4m3fn),
    Element.F4E2M1X2: np.dtype(np.uint8),
}

CARRIERS = {Element.UE4M3: Element.F8E4M3, Element.F4E2M1X2: Element.U8}
"""What an array has in the place of elements that NumPy has no name for."""
_FOUR_BITS = np.dtype(ml_dtypes.float4_e2m1fn)
"""What NumPy has a byte for each of."""

# dlpack.h, DLDataTypeCode.
_DL_CODES = {0: "int", 1: "uint", 2: "float", 3: "opaque handle", 4: "bfloat", 5: "complex", 6: "bool"}
_DL_ELEMENTS: dict[tuple[int, int], Element] = {
    (1, 8): Element.U8,
    (0, 8): Element.S8,
    (1, 16): Element.U16,
    (1, 32): Element.U32,
    (0, 32): Element.S32,
    (1, 64): Element.U64,
    (0, 64): Element.S64,
    (2, 16): Element.F16,
    (4, 16): Element.BF16,
    (2, 32): Element.F32,
    (2, 64): Element.F64,
    (10, 8): Element.F8E4M3,
    (12, 8): Element.F8E5M2,
    (14, 8): Element.UE8M0,
}
# dlpack.h, DLDeviceType: pinned host memory (3) is the host's, managed memory (13) the GPU's.
_DL_DEVICES: dict[int, Literal["cpu", "cuda"]] = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}
_DL_READ_ONLY = 1
_DL_VERSION = (1, 0)


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


@dataclass(frozen=True, slots=True)
class ArrayView:
    """One array as a kernel sees it. `pointer` addresses element 0; strides are in elements, outermost first.

    device: "cpu" or "cuda", and ordinal which GPU (0 on the CPU); library: the top-level package that the array came
    from; owner: keeps the memory alive for as long as the view lives.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: Element
    device: Literal["cpu", "cuda"]
    ordinal: int
    writable: bool
    library: str
    owner: object = field(repr=False, compare=False)

    def numpy(self) -> npt.NDArray[Any]:
        """The same bytes as a NumPy array. Raises TilewrightError for memory on a GPU."""
        if self.device != "cpu":
            raise TilewrightError("an array on the GPU has no NumPy view", remedy="copy it to the CPU")
        if self.library == "numpy":
            return cast("npt.NDArray[Any]", self.owner)
        dtype = numpy_dtype(self.element)
        if 0 in self.shape:
            return np.empty(self.shape, dtype)
        memory = _HostMemory(
            {
                "version": 3,
                "shape": self.shape,
                "strides": tuple(stride * dtype.itemsize for stride in self.strides),
                # As bare integers of the width: the protocol has no name for bfloat16.
                "typestr": np.dtype(f"u{dtype.itemsize}").str,
                "data": (self.pointer, not self.writable),
            },
            self.owner,
        )
        return np.asarray(memory).view(dtype)


@dataclass(frozen=True, slots=True)
class _HostMemory:
    """What NumPy makes an array of without copying, and holds on to, and so on to the owner."""

    __array_interface__: dict[str, Any]
    owner: object


def numpy_dtype(element: Element) -> np.dtype[Any]:
    """NumPy's type for the element (`ml_dtypes` for bf16 and floats of 8 bits)."""
    return _NUMPY_TYPES[element]


def view_array(array: object, *, name: str = "the array", stream: int | None = None) -> ArrayView:
    """The view of a NumPy array or of any object with `__dlpack__`.

    stream: where the array will be used, for the library that made it to order its own work before: a CUstream address,
    or None to order nothing, right where the use is on that library's current stream.
    Raises TilewrightError, naming `name`: no array; unsupported element or device; an array that its library will not
    share, such as a PyTorch tensor that requires gradients.
    """
    if isinstance(array, np.ndarray):
        return _view_numpy(cast("npt.NDArray[Any]", array), name)
    torch = sys.modules.get("torch")
    if torch is not None and type(array) is torch.Tensor:
        view = _view_torch(array, torch)
        if view is not None:
            return view
    if not hasattr(array, "__dlpack__") or not hasattr(array, "__dlpack_device__"):
        raise TilewrightError(
            f"{name} is {type(array).__name__}, no array",
            remedy="pass a NumPy array, or one of a library that speaks DLPack (PyTorch, CuPy, JAX)",
        )
    return _view_dlpack(array, name, stream)


def _view_numpy(array: npt.NDArray[Any], name: str) -> ArrayView:
    if array.dtype == _FOUR_BITS:
        array, element = _packed(array, name), Element.F4E2M1X2
    else:
        element = None
    dtype = array.dtype
    element = element or next((element for element, known in _NUMPY_TYPES.items() if known == dtype), None)
    if element is None:
        if dtype.newbyteorder("=") in _NUMPY_TYPES.values():
            raise TilewrightError(
                f"{name} has foreign byte order ({dtype.str})", remedy=f"use .astype({dtype.newbyteorder('=').name!r})"
            )
        raise _unsupported_element(name, dtype.name)
    if any(stride % dtype.itemsize for stride in array.strides):
        raise TilewrightError(
            f"{name} has strides {array.strides} bytes, no multiples of its {dtype.itemsize}-byte elements",
            remedy="use np.ascontiguousarray",
        )
    return ArrayView(
        pointer=array.ctypes.data,
        shape=array.shape,
        strides=tuple(stride // dtype.itemsize for stride in array.strides),
        element=element,
        device="cpu",
        ordinal=0,
        writable=bool(array.flags.writeable),
        library="numpy",
        owner=array,
    )


def _packed(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint8]:
    """Two numbers of 4 bits a byte, the first in its low half, as a copy that is not written to."""
    if not array.ndim or array.shape[-1] % 2:
        raise TilewrightError(
            f"{name} has {array.shape[-1] if array.ndim else 1} numbers of 4 bits in a row, of which two make a byte",
            remedy="pad each row to an even number",
        )
    bits = array.view(np.uint8) & np.uint8(15)
    pairs = bits[..., ::2] | bits[..., 1::2] << np.uint8(4)
    pairs.flags.writeable = False
    return pairs


def _view_torch(tensor: Any, torch: ModuleType) -> ArrayView | None:
    """The view of a plain PyTorch tensor, faster than through DLPack; None leaves it to DLPack, perhaps to refuse."""
    element = _torch_elements(torch).get(tensor.dtype)
    device = tensor.device
    if element is None or tensor.requires_grad or tensor.is_neg() or tensor.layout is not torch.strided:
        return None
    if device.type not in ("cpu", "cuda"):
        return None
    return ArrayView(
        pointer=tensor.data_ptr(),
        shape=tuple(tensor.shape),
        strides=tensor.stride(),
        element=element,
        device=device.type,
        ordinal=device.index or 0,
        writable=True,
        library="torch",
        owner=tensor,
    )


@cache
def _torch_elements(torch: ModuleType) -> dict[object, Element]:
    named = {element: getattr(torch, dtype.name, None) for element, dtype in _NUMPY_TYPES.items()}
    # Of elements that have one type the first.
    found = {dtype: element for element, dtype in reversed(named.items()) if dtype is not None}
    pairs = getattr(torch, "float4_e2m1fn_x2", None)
    return found | ({} if pairs is None else {pairs: Element.F4E2M1X2})


def _view_dlpack(array: Any, name: str, stream: int | None) -> ArrayView:
    library = type(array).__module__.partition(".")[0]
    device_type = int(array.__dlpack_device__()[0])
    device = _DL_DEVICES.get(device_type)
    if device is None:
        raise TilewrightError(
            f"{name} is on DLPack device type {device_type}, neither CPU nor CUDA", remedy="move it to one of them"
        )
    # 0 is ambiguous in the protocol; -1 asks for no ordering, 1 is the legacy default stream.
    order = -1 if stream is None else stream or 1
    arguments = {"stream": order} if device_type == 2 else {}
    try:
        try:
            capsule = array.__dlpack__(max_version=_DL_VERSION, **arguments)
        except TypeError:
            # A producer from before DLPack 1.0 does not know the keyword.
            capsule = array.__dlpack__(**arguments)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        remedy = "pass x.detach()" if "grad" in str(error) else "pass a plain, dense array of the library"
        raise TilewrightError(f"{name} cannot be shared by {library}: {error}", remedy=remedy) from error
    return view_capsule(capsule, name=name, library=library)


def view_capsule(capsule: object, *, name: str = "the array", library: str = "") -> ArrayView:
    """The view of a DLPack capsule, `dltensor` or `dltensor_versioned`.

    The capsule is not consumed: the view holds it, and its own destructor releases the array.
    Raises TilewrightError: no DLPack capsule, one already consumed, or of unsupported contents.
    """
    tensor, writable = _read_capsule(capsule, name)
    device = _DL_DEVICES.get(tensor.device_type)
    if device is None:
        raise TilewrightError(
            f"{name} is on DLPack device type {tensor.device_type}, neither CPU nor CUDA",
            remedy="move it to one of them",
        )
    element = _DL_ELEMENTS.get((tensor.code, tensor.bits))
    if element is None or tensor.lanes != 1:
        code = _DL_CODES.get(tensor.code, f"type code {tensor.code} of ")
        raise _unsupported_element(name, f"{code}{tensor.bits}" + (f"x{tensor.lanes}" if tensor.lanes != 1 else ""))
    shape = tuple(int(tensor.shape[index]) for index in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(int(tensor.strides[index]) for index in range(tensor.ndim))
    else:
        strides = contiguous_strides(shape)
    return ArrayView(
        pointer=(tensor.data or 0) + tensor.byte_offset,
        shape=shape,
        strides=strides,
        element=element,
        device=device,
        ordinal=tensor.device_id if device == "cuda" else 0,
        writable=writable,
        library=library,
        owner=capsule,
    )


_is_capsule = ctypes.pythonapi.PyCapsule_IsValid
_is_capsule.argtypes = (ctypes.py_object, ctypes.c_char_p)
_is_capsule.restype = ctypes.c_int
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_capsule_pointer.restype = ctypes.c_void_p


def _read_capsule(capsule: object, name: str) -> tuple[_DLTensor, bool]:
    if _is_capsule(capsule, b"dltensor_versioned"):
        address = cast("int", _capsule_pointer(capsule, b"dltensor_versioned"))
        managed = _DLManagedTensorVersioned.from_address(address)
        # The layout after the version may differ in another major version.
        if managed.major != _DL_VERSION[0]:
            raise TilewrightError(
                f"{name} comes as DLPack {managed.major}.{managed.minor}, and this reads {_DL_VERSION[0]}.x",
                remedy="use a matching version of the array's library",
            )
        return managed.tensor, not managed.flags & _DL_READ_ONLY
    if _is_capsule(capsule, b"dltensor"):
        address = cast("int", _capsule_pointer(capsule, b"dltensor"))
        return _DLTensor.from_address(address), True
    raise TilewrightError(
        f"{name} gave no DLPack capsule, or one used before", remedy="pass the array itself, not its capsule"
    )


class UnsupportedElement(TilewrightError):
    """An array of elements that no program has."""


def _unsupported_element(name: str, found: str) -> UnsupportedElement:
    return UnsupportedElement(f"{name} has elements of type {found}", remedy=f"convert it to one of {_SUPPORTED}")


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def empty_like_device(view: ArrayView, shape: Sequence[int], element: Element) -> object:
    """A new row-major array of the library and device that `view` came from; its contents are undefined.

    Raises TilewrightError for a GPU array of a library that is neither PyTorch nor CuPy, or an element that the library
    has no type for.
    """
    shape = tuple(shape)
    torch = sys.modules.get("torch")
    if view.library == "torch" and torch is not None:
        place = f"cuda:{view.ordinal}" if view.device == "cuda" else "cpu"
        dtype = getattr(torch, numpy_dtype(element).name, None)
        if dtype is None:
            raise TilewrightError(f"this PyTorch has no type for {element.value}", remedy="pass the output array")
        return torch.empty(shape, dtype=dtype, device=place)
    cupy = sys.modules.get("cupy")
    if view.library == "cupy" and cupy is not None:
        with cupy.cuda.Device(view.ordinal):
            return cupy.empty(shape, dtype=numpy_dtype(element))
    if view.device == "cpu":
        return np.empty(shape, numpy_dtype(element))
    raise TilewrightError(
        f"an array of {view.library or 'an unknown library'} on the GPU says nothing of how to make another",
        remedy="pass the output array",
    )


def current_stream(view: ArrayView) -> int:
    """The CUstream address on which the view's library works now; 0, the legacy default stream, if it does not say."""
    torch = sys.modules.get("torch")
    if view.library == "torch" and view.device == "cuda" and torch is not None:
        return int(torch.cuda.current_stream(view.ordinal).cuda_stream)
    cupy = sys.modules.get("cupy")
    if view.library == "cupy" and cupy is not None:
        return int(cupy.cuda.get_current_stream().ptr)
    return 0
