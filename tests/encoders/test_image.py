"""Fine-tuning with fixed statistics: what stands still, and what does not."""

import pytest
import timm
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from vsepp.encoders.backbones import Backbone, backbone
from vsepp.encoders.joint import ImageEncoder

RANDOM = {"drop_rate": 0.5, "drop_path_rate": 0.5}


def encoder_of(net, num_features=None):
    scaling = (0.5,) * 3, (0.5,) * 3
    net = net if num_features is None else Backbone(net, num_features, *scaling)
    return ImageEncoder(net, 8, finetune=True, fixed_statistics=True)


def pictures(size, number=2):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (number, 3, size, size), dtype=torch.uint8, generator=generator)


def results(encoder, images):
    encoder.zero_grad()
    vectors = encoder(images)
    vectors.sum().backward()
    return [vectors.detach(), *(weight.grad.clone() for weight in encoder.parameters())]


def moved(encoder, images):
    optimizer = torch.optim.SGD(encoder.parameters(), lr=1e-2)
    results(encoder, images)
    optimizer.step()


@pytest.mark.parametrize("drops", [{}, RANDOM], ids=["as it is", "with everything that drops"])
def test_an_efficient_net_learns_as_if_it_were_in_eval_mode_bit_by_bit(drops):
    torch.manual_seed(0)
    net = timm.create_model("tf_efficientnet_lite0", num_classes=0, **drops)
    encoder, images = encoder_of(net, net.num_features), pictures(32)
    ours = results(encoder.train(), images)
    assert net.blocks.training  # it is not
    encoder.backbone.eval()
    expected = results(encoder, images)
    assert len(ours) > 100
    assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))


def test_statistics_stay_and_weights_move():
    torch.manual_seed(0)
    encoder = encoder_of(backbone("small"))
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    moved(encoder.train(), pictures(32, number=8))
    stayed = {n for n, t in encoder.state_dict().items() if torch.equal(t, before[n])}
    assert stayed == {name for name in before if "running" in name or "num_batches" in name}
    assert not any(m.training for m in encoder.modules() if isinstance(m, nn.BatchNorm2d))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny_vit_5m_224", "levit_128s"])
def test_nets_that_keep_attention_biases_in_eval_mode_can_be_trained(name):
    """Step after step, and on after a validation; what they keep never has a graph."""
    torch.manual_seed(0)
    encoder, images = encoder_of(backbone(name)), pictures(224)
    steps = 0
    for _ in range(2):
        encoder.train()
        for _ in range(2):
            moved(encoder, images)
            steps += 1
        encoder.eval()
        with torch.inference_mode():
            assert encoder(images).isfinite().all()
    assert steps == 4


@pytest.mark.slow
def test_such_a_net_is_compiled_once():
    """A second step that had to compile again could not be recorded as a CUDA graph."""
    torch.manual_seed(0)
    encoder, images, compiled = (
        encoder_of(backbone("tiny_vit_5m_224")),
        pictures(224),
        CompileCounter(),
    )
    net = torch.compile(encoder.backbone, backend=compiled, dynamic=False)
    frames = []
    for _ in range(2):
        encoder.train()
        for _ in range(2):
            net(images).sum().backward()
            frames.append(compiled.frame_count)
        encoder.eval()
    torch._dynamo.reset()
    assert frames == 4 * frames[:1]
