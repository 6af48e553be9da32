"""Weights that a run does not begin with at random: a trained model's (`start_from`), and a file's vectors of words."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from vsepp.data.captioned import CaptionedImage, CaptionedImages, have_features
from vsepp.data.pictures import View
from vsepp.data.tokens import Vocabulary, read_word_vectors
from vsepp.devices import ALONE, Processes, autocast
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.similarity import normalize
from vsepp.errors import WrongRequest
from vsepp.evaluation.retrieval import embed_captions
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.recipes.start import snapshot_to_start_from
from vsepp.experiments.stored_features import with_features
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot
from vsepp.snapshots.surgery import linear_map

FITTED_ON = 4_000  # images
WORDS, IMAGES = "caption_encoder.words.weight", "image_encoder."


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
    net = keys.weights if _has_other_net(recipe) else "none"
    if _has_other_net(recipe) and net == "none" and keys.finetune_from:
        raise WrongRequest(
            f"Before {keys.finetune_from}, {keys.backbone} would stay at random weights: "
            "set model.weights to a file of its weights, or to timm."
        )
    model = JointEmbedding.build(
        architecture, net, keys.finetune, keys.fixed_statistics, keys.finetune_from
    )
    weights = before.model.state_dict()
    if _has_other_net(recipe):  # then only what the start knows of captions goes on
        of_net = {key: weight for key, weight in model.state_dict().items() if IMAGES in key}
        weights = {key: weight for key, weight in weights.items() if IMAGES not in key} | of_net
    weights[WORDS] = _with_new_words(weights[WORDS], len(vocabulary))
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise WrongRequest(
            f"The weights of {recipe.start_from} do not fit the keys in differs_from_start: {error}"
        ) from error
    return vocabulary, architecture, model


def _has_other_net(recipe: Recipe) -> bool:
    return "backbone" in recipe.differs_from_start


@torch.no_grad()
def fit_other_net(
    recipe: Recipe, model: JointEmbedding, items: list[CaptionedImage], vocabulary: Vocabulary, view: View,
    processes: Processes = ALONE,
) -> None:  # fmt: skip
    """Where the net is not its start's, bring its features into the space that captions have already: a ridge
    regression to the mean of an image's captions. A map of random weights would first pull everything after it."""
    if not _has_other_net(recipe):
        return
    pairs = Pairs(items[:FITTED_ON], vocabulary, view, memory=0)  # every image is needed once
    captions = embed_captions(model, pairs, processes)
    images = torch.from_numpy(pairs.image_of_caption).to(captions.device)
    means = captions.new_zeros(len(pairs.items), captions.shape[1]).index_add(0, images, captions)
    encoder = model.image_encoder
    with autocast(encoder.linear.weight, on_cpu=True):  # precise enough for a start
        features = with_features(model, pairs, processes).images.take(range(len(pairs.items)))
    inputs = normalize(features) if encoder.normalize_features else features
    fitted = linear_map(*(rows.double().cpu().numpy() for rows in (inputs, normalize(means))))
    encoder.linear.weight.copy_(torch.from_numpy(fitted[:-1].T))
    encoder.linear.bias.copy_(torch.from_numpy(fitted[-1]))


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
