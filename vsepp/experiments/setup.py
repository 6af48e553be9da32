"""Recipe + data -> a model, the words it will know, and the pairs to learn from and to validate on."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vsepp.data.captioned import CaptionedImage, CaptionedImages
from vsepp.data.pictures import View
from vsepp.data.tokens import Vocabulary, read_word_vectors
from vsepp.devices import ALONE, Processes, inference_batch_size
from vsepp.encoders.architecture import FEATURES, Architecture, Design
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.experiments.fitting import (
    check_that_features_fit,
    has_features,
    learns_from_features_alone,
    length_of_features,
)
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.start import snapshot_to_start_from
from vsepp.loading.batches import Pairs
from vsepp.loading.caption_noise import with_wrong_captions
from vsepp.snapshots.snapshot import Snapshot

WORDS = "caption_encoder.words.weight"


@dataclass(frozen=True)
class Setup:
    """All that a training needs before its first step."""

    model: JointEmbedding
    vocabulary: Vocabulary
    architecture: Architecture
    learned: Pairs
    validation: Pairs


def set_up(
    recipe: Recipe,
    data: CaptionedImages,
    device: torch.device,
    processes: Processes = ALONE,
    report: Callable[[str], None] = lambda text: None,
) -> Setup:
    data = data.with_captions(recipe.data.captions)
    items = data.training_items(recipe.data.train)
    if recipe.data.wrong_captions:
        items = with_wrong_captions(items, recipe.data.wrong_captions, recipe.seed)
    held_out = data.split(recipe.data.validate)[: recipe.data.validate_images or None]
    _check_that_processes_agree(recipe, items, held_out, processes)
    vocabulary, architecture, model = _new_or_pretrained(recipe, data, items, report)
    check_that_features_fit(architecture, model, data, recipe.model.finetune_from)
    model.to(device, torch.float64 if recipe.precision == "float64" else torch.float32)
    processes.broadcast(list(model.state_dict().values()))
    view = architecture.view
    learned = Pairs(items, vocabulary, _view_of_training(recipe, view))
    validation = Pairs(held_out, vocabulary, view)
    if not recipe.model.finetune:
        validation = with_features(model, validation, processes)
        if not recipe.crops_at_random:
            learned = with_features(model, learned, processes)
    learned, validation = (
        pairs.with_images(pairs.images.near(device)) for pairs in (learned, validation)
    )
    if recipe.precision != "float64":
        # Batch norms that wait for other processes cannot be compiled.
        compiled = recipe.compiled and processes.number == 1
        model.image_encoder.use_fast_training(compiled)
    return Setup(model, vocabulary, architecture, learned, validation)


def _new_or_pretrained(
    recipe: Recipe,
    data: CaptionedImages,
    items: list[CaptionedImage],
    report: Callable[[str], None],
) -> tuple[Vocabulary, Architecture, JointEmbedding]:
    """A model of random heads, or one that has been trained before, with the words it knows."""
    keys = recipe.model
    if not recipe.start_from:
        # differs from the release: its vocabulary counts validation and test captions, too
        captions = (caption for item in items for caption in item.captions)
        vocabulary = Vocabulary.learn(captions, recipe.data.min_count, _cutter(recipe))
        architecture = architecture_of(recipe, data, len(vocabulary))
        model = _build(architecture, recipe, keys.weights)
        if keys.word_vectors:
            words = model.caption_encoder.words
            report(load_word_vectors(keys.word_vectors, words, vocabulary))
        return vocabulary, architecture, model
    return _pretrained(recipe, data, items, _snapshot_to_start_from(recipe))


def _pretrained(
    recipe: Recipe, data: CaptionedImages, items: list[CaptionedImage], before: Snapshot
) -> tuple[Vocabulary, Architecture, JointEmbedding]:
    """The model that was trained before; words that it has not met begin at random."""
    keys = recipe.model
    captions = (caption for item in items for caption in item.captions)
    _check_that_words_are_cut_alike(recipe, before.vocabulary)
    vocabulary = before.vocabulary.extended(captions, recipe.data.min_count)
    other = {key: getattr(keys, key) for key in recipe.differs_from_start}
    architecture = replace(before.architecture, num_words=len(vocabulary), **other)
    _check_crops(recipe, data, architecture)
    model = _build(architecture, recipe, weights="none")
    weights = before.model.state_dict()
    weights[WORDS] = _with_new_words(weights[WORDS], len(vocabulary))
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise WrongRequest(
            f"{recipe.start_from} has weights of other sizes than differs_from_start asks for: {error}"
        ) from error
    return vocabulary, architecture, model


def _build(architecture: Architecture, recipe: Recipe, weights: str) -> JointEmbedding:
    keys = recipe.model
    return JointEmbedding.build(
        architecture, weights, keys.finetune, keys.fixed_statistics, keys.finetune_from
    )


def _cutter(recipe: Recipe) -> str | None:
    return None if recipe.data.words == "unicode" else recipe.data.words


def _check_that_words_are_cut_alike(recipe: Recipe, known: Vocabulary) -> None:
    """A model keeps the rules that it has learned its words by; a row that asks for others cannot be had."""
    if _cutter(recipe) not in (None, known.cutter):
        raise WrongRequest(
            f"{recipe.name} cuts words as {recipe.data.words}, and {recipe.start_from} was trained on words "
            f"cut as {known.cutter or 'unicode'}. Train it again, or go on with its words: "
            "--set data.words=unicode"
        )


def _check_crops(recipe: Recipe, data: CaptionedImages, architecture: Architecture) -> None:
    """Of pictures: a model of ten crops learns on from ten or from random ones, not from the middle."""
    fits = recipe.crops_at_random or (recipe.data.crop == "ten") == (architecture.crops == 10)
    if not fits and not has_features(data):
        wanted = "ten" if architecture.crops == 10 else "center"
        raise WrongRequest(
            f"{recipe.start_from} looks at {architecture.crops} crops of a picture, and data.crop is "
            f"{recipe.data.crop}. Learn on as it began: --set data.crop={wanted}"
        )


def _with_new_words(known: torch.Tensor, number: int) -> torch.Tensor:
    # known (W, E) -> (number, E); new ones are as large as the others
    return torch.cat([known, known.std() * torch.randn(number - len(known), known.shape[1])])


def _snapshot_to_start_from(recipe: Recipe) -> Snapshot:
    folder = snapshot_to_start_from(recipe.start_from)
    if folder is None:
        raise WrongRequest(
            f"{recipe.name} starts from the model {recipe.start_from}, which is no snapshot here. "
            f"vsepp reproduce {recipe.name} trains both; or name one: --set start_from=FOLDER"
        )
    return Snapshot.load(folder)


def architecture_of(recipe: Recipe, data: CaptionedImages, num_words: int) -> Architecture:
    keys: dict[str, Any] = {f.name: getattr(recipe.model, f.name) for f in fields(Design)}
    crops = 10 if recipe.data.crop == "ten" else 1
    if learns_from_features_alone(recipe, data):
        keys["backbone"] = f"{FEATURES}{length_of_features(data)}"
        crops = (data.origin or {}).get("crops", crops)
    return Architecture(num_words=num_words, crops=crops, **keys)


def _view_of_training(recipe: Recipe, view: View) -> View:
    size, area = recipe.data.crop_size or view.size, recipe.data.crop_area
    squeezed = view.square and (recipe.data.crop_squeezed or not recipe.crops_at_random)
    from_ = recipe.data.crop_from
    return replace(view, size=size, least_area=area, square=squeezed, crop_from=from_)


@torch.no_grad()
def with_features(model: JointEmbedding, pairs: Pairs, processes: Processes = ALONE) -> Pairs:
    """Sec. 3: what a frozen net makes of a fixed crop can be computed once and reused."""
    if pairs.images.are_features:
        return pairs
    device = next(model.parameters()).device
    model.eval()
    batches = pairs.image_batches(inference_batch_size(device), processes.share)
    features = torch.cat([model.image_encoder.features(batch.to(device)) for batch in batches])
    return pairs.with_features(processes.gathered(features, len(pairs.items)))


def check_that_every_process_has_a_pair(recipe: Recipe, processes: Processes) -> None:
    if processes.number > recipe.batch_size:
        raise WrongRequest(
            f"{processes.number} processes share batches of {recipe.batch_size} pairs, and some would "
            f"never have one. Start fewer (--nproc-per-node), or take larger batches: "
            f"--set batch_size={processes.number}"
        )


def _check_that_processes_agree(
    recipe: Recipe,
    learned: Sequence[CaptionedImage],
    held_out: Sequence[CaptionedImage],
    processes: Processes,
) -> None:
    """A process that sees other data would spoil the training without an error."""
    facts: dict[str, Any] = {
        f"the recipe's {key}": value for key, value in recipe.as_dict().items()
    }
    facts["the pictures to learn from"] = _digest_of(learned)
    facts["the pictures to validate on"] = _digest_of(held_out)
    processes.agree(facts)


def _digest_of(items: Sequence[CaptionedImage]) -> str:
    digest = hashlib.sha256()
    for item in items:
        digest.update("\n".join((item.key, *item.captions, "")).encode())
    return f"{len(items):,} ({digest.hexdigest()[:8]})"


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
