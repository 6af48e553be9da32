from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.memory import peak_extra_megabytes
from tests.training.features import pairs_with_features, small_model
from vsepp.data.pictures import View
from vsepp.data.resources import AHEAD
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.backbones import backbone
from vsepp.encoders.joint import ImageEncoder, JointEmbedding
from vsepp.equations.losses import k_hardest_hinges, max_of_hinges, sum_of_hinges
from vsepp.loading.batches import Pairs
from vsepp.loading.on_device import PicturesOnDevice
from vsepp.training.averaging import AveragedWeights
from vsepp.training.captured import CropInputs
from vsepp.training.loop import Epoch, Phase, Step
from vsepp.training.trainer import adam, steps_and_epochs

needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
plain = partial(steps_and_epochs, stepper="plain")
captured = partial(steps_and_epochs, stepper="captured")
CPU = torch.device("cpu")
CURRICULUM = [Phase(2, 2e-3, sum_of_hinges), Phase(1, 1e-3, max_of_hinges)]


@pytest.fixture(scope="module")
def pairs():
    return pairs_with_features()  # 150 pairs: four batches of 32, and 22 left over


def assert_same_walk(
    pairs, phases=CURRICULUM, design=None, seed=3, word_dropout=0.0, short_captions=0.0, **settings
):
    """Both loops from the same weights: the same events, and losses and weights up to rounding."""
    models = [small_model(**(design or {})) for _ in range(2)]
    noise = {"word_dropout": word_dropout, "short_captions": short_captions}
    batches = [pairs.batches(32, seed=seed, **noise) for _ in range(2)]
    expected = list(plain(models[0], batches[0], phases, **settings))
    quick = list(captured(models[1], batches[1], phases, **settings))
    assert [type(event) for event in expected] == [type(event) for event in quick]
    assert len(quick) == 6 * sum(phase.epochs for phase in phases)
    for theirs, event in zip(expected, quick, strict=True):
        assert event.num_pairs == theirs.num_pairs
        assert float(event.loss) == pytest.approx(float(theirs.loss), rel=1e-6, abs=1e-6)
    for ours, theirs in zip(models[1].parameters(), models[0].parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def on_device(pairs, device):
    return pairs.with_images(PicturesOnDevice.of(pairs.items, pairs.images.view, device))


# ---- the same steps


def test_it_is_the_plain_loop(pairs):
    assert_same_walk(pairs)


@pytest.mark.parametrize("word_dropout", [0.0, 0.2])
@pytest.mark.parametrize("mask_same_image", [False, True])
def test_it_cuts_captions_short_as_the_plain_loop_does(pairs, word_dropout, mask_same_image):
    noise = {"short_captions": 0.4, "word_dropout": word_dropout}
    assert_same_walk(pairs, mask_same_image=mask_same_image, **noise)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_it_reduces_and_clips_as_the_plain_loop_does(pairs, reduction, clip):
    assert_same_walk(pairs, reduction=reduction, gradient_clip=clip)


@pytest.mark.parametrize(
    "design",
    [
        {"similarity": "order_similarity", "absolute": True, "normalize_images": False},
        {"similarity": "order_similarity_rooted", "absolute": True},
        {"project_captions": True, "normalize_features": False},
        {"caption_encoder": "bag"},
        {"bidirectional": True},
        {"bidirectional": True, "pooling": "gpo"},
        {"pooling": "mean"},
        {"pooling": "max"},
    ],
)
def test_every_model_walks_alike(pairs, design):
    assert_same_walk(pairs, design=design)


@pytest.mark.parametrize("design", [{}, {"pooling": "mean"}])
def test_both_loops_leave_out_the_same_words(pairs, design):
    assert_same_walk(pairs, design=design, word_dropout=0.3)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(
    "loss", [partial(max_of_hinges, margin=0.5), partial(k_hardest_hinges, k=2)]
)
def test_every_loss_walks_alike(pairs, loss, masked):
    assert_same_walk(pairs, [Phase(2, 2e-3, loss)], mask_same_image=masked)


def test_features_may_be_stored_in_half_precision(pairs):
    assert_same_walk(pairs.with_features(pairs.images.rows.half()))


def test_it_is_the_walk_of_another_optimiser_too(pairs):
    models = small_model(), small_model()
    losses = []
    for walk, model in zip((plain, captured), models, strict=True):
        optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
        events = walk(
            model, pairs.batches(32), [Phase(3, 1e-3, sum_of_hinges)], optimizer=optimizer
        )
        losses.append([event.loss for event in events if isinstance(event, Epoch)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[1][2] < losses[1][0]


@pytest.mark.parametrize("per_step", [1, 3])
@pytest.mark.parametrize("warm_up", [0.0, 0.3])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_it_follows_the_same_rates_and_averages_the_same_weights(
    pairs, schedule, warm_up, per_step
):
    """However many batches a step stands for."""
    phases = [
        Phase(epochs, 2e-3, loss, schedule, warm_up)
        for epochs, loss in ((2, sum_of_hinges), (1, max_of_hinges))
    ]
    walks = plain, partial(captured, batches_per_step=per_step)
    results = []
    for walk in walks:
        model = small_model()
        average, optimizer = AveragedWeights(model, 0.9), adam(model)
        settings = {"average": average, "optimizer": optimizer}
        losses = [event.loss for event in walk(model, pairs.batches(32), phases, **settings)]
        assert any((a != b).any() for a, b in zip(average.weights, model.parameters(), strict=True))
        rate = torch.tensor(optimizer.param_groups[0]["lr"])
        results.append([*average.weights, *model.parameters(), torch.tensor(losses[-1]), rate])
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("word_dropout", [0.0, 0.3])
@pytest.mark.parametrize("per_step", [1, 3])
def test_a_long_caption_walks_among_short_ones(per_step, word_dropout):
    pairs = pairs_with_features(longest=200)
    losses = []
    for walk in (plain, partial(captured, batches_per_step=per_step)):
        batches = pairs.batches(32, word_dropout=word_dropout)
        events = list(walk(small_model(), batches, [Phase(2, 1e-3, sum_of_hinges)]))
        losses.append([event.loss for event in events if isinstance(event, Epoch)])
    assert len(losses[1]) == 2
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


@pytest.mark.slow
def test_a_long_caption_costs_its_own_length_and_not_that_of_all():
    """3,000 captions filled up to 3,000 words would take 36 MB, and as much again in batches."""
    extra = peak_extra_megabytes(
        """
        import torch
        from tests.training.features import pairs_with_features, small_model
        from vsepp.equations.losses import sum_of_hinges
        from vsepp.training.loop import Phase
        from vsepp.training.trainer import train
        torch.set_num_threads(1)
        phases, model = [Phase(1, 1e-3, sum_of_hinges)], small_model()
        list(train(model, pairs_with_features().batches(32), phases))
        pairs = pairs_with_features(1_000, longest=3_000)
        """,
        "list(train(model, pairs.batches(32), phases))",
    )
    assert extra < 20


# ---- its contract


def test_a_step_may_stand_for_several_batches(pairs):
    phases = [Phase(2, 1e-3, sum_of_hinges)]
    singles = list(captured(small_model(), pairs.batches(32), phases))
    events = list(captured(small_model(), pairs.batches(32), phases, batches_per_step=3))
    steps = [event for event in events if isinstance(event, Step)]
    assert [step.num_pairs for step in steps] == 2 * [96, 32, 22]
    mean = sum(single.loss for single in singles[:3]) / 3
    assert steps[0].loss.item() == pytest.approx(mean.item(), rel=1e-5)
    epoch = events[3]
    assert isinstance(epoch, Epoch)
    total = sum(step.loss.item() * step.num_pairs for step in steps[:3])
    assert epoch.loss == pytest.approx(total / len(pairs), rel=1e-5)


@pytest.mark.parametrize("word_dropout", [0.0, 0.3])
def test_a_resumed_walk_ends_with_the_same_weights(pairs, word_dropout):
    whole, halves = small_model(), small_model()
    batches_of = partial(pairs.batches, 32, word_dropout=word_dropout)
    list(captured(whole, batches_of(), CURRICULUM))
    optimizer = adam(halves)
    events = captured(halves, batches_of(), CURRICULUM, optimizer=optimizer)
    assert next(event.number for event in events if isinstance(event, Epoch)) == 1
    events.close()
    rest = captured(halves, batches_of(), CURRICULUM, optimizer=optimizer, epochs_done=1)
    assert [event.number for event in rest if isinstance(event, Epoch)] == [2, 3]
    assert all(
        torch.equal(a, b) for a, b in zip(whole.parameters(), halves.parameters(), strict=True)
    )


def test_the_plain_loop_can_resume_what_the_fast_one_began(pairs):
    whole, halves = small_model(), small_model()
    list(plain(whole, pairs.batches(32), CURRICULUM))
    optimizer, batches = adam(halves), pairs.batches(32)
    next(
        event
        for event in captured(halves, batches, CURRICULUM, optimizer=optimizer)
        if isinstance(event, Epoch)
    )
    list(plain(halves, batches, CURRICULUM, optimizer=optimizer, epochs_done=1))
    for ours, expected in zip(halves.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-6)


# ---- from pictures


@pytest.mark.slow
@pytest.mark.parametrize("finetune", [True, False])
@pytest.mark.parametrize("crop", ["center", "random", "random_resized"])
@pytest.mark.parametrize("per_step", [1, 2])
def test_pictures_walk_as_in_the_plain_loop(world, finetune, crop, per_step):
    """Frozen or trained, kept as Pillow's or side by side in one tensor."""
    items = world.split("train")[:30]  # 150 pairs: two batches of 64 and a rest
    vocabulary = Vocabulary.learn(caption for item in items for caption in item.captions)
    plan = Architecture(num_words=len(vocabulary), dim=16, word_dim=8, size=48, resize=64)
    pairs = Pairs(items, vocabulary, plan.view)
    phases = [Phase(2, 1e-3, sum_of_hinges)]
    losses = []
    quickly = partial(captured, batches_per_step=per_step)
    for walk, part in (
        (plain, pairs),
        (quickly, pairs),
        (quickly, on_device(pairs, CPU)),
    ):
        torch.manual_seed(0)
        model = JointEmbedding.build(plan, finetune=finetune)
        events = walk(model, part.batches(64, crop), phases, precision="float32")
        losses.append([event.loss for event in events if isinstance(event, Epoch)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[2] == pytest.approx(losses[0], rel=2e-3)


# ---- their crops


@pytest.mark.parametrize(("per_step", "begun_at_most"), [(1, AHEAD + 1), (8, 2)])
def test_many_cores_do_not_begin_many_groups_of_batches(
    world, monkeypatch, per_step, begun_at_most
):
    monkeypatch.setattr("vsepp.data.resources.num_threads", lambda: 64)
    pairs = Pairs(world.items, Vocabulary.learn(["a"]), View(64, 64))
    begun, take = [], pairs.images.take
    monkeypatch.setattr(pairs.images, "take", lambda *args: begun.append(1) or take(*args))
    learns = SimpleNamespace(finetune=True)
    inputs = CropInputs(learns, pairs.batches(4), per_step, CPU)
    counts = [4 * per_step] * (len(pairs) // (4 * per_step))
    epoch = replace(pairs.batches(4).epoch(0), order=np.arange(sum(counts)))
    filled = inputs.fill(epoch, counts)
    next(filled)
    assert len(begun) <= begun_at_most
    assert len(list(filled)) == len(counts) - 1
    assert len(begun) == len(counts) > begun_at_most


def test_pixels_keep_the_layout_that_the_crops_come_in(monkeypatch):
    """A GPU's crops have their channels last, and so do a net's convolutions."""
    batches = pairs_with_features().batches(8)
    inputs = CropInputs(ImageEncoder(backbone("small"), 4, finetune=True), batches, 2, CPU)
    pixels = torch.randint(256, (16, 5, 5, 3), dtype=torch.uint8).permute(0, 3, 1, 2)
    monkeypatch.setattr(batches.pairs.images, "stream", lambda *args: iter([pixels]))
    next(inputs.fill(replace(batches.epoch(0), order=np.arange(16)), [16]))
    second = inputs.take(torch.tensor([1]), torch.arange(8))
    assert torch.equal(second, pixels[8:])
    assert second.is_contiguous(memory_format=torch.channels_last)


# ---- on a GPU


def gpu_losses(walk, pairs, design, phases, **settings):
    model = small_model(**design).to("cuda")
    events = walk(model, pairs.batches(32), phases, **settings)
    return [event.loss for event in events if isinstance(event, Epoch)]


@needs_a_gpu
@pytest.mark.parametrize(
    ("precision", "dim", "tolerance"),
    [("float32", 16, 1e-3), ("tf32", 16, 1e-2), ("bf16", 16, 2e-2), ("bf16", 1024, 2e-2)],
)
@pytest.mark.parametrize("masked", [True, False])
def test_a_gpu_follows_the_plain_loss_curve(pairs, precision, dim, tolerance, masked):
    """Most epochs are replayed; with 1,024 units, all words of a batch are walked in one launch."""
    design = {"dim": dim, "word_dim": 300 if dim > 16 else 8}
    phases = [Phase(3, 2e-4, sum_of_hinges), Phase(7, 2e-4, max_of_hinges)]
    settings = {"mask_same_image": masked}
    expected = gpu_losses(plain, pairs, design, phases, **settings)
    quick = gpu_losses(captured, pairs, design, phases, precision=precision, **settings)
    assert len(quick) == 10
    assert quick == pytest.approx(expected, rel=tolerance)
    assert quick[-1] < 0.95 * quick[3]  # it learns: agreement is no accident


@needs_a_gpu
@pytest.mark.parametrize("similarity", ["order_similarity", "negative_distance"])
def test_a_gpu_follows_the_plain_loss_curve_with_other_similarities(pairs, similarity):
    design = {"similarity": similarity, "absolute": similarity.startswith("order")}
    phases = [Phase(4, 1e-3, sum_of_hinges)]
    expected = gpu_losses(plain, pairs, design, phases)
    quick = gpu_losses(captured, pairs, design, phases, precision="float32")
    assert quick == pytest.approx(expected, rel=2e-3)


@needs_a_gpu
@pytest.mark.parametrize(
    "design", [{"bidirectional": True}, {"bidirectional": True, "pooling": "gpo"}]
)
def test_a_gpu_follows_the_plain_loss_curve_with_other_encoders(pairs, design):
    phases = [Phase(6, 1e-3, sum_of_hinges)]
    expected = gpu_losses(plain, pairs, design, phases)
    for precision, tolerance in (("float32", 2e-3), ("bf16", 3e-2)):
        quick = gpu_losses(captured, pairs, design, phases, precision=precision)
        assert quick == pytest.approx(expected, rel=tolerance)


@needs_a_gpu
def test_a_gpu_resumes(pairs):
    whole, halves = (small_model(dim=512).to("cuda") for _ in range(2))
    phases = [Phase(4, 2e-4, sum_of_hinges)]
    expected = [
        event.loss
        for event in captured(whole, pairs.batches(32), phases)
        if isinstance(event, Epoch)
    ]
    optimizer, batches = adam(halves), pairs.batches(32)
    losses = []
    for done in range(4):  # every epoch in a loop of its own
        events = captured(halves, batches, phases, optimizer=optimizer, epochs_done=done)
        losses.append(next(event.loss for event in events if isinstance(event, Epoch)))
        events.close()
    assert losses == pytest.approx(expected, rel=1e-3)


@needs_a_gpu
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("finetune", [True, False])
def test_a_gpu_follows_the_plain_loss_curve_from_pictures(world, finetune, compiled):
    """Cut, embedded and learned from on the GPU, in half precision; the plain loop uses single."""
    items = world.split("train")[:60]
    vocabulary = Vocabulary.learn(caption for item in items for caption in item.captions)
    plan = Architecture(num_words=len(vocabulary), dim=64, word_dim=32, size=48, resize=64)
    pairs, device = Pairs(items, vocabulary, plan.view), torch.device("cuda")
    losses = []
    for walk, part in ((plain, pairs), (captured, on_device(pairs, device))):
        torch.manual_seed(0)
        model = JointEmbedding.build(plan, finetune=finetune).to(device)
        if walk is captured:
            model.image_encoder.use_fast_training(compiled)
        events = walk(model, part.batches(64, "random_resized"), [Phase(6, 1e-3, sum_of_hinges)])
        losses.append([event.loss for event in events if isinstance(event, Epoch)])
    assert losses[1] == pytest.approx(losses[0], rel=3e-2)
    assert losses[1][-1] < 0.9 * losses[1][0]
