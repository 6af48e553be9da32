import numpy as np
import pytest
import torch

from vsepp.encoders.caption import BagOfWords, FusedPath, GRUEncoder, PackedPath, PaddedPath
from vsepp.kernels.fused_gru import fits


def batch(num_captions=32, num_words=50):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 14, (num_captions,), generator=generator)
    lengths = lengths.sort(descending=True).values.int()
    words = torch.randint(4, num_words, (num_captions, 16), generator=generator).int()
    return words, lengths


def vectors_and_gradients(path, encoder, words, lengths):
    size = int(path.padded_sizes(lengths.cpu().numpy()[None])[0])
    vectors = path.encode(path.project(words, lengths, size))
    gradient = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(1))
    return vectors, torch.autograd.grad(
        vectors, list(encoder.parameters()), gradient.to(vectors.device)
    )


@pytest.mark.parametrize("project", [True, False])
def test_both_paths_of_a_cpu_are_the_encoder(project):
    encoder = GRUEncoder(50, 16, 8, project=project).eval()
    words, lengths = batch()
    expected = encoder(words, lengths)
    for path in (PackedPath(encoder), PaddedPath(encoder)):
        vectors, gradients = vectors_and_gradients(path, encoder, words, lengths)
        gradient = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(1))
        theirs = torch.autograd.grad(
            expected, list(encoder.parameters()), gradient, retain_graph=True
        )
        torch.testing.assert_close(vectors, expected)
        torch.testing.assert_close(gradients, theirs)


@pytest.mark.skipif(
    not torch.cuda.is_available() or not fits(torch.device("cuda"), 32, 512),
    reason="needs a Hopper GPU",
)
def test_all_three_paths_agree_on_a_gpu():
    torch.manual_seed(0)
    encoder = GRUEncoder(50, 512, 300).cuda()
    words, lengths = (part.cuda() for part in batch())
    paths = PackedPath(encoder), PaddedPath(encoder), FusedPath(encoder, 32)
    exact, *others = (vectors_and_gradients(path, encoder, words, lengths) for path in paths)
    for vectors, gradients in others:
        torch.testing.assert_close(vectors, exact[0], atol=5e-3, rtol=0)
        for mine, theirs in zip(gradients, exact[1], strict=True):
            assert (mine - theirs).norm() < 0.03 * theirs.norm()


@pytest.mark.parametrize(
    ("encoder", "path"),
    [
        (GRUEncoder(50, 16, 8), PackedPath),
        (GRUEncoder(50, 16, 8, project=True), PackedPath),
        (GRUEncoder(50, 16, 8, bidirectional=True), PaddedPath),
        (GRUEncoder(50, 16, 8, pooling="mean"), PaddedPath),
        (GRUEncoder(50, 16, 8, bidirectional=True, pooling="gpo"), PaddedPath),
        (BagOfWords(50, 16), PaddedPath),
    ],
)
def test_only_the_last_state_gru_is_packed(encoder, path):
    assert type(encoder.sorted_path(32, "float32")) is path


def test_sizes_are_of_a_few_sizes():
    lengths = np.array([[13, 5, 1], [9, 9, 9]])
    encoder = GRUEncoder(50, 16, 8)
    assert PaddedPath(encoder).padded_sizes(lengths).tolist() == [16, 12]
    assert PackedPath(encoder).padded_sizes(lengths).tolist() == [13, 9]


@pytest.mark.parametrize("project", [True, False])
def test_in_training_on_a_cpu_the_encoder_packs_captions_in_any_order(project):
    encoder = GRUEncoder(50, 16, 8, project=project).double()
    words, lengths = batch()
    shuffled = torch.randperm(len(words), generator=torch.Generator().manual_seed(2))
    words, lengths = words[shuffled], lengths[shuffled]
    vectors, expected = encoder.train()(words, lengths), encoder.eval()(words, lengths)
    torch.testing.assert_close(vectors, expected)
    weights, gradient = list(encoder.parameters()), torch.randn_like(vectors)
    ours, theirs = (torch.autograd.grad(out, weights, gradient) for out in (vectors, expected))
    torch.testing.assert_close(ours, theirs)


def test_no_captions_have_no_vectors():
    encoder = GRUEncoder(50, 16, 8).train()
    none = torch.zeros(0, 1, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    assert encoder(*none).shape == (0, 16)
