"""A few pairs whose pictures are features, and a small model for them."""

from pathlib import Path

import numpy as np
import torch

from vsepp.data.captioned import CaptionedImage
from vsepp.data.tokens import Vocabulary
from vsepp.devices import ALONE
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.loading.batches import Pairs, Teacher
from vsepp.training.divided import DividedStepper
from vsepp.training.loop import PlainStepper, Updater
from vsepp.training.trainer import adam

NUM_FEATURES = 24


def pairs_with_features(num_images=50, seed=0, longest=0):
    """Three captions of 1 to 12 words per image; the very first may have more."""
    generator = np.random.default_rng(seed)

    def caption(least=1):
        words = generator.integers(0, 40, max(least, generator.integers(1, 13)))
        return " ".join(f"w{word}" for word in words)

    items = [
        CaptionedImage(str(number), Path(), tuple(caption() for _ in range(3)), "train")
        for number in range(num_images)
    ]
    if longest:
        captions = (caption(longest), *items[0].captions[1:])
        items[0] = CaptionedImage("0", Path(), captions, "train")
    vocabulary = Vocabulary.learn([" ".join(f"w{word}" for word in range(40))])
    torch.manual_seed(seed)
    return Pairs(items, vocabulary).with_features(torch.randn(num_images, NUM_FEATURES))


def small_model(**design):
    torch.manual_seed(1)
    keys = {"dim": 16, "word_dim": 8, "backbone": f"features:{NUM_FEATURES}", **design}
    return JointEmbedding.build(Architecture(num_words=44, **keys))


def plain_stepper(model, chunk_size=None, processes=ALONE):
    updater, device = Updater(model, adam(model), 0.0), torch.device("cpu")
    if chunk_size or processes.number > 1:
        return DividedStepper(model, [], updater, device, "float32", chunk_size, processes)
    return PlainStepper(model, [], updater, device)


def random_teacher(pairs, dim=40):
    """Unit vectors of nobody, for every image and caption."""
    generator = torch.Generator().manual_seed(2)
    images, captions = (
        torch.nn.functional.normalize(torch.randn(count, dim, generator=generator))
        for count in (len(pairs.items), len(pairs))
    )
    return Teacher(images, captions)
