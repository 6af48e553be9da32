import torch

from tests.training.features import pairs_with_features
from vsepp.encoders.backbones import backbone
from vsepp.encoders.image import ImageEncoder
from vsepp.training.material import Crops

CPU = torch.device("cpu")


def test_pixels_keep_the_layout_that_the_crops_come_in(monkeypatch):
    """A GPU's crops have their channels last, and so do a net's convolutions."""
    batches = pairs_with_features().batches(8)
    material = Crops(ImageEncoder(backbone("small"), 4, finetune=True), batches, 2, CPU)
    pixels = torch.randint(256, (16, 5, 5, 3), dtype=torch.uint8).permute(0, 3, 1, 2)
    monkeypatch.setattr(material, "_crops", lambda groups: iter([pixels]))
    next(material.fill(batches.order()[:16], [16]))
    second = material.take(torch.tensor([1]), torch.arange(8))
    assert torch.equal(second, pixels[8:])
    assert second.is_contiguous(memory_format=torch.channels_last)
