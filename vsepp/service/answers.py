"""A collection's findings in the words of the interface."""

from PIL import Image

from vsepp.search.collection import Collection
from vsepp.search.found import Found
from vsepp.search.index import Hit
from vsepp.search.remembered import Photo
from vsepp.service.folders import Folders
from vsepp.service.limits import DEEPEST, DEEPEST_FOLDED
from vsepp.service.problems import printable
from vsepp.service.schemas import Asked, HitAnswer, PhotoAnswer, SearchAnswer


def answered(
    collection: Collection, folders: Folders, asked: Asked, image: Image.Image | None
) -> SearchAnswer:
    """One page of a search: all hits up to its end are looked for, those before it left out."""
    deepest = DEEPEST_FOLDED if asked.fold else DEEPEST
    end = min(asked.offset + asked.limit, deepest)
    found = collection.search(
        asked.q,
        image=image,
        like=asked.like,
        k=min(end + 1, deepest),  # one more tells whether there are more
        min_score=asked.min_score,
        fold=asked.fold,
    )
    page = found.hits[asked.offset : end]
    photos = collection.photos(hit.key for hit in page)  # less what was removed since it was found
    return SearchAnswer(
        query=asked.q,
        like=asked.like,
        hits=[_hit(photos[hit.key], folders, hit, found) for hit in page if hit.key in photos],
        offset=asked.offset,
        more=len(found) > end,
        min_score=found.min_score,
        unknown_words=list(found.unknown_words),
        taken_for=dict(found.taken_for),
    )


def described(key: str, photo: Photo, folders: Folders) -> PhotoAnswer:
    return PhotoAnswer(
        key=key,
        path=printable(str(photo.path)),
        name=printable(photo.path.name),
        folder=printable(folders.name(photo.path.parent)),
        taken=photo.taken,
        width=photo.width,
        height=photo.height,
        version=photo.content.hex()[:12],
    )


def _hit(photo: Photo, folders: Folders, hit: Hit, found: Found) -> HitAnswer:
    return HitAnswer(
        **described(hit.key, photo, folders).model_dump(),
        score=None if found.min_score is None else hit.score,
        alike=[other.key for other in found.alike.get(hit.key, ())],
    )
