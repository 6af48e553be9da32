"""Recipe + data -> a model, the words it will know, and the pairs to learn from and to validate on."""

from dataclasses import dataclass, fields
from typing import Any

import torch

from vsepp.data.batches import Pairs
from vsepp.data.captioned import CaptionedImage, CaptionedImages
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import FEATURES, Architecture, Design
from vsepp.encoders.joint import JointEmbedding
from vsepp.experiments.fitting import check_that_features_fit, length_of_features
from vsepp.experiments.recipe import Recipe


@dataclass(frozen=True)
class Setup:
    """All that a training needs before its first step."""

    model: JointEmbedding
    vocabulary: Vocabulary
    architecture: Architecture
    learned: Pairs
    validation: Pairs


def set_up(recipe: Recipe, data: CaptionedImages, device: torch.device) -> Setup:
    items = [item for split in recipe.data.train for item in data.split(split)]
    held_out = data.split(recipe.data.validate)
    captions = (caption for item in items for caption in item.captions)
    vocabulary = Vocabulary.learn(captions, recipe.data.min_count)
    architecture = architecture_of(recipe, data, len(vocabulary))
    model = JointEmbedding.build(architecture, recipe.model.weights, recipe.model.finetune)
    check_that_features_fit(architecture, model, data)
    model.to(device)
    return Setup(
        model,
        vocabulary,
        architecture,
        _pairs(recipe, model, vocabulary, architecture, items, is_random=recipe.crops_at_random),
        _pairs(recipe, model, vocabulary, architecture, held_out, is_random=False),
    )


def architecture_of(recipe: Recipe, data: CaptionedImages, num_words: int) -> Architecture:
    keys: dict[str, Any] = {f.name: getattr(recipe.model, f.name) for f in fields(Design)}
    crops = 10 if recipe.data.crop == "ten" else 1
    if recipe.model.backbone == "features":
        keys["backbone"] = f"{FEATURES}{length_of_features(data)}"
        crops = (data.origin or {}).get("crops", 1)
    return Architecture(num_words=num_words, crops=crops, **keys)


def _pairs(
    recipe: Recipe,
    model: JointEmbedding,
    vocabulary: Vocabulary,
    architecture: Architecture,
    items: list[CaptionedImage],
    is_random: bool,
) -> Pairs:
    """A split; as features where the net makes the same of a picture every time."""
    pairs = Pairs(items, vocabulary, architecture.view)
    if recipe.model.finetune or is_random or pairs.features is not None:
        return pairs
    return with_features(model, pairs)


@torch.no_grad()
def with_features(model: JointEmbedding, pairs: Pairs) -> Pairs:
    """Sec. 3: what a frozen net makes of a fixed crop can be computed once and reused."""
    device = next(model.parameters()).device
    model.eval()
    features = [model.image_encoder.features(batch.to(device)) for batch in pairs.image_batches()]
    return pairs.with_features(torch.cat(features))
