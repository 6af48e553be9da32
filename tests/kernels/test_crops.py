import numpy as np
import pytest
import torch

from vsepp.kernels.crops import cut
from vsepp.loading.on_device import resample

SIZES = np.array([(60, 40), (40, 60), (90, 41)])
BOXES = [
    [[3, 4, 50, 30, 1], [0, 0, 40, 60, 0], [10, 2, 24, 24, 1]],  # smaller, smaller, as it is
    [[8, 9, 12, 7, 0], [20, 40, 20, 20, 1], [0, 0, 90, 41, 0]],  # larger, larger, all of it
]


@pytest.mark.parametrize("boxes", BOXES)
@pytest.mark.parametrize("size", [16, 24])
@pytest.mark.parametrize("cut_first", [False, True])
def test_it_scales_as_the_plain_code_does(boxes, size, cut_first, device):
    generator = torch.Generator().manual_seed(0)
    areas = SIZES.prod(axis=1)
    shape = int(areas.sum()), 3
    pixels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator).to(device)
    places = torch.from_numpy(np.column_stack([np.cumsum(areas) - areas, SIZES])).to(device)
    boxes = torch.tensor(boxes, device=device)
    ours, expected = (way(pixels, places, boxes, size, cut_first) for way in (cut, resample))
    assert ours.shape == (3, 3, size, size)
    assert ours.is_contiguous(memory_format=torch.channels_last)
    assert (ours.int() - expected.int()).abs().max() <= 1
    assert (ours != expected).float().mean() < 0.01
