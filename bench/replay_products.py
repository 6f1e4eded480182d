"""Which products does `python -m bench replay` compile, and how is one named, kept and handed to another compiler?

All suites', each product once (`bench.compile_suites`); a small case of every kind of kernel (`bench.kernel_kinds`);
operands that no tensor map describes (`bench.unmapped`), kernels whose compilation is timed (`bench.compile_time`),
operands that are computed first (`bench.computed`), programs that fold rows (`bench.rows`) and programs of products and
folds (`bench.fused`); and what the library's functions and other tile programs compile to that is no plain product of
two matrices.

A product is plain data: the tile program by module and name, and the arguments of `compile_kernel`. So a compiler of
another commit takes it. Checked by: tests/benchmarks/test_replay.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.frontends.tile.kernel import Kernel
    from tilewright.synth.tile.wanted import Wanted

_LIBRARY = "tilewright.driver.compile.kernels"
_SCALED = "tilewright.driver.compile.kernels_scaled"
_OWN = "bench.replay_programs"
_ROWS, _FUSED = "examples.rows", "examples.fused"
_SAMPLED_WHOLE = ("kinds", "programs")
_F8 = {"a": "f8e4m3", "b": "f8e4m3", "c": "bf16"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A product. suite: or list, that it stands in first; program: the module of the tile program and its name there;
    arguments: None, or those of the function of that name which makes the program. Others: as of `compile_kernel`, of
    `wanted` the fields that are fixed."""

    suite: str
    case: str
    program: str
    dims: Mapping[str, int]
    arguments: tuple[object, ...] | None = None
    dtype: str | Mapping[str, str] = "bf16"
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    wanted: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def name(self) -> str:
        """Of the product among all: what a record keeps it by."""
        extents = ", ".join(f"{axis}={extent}" for axis, extent in self.dims.items())
        return f"{self.suite}: {self.case} ({extents})"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def asked() -> list[Asked]:
    """All products, each once."""
    once: dict[str, Asked] = {}
    for each in (*_of_suites(), *PROGRAMS):
        once.setdefault(repr((each.program, each.arguments, each.dims, each.dtype, each.strides, each.wanted)), each)
    return list(once.values())


def matching(products: Iterable[Asked], patterns: Iterable[str] | None) -> list[Asked]:
    """Those of which a pattern (with * and ?) occurs in the name; all, if there is no pattern."""
    return [each for each in products if not patterns or any(matches(each.name, pattern) for pattern in patterns)]


def matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, f"*{pattern}*")


def sample(products: Iterable[Asked]) -> list[Asked]:
    """One of every kind of kernel, and the first of every suite and of every tile program."""
    seen: set[str] = set()
    found: list[Asked] = []
    for each in products:
        if each.suite in _SAMPLED_WHOLE or not seen >= {each.suite, each.program}:
            found.append(each)
        seen |= {each.suite, each.program}
    return found


def _of_suites() -> Iterator[Asked]:
    from bench import compile_time, computed, fused, rows, unmapped
    from bench.compile_suites import products
    from bench.kernel_kinds import KINDS
    from bench.our_products import arguments_of

    listed = [(work.suite, work.case.name, work.case) for work in products()]
    listed += [("kinds", case.name, case) for case in KINDS]
    listed += [("unmapped", case.name, case) for case in unmapped.CASES]
    listed += [("compile", words, case) for words, case in (*compile_time.KERNELS, *compile_time.FEW_SLOTS)]
    listed += [("rows", case.name, case) for case in rows.cases()]
    listed += [("fused", case.name, case) for case in fused.cases()]
    for suite, words, case in listed:
        kernel, options = arguments_of(case)
        yield Asked(
            suite, words, _reference(kernel), options["dims"], None, options.get("dtype", "bf16"),
            options.get("strides", {}), _fixed(options["wanted"]) if "wanted" in options else {},
        )  # fmt: skip
    for name in computed.PROGRAMS:
        for m, n, k in computed.SHAPES:
            dtype = {"a": "f16"} if name == "converted_first" else "bf16"
            yield Asked("computed", name, f"bench.tile_programs:{name}", {"M": m, "N": n, "K": k}, dtype=dtype)


def _reference(kernel: Kernel) -> str:
    """The module and the name by which it is found again. Raises ValueError for one that is not."""
    module, name = kernel.function.__module__, kernel.function.__qualname__
    if getattr(import_module(module), name, None) is not kernel:
        raise ValueError(f"{name} of {module} is made by a function: name that, with its arguments")
    return f"{module}:{name}"


def _fixed(wanted: Wanted) -> dict[str, object]:
    """The fields that are not at their defaults."""
    return {
        each.name: getattr(wanted, each.name)
        for each in fields(wanted)
        if getattr(wanted, each.name) != each.default
    }  # fmt: skip


def _library(name: str, made_by: str, arguments: tuple[object, ...], dims: dict[str, int], **options: Any) -> Asked:
    return Asked("programs", name, made_by, dims, arguments, **options)


def _own(name: str, program: str, dims: dict[str, int], **options: Any) -> Asked:
    return Asked("programs", name, f"{_OWN}:{program}", dims, **options)


_SIZE = {"M": 1000, "N": 1536, "K": 512}
_BATCH = {"B": 12, "M": 192, "N": 256, "K": 320}

PROGRAMS: tuple[Asked, ...] = (
    _library("gelu of a sum with bias", f"{_LIBRARY}:product_kernel", ("gelu", True, False), _SIZE),
    _library("silu, bias and residual", f"{_LIBRARY}:product_kernel", ("silu", True, True), _SIZE, dtype="f16"),
    _library("residual, large", f"{_LIBRARY}:product_kernel", ("none", False, True), {"M": 4096, "N": 4096, "K": 4096}),
    _library("relu, few rows", f"{_LIBRARY}:product_kernel", ("relu", False, False), {"M": 8, "N": 4096, "K": 4096}),
    _library("float32 result", f"{_LIBRARY}:product_kernel", ("tanh", True, False), _SIZE,
             dtype={"a": "bf16", "b": "bf16", "bias": "f32", "c": "f32"}),
    _library("batch", f"{_LIBRARY}:batched_kernel", ("none",), _BATCH),
    _library("batch, heads permuted", f"{_LIBRARY}:batched_kernel", ("none",), _BATCH,
             strides={"a": (320, 12 * 320, 1), "c": (256, 12 * 256, 1)}),
    _library("batch, odd extents", f"{_LIBRARY}:batched_kernel", ("silu",), {"B": 3, "M": 65, "N": 67, "K": 129}),
    _library("gated, silu", f"{_LIBRARY}:gated_kernel", ("silu",), {"M": 1024, "N": 1536, "K": 1024}),
    _library("gated, few rows", f"{_LIBRARY}:gated_kernel", ("gelu",), {"M": 16, "N": 14336, "K": 4096},
             strides={"w_gate": (1, 4096), "w_up": (1, 4096)}),
    _library("gated, large", f"{_LIBRARY}:gated_kernel", ("silu",), {"M": 4096, "N": 14336, "K": 4096}),
    _library("gated, one element along K", f"{_LIBRARY}:gated_kernel", ("silu",), {"M": 129, "N": 66, "K": 1},
             strides={"w_gate": (1, 1), "w_up": (1, 1)}),
    _library("groups, activated", f"{_LIBRARY}:grouped_kernel", ("silu", False),
             {"T": 2048, "G": 8, "N": 1024, "K": 512}),
    _library("groups with bias", f"{_LIBRARY}:grouped_kernel", ("relu", True),
             {"T": 600, "G": 5, "N": 336, "K": 264}),
    _library("groups whose weights need a copy", f"{_LIBRARY}:grouped_kernel", ("relu", True),
             {"T": 600, "G": 5, "N": 333, "K": 264}),
    _library("groups of a padded batch", f"{_LIBRARY}:masked_kernel", ("none",),
             {"G": 6, "M": 256, "N": 512, "K": 512}),
    _library("fp8 with bias and residual", f"{_SCALED}:scaled_kernel", ("gelu", True, True, (False, False)), _SIZE,
             dtype={**_F8, "bias": "bf16", "residual": "bf16"}, strides={"b": (1, 512)}),
    _library("fp8, one factor and a row's", f"{_SCALED}:scaled_kernel", ("none", False, False, (True, False)), _SIZE,
             dtype={"a": "f8e5m2", "b": "f8e5m2", "c": "f16"}, strides={"b": (1, 512)}),
    _library("fp8, factors of blocks, with bias", f"{_SCALED}:scaled_kernel", ("silu", True, False, "blocks"), _SIZE,
             dtype={**_F8, "bias": "bf16"}, strides={"b": (1, 512)}),
    _library("fp8, B to be transposed", f"{_SCALED}:scaled_kernel", ("none", False, False, (True, True)),
             {"M": 256, "N": 1000, "K": 528}, dtype=_F8),
    Asked("programs", "rows scaled to 8 bits", f"{_ROWS}:quantize", {"M": 300, "N": 1000}, dtype={"x": "bf16"}),
    Asked("programs", "odd rows scaled to 8-bit integers", f"{_ROWS}:quantize_int8", {"M": 300, "N": 1001},
          dtype={"x": "bf16"}),
    Asked("programs", "softmax of few short rows", f"{_ROWS}:softmax", {"M": 7, "N": 31}),
    Asked("programs", "softmax of long odd rows", f"{_ROWS}:softmax", {"M": 64, "N": 50257}),
    Asked("programs", "norm of odd rows", f"{_ROWS}:layer_norm", {"M": 129, "N": 4095}, dtype="f16"),
    Asked("programs", "keys in pages that are asked for ahead", f"{_FUSED}:decode_in_pages",
          {"B": 8, "H": 32, "T": 1024, "E": 128, "F": 128, "P": 512, "S": 16}, (16,)),
    Asked("programs", "keys in parts that overlap", f"{_FUSED}:attention",
          {"B": 5, "H": 40, "Q": 1, "T": 22144, "E": 128, "F": 128}),
    _own("elementwise, neighbours", "smoothed", {"M": 1000, "N": 1023}),
    _own("elementwise, factors of blocks", "dequantized", {"M": 512, "N": 1024}, dtype={"x": "f8e4m3", "scale": "f32"}),
    _own("elementwise, functions over three axes", "activated", {"B": 4, "M": 100, "N": 512}),
    _own("transposed beside not", "symmetrized", {"I": 640, "J": 801}, dtype={"z": "f32"}),
    _own("order of axes", "copied", {"B": 8, "J": 128, "I": 192}, strides={"x": (192, 8 * 192, 1)}),
    _own("transposed copies of a batch", "copied", {"B": 8, "J": 128, "I": 192}, strides={"x": (128 * 192, 1, 128)}),
    _own("computed and displaced operands", "displaced", {"M": 300, "N": 520, "K": 264}),
    _own("two results, one transposed", "two_results", {"M": 520, "N": 768, "K": 256}, dtype={"d": "f32"}),
    _own("batch of the same weights with vectors", "shared_weights", _BATCH),
    _own("gated batch", "gated_batch", _BATCH),
    _own("transposed accumulator, staged", "two_results", {"M": 136, "N": 200, "K": 96}, wanted={"swapped": True}),
)  # fmt: skip
"""What the library's functions compile to, and tile programs of other kinds."""
