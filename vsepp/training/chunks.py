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

from vsepp.devices import ALONE, Processes
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import Loss
from vsepp.loading.batches import Batch
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
    rows = [slice(start, start + chunk_size) for start in starts]
    images = _Side(model.embed_images, [batch.images], rows, device, processes)
    captions = _Side(model.embed_captions, [batch.words, batch.lengths], rows, device, processes)
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
        embed: Callable[..., Tensor],
        inputs: list[Tensor],
        rows: list[slice],
        device: torch.device,
        processes: Processes,
    ) -> None:
        self.embed, self.device, self.processes = embed, device, processes
        self.chunks = [[tensor[some] for tensor in inputs] for some in rows]
        self.states = []
        vectors = []
        for chunk in self.chunks:
            self.states.append(_RandomState.of(device))
            with torch.no_grad():
                vectors.append(self._vectors(chunk))
        self.vectors = torch.cat(vectors).requires_grad_()

    def pass_on(self) -> None:
        assert self.vectors.grad is not None
        shares = self.vectors.grad.split([len(chunk[0]) for chunk in self.chunks])
        for chunk, state, share in zip(self.chunks, self.states, shares, strict=True):
            with state.put_back():
                vectors = self._vectors(chunk)
            vectors.backward(share)

    def _vectors(self, chunk: list[Tensor]) -> Tensor:
        with self.processes.as_one_batch():
            return self.embed(*(part.to(self.device, non_blocking=True) for part in chunk))


@dataclass(frozen=True)
class _RandomState:
    """The generators of the CPU and of one device, so that dropout drops the same units twice."""

    device: torch.device
    cpu: Tensor
    gpu: Tensor | None

    @classmethod
    def of(cls, device: torch.device) -> "_RandomState":
        gpu = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        return cls(device, torch.get_rng_state(), gpu)

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """For a while; then the generators go on from where they were."""
        with torch.random.fork_rng(devices=[] if self.gpu is None else [self.device]):
            torch.set_rng_state(self.cpu)
            if self.gpu is not None:
                torch.cuda.set_rng_state(self.gpu, self.device)
            yield
