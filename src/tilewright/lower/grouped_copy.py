"""A kernel that copies one box of each group through a tensor map that it patches for the group.

The smallest whole use of `lower.ptx.map_patch`: CTAs of one warp take group after group; of each, the warp patches and
publishes the map, fetches the box at the group's first element, and writes its bytes, as they stand in shared memory,
to the output's place of that group. Elements past a group's extents arrive as the fill.

    kernel(template: tensor map, groups: count records by value, output: u64, slots: u64, count: u32)

slots: global memory for `patch.slots` maps of 128 bytes for each CTA, aligned to 128. Checked by
tests/lower/ptx/test_map_patch.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.ir.map_patch import MapPatch
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.map_patch import MAP_BYTES, PTX_VERSION, acquire, publish, replace_fields, stage_template

_LANES = 32
_CHUNK_BYTES = 16


def grouped_copy_text(patch: MapPatch, target: str, groups: int, *, name: str = "grouped_copy") -> str:
    """The PTX module of that kernel, for at most `groups` groups.

    Raises TilewrightError for a box that is interleaved, or no multiple of what the warp writes at once.
    """
    template = patch.template
    if template.interleave != "none" or template.swizzle != "none":
        raise TilewrightError("the kernel writes boxes as they stand in shared memory: no swizzle, no interleave")
    box_bytes = template.box_bytes
    if box_bytes % (_LANES * _CHUNK_BYTES):
        raise TilewrightError(f"a box of {box_bytes} bytes is no multiple of {_LANES * _CHUNK_BYTES}")
    text = Text()
    _body(text, patch, box_bytes)
    parameters = (
        "\t.param .align 64 .b8 template[128]",
        f"\t.param .align 8 .b8 groups[{groups * patch.record_bytes}]",
        "\t.param .u64 output",
        "\t.param .u64 slots",
        "\t.param .u32 count",
    )
    return "\n".join(
        [
            f".version {PTX_VERSION}",
            f".target {target}",
            ".address_size 64",
            "",
            f".visible .entry {name}(",
            ",\n".join(parameters),
            ")",
            f".reqntid {_LANES}, 1, 1",
            "{",
            f"\t.shared .align 1024 .b8 box[{box_bytes}];",
            f"\t.shared .align 128 .b8 staged_map[{MAP_BYTES}];",
            "\t.shared .align 8 .b8 full[8];",
            *text.declarations(),
            "",
            *text.lines,
            "}",
            "",
        ]
    )


def _body(text: Text, patch: MapPatch, box_bytes: int) -> None:
    lane = text.into("b32", "mov.u32", "%tid.x")
    leads = text.into("pred", "setp.eq.u32", lane, 0)
    box = text.into("b32", "mov.u32", "box")
    staged = text.into("b32", "mov.u32", "staged_map")
    full = text.into("b32", "mov.u32", "full")
    records = text.into("b64", "cvta.param.u64", text.into("b64", "mov.b64", "groups"))
    output = text.into("b64", "cvta.to.global.u64", text.into("b64", "ld.param.u64", "[output]"))
    slots = text.into("b64", "cvta.to.global.u64", text.into("b64", "ld.param.u64", "[slots]"))
    count = text.into("b32", "ld.param.u32", "[count]")
    group = text.into("b32", "mov.u32", "%ctaid.x")
    step = text.into("b32", "mov.u32", "%nctaid.x")
    # Each CTA has slots of its own, so that no map is written by two.
    first = text.into("b64", "mad.wide.u32", group, patch.slots * MAP_BYTES, slots)
    turn = text.into("b32", "mov.u32", 0)
    phase = text.into("b32", "mov.u32", 0)
    text.emit("mbarrier.init.shared::cta.b64", f"[{full}]", 1, guard=leads)
    text.emit("fence.mbarrier_init.release.cluster")
    stage_template(text, "template", staged, lane)
    text.emit("bar.warp.sync", "-1")
    again, done, patched, issued = (text.label(stem) for stem in ("GROUP", "DONE", "PATCHED", "ISSUED"))
    text.place(again)
    over = text.into("pred", "setp.ge.u32", group, count)
    text.emit("bra", done, guard=over)
    text.emit("bra", patched, guard=f"!{leads}")
    replace_fields(text, patch, text.into("b64", "mad.wide.u32", group, patch.record_bytes, records), staged)
    text.place(patched)
    text.emit("bar.warp.sync", "-1")
    slot = text.into("b64", "mad.wide.u32", turn, MAP_BYTES, first)
    publish(text, slot, staged)
    acquire(text, slot)
    text.emit("bra", issued, guard=f"!{leads}")
    text.emit("mbarrier.arrive.expect_tx.shared::cta.b64", "_", f"[{full}]", box_bytes)
    rank = patch.template.rank
    coordinates = ", ".join("0" for _ in range(rank))
    opcode = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    text.emit(opcode, f"[{box}]", f"[{slot}, {{{coordinates}}}]", f"[{full}]")
    text.place(issued)
    text.emit("bar.warp.sync", "-1")
    _wait(text, full, phase)
    _write_out(text, box, output, group, lane, box_bytes)
    # All lanes have read the box and the staged map before the next group overwrites them, the box by an engine.
    text.emit("fence.proxy.async.shared::cta")
    text.emit("bar.warp.sync", "-1")
    text.emit("xor.b32", phase, phase, 1)
    text.emit("add.u32", turn, turn, 1)
    wraps = text.into("pred", "setp.eq.u32", turn, patch.slots)
    text.emit("mov.u32", turn, 0, guard=wraps)
    text.emit("add.u32", group, group, step)
    text.emit("bra", again)
    text.place(done)
    text.emit("ret")


def _wait(text: Text, barrier: str, phase: str) -> None:
    waiting = text.label("FULL")
    text.place(waiting)
    passed = text.into("pred", "mbarrier.try_wait.parity.shared::cta.b64", f"[{barrier}]", phase)
    text.emit("bra", waiting, guard=f"!{passed}")


def _write_out(text: Text, box: str, output: str, group: str, lane: str, box_bytes: int) -> None:
    offset = text.into("b32", "mul.lo.u32", lane, _CHUNK_BYTES)
    source = text.into("b32", "add.u32", box, offset)
    place = text.into("b64", "mad.wide.u32", group, box_bytes, output)
    target = text.into("b64", "add.u64", place, text.into("b64", "cvt.u64.u32", offset))
    for begin in range(0, box_bytes, _LANES * _CHUNK_BYTES):
        words = [text.register("b32") for _ in range(4)]
        listed = f"{{{', '.join(words)}}}"
        text.emit("ld.shared.v4.u32", listed, f"[{source}+{begin}]")
        text.emit("st.global.v4.u32", f"[{target}+{begin}]", listed)
