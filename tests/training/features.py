"""A few pairs whose pictures are features, and a small model for them."""

from pathlib import Path

import numpy as np
import torch

from vsepp.data.batches import Pairs
from vsepp.data.captioned import CaptionedImage
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding

NUM_FEATURES = 24


def pairs_with_features(num_images=50, seed=0):
    """Three captions of 1 to 12 words per image."""
    generator = np.random.default_rng(seed)
    items = [
        CaptionedImage(
            str(number),
            Path(),
            tuple(
                " ".join(
                    f"w{word}" for word in generator.integers(0, 40, generator.integers(1, 13))
                )
                for _ in range(3)
            ),
            "train",
        )
        for number in range(num_images)
    ]
    vocabulary = Vocabulary.learn([" ".join(f"w{word}" for word in range(40))])
    torch.manual_seed(seed)
    return Pairs(items, vocabulary).with_features(torch.randn(num_images, NUM_FEATURES))


def small_model(**design):
    torch.manual_seed(1)
    keys = {"dim": 16, "word_dim": 8, "backbone": f"features:{NUM_FEATURES}", **design}
    return JointEmbedding.build(Architecture(num_words=44, **keys))
