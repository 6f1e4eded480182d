"""Compile Triton and Gluon kernels without a GPU; write each one's PTX and launch file.

`python FILE.py FOLDER [NAME...]` with triton installed (the corpus: 3.9.0) writes FOLDER/FAMILY/TARGET/NAME.ptx and
NAME.launch.json, of the kernels whose path has one of the names in it. PTX is written for ISA 9.0, so that the
assembler of CUDA 13.0 takes it; debug sections are left out, and paths of the machine that compiled it.
"""

import json
import math
import os
import re
import sys
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource
from triton.runtime.errors import OutOfResources

_BYTES = {
    "fp16": 2,
    "bf16": 2,
    "fp32": 4,
    "fp8e4nv": 1,
    "fp8e5": 1,
    "i8": 1,
    "i32": 4,
    "i64": 8,
    "u8": 1,
    "i16": 2,
    "i1": 1,
}
_SHARED_BYTES = 232448  # Of a CTA, on both targets; Triton loads no kernel that takes more.
# Triton's numbers of the driver's element types and swizzle modes.
_ELEMENT = {0: "u8", 1: "u16", 2: "u32", 3: "i32", 4: "u64", 5: "i64", 6: "f16", 7: "f32", 9: "f64", 10: "bf16"}
_PADDED = {14: "u4x16_align16"}  # Of 4-bit elements, two a byte in the array and a byte each in shared memory's boxes.
_SWIZZLE = {0: "none", 1: "32B", 2: "64B", 3: "128B"}


class Ptr:
    """A pointer to an array. data: its integers, where the kernel decides by them."""

    def __init__(self, dtype, *shape, data=None):
        self.dtype, self.shape, self.data = dtype, shape, data

    @property
    def nbytes(self):
        return _BYTES[self.dtype] * math.prod(self.shape)


class Desc:
    """A tensor descriptor of a row-major array. block: of one copy; layout: the block's in shared memory, for Gluon."""

    def __init__(self, dtype, shape, block, layout=None, buffer=None):
        self.dtype, self.shape, self.block, self.layout, self.buffer = dtype, list(shape), list(block), layout, buffer

    @property
    def strides(self):
        return [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]

    @property
    def signature(self):
        block = ",".join(map(str, self.block))
        return f"tensordesc<{self.dtype}[{block}]" + (f",{self.layout!r}>" if self.layout is not None else ">")


def emit(family, name, fn, args, grid, targets=(90, 100), options=None, gluon=False, math="", native=False):
    """args: for each name of an argument a Ptr, a Desc, `("i32", value)` and its like, or a compile-time constant.

    math: what the kernel computes, for the reader. native: keep the ISA version that the compiler would write.
    """
    folder, wanted = Path(sys.argv[1]), sys.argv[2:]
    for target in targets:
        full = f"{family}/sm_{target}a/{name}{'_v94' if native else ''}"
        if wanted and not any(word in f"{full}.ptx" for word in wanted):
            continue
        compiled = _compile(fn, args, target, dict(options or {}), gluon, native)
        if compiled.metadata.shared > _SHARED_BYTES:
            raise OutOfResources(compiled.metadata.shared, _SHARED_BYTES, "shared memory")
        path = folder / f"{full}.ptx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_clean(compiled.asm["ptx"]), encoding="utf-8")
        launch = json.dumps(_launch(fn, args, grid, compiled.metadata), separators=(", ", ": "))
        path.with_suffix(".launch.json").write_text(launch.replace('{"kind"', '\n  {"kind"') + "\n", encoding="utf-8")
        print(full, math, flush=True)


def _compile(fn, args, target, options, gluon, native):
    signature, constants, attributes = {}, {}, {}
    for index, name in enumerate(fn.arg_names):
        match args[name]:
            case Ptr() as pointer:
                signature[name] = "*" + pointer.dtype
                attributes[(index,)] = [["tt.divisibility", 16]]
            case Desc() as descriptor:
                signature[name] = descriptor.signature
            case ("i32" | "i64" as dtype, value):
                signature[name] = dtype
                if value % 16 == 0:
                    attributes[(index,)] = [["tt.divisibility", 16]]
            case ("f32", _):
                signature[name] = "fp32"
            case value:
                signature[name] = "constexpr"
                constants[(index,)] = value
    source = (GluonASTSource if gluon else ASTSource)(fn, signature, constants, attributes)
    if not native:
        options.setdefault("ptx_version", 90)
    return triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)


def _clean(ptx):
    """Without debug sections, and with `.file` names that say nothing of the machine."""
    ptx = re.sub(r"\n\t\.section\s+\.debug_\w+\s*\{.*?\n?\t?\}", "", ptx, flags=re.S)
    site = os.path.dirname(os.path.dirname(triton.__file__))
    ptx = ptx.replace(f'"{site}/', '"').replace(f'"{os.path.dirname(os.path.abspath(__file__))}/', '"')
    return ptx.rstrip() + "\n"


def _launch(fn, args, grid, metadata):
    maps = list(getattr(metadata, "tensordesc_meta", None) or [])
    params = []
    for name in fn.arg_names:
        match args[name]:
            case Ptr() as pointer:
                params.append({"kind": "ptr", "bytes": pointer.nbytes, "align": 256, "buffer": name})
                if pointer.data is not None:
                    params[-1] |= {"data": pointer.data, "dtype": pointer.dtype}
            case Desc() as descriptor:
                shape, strides = descriptor.shape, descriptor.strides
                params += _descriptor(name, descriptor, maps.pop(0) if maps else None)
                params += [{"kind": "i32", "value": extent} for extent in shape]
                params += [{"kind": "i64", "value": stride} for stride in strides]
            case ("i32" | "i64" | "f32" as dtype, value):
                params.append({"kind": dtype, "value": value})
    ctas_a_cluster = metadata.num_ctas or 1
    grid = [grid[0] * ctas_a_cluster, *grid[1:], *[1] * (3 - len(grid))]
    # Two pointers that Triton adds: to scratch in global memory, and to the profiler's.
    for kind in ("global", "profile"):
        size = getattr(metadata, f"{kind}_scratch_size", 0) * math.prod(grid)
        align = max(getattr(metadata, f"{kind}_scratch_align", 1), 16)
        params.append({"kind": "ptr", "bytes": size, **({"align": align, "buffer": f"{kind}_scratch"} if size else {})})
    return {
        "entry": metadata.name,
        "grid": grid,
        "block": [metadata.num_warps * 32, 1, 1],
        "cluster": [ctas_a_cluster, 1, 1],
        "dynamic_smem": metadata.shared,
        "params": params,
    }


def _descriptor(name, descriptor, tensor_map):
    """What the kernel takes for a descriptor before its shape and strides: a tensor map, or a pointer where it makes
    the map itself."""
    size, buffer = _BYTES[descriptor.dtype], descriptor.buffer or name
    shape, strides = descriptor.shape, descriptor.strides
    if tensor_map is None:
        pointer = {"kind": "ptr", "bytes": size * math.prod(shape), "align": 256, "buffer": buffer}
        return [
            pointer,
            *({"kind": "i64", "value": value} for value in shape + strides),
            *[{"kind": "i32", "value": 0}] * 2,
        ]
    number = tensor_map["elem_type"]
    inner = shape[-1] * (2 if number in _PADDED else 1)
    return [
        {
            "kind": "tensormap",
            "dtype": (_ELEMENT | _PADDED)[number],
            "dims": [inner, *shape[-2::-1]],
            "strides": [stride * size for stride in strides[:-1]][::-1],
            "box": list(tensor_map["block_size"])[::-1],
            "element_strides": [1] * len(shape),
            "swizzle": _SWIZZLE[tensor_map["swizzle"]],
            "interleave": "none",
            "oob": "zero",
            "buffer": buffer,
        }
    ]
