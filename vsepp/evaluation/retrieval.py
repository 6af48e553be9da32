"""Retrieval in both directions, measured as the paper does (Sec. 3.1)."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsepp.data.batches import Pairs
from vsepp.encoders.joint import JointEmbedding, Similarity
from vsepp.equations.ranking import Recall
from vsepp.equations.similarity import inner_product
from vsepp.errors import WrongRequest

# Number and size of the folds, taken from the front of the split, in its order; None: all images.
PROTOCOLS: dict[str, tuple[int, int | None]] = {
    "full": (1, None),
    "1k": (1, 1000),
    "5x1k": (5, 1000),
    "5k": (1, 5000),
}
TILE = 1000  # images against the captions of so many images: 20 MB of scores at five captions each


@dataclass(frozen=True)
class Retrieval:
    """Both directions: `captions` has an image as its query, `images` a caption."""

    captions: Recall
    images: Recall
    protocol: str
    num_images: int
    num_captions: int

    @property
    def rsum(self) -> float:
        """The sum of the six recalls, by which the paper picks its snapshots."""
        return self.captions.sum + self.images.sum

    def as_dict(self) -> dict[str, Any]:
        """The object that every `--json` prints."""
        figures = asdict(self)
        return {
            "captions": figures["captions"],
            "images": figures["images"],
            "rsum": self.rsum,
            "protocol": self.protocol,
            "num_images": self.num_images,
            "num_captions": self.num_captions,
        }

    @classmethod
    def from_vectors(
        cls,
        images: Tensor | np.ndarray,
        captions: Tensor | np.ndarray,
        image_of_caption: Tensor | np.ndarray,
        similarity: Similarity = inner_product,
        protocol: str = "full",
    ) -> "Retrieval":
        """Anybody's embeddings: vectors (N, D) and (C, D), and for each caption its image's row."""
        images, captions = torch.as_tensor(images), torch.as_tensor(captions)
        owners = torch.as_tensor(image_of_caption).to(images.device).long()
        _check(images, captions, owners)
        # Captions of one image side by side, in the order of the images.
        owners, order = owners.sort(stable=True)
        captions = captions[order]
        folds = _folds(protocol, len(images))
        halves = [_fold(images, captions, owners, fold, similarity) for fold in folds]
        return cls(
            Recall.mean([half[0] for half in halves]),
            Recall.mean([half[1] for half in halves]),
            protocol,
            sum(len(fold) for fold in folds),
            sum(half[2] for half in halves),
        )


@torch.inference_mode()
def evaluate(model: JointEmbedding, pairs: Pairs, protocol: str = "full") -> Retrieval:
    """Embed every image and every caption once, rank all, and average the protocol's folds."""
    _folds(protocol, len(pairs.items))  # complain before the work, not after it
    images, captions = embed(model, pairs)
    owners = torch.from_numpy(pairs.image_of_caption)
    return Retrieval.from_vectors(images, captions, owners, model.similarity, protocol)


@torch.inference_mode()
def embed(model: JointEmbedding, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Image vectors (N, D) and caption vectors (C, D) of a split, in its order."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    images = [model.embed_images(batch.to(device)) for batch in pairs.image_batches()]
    numbers, vectors = [], []
    for chosen, words, lengths in pairs.caption_batches():
        numbers.append(chosen)
        vectors.append(model.embed_captions(words.to(device), lengths.to(device)))
    captions = torch.cat(vectors)[torch.cat(numbers).argsort().to(device)]
    model.train(was_training)
    return torch.cat(images), captions


def both_ranks(
    images: Tensor, captions: Tensor, owners: Tensor, similarity: Similarity
) -> tuple[Tensor, Tensor]:
    """The rank of each image's best caption and of each caption's image, tile by tile.

    Every score is computed once. Tiles on the diagonal hold all the positives; a positive and its
    rivals are thus rounded alike, which two different matrix products would not promise.
    """
    # images (N, D), captions (C, D) in the order of their images, owners (C,) -> (N,), (C,)
    starts = list(range(0, len(images), TILE))
    edges = torch.searchsorted(owners, torch.tensor([*starts, len(images)], device=owners.device))
    rows = [slice(start, min(start + TILE, len(images))) for start in starts]
    columns = [slice(a, b) for a, b in zip(edges.tolist(), edges.tolist()[1:], strict=False)]
    best_caption = images.new_empty(len(images))
    own_image = images.new_empty(len(captions))
    below_image = images.new_zeros(len(images), dtype=torch.float64)
    below_caption = images.new_zeros(len(captions), dtype=torch.float64)
    tiles = [(place, place) for place in range(len(rows))]
    tiles += [(r, c) for r in range(len(rows)) for c in range(len(rows)) if r != c]
    for row, column in tiles:
        here, there = rows[row], columns[column]
        scores = similarity(images[here], captions[there])
        if row == column:
            positions = owners[there] - here.start
            own = scores.gather(0, positions[None, :])[0]
            own_image[there] = own
            best = torch.full_like(best_caption[here], -torch.inf)
            best_caption[here] = best.scatter_reduce(0, positions, own, "amax")
            # A positive is nobody's rival: mark it as above everything, so that it is not counted.
            scores.scatter_(0, positions[None, :], torch.inf)
        below_image[here] += _count_below(scores, best_caption[here, None], dim=1)
        below_caption[there] += _count_below(scores, own_image[None, there], dim=0)
    captions_of = torch.bincount(owners, minlength=len(images))
    rivals = len(captions) - captions_of, len(images) - 1
    # What is not below ranks ahead: ties count against the model, and so does NaN.
    return (1 + rivals[0] - below_image).long(), (1 + rivals[1] - below_caption).long()


def _count_below(scores: Tensor, threshold: Tensor, dim: int) -> Tensor:
    """How many scores of each row or column lie below the threshold."""
    # A comparison written as 0.0 and 1.0, summed by a matrix product: several times as fast as
    # summing booleans. Counts within a tile are exact in single precision.
    flags = torch.lt(scores, threshold, out=torch.empty_like(scores))
    ones = flags.new_ones(flags.shape[dim])
    return flags @ ones if dim == 1 else ones @ flags


def _fold(
    images: Tensor, captions: Tensor, owners: Tensor, fold: range, similarity: Similarity
) -> tuple[Recall, Recall, int]:
    first, last = torch.searchsorted(
        owners, torch.tensor([fold.start, fold.stop], device=owners.device)
    ).tolist()
    image_ranks, caption_ranks = both_ranks(
        images[fold.start : fold.stop],
        captions[first:last],
        owners[first:last] - fold.start,
        similarity,
    )
    return Recall.of(image_ranks), Recall.of(caption_ranks), last - first


def _folds(protocol: str, num_images: int) -> list[range]:
    if protocol not in PROTOCOLS:
        raise WrongRequest(f"There is no protocol {protocol!r}. Known: {', '.join(PROTOCOLS)}.")
    number, size = PROTOCOLS[protocol]
    size = size or num_images
    if number * size > num_images:
        raise WrongRequest(
            f"The protocol {protocol} needs {number * size:,} images, and there are {num_images:,}. "
            "Use --protocol full."
        )
    return [range(fold * size, (fold + 1) * size) for fold in range(number)]


def _check(images: Tensor, captions: Tensor, owners: Tensor) -> None:
    if images.dim() != 2 or captions.dim() != 2 or images.shape[1] != captions.shape[1]:
        raise WrongRequest(
            "Expected image vectors (N, D) and caption vectors (C, D) of one dimension, found "
            f"{tuple(images.shape)} and {tuple(captions.shape)}."
        )
    if len(owners) != len(captions):
        raise WrongRequest(
            f"{len(captions)} captions, but image_of_caption has {len(owners)} rows."
        )
    if len(torch.unique(owners)) != len(images) or owners.min() < 0 or owners.max() >= len(images):
        raise WrongRequest("Every image needs a caption, and image_of_caption a row of the images.")
