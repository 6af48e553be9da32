import numpy as np
import pytest
import torch

from vsepp.encoders.caption import BagOfWords, CaptionEncoder
from vsepp.encoders.recurrence_gpu import fits
from vsepp.training.fast_captions import AtOnce, Padded, StepByStep, captions_for

CPU = torch.device("cpu")


def batch(num_captions=32, num_words=50):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 14, (num_captions,), generator=generator)
    lengths = lengths.sort(descending=True).values.int()
    words = torch.randint(4, num_words, (num_captions, 16), generator=generator).int()
    return words, lengths


def vectors_and_gradients(way, encoder, words, lengths):
    room = int(way.rooms(lengths.cpu().numpy()[None])[0])
    vectors = way.finish(way.begin(words, lengths, room))
    pull = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(1))
    return vectors, torch.autograd.grad(
        vectors, list(encoder.parameters()), pull.to(vectors.device)
    )


@pytest.mark.parametrize("project", [True, False])
def test_both_ways_of_a_cpu_are_the_encoder(project):
    encoder = CaptionEncoder(50, 16, 8, project=project)
    words, lengths = batch()
    expected = encoder(words, lengths)
    for way in (StepByStep(encoder), Padded(encoder, "float32")):
        vectors, gradients = vectors_and_gradients(way, encoder, words, lengths)
        pull = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(1))
        theirs = torch.autograd.grad(expected, list(encoder.parameters()), pull, retain_graph=True)
        torch.testing.assert_close(vectors, expected)
        torch.testing.assert_close(gradients, theirs)


@pytest.mark.skipif(
    not torch.cuda.is_available() or not fits(torch.device("cuda"), 32, 512),
    reason="needs a Hopper GPU",
)
def test_all_three_ways_agree_on_a_gpu():
    torch.manual_seed(0)
    encoder = CaptionEncoder(50, 512, 300).cuda()
    words, lengths = (part.cuda() for part in batch())
    ways = StepByStep(encoder), Padded(encoder, "bf16"), AtOnce(encoder, 32)
    exact, *others = (vectors_and_gradients(way, encoder, words, lengths) for way in ways)
    for vectors, gradients in others:
        torch.testing.assert_close(vectors, exact[0], atol=5e-3, rtol=0)
        for mine, theirs in zip(gradients, exact[1], strict=True):
            assert (mine - theirs).norm() < 0.03 * theirs.norm()


@pytest.mark.parametrize(
    ("encoder", "way"),
    [
        (CaptionEncoder(50, 16, 8), StepByStep),
        (CaptionEncoder(50, 16, 8, project=True), StepByStep),
        (CaptionEncoder(50, 16, 8, bidirectional=True), Padded),
        (CaptionEncoder(50, 16, 8, pooling="mean"), Padded),
        (CaptionEncoder(50, 16, 8, bidirectional=True, pooling="gpo"), Padded),
        (BagOfWords(50, 16), Padded),
    ],
)
def test_only_the_papers_encoder_is_walked_step_by_step(encoder, way):
    assert type(captions_for(encoder, CPU, "float32", 32)) is way


def test_rooms_are_of_a_few_sizes():
    lengths = np.array([[13, 5, 1], [9, 9, 9]])
    encoder = CaptionEncoder(50, 16, 8)
    assert Padded(encoder, "float32").rooms(lengths).tolist() == [16, 12]
    assert StepByStep(encoder).rooms(lengths).tolist() == [13, 9]
