"""One model whose weights are the mean of several models' weights.

Models that learned from one start, in another order, end close enough to each other that the mean lies lower
than each of them: the gain of an ensemble for the price of one model. Models of different starts have nothing
in common, and their mean is noise.


Shorter vectors with nearly the same inner products: the space's principal directions, and no others.

A rotation leaves inner products alone, and most of a space's directions carry next to nothing. Both
encoders end in a linear map or can be given one, so the rotation goes into W_f and W_g: the result is an
ordinary model of fewer dimensions, no slower, whose collections take a fraction of the room.


Vocabulary expansion: words that no training caption had get vectors from a large set of word vectors.

A linear map that was fitted on the words that both know takes vectors of the large set to the model's own (Kiros et
al., Skip-Thought Vectors, 2015, Sec. 2.2). Words that the model has learned keep what they have learned."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsepp.encoders.caption import CaptionEncoder
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
        raise WrongRequest("A mean takes at least two models.")
    first = snapshots[0]
    for place, other in enumerate(snapshots[1:], 2):
        if other.architecture != first.architecture:
            raise WrongRequest(f"A mean needs one architecture: number {place} has another.")
        if other.vocabulary.words() != first.vocabulary.words():
            raise WrongRequest(f"A mean needs the same words: number {place} knows others.")


def principal_directions(images: Tensor, captions: Tensor, dim: int) -> Tensor:
    """Of image vectors (N, D) and caption vectors (C, D), equally weighted -> (D, dim), orthonormal."""
    spreads = [part.double().T @ part.double() / len(part) for part in (images, captions)]
    directions: Tensor = torch.linalg.eigh(spreads[0] + spreads[1])[1]  # the smallest come first
    return directions[:, -dim:].flip(1)


def reduce_dimensions(snapshot: Snapshot, images: Tensor, captions: Tensor, dim: int) -> Snapshot:
    """The model with a space of `dim` dimensions; the vectors are its own, of typical data."""
    _check_shortenable(snapshot, dim)
    before, model = snapshot.architecture, snapshot.model
    plan = replace(before, dim=dim, hidden=before.hidden or before.dim, project_captions=True)
    directions = principal_directions(images.cpu(), captions.cpu(), dim)
    weights = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    _turn(weights, "image_encoder", directions)
    if "caption_encoder.linear.weight" not in weights:  # the GRU's states are the vectors
        weights["caption_encoder.linear.weight"] = torch.eye(before.dim)
        weights["caption_encoder.linear.bias"] = torch.zeros(before.dim)
    _turn(weights, "caption_encoder", directions)
    short = JointEmbedding.build(plan)
    short.load_state_dict(weights)
    return replace(snapshot, model=short.eval(), architecture=plan)


def _turn(weights: dict[str, Tensor], encoder: str, directions: Tensor) -> None:
    """Let an encoder's last linear map end in these directions (D, dim)."""
    for name in (f"{encoder}.linear.weight", f"{encoder}.linear.bias"):
        weights[name] = (directions.T @ weights[name].double()).float()


def _check_shortenable(snapshot: Snapshot, dim: int) -> None:
    plan = snapshot.architecture
    if not 0 < dim <= plan.dim:
        raise WrongRequest(f"The space has {plan.dim} dimensions: keep 1 to {plan.dim}, not {dim}.")
    turnable = plan.similarity == "inner_product" and plan.normalize_images and not plan.absolute
    if not turnable or not isinstance(snapshot.model.caption_encoder, CaptionEncoder):
        raise WrongRequest(
            "Only models of unit vectors and inner products, with a GRU for captions, can be "
            f"shortened: others depend on their axes or lengths (this one uses {plan.similarity})."
        )


RIDGE = 0.01  # of the mean square of a coordinate: 0.0005 to 0.05 give the same recall
FOLDS = 10
WORDS = "caption_encoder.words.weight"

Matrix = NDArray[np.floating]


@dataclass(frozen=True)
class Fit:
    """How well the map predicts words that it was not fitted on."""

    words: int  # that both know
    explained: float  # of the variance of the model's vectors, by ten-fold cross-validation


def expand_vocabulary(
    snapshot: Snapshot, vectors: Mapping[str, NDArray[np.float32]], words: Iterable[str]
) -> tuple[Snapshot, Fit]:
    """The model with these words beside its own; `vectors` has them and words that the model knows."""
    known = [word for word in snapshot.vocabulary.words() if word in vectors]
    theirs = _rows(vectors, known)
    ours = _learned(snapshot, known)
    if len(known) <= theirs.shape[1]:
        raise WrongRequest(
            f"Only {len(known):,} of the model's words are in the file. A map from {theirs.shape[1]} "
            "dimensions needs more than that: is it a file of another language?"
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
    """Of vectors that were left out when the map was fitted, a tenth at a time."""
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
