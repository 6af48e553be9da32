"""Models made from models: averaged weights, fewer dimensions, smaller images, more words.

Averaging: fine-tunings of one checkpoint, in another order, end close enough to each other that their mean has a
lower loss than each: the gain of an ensemble for the price of one model. Models from different checkpoints have
nothing in common, and their mean is noise.

Fewer dimensions: a rotation keeps inner products, and most directions of a space carry next to nothing. Both
encoders end in a linear map or can be given one, so the rotation goes into W_f and W_g.

Smaller images: a net takes less time for them. A vision transformer's positions are interpolated.

More words: a ridge regression, fitted on the words that both know, maps a file of word vectors to the model's own
(Kiros et al., Skip-Thought Vectors, 2015, Sec. 2.2). Words that the model knows keep their vectors.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsepp.encoders.backbones import set_input_size
from vsepp.encoders.caption import GRUEncoder
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.snapshots.snapshot import Snapshot


def average_weights(snapshots: Sequence[Snapshot]) -> Snapshot:
    """The mean of their weights; words and notes are the first one's."""
    _check_same_kind(snapshots)
    first = snapshots[0]
    states = [snapshot.model.state_dict() for snapshot in snapshots]
    model = JointEmbedding.build(first.architecture)
    model.load_state_dict({name: _mean([state[name] for state in states]) for name in states[0]})
    return replace(first, model=model.eval())


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    if not tensors[0].is_floating_point():  # a batch norm's count of its batches
        return tensors[0]
    return torch.stack([tensor.double() for tensor in tensors]).mean(0).to(tensors[0])


def _check_same_kind(snapshots: Sequence[Snapshot]) -> None:
    if len(snapshots) < 2:
        raise WrongRequest("Averaging takes at least two models.")
    first = snapshots[0]
    for place, other in enumerate(snapshots[1:], 2):
        if other.architecture != first.architecture:
            raise WrongRequest(f"Averaging needs one architecture: model {place} has another.")
        if other.vocabulary.words() != first.vocabulary.words():
            raise WrongRequest(f"Averaging needs one vocabulary: model {place} has another.")


def principal_directions(images: Tensor, captions: Tensor, dim: int) -> Tensor:
    """Of image vectors (N, D) and caption vectors (C, D), equally weighted -> (D, dim), orthonormal."""
    spreads = [part.double().T @ part.double() / len(part) for part in (images, captions)]
    directions: Tensor = torch.linalg.eigh(spreads[0] + spreads[1])[1]  # the smallest come first
    return directions[:, -dim:].flip(1)


def reduce_dimensions(snapshot: Snapshot, images: Tensor, captions: Tensor, dim: int) -> Snapshot:
    """The model with `dim` dimensions; `images` and `captions` are its vectors of typical data."""
    _check_shortenable(snapshot, dim)
    before, model = snapshot.architecture, snapshot.model
    plan = replace(before, dim=dim, hidden=before.hidden or before.dim, project_captions=True)
    directions = principal_directions(images.cpu(), captions.cpu(), dim)
    weights = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    _rotate(weights, "image_encoder", directions)
    if "caption_encoder.linear.weight" not in weights:  # the GRU's states are the vectors
        weights["caption_encoder.linear.weight"] = torch.eye(before.dim)
        weights["caption_encoder.linear.bias"] = torch.zeros(before.dim)
    _rotate(weights, "caption_encoder", directions)
    short = JointEmbedding.build(plan)
    short.load_state_dict(weights)
    return replace(snapshot, model=short.eval(), architecture=plan)


def _rotate(weights: dict[str, Tensor], encoder: str, directions: Tensor) -> None:
    """Rotate the output of an encoder's last linear map into these directions (D, dim)."""
    for name in (f"{encoder}.linear.weight", f"{encoder}.linear.bias"):
        weights[name] = (directions.T @ weights[name].double()).float()


def _check_shortenable(snapshot: Snapshot, dim: int) -> None:
    plan = snapshot.architecture
    if not 0 < dim <= plan.dim:
        raise WrongRequest(f"The model has {plan.dim} dimensions: keep 1 to {plan.dim}, not {dim}.")
    can_rotate = plan.similarity == "inner_product" and plan.normalize_images and not plan.absolute
    if not can_rotate or not isinstance(snapshot.model.caption_encoder, GRUEncoder):
        raise WrongRequest(
            "Only models with unit vectors, inner products and a GRU can be shortened: others depend on "
            f"axes or lengths (this one uses {plan.similarity})."
        )


def reduce_word_dimensions(snapshot: Snapshot, word_dim: int) -> Snapshot:
    """The model with shorter word vectors: the best product of rank `word_dim` of words and the GRU's input weights."""
    before = snapshot.architecture
    if not isinstance(snapshot.model.caption_encoder, GRUEncoder) or before.bidirectional:
        raise WrongRequest("Only words of a GRU of one direction can be shortened.")
    weights = {name: tensor.cpu() for name, tensor in snapshot.model.state_dict().items()}
    words, inputs = weights[WORDS].double(), weights[INPUTS].double()
    most = min(*words.shape, len(inputs))  # the rank that their product can have
    if not 0 < word_dim <= most:
        raise WrongRequest(
            f"{len(words):,} words of {before.word_dim} dimensions, read by {len(inputs):,} numbers of a GRU, need "
            f"{most} at most: keep 1 to {most}, not {word_dim}."
        )
    scaled, triangle = torch.linalg.qr(words)  # products of a word's 1,536 numbers would be large
    left, values, right = torch.linalg.svd(triangle @ inputs.T, full_matrices=False)
    roots = values[:word_dim].sqrt()
    short = scaled @ left[:, :word_dim] * roots
    # Numbers of words stay as large as they were, so that further training takes steps as large for them.
    scale = words.square().mean().sqrt() / short.square().mean().sqrt()
    weights[WORDS] = (short * scale).float()
    weights[INPUTS] = (right[:word_dim].T * roots / scale).float()
    plan = replace(before, word_dim=word_dim)
    model = JointEmbedding.build(plan)
    model.load_state_dict(weights)
    return replace(snapshot, model=model.eval(), architecture=plan)


LARGEST = 2_048  # pixels; a transformer's time grows with the fourth power of the side


def resize_images(snapshot: Snapshot, size: int) -> Snapshot:
    """The model for images of another size, cut from the same share of a photo."""
    before = snapshot.architecture
    if not 1 <= size <= LARGEST or before.takes_features:
        raise WrongRequest(
            f"Choose a size of 1 to {LARGEST:,} pixels, not {size:,}, and a model that takes images."
        )
    plan = replace(before, size=size, resize=round(size * before.resize / before.size))
    encoder = deepcopy(snapshot.model.cpu()).image_encoder
    try:
        set_input_size(encoder.backbone.net, size)
        model = JointEmbedding.build(plan)
        images = {f"image_encoder.{k}": weight for k, weight in encoder.state_dict().items()}
        model.load_state_dict(snapshot.model.state_dict() | images)
    except (AssertionError, RuntimeError) as error:
        raise WrongRequest(
            f"{before.backbone} of {before.size} pixels cannot take {size}: {error}"
        ) from error
    return replace(snapshot, model=model.eval(), architecture=plan)


RIDGE = 0.01  # relative to the mean square of a coordinate; 0.0005 to 0.05 give the same recall
FOLDS = 10
WORDS, INPUTS = "caption_encoder.words.weight", "caption_encoder.gru.weight_ih_l0"

Matrix = NDArray[np.floating]


@dataclass(frozen=True)
class Fit:
    """How well the map predicts held-out words."""

    words: int  # known to both
    explained: float  # of the variance of the model's vectors, by ten-fold cross-validation


def expand_vocabulary(
    snapshot: Snapshot, vectors: Mapping[str, NDArray[np.float32]], words: Iterable[str]
) -> tuple[Snapshot, Fit]:
    """The model with more words; `vectors` has these and words that the model knows."""
    known = [word for word in snapshot.vocabulary.words() if word in vectors]
    theirs = _rows(vectors, known)
    ours = _learned(snapshot, known)
    if len(known) <= theirs.shape[1]:
        raise WrongRequest(
            f"Only {len(known):,} of the model's words are in the file, too few for a map from "
            f"{theirs.shape[1]} dimensions. Is it a file of another language?"
        )
    vocabulary = snapshot.vocabulary.with_words(word for word in words if word in vectors)
    new = vocabulary.words()[len(snapshot.vocabulary.words()) :]
    if not new:
        raise WrongRequest("The model knows all of these words already.")
    predicted = apply(linear_map(theirs, ours), _rows(vectors, new))
    plan = replace(snapshot.architecture, num_words=len(vocabulary))
    weights = {name: tensor.cpu() for name, tensor in snapshot.model.state_dict().items()}
    weights[WORDS] = torch.cat([weights[WORDS], torch.from_numpy(predicted).to(weights[WORDS])])
    model = JointEmbedding.build(plan)
    model.load_state_dict(weights)
    fit = Fit(len(known), explained_variance(theirs, ours))
    return replace(snapshot, model=model.eval(), architecture=plan, vocabulary=vocabulary), fit


def linear_map(theirs: Matrix, ours: Matrix) -> Matrix:
    """Ridge regression with an intercept, which is not shrunk."""
    # theirs (W, E), ours (W, F) -> (E + 1, F)
    inputs = _with_one(theirs)
    gram = inputs.T @ inputs
    gram[np.diag_indices(theirs.shape[1])] += RIDGE * len(theirs) * np.square(theirs).mean()
    solution: Matrix = np.linalg.solve(gram, inputs.T @ ours)
    return solution


def apply(weights: Matrix, theirs: Matrix) -> Matrix:
    product: Matrix = _with_one(theirs) @ weights
    return product


def explained_variance(theirs: Matrix, ours: Matrix) -> float:
    """Share of the variance of held-out vectors, by ten-fold cross-validation."""
    fold = np.random.default_rng(0).permutation(len(theirs)) % FOLDS
    error = 0.0
    for number in range(FOLDS):
        inside, outside = fold != number, fold == number
        weights = linear_map(theirs[inside], ours[inside])
        error += float(np.square(apply(weights, theirs[outside]) - ours[outside]).sum())
    return 1 - error / float(np.square(ours - ours.mean(axis=0)).sum())


def _learned(snapshot: Snapshot, words: Sequence[str]) -> Matrix:
    table = snapshot.model.state_dict()[WORDS]
    ids = [snapshot.vocabulary.tokenizer.token_to_id(word) for word in words]
    learned: Matrix = table[ids].double().cpu().numpy()
    return learned


def _rows(vectors: Mapping[str, NDArray[np.float32]], words: Sequence[str]) -> Matrix:
    if not words:
        return np.zeros((0, len(next(iter(vectors.values()), ()))))
    rows: Matrix = np.stack([vectors[word] for word in words]).astype(np.float64)
    return rows


def _with_one(rows: Matrix) -> Matrix:
    return np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
