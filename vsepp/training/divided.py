"""Steps on batches that are divided: into chunks, among several processes, or both.

Hard negatives are rare, and a large batch holds more of them (Sec. 2.3). Two ways lead to one:

- `chunk_size` pairs are embedded at once, and again in the backward pass (`torch.utils.checkpoint`), so that
  only one chunk's activations are in memory. For nets that treat their rows independently the gradient is
  that of the whole batch; a batch norm that learns its statistics sees chunks.
- Several processes embed a share of the batch each. A loss asks, for each pair, about its row and its column
  (Eqs. 5 and 6): each process computes only the rows and columns of its own pairs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vsepp.devices import Precision, Processes
from vsepp.encoders.joint import JointEmbedding
from vsepp.loading.batches import Batch
from vsepp.training.loop import ALL, Objective, PlainStepper, Updater

LARGE = (
    2**18
)  # numbers of a gradient: a message of its own costs less than copying it beside others


class DividedStepper(PlainStepper):
    """One batch a step, of which the device holds a chunk at a time, and each process a share."""

    model: JointEmbedding

    def __init__(
        self, model: JointEmbedding, batches: Iterable[Batch], updater: Updater, device: torch.device,
        precision: Precision, chunk_size: int | None, processes: Processes,
    ) -> None:  # fmt: skip
        super().__init__(model, batches, updater, device, precision)
        self.chunk_size, self.processes = chunk_size, processes
        self.is_alone = processes.number == 1
        self.all_reduce = GradientAllReduce(processes, updater.weights)

    def backward(self, batch: Batch, objective: Objective) -> Tensor:
        """As in `PlainStepper`; each process backpropagates the losses of its own pairs, and all are summed."""
        # m pairs here, M in all
        with self.all_reduce.during_backward():
            scores = self._scores(batch, objective)
            total = scores[0].new_zeros(())
            image_ids = batch.image_ids.to(self.device, non_blocking=True)
            rows = ALL if self.is_alone else self.processes.share(len(image_ids))
            negatives, targets = (
                None if part is None else part.to(self.device, non_blocking=True)
                for part in (batch.negatives, batch.targets)
            )
            objective.backward(scores, image_ids, total, rows, negatives, targets)
        self.all_reduce.finish(total)
        return total

    def _scores(self, batch: Batch, objective: Objective) -> list[Tensor]:
        """Of all pairs of the batch, as far as this process needs them: (M, M) for each width."""
        num_pairs, similarity = len(batch.image_ids), self.model.similarity
        images = self._embed(self.model.embed_images, [batch.images], num_pairs)
        captions = self._embed(self.model.embed_captions, [batch.words, batch.lengths], num_pairs)
        if self.is_alone:
            return objective.scores(images, captions, similarity)
        own = self.processes.share(num_pairs)
        both = torch.cat((images, captions), dim=1)  # one message instead of two
        images, captions = self.processes.gathered(both, num_pairs).chunk(2, dim=1)
        return objective.scores(
            images, captions, lambda i, c: _own_rows_and_columns(similarity, i, c, own)
        )

    def _embed(
        self, embed: Callable[..., Tensor], inputs: Sequence[Tensor], num_pairs: int
    ) -> Tensor:
        def moved_and_embedded(_: Tensor, *chunk: Tensor) -> Tensor:
            chunk = tuple(part.to(self.device, non_blocking=True) for part in chunk)
            # As short as can be: it sees every call of torch.
            with self.processes.as_one_batch():
                return embed(*chunk)

        # Dropout must drop the same units twice: checkpoint keeps the generators of its arguments' devices.
        anchor = torch.empty(0, device=self.device)
        if not self.chunk_size:
            return moved_and_embedded(anchor, *inputs)
        # All processes cut as many chunks, as their batch norms may wait for each other in every one.
        starts = range(0, self.processes.largest_share(num_pairs), self.chunk_size)
        chunks = [[part[start : start + self.chunk_size] for part in inputs] for start in starts]
        return torch.cat(
            [
                checkpoint(moved_and_embedded, anchor, *chunk, use_reentrant=False)
                for chunk in chunks
            ]
        )


def _own_rows_and_columns(
    similarity: Callable[[Tensor, Tensor], Tensor], images: Tensor, captions: Tensor, own: slice
) -> Tensor:
    """The scores (M, M); zero in rows and columns of other processes' pairs alone."""
    num_pairs = len(images)
    above, below = slice(0, own.start), slice(own.stop, num_pairs)
    own_rows = similarity(images[own], captions)
    scores = own_rows.new_zeros(num_pairs, num_pairs)
    scores[own] = own_rows
    scores[above, own] = similarity(images[above], captions[own])
    scores[below, own] = similarity(images[below], captions[own])
    return scores


class GradientAllReduce:
    """Sums gradients over all processes, overlapped with the backward pass.

    A backward pass finishes the last layers first. A large gradient is sent as soon as it is there, from where
    it lies, while the rest is computed; the small ones follow in one message. torch's DistributedDataParallel
    asks for equal shares, and for gradients that are averaged.
    """

    def __init__(self, processes: Processes, weights: Sequence[nn.Parameter]) -> None:
        self.processes, self.weights = processes, weights
        # What is sent when must not depend on who has finished what: one order for all processes.
        self.large = [weight for weight in reversed(weights) if _is_sent_alone(weight)]
        self.small = [weight for weight in weights if not _is_sent_alone(weight)]
        self.group = processes.new_group() if self.large else processes
        self.ready: set[nn.Parameter] = set()
        self.waits: list[Callable[[], None]] = []  # one for each of the large that was sent

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        """Around one backward pass: each large gradient is sent once it and all before it are there."""
        if self.processes.number == 1:
            yield
            return
        handles = [weight.register_post_accumulate_grad_hook(self._send) for weight in self.large]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def finish(self, loss: Tensor) -> None:
        """Sends what is left, and the loss; returns when all sums are there."""
        if self.processes.number == 1:
            return
        for weight in self.weights:
            if weight.grad is None:  # none of this process's pairs depends on it
                weight.grad = torch.zeros_like(weight)
        for weight in self.large:
            self._send(weight)
        gradients = [weight.grad for weight in self.small if weight.grad is not None]
        self.processes.all_reduce([*gradients, loss])
        for wait in self.waits:
            wait()
        self.waits.clear()
        self.ready.clear()

    def _send(self, weight: Tensor) -> None:
        self.ready.add(weight)  # type: ignore[arg-type]
        for large in self.large[len(self.waits) :]:
            if large not in self.ready or large.grad is None:
                break
            self.waits.append(self.group.begin_all_reduce(large.grad))


def _is_sent_alone(weight: nn.Parameter) -> bool:
    return weight.numel() >= LARGE and weight.is_contiguous()
