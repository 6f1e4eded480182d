"""Which calls are like one before but for addresses, and how are they launched in a few microseconds?

A verb such as `tilewright.matmul` looks at shapes, strides, elements, alignment and devices, chooses and compiles a
program, and compares the arrays with it. All of this depends on what `repeat_key` returns. So where a call's key was
seen, and its program read the caller's arrays where they are, the program is launched at the new addresses at once.

Not handled: arrays other than plain PyTorch tensors on one GPU; they take the way through `Program`. What a view cannot
express (a tensor that requires gradients, a lazily negated one) has no key, so that it is refused where it always is.
Checked by: tests/runtime/test_repeated.py with a recording driver; tests/gpu/test_operators.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

from tilewright.runtime.arrays import ArrayView, contiguous_strides, current_stream
from tilewright.runtime.launch import LoadedPlan

_ALIGNED_BYTES = 16
"""What a tensor map needs of an address (CUDA Driver API, cuTensorMapEncodeTiled), and vectors of elements at most."""


def repeat_key(arrays: Sequence[Any]) -> tuple[object, ...] | None:
    """What a compiled call depends on: of every array its element, shape, strides, GPU, and of which power of two, up
    to 16 bytes, its address is a multiple; None for an absent array. None where an array is anything but a plain tensor
    on a GPU."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    plain = torch.Tensor
    parts: list[object] = []
    for array in arrays:
        if array is None:
            parts.append(None)
            continue
        if type(array) is not plain or not array.is_cuda or array.requires_grad or array.is_neg():
            return None
        parts += (
            array.dtype,
            array.shape,
            array.stride(),
            array.get_device(),
            # The power of two that divides the address, as far as it matters.
            (array.data_ptr() | _ALIGNED_BYTES) & -(array.data_ptr() | _ALIGNED_BYTES),
        )
    return tuple(parts)


class Repeated:
    """A loaded program and where its arguments stand among a call's arrays.

    order: for each input of the program, the place of its array; shape: of a new result; extents: of the program's
    run-time axes, as `LoadedPlan.run_time_key` has them. The result is the last argument of the program.
    """

    def __init__(
        self,
        loaded: LoadedPlan,
        order: Sequence[int],
        result: ArrayView,
        shape: Sequence[int],
        extents: tuple[int, ...] = (),
    ) -> None:
        torch = sys.modules["torch"]
        self._loaded = loaded
        self._order = tuple(order)
        self._shape = tuple(shape)
        self._extents = extents
        made = cast("Any", result.owner)
        self._like: dict[str, Any] = {"dtype": made.dtype, "device": made.device}
        self._strides = contiguous_strides(self._shape)
        # Twice as fast as torch.empty, whose ways of being called are more.
        self._empty = torch.empty_strided
        self._stream = _stream_of(result)

    def __call__(self, arrays: Sequence[Any], out: Any) -> Any:
        """Launch on the current stream at the arrays' addresses, into `out` or a new tensor, which is returned."""
        result = self._empty(self._shape, self._strides, **self._like) if out is None else out
        pointers = [arrays[place].data_ptr() for place in self._order]
        self._loaded.run_at((self._stream(), *pointers, result.data_ptr(), *self._extents))
        return result


def _stream_of(view: ArrayView) -> Any:
    """A function that gives the current stream of the view's GPU, by PyTorch's short way where it has one."""
    short = getattr(getattr(sys.modules["torch"], "_C", None), "_cuda_getCurrentRawStream", None)
    if short is None:
        return lambda: current_stream(view)
    ordinal = view.ordinal
    return lambda: int(short(ordinal))
