"""Batches that are too large to be embedded at once, with the gradient of the whole batch.

Hard negatives are rare, and a large batch holds more of them (Sec. 2.3); but what a net remembers for
its backward pass grows with the batch. So all vectors are made first, chunk by chunk, and nothing is
remembered (1). The loss of the whole batch gives every vector its gradient (2). Then each chunk is
embedded again, this time to pass its share of the gradient on to the weights (3): as cached gradients
in Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup" (2021).

The result is the gradient of the unchunked batch, for nets that treat their rows independently: a
batch norm that learns its statistics sees chunks, not the batch.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from vsepp.data.batches import Batch
from vsepp.devices import ALONE, Processes
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import Loss
from vsepp.training.gradients import Reduction, pair_losses, reduced
from vsepp.training.shared_scores import scores_of_all


def backward_in_chunks(
    model: JointEmbedding,
    batch: Batch,
    loss: Loss,
    reduction: Reduction,
    mask_same_image: bool,
    chunk_size: int,
    processes: Processes = ALONE,
) -> Tensor:
    """`gradients.backward` for a batch of any size, which need not lie on the model's device."""
    device = next(model.parameters()).device
    num_pairs = len(batch.image_ids)
    # All processes cut as many chunks, as their batch norms may wait for each other in every one.
    starts = range(0, processes.largest_share(num_pairs), chunk_size)
    chunks = [_part(batch, start, chunk_size) for start in starts]
    images, captions = (
        _Side(embed, chunks, device, processes)
        for embed in (
            lambda chunk: model.embed_images(chunk.images),
            lambda chunk: model.embed_captions(chunk.words, chunk.lengths),
        )
    )
    vectors = images.vectors, captions.vectors
    scores = scores_of_all(*vectors, num_pairs, model.similarity, processes)
    image_ids = batch.image_ids.to(device) if mask_same_image else None
    per_pair = pair_losses(scores, loss, image_ids)[processes.share(num_pairs)]
    reduced(per_pair, reduction, num_pairs).backward()  # as far as the vectors
    images.pass_on()
    captions.pass_on()
    return per_pair.detach()


class _Side:
    """The vectors of all images, or of all captions, as leaves whose gradient can be passed on."""

    def __init__(
        self,
        embed: Callable[[Batch], Tensor],
        chunks: list[Batch],
        device: torch.device,
        processes: Processes,
    ) -> None:
        self.embed, self.chunks, self.device, self.processes = embed, chunks, device, processes
        self.dice = []
        vectors = []
        for chunk in chunks:
            self.dice.append(_Dice.on(device))
            with torch.no_grad(), processes.as_one_batch():
                vectors.append(embed(chunk.to(device)))
        self.vectors = torch.cat(vectors).requires_grad_()

    def pass_on(self) -> None:
        assert self.vectors.grad is not None
        shares = self.vectors.grad.split([len(chunk) for chunk in self.chunks])
        for chunk, dice, share in zip(self.chunks, self.dice, shares, strict=True):
            with dice.thrown_again(), self.processes.as_one_batch():
                vectors = self.embed(chunk.to(self.device))
            vectors.backward(share)


@dataclass(frozen=True)
class _Dice:
    """The random generators at some moment, so that dropout drops the same units twice."""

    cpu: Tensor
    gpus: dict[int, Tensor]

    @classmethod
    def on(cls, device: torch.device) -> "_Dice":
        numbers = [torch.cuda.current_device()] if device.type == "cuda" else []
        states = {number: torch.cuda.get_rng_state(number) for number in numbers}
        return cls(torch.get_rng_state(), states)

    @contextmanager
    def thrown_again(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=list(self.gpus)):
            torch.set_rng_state(self.cpu)
            for number, state in self.gpus.items():
                torch.cuda.set_rng_state(state, number)
            yield


def _part(batch: Batch, start: int, size: int) -> Batch:
    return Batch(*(tensor[start : start + size] for tensor in vars(batch).values()))
