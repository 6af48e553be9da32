import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.data.pictures import RANDOM_CROPS, draws, random_boxes


def boxes_of(crop, width, height, count=1, seed=0, size=32):
    sizes = np.full(count, width), np.full(count, height)
    return random_boxes(crop, size, *sizes, draws(crop, count, (seed,)))


@pytest.mark.parametrize("crop", RANDOM_CROPS)
@given(width=st.integers(32, 200), height=st.integers(32, 200), seed=st.integers(0, 999))
def test_boxes_lie_within_their_pictures(crop, width, height, seed):
    boxes = boxes_of(crop, width, height, 5, seed)
    assert (boxes.left >= 0).all()
    assert (boxes.top >= 0).all()
    assert (boxes.width > 0).all()
    assert (boxes.left + boxes.width <= width).all()
    assert (boxes.top + boxes.height <= height).all()


def test_the_papers_boxes_are_squares_of_the_crops_size():
    boxes = boxes_of("random", 60, 40, 500)
    assert (boxes.width == 32).all()
    assert (boxes.height == 32).all()
    assert not boxes.flipped.any()
    assert set(boxes.left) == set(range(29))
    assert set(boxes.top) == set(range(9))


def test_the_releases_boxes_have_its_areas_and_ratios():
    boxes = boxes_of("random_resized", 400, 400, 4000)
    areas = boxes.width * boxes.height / 400**2
    ratios = boxes.width / boxes.height
    assert (areas.min(), areas.max()) == pytest.approx((0.08, 1.0), abs=0.02)
    # the largest boxes fit only where they are nearly square, so the mean is below the middle
    assert 0.45 < areas.mean() < 0.54
    assert (ratios.min(), ratios.max()) == pytest.approx((3 / 4, 4 / 3), rel=0.02)
    assert np.exp(np.log(ratios).mean()) == pytest.approx(1, abs=0.02)
    assert boxes.flipped.mean() == pytest.approx(0.5, abs=0.03)


def test_the_least_area_is_a_choice():
    drawn = draws("random_resized", 2000, (0,))
    sides = np.full(2000, 400)
    boxes = random_boxes("random_resized", 32, sides, sides, drawn, least_area=0.5)
    areas = boxes.width * boxes.height / 400**2
    assert (areas.min(), areas.max()) == pytest.approx((0.5, 1.0), abs=0.02)


def test_a_strip_without_room_for_any_trial_gives_its_middle_square():
    boxes = boxes_of("random_resized", 2000, 32, 3)
    assert boxes.width.tolist() == boxes.height.tolist() == [32] * 3
    assert boxes.left.tolist() == [984] * 3
    assert boxes.top.tolist() == [0] * 3


def test_draws_repeat_with_their_seeds_and_differ_without():
    first, again, other = (draws("random", 9, seeds) for seeds in ((1, 2), (1, 2), (1, 3)))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
