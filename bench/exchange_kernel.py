"""A kernel around an exchange: one CTA loads a tile as the source holds it, exchanges, and stores it as the destination
does.

Tests compare the array that comes out with the one that went in, and `bench.conversions` times it: with a plan for the
way back, the tile goes there and back `repeat` times before, and no assembler can leave that out: it may fold how words
are packed at the end of one exchange and unpacked at the beginning of the next, unless the next stands in another
iteration of the loop; `trips` is how many stand in its body. There and back have memory of their own, so that one
barrier between store and load is enough: a thread stores again only after the other exchange's barrier, which every
thread reached after its loads. Where the other has none of that scope there is one more at the end of a trip.

In global memory elements stand in the order of the layouts' packed outputs, the first output's places next to each
other. Not handled: plans back that need other memory than the plan there. Who checks:
tests/lower/exchange/test_steps.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.exchange import ExchangePlan, Stage
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.numbers import bit_matrix
from tilewright.lower.exchange.steps import emit, prepare
from tilewright.lower.exchange.words import Ready, linear_bytes
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.module_head import module_head

_ALIGN_BYTES = 128
_MOST_REGISTERS, _REGISTERS = 255, 1 << 16
"""Of a thread, and of a multiprocessor (CUDA C++ Programming Guide, compute capabilities)."""
ENTRY = "exchange"


def exchange_kernel_text(
    source: LinearLayout,
    destination: LinearLayout,
    plan: ExchangePlan,
    back: ExchangePlan | None = None,
    *,
    trips: int = 1,
    target: str = "sm_90a",
) -> str:
    """PTX of kernel `exchange`, of `plan.warps` warps. Parameters: pointers of the array in and of the array out; with
    `back`, a plan from destination to source, also the number of times (u32) that the tile goes `trips` times there and
    back first. Dynamic shared memory: `exchange_kernel_smem_bytes(plan, back)`."""
    text = Text()
    parameters = ["\t.param .u64 tile_in", "\t.param .u64 tile_out"]
    if back is not None:
        parameters.append("\t.param .u32 repeat")
    shared = exchange_kernel_smem_bytes(plan, back)
    thread = text.into("b32", "mov.u32", "%tid.x")
    memory = text.into("b32", "mov.u32", "exchange_smem") if shared else thread
    words = _global_load(text, source, plan.element_bytes, thread)
    there = prepare(text, plan, thread, memory)
    if back is not None:
        memory_back = text.into("b32", "add.u32", memory, _rounded(plan.shared_bytes)) if shared else thread
        words = _round_trips(text, there, prepare(text, back, thread, memory_back), words, trips)
    _global_store(text, destination, plan.element_bytes, thread, emit(there, words))
    return _entry(text, parameters, plan.warps, shared, target)


def memory_kernel_text(source: LinearLayout, store: ExchangePlan, *, target: str = "sm_90a") -> str:
    """PTX of kernel `exchange`, which brings a tile from the source's registers by `store` to shared memory, and that
    memory, after a barrier, word by word to the array out. Parameters: pointers of the array in and of the array out.
    Dynamic shared memory: `store.shared_bytes`."""
    text = Text()
    thread = text.into("b32", "mov.u32", "%tid.x")
    memory = text.into("b32", "mov.u32", "exchange_smem")
    words = _global_load(text, source, store.element_bytes, thread)
    emit(prepare(text, store, thread, memory), words)
    text.emit("bar.sync", 0)
    pointer = text.into("b64", "cvta.to.global.u64", text.into("b64", "ld.param.u64", "[tile_out]"))
    out = text.into("b64", "mad.wide.u32", thread, 4, pointer)
    place = text.into("b32", "mad.lo.u32", thread, 4, memory)
    for begin in range(0, store.shared_bytes, 4 * 32 * store.warps):
        text.emit("st.global.b32", f"[{out}+{begin}]", text.into("b32", "ld.shared.b32", f"[{place}+{begin}]"))
    parameters = ["\t.param .u64 tile_in", "\t.param .u64 tile_out"]
    return _entry(text, parameters, store.warps, store.shared_bytes, target)


def _entry(text: Text, parameters: Sequence[str], warps: int, shared: int, target: str) -> str:
    text.emit("ret")
    head = module_head(target)
    if shared:
        head += [f".extern .shared .align {_ALIGN_BYTES} .b8 exchange_smem[];", ""]
    head += [f".visible .entry {ENTRY}(", ",\n".join(parameters), ")", f".reqntid {32 * warps}, 1, 1"]
    # The assembler else saves registers, of which a CTA alone has plenty, and makes instructions wait for each other.
    head.append(f".maxnreg {min(_MOST_REGISTERS, _REGISTERS // (32 * warps))}")
    return "\n".join([*head, "{", *text.declarations(), "", *text.lines, "}", ""])


def exchange_kernel_smem_bytes(plan: ExchangePlan, back: ExchangePlan | None = None) -> int:
    """Dynamic shared memory that the kernel is launched with."""
    return _rounded(plan.shared_bytes) + (0 if back is None else _rounded(back.shared_bytes))


def _rounded(size: int) -> int:
    return -(-size // _ALIGN_BYTES) * _ALIGN_BYTES


def _round_trips(text: Text, there: Ready, back: Ready, words: Sequence[str], trips: int) -> list[str]:
    count = text.into("b32", "ld.param.u32", "[repeat]")
    carried = [text.into("b32", "mov.b32", each) for each in words]
    begin, end = text.label("round"), text.label("rounds_end")
    text.emit("bra", end, guard=text.into("pred", "setp.eq.u32", count, 0))
    text.place(begin)
    moved = carried
    for _ in range(trips):
        moved = emit(back, emit(there, moved))
        _meet(text, there.plan, back.plan)
    for kept, each in zip(carried, moved, strict=True):
        text.emit("mov.b32", kept, each)
    text.emit("sub.u32", count, count, 1)
    text.emit("bra", begin, guard=text.into("pred", "setp.ne.u32", count, 0))
    text.place(end)
    return carried


def _meet(text: Text, there: ExchangePlan, back: ExchangePlan) -> None:
    """Waits for the threads that load what a plan's next stores overwrite, unless the other plan waits for them."""
    scopes = {_scope(there), _scope(back)}
    if "block" in scopes and len(scopes) == 2:
        text.emit("bar.sync", 0)
    elif scopes == {"warp", ""}:
        text.emit("bar.warp.sync", -1)


def _scope(plan: ExchangePlan) -> str:
    """Who waits for each other in the plan's trip through memory: those of a block, of a warp, or none."""
    return next((step.scope for step in plan.steps if isinstance(step, Stage)), "")


def _global_load(text: Text, layout: LinearLayout, element_bytes: int, thread: str) -> list[str]:
    base, constants = _global_place(text, layout, element_bytes, thread, "tile_in")
    per_word = 4 // element_bytes
    words: list[str] = []
    for begin in range(0, len(constants), per_word):
        word = ""
        for place, constant in enumerate(constants[begin : begin + per_word]):
            part = text.into("b32", f"ld.global.u{8 * element_bytes}", f"[{_turned(text, base, constant)}]")
            if place:
                part = text.into("b32", "shl.b32", part, 8 * element_bytes * place)
                part = text.into("b32", "or.b32", word, part)
            word = part
        words.append(word)
    return words


def _global_store(text: Text, layout: LinearLayout, element_bytes: int, thread: str, words: Sequence[str]) -> None:
    """Each element once: by lanes and warps with 0 in the bits that repeat."""
    base, constants = _global_place(text, layout, element_bytes, thread, "tile_out")
    registers, lanes, warps = _columns(layout)
    repeated = {each.bit_length() - 1 for each in bit_matrix.kernel((*registers, *lanes, *warps))}
    idle = sum([1 << at for at in range(len(lanes) + len(warps)) if len(registers) + at in repeated])
    skipped = sum([1 << at for at in range(len(registers)) if at in repeated])
    guard = ""
    if idle:
        guard = text.into("pred", "setp.eq.u32", text.into("b32", "and.b32", thread, idle), 0)
    per_word = 4 // element_bytes
    for number, constant in enumerate(constants):
        if number & skipped:
            continue
        part, place = words[number // per_word], number % per_word
        if place:
            part = text.into("b32", "shr.u32", part, 8 * element_bytes * place)
        text.emit(f"st.global.b{8 * element_bytes}", f"[{_turned(text, base, constant)}]", part, guard=guard)


def _global_place(
    text: Text, layout: LinearLayout, element_bytes: int, thread: str, parameter: str
) -> tuple[tuple[str, str], list[int]]:
    """The array's pointer and the thread's offset; each element's bytes to XOR to that."""
    registers, lanes, warps = _columns(layout)
    pointer = text.into("b64", "cvta.to.global.u64", text.into("b64", "ld.param.u64", f"[{parameter}]"))
    offset = linear_bytes(text, thread, [each * element_bytes for each in (*lanes, *warps)])
    constants = [bit_matrix.apply(registers, number) * element_bytes for number in range(1 << len(registers))]
    return (pointer, offset), constants


def _turned(text: Text, base: tuple[str, str], constant: int) -> str:
    pointer, offset = base
    turned = text.into("b32", "xor.b32", offset, constant)
    return text.into("b64", "add.u64", pointer, text.into("b64", "cvt.u64.u32", turned))


def _columns(layout: LinearLayout) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    at = 0
    for name, bits in layout.input_bits:
        found[name] = layout.columns[at : at + bits]
        at += bits
    return found.get("register", ()), found.get("lane", ()), found.get("warp", ())
