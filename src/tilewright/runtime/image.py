"""Is this a whole module image, PTX text or a cubin? Asked before the driver is, which trusts what it is given.

A cubin that ends early makes `cuModuleLoadData` read past it and crash the process, since the call takes no length. So
every table and section that the ELF header leads to must lie inside the image. Damage within that leaves the lengths
alone is not seen here (a bundle's hashes see it).

Not handled: fat binaries, and linking.
Source: System V ABI, "Object Files" (ELF-64); CUDA Binary Utilities, "What is a CUDA Binary?"; PTX ISA, ".version".
Checked by: tests/runtime/test_image.py; tests/runtime/test_gpu.py on a GPU.
"""

from __future__ import annotations

import re
import struct

from tilewright.base.error import TilewrightError

_MACHINE_CUDA = 190
_NO_BITS = 8
_HEADER = struct.Struct("<4s5B7x2HI3QI6H")
_PROGRAM_HEADER = struct.Struct("<2I6Q")
_SECTION_HEADER = struct.Struct("<2I4Q2I2Q")


def require_whole(image: bytes, name: str) -> None:
    """Raises TilewrightError unless `image` is PTX text or a CUDA ELF image with all its sections. `name` is shown."""
    if image.startswith(b"\x7fELF"):
        problem = _elf_problem(image)
        if problem:
            raise TilewrightError(f"the machine code of {name} is damaged: {problem}", remedy="compile it again")
    elif not re.match(rb"(?:\s|//[^\n]*\n|/\*.*?\*/)*\.version\s", image, re.DOTALL):
        raise TilewrightError(
            f"{name} is neither a cubin nor PTX text ({len(image)} bytes)",
            remedy="assemble the PTX with tilewright.runtime.assemble, or pass its text",
        )
    elif b"\0" in image:
        raise TilewrightError(f"the PTX of {name} has a NUL byte, where the driver would stop", remedy="remove it")


def _elf_problem(image: bytes) -> str:
    if len(image) < _HEADER.size:
        return "it ends within the ELF header"
    (
        _, elf_class, byte_order, _, _, _, _, machine, _, _, program_offset, section_offset, _,
        _, program_size, program_count, section_size, section_count, _,
    ) = _HEADER.unpack_from(image)  # fmt: skip
    if (elf_class, byte_order, machine) != (2, 1, _MACHINE_CUDA):
        return "it is an ELF file for another machine"
    if (program_count and program_size != _PROGRAM_HEADER.size) or section_size != _SECTION_HEADER.size:
        return "its ELF tables have entries of an unknown size"
    if section_count == 0:
        return "it has no sections"
    if program_offset + program_count * program_size > len(image):
        return "it ends before its program headers"
    if section_offset + section_count * section_size > len(image):
        return "it ends before its section headers"
    for index in range(program_count):
        fields = _PROGRAM_HEADER.unpack_from(image, program_offset + index * program_size)
        if fields[2] + fields[5] > len(image):
            return f"it ends within segment {index}"
    for index in range(section_count):
        fields = _SECTION_HEADER.unpack_from(image, section_offset + index * section_size)
        if fields[1] != _NO_BITS and fields[4] + fields[5] > len(image):
            return f"it ends within section {index}"
    return ""
