"""Captions that are cut to a few words, and the images that are no negatives of them."""

import numpy as np
import pytest
import torch

from tests.training.features import pairs_with_features, small_model
from vsepp.equations.losses import max_of_hinges
from vsepp.loading.caption_noise import ShortCaptions, unless_said
from vsepp.training.loop import Objective
from vsepp.training.trainer import fastest_stepper

START, END = 1, 2
CAPTION = np.array([START, 10, 11, 12, 13, 14, END])


def cut(chance=0.3, count=3000, seeds=(0, 0, 3)):
    return ShortCaptions(chance, seeds).cut([CAPTION] * count, np.arange(count))


def test_as_many_as_chance_says_are_cut_to_one_to_three_words_in_a_row():
    captions = cut()
    is_short = np.array([len(caption) < len(CAPTION) for caption in captions])
    assert abs(is_short.mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / len(captions))
    short = [caption for caption, yes in zip(captions, is_short, strict=True) if yes]
    assert {len(caption) for caption in short} == {3, 4, 5}
    for caption in short:
        words = caption[1:-1].tolist()
        assert (caption[0], caption[-1]) == (START, END)
        assert words == list(range(words[0], words[0] + len(words)))
    assert {word for caption in short for word in caption[1:-1].tolist()} == set(range(10, 15))
    assert all(c is CAPTION for c, yes in zip(captions, is_short, strict=True) if not yes)


def test_what_is_shorter_already_stays_whole():
    captions = [np.array([START, 10, END]), np.array([START, END])]
    for number in range(50):
        same = ShortCaptions(1.0, (number,)).cut(captions, np.arange(2))
        assert all(np.array_equal(a, b) for a, b in zip(same, captions, strict=True))


def test_a_pair_is_cut_alike_wherever_it_stands_and_anew_in_every_epoch():
    together = cut()
    alone = ShortCaptions(0.3, (0, 0, 3)).cut([CAPTION], np.array([1234]))
    assert np.array_equal(alone[0], together[1234])
    assert sum(len(a) != len(b) for a, b in zip(cut(seeds=(0, 1, 3)), together, strict=True)) > 300


def test_by_hand_which_images_are_negatives():
    """Captions "dog" of "a dog on grass", "a red bus" and "dog on" of "a dog on a hill"; four images."""
    a, dog, on, grass, red, bus, hill, hund = range(10, 18)
    whole = [[a, dog, on, grass], [a, red, bus], [a, dog, on, a, hill]]
    short = [[dog], [a, red, bus], [dog, on]]
    whole, short = ([np.array([START, *w, END]) for w in some] for some in (whole, short))
    said = [{a, dog, on, grass}, {a, red, bus, on}, {a, dog}, {on, hund}]  # the last is German
    negatives = unless_said(short, whole, [np.array([START, END, *words]) for words in said])
    assert negatives.tolist() == [
        [False, True, False],
        [True, True, True],
        [False, True, True],
        [False, True, False],
    ]


def test_a_batch_counts_no_image_whose_captions_have_all_words():
    """Against loops over the pairs' own captions."""
    pairs = pairs_with_features()
    num_short = num_masked = 0
    for batch in pairs.batches(32, short_captions=0.5, seed=2):
        for place, (words, length) in enumerate(zip(batch.words, batch.lengths, strict=True)):
            caption = words[:length].tolist()
            said = [
                {w for n in np.flatnonzero(pairs.image_of_caption == image) for w in pairs.words[n].tolist()}
                for image in batch.image_ids.tolist()
            ]  # fmt: skip
            own = np.flatnonzero(pairs.image_of_caption == int(batch.image_ids[place]))
            captions = [pairs.words[n].tolist() for n in own]
            is_short = caption not in captions
            num_short += is_short
            if not is_short:
                assert batch.negatives[:, place].all()
            for words, counts in zip(said, batch.negatives[:, place].tolist(), strict=True):
                if is_short and set(caption) <= words:
                    assert not counts
                    num_masked += 1
    assert num_short > 40
    assert num_masked > num_short  # more than each caption's own image


def test_epochs_repeat_with_their_seed_and_every_process_has_the_same_negatives():
    pairs = pairs_with_features()
    first = list(pairs.batches(32, short_captions=0.5).epoch(1))
    again = list(pairs.batches(32, short_captions=0.5).epoch(1))
    half = list(pairs.batches(32, short_captions=0.5, share=lambda n: slice(n // 2, n)).epoch(1))
    for one, two, own in zip(first, again, half, strict=True):
        assert torch.equal(one.words, two.words)
        assert torch.equal(one.negatives, own.negatives)
        assert torch.equal(one.lengths[len(one) // 2 :], own.lengths)


@pytest.mark.parametrize("mask_same_image", [True, False])
def test_the_loss_leaves_them_out(mask_same_image):
    torch.manual_seed(0)
    scores = torch.randn(6, 6, dtype=torch.float64, requires_grad=True)
    image_ids, negatives = torch.tensor([0, 0, 1, 2, 2, 3]), torch.rand(6, 6) < 0.6
    total = torch.zeros((), dtype=torch.float64)
    objective = Objective(max_of_hinges, mask_same_image=mask_same_image)
    objective.backward([scores], image_ids, total, negatives=negatives)
    others = image_ids[:, None] != image_ids[None, :]
    expected = max_of_hinges(scores, negatives=negatives & others if mask_same_image else negatives)
    torch.testing.assert_close(total, expected.detach().sum())
    (gradient,) = torch.autograd.grad(expected.sum(), scores)
    torch.testing.assert_close(scores.grad, gradient)


def test_the_captured_stepper_takes_them_too():
    pairs = pairs_with_features()
    batches = pairs.batches(32, short_captions=0.5)
    assert fastest_stepper(small_model(), batches, torch.device("cuda")) == "captured"
