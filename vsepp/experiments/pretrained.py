"""Weights that a run does not begin with at random: a trained model's (`start_from`), and a file's vectors of words."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from vsepp.data.captioned import CaptionedImage, CaptionedImages, have_features
from vsepp.data.tokens import Vocabulary, read_word_vectors
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.start import snapshot_to_start_from
from vsepp.snapshots.snapshot import Snapshot

WORDS = "caption_encoder.words.weight"


def pretrained_model(
    recipe: Recipe, data: CaptionedImages, items: list[CaptionedImage]
) -> tuple[Vocabulary, Architecture, JointEmbedding]:
    """The model that was trained before; words that it does not know start at random."""
    keys, before = recipe.model, _snapshot_to_start_from(recipe)
    captions = (caption for item in items for caption in item.captions)
    _check_that_words_are_cut_alike(recipe, before.vocabulary)
    vocabulary = before.vocabulary.extended(captions, recipe.data.min_count)
    other = {key: getattr(keys, key) for key in recipe.differs_from_start}
    architecture = replace(before.architecture, num_words=len(vocabulary), **other)
    _check_crops(recipe, data, architecture)
    model = JointEmbedding.build(
        architecture, "none", keys.finetune, keys.fixed_statistics, keys.finetune_from
    )
    weights = before.model.state_dict()
    weights[WORDS] = _with_new_words(weights[WORDS], len(vocabulary))
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise WrongRequest(
            f"The weights of {recipe.start_from} do not fit the keys in differs_from_start: {error}"
        ) from error
    return vocabulary, architecture, model


def _check_that_words_are_cut_alike(recipe: Recipe, known: Vocabulary) -> None:
    """A model keeps the tokenizer that it was trained with; a recipe that asks for another is refused."""
    if recipe.data.cutter not in (None, known.cutter):
        raise WrongRequest(
            f"{recipe.name} splits captions by {recipe.data.words}, and {recipe.start_from} was trained "
            f"with {known.cutter or 'unicode'}. Train that model again, or keep its tokenizer: "
            "--set data.words=unicode"
        )


def _check_crops(recipe: Recipe, data: CaptionedImages, architecture: Architecture) -> None:
    """A model of ten crops is trained further on ten or on random ones, not on the center."""
    fits = recipe.crops_at_random or (recipe.data.crop == "ten") == (architecture.crops == 10)
    if not fits and not have_features(data.items):
        wanted = "ten" if architecture.crops == 10 else "center"
        raise WrongRequest(
            f"{recipe.start_from} takes {architecture.crops} crops of each image, and data.crop is "
            f"{recipe.data.crop}. Continue with the same crops: --set data.crop={wanted}"
        )


def _with_new_words(known: torch.Tensor, number: int) -> torch.Tensor:
    # known (W, E) -> (number, E); new ones are as large as the others
    return torch.cat([known, known.std() * torch.randn(number - len(known), known.shape[1])])


def _snapshot_to_start_from(recipe: Recipe) -> Snapshot:
    folder = snapshot_to_start_from(recipe.start_from)
    if folder is None:
        raise WrongRequest(
            f"{recipe.name} starts from {recipe.start_from}, and there is no such snapshot. "
            f"`vsepp reproduce {recipe.name}` trains both; or choose one: --set start_from=FOLDER"
        )
    return Snapshot.load(folder)


@torch.no_grad()
def load_word_vectors(file: str, words: nn.Embedding, vocabulary: Vocabulary) -> str:
    """Initialise words with a file's vectors (`model.word_vectors`); those that it lacks stay random."""
    path = Path(file).expanduser()
    known = vocabulary.words()
    found = read_word_vectors(path, known, words.embedding_dim)
    if not found:
        raise WrongRequest(
            f"{path} has none of the {len(known):,} words, such as {', '.join(known[:5])}. "
            "Is it a file of another language?"
        )
    vectors = torch.from_numpy(np.stack(list(found.values())))
    # A file's vectors have any length (spaCy's 48 on average, for Flickr8k's words; random ones 1). Long
    # ones dwarf the words that stay random, and learned less (benchmarks/LOG.md). So all are scaled by
    # one number to the length of random ones; how long one is beside another stays.
    vectors *= _typical_length(words.weight) / _typical_length(vectors)
    ids = torch.tensor([vocabulary.tokenizer.token_to_id(word) for word in found])
    words.weight[ids] = vectors
    return f"{path.name}: vectors for {len(found):,} of {len(known):,} words."


def _typical_length(vectors: Tensor) -> float:
    return float(vectors.square().sum(dim=1).mean().sqrt())
