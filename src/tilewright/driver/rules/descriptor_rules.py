"""Which rules do tensor maps and wgmma matrix descriptors obey? One row for each code that `legal` reports.

Numbers stand in the target's facts; here they are put into words for the oldest target, and for the first with wide
maps what it has besides.
Checked by: tests/driver/rules/test_catalog.py, which looks for every code in the sources of `legal`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tilewright.contract.rules.typestate_codes import Rule
from tilewright.targets import TARGET_NAMES, Target, target

_COPY = "PTX ISA 9.7.9.27 (cp.async.bulk.tensor)"
_DRIVER = "CUDA Driver API, cuTensorMapEncodeTiled"


@cache
def descriptor_rules() -> tuple[Rule, ...]:
    """Rows of both families, with the limits of the oldest target, and of the first that has wide maps what is new."""
    known = [target(name) for name in TARGET_NAMES]
    oldest, newest = known[0], next(each for each in known if each.supports("im2col_wide"))
    of_maps = (*_field_rules(oldest), *_newer_field_rules(oldest, newest), *_cautions(oldest, newest))
    return (*of_maps, *_copy_rules(oldest, newest), *_matrix_descriptor_rules(oldest))


def _reader(facts: Target) -> tuple[Callable[[str], int], Callable[[str], str]]:
    """What gives a limit of tensor maps, and its source."""
    return lambda name: facts.limit(f"tensor_map.{name}"), lambda name: facts.fact(f"tensor_map.{name}").source


def _field_rules(facts: Target) -> tuple[Rule, ...]:
    """Of the fields that every target's maps have."""
    limit, source = _reader(facts)
    spans = ", ".join(f"{span}" for span in facts.limits("tensor_map.swizzle_span_bytes")[1:])
    return (
        Rule("TM001", "data-type", "the data type is not one the architecture has",
             f"tensorDataType is 0 to {limit('data_type_max')}.", source("data_type_max"),
             "Type 13, a packed four-bit type of a later architecture.", f"Choose a type that {facts.name} has."),
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
             f"The box, or the column of an im2col map, has at most {limit('box_footprint_bytes_max')} bytes.",
             source("box_footprint_bytes_max"), "256 x 256 x 8 bf16 elements.", "Copy several boxes."),
    )  # fmt: skip


def _newer_field_rules(facts: Target, newest: Target) -> tuple[Rule, ...]:
    """Of what newer drivers know: packed types and im2col maps."""
    limit, source = _reader(facts)
    later = newest.fact  # what only later architectures have
    corners = ", ".join(f"{corner}" for corner in facts.limits("tensor_map.im2col_corner_limits"))
    return (
        Rule("TM019", "driver-version", "the driver does not know a value yet",
             "Tensor maps need CUDA 12.0, packed data types and swizzle atoms 12.8, im2col maps along W alone 13.0.",
             later("feature.packed_tensor_elements").source, "A packed type with a driver of 12.6.",
             "Update the driver, or choose an older type or swizzle."),
        Rule("TM020", "packed-dim-multiple", "the innermost extent is no multiple of whole groups of packed values",
             "globalDim[0] is a multiple of 2 for 16U4_ALIGN8B, of 128 for the types padded to 16 bytes.",
             later("tensor_map.packed_dim_multiple_elements").source, "100 values of 6 bits.",
             "Pad the innermost dimension."),
        Rule("TM021", "packed-inner-extent", "the inner row of padded packed values has a wrong size",
             "boxDim[0], or channelsPerPixel, is 128 for the types padded to 16 bytes.",
             later("tensor_map.padded_inner_elements").source, "An inner box of 64 values of 6 bits.",
             "Copy 128 values a row."),
        Rule("TM022", "packed-swizzle", "the packed type does not take this swizzle",
             "16U4_ALIGN16B takes NONE, 128B and 128B_ATOM_32B; 16U6_ALIGN16B also 128B_ATOM_64B, for stores.",
             later("tensor_map.u4x16_align16_swizzles").source, "6-bit values under 64B.",
             "Use none or 128B."),
        Rule("TM023", "packed-interleave", "6-bit values are interleaved",
             "16U6_ALIGN16B takes no interleave.", later("tensor_map.u6x16_align16_interleave").source,
             "6-bit values with interleave 16B.", "Drop the interleave."),
        Rule("TM024", "channels-range", "the channels of a pixel are out of range",
             f"channelsPerPixel is 1 to {limit('im2col_channels_max')}.", source("im2col_channels_max"),
             "512 channels.", "Copy several groups of channels."),
        Rule("TM025", "pixels-range", "the pixels of a column are out of range",
             f"pixelsPerColumn is 1 to {limit('im2col_pixels_max')}.", source("im2col_pixels_max"),
             "2048 pixels.", "Copy several columns."),
        Rule("TM026", "corner-range", "a corner of the box of pixels is out of range",
             f"Corners are at least minus, and below, {corners} for ranks 3, 4 and 5.", source("im2col_corner_limits"),
             "A padding of 20 in three dimensions.", "Pad the tensor itself."),
        Rule("TM027", "pixel-box-extent", "the box of pixels is empty, or its end is no signed word",
             "In each spatial dimension the lower corner is below the extent plus the upper corner, that sum as a "
             "signed 32-bit number.", source("im2col_pixel_box_limit"),
             "A filter larger than the padded image.", "Check padding and dilation."),
        Rule("TM028", "im2col-wide", "the architecture has no im2col maps along W alone",
             "cuTensorMapEncodeIm2colWide needs compute capability 10.0; before, the driver makes plain im2col maps of "
             "such.", later("feature.im2col_wide").source,
             f"An Im2colWideMap on {facts.name}.", "Use an Im2colMap."),
        Rule("TM029", "wide-mode", "the mode is not one of the enumeration", "The mode is W or W128.",
             later("tensor_map.im2col_wide_mode_max").source, "mode 2.", "Use w or w128."),
        Rule("TM030", "wide-swizzle", "im2col maps along W do not take this swizzle",
             "They take 64B, 128B and 128B_ATOM_32B.", later("tensor_map.im2col_wide_swizzles").source,
             "An Im2colWideMap without swizzle.", "Use 128B."),
    )  # fmt: skip


def _cautions(facts: Target, newest: Target) -> tuple[Rule, ...]:
    """Of maps that the encoder takes."""
    later = newest.fact
    return (
        Rule("TM031", "interleave-32B-swizzle", "interleave 32B is used with another swizzle than 32B",
             "The documentation pairs them; the encoder does not enforce it.", _DRIVER + ": swizzle",
             "interleave 32B with swizzle 128B.", "Use swizzle 32B."),
        Rule("TM032", "shared-footprint", "the box does not fit the shared memory of a thread block",
             f"A thread block has at most {facts.limit('cta.shared_bytes_max')} bytes; the encoder lets pass what fits "
             "a multiprocessor.", facts.fact("cta.shared_bytes_max").source, "A box of 233472 bytes.",
             "Make the box smaller."),
        Rule("TM033", "transaction-range", "one copy is more than an mbarrier's phase can count",
             f"A phase counts at most {facts.limit('mbarrier.transaction_bytes_max')} bytes.",
             facts.fact("mbarrier.transaction_bytes_max").source,
             "An interleaved box of 256 x 256 slices.", "Make the box smaller."),
        Rule("TM034", "row-pitch", "the box needs more shared memory than its barrier counts",
             "Rows narrower than the swizzle's span stand a whole span apart.",
             "CUDA C++ Programming Guide, Tensor Memory Access; measured", "32-byte rows under 128B.",
             "Size the buffer by rows times span, the barrier by the box's bytes; or use a narrower swizzle."),
        Rule("TM035", "box-beyond-extent", "the box is larger than the tensor",
             "What is outside the tensor is filled, and counted as moved.", _DRIVER + ": oobFill",
             "A box of 128 rows over a tensor of 100.", "Nothing need be done; a smaller box moves less."),
        Rule("TM036", "store-clipping", "a store over the end of a row writes beyond it",
             "Stores are clipped in pieces of 16 bytes of global memory.", "measured; triton issue 11583",
             "Rows of 100 bytes, packed without padding.", "Pad the rows to 16 bytes, or store the edge by threads."),
        Rule("TM037", "zero-stride", "a dimension repeats the same bytes",
             "A stride of 0 is taken: loads broadcast, stores race.", _DRIVER + ": globalStrides",
             "A bias broadcast over rows.", "Do not store through such a map."),
        Rule("TM038", "overlapping-strides", "elements may share bytes",
             "A stride is below the reach of the dimensions inside it; the encoder takes it.",
             _DRIVER + ": globalStrides", "Sliding windows over a vector.", "Do not store through such a map."),
        Rule("TM039", "stride-order", "strides do not ascend outwards",
             "The encoder takes strides in any order; other checkers want them ascending.",
             _DRIVER + ": globalStrides", "Heads inside rows in memory, outside them in the map.",
             "Nothing need be done; order the dimensions by stride where another tool asks for it."),
        Rule("TM040", "address-line", "a swizzled tensor does not begin on a line of 128 bytes",
             "The guide asks for 128 bytes under a swizzle; the encoder and the copies take 16.",
             "CUDA C++ Programming Guide, Tensor Memory Access: alignment", "A view beginning at byte 16.",
             "Align the tensor where speed matters."),
        Rule("TM041", "promotion-beyond-row", "reads are widened in L2 beyond a row",
             "L2 promotion fetches whole pieces of 64, 128 or 256 bytes.", "CUDA Driver API, CUtensorMapL2promotion",
             "Rows of 64 bytes with promotion 256B.", "Promote to at most a row."),
        Rule("TM042", "driver-small-extent", "the driver encodes this map wrongly",
             "Drivers up to 13.1 set bit 21 of the second word for small tensors that are not dense, on Blackwell.",
             later("tensor_map.small_extent_bug_bytes").source, "A slice of 64 KiB.",
             "Clear the bit after encoding, or update the driver."),
        Rule("TM043", "wide-interleave", "an im2col map along W is interleaved",
             "Copies in the modes im2col::w and im2col::w::128 take no interleave.", "PTX ISA 5.5.6",
             "An Im2colWideMap with interleave 16B.", "Drop the interleave."),
        Rule("TM044", "load-only", "no store takes this map",
             "16U4_ALIGN16B and 128B_ATOM_32B_FLIP_8B are for loads alone.", "PTX ISA 9.7.9.27.1.1",
             "A store of 4-bit values padded to 16 bytes.", "Store through another type or swizzle."),
        Rule("TM045", "store-only", "no load takes this map",
             "16U6_ALIGN16B under 128B_ATOM_64B is for stores alone.",
             later("tensor_map.u6x16_align16_swizzles").source, "A load of 6-bit values under 128B_ATOM_64B.",
             "Load under none, 128B or 128B_ATOM_32B."),
        Rule("TM046", "extent-of-copies", "the tensor is larger than copies reach",
             f"Copies through maps with an extent above {facts.limit('tensor_copy.extent_max')} raise an illegal "
             "instruction, though the encoder takes extents up to 2^32.", facts.fact("tensor_copy.extent_max").source,
             "A vector of 3 * 2^30 bytes.", "Split the dimension in two."),
    )  # fmt: skip


def _copy_rules(facts: Target, newest: Target) -> tuple[Rule, ...]:
    """Of copies through maps."""
    limit, source = _reader(facts)
    later = newest.fact
    return (
        Rule("TM050", "copy-mode", "a copy's mode fits neither its map nor its direction",
             "Tile modes take tiled maps, im2col modes im2col maps; gather4 loads, scatter4 and im2col_no_offs store.",
             _COPY, "A gather4 store.", "Use the mode of the map and of the direction."),
        Rule("TM051", "copy-mode-target", "the architecture has no such mode of copies",
             f"tile::gather4, tile::scatter4 and im2col::w need {newest.name}.", later("feature.tensor_gather").source,
             f"gather4 on {facts.name}.", "Copy row by row."),
        Rule("TM052", "coordinate-count", "a copy has the wrong number of coordinates",
             "One for each dimension; gather4 and scatter4 take one column and four rows.", _COPY,
             "Two coordinates for a map of rank 3.", "Give one for each dimension."),
        Rule("TM053", "coordinate-range", "a coordinate is no signed 32-bit number",
             "Coordinates are of type .s32.", facts.fact("tensor_copy.coordinate_limit").source,
             "Row 2^31 of a tall matrix.", "Move the map's address, and count from there."),
        Rule("TM054", "inner-coordinate-alignment", "the innermost coordinate is not aligned",
             f"Without interleave, the innermost coordinate times the element's size is a multiple of "
             f"{limit('coordinate_0_multiple_bytes')} bytes.", source("coordinate_0_multiple_bytes"),
             "A box of bf16 beginning at column 3.", "Begin at a multiple of 16 bytes, and skip what is before."),
        Rule("TM055", "store-coordinate", "a store begins outside the tensor",
             "Stores start at coordinates of at least 0.", _COPY, "A store at row -1.", "Clip the box in the program."),
        Rule("TM056", "shared-alignment", "a copy's shared memory is not aligned",
             f"Shared addresses are multiples of {limit('shared_alignment_bytes')} bytes.",
             source("shared_alignment_bytes"), "A buffer at byte 64.", "Align the buffer to 128 bytes."),
        Rule("TM057", "gather-shape", "a map does not fit gather4 and scatter4",
             "They take rank 2, a box of one row, and no interleave.", "PTX ISA 5.5.5",
             "gather4 through a box of four rows.", "Make the box one row."),
        Rule("TM058", "swizzle-phase", "a swizzled buffer begins inside the swizzle's pattern",
             "The pattern follows the shared address; it begins anew every 256, 512 or 1024 bytes.",
             source("swizzle_period_bytes"), "A 128B-swizzled tile at byte 128.",
             "Align the buffer to the pattern's period, or let the reader follow the phase."),
        Rule("TM059", "multicast", "slices of a multicast do not fit",
             "Only loads are multicast, to at most as many blocks as a cluster has, into aligned slices.",
             facts.fact("tensor_copy.multicast_ctas_max").source, "Slices of 192 bytes.",
             "Choose slices of a multiple of 128 bytes."),
        Rule("TM060", "reduction-type", "the reduction does not take this type",
             "add takes 32-bit and unsigned 64-bit integers, f16, bf16, f32; min and max integers, f16, bf16.",
             "PTX ISA 9.7.9.27 (cp.reduce.async.bulk.tensor)", "max of f32.", "Reduce in registers."),
        Rule("TM061", "store-pixel-box", "a store's box of pixels leaves the tensor",
             "For stores the lower corner is at least 0 and the upper at most 0.", _COPY, "A store with padding 1.",
             "Store through a map without padding."),
        Rule("TM062", "im2col-offsets", "offsets of an im2col copy are wrong",
             "One for each spatial dimension, below 2^16, 2^8 or 2^5 for ranks 3, 4 and 5.",
             facts.fact("tensor_copy.im2col_offset_limits").source, "A negative offset.",
             "Count offsets from the lower corner."),
        Rule("TM063", "box-outside", "nothing of the box is inside the tensor",
             "All of it is filled, and counted as moved.", _DRIVER + ": oobFill", "A tile past the last row.",
             "Skip the copy."),
        Rule("TM064", "buffer-overrun", "the shared buffer is smaller than what the copy occupies",
             "Rows narrower than the swizzle's span stand a whole span apart; a gather occupies four rows, a multicast "
             "all slices.", "CUDA C++ Programming Guide, Tensor Memory Access; measured",
             "256 rows of 32 bytes under 128B in a buffer of 8192 bytes.",
             "Size the buffer by the footprint, the barrier by the transaction."),
        Rule("TM065", "column-outside", "an im2col column begins outside its box of pixels",
             "Start coordinates of spatial dimensions lie between the lower corner and the last pixel plus the upper "
             "corner.", "measured: the copy raises CUDA_ERROR_ILLEGAL_INSTRUCTION (probe tma_copies)",
             "Pixel -2 under a lower corner of -1.", "Begin inside the box; its corners say how far it goes."),
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
