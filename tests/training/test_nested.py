import torch

from tests.training.features import pairs_with_features, small_model
from vsepp.equations.losses import max_of_hinges, sum_of_hinges
from vsepp.equations.similarity import inner_product
from vsepp.training import fast
from vsepp.training.loop import Epoch, Phase
from vsepp.training.nested import shortened


def test_shortened_vectors_keep_their_length():
    short = shortened(torch.tensor([[3.0, 0.0, 4.0], [0.0, 2.0, 0.0]]), 2)
    assert torch.equal(short, torch.tensor([[5.0, 0.0], [0.0, 2.0]]))


def trained(pairs, **settings):
    model = small_model()
    phases = [Phase(25, 3e-3, sum_of_hinges)]
    events = list(fast.steps_and_epochs(model, pairs.batches(32), phases, **settings))
    return model, [event.loss for event in events if isinstance(event, Epoch)]


@torch.no_grad()
def front_loss(model, pairs, width):
    batch = pairs.batch(torch.arange(len(pairs)).numpy(), "center")
    images, captions = (
        model.embed_images(batch.images),
        model.embed_captions(batch.words, batch.lengths),
    )
    scores = inner_product(shortened(images, width), shortened(captions, width))
    return max_of_hinges(scores).mean().item()


def test_nested_vectors_are_learned():
    pairs = pairs_with_features()
    plain, nested = trained(pairs)[0], trained(pairs, nested=(4,))[0]
    assert front_loss(nested, pairs, 4) < 0.9 * front_loss(plain, pairs, 4)
