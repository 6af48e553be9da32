from pathlib import Path

import numpy as np
import pytest
import torch

from vsepp.data.captioned import CaptionedImage
from vsepp.data.pictures import View
from vsepp.data.resources import AHEAD, Budget
from vsepp.data.tokens import Vocabulary
from vsepp.loading.batches import Pairs, pad
from vsepp.loading.images import PicturesInMemory


@pytest.fixture(scope="module")
def pairs(world):
    items = world.split("train")
    return Pairs(items, Vocabulary.learn(c for i in items for c in i.captions), View(64, 64))


def test_padding_by_hand():
    words, lengths = pad([np.array([1, 2]), np.array([3]), np.array([4, 5, 6])])
    assert words.tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]]
    assert lengths.tolist() == [2, 1, 3]


def test_an_epoch_meets_every_pair_once(pairs):
    seen = [
        (int(b), tuple(w.tolist()))
        for batch in pairs.batches(32)
        for b, w in zip(
            batch.image_ids,
            [x[:n] for x, n in zip(batch.words, batch.lengths, strict=True)],
            strict=True,
        )
    ]
    expected = [
        (int(i), tuple(w.tolist()))
        for i, w in zip(pairs.image_of_caption, pairs.words, strict=True)
    ]
    assert sorted(seen) == sorted(expected)
    assert len(pairs.batches(32)) == len(list(pairs.batches(32)))


def test_a_picture_stands_beside_its_caption(pairs):
    batch = next(iter(pairs.batches(16)))
    for image, number in zip(batch.images, batch.image_ids.tolist(), strict=True):
        expected = np.asarray(pairs.items[number].path.open(64)).transpose(2, 0, 1)
        assert np.array_equal(image, expected)


@pytest.mark.parametrize("crop", ["center", "random_resized"])
def test_batches_repeat_with_their_seed(pairs, crop):
    def epochs(seed):
        batches = pairs.batches(32, crop, seed)
        return [torch.cat([b.images.flatten(1).float().mean(1) for b in batches]) for _ in range(2)]

    first, second, other = epochs(0), epochs(0), epochs(1)
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])


def test_a_long_caption_does_not_make_room_for_many():
    """3,000 words, filled up a thousand times, would take gigabytes as states of a GRU."""
    items = [
        CaptionedImage(str(n), Path(), ("word " * length,), "train")
        for n, length in enumerate([5] * 30 + [500, 3_000])
    ]
    pairs = Pairs(items, Vocabulary.learn(["word " * 4]))
    batches = list(pairs.caption_batches(10))
    assert [words.shape for _, words, _ in batches] == 3 * [(10, 7)] + [(1, 502), (1, 3_002)]
    assert torch.equal(torch.cat([numbers for numbers, _, _ in batches]), torch.arange(32))


def test_caption_batches_cover_all_in_order_of_length(pairs):
    numbers, lengths = [], []
    for chosen, words, sizes in pairs.caption_batches(100):
        assert words.shape == (len(chosen), int(sizes.max()))
        numbers += chosen.tolist()
        lengths += sizes.tolist()
    assert sorted(numbers) == list(range(len(pairs)))
    assert lengths == sorted(lengths)


def test_features_take_the_place_of_pictures(pairs):
    features = torch.arange(len(pairs.items))[:, None].float()
    with_features = pairs.with_features(features)
    batch = next(iter(with_features.batches(16)))
    assert torch.equal(batch.images[:, 0].long(), batch.image_ids)
    assert torch.equal(torch.cat(list(with_features.image_batches(7))), features)
    assert with_features.images.are_features and not pairs.images.are_features


def test_pictures_are_kept_only_while_they_fit(world):
    pictures = PicturesInMemory(world.items, View(64, 64), memory=15 * 64 * 64)
    for index in range(10):
        pictures.take([index])
    assert len(pictures._kept) == 5
    assert sum(pixels.nbytes for pixels in pictures._kept.values()) == 15 * 64 * 64


def test_training_and_validation_share_one_budget(world, monkeypatch):
    budget = Budget(15 * 64 * 64)
    monkeypatch.setattr("vsepp.loading.images.picture_budget", lambda: budget)
    training, validation = (PicturesInMemory(world.items, View(64, 64)) for _ in range(2))
    for index in range(3):
        training.take([index])
        validation.take([index, index + 1])
    assert (len(training._kept), len(validation._kept)) == (2, 3)


def test_many_cores_do_not_begin_many_batches(world, monkeypatch):
    monkeypatch.setattr("vsepp.data.resources.num_threads", lambda: 64)
    begun = []
    pairs = Pairs(world.items, Vocabulary.learn(["a"]), View(64, 64))
    make = pairs.batch
    monkeypatch.setattr(pairs, "batch", lambda *args: begun.append(1) or make(*args))
    batches = iter(pairs.batches(4))
    next(batches)
    assert len(begun) <= AHEAD + 1
    assert len(list(batches)) == len(pairs) // 4 - 1
    assert len(begun) == len(pairs) // 4


def test_an_epoch_may_have_some_captions_of_each_picture(pairs):
    batches = pairs.batches(32, captions_of_each=1)
    orders = [batches.epoch(number).order for number in range(2)]
    images = [pairs.image_of_caption[order] for order in orders]
    assert all(sorted(some) == list(range(len(pairs.items))) for some in images)
    assert set(orders[0]) != set(orders[1])  # other captions in the next epoch
    assert len(batches) == len(list(batches)) == -(-len(pairs.items) // 32)
    all_of_each, whole = pairs.batches(32, captions_of_each=99), pairs.batches(32)
    assert np.array_equal(all_of_each.epoch(0).order, whole.epoch(0).order)
