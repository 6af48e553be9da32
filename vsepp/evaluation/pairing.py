"""The same photos and captions in the same order, whatever order each model's vectors are in: tests are paired by rows."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from vsepp.errors import WrongRequest
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.metrics.relevance import Ints


def in_order_of(first: Embeddings, other: Embeddings) -> Embeddings:
    """`other` with its rows in the order of `first`, found by ids; other photos or captions are refused."""
    images = _rows(first.image_ids, other.image_ids)
    if images is None:
        raise _differ("photos", first, other, first.image_ids, other.image_ids)
    captions = _caption_rows(first, other, images)
    if captions is None:
        raise _differ("captions", first, other, first.caption_ids, other.caption_ids)
    place = np.argsort(images)  # the new row of each old one
    other = replace(
        other,
        image_ids=first.image_ids,
        caption_ids=first.caption_ids,
        texts=[other.texts[n] for n in captions.tolist()] if other.texts else first.texts,
        owners=place[other.owners[captions]],
    )
    if _ascend(images) and _ascend(captions):
        return other  # nothing is copied
    rows, columns = torch.from_numpy(images), torch.from_numpy(captions)
    return replace(
        other,
        images=None if other.images is None else other.images[rows],
        captions=None if other.captions is None else other.captions[columns],
        scores=None if other.scores is None else other.scores[images][:, captions],
    )


def _caption_rows(first: Embeddings, other: Embeddings, images: Ints) -> Ints | None:
    place = np.argsort(images)
    ours, theirs = _keys(first, first.owners), _keys(other, place[other.owners])
    found = (_rows(a, b) for a, b in zip(ours, theirs, strict=False))
    by_name = next((rows for rows in found if rows is not None), None)
    if by_name is not None or (first.texts and other.texts):
        return by_name
    if not (_are_numbers(first.caption_ids) or _are_numbers(other.caption_ids)):
        return None
    # One of them has no ids of captions: they are taken in the order in which each photo has them.
    return _rows(_numbered(first.owners.tolist()), _numbered(place[other.owners].tolist()))


def _keys(embeddings: Embeddings, owners: Ints) -> Iterator[Sequence[Hashable]]:
    """What tells captions apart: id or text, each with the photo."""
    yield list(zip(owners.tolist(), embeddings.caption_ids, strict=True))
    if embeddings.texts:
        yield _numbered(list(zip(owners.tolist(), embeddings.texts, strict=True)))


def _numbered(keys: Sequence[Hashable]) -> Sequence[Hashable]:
    """Equal keys told apart by how often they came before: some photos have a text twice."""
    seen: Counter[Hashable] = Counter()
    numbered = []
    for key in keys:
        numbered.append((key, seen[key]))
        seen[key] += 1
    return numbered


def _rows(wanted: Sequence[Hashable], there: Sequence[Hashable]) -> Ints | None:
    """The row in `there` of each of `wanted`; None where they are not the same, each once."""
    if list(wanted) == list(there):
        return np.arange(len(there))
    rows = {one: row for row, one in enumerate(there)}
    if not len(rows) == len(there) == len(wanted) or set(wanted) != set(rows):
        return None
    return np.array([rows[one] for one in wanted], dtype=np.int64)


def _are_numbers(ids: Sequence[str]) -> bool:
    """As vectors have them that came without ids."""
    return all(one == str(row) for row, one in enumerate(ids))


def _ascend(rows: Ints) -> bool:
    return bool((rows == np.arange(len(rows))).all())


def _differ(
    what: str, first: Embeddings, other: Embeddings, ours: Sequence[str], theirs: Sequence[str]
) -> WrongRequest:
    known = set(theirs)
    missing = next((one for one in ours if one not in known), None)
    why = (
        f"{missing!r} is in the first alone"
        if missing is not None
        else f"{len(ours):,} ids and {len(theirs):,}, or other photos have them"
    )
    return WrongRequest(
        f"{first.name} and {other.name} do not have the same {what} ({why}): measure both on the same "
        "data, and give vectors its ids (ids.csv with image_id,caption_id)."
    )
