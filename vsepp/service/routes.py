"""The routes under /api: search, photos, the collection, health."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, HTTPException, Query, Request, Response, UploadFile

from vsepp.data.image_headers import NAMES
from vsepp.errors import WrongRequest
from vsepp.search.collection import Collection
from vsepp.search.remembered import Photo
from vsepp.service.answers import answered, described
from vsepp.service.files import opened_photo
from vsepp.service.folders import Folders
from vsepp.service.limits import Limits
from vsepp.service.patience import Patience
from vsepp.service.problems import documented, printable
from vsepp.service.schemas import (
    Asked,
    CollectionAnswer,
    Folder,
    Health,
    Key,
    PhotoAnswer,
    SearchAnswer,
)
from vsepp.service.thumbnails import Thumbnails
from vsepp.service.workers import Workers

FOR_EVER = "private, max-age=31536000, immutable"  # the version in the address changes instead
NUM_WORDS = 40  # examples of what the model knows

api = APIRouter(prefix="/api", responses=documented())


@dataclass(frozen=True)
class ServiceState:
    """What the routes work with. Nothing that is slow shares its threads with anything else."""

    collection: Collection
    limits: Limits
    folders: Folders
    searching: Patience
    lookups: Patience
    health: Patience
    uploads: Workers
    pictures: Workers
    thumbnails: Thumbnails

    def close(self) -> None:
        for each in (self.searching, self.lookups, self.health, self.uploads, self.pictures):
            each.close()


def _state(request: Request) -> Any:
    return request.app.state.service


At = Annotated[ServiceState, Depends(_state)]


@api.get("/search", responses=documented(404))
async def search(state: At, asked: Annotated[Asked, Query()]) -> SearchAnswer:
    """By words, by the key of a photo, or by both."""
    try:
        return await state.searching.run(answered, state.collection, state.folders, asked, None)
    except WrongRequest:
        if asked.like is not None:
            await _photo(state, asked.like)  # not there, or not any more
        raise


@api.post("/search")
async def search_by_upload(
    state: At,
    asked: Annotated[Asked, Query()],
    photo: Annotated[UploadFile, File(description=f"One of {NAMES}.")],
) -> SearchAnswer:
    """By a photo of one's own, or by it and words. It is not kept."""
    if asked.like is not None:
        raise HTTPException(422, "Give a photo or the key of one, not both.")
    embedder = await state.searching.run(lambda: state.collection.embedder)
    short_side = embedder.architecture.resize
    image = await state.uploads.uploaded(photo.file, photo.size or 0, short_side)
    return await state.searching.run(answered, state.collection, state.folders, asked, image)


@api.get("/photos/{key}", responses=documented(404))
async def photo(state: At, key: Key) -> PhotoAnswer:
    """What is known of a photo."""
    found = await _photo(state, key)
    return await state.lookups.run(described, key, found, state.folders)


@api.get(
    "/photos/{key}/file",
    response_class=Response,
    responses={**documented(404), 200: {"content": {"image/*": {}}}},
)
async def file(state: At, key: Key) -> Response:
    """The photo as it is. Only files of the collection are delivered, and only pictures."""
    found = await _photo(state, key)
    opened = await state.lookups.run(opened_photo, found.path)
    if opened is None:
        raise _gone(found)
    return opened


@api.get(
    "/photos/{key}/thumbnail",
    response_class=Response,
    responses={**documented(404), 200: {"content": {"image/jpeg": {}}}},
)
async def thumbnail(
    state: At,
    key: Key,
    side: Annotated[
        Literal["320", "640", "1600"], Query(description="Pixels, the longer side.")
    ] = "320",
    version: Annotated[str, Query(max_length=40, description="Of the photo: it may be kept.")] = "",
) -> Response:
    """The photo upright, as a JPEG, not larger than asked."""
    found = await _photo(state, key)
    made = await state.thumbnails.of(found, int(side))
    if made is None:
        raise _gone(found)
    current = version == found.content.hex()[:12]
    return Response(
        made,
        media_type="image/jpeg",
        headers={"Cache-Control": FOR_EVER if current else "no-cache"},
    )


@api.get("/collection")
async def collection(state: At) -> CollectionAnswer:
    """What a page wants to know before the first search."""
    return await state.searching.run(_introduced, state)


@api.get("/health")
async def health(state: At) -> Health:
    """Whether the collection can be read."""
    photos = await state.health.run(len, state.collection)
    return Health(status="ok", photos=photos)


def _introduced(state: ServiceState) -> CollectionAnswer:
    known = state.collection.embedder.vocabulary.words()
    return CollectionAnswer(
        name=printable(state.collection.path.stem),
        photos=len(state.collection),
        folders=[
            Folder(folder=printable(folder), photos=photos)
            for folder, photos in state.folders.counts()
        ],
        words=[word for word in known if len(word) > 3][:NUM_WORDS],
        upload_bytes=state.limits.upload_bytes,
    )


async def _photo(state: ServiceState, key: str) -> Photo:
    found = await state.lookups.run(state.collection.photo, key)
    if found is None:
        raise HTTPException(404, f"There is no photo {key}.")
    return found


def _gone(photo: Photo) -> HTTPException:
    return HTTPException(
        404, printable(f"{photo.path.name} is not there any more, or is no picture now.")
    )
