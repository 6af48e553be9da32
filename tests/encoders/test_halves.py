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
    "test_vit+mean": "blocks.4",
}
SIZES = {"tiny_vit_5m_224": 224, "vit_small_patch14_dinov2": 56, "test_vit+mean": 160}


def pictures(size, number=2):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (number, 3, size, size), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("name", CUTS)
def test_both_parts_in_a_row_are_the_net(name):
    size = SIZES.get(name, 64)
    net = backbone(name, "none", size).eval()
    first, second = cut_before(net.net, CUTS[name], size)
    with torch.no_grad():
        maps = first.eval()(net.scaled(pictures(size)))
        assert maps.dim() == (3 if "blocks" in CUTS[name] and "vit" in name else 4)
        assert torch.allclose(second.eval()(maps), net(pictures(size)), atol=1e-5)
    shared = {id(weight) for part in (first, second) for weight in part.parameters()}
    assert shared == {id(weight) for weight in net.parameters()}


def gradients(encoder, inputs):
    """Of the weights that have one."""
    encoder.train().zero_grad()
    encoder(inputs).sum().backward()
    weights = dict(encoder.named_parameters())
    assert all(weight.requires_grad or weight.grad is None for weight in weights.values())
    return {n: weight.grad.clone() for n, weight in weights.items() if weight.grad is not None}


@pytest.mark.parametrize(
    ("name", "learned"),
    [
        ("resnet18", ("layer4",)),
        ("test_vit", ("blocks.4", "blocks.5", "net.norm.")),
        ("test_vit+mean", ("blocks.4", "blocks.5", "net.norm.")),
    ],
)
def test_only_the_second_part_learns_from_pixels_and_from_maps_alike(name, learned):
    torch.manual_seed(0)
    size = 64 if name == "resnet18" else 160
    net = backbone(name, "none", size)
    keys = {"finetune": True, "fixed_statistics": True, "finetune_from": learned[0], "size": size}
    encoder = ImageEncoder(net, 8, **keys)
    images = pictures(size)
    expected = gradients(encoder, images)
    parts = *learned, "linear"
    assert expected.keys() == {
        n for n, _ in encoder.named_parameters() if any(part in n for part in parts)
    }
    with torch.no_grad():
        maps = cut_before(net.net, learned[0], size)[0].eval()(net.scaled(images))
    ours = gradients(encoder, maps)
    assert ours.keys() == expected.keys()
    assert all(torch.allclose(ours[n], expected[n], atol=1e-6) for n in expected)


@pytest.mark.parametrize("name", ["stages.3", "layer4.7", "layer2.0.conv2"])
def test_a_place_where_a_net_cannot_be_cut_is_refused(name):
    net = backbone("resnet18", "none", 64)
    with pytest.raises(WrongRequest, match="cannot be cut before"):
        cut_before(net.net, name, 64)
