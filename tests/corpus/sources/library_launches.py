"""Catch the Triton kernels that a library launches, on a machine without a GPU.

`python library_launches.py FOLDER FAMILY TARGET PROGRAM.py` runs PROGRAM, which calls the library with torch's tensors
on the CPU. Triton and torch are made to believe in a GPU; each kernel that is launched is compiled as
`emit` does, with the launch that was made, and never run, so every result is garbage. TARGET is 90 or 100. Of an
autotuner's configurations, the one with about 3 stages and 4 warps is taken whose shared memory a CTA may have. A
kernel is caught once.

Needs torch and triton (tried: torch 2.14.1, Triton 3.8.0). Not caught: launches whose arguments are tuples.
"""

import contextlib
import runpy
import sys
import types

import torch
import triton
import triton.language as tl
from emit import Desc, Ptr, emit
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

_TYPES = {
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.int8: "i8", torch.uint8: "u8",
    torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.bool: "i1",
    torch.float8_e4m3fn: "fp8e4nv", torch.float8_e5m2: "fp8e5",
}  # fmt: skip
_DATA_BYTES = 65536  # Integers, which kernels use as indices and lengths, are written into the launch up to this size.
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion")
_seen = set()


def main():
    family, target, program = sys.argv[2], int(sys.argv[3]), sys.argv[4]
    del sys.argv[2:]
    _believe_in_gpu(target)
    JITFunction.run = lambda fn, *values, **named: _caught(family, target, fn, values, named)
    Autotuner.run = _middle_configuration
    runpy.run_path(program, run_name="__main__")


def _caught(family, target, fn, values, named):
    grid = named.pop("grid")
    arguments = {each.name: each.default for each in fn.params}
    arguments.update(zip(fn.arg_names, values, strict=False))
    arguments.update((name, value) for name, value in named.items() if name in arguments)
    options = {name: value for name, value in named.items() if name in _OPTIONS and name not in arguments}
    options["ptx_version"] = None  # What the Triton that is installed writes.
    name = fn.__name__.strip("_")
    if name in _seen:
        return
    grid = grid(arguments) if callable(grid) else grid
    described = {each.name: _described(each, arguments[each.name]) for each in fn.params}
    try:
        emit(family, name, fn, described, list(grid), (target,), options)
        _seen.add(name)
    except triton.CompilationError as error:
        print(name, "does not compile:", str(error).strip().splitlines()[-1])


def _described(parameter, value):
    """An argument as `emit` takes it."""
    match value:
        case torch.Tensor() if not parameter.is_constexpr:
            listed = value.dtype in (torch.int32, torch.int64) and value.nbytes <= _DATA_BYTES
            data = value.contiguous().flatten().tolist() if listed else None
            return Ptr(_TYPES[value.dtype], *value.shape, data=data)
        case TensorDescriptor():
            return Desc(_TYPES[value.base.dtype], value.shape, value.block_shape)
        case tl.constexpr():
            return value.value
        case bool() | str() | None:
            return value
        case int() if not parameter.is_constexpr and (value != 1 or parameter.do_not_specialize):
            return ("i32" if -(2**31) <= value < 2**31 else "i64", value)
        case float() if not parameter.is_constexpr:
            return ("f32", value)
        case _:
            return value


def _middle_configuration(tuner, *values, **named):
    """The autotuner's `run`: one configuration, nothing timed."""
    configurations = tuner.prune_configs({**dict(zip(tuner.arg_names, values, strict=False)), **named})
    for each in sorted(configurations, key=lambda each: (abs(each.num_stages - 3), abs(each.num_warps - 4))):
        chosen = {name: value for name, value in each.all_kwargs().items() if value}
        try:
            return tuner.fn.run(*values, **named, **chosen)
        except OutOfResources as error:
            print(tuner.base_fn.__name__, "is not taken with", each, error)
    return None


def _believe_in_gpu(target):
    """Make Triton compile for `target`, and torch take its CPU for that GPU."""
    gpu = types.SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", target, 32),
        get_current_device=lambda: 0,
        get_current_stream=lambda _device=None: 0,
        get_active_torch_device=lambda: torch.device("cpu"),
        get_device_interface=lambda: torch.cuda,
        get_benchmarker=lambda: lambda *_values, **_named: 0.0,
        utils=types.SimpleNamespace(
            get_device_properties=lambda _device: {
                "max_shared_mem": 232448,
                "multiprocessor_count": 132,
                "warpSize": 32,
            }
        ),
    )
    driver.set_active(gpu)
    properties = types.SimpleNamespace(
        name="GPU", major=target // 10, minor=0, multi_processor_count=132, warp_size=32, total_memory=1 << 37,
        shared_memory_per_multiprocessor=233472, shared_memory_per_block_optin=232448, gcnArchName="",
    )  # fmt: skip
    cuda = torch.cuda
    cuda.device = type(
        "device", (contextlib.nullcontext,), {"__init__": lambda self, *_values: contextlib.nullcontext.__init__(self)}
    )
    cuda.is_available = lambda: True
    cuda.device_count = lambda: 1
    cuda.current_device = lambda: 0
    cuda.get_device_capability = lambda *_values: (target // 10, 0)
    cuda.get_device_properties = lambda *_values: properties
    cuda.get_device_name = lambda *_values: "GPU"
    cuda.synchronize = lambda *_values: None
    cuda.current_stream = lambda *_values: types.SimpleNamespace(cuda_stream=0)
    torch.Tensor.is_cuda = property(lambda _tensor: True)


if __name__ == "__main__":
    main()
