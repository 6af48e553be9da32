"""Anybody's embeddings: vectors of images and captions with their ids."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsepp.encoders.joint import Similarity
from vsepp.equations.similarity import inner_product
from vsepp.errors import WrongRequest
from vsepp.evaluation.metrics.relevance import Ints
from vsepp.evaluation.metrics.score_matrix import ScoreMatrix

REPEATED = 5  # times that some save the vector of each image: once for each of its captions


@dataclass(frozen=True)
class Embeddings:
    """Two towers' vectors, or all scores; the captions of an image need not lie side by side."""

    images: Tensor | None  # (N, D)
    captions: Tensor | None  # (C, D)
    owners: Ints  # (C,) the row of each caption's image
    image_ids: Sequence[str] = ()
    caption_ids: Sequence[str] = ()
    texts: Sequence[str] = ()  # where they are known
    name: str = "model"
    data: str = ""  # what was embedded, in words
    similarity: Similarity = inner_product
    scores: Tensor | np.ndarray | None = None  # (N, C), instead of vectors
    remarks: Sequence[str] = field(default_factory=list)

    @property
    def num_images(self) -> int:
        one = self.images if self.scores is None else self.scores
        assert one is not None
        return int(one.shape[0])

    @property
    def num_captions(self) -> int:
        return len(self.owners)

    def matrix(self) -> ScoreMatrix:
        """Scores of all images with all captions."""
        if self.scores is not None:
            return ScoreMatrix.of_scores(self.scores)
        assert self.images is not None and self.captions is not None
        return ScoreMatrix.of_vectors(self.images, self.captions, self.similarity)


def from_arrays(
    images: Tensor | np.ndarray | None,
    captions: Tensor | np.ndarray | None,
    image_of_caption: Tensor | np.ndarray | Sequence[Any] | None = None,
    image_ids: Sequence[Any] | None = None,
    caption_ids: Sequence[Any] | None = None,
    **others: Any,
) -> Embeddings:
    """Checked embeddings; `image_of_caption` has rows, or image ids where `image_ids` are given."""
    remarks: list[str] = list(others.pop("remarks", []))
    of_images: Tensor | None = None
    of_captions: Tensor | None = None
    scores = others.get("scores")
    if scores is not None:
        if scores.ndim != 2:
            raise WrongRequest(f"Expected scores (N, C), found {tuple(scores.shape)}.")
        num_images, num_captions = int(scores.shape[0]), int(scores.shape[1])
    else:
        of_images, of_captions = in_one_precision(
            torch.as_tensor(images), torch.as_tensor(captions)
        )
        of_images, image_ids = without_repeats(of_images, len(of_captions), image_ids, remarks)
        num_images, num_captions = len(of_images), len(of_captions)
        _remark_broken(of_images, of_captions, remarks)
    if not num_images or not num_captions:
        raise WrongRequest(f"{num_images:,} images and {num_captions:,} captions: nothing to rank.")
    _check_ids(image_ids, num_images, "image ids", remarks)
    owners = _owners(image_of_caption, image_ids, num_images, num_captions, remarks)
    _check_ids(caption_ids, num_captions, "caption ids", remarks)
    names = [str(one) for one in (range(num_images) if image_ids is None else image_ids)]
    counted = _counted(owners, names) if caption_ids is None else map(str, caption_ids)
    return Embeddings(
        of_images, of_captions, owners, names, list(counted), remarks=remarks, **others
    )


def _remark_broken(images: Tensor, captions: Tensor, remarks: list[str]) -> None:
    for what, vectors in (("image", images), ("caption", captions)):
        if broken := int((~vectors.isfinite()).any(dim=1).sum()):
            remarks.append(f"{broken:,} of {len(vectors):,} {what} vectors are not finite.")


def _counted(owners: Ints, image_ids: Sequence[str]) -> Iterator[str]:
    """KEY#0, KEY#1 and so on, as for a collection whose captions have no ids."""
    seen = [0] * len(image_ids)
    for owner in owners.tolist():
        yield f"{image_ids[owner]}#{seen[owner]}"
        seen[owner] += 1


def in_one_precision(images: Tensor, captions: Tensor) -> tuple[Tensor, Tensor]:
    """At least single: half of it can neither tell close scores apart nor count to 5,000."""
    if images.dim() != 2 or captions.dim() != 2 or images.shape[1] != captions.shape[1]:
        raise WrongRequest(
            "Expected image vectors (N, D) and caption vectors (C, D) of one dimension, found "
            f"{tuple(images.shape)} and {tuple(captions.shape)}."
        )
    dtype = torch.promote_types(torch.promote_types(images.dtype, captions.dtype), torch.float32)
    return images.to(dtype), captions.to(dtype)


def subset(embeddings: Embeddings, images: range) -> Embeddings:
    """The images of a fold and their captions."""
    chosen = np.flatnonzero((embeddings.owners >= images.start) & (embeddings.owners < images.stop))
    rows = slice(images.start, images.stop)
    pick = torch.from_numpy(chosen)
    return replace(
        embeddings,
        images=None if embeddings.images is None else embeddings.images[rows],
        captions=None if embeddings.captions is None else embeddings.captions[pick],
        scores=None if embeddings.scores is None else embeddings.scores[rows][:, chosen],
        owners=embeddings.owners[chosen] - images.start,
        image_ids=embeddings.image_ids[rows],
        caption_ids=[embeddings.caption_ids[n] for n in chosen.tolist()]
        if embeddings.caption_ids
        else (),
        texts=[embeddings.texts[n] for n in chosen.tolist()] if embeddings.texts else (),
    )


# ---- which caption belongs to which image ----------------------------------------------------


def _owners(
    given: Tensor | np.ndarray | Sequence[Any] | None,
    image_ids: Sequence[Any] | None,
    num_images: int,
    num_captions: int,
    remarks: list[str],
) -> Ints:
    if given is None:
        each, rest = divmod(num_captions, num_images)
        if rest or not each:
            raise WrongRequest(
                f"{num_captions:,} captions and {num_images:,} images, and nothing says which belong "
                "together. Add a table with a row for each caption and a column image_id: --ids ids.csv"
            )
        remarks.append(
            f"No table of ids: captions {each} by {each} belong to one image after another."
        )
        return np.repeat(np.arange(num_images), each)
    if isinstance(given, Tensor | np.ndarray) and given.dtype not in (object, np.dtype("O")):
        owners = np.asarray(torch.as_tensor(given).cpu()).astype(np.int64)
    else:
        owners = _rows_of(list(given), image_ids)
    if len(owners) != num_captions:
        raise WrongRequest(
            f"{num_captions:,} captions, but image_of_caption has {len(owners):,} rows."
        )
    if owners.min() < 0 or owners.max() >= num_images:
        raise WrongRequest("Every image needs a caption, and image_of_caption a row of the images.")
    without = np.flatnonzero(np.bincount(owners, minlength=num_images) == 0)
    if len(without):
        name = without[0] if image_ids is None else image_ids[without[0]]
        raise WrongRequest(
            f"Every image needs a caption, and {len(without):,} of {num_images:,} have none, such as {name}."
        )
    return owners


def _rows_of(names: Sequence[Any], image_ids: Sequence[Any] | None) -> Ints:
    if image_ids is None:
        return np.asarray(names, dtype=np.int64)
    rows = {str(name): row for row, name in enumerate(image_ids)}
    if len(rows) < len(image_ids):
        raise WrongRequest(
            "An image id is there twice. Every row of the image vectors needs its own."
        )
    unknown = next((name for name in names if str(name) not in rows), None)
    if unknown is not None:
        raise WrongRequest(f"A caption's image {unknown!r} is none of the image ids.")
    return np.array([rows[str(name)] for name in names], dtype=np.int64)


def without_repeats(
    images: Tensor, num_captions: int, image_ids: Sequence[Any] | None, remarks: list[str]
) -> tuple[Tensor, Sequence[Any] | None]:
    """Some save an image's vector once for each of its captions, as the authors' release does.

    Ids may be as many as the vectors, or as the images.
    """
    number = len(images)
    different = None if image_ids is None else len(set(map(str, image_ids)))
    if number != num_captions or number % REPEATED or different == number:
        return images, image_ids
    groups = images.unflatten(0, (-1, REPEATED))
    if not torch.equal(groups, groups[:, :1].expand_as(groups)):
        return images, image_ids
    remarks.append(f"Every image vector was there {REPEATED} times in a row: taken once.")
    if image_ids is not None and len(image_ids) == number:
        image_ids = list(image_ids)[::REPEATED]
    return groups[:, 0].contiguous(), image_ids


def _check_ids(ids: Sequence[Any] | None, number: int, what: str, remarks: list[str]) -> None:
    if ids is None:
        return
    if len(ids) != number:
        raise WrongRequest(f"{len(ids):,} {what} for {number:,} vectors.")
    counts = Counter(map(str, ids))
    if repeated := sum(count for count in counts.values() if count > 1):
        remarks.append(
            f"{repeated:,} of {number:,} {what} are not unique: annotations that ask for them find none."
        )
