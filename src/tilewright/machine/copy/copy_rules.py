"""Which rules of asynchronous copies and tensor maps does a run on the machine enforce?

Rows of `rules`: code, name, summary, rule, source, example, remedy. Checked by: tests/machine/core/test_rules.py.
"""

from __future__ import annotations

_COPY = "PTX ISA 9.7.9.25 (asynchronous copies), 9.7.9.27 (tensor copies)"
_MAPS = "PTX ISA 5.5 (tensors), 9.7.9.28 (tensormap.replace)"

COPY_RULES: tuple[tuple[str, str, str, str, str, str, str], ...] = (
    (
        "AL201",
        "copy-alignment",
        "a bulk copy's address is not aligned",
        "Plain bulk copies take addresses that are multiples of 16 bytes; tensor copies multiples of 128 bytes in "
        "shared memory.",
        _COPY,
        "The stages of a ring begin every 8208 bytes, and tensor copies fill them.",
        "Align the buffer, and round the distance of stages up to a multiple of the alignment.",
    ),
    (
        "AL202",
        "coordinate-alignment",
        "a tensor copy's innermost coordinate is not a multiple of 16 bytes",
        "The innermost coordinate times the element's size is a multiple of 16 bytes; an H200 answers others with an "
        "illegal instruction.",
        _COPY,
        "A copy of bf16 elements starts at column 4.",
        "Start at a column that is a multiple of 16 bytes, and shift within the tile.",
    ),
    (
        "AL203",
        "bulk-size",
        "a bulk copy's size is not a multiple of 16 bytes",
        "The size of cp.async.bulk is a multiple of 16 bytes. A copy of 0 bytes between global and shared memory does "
        "nothing, as measured on an H200.",
        _COPY,
        "cp.async.bulk of 1000 bytes.",
        "Copy whole chunks of 16 bytes, and the rest with ordinary loads.",
    ),
    (
        "TM201",
        "no-tensor-map",
        "a tensor copy's map operand names no tensor map",
        "The operand is the generic address, a multiple of 64, of a 128-byte tensor map among the parameters, in "
        "constant or in global memory.",
        _MAPS,
        "The kernel takes the address of the parameter after the map.",
        "Pass the map as a .param aligned to 64 bytes, or write a whole map before its first use.",
    ),
    (
        "TM202",
        "tensor-map-field",
        "a field of a tensor map has a value that the copy cannot use",
        "Rank, modes and codes of a map have legal values, and the instruction's rank and mode are the map's.",
        _MAPS,
        "cp.async.bulk.tensor.3d through a map of rank 2.",
        "Use the instruction of the map's rank and mode, or replace the field.",
    ),
    (
        "TM203",
        "tensor-map-address",
        "a tensor map's global address belongs to no buffer",
        "The tensor begins inside an allocation.",
        _MAPS,
        "tensormap.replace.tile.global_address with a shared-memory address.",
        "Write a global address into the map.",
    ),
    (
        "CL202",
        "multicast-mask",
        "a multicast names CTAs that the cluster does not have, or none",
        "Bit i of the mask stands for the CTA of rank i.",
        _COPY,
        "Mask 0b111 in a cluster of two CTAs.",
        "Compute the mask from %cluster_nctarank.",
    ),
    (
        "CL203",
        "no-cluster",
        "an engine is to write shared memory from shared memory or registers, in a launch without a cluster",
        "cp.async.bulk and cp.reduce.async.bulk from shared::cta to shared::cluster, st.async and red.async need a "
        "launch with a cluster, of one CTA at least; in one without, an H200 answers with an illegal instruction. "
        "Measured was a cluster of one that the launch names, not one that .reqnctapercluster declares. On sm_100a "
        "nothing was measured, and the ISA's word holds, which gives each CTA a cluster of its own.",
        "PTX ISA 9.7.9.25 (asynchronous copies), 9.7.9.13 (st.async); measured: python -m bench.probes.cluster_forms",
        "A copy from shared memory into that of the own CTA, in an ordinary launch.",
        "Declare .reqnctapercluster 1, or launch with a cluster.",
    ),
)
