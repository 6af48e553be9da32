from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from vsepp.data.captioned import CaptionedImage
from vsepp.data.pictures import RANDOM_CROPS, View, draws
from vsepp.loading.images import PicturesInMemory
from vsepp.loading.on_device import PicturesOnDevice, resample

SIZES = [(60, 40), (40, 60), (48, 48), (200, 41), (65, 40), (40, 63)]  # odd ones, too
INDICES = np.array([3, 0, 1, 1, 2, 0, 4, 5])
needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_it_answers_ten_crops_where_the_view_has_ten(pictures):
    ten = PicturesInMemory(pictures.items, replace(pictures.view, crops=10))
    there = PicturesOnDevice.of(ten.items, ten.view, torch.device("cpu"))
    found = there.take(INDICES)
    assert found.shape == (8, 10, 3, 32, 32)
    assert torch.equal(found, ten.take(INDICES))
    assert [len(batch) for batch in there.in_order(40)] == [4, 2]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder, generator = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    items = []
    for number, (width, height) in enumerate(SIZES):
        noise = generator.integers(0, 256, (height // 4, width // 4, 3), dtype=np.uint8)
        file = folder / f"{number}.png"
        Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC).save(file)
        items.append(CaptionedImage(str(number), file, ("a caption",), "train"))
    return PicturesInMemory(items, View(size=32, resize=40))


@pytest.fixture(scope="module")
def on_device(pictures):
    return PicturesOnDevice.of(pictures.items, pictures.view, torch.device("cpu"))


def test_it_cuts_the_middle_as_pillow_does(pictures, on_device):
    assert len(on_device) == len(pictures)
    assert torch.equal(on_device.take(INDICES), pictures.take(INDICES))
    for ours, expected in zip(on_device.in_order(3), pictures.in_order(3), strict=True):
        assert torch.equal(ours, expected)


def test_it_cuts_the_papers_random_crops_as_pillow_does(pictures, on_device):
    drawn = draws("random", len(INDICES), (0,))
    ours, expected = (kind.take(INDICES, "random", drawn) for kind in (on_device, pictures))
    assert torch.equal(ours, expected)


def test_it_scales_the_releases_random_crops_as_pillow_does(pictures, on_device):
    for seed in range(20):
        drawn = draws("random_resized", len(INDICES), (seed,))
        ours, expected = (
            kind.take(INDICES, "random_resized", drawn) for kind in (on_device, pictures)
        )
        # Pillow rounds twice: after the rows, and after the columns
        assert (ours.int() - expected.int()).abs().max() <= 1


def test_both_keep_to_the_least_area(pictures):
    drawn = draws("random_resized", len(INDICES), (0,))

    def cut(least_area):
        view = replace(pictures.view, size=16, least_area=least_area)
        decoded = PicturesInMemory(pictures.items, view)
        both = decoded, PicturesOnDevice.of(decoded.items, view, torch.device("cpu"))
        return [kind.take(INDICES, "random_resized", drawn) for kind in both]

    expected, ours = cut(least_area=0.9)
    assert ours.shape == (len(INDICES), 3, 16, 16)
    assert (ours.int() - expected.int()).abs().max() <= 1
    assert not torch.equal(ours, cut(least_area=0.1)[1])


@pytest.fixture(scope="module")
def originals(pictures):
    view = replace(pictures.view, crop_from="original")
    decoded = PicturesInMemory(pictures.items, view)
    return decoded, PicturesOnDevice.of(pictures.items, view, torch.device("cpu"), decoded)


def test_it_cuts_originals_first_and_scales_the_crops_then(originals):
    decoded, there = originals
    for seed in range(20):
        drawn = draws("random_resized", len(INDICES), (seed,))
        ours, expected = (kind.take(INDICES, "random_resized", drawn) for kind in (there, decoded))
        assert (ours.int() - expected.int()).abs().max() <= 1
    resized = replace(there.view, crop_from="resized")
    other = PicturesInMemory(decoded.items, resized).take(INDICES, "random_resized", drawn)
    assert (ours.int() - other.int()).abs().max() > 20


def test_all_other_crops_are_those_of_resized_pictures(originals, pictures):
    _, there = originals
    assert torch.equal(there.take(INDICES), pictures.take(INDICES))
    drawn = draws("random", len(INDICES), (0,))
    assert torch.equal(
        there.take(INDICES, "random", drawn), pictures.take(INDICES, "random", drawn)
    )


@needs_a_gpu
def test_a_gpu_cuts_originals_the_same(originals):
    decoded, on_cpu = originals
    there = decoded.near(torch.device("cuda"))
    assert isinstance(there, PicturesOnDevice)
    for seed in range(20):
        drawn = draws("random_resized", len(INDICES), (seed,))
        ours, expected = (kind.take(INDICES, "random_resized", drawn) for kind in (there, on_cpu))
        assert (ours.cpu().int() - expected.int()).abs().max() <= 1


@needs_a_gpu
@pytest.mark.parametrize("crop", RANDOM_CROPS)
def test_a_gpu_cuts_the_same(pictures, on_device, crop):
    there = PicturesOnDevice.of(pictures.items, pictures.view, torch.device("cuda"))
    assert torch.equal(there.take(INDICES).cpu(), on_device.take(INDICES))
    for seed in range(20):
        drawn = draws(crop, len(INDICES), (seed,))
        ours = there.take(INDICES, crop, drawn)
        assert ours.is_contiguous(memory_format=torch.channels_last)
        difference = ours.cpu().int() - on_device.take(INDICES, crop, drawn).int()
        assert difference.abs().max() <= (0 if crop == "random" else 1)


def test_a_box_of_one_colour_stays_so():
    pixels = torch.full((50 * 30, 3), 77, dtype=torch.uint8)
    box = torch.tensor([[5, 3, 41, 20, 1]])
    assert (resample(pixels, torch.tensor([[0, 50, 30]]), box, 16) == 77).all()
