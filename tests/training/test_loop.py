from functools import partial

import pytest
import torch

from vsepp.data.pictures import View
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import max_of_hinges, sum_of_hinges
from vsepp.errors import WrongRequest
from vsepp.loading.batches import Pairs
from vsepp.training.loop import Epoch, Phase, Step, set_rate
from vsepp.training.trainer import adam, steps_and_epochs, train


@pytest.fixture(scope="module")
def pairs(world):
    items = world.split("train")[:24]
    return Pairs(items, Vocabulary.learn(c for i in items for c in i.captions), View(32, 32))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return JointEmbedding.build(
        Architecture(num_words=60, size=32, resize=32, dim=16, word_dim=8), finetune=True
    )


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_it_yields_every_epoch_of_every_phase(model, pairs):
    phases = [Phase(2, 1e-3, sum_of_hinges), Phase(1, 1e-4, max_of_hinges)]
    epochs = list(train(model, pairs.batches(40), phases))
    assert [(e.number, e.phase, e.learning_rate) for e in epochs] == [
        (1, 1, 1e-3),
        (2, 1, 1e-3),
        (3, 2, 1e-4),
    ]
    assert all(epoch.num_pairs == len(pairs) for epoch in epochs)
    assert all(isinstance(epoch, Epoch) for epoch in epochs)


def test_steps_come_before_their_epoch(model, pairs):
    events = list(steps_and_epochs(model, pairs.batches(40), [Phase(2, 1e-3, sum_of_hinges)]))
    assert [type(event) for event in events] == 2 * [Step, Step, Step, Epoch]
    mean = sum(step.loss.item() * step.num_pairs for step in events[:3]) / len(pairs)
    assert events[3].loss == pytest.approx(mean, rel=1e-5)


def test_batches_that_come_once_are_refused_where_they_are_needed_twice(model, pairs):
    once, phases = iter(list(pairs.batches(40))), [Phase(2, 1e-3, sum_of_hinges)]
    before = weights(model)
    with pytest.raises(
        WrongRequest, match=r"ends after one epoch, and 2 were requested.*pairs\.batches"
    ):
        list(train(model, once, phases))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    (epoch,) = train(model, once, [Phase(1, 1e-3, sum_of_hinges)])
    assert epoch.num_pairs == len(pairs)
    with pytest.raises(WrongRequest, match="empty in epoch 1"):
        list(train(model, once, [Phase(1, 1e-3, sum_of_hinges)]))


def test_it_learns(model, pairs):
    epochs = list(train(model, pairs.batches(40), [Phase(8, 3e-3, sum_of_hinges)]))
    assert epochs[-1].loss < 0.7 * epochs[0].loss


def test_the_same_seed_gives_the_same_weights(pairs):
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        plan = Architecture(num_words=60, size=32, resize=32, dim=16, word_dim=8)
        model = JointEmbedding.build(plan, finetune=True)
        list(train(model, pairs.batches(40, seed=5), [Phase(2, 1e-3, max_of_hinges)]))
        results.append(weights(model))
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])


def step_by_hand(model, batch, phase, clip):
    """One step of Adam from its definition (Kingma and Ba, algorithm 1)."""
    model.train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(phase.loss(model(batch)).sum(), parameters)
    norm = torch.sqrt(sum((g**2).sum() for g in gradients))
    scale = min(1.0, clip / (norm.item() + 1e-6))
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            # after one step the corrected moments are g and g squared
            parameter -= (
                phase.learning_rate * (scale * gradient) / ((scale * gradient).abs() + 1e-8)
            )


def test_one_step_is_adam_on_the_clipped_sum(model, pairs):
    twin = JointEmbedding.build(
        Architecture(num_words=60, size=32, resize=32, dim=16, word_dim=8), finetune=True
    )
    twin.load_state_dict(model.state_dict())
    phase = Phase(1, 1e-3, partial(sum_of_hinges, margin=0.3))
    batch = next(iter(pairs.batches(40)))
    list(train(model, [batch], [phase], gradient_clip=0.5, precision="float32"))
    step_by_hand(twin, batch, phase, clip=0.5)
    for ours, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, expected, atol=2e-6, rtol=1e-4)


def test_phases_keep_the_optimisers_state(model, pairs):
    """Two phases alike are one phase of twice the length."""
    twin = JointEmbedding.build(
        Architecture(num_words=60, size=32, resize=32, dim=16, word_dim=8), finetune=True
    )
    twin.load_state_dict(model.state_dict())
    phase = Phase(1, 1e-3, sum_of_hinges)
    list(train(model, pairs.batches(40), [phase, phase]))
    list(train(twin, pairs.batches(40), [Phase(2, 1e-3, sum_of_hinges)]))
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True)
    )


@pytest.mark.parametrize("masked", [True, False])
def test_other_captions_of_the_same_image_can_be_masked(model, pairs, masked):
    everything = next(iter(pairs.batches(len(pairs))))
    same = everything.image_ids[:, None] == everything.image_ids[None, :]
    assert same.sum() == 5 * len(pairs)  # all five captions of each picture are in the batch
    seen = []

    def spy(scores, negatives=None):
        seen.append(negatives)
        return sum_of_hinges(scores, negatives=negatives)

    list(train(model, [everything], [Phase(1, 1e-3, spy)], mask_same_image=masked))
    assert len(seen) == 1
    assert torch.equal(seen[0], ~same) if masked else seen[0] is None


def test_the_mean_is_the_sum_divided_by_the_batch(model, pairs):
    batch = next(iter(pairs.batches(40)))
    norms = {}
    for reduction in ("sum", "mean"):
        phase = Phase(1, 0.0, sum_of_hinges)  # a rate of zero: only the gradient is looked at
        list(train(model, [batch], [phase], gradient_clip=0, reduction=reduction))
        norms[reduction] = model.image_encoder.linear.weight.grad.norm()
    torch.testing.assert_close(norms["mean"], norms["sum"] / 40, rtol=1e-3, atol=1e-7)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_losses_of_the_cpu(pairs):
    losses = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        plan = Architecture(num_words=60, size=32, resize=32, dim=16, word_dim=8)
        model = JointEmbedding.build(plan, finetune=True).to(device)
        epochs = train(model, pairs.batches(40), [Phase(2, 1e-4, sum_of_hinges)])
        losses.append([epoch.loss for epoch in epochs])
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


def test_the_rate_by_hand():
    plain = Phase(4, 2.0, sum_of_hinges)
    assert [plain.rate(done) for done in (0, 0.5, 1)] == [2, 2, 2]
    curved = Phase(4, 2.0, sum_of_hinges, "cosine", warm_up=0.5)
    assert [curved.rate(done) for done in (0, 0.25, 0.5, 0.75, 1)] == pytest.approx(
        [0, 0.5 * (1 + 0.5**0.5), 1, 1 - 0.5**0.5, 0]
    )


def test_a_net_may_learn_at_a_share_of_the_rate(model, pairs):
    before = weights(model)
    optimizer = adam(model, net_share=0.0)
    settings = {"optimizer": optimizer}
    list(train(model, pairs.batches(40), [Phase(1, 1e-3, sum_of_hinges)], **settings))
    moved = {
        name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])
    }
    assert moved == {name for name, _ in model.named_parameters() if "backbone" not in name}
    set_rate(optimizer, 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.0]


@pytest.mark.parametrize(
    "settings", [{"chunk_size": 8}, {"nested": (8,)}, {"chunk_size": 8, "nested": (8,)}]
)
def test_any_module_of_scores_is_trained_and_what_needs_its_vectors_is_refused(
    model, pairs, settings
):
    class Scores(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.joint = model

        def forward(self, batch):
            return self.joint(batch)

    phases = [Phase(2, 3e-3, sum_of_hinges)]
    first, last = train(Scores(), pairs.batches(40), phases)
    assert last.loss < first.loss
    with pytest.raises(WrongRequest, match=r"need a JointEmbedding.*this model is a Scores"):
        list(train(Scores(), pairs.batches(40), phases, **settings))


def test_epochs_are_numbered_by_the_loop(model, pairs):
    """Batches that were iterated over before, or are shared by two runs, give the same epochs."""
    twin = JointEmbedding.build(
        Architecture(num_words=60, size=32, resize=32, dim=16, word_dim=8), finetune=True
    )
    twin.load_state_dict(model.state_dict())
    batches, phases = pairs.batches(40), [Phase(2, 1e-3, sum_of_hinges)]
    first = list(train(model, batches, phases))
    next(iter(batches))
    second = list(train(twin, batches, phases))
    assert [epoch.loss for epoch in first] == [epoch.loss for epoch in second]
