import pytest
import torch
from torch import nn

from tests.memory import peak_extra_megabytes
from tests.training.features import pairs_with_features, small_model
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import max_of_hinges, sum_of_hinges
from vsepp.loading.batches import Batch
from vsepp.training.chunks import _RandomState, backward_in_chunks
from vsepp.training.gradients import backward
from vsepp.training.loop import Phase, train


@pytest.fixture(scope="module")
def batch():
    return next(iter(pairs_with_features().batches(60)))


def gradients(model, follow):
    model.zero_grad()
    per_pair = follow(model)
    return per_pair, [parameter.grad for parameter in model.parameters()]


def assert_same_gradient(model, batch, loss, chunk_size, reduction="sum", masked=False):
    expected = gradients(model, lambda m: backward(m, batch, loss, reduction, masked))
    ours = gradients(
        model, lambda m: backward_in_chunks(m, batch, loss, reduction, masked, chunk_size)
    )
    torch.testing.assert_close(ours[0], expected[0], rtol=1e-5, atol=1e-6)
    for gradient, whole in zip(ours[1], expected[1], strict=True):
        assert (gradient - whole).norm() <= 1e-5 * whole.norm()


@pytest.mark.parametrize("chunk_size", [1, 7, 30, 60, 100])
@pytest.mark.parametrize("loss", [sum_of_hinges, max_of_hinges])
def test_chunks_of_any_size_give_the_gradient_of_the_whole_batch(batch, loss, chunk_size):
    assert_same_gradient(small_model(), batch, loss, chunk_size)


@pytest.mark.parametrize("similarity", ["order_similarity", "negative_distance"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("masked", [True, False])
def test_so_it_is_with_every_similarity_and_reduction(batch, similarity, reduction, masked):
    model = small_model(similarity=similarity)
    assert_same_gradient(model, batch, sum_of_hinges, 16, reduction, masked)


def test_raw_pictures_of_a_net_whose_statistics_are_fixed():
    torch.manual_seed(0)
    plan = Architecture(num_words=44, size=32, resize=32, dim=16, word_dim=8)
    model = JointEmbedding.build(plan, finetune=True, fixed_statistics=True).train()
    pairs = pairs_with_features()
    some = next(iter(pairs.batches(40)))
    pixels = torch.randint(256, (40, 3, 32, 32), dtype=torch.uint8)
    pictures = Batch(pixels, some.words, some.lengths, some.image_ids)
    assert_same_gradient(model, pictures, max_of_hinges, 12)


def test_dropout_drops_the_same_units_twice(batch):
    """At a rate of zero for captions, only the images' dice decide whether both passes agree."""
    model = small_model()
    model.image_encoder.backbone.net = nn.Identity()
    drop = nn.Dropout(0.5)
    embed = model.embed_images
    seen = []

    def embed_with_dropout(images):
        vectors = embed(drop(images))
        seen.append(vectors.detach())
        return vectors

    model.embed_images = embed_with_dropout
    before = torch.get_rng_state()
    backward_in_chunks(model, batch, sum_of_hinges, "sum", False, 25)
    assert len(seen) == 6
    assert not torch.equal(seen[0], seen[1][: len(seen[0])])
    for first, second in zip(seen[:3], seen[3:], strict=True):
        assert torch.equal(first, second)
    assert not torch.equal(torch.get_rng_state(), before)  # the next batch gets other dice


def test_the_loop_takes_chunks():
    pairs, phases = pairs_with_features(), [Phase(2, 1e-3, sum_of_hinges)]
    models = small_model(), small_model()
    whole = list(train(models[0], pairs.batches(60), phases))
    chunked = list(train(models[1], pairs.batches(60), phases, chunk_size=16))
    assert [epoch.loss for epoch in chunked] == pytest.approx([e.loss for e in whole], rel=1e-5)
    for ours, expected in zip(models[1].parameters(), models[0].parameters(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-5)


def test_the_loop_never_moves_a_batch_that_is_cut_into_chunks(batch):
    class NeverMoved(Batch):
        def to(self, device):
            raise AssertionError("the whole batch would be on the device")

    whole = NeverMoved(*vars(batch).values())
    epochs = list(train(small_model(), [whole], [Phase(2, 1e-3, sum_of_hinges)], chunk_size=16))
    assert [epoch.num_pairs for epoch in epochs] == [60, 60]


def test_the_generator_that_is_put_back_is_that_of_the_models_gpu(monkeypatch):
    """Not of the current one."""
    asked, given = [], []
    state = torch.zeros(1, dtype=torch.uint8)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: asked.append(device) or state)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: given.append(device))
    second = torch.device("cuda", 1)
    with _RandomState.of(second).put_back():
        assert given == [second]
    assert set(asked) == set(given) == {second}


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
            from vsepp.training.chunks import backward_in_chunks
            from vsepp.training.gradients import backward
            torch.set_num_threads(1)
            plan = Architecture(num_words=44, size=64, resize=64, dim=16, word_dim=8)
            model = JointEmbedding.build(plan, finetune=True, fixed_statistics=True).train()
            words, lengths = torch.ones(512, 4, dtype=torch.long), torch.full((512,), 4)
            pixels = torch.randint(256, (512, 3, 64, 64), dtype=torch.uint8)
            batch = Batch(pixels, words, lengths, torch.arange(512))
            small = Batch(*(tensor[:8] for tensor in vars(batch).values()))
            backward(model, small, max_of_hinges, "sum", False)  # libraries are loaded
            """,
            follow,
        )
        for follow in (
            'backward(model, batch, max_of_hinges, "sum", False)',
            'backward_in_chunks(model, batch, max_of_hinges, "sum", False, 32)',
        )
    }
    whole, chunked = extra.values()
    assert chunked < whole / 3
