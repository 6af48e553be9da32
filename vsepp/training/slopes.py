"""The losses of a batch and how they change with its scores, in one go."""

from collections.abc import Callable
from functools import partial
from inspect import signature

import torch
from torch import Tensor

from vsepp import kernels
from vsepp.equations.losses import Loss, max_of_hinges, sum_of_hinges
from vsepp.training.gradients import Reduction, pair_losses, reduced

# (scores (M, M), total, image_ids (M,) where captions of one picture are no rivals) -> (M, M):
# adds the losses of all pairs to `total` and returns the gradient of their sum, or their mean.
Slope = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def slope_of(loss: Loss, reduction: Reduction, device: torch.device, num_pairs: int) -> Slope:
    """One launch where the loss is the paper's and the batch fits, else whatever the loss does."""
    function, margin = _function_and_margin(loss)
    if margin is not None and kernels.available(device):
        from vsepp.kernels import hinges

        if num_pairs <= hinges.LARGEST:
            return partial(_fused, getattr(hinges, function.__name__), margin, reduction)
    return partial(_differentiated, loss, reduction)


def _fused(
    hinges: Callable[..., Tensor],
    margin: float,
    reduction: Reduction,
    scores: Tensor,
    total: Tensor,
    image_ids: Tensor | None,
) -> Tensor:
    return hinges(scores, total, margin, 1 if reduction == "sum" else 1 / len(scores), image_ids)


def _differentiated(
    loss: Loss, reduction: Reduction, scores: Tensor, total: Tensor, image_ids: Tensor | None
) -> Tensor:
    scores = scores.detach().requires_grad_()
    per_pair = pair_losses(scores, loss, image_ids)
    (slope,) = torch.autograd.grad(reduced(per_pair, reduction, len(scores)), scores)
    total += per_pair.detach().sum()
    return slope


def _function_and_margin(loss: Loss) -> tuple[Loss, float | None]:
    """A sum or a max of hinges, bare or with a margin of its own; any other loss has none here."""
    function, given = loss, {}
    if isinstance(loss, partial) and not loss.args:
        function, given = loss.func, loss.keywords
    if function not in (sum_of_hinges, max_of_hinges) or set(given) - {"margin"}:
        return loss, None
    return function, given.get("margin", signature(function).parameters["margin"].default)
