"""A collection of COCO's size and shape, made up: features and captions that mean nothing.

Captions have COCO's lengths (10.5 words on average, the longest of 128 about 21) and words that are as
unevenly frequent as words are.
"""

from pathlib import Path

import numpy as np
import torch

from vsepp.data.captioned import CaptionedImage
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.loading.batches import Pairs

IMAGES, FEATURES, WORDS = 82_783, 4_096, 10_000
# Percent of the captions that have 7, 8, ... words; a thin tail of up to 50 takes the rest.
LENGTHS = (0.9, 14.6, 22.3, 22.0, 16.0, 9.9, 5.6, 3.2, 1.9, 1.2, 0.7, 0.5, 0.35, 0.25, 0.18, 0.13, 0.1, 0.07, 0.05)  # fmt: skip


def coco_like(num_images: int = IMAGES, seed: int = 0) -> tuple[Pairs, Vocabulary]:
    """Five captions per image; the words w0, w1, ... follow Zipf's law."""
    generator = np.random.default_rng(seed)
    lengths = _lengths(5 * num_images, generator)
    chances = 1 / np.arange(1, WORDS + 1)
    words = generator.choice(WORDS, size=lengths.sum(), p=chances / chances.sum())
    names = np.array([f"w{number}" for number in range(WORDS)], dtype=object)[words]
    captions = [" ".join(part) for part in np.split(names, lengths.cumsum()[:-1])]
    items = [
        CaptionedImage(str(number), Path(), tuple(captions[5 * number : 5 * number + 5]), "train")
        for number in range(num_images)
    ]
    vocabulary = Vocabulary.learn([" ".join(f"w{number}" for number in range(WORDS))])
    torch.manual_seed(seed)
    return Pairs(items, vocabulary).with_features(torch.randn(num_images, FEATURES)), vocabulary


def _lengths(number: int, generator: np.random.Generator) -> np.ndarray:
    tail = 0.82 ** np.arange(25)
    share = np.concatenate((LENGTHS, (100 - sum(LENGTHS)) * tail / tail.sum()))
    return generator.choice(np.arange(7, 7 + len(share)), size=number, p=share / share.sum())


def model(similarity: str = "inner_product", seed: int = 0) -> JointEmbedding:
    """The paper's sizes: words of 300, a GRU and a joint space of 1,024."""
    torch.manual_seed(seed)
    backbone = f"features:{FEATURES}"
    return JointEmbedding.build(
        Architecture(num_words=WORDS + 4, backbone=backbone, similarity=similarity)
    )
