"""One model whose weights are the mean of several models' weights.

Models that learned from one start, in another order, end close enough to each other that the mean lies lower
than each of them: the gain of an ensemble for the price of one model. Models of different starts have nothing
in common, and their mean is noise.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.snapshots.snapshot import Snapshot


def averaged(snapshots: Sequence[Snapshot]) -> Snapshot:
    """The mean of their weights; words and notes are the first one's."""
    _check(snapshots)
    first = snapshots[0]
    states = [snapshot.model.state_dict() for snapshot in snapshots]
    model = JointEmbedding.build(first.architecture)
    model.load_state_dict({name: _mean([state[name] for state in states]) for name in states[0]})
    return replace(first, model=model.eval())


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    if not tensors[0].is_floating_point():  # a batch norm's count of its batches
        return tensors[0]
    return torch.stack([tensor.double() for tensor in tensors]).mean(0).to(tensors[0])


def _check(snapshots: Sequence[Snapshot]) -> None:
    if len(snapshots) < 2:
        raise WrongRequest("A mean takes at least two models.")
    first = snapshots[0]
    for place, other in enumerate(snapshots[1:], 2):
        if other.architecture != first.architecture:
            raise WrongRequest(f"A mean needs one architecture: number {place} has another.")
        if other.vocabulary.words() != first.vocabulary.words():
            raise WrongRequest(f"A mean needs the same words: number {place} knows others.")
