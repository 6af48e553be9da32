"""Chunks by `torch.utils.checkpoint`: the gradient of the whole batch, in the memory of a part."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.memory import peak_extra_megabytes
from tests.training.features import pairs_with_features, plain_stepper, small_model
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import max_of_hinges, sum_of_hinges
from vsepp.loading.batches import Batch
from vsepp.training.loop import Objective, Phase
from vsepp.training.trainer import train


@pytest.fixture(scope="module")
def batch():
    return next(iter(pairs_with_features().batches(60)))


def loss_and_gradients(model, batch, objective, chunk_size=None):
    model.zero_grad()
    loss = plain_stepper(model, chunk_size).backward(batch, objective)
    return loss, [parameter.grad for parameter in model.parameters()]


def assert_same_gradient(model, batch, objective, chunk_size):
    expected = loss_and_gradients(model, batch, objective)
    ours = loss_and_gradients(model, batch, objective, chunk_size)
    torch.testing.assert_close(ours[0], expected[0], rtol=1e-5, atol=1e-6)
    for gradient, whole in zip(ours[1], expected[1], strict=True):
        assert (gradient - whole).norm() <= 1e-5 * whole.norm()


@pytest.mark.parametrize("chunk_size", [1, 7, 30, 60, 100])
@pytest.mark.parametrize("loss", [sum_of_hinges, max_of_hinges])
@pytest.mark.parametrize("widths", [(), (8, 4)])
def test_chunks_of_any_size_give_the_gradient_of_the_whole_batch(batch, loss, chunk_size, widths):
    assert_same_gradient(small_model(), batch, Objective(loss, widths=widths), chunk_size)


def test_images_that_fit_a_short_caption_are_no_negatives_in_chunks_either(batch):
    negatives = torch.rand(len(batch), len(batch)) < 0.5
    some = replace(batch, negatives=negatives)
    model, objective = small_model(), Objective(max_of_hinges)
    assert_same_gradient(model, some, objective, 7)
    assert (
        loss_and_gradients(model, some, objective)[0]
        < loss_and_gradients(model, batch, objective)[0]
    )


@pytest.mark.parametrize("similarity", ["order_similarity", "negative_distance"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("masked", [True, False])
def test_so_it_is_with_every_similarity_and_reduction(batch, similarity, reduction, masked):
    model = small_model(similarity=similarity)
    assert_same_gradient(model, batch, Objective(sum_of_hinges, reduction, masked), 16)


def test_raw_pictures_of_a_net_whose_statistics_are_fixed():
    torch.manual_seed(0)
    plan = Architecture(num_words=44, size=32, resize=32, dim=16, word_dim=8)
    model = JointEmbedding.build(plan, finetune=True, fixed_statistics=True).train()
    pairs = pairs_with_features()
    some = next(iter(pairs.batches(40)))
    pixels = torch.randint(256, (40, 3, 32, 32), dtype=torch.uint8)
    pictures = Batch(pixels, some.words, some.lengths, some.image_ids)
    assert_same_gradient(model, pictures, Objective(max_of_hinges), 12)


def test_dropout_drops_the_same_units_twice(batch):
    """Each chunk is embedded again in the backward pass, the last one first."""
    model = small_model()
    drop, embed, seen = nn.Dropout(0.5), model.embed_images, []

    def embed_with_dropout(images):
        seen.append(drop(images))
        return embed(seen[-1])

    model.embed_images = embed_with_dropout
    before = torch.get_rng_state()
    plain_stepper(model, 25).backward(batch, Objective(sum_of_hinges))
    assert len(seen) == 6
    assert not torch.equal(seen[0], seen[1][: len(seen[0])])
    for first, second in zip(seen[:3], reversed(seen[3:]), strict=True):
        assert torch.equal(first, second)
    assert not torch.equal(torch.get_rng_state(), before)  # the next batch drops others


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_dropout_on_a_gpu_drops_the_same_units_twice(batch):
    """The chunks come from the CPU, and dropout draws from the GPU's generator."""
    model = small_model().cuda()
    drop, embed, seen = nn.Dropout(0.5), model.embed_images, []
    model.embed_images = lambda images: seen.append(drop(images)) or embed(seen[-1])
    stepper = plain_stepper(model, 25)
    stepper.device = torch.device("cuda")
    stepper.backward(batch, Objective(sum_of_hinges))
    for first, second in zip(seen[:3], reversed(seen[3:]), strict=True):
        assert torch.equal(first, second)


def test_the_loop_takes_chunks():
    pairs, phases = pairs_with_features(), [Phase(2, 1e-3, sum_of_hinges)]
    models = small_model(), small_model()
    whole = list(train(models[0], pairs.batches(60), phases))
    chunked = list(train(models[1], pairs.batches(60), phases, chunk_size=16))
    assert [epoch.loss for epoch in chunked] == pytest.approx([e.loss for e in whole], rel=1e-5)
    for ours, expected in zip(models[1].parameters(), models[0].parameters(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("nested", [(), (4,)])
def test_the_loop_never_moves_a_batch_that_is_cut_into_chunks(batch, nested):
    class NeverMoved(Batch):
        def to(self, device):
            raise AssertionError("the whole batch would be on the device")

    whole = NeverMoved(*vars(batch).values())
    epochs = list(
        train(small_model(), [whole], [Phase(2, 1e-3, sum_of_hinges)], chunk_size=16, nested=nested)
    )
    assert [epoch.num_pairs for epoch in epochs] == [60, 60]


@pytest.mark.slow
def test_memory_does_not_grow_with_what_a_net_remembers():
    """512 pictures of 64 px through the small net: about 400 MB remembered at once, 30 in chunks."""
    extra = {
        follow: peak_extra_megabytes(
            """
            import torch
            from vsepp.loading.batches import Batch
            from vsepp.encoders.architecture import Architecture
            from vsepp.encoders.joint import JointEmbedding
            from vsepp.equations.losses import max_of_hinges
            from tests.training.features import plain_stepper
            from vsepp.training.loop import Objective
            torch.set_num_threads(1)
            plan = Architecture(num_words=44, size=64, resize=64, dim=16, word_dim=8)
            model = JointEmbedding.build(plan, finetune=True, fixed_statistics=True).train()
            words, lengths = torch.ones(512, 4, dtype=torch.long), torch.full((512,), 4)
            pixels = torch.randint(256, (512, 3, 64, 64), dtype=torch.uint8)
            batch = Batch(pixels, words, lengths, torch.arange(512))
            small = Batch(pixels[:8], words[:8], lengths[:8], torch.arange(8))
            plain_stepper(model).backward(small, Objective(max_of_hinges))  # libraries are loaded
            """,
            follow,
        )
        for follow in (
            "plain_stepper(model).backward(batch, Objective(max_of_hinges))",
            "plain_stepper(model, 32).backward(batch, Objective(max_of_hinges))",
        )
    }
    whole, chunked = extra.values()
    assert chunked < whole / 3
