"""Which rules do tensor maps and wgmma matrix descriptors obey? One row for each code that `legal` reports.

Numbers stand in the target's facts; here they are put into words for sm_90a. Checked by: tests/driver/test_rules.py,
which looks for every code in the sources of `legal`, and compares names.
"""

from __future__ import annotations

from functools import cache

from tilewright.contract.codes import Rule
from tilewright.targets import Target, target

_DRIVER = "CUDA Driver API, cuTensorMapEncodeTiled"


@cache
def descriptor_rules() -> tuple[Rule, ...]:
    """Rows of both families, with the limits of sm_90a."""
    facts = target("sm_90a")
    return (*_tensor_map_rules(facts), *_matrix_descriptor_rules(facts))


def _tensor_map_rules(facts: Target) -> tuple[Rule, ...]:
    def limit(name: str) -> int:
        return facts.limit(f"tensor_map.{name}")

    def source(name: str) -> str:
        return facts.fact(f"tensor_map.{name}").source

    spans = ", ".join(f"{span}" for span in facts.limits("tensor_map.swizzle_span_bytes")[1:])
    return (
        Rule("TM001", "data-type", "the data type is not one the architecture has",
             f"tensorDataType is 0 to {limit('data_type_max')}.", source("data_type_max"),
             "Type 13, a packed four-bit type of a later architecture.", "Choose a type that sm_90a has."),
        Rule("TM002", "interleave", "the interleave is not one of the enumeration",
             f"interleave is 0 to {limit('interleave_max')}.", source("interleave_max"), "interleave 3.",
             "Use none, 16B or 32B."),
        Rule("TM003", "swizzle", "the swizzle is not one the architecture has",
             f"swizzle is 0 to {limit('swizzle_max')}.", source("swizzle_max"), "swizzle 4.",
             "Use none, 32B, 64B or 128B."),
        Rule("TM004", "l2-promotion", "the L2 promotion is not one of the enumeration",
             f"l2Promotion is 0 to {limit('l2_promotion_max')}.", source("l2_promotion_max"), "l2Promotion 4.",
             "Use none, 64B, 128B or 256B."),
        Rule("TM005", "out-of-bounds-fill", "the fill is not one of the enumeration",
             f"oobFill is 0 to {limit('out_of_bounds_max')}.", source("out_of_bounds_max"), "oobFill 2.",
             "Fill with zero or NaN."),
        Rule("TM006", "nan-fill-of-integers", "integers are to be filled with NaN",
             "NaN fill needs a floating-point element.", _DRIVER + ": oobFill", "u8 elements with NaN fill.",
             "Fill with zero."),
        Rule("TM007", "rank", "the rank is out of range",
             f"tensorRank is {limit('rank_min')} to {limit('rank_max')}.", source("rank_max"), "Rank 6.",
             "Fold dimensions that are contiguous in each other."),
        Rule("TM008", "interleaved-rank", "an interleaved tensor has too few dimensions",
             f"With interleave, the rank is at least {limit('interleaved_rank_min')}.", source("interleaved_rank_min"),
             "A matrix with interleave 32B.", "Add a dimension of extent 1, or drop the interleave."),
        Rule("TM009", "address-alignment", "the tensor's address is not aligned",
             f"globalAddress is a multiple of {limit('address_alignment_bytes')} bytes, with interleave 32B of "
             f"{limit('interleave_32b_address_alignment_bytes')}.", source("address_alignment_bytes"),
             "A view that begins at element 3 of a bf16 array.", "Begin the view at an aligned element, or copy it."),
        Rule("TM010", "address-range", "the tensor's address is beyond what the encoder takes",
             f"globalAddress is below 2^{limit('address_limit').bit_length() - 1}.", source("address_limit"),
             "A tagged pointer.", "Give a plain address."),
        Rule("TM011", "dim-range", "an extent is out of range",
             f"Each globalDim is 1 to 2^{limit('dim_max').bit_length() - 1}.", source("dim_max"), "A dimension of 0.",
             "Do not launch for empty tensors."),
        Rule("TM012", "stride-multiple", "a stride is not a multiple of what copies need",
             f"Each globalStrides entry is a multiple of {limit('stride_multiple_bytes')} bytes, with interleave 32B "
             f"of {limit('interleave_32b_stride_multiple_bytes')}.", source("stride_multiple_bytes"),
             "A row-major bf16 matrix of 100 columns: 200 bytes.", "Pad the rows, or copy to a padded workspace."),
        Rule("TM013", "stride-range", "a stride is out of range",
             f"Each globalStrides entry is below 2^{limit('stride_limit_bytes').bit_length() - 1}.",
             source("stride_limit_bytes"), "A negative stride.", "Reverse the axis by copying."),
        Rule("TM014", "box-range", "a box extent is out of range",
             f"Each boxDim is 1 to {limit('box_extent_max')}.", source("box_extent_max"), "A box of 512 rows.",
             "Copy several boxes."),
        Rule("TM015", "box-inner-multiple", "the box's inner row is not a multiple of what copies need",
             f"boxDim[0] times the element's size is a multiple of {limit('box_inner_multiple_bytes')} bytes.",
             source("box_inner_multiple_bytes"), "Four bf16 elements.", "Widen the inner extent."),
        Rule("TM016", "box-span", "the box's inner row is wider than the swizzle's span",
             f"Under swizzle, the inner row is at most the span: {spans} bytes.", source("swizzle_span_bytes"),
             "128 bf16 elements under 128B.", "Split the box into spans, or widen the swizzle."),
        Rule("TM017", "element-stride-range", "an element stride is out of range",
             f"Each elementStrides entry is 1 to {limit('element_stride_max')}.", source("element_stride_max"),
             "An element stride of 16.", "Express the stride by a dimension of its own."),
        Rule("TM018", "box-footprint", "the box is larger than shared memory",
             f"The box has at most {limit('box_footprint_bytes_max')} bytes.", source("box_footprint_bytes_max"),
             "256 x 256 x 8 bf16 elements.", "Copy several boxes."),
        Rule("TM031", "interleave-32B-swizzle", "interleave 32B is used with another swizzle than 32B",
             "The documentation pairs them; the encoder does not enforce it.", _DRIVER + ": swizzle",
             "interleave 32B with swizzle 128B.", "Use swizzle 32B."),
        Rule("TM032", "shared-footprint", "the box does not fit the shared memory of a thread block",
             f"A thread block has at most {facts.limit('cta.shared_bytes_max')} bytes; the encoder lets pass what fits "
             "a multiprocessor.", facts.fact("cta.shared_bytes_max").source, "A box of 233472 bytes.",
             "Make the box smaller."),
    )  # fmt: skip


def _matrix_descriptor_rules(facts: Target) -> tuple[Rule, ...]:
    multiple = facts.limit("matrix_descriptor.offset_multiple_bytes")
    beyond = facts.limit("matrix_descriptor.offset_limit_bytes")
    source = facts.fact("matrix_descriptor.offset_multiple_bytes").source
    base_source = facts.fact("matrix_descriptor.base_offset_max").source
    low, high, step = (facts.limit(f"wgmma.{name}") for name in ("n_min", "n_max", "n_step"))
    shape_source = facts.fact("wgmma.m").source
    return (
        Rule("LY001", "descriptor-multiple", "a field of a matrix descriptor is not a multiple of 16 bytes",
             f"Start address and offsets are encoded in units of {multiple} bytes.", source,
             "A start address of 0x408.", "Align the operand and its strides."),
        Rule("LY002", "descriptor-range", "a field of a matrix descriptor is out of range",
             f"Start address and offsets are below {beyond} bytes.", source, "A stride offset of 2^18.",
             "Keep operands in shared memory of one CTA."),
        Rule("LY003", "base-offset-range", "the base offset is out of range",
             f"The base offset is 0 to {facts.limit('matrix_descriptor.base_offset_max')}.", base_source,
             "A base offset of 8.", "Use three bits."),
        Rule("LY004", "pattern-alignment", "the swizzle pattern does not begin on a line of 128 bytes",
             "A swizzled operand's pattern begins at a multiple of 128 bytes.", base_source,
             "A tile at byte 1088 under 128B.", "Place tiles at multiples of the pattern's period."),
        Rule("LY005", "base-offset", "the base offset disagrees with where the pattern begins",
             "It is the pattern's start address in lines of 128 bytes modulo 8, and 0 where the pattern begins on its "
             "period or there is none.", base_source, "A tile 512 bytes into a period of 1024 with base offset 0.",
             "Align the tile to the period, or set the base offset."),
        Rule("LY006", "element", "no wgmma takes this element", "wgmma multiplies f16, bf16, tf32, fp8 and 8-bit "
             "integers.", "PTX ISA, wgmma: Data types", "f64 operands.", "Convert the operand."),
        Rule("LY007", "major", "an operand of this element cannot be MN-major",
             "Only 16-bit elements may be transposed by the descriptor.", "PTX ISA, wgmma: imm-trans",
             "An 8-bit operand whose rows are contiguous.", "Transpose it in memory."),
        Rule("LY008", "shape", "no wgmma has this shape",
             f"One wgmma takes {facts.limit('wgmma.m')} rows and {low} to {high} columns in steps of {step}.",
             shape_source, "260 columns.", "Split the tile."),
    )  # fmt: skip
