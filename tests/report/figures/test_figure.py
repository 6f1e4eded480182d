"""Figures: well-formed, in proportion, inside their frame, whatever the values."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from tilewright.report.figures.figure import Bar, Figure, Lane, LaneChart, MemoryMap, Region, draw


def rectangles(figure: Figure) -> list[tuple[str, float, float]]:
    """Tooltip, left edge and width of every bar; the whole is parsed as XML."""
    root = ElementTree.fromstring(draw(figure))
    width = float(root.attrib["viewBox"].split()[2])
    found: list[tuple[str, float, float]] = []
    for group in root.iter("g"):
        title, rectangle = group.find("title"), group.find("rect")
        assert title is not None and rectangle is not None
        begin, extent = float(rectangle.attrib["x"]), float(rectangle.attrib["width"])
        assert begin >= 0 and begin + extent <= width + 0.1
        found.append((title.text or "", begin, extent))
    return found


def test_a_memory_map_is_in_proportion() -> None:
    regions = (Region("a", "slot 0", 0, 16384, 0), Region("b", "slot 0", 16384, 49152, 1))
    (_, _, first), (detail, begin, second) = rectangles(MemoryMap("m", 65536, regions))
    assert abs((second + 1) / (first + 1) - 2) < 0.01
    assert begin > first and "bytes 16384 to 49151 (32768 bytes)" in detail


def test_a_map_can_begin_anywhere() -> None:
    regions = tuple(Region("ring", f"full[{i}]", 229376 + 8 * i, 229384 + 8 * i, 4) for i in range(4))
    svg = draw(MemoryMap("m", 229408, regions, "", 229376))
    assert "full[3]" in svg and "229392" in svg


def test_labels_are_text_not_markup() -> None:
    svg = draw(LaneChart("<t>&\"'", "<u>", (Lane("<l>", (Bar(0, 9, "<b>", 0, "<d>"),)),), ("<e>",)))
    root = ElementTree.fromstring(svg)
    assert root.attrib["aria-label"] == "<t>&\"'"
    assert {"<u>", "<l>", "<b>", "<d>", "<e>"} <= set(root.itertext())


bars = st.builds(
    lambda begin, extent, kind: Bar(begin, begin + extent, "x", kind),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.integers(0, 20),
)


@given(st.lists(st.lists(bars, max_size=5), max_size=4))
def test_charts_of_anything_stay_in_their_frame(lanes: list[list[Bar]]) -> None:
    chart = LaneChart("t", "events", tuple(Lane(f"l{i}", tuple(found)) for i, found in enumerate(lanes)), ("a", "b"))
    assert len(rectangles(chart)) == sum(map(len, lanes))


@given(st.integers(1, 300_000), st.lists(st.tuples(st.integers(0, 299_999), st.integers(1, 9999)), max_size=8))
def test_maps_of_anything_stay_in_their_frame(total: int, pieces: list[tuple[int, int]]) -> None:
    regions = tuple(
        Region("r", "x", begin % total, min(total, begin % total + size), kind)
        for kind, (begin, size) in enumerate(pieces)
    )
    assert len(rectangles(MemoryMap("m", total, regions))) == len(regions)
