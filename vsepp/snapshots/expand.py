"""Vocabulary expansion: words that no training caption had get vectors from a large set of word vectors.

A linear map that was fitted on the words that both know takes vectors of the large set to the model's own (Kiros et
al., Skip-Thought Vectors, 2015, Sec. 2.2). Words that the model has learned keep what they have learned.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.snapshots.snapshot import Snapshot

RIDGE = 0.01  # of the mean square of a coordinate: 0.0005 to 0.05 give the same recall
FOLDS = 10
WORDS = "caption_encoder.words.weight"

Matrix = NDArray[np.floating]


@dataclass(frozen=True)
class Fit:
    """How well the map predicts words that it was not fitted on."""

    words: int  # that both know
    explained: float  # of the variance of the model's vectors, by ten-fold cross-validation


def expanded(
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
