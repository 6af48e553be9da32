"""From a batch to the gradient of its loss."""

from typing import Literal

from torch import Tensor, nn

from vsepp.devices import ALONE, Processes
from vsepp.equations.losses import Loss
from vsepp.loading.batches import Batch
from vsepp.training.shared_scores import scores_of_batch

Reduction = Literal["sum", "mean"]


def backward(
    model: nn.Module,
    batch: Batch,
    loss: Loss,
    reduction: Reduction,
    mask_same_image: bool,
    processes: Processes = ALONE,
) -> Tensor:
    """Adds the gradient of the batch's loss to the weights; returns the losses, one per pair.

    Where several processes share the batch, each adds and returns what its own pairs contribute.
    """
    num_pairs = len(batch.image_ids)
    scores = scores_of_batch(model, batch, processes)
    per_pair = pair_losses(scores, loss, batch.image_ids if mask_same_image else None)
    per_pair = per_pair[processes.share(num_pairs)]
    reduced(per_pair, reduction, num_pairs).backward()
    return per_pair.detach()


def pair_losses(scores: Tensor, loss: Loss, image_ids: Tensor | None = None) -> Tensor:
    """One loss per pair; where `image_ids` are given, captions of one picture are no rivals."""
    if image_ids is None:
        return loss(scores)
    # Another caption of the same picture is no mistake, though the paper counts it as one.
    return loss(scores, negatives=image_ids[:, None] != image_ids[None, :])


def reduced(per_pair: Tensor, reduction: Reduction, num_pairs: int) -> Tensor:
    """The loss of a batch, or what some of its pairs contribute to it."""
    # differs from the paper: the release sums, Eq. 4 averages; under clipping they train differently
    return per_pair.sum() if reduction == "sum" else per_pair.sum() / num_pairs
