import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms

from vsepp.data.pictures import (
    View,
    center_crop,
    draws,
    open_picture,
    random_crops,
    shrink,
    squeeze,
    ten_crops,
)
from vsepp.errors import WorkFailed


def gradient(width, height):
    """Red grows to the right, green downwards."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, np.zeros_like(x)], axis=-1).astype(np.uint8))


def test_center_crop_takes_the_middle():
    pixels = center_crop(gradient(101, 51), 51)
    assert pixels.shape == (3, 51, 51)
    assert pixels[0, 25, 25] == pytest.approx(127, abs=2)
    assert pixels[1, 25, 25] == pytest.approx(127, abs=2)


def test_ten_crops_are_corners_middle_and_their_mirror_images():
    picture = gradient(101, 51)
    crops = ten_crops(picture, 31)
    whole = np.asarray(picture).transpose(2, 0, 1)
    corners = [whole[:, y : y + 31, x : x + 31] for y in (0, 20) for x in (0, 70)]
    assert crops.shape == (10, 3, 31, 31)
    assert np.array_equal(crops[:4], corners)
    assert np.array_equal(crops[4], center_crop(picture, 31))
    assert np.array_equal(crops[5:], crops[:5, :, :, ::-1])


def test_the_papers_random_crop_is_a_square_of_the_picture():
    picture = gradient(60, 40)
    whole = np.asarray(picture).transpose(2, 0, 1)
    lefts, tops = set(), set()
    for crop in random_crops([picture] * 300, 32, "random", draws("random", 300, (0,))):
        left = int(np.flatnonzero(whole[0, 0] == crop[0, 0, 0])[0])
        top = int(np.flatnonzero(whole[1, :, 0] == crop[1, 0, 0])[0])
        assert np.array_equal(crop, whole[:, top : top + 32, left : left + 32])
        lefts.add(left)
        tops.add(top)
    assert (min(lefts), max(lefts)) == (0, 28)
    assert (min(tops), max(tops)) == (0, 8)


def test_a_squeezed_picture_shows_all_of_it():
    pixels = np.asarray(squeeze(gradient(400, 100), 50))
    assert pixels.shape == (50, 50, 3)
    assert pixels[0, 0, 0] < 10
    assert pixels[0, -1, 0] > 245
    view = View(size=40, resize=50, square=True)
    assert view.resized(gradient(400, 100)).size == (50, 50)
    assert View(size=40, resize=50, crops=10).cut(gradient(60, 50)).shape == (10, 3, 40, 40)


def test_shrink_measures_the_short_side():
    assert shrink(gradient(400, 200), 50).size == (100, 50)
    assert shrink(gradient(200, 400), 50).size == (50, 100)
    assert shrink(gradient(30, 20), 40).size == (60, 40)


def test_a_panorama_is_cut_to_its_middle():
    assert shrink(gradient(5000, 2), 100).size == (400, 100)


@given(st.integers(1, 400), st.integers(1, 400), st.integers(8, 64), st.integers(0, 30))
def test_resizing_and_the_middle_are_torchvisions(width, height, size, border):
    assume(max(width, height) <= 4 * min(width, height))  # longer ones are cut first
    picture = gradient(width, height)
    resized = shrink(picture, size + border)
    expected = transforms.Resize(size + border)(picture)
    assert resized.size == expected.size
    assert np.array_equal(resized, expected)
    middle = np.asarray(transforms.CenterCrop(size)(expected)).transpose(2, 0, 1)
    assert np.array_equal(center_crop(resized, size), middle)


def test_five_of_the_ten_crops_are_torchvisions():
    for width, height in ((101, 51), (52, 77), (51, 51)):
        picture = gradient(width, height)
        expected = np.stack([np.asarray(crop) for crop in transforms.FiveCrop(32)(picture)])
        assert np.array_equal(ten_crops(picture, 32)[:5], expected.transpose(0, 3, 1, 2))


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 99))
def test_every_size_of_picture_gives_crops_of_one_size(width, height, seed):
    picture = shrink(Image.new("RGB", (width, height), "red"), 32)
    drawn = draws("random_resized", 1, (seed,))
    (random,) = random_crops([picture], 24, "random_resized", drawn)
    for pixels in (center_crop(picture, 24), random):
        assert pixels.shape == (3, 24, 24)
        assert pixels.dtype == np.uint8
        assert (pixels == np.array([255, 0, 0]).reshape(3, 1, 1)).all()


def test_half_of_the_random_crops_are_flipped():
    drawn = draws("random_resized", 400, (0,))
    crops = random_crops([gradient(64, 64)] * 400, 8, "random_resized", drawn)
    flipped = sum(crop[0, 0, 0] > crop[0, 0, -1] for crop in crops)
    assert 160 < flipped < 240


def test_large_jpegs_are_decoded_small(tmp_path):
    gradient(1600, 1200).save(tmp_path / "big.jpg")
    assert open_picture(tmp_path / "big.jpg", 100).size == (200, 150)


def test_orientation_is_honoured(tmp_path):
    picture = gradient(60, 40)
    exif = picture.getexif()
    exif[0x0112] = 6  # turned by 90 degrees
    picture.save(tmp_path / "turned.jpg", exif=exif)
    assert open_picture(tmp_path / "turned.jpg", 40).size == (40, 60)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "CMYK", "1"])
def test_every_mode_becomes_rgb(mode, tmp_path):
    file = tmp_path / ("picture.jpg" if mode == "CMYK" else "picture.png")
    Image.new("RGB", (20, 20), "white").convert(mode).save(file)
    picture = open_picture(file, 20)
    assert picture.mode == "RGB"
    assert min(picture.getpixel((10, 10))) > 250


def test_sixteen_bits_of_grey_are_scaled_not_cut(tmp_path):
    grey = np.full((20, 20), 128 * 256, dtype=np.uint16)
    Image.fromarray(grey).save(tmp_path / "deep.png")
    assert open_picture(tmp_path / "deep.png", 20).getpixel((3, 3)) == (128, 128, 128)


def test_a_picture_in_ones_hands_stays_as_it_is(tmp_path):
    gradient(1600, 1200).save(tmp_path / "big.jpg")
    with Image.open(tmp_path / "big.jpg") as mine:
        open_picture(mine, 100)
        assert mine.size == (1600, 1200)


@pytest.mark.parametrize("content", [b"", b"no picture", None])
def test_a_broken_picture_is_named(content, tmp_path):
    file = tmp_path / "broken.jpg"
    if content is None:  # cut off in the middle
        gradient(300, 300).save(file)
        content = file.read_bytes()[:2000]
    file.write_bytes(content)
    with pytest.raises(WorkFailed, match=r"broken\.jpg cannot be read as an image"):
        open_picture(file, 100)


def test_transparency_becomes_white(tmp_path):
    Image.new("RGBA", (8, 8), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert open_picture(tmp_path / "clear.png", 8).getpixel((4, 4)) == (255, 255, 255)
