"""Files -> photos with vectors: the task that workers execute, in this process or elsewhere.

A file is read once: for the hash of its content, its metadata, and the image for the net.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from PIL import Image

from vsepp.data.image_file import (
    MOST_BYTES,
    ImageInMemory,
    orientation_of,
    reason_of,
    times_of,
    too_large,
)
from vsepp.data.pictures import View, opened, upright_rgb
from vsepp.data.resources import full_size, made_ahead
from vsepp.search.duplicates import SIGNATURE_SIDE
from vsepp.search.embedder import Embedder
from vsepp.search.sources.archives import InMemoryFile, Shard
from vsepp.search.sources.local import Broken, File, Skipped
from vsepp.search.stores.store import Embedding, Photo

FILES_PER_TASK = 256  # of a folder, for a worker: seconds of work, lost when it dies
FILES_PER_CHUNK = 8  # read by a thread: small, so that threads finish at about the same time
CHUNK_BYTES = 16_000_000  # of files in memory, after which a chunk gets no more
FILES_PER_BATCH = 32  # embedded and stored together
FILES_AHEAD = 4 * FILES_PER_BATCH  # read before the net needs them
LARGE_FILE = 16_000_000  # bytes: such files are read one at a time, whatever the number of threads
SIDEWAYS = (5, 6, 7, 8)  # EXIF orientations that exchange width and height

CachedEmbedding = Callable[[Photo], Embedding | None]
_reading_large_file = Lock()


class Task(Protocol):
    """Can be pickled. `ready` is called once in each worker, which then processes items with that many
    threads."""

    def ready(self, threads: int | None = None) -> Callable[[Iterable[Any]], Iterator[Any]]: ...


class Workers(Protocol):
    """Execute a task for every item and return the results in any order.

    When a worker dies, another one gets its items: their results may then come twice.
    """

    def map(self, task: Task, items: Iterable[Any]) -> Iterator[Any]: ...


class LocalWorkers:
    """This process."""

    def map(self, task: Task, items: Iterable[Any]) -> Iterator[Any]:
        return task.ready()(items)


def open_workers(place: str) -> LocalWorkers:
    """The entry point `local`; it needs no place."""
    return LocalWorkers()


@dataclass(frozen=True)
class FileBatch:
    """Files of a folder: what a worker gets at a time, unless it gets a shard."""

    files: tuple[File, ...]


def file_batches(files: list[File]) -> Iterator[FileBatch]:
    for start in range(0, len(files), FILES_PER_TASK):
        yield FileBatch(tuple(files[start : start + FILES_PER_TASK]))


@dataclass(frozen=True)
class ShardSummary:
    """How many images a shard contains, and how many of them are new."""

    images: int
    new: int
    deleted: tuple[str, ...] = ()  # known, but no longer in the shard
    skipped: Mapping[str, int] = field(default_factory=dict)  # by kind


@dataclass(frozen=True)
class EmbeddedBatch:
    """The results of some files, all of one shard or of none."""

    photos: list[tuple[Photo, Embedding]]
    broken: list[Broken]
    shard: File | None = None
    summary: ShardSummary | None = None  # with a shard's last batch


def no_cache(photo: Photo) -> None:
    """For workers that have no access to the collection."""


@dataclass(frozen=True)
class EmbedPhotos:
    """Reads, decodes and embeds. The model is pickled along, so that workers need none of their own."""

    embedder: Embedder
    cached_embedding: CachedEmbedding = no_cache

    def ready(
        self, threads: int | None = None
    ) -> Callable[[Iterable[FileBatch | Shard]], Iterator[EmbeddedBatch]]:
        return partial(self._run, threads=threads)

    def _run(
        self, items: Iterable[FileBatch | Shard], threads: int | None
    ) -> Iterator[EmbeddedBatch]:
        """Threads read and decode files while the net is busy."""
        ahead = FILES_AHEAD // FILES_PER_CHUNK
        chunks = made_ahead(_chunks(items), self._read, ahead, threads, _num_bytes)
        for batch in _batches(chunks):
            photos = [item for item in batch.items if isinstance(item, DecodedPhoto)]
            yield EmbeddedBatch(
                list(zip((item.photo for item in photos), self._embed(photos), strict=True)),
                [item for item in batch.items if isinstance(item, Broken)],
                batch.shard,
                batch.summary,
            )

    def _read(self, chunk: "_Chunk") -> "_Chunk":
        view = self.embedder.architecture.view
        items = [
            read_photo(item, view, self.cached_embedding) if isinstance(item, File) else item
            for item in chunk.items
        ]
        return replace(chunk, items=items)

    def _embed(self, photos: list["DecodedPhoto"]) -> Iterator[Embedding]:
        view = self.embedder.architecture.view
        images = [item.image for item in photos if isinstance(item.image, Image.Image)]
        vectors = iter(self.embedder.embed_pixels(map(view.cut, images)))
        for item in photos:
            if isinstance(item.image, Embedding):
                yield item.image
            else:
                yield Embedding(next(vectors), image_signature(item.image))


def image_signature(image: Image.Image) -> bytes:
    """For finding near-duplicates: vsepp.search.duplicates."""
    return image.resize((SIGNATURE_SIDE, SIGNATURE_SIDE), Image.Resampling.BOX).tobytes()


# ---- chunks of files ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chunk:
    """Files of one shard or of none, before and after they are read."""

    items: Sequence["File | DecodedPhoto | Broken"]
    shard: File | None = None
    summary: ShardSummary | None = None


def _num_bytes(chunk: _Chunk) -> int:
    """In memory before they are read: of a shard's images."""
    return sum(len(item.data) for item in chunk.items if isinstance(item, InMemoryFile))


def _chunks(items: Iterable[FileBatch | Shard]) -> Iterator[_Chunk]:
    for item in items:
        if isinstance(item, Shard):
            yield from _chunks_of_shard(item)
        else:
            files = iter(item.files)
            while chunk := list(islice(files, FILES_PER_CHUNK)):
                yield _Chunk(chunk)


def _chunks_of_shard(shard: Shard) -> Iterator[_Chunk]:
    paths, new = set(), 0
    items: list[File | Broken] = []
    skipped: Counter[str] = Counter()
    for file in shard.images():
        if isinstance(file, Skipped):
            skipped[file.kind] += 1
            continue
        if file.path not in paths and shard.is_new(file):
            items.append(file)
            new += 1
        paths.add(file.path)  # a tar may contain a name twice: the first counts
        if len(items) == FILES_PER_CHUNK or _num_bytes(_Chunk(items)) > CHUNK_BYTES:
            yield _Chunk(items, shard.file)
            items = []
    deleted = tuple(shard.known.keys() - paths)
    yield _Chunk(items, shard.file, ShardSummary(len(paths), new, deleted, skipped))


def _batches(chunks: Iterable[_Chunk]) -> Iterator[_Chunk]:
    for shard, group in groupby(chunks, key=lambda chunk: chunk.shard):
        items: list[File | DecodedPhoto | Broken] = []
        for chunk in group:
            items += chunk.items
            if chunk.summary or len(items) >= FILES_PER_BATCH:
                yield _Chunk(items, shard, chunk.summary)
                items = []
        if items:
            yield _Chunk(items)


# ---- one file -------------------------------------------------------------------------------


@dataclass(frozen=True)
class DecodedPhoto:
    """A photo with its image for the net, or with the embedding of an identical file."""

    photo: Photo
    image: Image.Image | Embedding


def read_photo(file: File, view: View, cached_embedding: CachedEmbedding) -> DecodedPhoto | Broken:
    """Whatever is wrong with a file is returned as the reason, not raised."""
    try:
        if file.size > MOST_BYTES:
            raise OSError(too_large(file.size))
        with _reading_large_file if file.size > LARGE_FILE else nullcontext():
            return _read_photo(file, view, cached_embedding)
    except Exception as error:
        cause = error.__cause__ or error
        return Broken(file.path, reason_of(cause if isinstance(cause, Exception) else error))


def _read_photo(file: File, view: View, cached_embedding: CachedEmbedding) -> DecodedPhoto:
    data = file.read()
    with opened(ImageInMemory(file.path, data), view.resize) as image:
        photo = _metadata(file, data, image)
        cached = cached_embedding(photo)
        return DecodedPhoto(photo, cached or view.shrunk(upright_rgb(image, done=image.close)))


def _metadata(file: File, data: bytes, image: Image.Image) -> Photo:
    width, height = full_size(image)
    if orientation_of(image) in SIDEWAYS:
        width, height = height, width
    taken = _time_taken(image) or datetime.fromtimestamp(file.modified / 1e9)
    return Photo(
        Path(file.path),
        file.size,
        file.modified,
        taken.isoformat(timespec="seconds"),
        width,
        height,
        hashlib.sha256(data).digest()[:16],  # the fastest where processors support it
    )


def _time_taken(image: Image.Image) -> datetime | None:
    """By the camera's clock; cameras without one write zeros."""
    for written in times_of(image):
        with suppress(ValueError):
            return datetime.strptime(written, "%Y:%m:%d %H:%M:%S")
    return None
