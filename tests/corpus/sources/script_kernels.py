"""Compile the kernels of a script in CuTe DSL or TileLang, as it stands, on a machine without a GPU.

`python script_kernels.py FOLDER FAMILY TARGET NVCC SCRIPT.py` runs SCRIPT with its default arguments. Torch is made to
take its CPU for a GPU; each kernel that the script compiles is written to FOLDER/FAMILY/TARGET/SCRIPT.ptx (SCRIPT_2 and
so on where there are several) and never run: a script in CuTe DSL ends after its first compilation, one in
TileLang where it first runs a kernel. A program that calls a library goes on where it catches the exception that ends
it, and may name its next kernel by KERNEL_NAME in the environment. Needs torch and nvidia-cutlass-dsl (tried: 4.8.1) or
tilelang (0.1.15).
"""

import ctypes
import importlib
import os
import runpy
import subprocess
import sys
import tempfile
import types
from pathlib import Path

os.environ.update(
    CUTE_DSL_ARCH=sys.argv[3],
    CUTE_DSL_KEEP="ptx",
    CUTE_DSL_DUMP_DIR=tempfile.mkdtemp(),
    TILELANG_DISABLE_CACHE="1",
    TILELANG_DEFAULT_TARGET=f'{{"kind": "cuda", "arch": "{sys.argv[3]}"}}',
)

import torch
from torch.overrides import TorchFunctionMode

FOLDER, FAMILY, TARGET, NVCC, SCRIPT = sys.argv[1:6]
NUMBER = int(TARGET.removeprefix("sm_").rstrip("a"))
written = []


class _OnCpu(TorchFunctionMode):
    """Tensors that are asked for on a GPU are made on the CPU."""

    def __torch_function__(self, function, _types, values=(), named=None):
        named = dict(named or {})
        if "cuda" in str(named.get("device", "")):
            named["device"] = "cpu"
        if function is torch.Tensor.to:
            values = tuple(
                "cpu" if isinstance(each, str | torch.device) and "cuda" in str(each) else each for each in values
            )
        return function(*values, **named)


class _Compiled(Exception):
    """Ends a script whose kernel is written."""


def _write(text):
    name = os.environ.pop("KERNEL_NAME", Path(SCRIPT).stem)
    name += f"_{written.count(name) + 1}" if name in written else ""
    path = Path(FOLDER) / FAMILY / TARGET / f"{name}.ptx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.rstrip("\0").rstrip() + "\n", encoding="utf-8")
    written.append(name)
    print(f"{FAMILY}/{TARGET}/{name}", flush=True)


def _believe_in_gpu():
    properties = types.SimpleNamespace(
        name="GPU", major=NUMBER // 10, minor=0, multi_processor_count=132, warp_size=32, total_memory=1 << 37,
        shared_memory_per_multiprocessor=233472, shared_memory_per_block_optin=232448, gcnArchName="",
    )  # fmt: skip
    cuda = torch.cuda
    cuda.is_available = lambda: True
    cuda.device_count = lambda: 1
    cuda.current_device = lambda: 0
    for name in ("set_device", "_lazy_init", "init", "manual_seed", "manual_seed_all", "synchronize", "empty_cache"):
        setattr(cuda, name, lambda *_values, **_named: None)  # one function each: torch's compiler tells them apart
    cuda.get_device_capability = lambda *_values: (NUMBER // 10, 0)
    cuda.get_device_properties = lambda *_values: properties
    cuda.get_device_name = lambda *_values: "GPU"
    for name in ("current_stream", "default_stream", "Stream"):
        setattr(cuda, name, lambda *_values, **_named: types.SimpleNamespace(cuda_stream=0))
    torch.Tensor.cuda = lambda tensor, *_values, **_named: tensor


_CUDA = 2  # DLPack's number of this kind of device.


def _on_gpu(capsule):
    """The same array, said to lie on a GPU: the device's kind is the second word of DLPack's struct."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = _CUDA
    return capsule


def _catch_cute():
    from cutlass import cute, utils
    from cutlass.base_dsl.jit_executor import JitCompiledFunction

    compile_kernel, dumps = cute.compile, Path(os.environ["CUTE_DSL_DUMP_DIR"])

    def compile_and_end(*values, **named):
        before = {path: path.stat().st_mtime_ns for path in dumps.glob("*.ptx")}
        compile_kernel(*values, **named)
        for path in sorted(dumps.glob("*.ptx")):  # kernels of one class have one name
            if path.stat().st_mtime_ns != before.get(path):
                _write(path.read_text("utf-8"))
        raise _Compiled

    cute.compile = compile_and_end
    JitCompiledFunction.run_compiled_program = lambda *_values, **_named: None  # Of kernels that fill arrays, say.
    to_capsule = torch.Tensor.__dlpack__
    torch.Tensor.__dlpack__ = lambda tensor, **_named: _on_gpu(to_capsule(tensor))
    torch.Tensor.__dlpack_device__ = lambda _tensor: (_CUDA, 0)
    utils.HardwareInfo.get_max_active_clusters = lambda _self, size, **_named: 132 // size
    utils.HardwareInfo.get_device_multiprocessor_count = lambda _self: 132
    utils.HardwareInfo.__init__ = lambda _self, *_values: None


def _catch_tilelang():
    import tilelang
    from tilelang.jit import kernel

    lower = importlib.import_module("tilelang.engine.lower")
    lower.device_codegen = lower.device_codegen_without_compile
    root = Path(tilelang.__file__).parent
    includes = [f"-I{root}/src", f"-I{root}/3rdparty/cutlass/include"]
    # As `cuda_flags` of the list has them: a compiler of its own comes without all headers.
    includes += [f"-I{cccl}/libcudacxx/include" for cccl in [os.environ.get("CHECKOUT_CCCL")] if cccl]
    includes += [f"-Xcompiler=-idirafter{Path(torch.__file__).parents[1]}/nvidia/cu13/include"]

    def write_kernel(_self, _function, out_idx, artifact, *_values):
        with tempfile.TemporaryDirectory() as folder:
            source, text = Path(folder) / "kernel.cu", Path(folder) / "kernel.ptx"
            source.write_text(artifact.kernel_source, encoding="utf-8")
            command = [
                NVCC,
                "-ptx",
                f"-arch={TARGET}",
                "-O3",
                "-std=c++20",
                "-w",
                *includes,
                "-o",
                str(text),
                str(source),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(done.stderr.strip().splitlines()[:1])
            else:
                _write(text.read_text("utf-8"))

        def run(*_values, **_named):
            raise _Compiled

        source_of = types.SimpleNamespace(get_kernel_source=lambda **_named: artifact.kernel_source)
        source_of.func, source_of.result_idx = run, out_idx
        return source_of

    kernel.JITKernel._create_adapter_from_artifact = write_kernel


_believe_in_gpu()
_catch_tilelang() if "tilelang" in Path(SCRIPT).read_text("utf-8") else _catch_cute()
sys.argv[:] = [SCRIPT]
sys.path.insert(0, str(Path(SCRIPT).parent))
try:
    with _OnCpu():
        runpy.run_path(SCRIPT, run_name="__main__")
except _Compiled:
    pass
except BaseException as error:  # Whatever a script does behind the kernels that are written.
    print(f"{type(error).__name__}: {str(error)[:200]}")
sys.exit(0 if written else 1)
