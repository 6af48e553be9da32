"""The routes under /api: search, photos, the collection, health."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, HTTPException, Query, Request, Response, UploadFile

from vsepp.data.image_file import NAMES
from vsepp.errors import WrongRequest
from vsepp.search.collection import Collection
from vsepp.search.stores.store import Photo
from vsepp.service.answers import Folders, photo_answer, search_page
from vsepp.service.decoder_pool import DecoderPool, ThumbnailCache
from vsepp.service.files import photo_response
from vsepp.service.limits import Limits, TimedThreads
from vsepp.service.problems import documented, printable
from vsepp.service.schemas import (
    CollectionAnswer,
    Folder,
    Health,
    Key,
    PhotoAnswer,
    SearchAnswer,
    SearchRequest,
)

CACHE_FOREVER = "private, max-age=31536000, immutable"  # a changed photo has another URL
NUM_WORDS = 40  # that the model knows, as examples

api = APIRouter(prefix="/api", responses=documented())


@dataclass(frozen=True)
class ServiceState:
    """Shared by all requests. Each kind of slow work has its own threads."""

    collection: Collection
    limits: Limits
    folders: Folders
    searches: TimedThreads
    lookups: TimedThreads
    health: TimedThreads
    uploads: DecoderPool
    photos: DecoderPool
    thumbnails: ThumbnailCache

    def close(self) -> None:
        for each in (self.searches, self.lookups, self.health, self.uploads, self.photos):
            each.close()


def _state(request: Request) -> Any:
    return request.app.state.service


State = Annotated[ServiceState, Depends(_state)]


@api.get("/search", responses=documented(404))
async def search(state: State, query: Annotated[SearchRequest, Query()]) -> SearchAnswer:
    """By words, by the key of a photo, or by both."""
    try:
        return await state.searches.run(search_page, state.collection, state.folders, query, None)
    except WrongRequest:
        if query.like is not None:
            await _photo(state, query.like)  # 404 if it does not exist (any more)
        raise


@api.post("/search")
async def search_by_upload(
    state: State,
    query: Annotated[SearchRequest, Query()],
    photo: Annotated[UploadFile, File(description=f"One of {NAMES}.")],
) -> SearchAnswer:
    """By an uploaded photo, optionally with words. It is not stored."""
    if query.like is not None:
        raise HTTPException(422, "Give a photo or the key of one, not both.")
    embedder = await state.searches.run(lambda: state.collection.embedder)
    short_side = embedder.architecture.resize
    image = await state.uploads.decode_upload(photo.file, photo.size or 0, short_side)
    return await state.searches.run(search_page, state.collection, state.folders, query, image)


@api.get("/photos/{key}", responses=documented(404))
async def photo(state: State, key: Key) -> PhotoAnswer:
    """A photo's metadata."""
    found = await _photo(state, key)
    return await state.lookups.run(photo_answer, key, found, state.folders)


@api.get(
    "/photos/{key}/file",
    response_class=Response,
    responses={**documented(404), 200: {"content": {"image/*": {}}}},
)
async def file(state: State, key: Key) -> Response:
    """The original file. Only files of the collection are sent, and only images."""
    found = await _photo(state, key)
    response = await state.lookups.run(photo_response, found.path)
    if response is None:
        raise _gone(found)
    return response


@api.get(
    "/photos/{key}/thumbnail",
    response_class=Response,
    responses={**documented(404), 200: {"content": {"image/jpeg": {}}}},
)
async def thumbnail(
    state: State,
    key: Key,
    side: Annotated[
        Literal["320", "640", "1600"], Query(description="Pixels of the longer side.")
    ] = "320",
    version: Annotated[
        str, Query(max_length=40, description="Of the photo: lets browsers cache it.")
    ] = "",
) -> Response:
    """The photo, upright and no larger than requested, as a JPEG."""
    found = await _photo(state, key)
    jpeg = await state.thumbnails.get(found, int(side))
    if jpeg is None:
        raise _gone(found)
    current = version == found.content.hex()[:12]
    return Response(
        jpeg,
        media_type="image/jpeg",
        headers={"Cache-Control": CACHE_FOREVER if current else "no-cache"},
    )


@api.get("/collection")
async def collection(state: State) -> CollectionAnswer:
    """What the page needs before the first search."""
    return await state.searches.run(_describe_collection, state)


@api.get("/health")
async def health(state: State) -> Health:
    """Whether the collection can be read."""
    photos = await state.health.run(len, state.collection)
    return Health(status="ok", photos=photos)


def _describe_collection(state: ServiceState) -> CollectionAnswer:
    known = state.collection.embedder.vocabulary.words()
    return CollectionAnswer(
        name=PurePath(state.collection.name).stem,
        photos=len(state.collection),
        folders=[Folder(folder=folder, photos=photos) for folder, photos in state.folders.counts()],
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
        404, printable(f"{photo.path.name} no longer exists, or is not an image now.")
    )
