"""The routes under /api: search, photos, the collection, health."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, HTTPException, Query, Request, Response, UploadFile
from fastapi.responses import FileResponse

from vsepp.data.formats import NAMES
from vsepp.search.collection import Collection
from vsepp.search.remembered import Photo
from vsepp.service.answers import answered, described
from vsepp.service.folders import Folders
from vsepp.service.limits import Limits
from vsepp.service.patience import Patience
from vsepp.service.pictures import Thumbnails, media_type, uploaded
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

FOR_EVER = "private, max-age=31536000, immutable"  # the version in the address changes instead
NUM_WORDS = 40  # examples of what the model knows

api = APIRouter(prefix="/api", responses=documented())


@dataclass(frozen=True)
class Counter:
    """What stands behind the routes. Pictures are opened in other threads than those that search."""

    collection: Collection
    limits: Limits
    folders: Folders
    thumbnails: Thumbnails
    searching: Patience
    opening: Patience


def _counter(request: Request) -> Any:
    return request.app.state.counter


At = Annotated[Counter, Depends(_counter)]


@api.get("/search", responses=documented(404))
async def search(counter: At, asked: Annotated[Asked, Query()]) -> SearchAnswer:
    """By words, by the key of a photo, or by both."""
    if asked.like is not None:
        await _photo(counter, asked.like)
    return await counter.searching.run(answered, counter.collection, counter.folders, asked, None)


@api.post("/search")
async def search_by_upload(
    counter: At,
    asked: Annotated[Asked, Query()],
    photo: Annotated[UploadFile, File(description=f"One of {NAMES}.")],
) -> SearchAnswer:
    """By a photo of one's own, or by it and words. It is not kept."""
    if asked.like is not None:
        raise HTTPException(422, "Give a photo or the key of one, not both.")
    embedder = await counter.searching.run(lambda: counter.collection.embedder)
    short_side = embedder.architecture.resize
    image = await counter.opening.run(uploaded, await photo.read(), short_side)
    return await counter.searching.run(answered, counter.collection, counter.folders, asked, image)


@api.get("/photos/{key}", responses=documented(404))
async def photo(counter: At, key: Key) -> PhotoAnswer:
    """What is known of a photo."""
    found = await _photo(counter, key)
    return await counter.opening.run(described, key, found, counter.folders)


@api.get(
    "/photos/{key}/file",
    response_class=FileResponse,
    responses={**documented(404), 200: {"content": {"image/*": {}}}},
)
async def file(counter: At, key: Key) -> FileResponse:
    """The photo as it is. Only files of the collection are delivered, and only pictures."""
    found = await _photo(counter, key)
    kind = await counter.opening.run(media_type, found.path)
    if kind is None:
        raise _gone(found)
    name = printable(found.path.name)
    return FileResponse(
        found.path, media_type=kind, filename=name, content_disposition_type="inline"
    )


@api.get(
    "/photos/{key}/thumbnail",
    response_class=Response,
    responses={**documented(404), 200: {"content": {"image/jpeg": {}}}},
)
async def thumbnail(
    counter: At,
    key: Key,
    side: Annotated[
        Literal["320", "640", "1600"], Query(description="Pixels, the longer side.")
    ] = "320",
    version: Annotated[str, Query(max_length=40, description="Of the photo: it may be kept.")] = "",
) -> Response:
    """The photo upright, as a JPEG, not larger than asked."""
    found = await _photo(counter, key)
    made = await counter.opening.run(counter.thumbnails.of, found, int(side))
    if made is None:
        raise _gone(found)
    current = version == found.content.hex()[:12]
    return Response(
        made,
        media_type="image/jpeg",
        headers={"Cache-Control": FOR_EVER if current else "no-cache"},
    )


@api.get("/collection")
async def collection(counter: At) -> CollectionAnswer:
    """What a page wants to know before the first search."""
    return await counter.searching.run(_introduced, counter)


@api.get("/health")
async def health(counter: At) -> Health:
    """Whether the collection can be read."""
    photos = await counter.opening.run(len, counter.collection)
    return Health(status="ok", photos=photos)


def _introduced(counter: Counter) -> CollectionAnswer:
    known = counter.collection.embedder.vocabulary.words()
    return CollectionAnswer(
        name=printable(counter.collection.path.stem),
        photos=len(counter.collection),
        folders=[
            Folder(folder=printable(folder), photos=photos)
            for folder, photos in counter.folders.counts()
        ],
        words=[word for word in known if len(word) > 3][:NUM_WORDS],
        upload_bytes=counter.limits.upload_bytes,
    )


async def _photo(counter: Counter, key: str) -> Photo:
    found = await counter.opening.run(counter.collection.photo, key)
    if found is None:
        raise HTTPException(404, f"There is no photo {key}.")
    return found


def _gone(photo: Photo) -> HTTPException:
    return HTTPException(
        404, printable(f"{photo.path.name} is not there any more, or is no picture now.")
    )
