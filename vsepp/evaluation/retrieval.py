"""Retrieval in both directions, measured as the paper does (Sec. 3.1)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsepp.devices import ALONE, Processes, full_precision, inference_batch_size
from vsepp.encoders.joint import JointEmbedding, Similarity
from vsepp.equations.ranking import Recall
from vsepp.equations.similarity import inner_product
from vsepp.errors import WrongRequest
from vsepp.evaluation.embedding_files import read_embeddings
from vsepp.evaluation.embeddings import Embeddings, from_arrays
from vsepp.loading.batches import Pairs

# Number and size of the folds, taken from the front of the split, in its order; None: all images.
PROTOCOLS: dict[str, tuple[int, int | None]] = {
    "full": (1, None),
    "1k": (1, 1000),
    "5x1k": (5, 1000),
    "5k": (1, 5000),
}
TILE = 1000  # images against the captions of so many images: 20 MB of scores at five captions each
GPU_TILE = 2500  # 125 MB: a GPU is busy longer with one than it takes to ask for the next


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
        # differs from the release: of five folds it prints six times as much
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
    def from_dict(cls, figures: dict[str, Any]) -> "Retrieval":
        """The way back from `as_dict`."""
        captions, images = (Recall(**figures[side]) for side in ("captions", "images"))
        rest = (figures[key] for key in ("protocol", "num_images", "num_captions"))
        return cls(captions, images, *rest)

    @classmethod
    @torch.no_grad()
    def from_vectors(
        cls,
        images: Tensor | np.ndarray | Path | str,
        captions: Tensor | np.ndarray | Path | str,
        image_of_caption: Tensor | np.ndarray | Sequence[Any] | Path | str | None = None,
        similarity: Similarity = inner_product,
        protocol: str = "full",
        image_ids: Sequence[Any] | None = None,
    ) -> "Retrieval":
        """Anybody's embeddings: vectors (N, D) and (C, D), and for each caption its image's row.

        With `image_ids`, one for each row of the images, `image_of_caption` names ids instead of rows.
        All three may be files: .npy, .npz, .safetensors or .parquet, and a table with a column image_id.
        Without `image_of_caption`, an equal number of captions belongs to each image, in their order.
        """
        found = _opened(images, captions, image_of_caption, image_ids)
        assert found.images is not None and found.captions is not None
        images, captions = found.images, found.captions
        owners = torch.from_numpy(found.owners).to(images.device)
        # Captions of one image side by side, in the order of the images.
        owners, order = owners.sort(stable=True)
        captions = captions[order]
        parts = folds(protocol, len(images))
        with full_precision():
            halves = [_fold(images, captions, owners, fold, similarity) for fold in parts]
        return cls(
            Recall.mean([half[0] for half in halves]),
            Recall.mean([half[1] for half in halves]),
            protocol,
            sum(len(fold) for fold in parts),
            sum(half[2] for half in halves),
        )


@torch.inference_mode()
def evaluate(
    model: JointEmbedding, pairs: Pairs, protocol: str = "full", processes: Processes = ALONE
) -> Retrieval:
    """Embed every image and every caption once, rank all, and average the protocol's folds."""
    folds(protocol, len(pairs.items))  # complain before the work, not after it
    images, captions = embed(model, pairs, processes)
    owners = torch.from_numpy(pairs.image_of_caption)
    return processes.as_first(
        lambda: Retrieval.from_vectors(images, captions, owners, model.similarity, protocol)
    )


def embed(
    model: JointEmbedding, pairs: Pairs, processes: Processes = ALONE
) -> tuple[Tensor, Tensor]:
    """Image vectors (N, D) and caption vectors (C, D) of a split, in its order.

    Several processes embed a share each, and get all vectors.
    """
    return embed_images(model, pairs, processes), embed_captions(model, pairs, processes)


@torch.inference_mode()
def embed_images(model: JointEmbedding, pairs: Pairs, processes: Processes = ALONE) -> Tensor:
    with _in_use(model) as device:
        batches = pairs.image_batches(inference_batch_size(device), processes.share)
        vectors = [model.embed_images(batch.to(device)) for batch in batches]
    return processes.gathered(torch.cat(vectors), len(pairs.items))


@torch.inference_mode()
def embed_captions(model: JointEmbedding, pairs: Pairs, processes: Processes = ALONE) -> Tensor:
    numbers, vectors = [], []
    with _in_use(model) as device:
        for chosen, words, lengths in pairs.caption_batches(share=processes.share):
            numbers.append(chosen)
            vectors.append(model.embed_captions(words.to(device), lengths.to(device)))
        in_order = torch.cat(numbers).argsort().to(device)
    return processes.gathered(torch.cat(vectors)[in_order], len(pairs))


@contextmanager
def _in_use(model: JointEmbedding) -> Iterator[torch.device]:
    """Out of training for a while, on its device."""
    was_training = model.training
    model.eval()
    try:
        yield next(model.parameters()).device
    finally:
        model.train(was_training)


def both_ranks(
    images: Tensor, captions: Tensor, owners: Tensor, similarity: Similarity
) -> tuple[Tensor, Tensor]:
    """The rank of each image's best caption and of each caption's image, tile by tile.

    Every score is computed once. Tiles on the diagonal hold all the positives and come first; no
    positive is computed apart from its neighbours, as another product might round it differently.
    """
    # images (N, D), captions (C, D) in the order of their images, owners (C,) -> (N,), (C,)
    rows, columns = _blocks(owners, len(images))
    best_caption = images.new_empty(len(images))
    own_image = images.new_empty(len(captions))
    below_image = images.new_zeros(len(images), dtype=torch.float64)
    below_caption = images.new_zeros(len(captions), dtype=torch.float64)
    for row, column in _diagonal_first(len(rows)):
        here, there = rows[row], columns[column]
        scores = similarity(images[here], captions[there])
        if row == column:
            positions = owners[there] - here.start
            own_image[there], best_caption[here] = _take_positives(scores, positions)
        below_image[here] += _count_below(scores, best_caption[here, None], dim=1)
        below_caption[there] += _count_below(scores, own_image[None, there], dim=0)
    # What is not below ranks ahead: ties count against the model, and so does NaN.
    rival_captions = len(captions) - torch.bincount(owners, minlength=len(images))
    image_ranks, caption_ranks = 1 + rival_captions - below_image, len(images) - below_caption
    return image_ranks.long(), caption_ranks.long()


def _blocks(owners: Tensor, num_images: int) -> tuple[list[slice], list[slice]]:
    """The images cut into blocks, and the captions of each block."""
    starts = [*range(0, num_images, GPU_TILE if owners.is_cuda else TILE), num_images]
    edges = torch.searchsorted(owners, torch.tensor(starts, device=owners.device)).tolist()
    return [slice(*ends) for ends in pairwise(starts)], [slice(*ends) for ends in pairwise(edges)]


def _diagonal_first(num_blocks: int) -> list[tuple[int, int]]:
    cells = product(range(num_blocks), range(num_blocks))
    return sorted(cells, key=lambda cell: cell[0] != cell[1])


def _take_positives(scores: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Each caption's score with its image, and the best of each image's; both leave the contest."""
    own = scores.gather(0, positions[None, :])[0]
    # An image with a caption that has a score is not as bad as that of its broken ones.
    own = own.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    best = torch.full_like(scores[:, 0], -torch.inf).scatter_reduce(0, positions, own, "amax")
    # A positive is nobody's rival: above everything, it is never counted as below.
    scores.scatter_(0, positions[None, :], torch.inf)
    return own, best


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


def folds(protocol: str, num_images: int) -> list[range]:
    """The images of each fold, or why there are too few of them."""
    if protocol not in PROTOCOLS:
        raise WrongRequest(f"There is no protocol {protocol!r}. Known: {', '.join(PROTOCOLS)}.")
    number, size = PROTOCOLS[protocol]
    size = size or num_images
    if number * size > num_images:
        raise WrongRequest(
            f"The protocol {protocol} needs {number * size:,} images, and there are {num_images:,}. "
            "Rank all of them: --protocol full for evaluate, --set protocol=full for reproduce."
        )
    return [range(fold * size, (fold + 1) * size) for fold in range(number)]


def _opened(
    images: Tensor | np.ndarray | Path | str,
    captions: Tensor | np.ndarray | Path | str,
    owners: Tensor | np.ndarray | Sequence[Any] | Path | str | None,
    image_ids: Sequence[Any] | None,
) -> Embeddings:
    """Vectors in memory or in files, checked."""
    if isinstance(images, Path | str) and isinstance(captions, Path | str):
        table = Path(owners) if isinstance(owners, Path | str) else None
        return read_embeddings(Path(images), Path(captions), table)
    if isinstance(images, Path | str) or isinstance(captions, Path | str):
        raise WrongRequest(
            "Give vectors of images and captions alike: both as arrays, or both as files."
        )
    if isinstance(owners, Path | str):
        raise WrongRequest("image_of_caption may be a file only where the vectors are files, too.")
    return from_arrays(images, captions, owners, image_ids)
