import pytest
import torch

from tests.training.features import pairs_with_features, small_model
from vsepp.encoders.image import normalized
from vsepp.equations.losses import max_of_hinges, sum_of_hinges
from vsepp.equations.similarity import inner_product
from vsepp.training import fast
from vsepp.training.lessons import Teacher, shortened
from vsepp.training.loop import Epoch, Phase


def test_shortened_vectors_keep_their_length():
    short = shortened(torch.tensor([[3.0, 0.0, 4.0], [0.0, 2.0, 0.0]]), 2)
    assert torch.equal(short, torch.tensor([[5.0, 0.0], [0.0, 2.0]]))


def test_a_teacher_by_hand():
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    teacher = Teacher(vectors, weight=2.0)
    numbers = torch.tensor([0, 2])  # their similarity is 0.6
    ours = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # ours is 0
    theirs = vectors[numbers]
    assert teacher.loss(theirs, theirs, numbers).item() == pytest.approx(0)
    # each of two rows has one square of 0.36 among two pairs
    assert teacher.loss(ours, theirs, numbers).item() == pytest.approx(2 * 2 * 0.36 / 2)


def trained(pairs, **lessons):
    model = small_model()
    phases = [Phase(25, 3e-3, sum_of_hinges)]
    events = list(fast.steps_and_epochs(model, pairs.batches(32), phases, **lessons))
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


def test_a_teacher_is_followed():
    pairs = pairs_with_features()
    torch.manual_seed(5)
    meanings = torch.randn(44, 6)  # of words; a caption means what they mean together
    known = normalized(torch.stack([meanings[torch.from_numpy(w)].sum(0) for w in pairs.words]))
    numbers = torch.arange(len(pairs))
    losses = []
    for weight in (0.0, 10.0):
        model, _ = trained(pairs, teacher=Teacher(known.half(), weight))
        batch = pairs.batch(numbers.numpy(), "center")
        with torch.no_grad():
            captions = model.embed_captions(batch.words, batch.lengths)
            losses.append(Teacher(known, 1.0).loss(captions, captions, numbers).item())
    assert losses[1] < 0.8 * losses[0]
