"""What inputs a profiled program gets."""

import pytest

from tilewright.base.element import Element
from tilewright.base.plan import Buffer
from tilewright.driver.views.profile_runner import main, random_image


def test_images_are_normal_and_no_two_blocks_alike() -> None:
    buffer = Buffer("a", Element.F32, (3, 1 << 20), (1 << 20, 1), "input")
    blocks = random_image(buffer, 1).reshape(3, -1)
    assert abs(float(blocks[0].mean())) < 0.01 and abs(float(blocks[0].std()) - 1) < 0.01
    assert not (blocks[0] == blocks[1]).all() and not (blocks[1] == blocks[2]).all()


def test_the_whole_span_of_a_strided_buffer_is_filled() -> None:
    buffer = Buffer("a", Element.BF16, (4, 3), (8, 1), "input")
    assert random_image(buffer, 0).nbytes == buffer.span_bytes == 2 * (3 * 8 + 3)


def test_a_missing_bundle_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nowhere.twb", "1"]) == 2
    assert "nowhere.twb" in capsys.readouterr().err
