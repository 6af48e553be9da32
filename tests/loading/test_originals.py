import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import functional

from vsepp.data.captioned import CaptionedImage
from vsepp.data.pictures import View, draws, open_picture, random_boxes
from vsepp.loading.images import PicturesInMemory
from vsepp.loading.originals import Original

SIZE = 32
VIEW = View(size=SIZE, resize=40, crop_from="original")


def scene(width, height):
    """Soft blots, as photos have them."""
    noise = np.random.default_rng(width).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


def saved(folder, picture, name, **more):
    picture.save(folder / name, **more)
    return CaptionedImage(name, folder / name, ("a caption",), "train")


def as_torchvision(item, boxes, row):
    """What RandomResizedCrop and RandomHorizontalFlip make of the file, had they drawn this box."""
    picture = open_picture(item.path, 10**6)
    left, top, right, bottom = boxes.edges(row)
    crop = functional.resized_crop(
        picture, top, left, bottom - top, right - left, [SIZE, SIZE], antialias=True
    )
    crop = functional.hflip(crop) if boxes.flipped[row] else crop
    return torch.from_numpy(np.asarray(crop).transpose(2, 0, 1).copy())


@pytest.mark.parametrize("memory", [0, 10**8])
@pytest.mark.parametrize("orientation", [1, 6])
def test_crops_are_torchvisions(tmp_path, memory, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    sizes = [(120, 90), (90, 127), (64, 64), (400, 41)]
    items = [saved(tmp_path, scene(*size), f"{n}.jpg", exif=exif) for n, size in enumerate(sizes)]
    indices = np.arange(40) % len(items)
    drawn = draws("random_resized", len(indices), (1, 2, 3))
    pictures = PicturesInMemory(items, VIEW, memory)
    upright = np.array([open_picture(items[i].path, 10**6).size for i in indices])
    boxes = random_boxes("random_resized", SIZE, *upright.T, drawn)
    expected = torch.stack([as_torchvision(items[i], boxes, row) for row, i in enumerate(indices)])
    for _ in range(2):  # the second time, out of memory
        assert torch.equal(pictures.take(indices, "random_resized", drawn), expected)
    assert len(pictures._kept) == (len(items) if memory else 0)


def test_a_large_jpeg_is_decoded_only_as_large_as_the_crop_needs(tmp_path):
    item = saved(tmp_path, scene(1280, 960), "large.jpg", quality=95)
    original = Original.of(item.path)
    assert not original.is_decoded_whole(SIZE)
    for box, expected in (
        ((0, 0, 1280, 960), (160, 120)),  # 960 / 64 = 15: an eighth is JPEG's smallest
        ((100, 100, 500, 500), (320, 240)),  # 400 / 64 = 6.25: a quarter
        ((100, 100, 227, 300), (1280, 960)),
    ):
        assert original.decoded_for(box, SIZE, item.path).size == expected


@pytest.mark.parametrize("orientation", range(1, 9))
def test_crops_of_a_large_jpeg_stay_near_torchvisions(tmp_path, orientation):
    """JPEG's own smaller scales are means of pixels, as the resizing would take them."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    item = saved(tmp_path, scene(641, 481), "large.jpg", quality=95, exif=exif)
    width, height = (481, 641) if orientation > 4 else (641, 481)
    original = Original.of(item.path)
    assert (original.width, original.height) == (width, height)
    pictures = PicturesInMemory([item], VIEW)
    drawn = draws("random_resized", 30, (0,))
    boxes = random_boxes("random_resized", SIZE, np.full(30, width), np.full(30, height), drawn)
    ours = pictures.take(np.zeros(30, dtype=int), "random_resized", drawn)
    expected = torch.stack([as_torchvision(item, boxes, row) for row in range(30)])
    differences = (ours.int() - expected.int()).abs()
    assert differences.max() <= 8
    assert differences.float().mean() < 0.5
    assert not pictures._kept  # which scale is decoded depends on the crop


class Source:
    """A picture that remembers how large it was asked for."""

    def __init__(self, width, height):
        self.sides, self.asked = (width, height), []

    def open(self, short_side):
        self.asked.append(short_side)
        return Image.new("RGB", self.sides)


@settings(deadline=None, max_examples=30)
@given(st.integers(20, 300), st.integers(20, 300))
def test_a_picture_that_is_kept_would_never_be_decoded_smaller(width, height):
    """So crops are the same whether memory had room or not."""
    source, original = Source(width, height), Original(width, height)
    box = (0, 0, width, height)  # the largest crop needs the fewest pixels
    original.decoded_for(box, SIZE, source)
    (short_side,) = source.asked
    assert original.is_decoded_whole(SIZE) == (min(width, height) // short_side < 2)


def test_resized_pictures_are_cut_as_before(tmp_path):
    item = saved(tmp_path, scene(100, 75), "photo.png")
    drawn = draws("random_resized", 4, (0,))
    resized, original = (
        PicturesInMemory([item], View(size=SIZE, resize=40, crop_from=source))
        for source in ("resized", "original")
    )
    crops = [p.take([0, 0, 0, 0], "random_resized", drawn) for p in (resized, original)]
    assert not torch.equal(*crops)
    # the same boxes, up to the rounding of their edges
    assert (crops[0].float() - crops[1].float()).abs().mean() < 20
    assert torch.equal(resized.take([0]), original.take([0]))  # whichever of the two was kept
    drawn = draws("random", 4, (0,))
    assert torch.equal(*(p.take([0, 0, 0, 0], "random", drawn) for p in (resized, original)))
