"""A net cut in two: its parts in a row are the net, and only the second one learns."""

import pytest
import torch

from vsepp.encoders.backbones import backbone
from vsepp.encoders.halves import cut_before
from vsepp.encoders.joint import ImageEncoder
from vsepp.errors import WrongRequest

CUTS = {
    "resnet18": "layer4",
    "tf_efficientnet_lite0": "blocks.6",
    "tiny_vit_5m_224": "stages.3",
    "vit_small_patch14_dinov2": "blocks.8",
}


def pictures(size, number=2):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (number, 3, size, size), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("name", CUTS)
def test_both_parts_in_a_row_are_the_net(name):
    size = {"tiny_vit_5m_224": 224, "vit_small_patch14_dinov2": 56}.get(name, 64)
    net = backbone(name, "none", size).eval()
    first, second = cut_before(net.net, CUTS[name], size)
    with torch.no_grad():
        maps = first.eval()(net.scaled(pictures(size)))
        assert maps.dim() == (3 if "patch14" in name else 4)
        assert torch.allclose(second.eval()(maps), net(pictures(size)), atol=1e-5)
    shared = {id(weight) for part in (first, second) for weight in part.parameters()}
    assert shared == {id(weight) for weight in net.parameters()}


def test_only_the_second_part_learns_from_pixels_and_from_maps_alike():
    torch.manual_seed(0)
    net = backbone("resnet18", "none", 64)
    keys = {"finetune": True, "fixed_statistics": True, "finetune_from": "layer4", "size": 64}
    encoder = ImageEncoder(net, 8, **keys).train()
    learns = {name for name, weight in encoder.named_parameters() if weight.requires_grad}
    assert learns == {n for n, _ in encoder.named_parameters() if "layer4" in n or "linear" in n}
    images = pictures(64)
    encoder(images).sum().backward()
    expected = [weight.grad.clone() for weight in encoder.parameters() if weight.requires_grad]
    with torch.no_grad():
        maps = cut_before(net.net, "layer4", 64)[0].eval()(net.scaled(images))
    encoder.train().zero_grad()
    encoder(maps).sum().backward()
    ours = [weight.grad for weight in encoder.parameters() if weight.requires_grad]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours, expected, strict=True))
    assert all(weight.grad is None for weight in encoder.parameters() if not weight.requires_grad)


@pytest.mark.parametrize("name", ["stages.3", "layer4.7", "layer2.0.conv2"])
def test_a_place_where_a_net_cannot_be_cut_is_refused(name):
    net = backbone("resnet18", "none", 64)
    with pytest.raises(WrongRequest, match="cannot be cut before"):
        cut_before(net.net, name, 64)
