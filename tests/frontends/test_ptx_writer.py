"""The writer: what it prints reads as the same module, and assembles to the same machine code."""

from __future__ import annotations

import dataclasses
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frontends.ptx_writer import format_operand, write

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import (
    Address,
    FloatImmediate,
    Immediate,
    Instruction,
    Location,
    Module,
    Negated,
    Operand,
    PairOfPredicates,
    Register,
    Symbol,
    SymbolOffset,
    TensorAddress,
    Vector,
)
from tilewright.frontends.ptx.reader import read

SAMPLES = sorted((Path(__file__).parents[1] / "data" / "ptx").glob("*.ptx"))
NOWHERE = Span("", 0)


def without_spans(value: Any) -> Any:
    """The value with every span replaced by one, and without the places of inlined calls, which are not written."""
    if isinstance(value, Span):
        return NOWHERE
    if isinstance(value, Location):
        return dataclasses.replace(value, inlined_at=None, function="")
    if isinstance(value, Module):
        value = dataclasses.replace(value, inlined_names={})
    if isinstance(value, tuple):
        return tuple(without_spans(item) for item in cast("tuple[Any, ...]", value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: without_spans(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_what_is_written_reads_as_the_same_module(sample: Path) -> None:
    once = read(sample.read_text())
    again = read(write(once))
    assert without_spans(again) == without_spans(once)
    assert write(again) == write(once)


_names = st.sampled_from(["%r1", "%r7", "%rd3", "%f2", "%tid.x"])
_registers = _names.map(Register)
_symbols = st.sampled_from(["buffer", "argument"]).map(Symbol)
_integers = st.integers(-(2**63), 2**64 - 1).map(Immediate)
_floats = st.one_of(
    st.integers(0, 2**32 - 1).map(lambda bits: FloatImmediate(bits, 32)),
    st.integers(0, 2**64 - 1).map(lambda bits: FloatImmediate(bits, 64)),
)
_offsets = st.integers(-(2**31), 2**31)
_addresses = st.one_of(
    st.builds(Address, st.one_of(_registers, _symbols), _offsets), st.builds(Address, st.none(), _offsets)
)
_vectors = st.lists(st.one_of(_registers, st.just(Register("_"))), min_size=4, max_size=4).map(
    lambda items: Vector(tuple(items))
)
_tensors = st.builds(
    TensorAddress, st.builds(Address, _registers, _offsets), st.tuples(st.one_of(_registers, _integers), _registers)
)
# An instruction that takes the operand where it stands.
_INSTRUCTIONS: list[tuple[str, st.SearchStrategy[Operand], str]] = [
    ("mov.b64 %rd1, {};", st.one_of(_registers, _symbols, _integers, _floats), "source"),
    ("mov.b64 %rd1, {};", st.builds(SymbolOffset, _symbols, _offsets.filter(bool)), "symbol and offset"),
    ("ld.b32 %r1, {};", _addresses, "address"),
    ("ld.v4.b32 {}, [%rd1];", _vectors, "vector"),
    ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group {}, [%r1];", _tensors, "tensor"),
    ("selp.b32 %r1, 1, 0, {};", st.sampled_from(["%p0", "%p1"]).map(lambda name: Negated(Register(name))), "negated"),
    (
        "setp.eq.s32 {}, 1, 0;",
        st.just(PairOfPredicates(Register("%p0"), Register("%p1"))),
        "pair",
    ),
]


@pytest.mark.parametrize(("pattern", "operands", "what"), _INSTRUCTIONS, ids=[what for *_, what in _INSTRUCTIONS])
def test_operands_round_trip(pattern: str, operands: st.SearchStrategy[Operand], what: str) -> None:
    @settings(max_examples=80, deadline=None)
    @given(operands)
    def holds(operand: Operand) -> None:
        text = f""".version 8.6
.target sm_90a
.address_size 64
.entry kernel(.param .u64 argument) {{
.reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .shared .b32 buffer[4];
{pattern.replace("{}", format_operand(operand))}
}}"""
        (item,) = read(text).kernels[0].body
        assert isinstance(item, Instruction)
        assert operand in item.operands, what

    holds()


def test_register_ranges_and_initial_values() -> None:
    text = """.version 8.6
.target sm_90a
.address_size 64
.weak .global .align 16 .f64 table[3] = {1.5, -2.0};
.global .v4 .f32 quad;
.entry kernel() {
.reg .b32 %r<3>, x, y1, y2, a<1>; .reg .pred p0;
.shared .align 128 .b8 tile[2][64];
ret;
}"""
    once = read(text)
    assert once.variables[0].size_bytes == 24 and once.variables[1].align == 16
    assert once.kernels[0].registers[0].names == ("%r0", "%r1", "%r2", "x", "y1", "y2", "a0")
    assert once.kernels[0].variables[0].size_bytes == 128
    assert without_spans(read(write(once))) == without_spans(once)
    assert "%r<3>, x, y1, y2, a0;" in write(once)


def _ptxas() -> Path | None:
    spec = find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec is not None else ():
        path = Path(root) / "cuda_nvcc" / "bin" / "ptxas"
        if path.exists():
            return path
    return None


@pytest.mark.skipif(_ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_samples_assemble_before_and_after(sample: Path, tmp_path: Path) -> None:
    before, after = tmp_path / "before.ptx", tmp_path / "after.ptx"
    before.write_text(sample.read_text())
    after.write_text(write(read(sample.read_text())))
    images: list[bytes] = []
    for source in (before, after):
        image = tmp_path / f"{source.stem}.cubin"
        command = [str(_ptxas()), "-arch=sm_90a", "-o", str(image), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        images.append(image.read_bytes())
    if ", debug" not in sample.read_text():  # a debug image carries the sections that the reader drops
        assert images[0] == images[1]
